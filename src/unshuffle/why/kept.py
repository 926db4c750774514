"""The exchanges and sorts that stay: what forced each, and which fact that nobody knows would make it go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.schema import Dependency
from unshuffle.cost.model import CostModel
from unshuffle.properties import (
    Clustered,
    CoPartitioned,
    Delivered,
    InitialPartitioning,
    Partitioned,
    Repartitioning,
    Required,
    Scattered,
    Serial,
    Sorted,
    Within,
)
from unshuffle.properties.functions import Unknown
from unshuffle.why.imagine import Broken, Imagined, Whole, with_dependencies
from unshuffle.why.tracing import descend


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
            forced = _lowest(broken)
            yield Kept(node, forced, _remedy(whole, node, forced) if forced is not None else None)


def _lowest(broken: Sequence[Broken]) -> Broken | None:
    """The first requirement that breaks. What is asked of all inputs together says more than what is asked of each."""
    if not broken:
        return None
    same = [each for each in broken if each.node is broken[0].node and isinstance(each.required, CoPartitioned)]
    return (same or broken)[0]


def _remedy(whole: Whole, node: Physical, forced: Broken) -> Remedy | None:
    imagined = Imagined(whole, [node], assuming=True)
    if imagined.assumed and not imagined.broken:
        return Determined(tuple(dict.fromkeys(imagined.assumed)))
    for below, dependency in _determined_below(whole, node, forced):
        delivered, facts = whole.state(below)
        state = (delivered, with_dependencies(facts, [dependency]))
        if not Imagined(whole, [node], {below: state}).broken:
            return Determined((dependency,))
    for stored, scan in _otherwise_stored(whole, node):
        if not Imagined(whole, stored.gone, {scan: (stored.layout, whole.state(scan)[1])}).broken:
            return stored
    return None


def _determined_below(whole: Whole, node: Physical, forced: Broken) -> Iterator[tuple[Physical, Dependency]]:
    """Layouts that are lost on the way up because their columns are: what is asked for might determine them."""
    wish = forced.required.partitioning if isinstance(forced.required, Required) else None
    if not isinstance(wish, Clustered) or forced.place is None:
        return
    start = forced.node.inputs[forced.place]
    on = sorted(wish.maximum, key=lambda c: c.id)
    passed = False
    for below, columns in descend(whole, start, on, through=node):
        place = whole.state(below)[0].partitioning
        if passed and isinstance(place, Partitioned) and not isinstance(place.function, Unknown):
            missing = frozenset(place.columns) - frozenset(columns)
            if missing:
                yield below, Dependency(frozenset(columns), missing)
            return
        passed = passed or below is node


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
    *_, (scan, columns) = descend(whole, source, on)
    if not isinstance(scan.operator, ops.FileScan):
        return
    split = len(scheme.columns) if scheme is not None else 0
    local = tuple(key.on(column) for key, column in zip(keys, columns[split:], strict=True))
    place = Partitioned(scheme.function, tuple(columns[:split])) if scheme is not None else _unsorted(whole, scan)
    if place is not None and not (isinstance(place, Partitioned) and _costs_more(whole, scan, gone)):
        yield Stored(scan.operator, Delivered(place, local), gone), scan


def _costs_more(whole: Whole, scan: Physical, gone: Sequence[Physical]) -> bool:
    """Rows that lie as Spark is told are read one at a time. If few of them are left to be moved, that takes longer."""
    machine = whole.optimized.machine
    reading = CostModel(machine).elapsed(scan.amount.rows * machine.stored_row, scan.amount)
    return sum(each.own.seconds for each in gone) <= reading


def _scheme(operator: object) -> Partitioned | None:
    how = operator.how if isinstance(operator, ops.Move) else None
    scheme = how.scheme if isinstance(how, InitialPartitioning | Repartitioning) else None
    return scheme if isinstance(scheme, Partitioned) else None


def _unsorted(whole: Whole, scan: Physical) -> Serial | Scattered | Within | Partitioned | None:
    place = whole.state(scan)[0].partitioning
    return place if isinstance(place, Serial | Scattered | Within | Partitioned) else None
