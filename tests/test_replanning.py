"""Planning again with observed rows: what a plan would still cost, what it is replaced by, and which scripts are left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.planted_estimates import planted
from unshuffle import Session
from unshuffle.constants import THRESHOLDS
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Divided, Options, PlannedQuery, Planning
from unshuffle.plan import physical
from unshuffle.plan.logical import Join, Script
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.user_code import runs_user_code
from unshuffle.properties import Partitioned
from unshuffle.search.recosted import Recosted
from unshuffle.target import Target
from unshuffle.verify import verify

# Starting a stage costs little beside the rows of small tables, so plans are as varied as those of large ones.
OPTIONS = Options(Target(Machine(cores=4, stage=1e-4, task=1e-5, file_piece_bytes=5e4, partition_bytes=2e4)))


def nodes(planning: Planning) -> Iterator[PhysicalPlan]:
    for root in planning.planned.roots:
        yield from root.walk()


def remaining(planning: Planning, done: list[PhysicalPlan]) -> float:
    run = planning._run
    return Recosted(run.memo, run.search.builder).remaining(planning.planned.roots, done)


def test_a_plan_costs_the_same_again(tpch_scripts: dict[int, Script]) -> None:
    """Under the same estimates, what is left of a plan of which nothing has run is the plan."""
    for number, script in tpch_scripts.items():
        planning = Planning(script, OPTIONS)
        if not planning.planned.spools:  # persisting them is no operator
            every = {id(node): node.own.seconds for node in nodes(planning)}
            assert remaining(planning, []) == pytest.approx(sum(every.values())), number


def test_what_is_done_costs_nothing(tpch_scripts: dict[int, Script]) -> None:
    planning = Planning(tpch_scripts[9], OPTIONS)
    (root,) = planning.planned.roots
    some = [node for node in root.walk() if isinstance(node.operator, physical.Exchange)][-1]
    assert 0.0 < remaining(planning, [some]) < remaining(planning, [])
    assert remaining(planning, [root]) == 0.0


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_observed_rows_are_planned_for(
    tpch_scripts: dict[int, Script], factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that was made for a wrong estimate is replaced by one that is as good as the right plan, once the rows of the
    join that was misjudged are known."""
    monkeypatch.setattr("unshuffle.optimizer.THRESHOLDS", always_worth_it())
    for number in (3, 5, 9, 10, 21):
        right = Planning(tpch_scripts[number], OPTIONS)
        with planted(Join, factor) as wrong:
            planning = Planning(tpch_scripts[number], OPTIONS)
            misled = planning._run.memo.group_of(wrong.node)
            again = planning.again({misled.number: wrong.right_rows}, [])
        assert again is not None, number
        verify(again)
        assert misled.rows == pytest.approx(wrong.right_rows)
        assert again.cost <= right.planned.cost * 1.1, number


def test_a_plan_that_is_nearly_done_is_kept(tpch_scripts: dict[int, Script]) -> None:
    planning = Planning(tpch_scripts[9], OPTIONS)
    group = planning.planned.roots[0].group
    assert planning.again({group: 1e9}, list(planning.planned.roots)) is None


def shuffles(planning: Planning) -> list[PhysicalPlan]:
    """The exchanges that divide rows by a hash, of inputs of joins."""
    found = (node for node in nodes(planning) if isinstance(node.operator, physical.HashJoin | physical.MergeJoin))
    inputs = (each for join in found for each in join.inputs)
    return [
        each
        for each in inputs
        if isinstance(each.operator, physical.Exchange) and isinstance(each.delivered.partitioning, Partitioned)
    ]


NO_BROADCASTS = replace(OPTIONS, target=Target(replace(OPTIONS.target.machine, cores=16, broadcast_bytes=1.0)))


def test_a_partition_that_is_too_large_makes_its_exchange_expensive(tpch_scripts: dict[int, Script]) -> None:
    planning = Planning(tpch_scripts[9], NO_BROADCASTS)
    exchange = shuffles(planning)[0]
    before = remaining(planning, [])
    assert planning.again({}, [], [(exchange, 0.9)]) is None  # so few rows take no second
    assert remaining(planning, []) > before
    group = planning._run.memo.groups[exchange.group]
    assert exchange.size.largest < 0.5
    assert planning._run.search.builder.size(group, exchange.delivered.partitioning).largest == 0.9


def test_what_no_plan_avoids_is_left_to_who_divides_it(
    tpch_scripts: dict[int, Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unshuffle.optimizer.THRESHOLDS", replace(THRESHOLDS, replan_seconds=0.0, replan_gain=1.0))
    planning = Planning(tpch_scripts[9], NO_BROADCASTS)
    usual = planning.planned.cost
    skewed = [(each, 0.9) for each in shuffles(planning)]
    divided = planning.again({}, [], skewed, may_divide=True)
    assert isinstance(divided, Divided)
    assert divided.seconds == pytest.approx(usual)
    other = planning.again({}, [], skewed)
    assert other is None or (isinstance(other, PlannedQuery) and other.cost > usual)


def always_worth_it() -> object:
    return replace(THRESHOLDS, replan_seconds=0.0, replan_gain=0.0)


USER_CODE = """
t = EXTRACT k:long, v:long FROM "{path}" USING Parquet();
r = SELECT k, {call} AS c FROM t;
OUTPUT r TO "out" USING Csv();
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select l_orderkey, upper(l_comment) || 'x' from lineitem where l_orderkey + 1 > 3", False),
        (
            "select count(*), sum(l_tax) from lineitem where exists (select 1 from orders where o_orderkey = l_orderkey)",
            False,
        ),
    ],
)
def test_functions_of_spark_are_no_user_code(tpch_data: Path, query: str, expected: bool) -> None:
    assert runs_user_code(Session(tables=tpch_data).pipeline.bind(query)) == expected
