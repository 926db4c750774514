"""When values are looked up in the rows that have the minimum or maximum of their group, and when not.
tests/spark/lowering/test_super_operators.py runs such plans."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.support.binding import bind_query
from unshuffle.explore.picked_rows import pick_from_rows
from unshuffle.optimizer import optimize, optimize_ranked
from unshuffle.plan import physical
from workloads.described import Described, parse

LOOKED_UP = {
    "a text": "select a, max_by(s, b) from t group by a",
    "and one of some rows": "select a, max_by(s, b), min_by(s, c) filter (where c > 1), count(*) from t group by a",
    "several values": "select a, max_by(s, b), max_by(c, b) from t group by a",
}
NOT_LOOKED_UP = {
    "numbers": "select a, max_by(b, c) from t group by a",
    "only of some rows": "select a, max_by(s, b) filter (where c > 1) from t group by a",
    "by a text": "select a, max_by(b, s) from t group by a",
    "the first": "select a, first(s) from t group by a",
    "no groups": "select max_by(s, b) from t",
}


def is_looked_up(query: str) -> bool:
    return pick_from_rows.__name__ in optimize(bind_query(query)).trace.rules


@pytest.mark.parametrize("query", LOOKED_UP.values(), ids=list(LOOKED_UP))
def test_rule_fires(query: str) -> None:
    assert is_looked_up(query)


@pytest.mark.parametrize("query", NOT_LOOKED_UP.values(), ids=list(NOT_LOOKED_UP))
def test_rule_does_not_fire(query: str) -> None:
    assert not is_looked_up(query)


def test_a_limit_is_not_computed_twice() -> None:
    assert not is_looked_up("select a, max_by(s, b) from (select * from t limit 100) group by a")


@pytest.mark.parametrize(("by", "rows"), [("ts", 1e6), ("status", 1e7 / 3)])
def test_estimate_includes_rows_that_tie(by: str, rows: float) -> None:
    """With many distinct values one row of each group has the maximum; with few, many rows have it."""
    described = Described(Path(tempfile.mkdtemp(prefix="unshuffle-tests-")), parse(EVENTS))
    script = described.bind(f"select account, max_by(kind, {by}) from log group by account")
    nodes = [node for plan in optimize_ranked(script, 50) for root in plan.roots for node in root.walk()]
    joins = [node for node in nodes if isinstance(node.operator, physical.HashJoin | physical.MergeJoin)]
    assert joins
    assert all(join.size.rows == pytest.approx(rows) for join in joins)


EVENTS = """
log rows=10000000
    account string distinct=1000000
    ts bigint distinct=10000000
    status int distinct=3
    kind string distinct=20
"""
