"""All alternatives in the memo have the same rows: random choices among the expressions of each group are run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import QUICK
from tests.support.evaluation import result
from tests.support.memo_alternatives import can_be_run, estimate_anything, random_alternative
from tests.support.random_plans import Draw, plans, random_plan_settings, tables
from tests.support.show import show
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.constants import THRESHOLDS
from unshuffle.explore import heavy_values
from unshuffle.explore.child_joins import union_of_child_joins
from unshuffle.explore.join_reordering import gather_joins
from unshuffle.explore.picked_rows import pick_from_rows
from unshuffle.explore.rules import EXPLORATION, SUPER_OPERATOR_NAMES
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize
from unshuffle.plan.expressions import Call, Ref
from unshuffle.plan.logical import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    Limit,
    Plan,
    Project,
    Scan,
    Sort,
)
from unshuffle.search.memo import Estimator, Memo
from unshuffle.search.trace import Trace

SETTINGS = random_plan_settings(normal=300, quick=60)


@st.composite
def grouped_joins(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Aggregates above and below a join with a table that has a key, for the rules that move aggregates past joins."""
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
def semi_joins_below_joins(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Semi-joins and anti-joins below a join with few rows, which may run above or below it."""
    draws = Draw(draw)
    rows, inner, few = (draws.scan("t", a=True, b=True, c=True) for _ in range(3))
    met = draws.condition((*rows.columns, *inner.columns))
    if draws.pick(True, False):
        met = Call("=", (Ref(draws.pick(*rows.columns)), Ref(draws.pick(*inner.columns))), pa.bool_())
    chosen: Plan = Join(draws.pick(JoinKind.SEMI, JoinKind.ANTI), rows, inner, met)
    beside: Plan = Filter(few, draws.condition(few.columns))
    on = Call("=", (Ref(draws.pick(*rows.columns)), Ref(draws.pick(*few.columns))), pa.bool_())
    sides = (chosen, beside) if draws.pick(False, True) else (beside, chosen)
    joined = Join(JoinKind.INNER, sides[0], sides[1], on)
    outputs = dict.fromkeys((draws.pick(*joined.columns), *draws.some(joined.columns)))
    return Project(joined, tuple((column, Ref(column)) for column in outputs)), draws.numbers


@st.composite
def limits(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """LIMIT with OFFSET, with and without ORDER BY. The count and the offset are smaller than most tables, so that a partial
    top-n that keeps too few rows changes the result."""
    draws = Draw(draw)
    rows: Plan = draws.scan("t", a=True, b=True, c=True)
    if draws.pick(True, False):
        rows = Sort(rows, draws.order(rows.columns))
    return Limit(rows, draws.pick(1, 2), draws.pick(1, 2)), draws.numbers


@SETTINGS
@given(plans(), tables(), st.integers(0, 2**32))
def test_alternatives_have_the_same_rows(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int
) -> None:
    check(*drawn, data, seed)


FIRED: Counter[str] = Counter()


@pytest.fixture(scope="module", autouse=True)
def few_rows_are_heavy() -> Iterator[None]:
    """A value of half of the rows is divided however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        small = replace(THRESHOLDS, heavy_value_bytes=1.0, heavy_parts_max=3)
        patch.setattr(heavy_values, "THRESHOLDS", small)
        yield


@SETTINGS
@given(grouped_joins(), tables(), st.integers(0, 2**32))
def test_alternatives_of_grouped_joins_have_the_same_rows(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int
) -> None:
    check(*drawn, data, seed)


@SETTINGS
@given(semi_joins_below_joins(), tables(), st.integers(0, 2**32))
def test_alternatives_of_semi_joins_have_the_same_rows(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int
) -> None:
    check(*drawn, data, seed, filters_leave_few)


@SETTINGS
@given(limits(), tables(), st.integers(0, 2**32))
def test_alternatives_of_limits_have_the_same_rows(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int
) -> None:
    check(*drawn, data, seed)


@pytest.mark.skipif(QUICK, reason="some rules fire too rarely for the examples of a quick run")
def test_every_rule_was_tried() -> None:
    """Runs after the tests above: a rule that never fired was not tested. Super-operators have tests of their own, and rules
    for strings or for tables in parts, which these plans do not have, are tested on Spark."""
    tried_elsewhere = SUPER_OPERATOR_NAMES | {pick_from_rows.__name__, union_of_child_joins.__name__}
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
        other = random_alternative(root, choose, {}, Counter())
        shown = f"{show(plan, numbered=True)}\n\nbecame\n\n{show(other, numbered=True)}\n{data}"
        assert result(other, data) == before, shown


def filters_leave_few(node: Plan, inputs: Any, facts: Any) -> Any:
    """Estimates under which filters of large tables leave few rows."""
    if isinstance(node, Filter):
        return replace(inputs[0], rows=1e-6 * inputs[0].rows, facts=facts)
    found = estimate_anything(node, inputs, facts)
    return replace(found, rows=1e6) if isinstance(node, Scan) else found
