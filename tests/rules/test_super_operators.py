"""Super-operators give the rows of what they stand for: generated diamonds, run in plain Python, in every form that the memo
has for them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from unshuffle.algebra.logical import Plan
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.optimizer import EXPLORATION
from unshuffle.rules import super_operators
from unshuffle.rules.joins import gather_joins
from unshuffle.rules.normalize import normalize
from unshuffle.rules.rewriting import Rewriting
from unshuffle.search.memo import Memo
from unshuffle.search.trace import Trace

from . import diamonds
from .evaluate import result
from .show import show
from .test_alternatives import can_be_run, estimate_anything, written

SETTINGS = settings(
    max_examples=20_000 if "UNSHUFFLE_SOAK" in os.environ else 250,
    deadline=None,
    derandomize="UNSHUFFLE_SOAK" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
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
        other = written(root, choose, {}, Counter())
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
def test_the_rows_are_those_of_the_query(shape: Callable[[], Any]) -> None:
    @SETTINGS
    @given(shape(), diamonds.tables(), st.integers(0, 2**32))
    def holds(drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]], seed: int) -> None:
        check(*drawn, data, seed)

    holds()


@pytest.mark.parametrize("rule", sorted(rule.__name__ for rule in super_operators.RULES))
def test_every_super_operator_was_tried(rule: str) -> None:
    """After those above, in one run: a rule that never fired was not tested."""
    assert FIRED[rule] > 50, FIRED
