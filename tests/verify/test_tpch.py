"""Plans that the optimizer made: all pass, and none passes without one of its exchanges or sorts, however honest its claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import tpcds, tpch
from benchmarks.described import with_scans

from unshuffle.algebra import operators as ops
from unshuffle.algebra.logical import Scan, Script
from unshuffle.algebra.physical import Physical
from unshuffle.cost.machine import Machine
from unshuffle.errors import InternalError
from unshuffle.optimizer import Optimized, Options, optimize
from unshuffle.properties import partitions_of
from unshuffle.session import Session
from unshuffle.verify import derive, verify
from unshuffle.verify.rederive import read_back, untold

EIGHT = Options(machine=Machine(cores=8))


def enlarged(script: Script, by: int) -> Script:
    """The same script over tables of so many times the rows, so that its plan is a parallel one."""

    def change(scan: Scan) -> Scan:
        files = replace(scan.files, rows=(scan.files.rows or 1) * by, bytes=(scan.files.bytes or 1) * by)
        known = scan.statistics
        if known is not None:
            known = replace(known, rows=known.rows and known.rows * by, bytes=known.bytes and known.bytes * by)
        return replace(scan, files=files, statistics=known)

    return with_scans(script, change)


@pytest.fixture(scope="module")
def tpch_session(tpch_data: Path) -> Session:
    return Session(tables=tpch_data)


@pytest.fixture(scope="module")
def tpcds_session(tpcds_data: Path) -> Session:
    return Session(tables=tpcds_data)


@pytest.mark.parametrize("scale", [1, 10_000])
@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(number: int, scale: int, tpch_session: Session) -> None:
    script = tpch_session._bind_what(tpch.queries()[number], None)
    verify(optimize(enlarged(script, scale), EIGHT))


@pytest.mark.parametrize("number", range(1, 100))
def test_tpcds(number: int, tpcds_session: Session) -> None:
    script = tpcds_session._bind_what(tpcds.queries()[number], None)
    # Small tables get serial plans and large ones parallel plans; each query has one of the two.
    verify(optimize(enlarged(script, 10_000 if number % 3 == 0 else 1), EIGHT))


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
def test_no_exchange_or_sort_can_be_left_out(number: int, tpch_session: Session) -> None:
    script = enlarged(tpch_session._bind_what(tpch.queries()[number], None), 10_000)
    optimized = optimize(script, EIGHT)
    gone = list(enforcers(optimized))
    assert gone
    for node in gone:
        try:
            cut = without(optimized, node)
        except ValueError:
            continue  # an exchange further up cannot even be built over what is left
        with pytest.raises(InternalError, match="the plan must not run"):
            verify(cut)
