"""The plans of TPC-DS are valid."""

from __future__ import annotations

import pytest

from tests.support.effort import cases
from tests.support.enlarged import EIGHT, enlarged
from unshuffle.optimizer import optimize
from unshuffle.plan.logical import Script
from unshuffle.verify import verify


@pytest.mark.parametrize("number", cases(range(1, 100), quick=10))
def test_every_plan_is_valid(number: int, tpcds_scripts: dict[int, Script]) -> None:
    # Small tables get serial plans and large ones parallel plans; each query has one of the two.
    verify(optimize(enlarged(tpcds_scripts[number], 10_000 if number % 3 == 0 else 1), EIGHT))
