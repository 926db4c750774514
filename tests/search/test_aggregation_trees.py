"""Aggregation trees (SIGMOD 2012, section 2.4.1): when they are chosen, their shape, and when they must not be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unshuffle.catalog.schema import Column
from unshuffle.cost.machine import Machine
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.render.reasons_json import exchanges_json
from unshuffle.explain.why import reasons
from unshuffle.optimizer import Options, PlannedQuery, optimize, optimize_ranked
from unshuffle.plan import physical
from unshuffle.plan.expressions import AggregateCall
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import FullMerge, PartialMerge, Partitioned, Repartitioning
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads.described import Described, parse

EIGHT = Machine(cores=8)
ROWS_PER_SPLIT = 32_000_000  # of k and v in a split of 256 MB
ORDERED = "select k, sum(v) as s, avg(v) as a from t group by k order by k"


def planned(tmp_path: Path, query: str, pieces: int, groups: int = 1000, machine: Machine = EIGHT) -> PlannedQuery:
    table = f"t  rows={pieces * ROWS_PER_SPLIT}\n    k bigint distinct={groups}\n    v bigint distinct=1000000"
    bound = Described(tmp_path / f"of_{pieces}_{groups}", parse(table)).bind(query, "query", is_script=False)
    found = optimize(bound, Options(Target(machine)))
    verify(found)
    return found


def levels(optimized: PlannedQuery) -> list[int]:
    """The fragments of each level of a tree, from the top."""
    return [node.size.partitions for node in nodes(optimized) if _phase(node) == "combining"]


def nodes(optimized: PlannedQuery) -> list[PhysicalPlan]:
    return list(optimized.outputs[0][1].walk())


def _aggregates(node: PhysicalPlan) -> tuple[tuple[Column, AggregateCall], ...]:
    assert isinstance(node.operator, physical.HashAggregate)
    return node.operator.aggregates


def _phase(node: PhysicalPlan) -> str:
    return getattr(node.operator, "phase", "")


def test_a_thousand_partitions_are_gathered_in_a_tree(tmp_path: Path) -> None:
    found = planned(tmp_path, ORDERED, pieces=1000)
    final, gather, combining, fragments, partial = (
        node for node in nodes(found) if _phase(node) or isinstance(node.operator, physical.Exchange)
    )
    assert [_phase(node) for node in (final, combining, partial)] == ["final", "combining", "partial"]
    assert isinstance(gather.operator.how, FullMerge)  # type: ignore[attr-defined]
    how = fragments.operator.how  # type: ignore[attr-defined]
    assert isinstance(how, PartialMerge)
    assert len(how.groups) == partial.size.partitions > 900
    assert all(how.groups.count(fragment) <= EIGHT.fan_in for fragment in set(how.groups))
    assert combining.size.rows == pytest.approx(1000 * combining.size.partitions)
    assert gather.size.rows == combining.size.rows < partial.size.rows


def test_a_hundred_partitions_are_gathered_without_a_tree(tmp_path: Path) -> None:
    assert not levels(planned(tmp_path, ORDERED, pieces=100))


def test_few_partial_states_are_not_worth_a_level(tmp_path: Path) -> None:
    """One row per partition, 600 partitions: starting another stage takes longer than reading them."""
    assert not levels(planned(tmp_path, "select sum(v) as s from t", pieces=600))


def test_few_partial_states_of_very_many_partitions_are_worth_a_level(tmp_path: Path) -> None:
    """Connecting to so many partitions one after another takes longer than another stage."""
    (fragments,) = levels(planned(tmp_path, "select sum(v) as s from t", pieces=20_000))
    assert 20_000 / EIGHT.fan_in < 1.1 * fragments


def test_many_keys_are_partitioned_by_key(tmp_path: Path) -> None:
    """Merging does not reduce partial states of keys that are in few partitions."""
    found = planned(tmp_path, "select k, sum(v) as s from t group by k", pieces=1000, groups=500_000_000)
    assert not levels(found)
    assert any(
        isinstance(node.operator, physical.Exchange)
        and isinstance(node.operator.how, Repartitioning)
        and isinstance(node.operator.how.scheme, Partitioned)
        for node in nodes(found)
    )


def test_the_final_aggregate_may_be_parallel_above_a_tree(tmp_path: Path) -> None:
    found = planned(tmp_path, "select k, sum(v) as s from t group by k", pieces=2000, groups=3000)
    assert levels(found)
    assert next(node for node in nodes(found) if _phase(node) == "final").alternative == "partitioned"


def test_a_tree_has_as_many_levels_as_necessary(tmp_path: Path) -> None:
    """More partitions than the square of the limit: two levels, and no task reads from more than the limit."""
    machine = replace(EIGHT, cores=2, fan_in=8, connection=0.01)
    found = planned(tmp_path, ORDERED, pieces=200, machine=machine)
    assert len(levels(found)) == 2
    for node in nodes(found):
        if isinstance(node.operator, physical.Exchange):
            how, given = node.operator.how, node.inputs[0].size.partitions
            most = max(map(how.groups.count, how.groups)) if isinstance(how, PartialMerge) else given
            assert most <= machine.fan_in


@pytest.mark.parametrize(
    "call", ["count(distinct v)", "collect_list(v)", "percentile(v, 0.5)", "sum(distinct v)", "min(cast(v as string))"]
)
def test_only_hashed_partial_states_are_merged(tmp_path: Path, call: str) -> None:
    """Not for aggregates that need all values of a group at once, nor for sort aggregates. (A distinct count is a count
    of groups.)"""
    query = f"select k, {call} as x, sum(v) as s from t group by k order by k"
    found = planned(tmp_path, query, pieces=1000, machine=replace(EIGHT, connection=1.0))
    calls = [call for node in nodes(found) if _phase(node) == "combining" for _, call in _aggregates(node)]
    assert not any(call.distinct or call.function in ("collect_list", "percentile", "min") for call in calls)


def test_why_names_the_limit(tmp_path: Path) -> None:
    found = planned(tmp_path, ORDERED, pieces=1000)
    why = ReasonText(PlanDrawing(found), reasons(found))
    assert "and a task should read from at most 250: the states are merged in " in why.text()
    (exchange,) = [each for each in exchanges_json(why) if each["topology"] == "partial merge"]
    assert exchange["partitions"] == levels(found)[0]


def test_all_plans_show_trees_and_other_plans(tmp_path: Path) -> None:
    table = f"t  rows={1000 * ROWS_PER_SPLIT}\n    k bigint distinct=1000\n    v bigint"
    bound = Described(tmp_path / "ranked", parse(table)).bind(ORDERED, "query", is_script=False)
    first, *others = optimize_ranked(bound, 60, Options(Target(EIGHT)))
    assert levels(first)
    assert any(not levels(other) for other in others)
    assert [each.cost for each in (first, *others)] == sorted(each.cost for each in (first, *others))
