"""Random plans give the same rows before and after normalizing, whichever rules are switched off."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from unshuffle.algebra.logical import Plan
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.rules import normalize as normalizing
from unshuffle.rules.normalize import normalize
from unshuffle.rules.rewriting import Rewriting

from .evaluate import result
from .random_plans import plans, tables
from .show import show
from .wellformed import problems, rowsets

EXAMPLES = 20_000 if "UNSHUFFLE_SOAK" in os.environ else 50
NAMES = sorted(
    {rule.__name__ for rule in (*normalizing.DOWN, *normalizing.UP, *normalizing.AFTER_PRUNING)}
    | {"prune_columns", "drop_renames", "avoid_products", "push_semi_join_into_join", "push_semi_join_through_project"}
)
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="UNSHUFFLE_SOAK" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


def check(plan: Plan, numbers: ColumnNumbers, data: Mapping[str, Sequence[Any]], disabled: frozenset[str]) -> None:
    context = Rewriting(numbers, disabled)
    normal = normalize(plan, context)
    both = f"{show(plan, numbered=True)}\n\nbecame\n\n{show(normal, numbered=True)}\n\n{dict(context.fired)}\n{data}"
    wrong = [
        *(f"columns {normal.columns}" for _ in (1,) if normal.columns != plan.columns),
        *problems(normal),
        *(f"{name} is shared no more" for name, times in rowsets(normal).items() if times > 1),
        *(f"{name} was switched off" for name in sorted(disabled & set(context.fired))),
    ]
    assert not wrong, f"{wrong}\n{both}"
    before, after = result(plan, data), result(normal, data)
    assert before == after, f"{before}\n{after}\n{both}"


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
@given(plans())
def test_normal_plans_stay(drawn: tuple[Plan, ColumnNumbers]) -> None:
    plan, numbers = drawn
    first, again = Rewriting(numbers), Rewriting(numbers)
    normal = normalize(plan, first)
    both = f"{show(plan, numbered=True)}\n\nbecame\n\n{show(normal, numbered=True)}"
    assert normalize(normal, again) is normal, f"{both}\n{dict(first.fired)}\n{dict(again.fired)}"
