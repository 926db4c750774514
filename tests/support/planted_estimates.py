"""One wrong estimate in a query: that of the first operator of a kind, however often it is estimated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from unshuffle import optimizer
from unshuffle.plan.logical import Plan


class Planted:
    """The operator that is misjudged, and what its estimate would be."""

    node: Any = None
    right_rows = 0.0


@contextmanager
def planted(kind: type[Plan], factor: float) -> Iterator[Planted]:
    """Inside, the first operator of a kind that is estimated has so many times its rows, as far as its inputs allow."""
    right: Callable[..., Any] = optimizer.estimate
    found = Planted()

    def wrong(node: Plan, inputs: Sequence[Any], facts: Any) -> Any:
        estimate = right(node, inputs, facts)
        if isinstance(node, kind) and found.node is None:
            found.node, found.right_rows = node, estimate.rows
        if node is not found.node:
            return estimate
        most = inputs[0].rows * (inputs[1].rows if len(inputs) > 1 else 1.0)
        return replace(estimate, rows=max(1.0, min(estimate.rows * factor, most)))

    optimizer.estimate = wrong
    try:
        yield found
    finally:
        optimizer.estimate = right  # type: ignore[assignment]
