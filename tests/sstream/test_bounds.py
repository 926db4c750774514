"""Columns of a stream that are not in its layout have bounds in the footers: they prune row groups, also across joins."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.storing import by, store
from unshuffle import Session
from unshuffle.plan.logical import Scan
from unshuffle.sstream.layout_request import LayoutRequest

GROUPS = 12  # 4 partitions of 3 row groups
EVENTS = pa.table({"k": list(range(120)), "day": [k // 10 for k in range(120)], "v": [k * 7 % 120 for k in range(120)]})
DAYS = pa.table({"d": [3, 4], "name": ["a", "b"]})


@pytest.fixture
def session(tmp_path: Path) -> Session:
    store(
        tmp_path / "events.ss", EVENTS, LayoutRequest(by("k"), by("k"), boundaries=((30,), (60,), (90,))), row_group=10
    )
    store(tmp_path / "days.ss", DAYS, LayoutRequest(by("d"), partitions=1))
    return Session(tables=tmp_path)


def needed(session: Session, query: str) -> int:
    """The row groups of the events that a query needs."""
    (planned,) = session.pipeline.plan(session.pipeline.bind(query))
    found = {
        node.operator.scan.label: node.operator.scan
        for root in planned.roots
        for node in root.walk()
        if isinstance(getattr(node.operator, "scan", None), Scan)
    }
    scan = found["events"]
    assert scan.bounds is not None
    assert len(scan.bounds.parts) == GROUPS
    return GROUPS if scan.needed is None else len(scan.needed)


@pytest.mark.parametrize(
    ("where", "count"),
    [("day = 3", 1), ("day between 3 and 5", 3), ("day = 3 or day = 7", 2), ("v < 5", 5), ("v >= 0", GROUPS)],
)
def test_a_predicate_prunes_row_groups(session: Session, where: str, count: int) -> None:
    assert needed(session, f"select k from events where {where}") == count


def test_a_join_prunes_row_groups(session: Session) -> None:
    assert needed(session, "select k, name from events join days on day = d") == 2


def test_an_outer_join_keeps_what_has_no_match(session: Session) -> None:
    assert needed(session, "select k, name from events left join days on day = d") == GROUPS
