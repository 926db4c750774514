"""No plan is cheaper than the one that the search finds: all plans of small generated queries are enumerated."""

from __future__ import annotations

import os
from math import inf

import pytest

from unshuffle.optimizer import Options, _Run
from unshuffle.search.trace import Trace

from .brute_force import Enumeration
from .queries import query

# How many queries of so many inputs. A soak goes on where the normal run ends.
COUNTS = {1: 60, 2: 150, 3: 80, 4: 20}
FIRST, MANY = (1000, 50) if "UNSHUFFLE_SOAK" in os.environ else (0, 1)


@pytest.mark.parametrize(
    ("inputs", "seed"), [(n, FIRST + s) for n, count in COUNTS.items() for s in range(count * MANY)]
)
def test_no_plan_is_cheaper(inputs: int, seed: int) -> None:
    drawn = query(seed, inputs)
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
