"""The exchanges and sorts that stay: what forced each, and which fact that nobody knows would make it go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties import (
    CoPartitioned,
    Delivered,
    InitialPartitioning,
    Partitioned,
    Repartitioning,
    Scattered,
    Serial,
    Sorted,
)
from unshuffle.why.imagine import Broken, Imagined, Whole


@dataclass(frozen=True, slots=True)
class Determined:
    """It would go if these dependencies held."""

    dependencies: tuple[Dependency, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """It would go if these files were stored in this layout; `gone` are the nodes that would not be needed."""

    scan: ops.FileScan
    layout: Delivered
    gone: tuple[Physical, ...]


Remedy = Determined | Stored


@dataclass(frozen=True, slots=True)
class Kept:
    """An exchange or sort, the requirement that would not be met without it, and what would make it go."""

    node: Physical
    forced: Broken | None  # None: nothing needs it, it is there because the plan is cheaper with it
    remedy: Remedy | None


def kept(whole: Whole) -> Iterator[Kept]:
    for node in whole.nodes():
        if isinstance(node.operator, ops.Move | ops.LocalSort):
            broken = Imagined(whole, [node]).broken
            yield Kept(node, _lowest(broken), _remedy(whole, node) if broken else None)


def _lowest(broken: Sequence[Broken]) -> Broken | None:
    """The first requirement that breaks. What is asked of all inputs together says more than what is asked of each."""
    if not broken:
        return None
    same = [each for each in broken if each.node is broken[0].node and isinstance(each.required, CoPartitioned)]
    return (same or broken)[0]


def _remedy(whole: Whole, node: Physical) -> Remedy | None:
    imagined = Imagined(whole, [node], assuming=True)
    if imagined.assumed and not imagined.broken:
        return Determined(tuple(dict.fromkeys(imagined.assumed)))
    for stored, scan in _otherwise_stored(whole, node):
        if not Imagined(whole, stored.gone, {scan: stored.layout}).broken:
            return stored
    return None


def _otherwise_stored(whole: Whole, node: Physical) -> Iterator[tuple[Stored, Physical]]:
    """The layout that the enforcer makes, as one of the files that its rows come from."""
    below = node.inputs[0]
    operator = node.operator
    if isinstance(operator, ops.LocalSort):
        gone = (node, below) if isinstance(below.operator, ops.Move) else (node,)
        source = below.inputs[0] if len(gone) == 2 else below
        scheme = _scheme(below.operator) if len(gone) == 2 else None
        if len(gone) == 2 and scheme is None:
            return
        keys: tuple[Sorted, ...] = operator.keys
    else:
        gone, source, scheme, keys = (node,), below, _scheme(operator), ()
        if scheme is None:
            return
    on = (*(scheme.columns if scheme is not None else ()), *(key.column for key in keys))
    found = _traced(whole, source, on)
    if found is None:
        return
    scan, columns = found
    split = len(scheme.columns) if scheme is not None else 0
    local = tuple(key.on(column) for key, column in zip(keys, columns[split:], strict=True))
    place = Partitioned(scheme.function, tuple(columns[:split])) if scheme is not None else _unsorted(whole, scan)
    assert isinstance(scan.operator, ops.FileScan)
    if place is not None:
        yield Stored(scan.operator, Delivered(place, local), gone), scan


def _scheme(operator: object) -> Partitioned | None:
    how = operator.how if isinstance(operator, ops.Move) else None
    scheme = how.scheme if isinstance(how, InitialPartitioning | Repartitioning) else None
    return scheme if isinstance(scheme, Partitioned) else None


def _unsorted(whole: Whole, scan: Physical) -> Serial | Scattered | Partitioned | None:
    place = whole.state(scan)[0].partitioning
    return place if isinstance(place, Serial | Scattered | Partitioned) else None


def _traced(whole: Whole, node: Physical, columns: Sequence[Column]) -> tuple[Physical, list[Column]] | None:
    """The scan that a node's layout comes from, with what it calls these columns."""
    now = list(columns)
    while not isinstance(node.operator, ops.FileScan):
        operator = node.operator
        if isinstance(operator, ops.ReadSpool):
            plan = whole.spools[operator.spool]
            names = dict(zip(operator.columns, plan.columns, strict=True))
            node, now = plan, [names[column] for column in now]
            continue
        if isinstance(operator, ops.Move) or operator.carried is None:
            return None
        below = node.inputs[operator.carried]
        sources = [_source(whole, node, below, operator.source(column)) for column in now]
        known = [column for column in sources if column is not None]
        if len(known) < len(now):
            return None
        node, now = below, known
    return node, now


def _source(whole: Whole, node: Physical, below: Physical, column: Column | None) -> Column | None:
    if column is None or column in below.columns:
        return column
    equal = whole.state(node)[1].equals_of(column)
    return min((c for c in below.columns if c in equal), key=lambda c: c.id, default=None)
