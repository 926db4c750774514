"""The key values of a small input, looked up in a large one that is stored in the order of these keys, or by their hash
(an index join; SIGMOD 2012, section 2.5.1).

All rows of a small table are looked at when a query is planned. If few values of its key remain after its filters, a join
needs only these of the other side:

    regions of 100 rows join visits on region = r_key     visits with region in (3, 17, ...) only

Then the row groups and partitions of the other side are left out that have none of these values. Only comparisons of whole
numbers, texts and dates with constants are evaluated. Other conditions would only leave fewer values.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.constants import THRESHOLDS
from unshuffle.partitions import END, KeyColumn, KeyInterval
from unshuffle.plan.bucket_elimination import reads
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, connect
from unshuffle.plan.logical import Scan
from unshuffle.plan.predicate_intervals import NULLS, intervals_of_column

# Spark writes older dates in two calendars. Arrow reads them in one.
_ONE_CALENDAR = datetime.date(1600, 1, 1)


def condition_on_keys(target: Column, key: Column, scan: Scan, conditions: Sequence[Expression]) -> Expression | None:
    """The condition that a column has one of the values that a key has in the rows of a scan which satisfy some conditions;
    None if these values are too many, or not known for certain."""
    values = _values(key, scan, conditions)
    if values is None or target.type is None:
        return None
    literals = [Literal(value, target.type) for value in values if _fits(value, target.type)]
    return Call("in", (Ref(target), *literals), pa.bool_()) if literals else None


def _values(key: Column, scan: Scan, conditions: Sequence[Expression]) -> list[Any] | None:
    import pyarrow.compute as pc  # a slow import, needed only where rows are looked at

    look = scan.look
    if look is None or not look.is_complete or not _is_simple(key.type):
        return None
    values = look.exact_column(key.name, key.type)
    if values is None:
        return None
    for column in scan.columns:
        compared = [condition for condition in conditions if reads(condition, column)]
        kept = _satisfying(column, scan, compared) if compared else None
        if kept is not None:
            values = pc.if_else(kept, values, None)
    most = THRESHOLDS.scan_pruning_values
    values = values.drop_null()
    if len(values[: 2 * most].unique()) > most:
        return None  # the usual case, and a fast answer
    found = values.unique()
    return found.to_pylist() if len(found) <= most else None


def _satisfying(column: Column, scan: Scan, conditions: Sequence[Expression]) -> pa.Array | None:
    """Which rows have a value that satisfies all conditions on a column; None if that is not known for certain."""
    assert scan.look is not None
    if not (_is_simple(column.type) or pa.types.is_date32(column.type)):
        return None
    intervals = intervals_of_column(connect("and", conditions), column, KeyColumn(column.type))
    values = scan.look.exact_column(column.name, column.type) if intervals is not None else None
    if intervals is None or values is None or not all(map(_is_certain, intervals)):
        return None
    import pyarrow.compute as pc

    kept = pa.repeat(pa.scalar(False), len(values))
    for each in intervals:
        kept = pc.or_(kept, _within(values, each, column.type))
    return kept


def _is_simple(type: DataType) -> bool:
    return bool(pa.types.is_signed_integer(type) or pa.types.is_string(type))


def _is_certain(interval: KeyInterval) -> bool:
    ends = (*interval.low.values, *interval.high.values)
    return all(not isinstance(end, datetime.date) or end >= _ONE_CALENDAR for end in ends)


def _within(values: pa.Array, interval: KeyInterval, type: DataType) -> pa.Array:
    import pyarrow.compute as pc

    if interval == NULLS:
        return pc.is_null(values)
    low, high = interval.low, interval.high
    found = pc.is_valid(values)
    if low.values and low.values[0] is not None:
        compare = pc.greater if low.after else pc.greater_equal
        found = pc.and_(found, compare(values, pa.scalar(low.values[0], type)).fill_null(False))
    if high != END:
        compare = pc.less_equal if high.after else pc.less
        found = pc.and_(found, compare(values, pa.scalar(high.values[0], type)).fill_null(False))
    return found


def _fits(value: Any, type: pa.DataType) -> bool:
    """Whether a value is one of the type. No row of a narrower type has another."""
    if not isinstance(value, int):
        return True
    limit: int = 1 << (type.bit_width - 1)
    return -limit <= value < limit
