"""The parts of tables that a plan reads, and the pairs of parts that can meet in a join whose inputs are read in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unshuffle.catalog.schema import Column
from unshuffle.explain.why.layout_origin import descend
from unshuffle.explain.why.what_if import DerivedPlan
from unshuffle.frozen import dataclass
from unshuffle.partitions import AllOf, Compared, TableParts, meeting_parts
from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression, columns_of
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Partitioned, RangeFunction


@dataclass(frozen=True, slots=True)
class PrunedParts:
    """A table of which some row groups are not read, because no row in them satisfies a filter."""

    scan: physical.FileScan
    read: int
    all: int
    share: float  # of the bytes
    predicate: Expression | None

    @property
    def is_declared(self) -> bool:
        """Whether declared conditions bound a column of the filter."""
        bounds, read = self.scan.scan.bounds, columns_of(self.predicate) if self.predicate is not None else frozenset()
        return bounds is not None and any(map(bounds.is_declared, read))


@dataclass(frozen=True, slots=True)
class MatchedParts:
    """A join of two tables whose row groups are read in place, in ranges of two columns that the join equates."""

    join: PhysicalPlan
    scans: tuple[physical.FileScan, physical.FileScan]
    columns: tuple[Column, Column]
    parts: tuple[int, int]
    pairs: int  # that can meet
    tasks: int


def pruned_parts(plan: DerivedPlan) -> Iterator[PrunedParts]:
    filters = {id(n.inputs[0]): n.operator.predicate for n in plan.nodes() if isinstance(n.operator, physical.Filter)}
    for node in plan.nodes():
        operator = node.operator
        if isinstance(operator, physical.FileScan):
            bounds, needed, share = operator.scan.bounds, operator.scan.needed, operator.scan.read_share
            if bounds is not None and needed is not None and share is not None:
                yield PrunedParts(operator, len(needed), len(bounds.parts), share, filters.get(id(node)))


def matched_parts(plan: DerivedPlan) -> Iterator[MatchedParts]:
    for node in plan.nodes():
        if not isinstance(node.operator, physical.HashJoin | physical.MergeJoin):
            continue
        sides = [_side(plan, child) for child in node.inputs]
        if len(sides) != 2 or sides[0] is None or sides[1] is None:
            continue
        (one, column), (other, match) = sides[0], sides[1]
        keys = node.operator.keys
        left, right = (
            _bounded_keys(plan, child, scan, [key.columns[place] for key in keys])
            for place, (child, scan) in enumerate(zip(node.inputs, (one, other), strict=True))
        )
        equal = AllOf(tuple(Compared(str(i), "<=>" if key.null_safe else "=", str(i)) for i, key in enumerate(keys)))
        pairs = sum(map(len, meeting_parts(left, right, equal)))
        counts = left.count, right.count
        yield MatchedParts(node, (one, other), (column, match), counts, pairs, node.inputs[0].size.partitions)


def _side(plan: DerivedPlan, node: PhysicalPlan) -> tuple[physical.FileScan, Column] | None:
    """The scan that an input's ranges come from, and the first column of the ranges, if it has bounds there."""
    layout = node.delivered.partitioning
    if not isinstance(layout, Partitioned) or not isinstance(layout.function, RangeFunction):
        return None
    *_, (origin, (column, *_)) = descend(plan, node, layout.columns)
    operator = origin.operator
    if not isinstance(operator, physical.FileScan) or operator.scan.bounds is None:
        return None
    return (operator, column) if operator.scan.bounds.on(column) is not None else None


def _bounded_keys(plan: DerivedPlan, node: PhysicalPlan, scan: physical.FileScan, keys: Sequence[Column]) -> TableParts:
    """The parts that a scan reads, with the bounds of the join keys that come from it, named by their position."""
    bounds, needed = scan.scan.bounds, scan.scan.needed
    assert bounds is not None
    columns = {}
    for place, key in enumerate(keys):
        *_, (origin, (column,)) = descend(plan, node, (key,))
        known = bounds.on(column) if origin.operator is scan else None
        if known is not None:
            columns[str(place)] = known.index.of_parts(needed)
    return TableParts(len(bounds.parts if needed is None else needed), columns)
