"""Whatever way the memo offers to write a query gives the same rows: random choices among a group's expressions, run."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from unshuffle.algebra.expressions import AggregateCall, Call, Literal, Ref
from unshuffle.algebra.logical import (
    Distinct,
    Filter,
    FinalGroupBy,
    GroupBy,
    Join,
    Limit,
    PartialGroupBy,
    PartialTop,
    Plan,
    Project,
    Reference,
    Scan,
    Shared,
    Sort,
)
from unshuffle.algebra.multijoin import MultiJoin
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.catalog.statistics import ColumnStatistics, Histogram
from unshuffle.cost.cardinality import estimate
from unshuffle.optimizer import EXPLORATION
from unshuffle.rules import super_operators
from unshuffle.rules.joins import gather_joins
from unshuffle.rules.normalize import normalize
from unshuffle.rules.picked_rows import pick_from_rows
from unshuffle.rules.rewriting import Rewriting
from unshuffle.search.memo import Estimator, Group, Memo, with_inputs
from unshuffle.search.trace import Trace

from .evaluate import result
from .random_plans import Draw, plans, tables
from .show import show

EXAMPLES = 20_000 if "UNSHUFFLE_SOAK" in os.environ else 300
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="UNSHUFFLE_SOAK" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
# What a final aggregate does with what the partial ones found. Averages have two findings and are not run here.
MERGED = {"sum": "sum", "count": "sum", "min": "min", "max": "max", "bool_and": "bool_and", "bool_or": "bool_or"}


ZERO = Literal(0, pa.int64())


def written(group: Group, choose: random.Random, shared: dict[int, Shared], fired: Counter[str]) -> Plan:
    """One way to write what a group stands for."""
    ways = [each for each in group.expressions if not isinstance(each, MultiJoin)]
    chosen = choose.choice(ways)
    fired[type(chosen).__name__] += chosen is not ways[0]
    if isinstance(chosen, Reference):
        rowset: Any = chosen.rowset
        if rowset.number not in shared:
            shared[rowset.number] = Shared(rowset.name, written(rowset, choose, shared, fired))
        return Reference(shared[rowset.number], chosen.columns)
    inputs: list[Any] = [written(child, choose, shared, fired) for child in chosen.children]
    return runnable(with_inputs(chosen, inputs))


def runnable(plan: Plan) -> Plan:
    """The halves of aggregates and limits as whole ones: over one partition, that is what they are."""
    match plan:
        case PartialGroupBy(child, keys, states):
            return GroupBy(child, keys, states)
        case FinalGroupBy(child, keys, aggregates, states):
            merged = tuple(
                (column, AggregateCall(MERGED.get(call.function, call.function), (Ref(state),), call.type))
                for (column, call), state in zip(aggregates, states, strict=True)
            )
            # Counts of nothing at all are 0, where their sum is NULL.
            counted = tuple(
                (column, Call("coalesce", (Ref(column), ZERO), ZERO.type))
                for column, call in aggregates
                if call.function == "count"
            )
            others = tuple((column, Ref(column)) for column in plan.columns if column not in dict(counted))
            outputs = dict((*counted, *others))
            return Project(GroupBy(child, keys, merged), tuple((column, outputs[column]) for column in plan.columns))
        case PartialTop(child, count, order):
            return Limit(Sort(child, order) if order else child, count)
        case _:
            return plan


def can_be_run(memo: Memo) -> bool:
    finals = [each for group in memo.groups for each in group.expressions if isinstance(each, FinalGroupBy)]
    return all(call.function in MERGED for each in finals for _, call in each.aggregates)


@st.composite
def grouped_joins(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Aggregates over and under a join with a table that has a key: what moves through joins."""
    draws = Draw(draw)
    many: Plan = draws.scan("t", a=True, b=True, c=True)
    if draws.pick(False, True):
        many = Filter(many, draws.condition(many.columns))
    if draws.pick(True, False, False, False):
        other = draws.scan("t", a=True, b=True, c=True)
        same = Call("=", (Ref(many.columns[0]), Ref(other.columns[0])), pa.bool_())
        return Join(JoinKind.INNER, Distinct(many), Distinct(other), same), draws.numbers
    one = draws.keyed()
    joined_on = draws.pick(*many.columns)
    met = Call("=", (Ref(joined_on), Ref(one.columns[0])), pa.bool_())
    calls = tuple(draws.aggregate(many.columns) for _ in range(draws.pick(1, 2)))
    if draws.pick(False, True):
        below = GroupBy(many, tuple(dict.fromkeys((joined_on, *draws.some(many.columns)))), calls)
        far = Filter(one, draws.condition(one.columns)) if draws.pick(False, True) else one
        sides = (below, far) if draws.pick(False, True) else (far, below)
        return Join(JoinKind.INNER, sides[0], sides[1], met), draws.numbers
    join = Join(JoinKind.INNER, many, one, met)
    keys = tuple(dict.fromkeys((*draws.some(join.columns), *draws.pick((joined_on,), (one.columns[0],), ()))))
    return GroupBy(join, keys, calls), draws.numbers


@st.composite
def chosen_and_joined(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Rows that have a match, or none, joined with few others: semi- and anti-joins that may come before or after."""
    draws = Draw(draw)
    rows, asked, few = (draws.scan("t", a=True, b=True, c=True) for _ in range(3))
    met = draws.condition((*rows.columns, *asked.columns))
    if draws.pick(True, False):
        met = Call("=", (Ref(draws.pick(*rows.columns)), Ref(draws.pick(*asked.columns))), pa.bool_())
    chosen: Plan = Join(draws.pick(JoinKind.SEMI, JoinKind.ANTI), rows, asked, met)
    beside: Plan = Filter(few, draws.condition(few.columns))
    on = Call("=", (Ref(draws.pick(*rows.columns)), Ref(draws.pick(*few.columns))), pa.bool_())
    sides = (chosen, beside) if draws.pick(False, True) else (beside, chosen)
    joined = Join(JoinKind.INNER, sides[0], sides[1], on)
    outputs = dict.fromkeys((draws.pick(*joined.columns), *draws.some(joined.columns)))
    return Project(joined, tuple((column, Ref(column)) for column in outputs)), draws.numbers


@SETTINGS
@given(plans(), tables(), st.integers(0, 2**32))
def test_every_way_to_write_a_query_gives_its_rows(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int
) -> None:
    check(*drawn, data, seed)


FIRED: Counter[str] = Counter()


@SETTINGS
@given(grouped_joins(), tables(), st.integers(0, 2**32))
def test_every_way_to_group_and_join_gives_the_same_rows(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int
) -> None:
    check(*drawn, data, seed)


@SETTINGS
@given(chosen_and_joined(), tables(), st.integers(0, 2**32))
def test_every_way_to_choose_and_join_gives_the_same_rows(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int
) -> None:
    check(*drawn, data, seed, filters_leave_few)


def test_every_rule_was_tried() -> None:
    """After those above, in one run: a rule that never fired was not tested. Super-operators have tests of their own,
    and what is only done to texts, which these plans have none of, is tried on Spark."""
    tried_elsewhere = super_operators.NAMES | {pick_from_rows.__name__}
    assert {rule.__name__ for rule in EXPLORATION} - tried_elsewhere <= set(FIRED), FIRED


def check(
    plan: Plan, numbers: ColumnNumbers, data: dict[str, list[Any]], seed: int, estimator: Estimator | None = None
) -> None:
    normal = normalize(plan, Rewriting(numbers))
    memo = Memo(estimator or estimate_anything, EXPLORATION, numbers, Trace())
    root = memo.insert(gather_joins(normal))
    if not can_be_run(memo):
        return
    FIRED.update(memo.trace.rules)
    before = result(plan, data)
    choose = random.Random(seed)
    for _ in range(4):
        other = written(root, choose, {}, Counter())
        shown = f"{show(plan, numbered=True)}\n\nbecame\n\n{show(other, numbered=True)}\n{data}"
        assert result(other, data) == before, shown


def estimate_anything(node: Plan, inputs: Any, facts: Any) -> Any:
    """Tables with a key are small and values counted, so that rules which ask for that fire."""
    if isinstance(node, Scan):
        counted = ColumnStatistics(3.0, common=((1, 0.5),), histogram=Histogram((0, 3), (3.0,), (3.0,)))
        rows = 10.0 if node.keys else 1000.0
        return replace(estimate(node, inputs, facts), rows=rows, columns=dict.fromkeys(node.columns, counted))
    if isinstance(node, PartialGroupBy | FinalGroupBy | PartialTop):
        return inputs[0]
    return estimate(node, inputs, facts)


def filters_leave_few(node: Plan, inputs: Any, facts: Any) -> Any:
    """Of tables that are large."""
    if isinstance(node, Filter):
        return replace(inputs[0], rows=1e-6 * inputs[0].rows, facts=facts)
    found = estimate_anything(node, inputs, facts)
    return replace(found, rows=1e6) if isinstance(node, Scan) else found
