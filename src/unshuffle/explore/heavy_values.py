"""Joins on a key with heavy values, whose rows would all be in one partition (SIGMOD 2012, section 3.3.4).

    events JOIN devices ON device                 events, part             JOIN  devices, part          ON device and part
    6 of 10 events are at device 77      -->      77: 0 to 63, by a hash         77: once for each part
                                                  others: 0                      others: 0

The rows of a heavy value are divided into parts by a hash of other columns. The rows of the other side that have this
value are copied into every part. Each pair of rows that match meets once, in the part of the divided row. Hashing
(device, part) spreads the parts over all partitions. NULL matches nothing, so where rows without a match are kept, those with
NULL are divided without copies (docs/decisions/029).

Which values are heavy is known from the rows that were looked at, or from statistics. A value that is wrongly taken for heavy
costs copies, never a wrong row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

import pyarrow as pa

from unshuffle.cardinality.distributions import any_fraction
from unshuffle.cardinality.estimate import estimate
from unshuffle.cardinality.relation_estimate import Estimate
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN
from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref, connect, is_fixed
from unshuffle.plan.logical import Expand, Join, Plan, Project
from unshuffle.plan.movable_conditions import KEEPS_LEFT, KEEPS_RIGHT
from unshuffle.plan.predicate_intervals import compare_as_literals
from unshuffle.plan.predicates import conjunction, conjuncts, is_deterministic, join_condition
from unshuffle.properties import Dependencies
from unshuffle.search.memo import Group, Memo, as_group

_BOOLEAN, _PART, _HASH = pa.bool_(), pa.int32(), pa.int64()


def split_heavy_values(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """The rows of one side with a heavy value of a join key are divided among several partitions, and the rows of the other
    side with that value are copied into each of them.

    Unsound for a side that is copied and keeps its unmatched rows: every copy would be one. Unsound for null-safe equality if
    NULLs are divided without copies: they would have matches."""
    if not isinstance(plan, Join) or memo.made_by(plan) is split_heavy_values:
        return
    if plan.condition is None or not is_deterministic(plan.condition):
        return
    for divided, kinds in ((0, KEEPS_LEFT), (1, KEEPS_RIGHT)):
        heavy = _heavy(plan, divided) if plan.kind in kinds else None
        if heavy is not None and _hashed(as_group(plan.children[divided]), heavy):
            yield _divided(plan, divided, heavy, memo)


def undivided_rows(join: Join, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """The estimate of such a join: that of the join without parts. Statistics do not know that each copy meets other rows."""
    whole = []
    for child, known in zip(join.children, inputs, strict=True):
        first = as_group(child).expressions[0]
        whole.append(as_group(first.child).estimate if isinstance(first, Expand) else known)
    return estimate(replace(join, condition=conjunction(conjuncts(join.condition)[:-1])), whole, facts)


@dataclass(frozen=True, slots=True)
class _Heavy:
    """A join key by its columns, in the side that is divided and in the other one, its heavy values, and the number of
    parts."""

    column: Column
    other: Column
    values: tuple[Literal, ...]
    has_nulls: bool  # whether NULL is one of them
    parts: int

    def among(self, column: Column) -> Expression:
        return Call("in", (Ref(column), *self.values), _BOOLEAN)

    @property
    def divided(self) -> Expression:
        """Which rows are divided."""
        conditions = [self.among(self.column)] if self.values else []
        if self.has_nulls:
            conditions.append(Call("isnull", (Ref(self.column),), _BOOLEAN))
        return connect("or", conditions)


def _heavy(plan: Join, place: int) -> _Heavy | None:
    """The key whose heavy values have the fewest rows: more of them are in one partition only if the others are heavy too."""
    group, other = as_group(plan.children[place]), as_group(plan.children[1 - place])
    if group.bytes < THRESHOLDS.heavy_value_bytes:
        return None
    found: list[tuple[float, _Heavy]] = []
    keys = join_condition(plan.condition, plan.left.columns, plan.right.columns).keys
    for key in keys:
        column, partner = key.columns[place], key.columns[1 - place]
        if key.null_safe or column.type != partner.type or not compare_as_literals(column, partner):
            return None
        heavy = _heavy_values(group, column, partner, plan.kind)
        if heavy is None:
            return None  # no value is heavy in this key, so none is in all keys together
        found.append(heavy)
    if not found or group.estimate.largest_share([key.columns[place] for key in keys]) < _least_share(group):
        return None
    share, fewest = min(found, key=lambda each: each[0])
    statistics = other.estimate.columns.get(fewest.other, UNKNOWN_COLUMN)
    copied = any_fraction(statistics, [each.value for each in fewest.values]) or 0.0
    return fewest if other.bytes * copied * fewest.parts <= share * group.bytes else None


def _least_share(group: Group) -> float:
    return THRESHOLDS.heavy_value_bytes / group.bytes


def _heavy_values(group: Group, column: Column, partner: Column, kind: JoinKind) -> tuple[float, _Heavy] | None:
    """The share of the rows that have heavy values of a column, and these; None if there are none."""
    known = group.estimate.columns.get(column, UNKNOWN_COLUMN)
    least = _least_share(group)
    found = [(value, share) for value, share in known.common if share >= least][: THRESHOLDS.heavy_values]
    keeps_nulls = kind in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.ANTI) and column not in group.facts.never_null
    has_nulls = keeps_nulls and known.null_fraction >= least
    shares = [share for _, share in found] + ([known.null_fraction] if has_nulls else [])
    if not shares:
        return None
    parts = min(THRESHOLDS.heavy_parts_max, ceil(max(shares) / least) * THRESHOLDS.heavy_parts)
    values = tuple(Literal(value, column.type) for value, _ in found)
    return sum(shares), _Heavy(column, partner, values, has_nulls, parts)


def _hashed(group: Group, heavy: _Heavy) -> list[Column]:
    """The columns whose hash divides the rows: as few as tell rows of one value apart, numbers before texts. The hash of a
    row never changes, so a task that Spark repeats sends each row where it went the first time."""
    usable = [c for c in group.columns if c != heavy.column and c.type is not None and not pa.types.is_nested(c.type)]
    chosen: list[Column] = []
    for column in sorted(usable, key=lambda each: not is_fixed(each.type)):
        chosen.append(column)
        if group.estimate.distinct(chosen) >= heavy.parts * THRESHOLDS.heavy_part_values:
            break
    return chosen


def _divided(plan: Join, place: int, heavy: _Heavy, memo: Memo) -> Plan:
    sides: list[Plan] = list(plan.children)
    part, copy = (memo.numbers.new("part", _PART, nullable=False) for _ in range(2))
    sides[place] = _with_parts(as_group(sides[place]), heavy, part)
    if heavy.values:
        sides[1 - place] = Expand(sides[1 - place], (), ((),) * heavy.parts, copy, heavy.among(heavy.other))
    else:
        # The first part of one: not a literal, which Spark would put into the condition instead of a join key.
        sides[1 - place] = _with_column(as_group(sides[1 - place]), copy, _part_of([heavy.other], 1))
    same = Call("=", (Ref(part), Ref(copy)), _BOOLEAN)
    condition = conjunction([plan.condition, same] if plan.condition is not None else [same])
    return replace(plan, left=sides[0], right=sides[1], condition=condition, kept=plan.columns)


def _with_parts(group: Group, heavy: _Heavy, part: Column) -> Plan:
    number = _part_of(_hashed(group, heavy), heavy.parts)
    return _with_column(group, part, Case(((heavy.divided, number),), Literal(0, _PART), _PART))


def _part_of(columns: Sequence[Column], parts: int) -> Expression:
    """The part of a row, by a hash of some columns."""
    hashed = Call("xxhash64", tuple(map(Ref, columns)), _HASH)
    return Cast(Call("pmod", (hashed, Literal(parts, _HASH)), _HASH), _PART)


def _with_column(group: Group, column: Column, value: Expression) -> Plan:
    return Project(group, (*((each, Ref(each)) for each in group.columns), (column, value)))
