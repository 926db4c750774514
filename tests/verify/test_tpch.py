"""The plans of TPC-H are valid, and no longer valid without any one of their exchanges or sorts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from tests.support.effort import cases
from tests.support.enlarged import EIGHT, enlarged
from unshuffle.errors import InternalError
from unshuffle.optimizer import PlannedQuery, optimize
from unshuffle.plan import physical
from unshuffle.plan.logical import Script
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import partitions_of
from unshuffle.verify import derive, verify
from unshuffle.verify.rederive import to_logical, without_search_results

LARGE = 10_000  # factor for the number of rows

Planned = Callable[[int, int], PlannedQuery]


@pytest.fixture(scope="module")
def planned(tpch_scripts: dict[int, Script]) -> Planned:
    """The plan of a query over tables with `scale` times the rows."""

    @cache
    def plan(number: int, scale: int) -> PlannedQuery:
        return optimize(enlarged(tpch_scripts[number], scale), EIGHT)

    return plan


@pytest.mark.parametrize("scale", [1, LARGE])
@pytest.mark.parametrize("number", cases(range(1, 23), quick=8))
def test_every_plan_is_valid(number: int, scale: int, planned: Planned) -> None:
    verify(planned(number, scale))


def without(optimized: PlannedQuery, removed: PhysicalPlan) -> PlannedQuery:
    """The plan without one of its nodes. Every other node records the layout that it then delivers."""
    derivation = derive(optimized)
    rebuilt: dict[int, PhysicalPlan] = {}

    def build(node: PhysicalPlan) -> PhysicalPlan:
        if id(node) not in rebuilt:
            rebuilt[id(node)] = build(node.inputs[0]) if node is removed else rebuild(node)
        return rebuilt[id(node)]

    def rebuild(node: PhysicalPlan) -> PhysicalPlan:
        inputs = tuple(map(build, node.inputs))
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            return node
        plan = to_logical(node.operator, [each.columns for each in inputs])
        facts = [derivation.of(each).facts for each in node.inputs]
        delivered = without_search_results(node.operator, plan).deliver([each.delivered for each in inputs], facts)
        size = replace(node.size, partitions=partitions_of(delivered.partitioning) or node.size.partitions)
        return replace(node, inputs=inputs, delivered=delivered, size=size)

    return replace(
        optimized,
        outputs=tuple((output, build(plan)) for output, plan in optimized.outputs),
        spools=tuple(replace(spool, plan=build(spool.plan)) for spool in optimized.spools),
        subqueries=tuple((query, build(plan)) for query, plan in optimized.subqueries),
    )


def enforcers(optimized: PlannedQuery) -> Iterator[PhysicalPlan]:
    for root in optimized.roots:
        yield from (node for node in root.walk() if isinstance(node.operator, physical.Exchange | physical.LocalSort))


@pytest.mark.parametrize("number", cases([1, 3, 5, 9, 10, 13, 16, 18, 20, 21], quick=3))
def test_a_plan_without_an_exchange_or_sort_is_invalid(number: int, planned: Planned) -> None:
    optimized = planned(number, LARGE)
    nodes = list(enforcers(optimized))
    assert nodes
    for node in nodes:
        try:
            cut = without(optimized, node)
        except ValueError:
            continue  # an exchange above it cannot be built without it
        with pytest.raises(InternalError, match="invalid plan"):
            verify(cut)
