"""Facts about Spark's aggregate functions, in one table: which rewrites are valid for which function.

| column     | meaning                                                                                                      |
|------------|--------------------------------------------------------------------------------------------------------------|
| splits     | `yes`: a partial aggregate per partition and a final one over the partial states give the same result        |
| merged_by  | the partial state is one value of the result's type, and this function merges several such values            |
| duplicates | `ignored`: a further row with the same argument does not change the result                                   |
| order      | `ignored`: the result does not depend on the order of rows, up to the last bits of floating-point sums       |
| distinct   | `rows`: f(DISTINCT x) may be computed as f(x) over distinct rows                                             |
| empty      | the result over no rows: `null`, `zero` or an empty `list`                                                   |
| state      | the aggregation state: a few `numbers`; a `value` of each argument; how often each value occurs (`counts`);  |
|            | a `list` or another object that grows with the group                                                         |
| picks      | the result is one of the group's values: the least or greatest `value` itself, the value of the row that is  |
|            | extreme `by_key`, or of a row that is chosen `by_position`                                                   |
| extreme    | whether a pick is by the least (`min`) or the greatest (`max`) value                                         |
| one_row    | the result over one row: the argument itself (`value`), or the argument as a `sum`, `mean` or `count` of one |
| result     | for estimates: a `count`, a `mean` (between the least and the greatest argument), one `value` of the         |
|            | argument, a `list`, or a grouping `level`                                                                    |

`-` stands for no, or for not known; either way no rewrite relies on it. A function that the table does not have, such as one
that a user registered, has no facts at all. Whether a function is deterministic is in `signatures.tsv`.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass

EmptyResult = Literal["null", "zero", "list"]
State = Literal["numbers", "value", "counts", "list"]
Pick = Literal["value", "by_key", "by_position"]
Extreme = Literal["min", "max"]
OneRowResult = Literal["value", "sum", "mean", "count"]
Result = Literal["count", "mean", "value", "list", "level"]


@dataclass(frozen=True, slots=True)
class AggregateFacts:
    """What is known about an aggregate function. See the table at the top of this file."""

    splits: bool
    merged_by: str | None
    ignores_duplicates: bool
    ignores_order: bool
    distinct_is_over_distinct_rows: bool
    over_no_rows: EmptyResult | None
    state: State | None
    picks: Pick | None
    extreme: Extreme | None
    over_one_row: OneRowResult | None
    result: Result | None

    @property
    def never_null(self) -> bool:
        return self.result in ("count", "list", "level")

    @property
    def picks_a_row(self) -> bool:
        """Is the result a value of one row, and does a choice among several rows remain open?"""
        return self.picks in ("by_key", "by_position")


NOTHING_KNOWN = AggregateFacts(False, None, False, False, False, None, None, None, None, None, None)

_TABLE = """
function               splits  merged_by  duplicates  order    distinct  empty  state    picks        extreme  one_row  result
any                    yes     bool_or    ignored     ignored  rows      null   numbers  -            -        value    -
any_value              yes     -          -           -        -         null   value    by_position  -        value    value
approx_count_distinct  -       -          -           ignored  -         zero   numbers  -            -        -        count
approx_percentile      -       -          -           -        -         null   list     -            -        -        mean
array_agg              -       -          -           -        -         list   list     -            -        -        list
avg                    yes     -          -           ignored  rows      null   numbers  -            -        mean     mean
bit_and                yes     bit_and    ignored     ignored  rows      null   numbers  -            -        -        -
bit_or                 yes     bit_or     ignored     ignored  rows      null   numbers  -            -        -        -
bit_xor                yes     bit_xor    -           ignored  -         null   numbers  -            -        -        -
bool_and               yes     bool_and   ignored     ignored  rows      null   numbers  -            -        value    -
bool_or                yes     bool_or    ignored     ignored  rows      null   numbers  -            -        value    -
collect_list           -       -          -           -        -         list   list     -            -        -        list
collect_set            -       -          ignored     -        rows      list   list     -            -        -        list
corr                   -       -          -           ignored  -         null   numbers  -            -        -        -
count                  yes     sum        -           ignored  rows      zero   numbers  -            -        count    count
count_if               -       -          -           ignored  -         zero   numbers  -            -        -        count
covar_pop              -       -          -           ignored  -         null   numbers  -            -        -        -
covar_samp             -       -          -           ignored  -         null   numbers  -            -        -        -
every                  yes     bool_and   ignored     ignored  rows      null   numbers  -            -        value    -
first                  yes     -          -           -        -         null   value    by_position  -        value    value
first_value            yes     -          -           -        -         null   value    by_position  -        value    value
grouping               -       -          -           ignored  -         -      -        -            -        -        level
grouping_id            -       -          -           ignored  -         -      -        -            -        -        level
histogram_numeric      -       -          -           -        -         -      list     -            -        -        -
kurtosis               -       -          -           ignored  -         null   numbers  -            -        -        -
last                   yes     -          -           -        -         null   value    by_position  -        value    value
last_value             yes     -          -           -        -         null   value    by_position  -        value    value
listagg                -       -          -           -        -         -      list     -            -        -        -
max                    yes     max        ignored     ignored  rows      null   value    value        max      value    value
max_by                 yes     -          -           -        -         null   value    by_key       max      -        -
mean                   yes     -          -           ignored  rows      null   numbers  -            -        mean     mean
median                 -       -          -           ignored  -         null   counts   -            -        -        mean
min                    yes     min        ignored     ignored  rows      null   value    value        min      value    value
min_by                 yes     -          -           -        -         null   value    by_key       min      -        -
mode                   -       -          -           -        -         -      counts   -            -        -        value
percentile             -       -          -           ignored  -         null   counts   -            -        -        mean
percentile_approx      -       -          -           -        -         null   list     -            -        -        mean
percentile_cont        -       -          -           ignored  -         null   counts   -            -        -        -
percentile_disc        -       -          -           ignored  -         null   counts   -            -        -        -
regr_count             -       -          -           -        -         zero   numbers  -            -        -        count
skewness               -       -          -           ignored  -         null   numbers  -            -        -        -
some                   yes     bool_or    ignored     ignored  rows      null   numbers  -            -        value    -
std                    -       -          -           ignored  rows      null   numbers  -            -        -        -
stddev                 yes     -          -           ignored  rows      null   numbers  -            -        -        -
stddev_pop             yes     -          -           ignored  rows      null   numbers  -            -        -        -
stddev_samp            yes     -          -           ignored  rows      null   numbers  -            -        -        -
string_agg             -       -          -           -        -         -      list     -            -        -        -
sum                    yes     sum        -           ignored  rows      null   numbers  -            -        sum      -
try_avg                -       -          -           ignored  rows      null   numbers  -            -        mean     -
try_sum                -       -          -           ignored  rows      null   numbers  -            -        sum      -
var_pop                yes     -          -           ignored  rows      null   numbers  -            -        -        -
var_samp               yes     -          -           ignored  rows      null   numbers  -            -        -        -
variance               yes     -          -           ignored  rows      null   numbers  -            -        -        -
"""

# Aggregates that no rewrite knows anything about.
_WITHOUT_FACTS = """
approx_top_k approx_top_k_accumulate approx_top_k_combine bitmap_and_agg bitmap_construct_agg bitmap_or_agg
collect_union count_min_sketch hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float measure regr_avgx regr_avgy
regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg theta_intersection_agg
theta_sketch_agg theta_union_agg tuple_intersection_agg_double tuple_intersection_agg_integer
tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer vector_avg
vector_sum
"""


def aggregate_facts(function: str) -> AggregateFacts:
    """The facts about an aggregate function, by its Spark name."""
    return _FACTS.get(function, NOTHING_KNOWN)


def parse_facts(text: str) -> dict[str, AggregateFacts]:
    """The facts by function. Raises InternalError if a line is incomplete, has an unknown word or contradicts itself."""
    heading, *lines = text.strip().splitlines()
    facts: dict[str, AggregateFacts] = {}
    for line in lines:
        function, *cells = line.split()
        if len(cells) != len(heading.split()) - 1 or function in facts:
            raise InternalError(f"the facts about the aggregate {function} are incomplete, or there twice")
        facts[function] = _parse_line(function, cells)
    for function, each in facts.items():
        if each.merged_by is not None and facts.get(each.merged_by, NOTHING_KNOWN).merged_by != each.merged_by:
            raise InternalError(f"{function} is merged by {each.merged_by}, which does not merge itself")
    return facts


def _parse_line(function: str, cells: list[str]) -> AggregateFacts:
    splits, merged_by, duplicates, order, distinct, *words = (None if cell == "-" else cell for cell in cells)
    kinds: tuple[Any, ...] = (EmptyResult, State, Pick, Extreme, OneRowResult, Result)
    flags = ((splits, "yes"), (duplicates, "ignored"), (order, "ignored"), (distinct, "rows"))
    known = all(word in (None, yes) for word, yes in flags)
    if not known or not all(word is None or word in get_args(kind) for word, kind in zip(words, kinds, strict=True)):
        raise InternalError(f"the facts about the aggregate {function} have an unknown word: {' '.join(cells)}")
    typed: Any = words
    facts = AggregateFacts(bool(splits), merged_by, bool(duplicates), bool(order), bool(distinct), *typed)
    contradiction = _contradiction(facts)
    if contradiction is not None:
        raise InternalError(f"the facts about the aggregate {function} contradict themselves: {contradiction}")
    return facts


def _contradiction(facts: AggregateFacts) -> str | None:
    """Why the facts cannot hold together; None if they can."""
    rules = (
        (facts.merged_by is None or facts.splits, "what is merged also splits"),
        (
            not facts.splits or facts.state in ("numbers", "value"),
            "what splits has a state of a fixed number of values",
        ),
        ((facts.state == "value") == (facts.picks is not None), "a state of one value is what a pick has"),
        ((facts.picks in ("value", "by_key")) == (facts.extreme is not None), "these picks are by an extreme"),
        (not facts.ignores_duplicates or facts.distinct_is_over_distinct_rows, "DISTINCT changes nothing"),
        ((facts.result == "count") == (facts.over_no_rows == "zero"), "a count of no rows is zero"),
        ((facts.result == "list") == (facts.over_no_rows == "list"), "a list of no rows is empty"),
        (facts.over_one_row != "count" or facts.result == "count", "over one row it is a count"),
    )
    return next((reason for holds, reason in rules if not holds), None)


_FACTS = parse_facts(_TABLE) | dict.fromkeys(_WITHOUT_FACTS.split(), NOTHING_KNOWN)
