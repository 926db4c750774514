"""No plan is cheaper than the one that the search finds: all plans of small generated queries are enumerated."""

from __future__ import annotations

import os
from dataclasses import replace
from math import inf

import pytest
from benchmarks.described import with_scans

from unshuffle.algebra.logical import Scan, Sort
from unshuffle.algebra.physical import Physical
from unshuffle.optimizer import Options, _Run
from unshuffle.properties import Delivered, asc, ranged
from unshuffle.search.trace import Trace

from .brute_force import Enumeration
from .queries import INTEGERS, Query, query

# How many queries of so many inputs. A soak goes on where the normal run ends.
COUNTS = {1: 60, 2: 150, 3: 80, 4: 20}
FIRST, MANY = (1000, 50) if "UNSHUFFLE_SOAK" in os.environ else (0, 1)


@pytest.mark.parametrize(
    ("inputs", "seed"), [(n, FIRST + s) for n, count in COUNTS.items() for s in range(count * MANY)]
)
def test_no_plan_is_cheaper(inputs: int, seed: int) -> None:
    assert_cheapest(query(seed, inputs))


def test_nor_over_ranges_that_another_input_covers(report: list[str]) -> None:
    """Large tables lie by ranges of two columns, of which a join is mostly on one."""
    queries = [in_ranges(query(FIRST + seed, 2)) for seed in range(120 * MANY)]
    ways = [{node.alternative for node in assert_cheapest(each).walk()} for each in queries]
    pruned = sum(any(way.startswith("pruned") for way in of) for of in ways)
    report.append(f"plans that bring rows only to where matches can be: {pruned} of {len(queries)}")
    assert pruned >= 3


def in_ranges(drawn: Query) -> Query:
    def stored(scan: Scan) -> Scan:
        on = [column for column in scan.columns if column.type in INTEGERS][:2]
        if len(on) < 2 or (scan.statistics.rows or 0.0) < 1e6:
            return replace(scan, layout=None)
        cuts = [(100 * (i // 2), 50)[: 1 + i % 2] for i in range(2, 65)]
        keys = tuple(map(asc, on))
        return replace(scan, layout=Delivered(ranged(keys, cuts), keys))

    # How many ranges to sample for an order is a matter of policy, which many stored partitions stretch.
    outputs = (
        replace(each, plan=each.plan.child if isinstance(each.plan, Sort) else each.plan)
        for each in drawn.script.outputs
    )
    return replace(drawn, script=with_scans(replace(drawn.script, outputs=tuple(outputs)), stored))


def assert_cheapest(drawn: Query) -> Physical:
    """The plan that the search finds, if no plan costs less."""
    # What Spark would not run as planned is taken as it is: of two plans for an input, the search knows but the cheapest.
    options = Options(machine=drawn.machine, accepts=lambda operator, inputs: True)
    run = _Run(drawn.script, drawn.numbers, options, Trace())
    outputs, *_, cost = run.best()
    least = Enumeration(run.roots[0], run.model, cost).best()
    if least is None:
        # Only what costs less than the limit is enumerated; with the plan itself allowed, at least that is found.
        least = Enumeration(run.roots[0], run.model, cost, outputs[0]).best()
    found = least.cost if least is not None else inf
    assert cost <= found * (1 + 1e-9), f"{cost} is found, {found} is possible:\n{least.show() if least else ''}"
    assert found <= cost * (1 + 1e-9), "the search found a plan that the enumeration does not know"
    return outputs[0]
