"""Where a layout comes from: down from a node, through the operators that pass it on, to the exchange or the files that made
it, with what columns are called on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.schema import Column
from unshuffle.why.imagine import Whole


def descend(
    whole: Whole, node: Physical, columns: Sequence[Column], through: Physical | None = None
) -> Iterator[tuple[Physical, list[Column]]]:
    """The node and those below it that its layout comes from, each with what it calls the columns; it ends where they are
    not known, and at an exchange, but for the one that it is told to go through."""
    now = list(columns)
    while True:
        yield node, now
        operator = node.operator
        if isinstance(operator, ops.ReadSpool):
            plan = whole.spools[operator.spool]
            names = dict(zip(operator.columns, plan.columns, strict=True))
            node, now = plan, [names[column] for column in now]
            continue
        carried = 0 if node is through else operator.carried
        if carried is None or not node.inputs:
            return
        below = node.inputs[carried]
        sources = [_source(whole, node, below, operator.source(column)) for column in now]
        known = [column for column in sources if column is not None]
        if len(known) < len(now):
            return
        node, now = below, known


def _source(whole: Whole, node: Physical, below: Physical, column: Column | None) -> Column | None:
    if column is None or column in below.columns:
        return column
    equal = whole.state(node)[1].equals_of(column)
    return min((c for c in below.columns if c in equal), key=lambda c: c.id, default=None)
