"""Super-operators on Spark: generated queries of their shapes return the rows of plain Spark, with a super-operator
wherever one matches. Keys include NULL, -0.0, NaN, decimals and strings; groups satisfy no predicate, one, or all."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.support.rule_differential import differences, quick
from unshuffle import Session
from unshuffle.cardinality.estimate import estimate
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.errors import Source
from unshuffle.explore.join_reordering import gather_joins
from unshuffle.explore.picked_rows import pick_from_rows
from unshuffle.explore.rules import EXPLORATION, SUPER_OPERATOR_NAMES
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize
from unshuffle.plan.logical import GroupBy, Join, MultiJoin, Plan, Reference, Shared, walk
from unshuffle.plan.rebuild import with_inputs
from unshuffle.search.memo import Group, Memo
from unshuffle.search.trace import Trace

pytestmark = pytest.mark.spark

QUERIES = 240
FIRED: Counter[str] = Counter()


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("diamonds")
    draw = random.Random(7)

    def column(values: list[Any], rows: int) -> list[Any]:
        return [draw.choice(values) for _ in range(rows)]

    rows = 60
    table = pa.table(
        {
            "k": column(["a", "ä", "日本", "", None, "a "], rows),
            "i": pa.array(column([0, 1, 2, 3, None], rows), pa.int32()),
            "x": column([0.0, -0.0, float("nan"), 1.5, None], rows),
            "d": pa.array(
                column([Decimal("1.50"), Decimal("-2.25"), Decimal("0.00"), None], rows), pa.decimal128(9, 2)
            ),
            "n": pa.array(column([1, 5, 7, 1 << 40, None], rows), pa.int64()),
            "s": column(["b", "bb", "Ω", None], rows),
            "id": pa.array(range(rows), pa.int32()),
        }
    )
    for name, content in (("t", table), ("z", table.slice(0, 0))):
        pq.write_table(content, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    with quick(spark):
        yield Session(spark, tables=Path(folder), effort="full")
    for name in ("t", "z"):
        spark.catalog.dropTempView(name)


KEYS = (("k",), ("i",), ("x",), ("d",), ("k", "i"), ("x", "i"))
FILTERS = (
    "i > 1",
    "x < 2",
    "s like 'b%'",
    "n is null",
    "n = 5 or i = 0",
    "i <> 2 and n > 1",
    "1 = 0",
    "x = 0",
    "k <> 'a'",
)
AGGREGATES = (
    "count(*)", "count(x)", "sum(i)", "sum(d)", "min(x)", "max(x)", "max(s)", "min(n)", "max(d)",
    "count(*) filter (where i > 0)", "max(n + i)",
)  # fmt: skip
KINDS = ("join", "left join", "right join", "full join", "left semi join", "left anti join")


class Queries:
    """Draws query texts over tables, or over the first rows of a table."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._table = self._draw.choice(("t", "t", "t", "t", "z", "f"))

    def text(self, shape: str) -> str:
        first = f"with f as (select * from t order by id limit {self.pick(1, 20, 40)}) " if self._table == "f" else ""
        return first + str(getattr(self, shape)())

    def pick(self, *choices: Any) -> Any:
        return self._draw.choice(choices)

    def where(self, often: float = 0.5) -> str:
        """Often with a conjunct that other branches have too."""
        if self._draw.random() >= often:
            return ""
        return f" where {self.pick('', '', 'id > 5 and ')}{self.pick(*FILTERS)}{self.pick('', '', ' and x < 2')}"

    def grouping(self, keys: tuple[str, ...], names: str, aggregates: int = 2, filtered: float = 0.5) -> str:
        """`select p0, ..., a0, ... group by ...`, sometimes with HAVING."""
        calls = [f"{self.pick(*AGGREGATES)} {names}a{i}" for i in range(aggregates)]
        by = [f"{key} {names}{place}" for place, key in enumerate(keys)]
        having = self.pick("", "", f" having {self.pick('count(*) > 2', 'max(i) > 1', 'min(n) is not null')}")
        return f"select {', '.join([*by, *calls])} from {self._table}{self.where(filtered)} group by {', '.join(keys)}{having}"

    def on(self, left: str, right: str, count: int) -> str:
        return " and ".join(f"l.{left}{i} {self.pick('=', '=', '<=>')} r.{right}{i}" for i in range(count))

    def union(self) -> str:
        keys = self.pick(*KEYS, ("upper(k)", "coalesce(i, 0)"), ("substring(s, 1, 1)",))
        branches = []
        for place in range(self.pick(2, 2, 3)):
            values = ["count(*)", self.pick("sum(i)", "max(n)", "min(i)"), f"'{place}'"]
            names = ", ".join(f"{key} k{i}" for i, key in enumerate(keys))
            calls = ", ".join(f"{value} v{i}" for i, value in enumerate(values))
            branches.append(f"select {names}, {calls} from {self._table}{self.where()} group by {', '.join(keys)}")
        if self._draw.random() < 0.3:
            names = ", ".join(f"{key} k{i}" for i, key in enumerate(keys))
            unrelated = f"select {names}, cast(i as bigint), cast(id as bigint), s from {self._table}{self.where()}"
            branches.insert(self.pick(0, 1, 2), unrelated)
        return " union all ".join(branches)

    def join(self) -> str:
        keys = self.pick(*KEYS)
        kind = self.pick(*KINDS)
        more = self.pick("", "", " and l.pa0 is not null", " and (l.pa1 is null or r.qa1 is not null)")
        left, right = self.grouping(keys, "p"), self.grouping(keys, "q")
        return f"select * from ({left}) l {kind} ({right}) r on {self.on('p', 'q', len(keys))}{more}"

    def group_existence(self) -> str:
        """Groups by whether there are certain rows, or the same keys elsewhere."""
        keys = self.pick(*KEYS)
        listed = ", ".join(keys)
        if self._draw.random() < 0.4:
            how = self.pick("intersect", "except")
            calls = self.pick("", ", count(*)", ", min(n)")
            sides = [f"select {listed}{calls} from {self._table}{self.where(0.8)} group by {listed}" for _ in range(2)]
            return f"{sides[0]} {how} {sides[1]}"
        rows = ", ".join(f"{key} q{i}" for i, key in enumerate(keys))
        more = self.pick("", "", " and l.pa0 is not null")
        return (
            f"select * from ({self.grouping(keys, 'p')}) l {self.pick('left semi join', 'left anti join')} "
            f"(select {rows} from {self._table}{self.where(0.8)}) r on {self.on('p', 'q', len(keys))}{more}"
        )

    def written_twice(self) -> str:
        """A join of the rows with themselves as the input of both sides, under other conditions."""
        keys = self.pick(("x.k",), ("x.i",), ("x.k", "y.s"))
        conditions = self.pick(("x.i = y.i",), ("x.i = y.i", "x.k = y.k"), ("x.k <=> y.k",))
        sides = []
        for name in "pq":
            on = " and ".join(self._draw.sample(conditions, len(conditions)))
            more = self.pick("", " and x.id < y.id", " and y.n > 1")
            where = self.pick("", " where x.n > 1", " where y.d > 0 and x.s like 'b%'", " where 1 = 0")
            by = ", ".join(f"{key} {name}{place}" for place, key in enumerate(keys))
            calls = f"count(*) {name}n, {self.pick('max(y.n)', 'sum(x.d)', 'min(x.x)', 'max(x.n + y.i)')} {name}m"
            rows = f"{self._table} x join {self._table} y on {on}{more}{where}"
            sides.append(f"select {by}, {calls} from {rows} group by {', '.join(keys)}")
        if self._draw.random() < 0.4:
            return " union all ".join(side.replace(" qm", " pm") for side in sides)
        return f"select * from ({sides[0]}) l {self.pick(*KINDS)} ({sides[1]}) r on {self.on('p', 'q', len(keys))}"

    def first_few(self) -> str:
        """The first rows of each group, with aggregates of all of its rows."""
        key, where = self.pick("k", "i", "n"), self.pick("", "", " where i > 0")
        order = self.pick("n desc, id", "x, id", "id")
        ranked = f"select {key} p0, s, id, row_number() over (partition by {key} order by {order}) place from {self._table}{where}"
        groups = (
            f"select {key} q0, {self.pick('count(*)', 'max(n)', 'sum(d)')} m from {self._table}{where} group by {key}"
        )
        kind = self.pick("join", "left join", "left semi join", "left anti join")
        first = f"select * from ({ranked}) where place <= {self.pick(1, 2, 3)}"
        return f"select * from ({first}) l {kind} ({groups}) r on l.p0 {self.pick('=', '<=>')} r.q0{self.pick('', ' and r.m > 1')}"

    def totals(self) -> str:
        parts = [f"(select {self.pick(*AGGREGATES)} v{i} from {self._table}{self.where()}) t{i}" for i in range(3)]
        return f"select * from {' cross join '.join(parts)}"

    def back(self) -> str:
        keys = self.pick(*KEYS)
        aggregates = self.pick("min(n)", "max(s)", "max(x)", "sum(d)", "count(*)")
        by = ", ".join(f"{key} q{i}" for i, key in enumerate(keys))
        groups = f"select {by}, {aggregates} m from {self._table} group by {', '.join(keys)}{self.pick('', ' having count(*) > 3')}"
        rows = (
            f"select {', '.join(f'{key} p{i}' for i, key in enumerate(keys))}, id, n from {self._table}{self.where()}"
        )
        kind = self.pick("join", "left join", "left semi join", "left anti join")
        more = self.pick("", " and l.id > 10", " and r.m is not null")
        return f"select * from ({rows}) l {kind} ({groups}) r on {self.on('p', 'q', len(keys))}{more}"

    def extreme(self) -> str:
        value, kind = self.pick("n", "x", "s"), self.pick("join", "left semi join")
        groups = f"select i q0, {self.pick('min', 'max')}({value}) m from {self._table} group by i"
        return f"select * from (select * from {self._table}{self.where()}) l {kind} ({groups}) r on l.i = r.q0 and l.{value} = r.m"

    def granularities(self) -> str:
        kind = self.pick("join", "left join", "left semi join", "left anti join")
        where = self.where(0.3)
        fine = f"select k p0, i, count(*) n, sum(d) s from {self._table}{where} group by k, i"
        coarse = f"select k q0, sum(d) m, count(x) c, max(s) w from {self._table}{where} group by k"
        return f"select * from ({fine}) l {kind} ({coarse}) r on l.p0 {self.pick('=', '<=>')} r.q0"

    def grouped_union(self) -> str:
        keys = self.pick(*KEYS)
        parts = " union all ".join(f"select * from {self._table}{self.where(0.8)}" for _ in range(self.pick(2, 3)))
        calls = ", ".join(self.pick("count(*)", "sum(d)", "sum(i)", "min(x)", "max(s)", "count(n)") for _ in range(2))
        return f"select {', '.join(keys)}, {calls} from ({parts}) group by {', '.join(keys)}"

    def existence(self) -> str:
        key, value = self.pick("i", "k", "x"), self.pick("n", "x", "d", "s")
        more = self.pick("", f" and r.{value} {self.pick('<>', '<', '>', '<=', '>=')} l.{value}")
        kind = self.pick("left semi join", "left anti join")
        sides = [f"(select * from {self._table}{self.where(0.4)}) {name}" for name in "lr"]
        return f"select * from {sides[0]} {kind} {sides[1]} on l.{key} {self.pick('=', '<=>')} r.{key}{more}"

    def first(self) -> str:
        order = self.pick("n desc, id", "x, id", "id")
        ranked = f"select k q0, s, n m, row_number() over (partition by k order by {order}) place from {self._table}"
        return (
            f"select l.id, l.k, r.s, r.m from (select * from {self._table}{self.where()}) l "
            f"{self.pick('join', 'left join')} (select * from ({ranked}) where place = 1) r on l.k = r.q0"
        )


SHAPES = (
    "union", "union", "join", "join", "group_existence", "group_existence", "written_twice", "first_few", "totals", "back", "back", "extreme", "granularities", "grouped_union", "existence", "first"
)  # fmt: skip


def forced(session: Session, query: str, rules: Collection[str] = SUPER_OPERATOR_NAMES) -> Plan:
    """The plan that uses an alternative of these rules wherever there is one."""
    (output,) = session.pipeline.bind(query).outputs
    numbers = ColumnNumbers(1 + max(column.id for node in walk(output.plan) for column in node.columns))
    memo = Memo(estimate, EXPLORATION, numbers, Trace())
    root = memo.insert(gather_joins(normalize(output.plan, Rewriting(numbers))))
    FIRED.update(memo.trace.rules)
    shared: dict[int, Shared] = {}

    def written(group: Group) -> Plan:
        ways = [each for each in group.expressions if not isinstance(each, MultiJoin)]
        chosen = next((each for each in ways if getattr(memo.made_by(each), "__name__", None) in rules), ways[0])
        if isinstance(chosen, Reference):
            rowset: Any = chosen.rowset
            if rowset.number not in shared:
                shared[rowset.number] = Shared(rowset.name, written(rowset))
            return Reference(shared[rowset.number], chosen.columns)
        return with_inputs(chosen, [written(child) for child in chosen.children])  # type: ignore[arg-type]

    return written(root)


@pytest.mark.parametrize("part", range(4))
def test_rows_are_those_of_plain_spark(session: Session, part: int) -> None:
    drawn = []
    for seed in range(part * QUERIES // 4, (part + 1) * QUERIES // 4):
        drawn.append(Queries(seed).text(SHAPES[seed % len(SHAPES)]))
    found = differences(session, [(query, forced(session, query)) for query in dict.fromkeys(drawn)])
    assert not found, "\n".join(f"{query}\n  {rows}" for query, rows in found.items())


def test_every_super_operator_was_tried() -> None:
    """Runs after the tests above, in the same run."""
    few = {rule: FIRED[rule] for rule in SUPER_OPERATOR_NAMES - {"several_outputs"} if FIRED[rule] < 6}
    assert not few


UNSAFE = {
    "100 / i": "i <> 0",
    "cast(s as int)": "s rlike '^[0-9]+$'",
    "cast(n as int)": "n < 100",
    "cast(n as int) * 1000000": "n < 100",
}


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("expression", UNSAFE)
def test_an_expression_is_computed_only_for_the_rows_of_its_branch(session: Session, expression: str) -> None:
    """Compiled code computes an expression that two aggregates share once, before their filters."""
    one = f"select k, sum({expression}) a, avg({expression}) b from t where {UNSAFE[expression]} group by k"
    other = "select k, sum(i) a, avg(n) b from t group by k"
    queries = [
        f"{one} union all {other}",
        f"select l.k, l.a, l.b, r.a as c from ({one}) l join ({other}) r on l.k = r.k",
    ]
    plans = [(query, forced(session, query)) for query in queries]
    assert all(sum(isinstance(node, GroupBy) for node in walk(plan)) == 1 for _, plan in plans)
    assert not differences(session, plans)


SIGNED_ZEROS = (
    "select l.id, cast(r.q as string) q, r.m from t l join (select x q, min(n) m from t group by x) r on l.x = r.q",
    "select l.id, cast(r.q as string) q, r.m from t l join (select x q, sum(n) m from t group by x) r on l.x = r.q",
    "select l.id, cast(r.q as string) q, r.m from t l left join "
    "(select x q, n m, row_number() over (partition by x order by id) p from t) r on l.x = r.q and r.p = 1",
    "select cast(q as string) q, m, c from (select x q, min(n) m from t where i > 0 group by x) "
    "join (select x y, count(*) c from t group by x) on q = y where cast(y as string) = '0.0'",
)


def test_the_key_of_a_group_is_not_that_of_its_rows(session: Session) -> None:
    """GROUP BY makes -0.0 and 0.0 one value, 0.0. A cast to a string tells them apart."""
    assert not differences(session, [(query, forced(session, query)) for query in SIGNED_ZEROS])


PICKS = """
    select k, max_by(s, id) a, max_by(n, id) b, min_by(s, id) c, min_by(d, id) d, first('x') e, count(*) f
    from t where i > 0 group by k
    union all
    select k, max_by(s, id), max_by(n + 1, id), min_by(s, id), min_by(d, id), 'y', count(*) from t group by k
"""


def test_values_picked_from_one_row_are_picked_once(session: Session) -> None:
    plan = forced(session, PICKS)
    calls = [call.function for node in walk(plan) if isinstance(node, GroupBy) for _, call in node.aggregates]
    assert sorted(calls) == ["count", "count", "max_by", "max_by", "min_by", "min_by"]
    assert not differences(session, [(PICKS, plan)])


COMPUTED = """
    select i, max_by(s, id) a, max_by(upper(s), id) b, max_by(coalesce(s, k, 'none'), id) c, max_by(k, id) d,
        max_by(s, n) filter (where x > 1) e, max_by(coalesce(s, 'none'), n) filter (where x > 1) f
    from t group by i
"""


def test_expressions_over_picked_values_are_computed_after_the_pick(session: Session) -> None:
    """In a group without a picked row the result is NULL, even if the expression maps NULLs to a value."""
    plan = forced(session, COMPUTED)
    calls = [call for node in walk(plan) if isinstance(node, GroupBy) for _, call in node.aggregates]
    assert sorted(len(call.arguments[0].type or ()) for call in calls) == [1, 2]
    assert not differences(session, [(COMPUTED, plan)])


ORDERS = (
    "id",
    "if(i > 1, id, null)",
    "if(i > 3, id, null)",
    "if(id % 7 = 0, double('NaN'), -id)",
    "-cast(id as decimal(20, 2))",
)


def picked(seed: int) -> str:
    """Query texts that pick values by a key without ties, over all rows of a group or some."""
    draw = random.Random(seed)
    keys, order, table = draw.choice(KEYS), draw.choice(ORDERS), draw.choice("tttz")
    calls = [f"{draw.choice(('max_by', 'min_by'))}(s, {order})", "count(*)", draw.choice(AGGREGATES)]
    calls += [f"max_by(k, {draw.choice(ORDERS)}) filter (where {draw.choice(FILTERS)})"] * draw.choice((0, 1))
    calls += [f"max_by({value}, {order})" for value in draw.choice(((), ("n",), ("d", "upper(s)")))]
    named = ", ".join(f"{call} c{place}" for place, call in enumerate(calls))
    return f"select {', '.join(keys)}, {named} from {table} group by {', '.join(keys)}"


def test_picked_values_can_be_looked_up_in_the_rows(session: Session) -> None:
    queries = list(dict.fromkeys(picked(seed) for seed in range(60)))
    plans = {query: forced(session, query, [pick_from_rows.__name__]) for query in queries}
    looked_up = [query for query, plan in plans.items() if any(isinstance(node, Join) for node in walk(plan))]
    assert len(looked_up) > 30
    found = differences(session, list(plans.items()))
    assert not found, "\n".join(f"{query}\n  {rows}" for query, rows in found.items())


def test_argmax_is_max_by_with_swapped_arguments(session: Session) -> None:
    """A function of scripts, which Spark does not have."""
    text = "select k, argmax(id, s) a, ARGMIN(id, s) b from t group by k"
    script = session.pipeline.bind_source(Source("test.scope", text), None, is_script=True)
    with session.pipeline.executing(script, is_managed=False) as execution:
        turned = execution.frames[0].collect()
    plain = session.spark.sql("select k, max_by(s, id) a, min_by(s, id) b from t group by k").collect()
    assert Counter(turned) == Counter(plain)
