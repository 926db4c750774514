"""The plans of TPC-DS: all pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import tpcds

from unshuffle.optimizer import optimize
from unshuffle.session import Session
from unshuffle.verify import verify

from .enlarged import EIGHT, enlarged


@pytest.fixture(scope="module")
def session(tpcds_data: Path) -> Session:
    return Session(tables=tpcds_data)


@pytest.mark.parametrize("number", range(1, 100))
def test_all_pass(number: int, session: Session) -> None:
    script = session._bind_what(tpcds.queries()[number], None)
    # Small tables get serial plans and large ones parallel plans; each query has one of the two.
    verify(optimize(enlarged(script, 10_000 if number % 3 == 0 else 1), EIGHT))
