"""Scan pruning: row groups of a stored stream, and folders of a table, in which a filter can keep no row are not read.

A stream is sorted within its partitions, and the first and last key of every row group are stored. A folder has one value of
its columns. Conditions that compare the first columns of that order with constants select intervals of it:

    domain = 'a' and host > 'm'     from just after (a, m) to the end of a
    domain in ('a', 'b')            the two values, whole
    host > 'm'                      no interval: host is not the first column

The filter stays, because row groups have other rows too.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import product
from typing import Any

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import DATE
from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import on
from unshuffle.partitions import END, START, Cut, KeyColumn, KeyInterval, KeyOrder
from unshuffle.plan.expressions import Call, Cast, Expression, Literal, Ref
from unshuffle.plan.functions.scalars import FLIPPED
from unshuffle.plan.logical import Filter, Plan, Scan
from unshuffle.plan.predicates import conjuncts
from unshuffle.properties.facts.equality import interchangeable

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@on(Filter)
def prune_scan(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter over a stream lets the scan skip row groups without rows that satisfy it.

    Not for conditions on columns that are not a prefix of the stream's order: their rows may be anywhere.
    """
    match plan:
        case Filter(Scan(parts=parts, within=None) as scan, predicate) if parts is not None:
            from unshuffle.sstream.logical_partitions import logical_partitions

            manifest = parts.layout
            read = {column.name: column for column in scan.columns}
            order = [read.get(name.name) for name in manifest.sorted_by]
            found = intervals(conjuncts(predicate), order, manifest.sort_keys)
            if found is None:
                return None
            kept, all_ = logical_partitions(manifest, within=found).bytes, logical_partitions(manifest).bytes
            share = kept / all_ if all_ else 1.0
            spread = scan.spread
            if spread is not None and manifest.sorted_by[: len(manifest.clustered_by)] == manifest.clustered_by:
                spread = spread.within(found)
            return replace(plan, child=replace(scan, within=found, share=share, spread=spread))
    return None


@dataclass(slots=True)
class _Bounds:
    """What conditions imply for a column: a list of values, or the ends of an interval and whether each is included."""

    values: list[Any] | None = None
    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None


@dataclass(slots=True)
class _BoundsReader:
    columns: Sequence[Column | None]
    keys: Sequence[KeyColumn]
    bounds: dict[Column, _Bounds] = field(default_factory=dict)

    def read(self, condition: Expression) -> None:
        if type(condition) is not Call:
            return
        name, arguments = condition.function, condition.arguments
        if name in FLIPPED and name != "<>" and len(arguments) == 2:
            one, other = arguments
            if isinstance(one, Literal):
                one, other, name = other, one, FLIPPED[name]
            self._compared(name, one, other)
        elif name == "between" and len(arguments) == 3:
            self._compared(">=", arguments[0], arguments[1])
            self._compared("<=", arguments[0], arguments[2])
        elif name == "in":
            self._one_of(arguments[0], arguments[1:])

    def _compared(self, name: str, subject: Expression, value: Expression) -> None:
        if name in ("=", "<=>"):
            self._one_of(subject, (value,), null_safe=name == "<=>")
            return
        found = self._bounds_of(subject, (value,))
        if found is None:
            return
        bounds, (constant,) = found
        # The last of several bounds is used: each of them is correct.
        if constant is None:
            bounds.values = []
        elif name in (">", ">="):
            bounds.low = (constant, name == ">=")
        else:
            bounds.high = (constant, name == "<=")

    def _one_of(self, subject: Expression, values: Sequence[Expression], null_safe: bool = False) -> None:
        found = self._bounds_of(subject, values)
        if found is None:
            return
        bounds, constants = found
        kept = [each for each in constants if each is not None or null_safe]
        if len(kept) <= THRESHOLDS.scan_pruning_values and (bounds.values is None or len(kept) < len(bounds.values)):
            bounds.values = kept

    def _bounds_of(self, subject: Expression, values: Sequence[Expression]) -> tuple[_Bounds, list[Any]] | None:
        """The bounds of the subject so far, and the constants, if it is a column of the order and they have its type."""
        if not isinstance(subject, Ref) or subject.column not in self.columns:
            return None
        column = subject.column
        literals = [_literal(value, column) for value in values]
        constants = [each.value for each in literals if each is not None]
        if not all(each is not None and (each.value is None or _same(each.type, column.type)) for each in literals):
            return None
        try:
            order = KeyOrder((self.keys[list(self.columns).index(column)],))
            for constant in constants:
                order.row((constant,))
        except ValueError:
            return None  # the stream stores such values in another form
        return self.bounds.setdefault(column, _Bounds()), constants


def _literal(value: Expression, column: Column) -> Literal | None:
    """The literal that a column is compared with. A date is often compared with a string, which Spark casts."""
    literal = value.operand if isinstance(value, Cast) and value.type == column.type == DATE else value
    if not isinstance(literal, Literal):
        return None
    if column.type != DATE or not isinstance(literal.value, str):
        return literal if literal is value else None
    try:
        return Literal(datetime.date.fromisoformat(literal.value), DATE) if _DATE.fullmatch(literal.value) else None
    except ValueError:
        return None  # Spark raises an error


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or interchangeable(one, other)


def intervals(
    conditions: Sequence[Expression], columns: Sequence[Column | None], keys: Sequence[KeyColumn]
) -> tuple[KeyInterval, ...] | None:
    """The intervals of the order that contain all rows which satisfy the conditions; None if they exclude nothing."""
    reader = _BoundsReader(columns, keys)
    for condition in conditions:
        reader.read(condition)
    fixed: list[list[Any]] = []
    for column in columns:
        bounds = reader.bounds.get(column) if column is not None else None
        if (
            bounds is None
            or bounds.values is None
            or _count(fixed) * len(bounds.values) > THRESHOLDS.scan_pruning_values
        ):
            break
        fixed.append(bounds.values)
    at = len(fixed)
    last = columns[at] if at < len(columns) else None
    bounds = reader.bounds.get(last) if last is not None else None
    if not fixed and (bounds is None or (bounds.low is None and bounds.high is None)):
        return None
    found = tuple(_interval(prefix, bounds, keys[at] if bounds is not None else None) for prefix in product(*fixed))
    order = KeyOrder(keys)
    return tuple(each for each in found if order.place(each.low) < order.place(each.high))


def _count(lists: Sequence[Sequence[Any]]) -> int:
    count = 1
    for each in lists:
        count *= len(each)
    return count


def _interval(prefix: tuple[Any, ...], bounds: _Bounds | None, key: KeyColumn | None) -> KeyInterval:
    low = Cut(prefix) if prefix else START
    high = Cut(prefix, after=True) if prefix else END
    if bounds is None or key is None:
        return KeyInterval(low, high)
    first, last = (bounds.high, bounds.low) if key.descending else (bounds.low, bounds.high)
    if first is not None:
        low = Cut((*prefix, first[0]), after=not first[1])
    if last is not None:
        high = Cut((*prefix, last[0]), after=last[1])
    return KeyInterval(low, high)
