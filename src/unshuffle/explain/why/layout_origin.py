"""Where a layout comes from: from a node down through the operators that preserve it, to the exchange or the files that made
it, with the names that its columns have on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unshuffle.catalog.schema import Column
from unshuffle.explain.why.what_if import DerivedPlan
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan


def descend(
    plan: DerivedPlan, node: PhysicalPlan, columns: Sequence[Column], through: PhysicalPlan | None = None
) -> Iterator[tuple[PhysicalPlan, list[Column]]]:
    """The node and those below it that its layout comes from, each with its own columns for `columns`. The descent ends
    where a column has no source, and at every exchange except `through`."""
    current = list(columns)
    while True:
        yield node, current
        operator = node.operator
        if isinstance(operator, physical.ReadSpool):
            spooled = plan.spools[operator.spool]
            originals = dict(zip(operator.columns, spooled.columns, strict=True))
            node, current = spooled, [originals[column] for column in current]
            continue
        carried = 0 if node is through else operator.carried
        if carried is None or not node.inputs:
            return
        for below in _inputs_with_the_layout(node, carried):
            sources = [_source(plan, node, below, operator.source(column)) for column in current]
            found = [column for column in sources if column is not None]
            if len(found) == len(current):
                node, current = below, found
                break
        else:
            return


def _inputs_with_the_layout(node: PhysicalPlan, carried: int) -> Sequence[PhysicalPlan]:
    """The inputs of a pair-wise join have one layout. That of the streamed input comes first."""
    first = node.inputs[carried]
    return [first, *(each for each in node.inputs if each is not first)] if node.alternative == "pair-wise" else [first]


def _source(plan: DerivedPlan, node: PhysicalPlan, below: PhysicalPlan, column: Column | None) -> Column | None:
    """The column below, or one that is always equal to it."""
    if column is None or column in below.columns:
        return column
    equal = plan.state(node)[1].equals_of(column)
    return min((c for c in below.columns if c in equal), key=lambda c: c.id, default=None)
