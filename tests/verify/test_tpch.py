"""The plans of TPC-H: all pass, and none passes without one of its exchanges or sorts, however honest its claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from benchmarks import tpch

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.errors import InternalError
from unshuffle.optimizer import Optimized, optimize
from unshuffle.properties import partitions_of
from unshuffle.session import Session
from unshuffle.verify import derive, verify
from unshuffle.verify.rederive import read_back, untold

from .enlarged import EIGHT, enlarged

LARGE = 10_000  # times the rows

Planned = Callable[[int, int], Optimized]


@pytest.fixture(scope="module")
def planned(tpch_data: Path) -> Planned:
    """The plan of a query over tables of so many times the rows."""
    session = Session(tables=tpch_data)

    @cache
    def plan(number: int, scale: int) -> Optimized:
        return optimize(enlarged(session._bind_what(tpch.queries()[number], None), scale), EIGHT)

    return plan


@pytest.mark.parametrize("scale", [1, LARGE])
@pytest.mark.parametrize("number", range(1, 23))
def test_all_pass(number: int, scale: int, planned: Planned) -> None:
    verify(planned(number, scale))


def without(optimized: Optimized, gone: Physical) -> Optimized:
    """The plan without one of its nodes. Every other node claims what it now delivers."""
    known = derive(optimized)
    rebuilt: dict[int, Physical] = {}

    def build(node: Physical) -> Physical:
        if id(node) not in rebuilt:
            rebuilt[id(node)] = build(node.inputs[0]) if node is gone else again(node)
        return rebuilt[id(node)]

    def again(node: Physical) -> Physical:
        inputs = tuple(map(build, node.inputs))
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            return node
        plan = read_back(node.operator, [each.columns for each in inputs])
        facts = [known.of(each).facts for each in node.inputs]
        delivered = untold(node.operator, plan).deliver([each.delivered for each in inputs], facts)
        amount = replace(node.amount, partitions=partitions_of(delivered.partitioning) or node.amount.partitions)
        return replace(node, inputs=inputs, delivered=delivered, amount=amount)

    return replace(
        optimized,
        outputs=tuple((output, build(plan)) for output, plan in optimized.outputs),
        spools=tuple(replace(spool, plan=build(spool.plan)) for spool in optimized.spools),
        subqueries=tuple((asked, build(plan)) for asked, plan in optimized.subqueries),
    )


def enforcers(optimized: Optimized) -> Iterator[Physical]:
    for root in optimized.roots:
        yield from (node for node in root.walk() if isinstance(node.operator, ops.Move | ops.LocalSort))


@pytest.mark.parametrize("number", [1, 3, 5, 9, 10, 13, 16, 18, 20, 21])
def test_no_exchange_or_sort_can_be_left_out(number: int, planned: Planned) -> None:
    optimized = planned(number, LARGE)
    gone = list(enforcers(optimized))
    assert gone
    for node in gone:
        try:
            cut = without(optimized, node)
        except ValueError:
            continue  # an exchange further up cannot even be built over what is left
        with pytest.raises(InternalError, match="the plan must not run"):
            verify(cut)
