"""Plans of random queries, over tables of any size, some of them stored in partitions: all pass, and can be explained."""

from __future__ import annotations

import pytest
from tests.search.queries import query

from unshuffle.optimizer import Options, optimize
from unshuffle.render.physical import Drawing
from unshuffle.render.why import Telling
from unshuffle.verify import derive
from unshuffle.why import reasons


@pytest.mark.parametrize("seed", range(80))
def test_random_queries(seed: int) -> None:
    made = query(seed)
    optimized = optimize(made.script, Options(machine=made.machine))
    known = derive(optimized)
    found = reasons(optimized, known)
    assert Telling(Drawing(optimized), found).text()
