"""The parts of tables that a plan reads, and the pairs of parts that can meet in a join whose inputs are read in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unshuffle.catalog.schema import Column
from unshuffle.explain.why.layout_origin import descend
from unshuffle.explain.why.part_reads import ScannedParts, TableReads, ranges_of_layout
from unshuffle.explain.why.what_if import DerivedPlan
from unshuffle.frozen import dataclass
from unshuffle.partitions import AllOf, Compared, Ranges, TableParts, meeting_parts
from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression, Ref, columns_of, walk
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Partitioned


@dataclass(frozen=True, slots=True)
class PrunedParts:
    """A table of which some parts are not read, because no row in them satisfies a filter."""

    table: TableReads  # by a column of the filter
    predicate: Expression | None

    @property
    def is_declared(self) -> bool:
        """Whether declared conditions bound a column of the filter."""
        bounds, read = (
            self.table.scan.scan.bounds,
            columns_of(self.predicate) if self.predicate is not None else frozenset(),
        )
        return bounds is not None and any(map(bounds.is_declared, read))


@dataclass(frozen=True, slots=True)
class MatchedParts:
    """A join of two tables whose parts are read in place, in ranges of two columns that the join equates. Task i reads the
    parts of both tables that can have rows in range i."""

    join: PhysicalPlan
    sides: tuple[TableReads, TableReads]
    predicates: tuple[Expression | None, Expression | None]  # for which parts of the sides are not read
    pairs: int  # that can meet
    ranges: Ranges

    @property
    def tasks(self) -> int:
        return len(self.ranges)

    @property
    def task_bytes(self) -> list[int]:
        """The bytes of the parts that each task reads."""
        found = [0] * self.tasks
        for side in self.sides:
            for part in side.parts:
                for task in part.tasks:
                    found[task] += part.bytes
        return found

    @property
    def extra_share(self) -> float:
        """The bytes that are read again, as a fraction of those that are read."""
        once = sum(part.bytes for side in self.sides for part in side.read)
        return sum(self.task_bytes) / once - 1 if once else 0.0


def pruned_parts(plan: DerivedPlan) -> Iterator[PrunedParts]:
    filters = _filters(plan)
    for node in plan.nodes():
        operator = node.operator
        if not isinstance(operator, physical.FileScan) or (
            operator.scan.needed is None and operator.scan.within is None
        ):
            continue
        predicate = filters.get(id(node))
        parts = ScannedParts(operator)
        named = [] if predicate is None else [each.column for each in walk(predicate) if isinstance(each, Ref)]
        tables = (parts.on(column) for column in (*named, *operator.columns))
        table = next((each for each in tables if each is not None), None)
        if table is not None and not all(part.is_read for part in table.parts):
            yield PrunedParts(table, predicate)


def matched_parts(plan: DerivedPlan) -> Iterator[MatchedParts]:
    filters = _filters(plan)
    for node in plan.nodes():
        if not isinstance(node.operator, physical.HashJoin | physical.MergeJoin):
            continue
        one, other = (_side(plan, child) for child in node.inputs)
        if one is None or other is None or len(one.ranges) != len(other.ranges):
            continue
        keys = node.operator.keys
        left, right = (
            _bounded_keys(plan, child, side, [key.columns[place] for key in keys])
            for place, (child, side) in enumerate(zip(node.inputs, (one, other), strict=True))
        )
        equal = AllOf(tuple(Compared(str(i), "<=>" if key.null_safe else "=", str(i)) for i, key in enumerate(keys)))
        pairs = sum(map(len, meeting_parts(left, right, equal)))
        predicates = filters.get(id(one.scan)), filters.get(id(other.scan))
        yield MatchedParts(node, (one.table, other.table), predicates, pairs, one.ranges)


def _filters(plan: DerivedPlan) -> dict[int, Expression]:
    """The predicate of the filter above a node."""
    return {id(n.inputs[0]): n.operator.predicate for n in plan.nodes() if isinstance(n.operator, physical.Filter)}


@dataclass(frozen=True, slots=True)
class _Side:
    """The scan that the ranges of a join's input come from, and its parts by the first column of the ranges."""

    scan: PhysicalPlan
    parts: ScannedParts
    table: TableReads
    ranges: Ranges


def _side(plan: DerivedPlan, node: PhysicalPlan) -> _Side | None:
    """None if the input is not in ranges, or if bounds of their column are not known."""
    layout = node.delivered.partitioning
    if not isinstance(layout, Partitioned):
        return None
    ranges = ranges_of_layout(layout)
    *_, (origin, (column, *_)) = descend(plan, node, layout.columns)
    if ranges is None or not isinstance(origin.operator, physical.FileScan):
        return None
    delivered = origin.operator.layout.partitioning
    if not isinstance(delivered, Partitioned) or delivered.function != layout.function:
        return None
    parts = ScannedParts(origin.operator)
    table = parts.on(column)
    return None if table is None else _Side(origin, parts, table, ranges)


def _bounded_keys(plan: DerivedPlan, node: PhysicalPlan, side: _Side, keys: Sequence[Column]) -> TableParts:
    """The parts that a scan reads, with the bounds of the join keys that come from it, named by their position."""
    columns = {}
    for place, key in enumerate(keys):
        *_, (origin, (column,)) = descend(plan, node, (key,))
        known = side.parts.index(column) if origin is side.scan else None
        if known is not None:
            columns[str(place)] = known
    return TableParts(len(side.parts.read), columns)
