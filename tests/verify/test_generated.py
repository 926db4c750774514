"""Plans of random queries over tables of any size, some of them partitioned, are valid and can be explained."""

from __future__ import annotations

import pytest

from tests.support.effort import cases
from tests.support.search_queries import query
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.why import reasons
from unshuffle.optimizer import Options, optimize
from unshuffle.target import Target
from unshuffle.verify import derive


@pytest.mark.parametrize("seed", cases(range(80), quick=16))
def test_random_queries(seed: int) -> None:
    made = query(seed)
    optimized = optimize(made.script, Options(Target(made.machine)))
    why = reasons(optimized, derive(optimized))
    assert ReasonText(PlanDrawing(optimized), why).text()
