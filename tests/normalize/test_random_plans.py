"""Random plans have the same rows before and after normalization, whichever rules are disabled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.evaluation import result
from tests.support.random_plans import Draw, plans, random_plan_settings, tables
from tests.support.show import show
from tests.support.wellformed import problems, rowsets
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import RULES, normalize
from unshuffle.plan.logical import Plan, SetKind

NAMES = sorted(rule.__name__ for rule in RULES)
SETTINGS = random_plan_settings(normal=50, quick=20)


def check(plan: Plan, numbers: ColumnNumbers, data: Mapping[str, Sequence[Any]], disabled: frozenset[str]) -> None:
    context = Rewriting(numbers, disabled)
    normal = normalize(plan, context)
    both = f"{show(plan, numbered=True)}\n\nbecame\n\n{show(normal, numbered=True)}\n\n{dict(context.fired)}\n{data}"
    wrong = [
        *(f"columns {normal.columns}" for _ in (1,) if normal.columns != plan.columns),
        *problems(normal),
        *(f"{name} is no longer shared" for name, times in rowsets(normal).items() if times > 1),
        *(f"{name} is disabled" for name in sorted(disabled & set(context.fired))),
    ]
    assert not wrong, f"{wrong}\n{both}"
    before, after = result(plan, data), result(normal, data)
    assert before == after, f"{before}\n{after}\n{both}"


@st.composite
def set_operations(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """INTERSECT or EXCEPT of two tables, as the root of the plan. Among random operators both are rare, and the operators above
    often hide a wrong result."""
    drawing = Draw(draw)
    kind = drawing.pick(SetKind.INTERSECT, SetKind.EXCEPT)
    inputs: list[Plan] = [drawing.scan("t", a=True, b=True, c=True), drawing.leaf()]
    return drawing.set_operation(kind, drawing.pick(False, False, True), inputs), drawing.numbers


@SETTINGS
@given(plans(), tables())
def test_same_rows(drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]]) -> None:
    check(*drawn, data, frozenset())


@SETTINGS
@given(plans(), tables(), st.sets(st.sampled_from(NAMES)))
def test_same_rows_without_some_rules(
    drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], disabled: set[str]
) -> None:
    check(*drawn, data, frozenset(disabled))


@SETTINGS
@given(set_operations(), tables())
def test_same_rows_of_set_operations(drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]]) -> None:
    check(*drawn, data, frozenset())


@SETTINGS
@given(plans())
def test_normalization_is_idempotent(drawn: tuple[Plan, ColumnNumbers]) -> None:
    plan, numbers = drawn
    first, again = Rewriting(numbers), Rewriting(numbers)
    normal = normalize(plan, first)
    both = f"{show(plan, numbered=True)}\n\nbecame\n\n{show(normal, numbered=True)}"
    assert normalize(normal, again) is normal, f"{both}\n{dict(first.fired)}\n{dict(again.fired)}"
