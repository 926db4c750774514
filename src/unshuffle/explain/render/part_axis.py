"""A line on which the values of a column have places, for drawings of the bounds of parts.

Values are placed by their distances, if they have any: numbers, dates and timestamps. Values without distances, such as
strings, are placed by their ranks, and so are values that are far apart: folders for the first day of each year would be
thin lines with nothing between them.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from math import floor, log10
from typing import Any

from unshuffle.explain.render.part_text import shown_value
from unshuffle.partitions import END, START, Cut, KeyInterval, KeyOrder
from unshuffle.partitions.intervals import Place
from unshuffle.partitions.values import SortedKey, from_number, number
from unshuffle.plan.predicate_intervals import NULLS

MIN_COVERED = 0.2  # of the line by parts; below it, distances are not drawn
MAX_TICKS = 8
ZOOM = 0.4  # if what is read takes less than this of the line, only its surroundings are drawn
_HOUR_STEPS = (1, 3, 6, 12)
_DAY_STEPS = (1, 2, 7)
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 600, 1200)


class Axis:
    """Places of cuts, from 0 at the left end to 1 at the right. NULLs have no place."""

    def __init__(self, key: SortedKey, shown: Sequence[KeyInterval], focus: Sequence[KeyInterval]) -> None:
        """The axis for some intervals; the part of it with `focus`, if that is small."""
        self._order = KeyOrder((key,))
        self._key = key
        self._known = [each for each in shown if is_placed(each)]
        self.has_distances = self._have_distances()
        self._low, self._high = self._ends(self._known)
        near = [each for each in focus if is_placed(each)]
        if near and self.has_distances:
            low, high = self._ends(near)
            if high - low < ZOOM * (self._high - self._low):
                margin = (high - low) / 2
                self._low, self._high = max(self._low, low - margin), min(self._high, high + margin)

    def _have_distances(self) -> bool:
        spans: list[tuple[float, float]] = []
        for each in self._known:
            low, high = _number(self._key, each.low), _number(self._key, each.high)
            if low is None or high is None:
                return False
            spans.append((low, high))
        if not spans:
            return False
        spans.sort()
        covered, reached = 0.0, spans[0][0]
        for low, high in spans:
            covered += max(0.0, high - max(low, reached))
            reached = max(reached, high)
        return covered >= MIN_COVERED * (reached - spans[0][0])

    @cached_property
    def _places(self) -> list[Place]:
        return sorted({self._order.place(cut) for each in self._known for cut in (each.low, each.high)})

    def _ends(self, intervals: Sequence[KeyInterval]) -> tuple[float, float]:
        low = min((self._at(each.low) for each in intervals), default=0.0)
        high = max((self._at(each.high) for each in intervals), default=1.0)
        return low, max(high, low + 1e-9)

    def _at(self, cut: Cut) -> float:
        if self.has_distances:
            return _number(self._key, cut) or 0.0
        return float(bisect_left(self._places, self._order.place(cut)))

    def at(self, cut: Cut) -> float:
        """The place of a cut; outside of 0 to 1 if the cut is not drawn."""
        if cut in (START, END):
            return 1.0 if cut.after else 0.0
        if cut.values[0] is None:
            return 0.0
        return (self._at(cut) - self._low) / (self._high - self._low)

    def span(self, interval: KeyInterval) -> tuple[float, float] | None:
        """The ends of the part of an interval that is drawn, if any is."""
        low, high = max(0.0, self.at(interval.low)), min(1.0, self.at(interval.high))
        return (low, high) if low < high else None

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Some places with the texts of their values."""
        values = self._round_values() if self.has_distances else self._some_values()
        for value in values:
            place = self.at(Cut((value,)))
            if -1e-9 <= place <= 1:
                yield max(0.0, place), _tick(value)

    def _some_values(self) -> list[Any]:
        """Values at which parts begin, far enough apart."""
        starts = {self._order.place(each.low): each.low.values[0] for each in self._known}
        values = [starts[place] for place in sorted(starts)]
        return values[:: max(1, -(-len(values) // MAX_TICKS))]

    def _round_values(self) -> Iterable[Any]:
        first, last = (_value(self._key, each) for each in (self._low, self._high))
        if isinstance(first, datetime.datetime) and isinstance(last, datetime.datetime):
            return _times(first, last)
        if isinstance(first, datetime.date) and isinstance(last, datetime.date):
            return _days(first, last)
        return [_value(self._key, each) for each in _round_numbers(self._low, self._high)]


def _tick(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        is_midnight = value.time() == datetime.time()
        return value.strftime("%Y-%m-%d" if is_midnight else "%Y-%m-%d %H:%M")
    return shown_value(value)


def is_placed(interval: KeyInterval) -> bool:
    """Whether an interval has two values as its ends."""
    return interval != NULLS and bool(interval.low.values) and bool(interval.high.values)


def _number(key: SortedKey, cut: Cut) -> float | None:
    """A cut as a number: after a value that others follow at a distance, one more."""
    value = cut.values[0] if cut.values else None
    if isinstance(value, Decimal):
        return float(value)
    found = number(key.type, value)
    if found is None:
        return None
    return float(found) + (1.0 if len(cut.values) == 1 and cut.after and isinstance(found, int) else 0.0)


def _value(key: SortedKey, at: float) -> Any:
    return from_number(key.type, at) if not _is_decimal(key) else Decimal(f"{at:.12g}")


def _is_decimal(key: SortedKey) -> bool:
    return hasattr(key.type, "scale")


def _round_numbers(low: float, high: float) -> Iterator[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    least = (high - low) / MAX_TICKS
    power = 10.0 ** floor(log10(max(least, 1e-300)))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= least)
    at = -floor(-low / step)
    while at * step <= high:
        yield at * step
        at += 1


def _times(first: datetime.datetime, last: datetime.datetime) -> list[datetime.datetime]:
    """Full hours, or the first hours of days, far enough apart."""
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    hours = (last - midnight) / datetime.timedelta(hours=1)
    step = next((each for each in _HOUR_STEPS if hours <= each * MAX_TICKS), None)
    if step is not None:
        return [midnight + datetime.timedelta(hours=each) for each in range(0, int(hours) + 1, step)]
    return [midnight.replace(year=day.year, month=day.month, day=day.day) for day in _days(first.date(), last.date())]


def _days(first: datetime.date, last: datetime.date) -> Iterable[datetime.date]:
    """Days, or first days of months, far enough apart."""
    days = (last - first).days + 1
    step = next((each for each in _DAY_STEPS if days <= each * MAX_TICKS), None)
    if step is not None:
        return [first + datetime.timedelta(days=each) for each in range(0, days, step)]
    months = [first.year * 12 + first.month - (first.day == 1), last.year * 12 + last.month - 1]
    step = next(each for each in _MONTH_STEPS if months[1] - months[0] < each * MAX_TICKS)
    aligned = range(-(-months[0] // step) * step, months[1] + 1, step)
    return [datetime.date(each // 12, each % 12 + 1, 1) for each in aligned if each // 12 >= 1]
