"""When a join divides the rows of heavy values, and what it then costs, over tables that are described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from unshuffle.cost.machine import Machine
from unshuffle.explore.heavy_values import split_heavy_values
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan import physical
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads.described import Described, parse, with_scans

TABLES = """
events  rows=2000000000
    device bigint distinct=400000000 nulls={nulls} low=0 high=400000000
    day    date   distinct=400
    amount bigint distinct=1000000
    note   string width=40
devices  rows=400000000 key(id)
    id     bigint low=0 high=400000000
    name   string width=40
"""
JOINED = "select amount, note, name from events {kind} join devices on device = id"
RULE = split_heavy_values.__name__

Plan = Callable[..., PlannedQuery]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Plans and verifies a query. `common` are shares of rows by the device that has them."""

    def planned(
        text: str,
        common: tuple[tuple[int, float], ...] = (),
        nulls: float = 0.0,
        cores: int = 100,
        disabled: frozenset[str] = frozenset(),
    ) -> PlannedQuery:
        def heavy(scan: Scan) -> Scan:
            known = scan.statistics
            assert known is not None
            columns = tuple(
                (column, replace(each, common=common) if column.name == "device" else each)
                for column, each in known.columns
            )
            return replace(scan, statistics=replace(known, columns=columns))

        described = Described(tmp_path / "tables", parse(TABLES.format(nulls=nulls)))
        script = with_scans(described.bind(text, "query", is_script=False), heavy)
        found = optimize(script, Options(Target(Machine(cores=cores)), disabled))
        verify(found)
        return found

    return planned


def copies(planned: PlannedQuery) -> list[Any]:
    return [node.operator.expand for node in nodes(planned) if isinstance(node.operator, physical.Expand)]


def divided(planned: PlannedQuery) -> bool:
    joins = (physical.HashJoin, physical.MergeJoin)
    return any(
        "part" in str([c.name for c in node.inputs[0].columns])
        for node in nodes(planned)
        if isinstance(node.operator, joins)
    )


def nodes(planned: PlannedQuery) -> list[PhysicalPlan]:
    return [node for root in planned.roots for node in root.walk()]


def largest(planned: PlannedQuery) -> float:
    return max(node.size.largest for node in nodes(planned) if isinstance(node.operator, physical.Exchange))


def test_the_largest_partition_shrinks(plan: Plan) -> None:
    """One device has three of ten rows. On 100 cores, its task alone would take 30 times as long as the average."""
    query, heavy = JOINED.format(kind=""), ((77, 0.3),)
    whole = plan(query, heavy, disabled=frozenset({RULE}))
    assert largest(whole) == pytest.approx(0.3)
    chosen = plan(query, heavy)
    assert divided(chosen)
    assert largest(chosen) < 0.02
    assert chosen.cost < whole.cost / 3
    (copied,) = copies(chosen)
    assert copied.repeated.arguments[1].value == 77


def test_every_heavy_value_is_divided_and_no_other(plan: Plan) -> None:
    (copied,) = copies(plan(JOINED.format(kind=""), ((1, 0.2), (2, 0.1), (3, 1e-5))))
    assert [each.value for each in copied.repeated.arguments[1:]] == [1, 2]


def test_nulls_that_are_kept_are_divided_without_copies(plan: Plan) -> None:
    chosen = plan(JOINED.format(kind="left"), nulls=0.4)
    assert divided(chosen)
    assert copies(chosen) == []
    assert largest(chosen) < 0.02


def test_nulls_that_match_nothing_are_not_read(plan: Plan) -> None:
    assert not divided(plan(JOINED.format(kind=""), nulls=0.4))


@pytest.mark.parametrize(
    "query",
    [
        JOINED.format(kind="full"),
        JOINED.format(kind="right"),  # copies of a device without events would each be a row
        "select name from devices left semi join events on device = id",  # and parts of its events would each find it
        "select amount, note, name from events left join devices on device <=> id",
    ],
)
def test_what_would_be_wrong_is_not_divided(plan: Plan, query: str) -> None:
    assert not divided(plan(query, ((77, 0.3),), nulls=0.3))


def test_values_that_one_core_of_two_can_take_stay_whole(plan: Plan) -> None:
    assert not divided(plan(JOINED.format(kind=""), ((77, 0.3),), cores=2))


def test_a_small_side_is_broadcast_rather_than_copied(plan: Plan) -> None:
    query = "select amount, note, name from events join devices on device = id where id < 1000"
    assert not divided(plan(query, ((77, 0.3),)))


def test_rows_that_nothing_tells_apart_stay_whole(plan: Plan) -> None:
    """There is no other column to hash."""
    assert not divided(plan("select device, name from events join devices on device = id", ((77, 0.3),)))
