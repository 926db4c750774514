"""The intervals of columns that conditions select.

Conditions that compare the first columns of an order with constants select intervals of the order:

    domain = 'a' and host > 'm'     from just after (a, m) to the end of a
    domain in ('a', 'b')            the two values, whole
    host > 'm'                      no interval: host is not the first column

A condition with alternatives selects intervals of each column that all of its alternatives compare:

    (a = 1 and b < 5) or a = 3      a is 1 or 3; b may be anything
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import field
from functools import reduce
from itertools import product
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import DATE
from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.partitions import (
    END,
    START,
    Cut,
    KeyColumn,
    KeyInterval,
    KeyOrder,
    intersected,
    interval_of_value,
    merged,
)
from unshuffle.plan.expressions import Call, Cast, Expression, Literal, Ref, connect
from unshuffle.plan.functions.scalars import FLIPPED
from unshuffle.plan.predicates import not_null_if_true
from unshuffle.properties.facts.equality import interchangeable

Intervals = tuple[KeyInterval, ...]
NULLS = interval_of_value((None,))  # the rows whose value is NULL
VALUES = KeyInterval(NULLS.high, END)  # all other rows


def is_closed(interval: KeyInterval) -> bool:
    """Whether an interval has a value at both ends. The lower end may be the one after NULL."""
    return bool(interval.low.values and interval.high.values) and interval.low.values[0] is not None


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def intervals_of_column(condition: Expression, column: Column, key: KeyColumn) -> Intervals | None:
    """The values of a column in all rows for which the condition is true; None if they may be any. NULL has an interval of
    its own."""
    match condition:
        case Call("and", parts):
            known = [each for part in parts if (each := intervals_of_column(part, column, key)) is not None]
            return reduce(lambda one, other: intersected((key,), one, other), known) if known else None
        case Call("or", parts):
            alternatives = [intervals_of_column(part, column, key) for part in parts]
            found = [each for alternative in alternatives if alternative is not None for each in alternative]
            nulls = (NULLS,) if NULLS in found else ()
            return None if None in alternatives else (*nulls, *merged((key,), (i for i in found if i != NULLS)))
        case Call("isnull", (Ref(column=compared),)) if compared == column:
            return (NULLS,)
    compared_with = intervals((condition,), (column,), (key,))
    if compared_with is not None:
        # A comparison without a lower end is not true for NULL, though NULL comes first.
        return tuple(KeyInterval(NULLS.high, each.high) if each.low == START else each for each in compared_with)
    return (VALUES,) if column in not_null_if_true(condition) else None


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


def compare_as_literals(one: Column, other: Column) -> bool:
    """Whether a value of one column can be compared with the other as a literal."""
    t = pa.types
    simple = one.type is not None and any(is_type(one.type) for is_type in (t.is_integer, t.is_date, t.is_string))
    return simple and (one.type == other.type or interchangeable(one.type, other.type))


def condition_within(column: Column, values: Sequence[KeyInterval]) -> Expression | None:
    """The condition that a column has a value in one of these intervals; None if that may be any value."""
    inside = [_ends(column, each) for each in values]
    return connect("or", [connect("and", each) for each in inside]) if all(inside) else None


def _ends(column: Column, interval: KeyInterval) -> list[Expression]:
    low, high = interval.low, interval.high
    ends = (
        compared_with_end(column, ">" if low.after else ">=", low.values),
        compared_with_end(column, "<=" if high.after else "<", high.values),
    )
    return [each for each in ends if each is not None]


def compared_with_end(column: Column, operator: str, values: tuple[Any, ...]) -> Expression | None:
    """The comparison with an end of an interval; None if it is unbounded. A lower end may be the one after NULL."""
    if not values or values[0] is None:
        return None
    return Call(operator, (Ref(column), Literal(values[0], column.type)), pa.bool_())
