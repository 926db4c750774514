"""The plans of TPC-DS: all pass."""

from __future__ import annotations

import pytest

from unshuffle.algebra.logical import Script
from unshuffle.optimizer import optimize
from unshuffle.verify import verify

from .enlarged import EIGHT, enlarged


@pytest.mark.parametrize("number", range(1, 100))
def test_all_pass(number: int, tpcds_scripts: dict[int, Script]) -> None:
    # Small tables get serial plans and large ones parallel plans; each query has one of the two.
    verify(optimize(enlarged(tpcds_scripts[number], 10_000 if number % 3 == 0 else 1), EIGHT))
