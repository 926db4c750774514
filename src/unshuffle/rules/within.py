"""Rows of a stored stream that a filter can keep lie in some intervals of its order: what has none of them is not read.

A stream is sorted inside its partitions, and the first and last key of every row group is known. Conditions that compare
the first columns of that order with constants leave intervals of it:

    domain = 'a' and host > 'm'     from just after (a, m) to the end of a
    domain in ('a', 'b')            the two values, whole
    host > 'm'                      nothing, for host is not the first column

The filter stays where it is: row groups have other rows too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from unshuffle.algebra.expressions import Call, Expression, Literal, Ref
from unshuffle.algebra.logical import Filter, Plan, Scan
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.schema import Column
from unshuffle.partitions import END, START, Cut, Interval, Key, Order
from unshuffle.properties.equality import interchangeable
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on
from unshuffle.streams.logical_partitions import logical_partitions

# More values than this are not told apart.
MOST = 256
_FLIPPED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@on(Filter)
def read_within(plan: Plan, context: Rewriting) -> Plan | None:
    """A filter over a stream: of the stream only what the filter can keep rows of."""
    match plan:
        case Filter(Scan(stream=stream, within=None) as scan, predicate) if stream is not None:
            manifest = stream.manifest
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


RULES = (read_within,)


@dataclass(slots=True)
class _Said:
    """What conditions say of a column: one of some values, or ends of an interval, each with whether it is in it."""

    values: list[Any] | None = None
    low: tuple[Any, bool] | None = None
    high: tuple[Any, bool] | None = None


@dataclass(slots=True)
class _Reader:
    columns: Sequence[Column | None]
    keys: Sequence[Key]
    said: dict[Column, _Said] = field(default_factory=dict)

    def read(self, condition: Expression) -> None:
        if type(condition) is not Call:
            return
        name, arguments = condition.function, condition.arguments
        if name in _FLIPPED and len(arguments) == 2:
            one, other = arguments
            if isinstance(one, Literal):
                one, other, name = other, one, _FLIPPED[name]
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
        found = self._known(subject, (value,))
        if found is None:
            return
        said, (constant,) = found
        # Of two ends the later one read stands: any of them is right.
        if constant is None:
            said.values = []
        elif name in (">", ">="):
            said.low = (constant, name == ">=")
        else:
            said.high = (constant, name == "<=")

    def _one_of(self, subject: Expression, values: Sequence[Expression], null_safe: bool = False) -> None:
        found = self._known(subject, values)
        if found is None:
            return
        said, constants = found
        kept = [each for each in constants if each is not None or null_safe]
        if len(kept) <= MOST and (said.values is None or len(kept) < len(said.values)):
            said.values = kept

    def _known(self, subject: Expression, values: Sequence[Expression]) -> tuple[_Said, list[Any]] | None:
        """What is said of the subject so far, and the values, if it is a column of the order and they are of its type."""
        if not isinstance(subject, Ref) or subject.column not in self.columns:
            return None
        column = subject.column
        constants = [value.value for value in values if isinstance(value, Literal)]
        same = all(isinstance(v, Literal) and (v.value is None or _same(v.type, column.type)) for v in values)
        if not same:
            return None
        try:
            order = Order((self.keys[list(self.columns).index(column)],))
            for constant in constants:
                order.row((constant,))
        except ValueError:
            return None  # a value in another form than the stream has it
        return self.said.setdefault(column, _Said()), constants


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or interchangeable(one, other)


def intervals(
    conditions: Sequence[Expression], columns: Sequence[Column | None], keys: Sequence[Key]
) -> tuple[Interval, ...] | None:
    """Where rows that meet all conditions lie in an order; None where the conditions do not tell."""
    reader = _Reader(columns, keys)
    for condition in conditions:
        reader.read(condition)
    fixed: list[list[Any]] = []
    for column in columns:
        said = reader.said.get(column) if column is not None else None
        if said is None or said.values is None or _count(fixed) * len(said.values) > MOST:
            break
        fixed.append(said.values)
    at = len(fixed)
    last = columns[at] if at < len(columns) else None
    said = reader.said.get(last) if last is not None else None
    if not fixed and (said is None or (said.low is None and said.high is None)):
        return None
    found = tuple(_interval(prefix, said, keys[at] if said is not None else None) for prefix in product(*fixed))
    order = Order(keys)
    return tuple(each for each in found if order.place(each.low) < order.place(each.high))


def _count(lists: Sequence[Sequence[Any]]) -> int:
    count = 1
    for each in lists:
        count *= len(each)
    return count


def _interval(prefix: tuple[Any, ...], said: _Said | None, key: Key | None) -> Interval:
    low = Cut(prefix) if prefix else START
    high = Cut(prefix, after=True) if prefix else END
    if said is None or key is None:
        return Interval(low, high)
    first, last = (said.high, said.low) if key.descending else (said.low, said.high)
    if first is not None:
        low = Cut((*prefix, first[0]), after=not first[1])
    if last is not None:
        high = Cut((*prefix, last[0]), after=last[1])
    return Interval(low, high)
