"""Joins of tables in parts as a union of child joins (Herodotou, Borisov and Babu, sections 5 and 6).

One join of all parts has one method. Where one table is small in some ranges of the join column and large in others, no
method suits them all, and each range gets its own:

    visits JOIN bought ON day                 UNION ALL
    visits is large in winter,       -->      visits in winter JOIN bought in winter         copies bought
    bought in summer                          visits in summer JOIN bought in summer         copies visits

`partitions.child_joins` says which ranges have like sizes. A child join reads the parts that can have rows in its ranges,
and filters them by the ranges. Ranges in which one side has no part are not joined.

The ranges of all child joins together have every value once, and NULL is in one of them, so each row of either table is in
exactly one child join, with all the rows that it can match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.partitions import ChildJoin, KeyInterval, SizedPart, Sizes, child_joins
from unshuffle.plan.expressions import Call, Cast, Literal, Ref, connect
from unshuffle.plan.logical import Filter, Join, Plan, Project, Scan, SetKind, SetOperation, expressions_of
from unshuffle.plan.movable_conditions import FILTERS_LEFT, FILTERS_RIGHT, movable_columns
from unshuffle.plan.part_bounds import ColumnBounds
from unshuffle.plan.predicate_intervals import NULLS, compare_as_literals, condition_within
from unshuffle.plan.predicates import is_deterministic, join_condition
from unshuffle.plan.rebuild import with_inputs
from unshuffle.search.memo import Group, Memo, as_group, input_groups


def union_of_child_joins(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of two tables in parts is the union of the joins of their parts in ranges of a join column.

    Unsound for null-safe equality, which lets NULLs of all parts match, and for inputs that differ when they
    are read again."""
    if not isinstance(plan, Join) or memo.made_by(plan) is union_of_child_joins:
        return
    left, right = map(_source, input_groups(plan))
    if left is None or right is None or plan.condition is None or not is_deterministic(plan.condition):
        return
    for key in join_condition(plan.condition, plan.left.columns, plan.right.columns).keys:
        a, b = key.columns
        ours, theirs = _side(left, as_group(plan.left), a), _side(right, as_group(plan.right), b)
        can_compare = not key.null_safe and a.type == b.type and compare_as_literals(a, b)
        union = _union(plan, ours, theirs, memo) if can_compare and ours is not None and theirs is not None else None
        if union is not None:
            yield union
            return


# --- the inputs


@dataclass(frozen=True, slots=True)
class _Source:
    """A table in parts, and the filters and projections over it, from the table up."""

    scan: Scan
    steps: tuple[Filter | Project, ...]

    def origin(self, column: Column) -> Column | None:
        """The column of the table that a column is; None if it is computed."""
        for step in reversed(self.steps):
            if isinstance(step, Project):
                expression = dict(step.outputs)[column]
                if not isinstance(expression, Ref):
                    return None
                column = expression.column
        return column

    def over(self, rows: Plan) -> Plan:
        """The filters and projections over other rows of the table."""
        for step in self.steps:
            rows = with_inputs(step, [rows])
        return rows

    @property
    def needed(self) -> Sequence[int]:
        assert self.scan.bounds is not None
        return range(len(self.scan.bounds.parts)) if self.scan.needed is None else self.scan.needed


def _source(group: Group) -> _Source | None:
    first = group.expressions[0]
    match first:
        case Scan(bounds=bounds):
            return _Source(first, ()) if bounds is not None else None
        case Filter() | Project() if all(movable_columns(each) is not None for each in expressions_of(first)):
            below = _source(as_group(first.child))
            return _Source(below.scan, (*below.steps, first)) if below is not None else None
    return None


@dataclass(frozen=True, slots=True)
class _Side:
    """An input of the join, its join column in the table, and the bounds of that column."""

    source: _Source
    column: Column
    bounds: ColumnBounds
    bytes: float

    @property
    def parts(self) -> list[SizedPart]:
        """With the bytes of the columns and rows that are read. Rows without a value match nothing."""
        known = self.source.scan.bounds
        assert known is not None
        share = self.bytes / max(1, known.bytes_of(self.source.needed))
        intervals = self.bounds.intervals
        return [
            SizedPart(tuple(each for each in intervals[part] if each != NULLS), known.sizes[part] * share)
            for part in self.source.needed
        ]

    def bytes_in(self, child: ChildJoin) -> int:
        """The size of the parts that can have rows of a child join."""
        known = self.source.scan.bounds
        assert known is not None
        return known.bytes_of(self._needed_in(child.intervals))

    def restricted(self, intervals: Sequence[KeyInterval], has_nulls: bool) -> Plan:
        """The rows with a value in these intervals, and those without a value."""
        inside = condition_within(self.column, intervals)
        assert inside is not None  # one child join never has all values
        if has_nulls and self.column.nullable:
            inside = connect("or", [inside, Call("isnull", (Ref(self.column),), pa.bool_())])
        needed = self._needed_in((*intervals, NULLS) if has_nulls else intervals)
        return self.source.over(Filter(replace(self.source.scan, needed=needed, share=1.0), inside))

    def _needed_in(self, intervals: Sequence[KeyInterval]) -> tuple[int, ...]:
        wanted = self.bounds.overlapping(intervals)
        return tuple(part for part in self.source.needed if part in wanted)


def _side(source: _Source, group: Group, column: Column) -> _Side | None:
    origin = source.origin(column)
    bounds = source.scan.bounds.on(origin) if source.scan.bounds is not None and origin is not None else None
    return _Side(source, origin, bounds, group.bytes) if bounds is not None and origin is not None else None


# --- the child joins


def _union(plan: Join, left: _Side, right: _Side, memo: Memo) -> Plan | None:
    if left.bytes + right.bytes < 2 * THRESHOLDS.join_split_bytes:
        return None
    found = [each for each in child_joins(left.bounds.key, left.parts, right.parts) if _has_rows(plan, each.sizes)]
    if len(found) < 2:
        return None
    # Rows whose value is NULL match nothing. They are where most parts of their side are read anyway.
    left_nulls = max((each for each in found if each.sizes is not Sizes.RIGHT_ALONE), key=left.bytes_in)
    right_nulls = max((each for each in found if each.sizes is not Sizes.LEFT_ALONE), key=right.bytes_in)
    keeps = plan.kind not in FILTERS_LEFT, plan.kind not in FILTERS_RIGHT
    inputs = tuple(
        _child(plan, each, (left, right), (keeps[0] and each is left_nulls, keeps[1] and each is right_nulls), memo)
        for each in found
    )
    whole = replace(plan, left=left.source.over(left.source.scan), right=right.source.over(right.source.scan))
    return SetOperation(SetKind.UNION, True, inputs, plan.columns, whole)


def _has_rows(plan: Join, sizes: Sizes) -> bool:
    """Whether a child join can have rows. One without a side that could match has unmatched rows only."""
    match sizes:
        case Sizes.LEFT_ALONE:
            return plan.kind not in FILTERS_LEFT
        case Sizes.RIGHT_ALONE:
            return plan.kind not in FILTERS_RIGHT
    return True


def _child(plan: Join, child: ChildJoin, sides: Sequence[_Side], has_nulls: Sequence[bool], memo: Memo) -> Plan:
    """A child join under names of its own, in the order of the join's columns."""
    left, right = (side.restricted(child.intervals, nulls) for side, nulls in zip(sides, has_nulls, strict=True))
    rows = left if child.sizes is Sizes.LEFT_ALONE else right if child.sizes is Sizes.RIGHT_ALONE else None
    if rows is None:
        rows = replace(plan, left=left, right=right)
    found = {column.id: column for column in rows.columns}  # an outer join makes columns nullable
    values = [Ref(found[c.id]) if c.id in found else Cast(Literal(None, None), c.type) for c in plan.columns]
    return Project(rows, tuple(zip(map(memo.numbers.like, plan.columns), values, strict=True)))
