"""No plan is cheaper than the one that the search finds: all plans of small generated queries are enumerated."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from tests.support.effort import SOAK, normal_or_quick
from tests.support.search_brute_force import Enumeration
from tests.support.search_queries import INTEGERS, Query, query
from unshuffle.optimizer import Options, _Run
from unshuffle.plan.logical import Scan, Sort
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Delivered, asc, ranged
from unshuffle.search.trace import Trace
from unshuffle.target import Target
from workloads.described import with_scans

# Queries by number of inputs. A soak continues where the normal run ends.
COUNTS = {
    1: normal_or_quick(60, quick=12),
    2: normal_or_quick(150, quick=20),
    3: normal_or_quick(80, quick=12),
    4: normal_or_quick(20, quick=3),
}
FIRST, MANY = (1000, 50) if SOAK else (0, 1)


@pytest.mark.parametrize(
    ("inputs", "seed"), [(n, FIRST + s) for n, count in COUNTS.items() for s in range(count * MANY)]
)
def test_no_plan_is_cheaper(inputs: int, seed: int) -> None:
    assert_cheapest(query(seed, inputs))


def test_no_plan_is_cheaper_over_stored_ranges(report: list[str]) -> None:
    """Large tables are stored in ranges of two columns, and joins are mostly on one of them."""
    seeds = (*range(normal_or_quick(120, quick=40) * MANY), 198, 214)  # the last two have targeted broadcasts
    queries = [in_ranges(query(FIRST + seed, 2)) for seed in seeds]
    ways = [{node.alternative for node in assert_cheapest(each).walk()} for each in queries]
    pruned = sum(any(way.startswith("targeted") for way in of) for of in ways)
    report.append(f"plans with a targeted broadcast: {pruned} of {len(queries)}")
    assert pruned >= normal_or_quick(3, quick=1)


def in_ranges(drawn: Query) -> Query:
    def stored(scan: Scan) -> Scan:
        on = [column for column in scan.columns if column.type in INTEGERS][:2]
        if len(on) < 2 or (scan.statistics.rows or 0.0) < 1e6:
            return replace(scan, layout=None)
        cuts = [(100 * (i // 2), 50)[: 1 + i % 2] for i in range(2, 65)]
        keys = tuple(map(asc, on))
        return replace(scan, layout=Delivered(ranged(keys, cuts), keys))

    # The number of sampled ranges for an order is a policy that does not suit many stored partitions.
    outputs = (
        replace(each, plan=each.plan.child if isinstance(each.plan, Sort) else each.plan)
        for each in drawn.script.outputs
    )
    return replace(drawn, script=with_scans(replace(drawn.script, outputs=tuple(outputs)), stored))


def assert_cheapest(drawn: Query) -> PhysicalPlan:
    """The plan that the search finds, if no plan costs less."""
    # Every operator is accepted over every input. With refusals, the cheapest plan of an input may not be the best one.
    options = Options(Target(drawn.machine), accepts=lambda operator, inputs: True)
    run = _Run(drawn.script, drawn.numbers, options, Trace())
    outputs, *_, cost = run.best()
    least = Enumeration(run.roots[0], run.model, cost).best()
    if least is None:
        # Only plans below the limit are enumerated. With the search's own plan allowed, at least that one is.
        least = Enumeration(run.roots[0], run.model, cost, outputs[0]).best()
    found = least.cost if least is not None else inf
    assert cost <= found * (1 + 1e-9), (
        f"the search found {cost}, but {found} is possible:\n{least.show() if least else ''}"
    )
    assert found <= cost * (1 + 1e-9), "the search found a plan that the enumeration does not have"
    return outputs[0]
