"""Aggregation trees (SIGMOD 2012, section 2.4.1): where they are chosen, what they look like, and where they must not be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.described import Described, parse

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.schema import Column
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Optimized, Options, optimize, optimize_ranked
from unshuffle.properties import FullMerge, PartialMerge, Partitioned, Repartitioning
from unshuffle.render.physical import Drawing
from unshuffle.render.why import Telling
from unshuffle.verify import verify
from unshuffle.why import reasons

EIGHT = Machine(cores=8)
ROWS_OF_A_PIECE = 32_000_000  # of k and v, in a piece of 256 MB
ORDERED = "select k, sum(v) as s, avg(v) as a from t group by k order by k"


def planned(tmp_path: Path, query: str, pieces: int, groups: int = 1000, machine: Machine = EIGHT) -> Optimized:
    table = f"t  rows={pieces * ROWS_OF_A_PIECE}\n    k bigint distinct={groups}\n    v bigint distinct=1000000"
    bound = Described(tmp_path / f"of_{pieces}_{groups}", parse(table)).bind(query, "query", is_script=False)
    found = optimize(bound, Options(machine))
    verify(found)
    return found


def levels(optimized: Optimized) -> list[int]:
    """The fragments of each level of a tree, from the top."""
    return [node.amount.partitions for node in nodes(optimized) if _phase(node) == "combining"]


def nodes(optimized: Optimized) -> list[Physical]:
    return list(optimized.outputs[0][1].walk())


def _aggregates(node: Physical) -> tuple[tuple[Column, AggregateCall], ...]:
    assert isinstance(node.operator, ops.HashAggregate)
    return node.operator.aggregates


def _phase(node: Physical) -> str:
    return getattr(node.operator, "phase", "")


def test_a_thousand_partitions_are_gathered_in_a_tree(tmp_path: Path) -> None:
    found = planned(tmp_path, ORDERED, pieces=1000)
    final, gather, combining, fragments, partial = (
        node for node in nodes(found) if _phase(node) or isinstance(node.operator, ops.Move)
    )
    assert [_phase(node) for node in (final, combining, partial)] == ["final", "combining", "partial"]
    assert isinstance(gather.operator.how, FullMerge)  # type: ignore[attr-defined]
    how = fragments.operator.how  # type: ignore[attr-defined]
    assert isinstance(how, PartialMerge)
    assert len(how.groups) == partial.amount.partitions > 900
    assert all(how.groups.count(fragment) <= EIGHT.fan_in for fragment in set(how.groups))
    assert combining.amount.rows == pytest.approx(1000 * combining.amount.partitions)
    assert gather.amount.rows == combining.amount.rows < partial.amount.rows


def test_a_hundred_are_not(tmp_path: Path) -> None:
    assert not levels(planned(tmp_path, ORDERED, pieces=100))


def test_few_findings_are_not_worth_a_level(tmp_path: Path) -> None:
    """A row of each of 600 partitions: to begin another stage takes longer than to read them."""
    assert not levels(planned(tmp_path, "select sum(v) as s from t", pieces=600))


def test_but_of_very_many_partitions_they_are(tmp_path: Path) -> None:
    """There it takes longer to connect to them all, one after another."""
    (fragments,) = levels(planned(tmp_path, "select sum(v) as s from t", pieces=20_000))
    assert 20_000 / EIGHT.fan_in < 1.1 * fragments


def test_where_keys_are_many_they_are_sent_by_key(tmp_path: Path) -> None:
    """Findings that hardly meet others are not fewer for being combined."""
    found = planned(tmp_path, "select k, sum(v) as s from t group by k", pieces=1000, groups=500_000_000)
    assert not levels(found)
    assert any(
        isinstance(node.operator, ops.Move)
        and isinstance(node.operator.how, Repartitioning)
        and isinstance(node.operator.how.scheme, Partitioned)
        for node in nodes(found)
    )


def test_the_final_half_may_be_parallel_above_a_tree(tmp_path: Path) -> None:
    found = planned(tmp_path, "select k, sum(v) as s from t group by k", pieces=2000, groups=3000)
    assert levels(found)
    assert next(node for node in nodes(found) if _phase(node) == "final").alternative == "partitioned"


def test_as_many_levels_as_it_takes(tmp_path: Path) -> None:
    """More than the square of the limit: two levels, and nobody reads from more than the limit."""
    machine = replace(EIGHT, cores=2, fan_in=8, connection=0.01)
    found = planned(tmp_path, ORDERED, pieces=200, machine=machine)
    assert len(levels(found)) == 2
    for node in nodes(found):
        if isinstance(node.operator, ops.Move):
            how, given = node.operator.how, node.inputs[0].amount.partitions
            most = max(map(how.groups.count, how.groups)) if isinstance(how, PartialMerge) else given
            assert most <= machine.fan_in


@pytest.mark.parametrize(
    "call", ["count(distinct v)", "collect_list(v)", "percentile(v, 0.5)", "sum(distinct v)", "min(cast(v as string))"]
)
def test_only_what_is_begun_in_a_hash_table_is_combined(tmp_path: Path, call: str) -> None:
    """Not what must see all values of a group at once, nor what is sorted. (Of distinct values, a count is one of groups.)"""
    query = f"select k, {call} as x, sum(v) as s from t group by k order by k"
    found = planned(tmp_path, query, pieces=1000, machine=replace(EIGHT, connection=1.0))
    calls = [call for node in nodes(found) if _phase(node) == "combining" for _, call in _aggregates(node)]
    assert not any(call.distinct or call.function in ("collect_list", "percentile", "min") for call in calls)


def test_why_tells_of_the_limit(tmp_path: Path) -> None:
    found = planned(tmp_path, ORDERED, pieces=1000)
    told = Telling(Drawing(found), reasons(found)).text()
    assert "and a task is to read from at most 250: they are combined in " in told
    (exchange,) = [
        each for each in Telling(Drawing(found), reasons(found)).exchanges() if each["topology"] == "partial merge"
    ]
    assert exchange["partitions"] == levels(found)[0]


def test_all_plans_tell_of_trees_and_of_others(tmp_path: Path) -> None:
    table = f"t  rows={1000 * ROWS_OF_A_PIECE}\n    k bigint distinct=1000\n    v bigint"
    bound = Described(tmp_path / "ranked", parse(table)).bind(ORDERED, "query", is_script=False)
    first, *others = optimize_ranked(bound, 60, Options(EIGHT))
    assert levels(first)
    assert any(not levels(other) for other in others)
    assert [each.cost for each in (first, *others)] == sorted(each.cost for each in (first, *others))
