"""Super-operators return the rows of the plans that they replace: generated diamonds, run in plain Python, in every
alternative of the memo."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import diamonds
from tests.support.effort import normal_or_quick
from tests.support.evaluation import result
from tests.support.memo_alternatives import can_be_run, estimate_anything, random_alternative
from tests.support.random_plans import random_plan_settings
from tests.support.show import show
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.explore.join_reordering import gather_joins
from unshuffle.explore.rules import EXPLORATION, SUPER_OPERATORS
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize
from unshuffle.plan.logical import Plan
from unshuffle.search.memo import Memo
from unshuffle.search.trace import Trace

SETTINGS = random_plan_settings(normal=250, quick=25)
FIRED: Counter[str] = Counter()


def check(plan: Plan, numbers: ColumnNumbers, data: dict[str, list[Any]], seed: int) -> None:
    before = result(plan, data)
    normal = normalize(plan, Rewriting(numbers))
    memo = Memo(estimate_anything, EXPLORATION, numbers, Trace())
    root = memo.insert(gather_joins(normal))
    FIRED.update(memo.trace.rules)
    if not can_be_run(memo):
        return
    choose = random.Random(seed)
    for _ in range(4):
        other = random_alternative(root, choose, {}, Counter())
        shown = f"{show(plan, numbered=True)}\n\nbecame\n\n{show(other, numbered=True)}\n{data}"
        assert result(other, data) == before, shown


SHAPES = (
    diamonds.unions,
    diamonds.joins,
    diamonds.totals,
    diamonds.joins_back,
    diamonds.granularities,
    diamonds.grouped_unions,
    diamonds.existences,
    diamonds.first_rows,
    diamonds.extremes,
)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_super_operators_have_the_same_rows(shape: Callable[[], Any]) -> None:
    @SETTINGS
    @given(shape(), diamonds.tables(), st.integers(0, 2**32))
    def holds(drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int) -> None:
        check(*drawn, data, seed)

    holds()


@pytest.mark.parametrize("rule", sorted(rule.__name__ for rule in SUPER_OPERATORS))
def test_every_super_operator_was_tried(rule: str) -> None:
    """Runs after the tests above: a rule that rarely fired was not tested."""
    assert FIRED[rule] > normal_or_quick(50, quick=3), FIRED
