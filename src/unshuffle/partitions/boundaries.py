"""Boundaries of ranges of about equal size (SIGMOD 2012, sections 3.2.1, 3.3.2 and 3.3.4).

`divide` is Algorithm 1 of the paper. Boundaries are only taken where a bucket of the histogram begins, so that input
partitions, if the buckets are theirs, go whole to an output wherever possible. It walks over these places from left to
right, and adds the next part to the range it is filling as long as that brings the range's size nearer to the target.

Worked example: partitions on (a, b), to be divided on a into ranges of about 100 rows.

    partitions       [(1,A), (1,F))   [(1,F), (2,C))   [(2,C), (4,A))   [(4,A), (6,A))
    rows                  60               40               90               30
    places, cut to a  1                                2                4
    parts                 80                               87.5             52.5

The second partition reaches from somewhere in a = 1 to somewhere in a = 2, so half of its rows are taken to be below 2. To
80 the next 87.5 are not added, since 167.5 is further from 100 than 80 is: the boundaries are 2 and 4.

Around it:

- **Parts are measured between the places, not bucket by bucket.** As printed, the algorithm can add a bucket that begins at
  (2, C) to a range that then ends at 2, because the next bucket, from (2, F) on, was too large to add. Its rows go to the
  next range all the same, and both sizes are wrong. Here places come first and sizes second: the sizes are those of the
  rows that really go there, as far as the histogram tells.
- **A large bucket is divided**, where values between its ends can be made, into parts of about the target. `grain` says how
  large is large, in targets: small, for even ranges; large, for ranges that keep to the buckets.
- **A heavy value**, one that alone has the target or more, has a range of its own. Nothing divides it further; whoever asks
  is told of the skew.
- **Strings** may be cut to their first characters, so that the ranges are ranges of left(s, n) as well.
- **Several inputs**: `divide(first.union(second, ..))` has boundaries that suit all of them together.

The end of a bucket may be the place after a value. There is a boundary right there if the type has a next value (6 after
5, 'b\\0' after 'b'); else the value goes to the right of the boundary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isclose

import pyarrow as pa

from unshuffle.partitions.histograms import Bucket, Histogram, first_difference, interpolates, position
from unshuffle.partitions.intervals import Boundary, Cut, Order, Place, Ranges, shown
from unshuffle.partitions.values import after_beginning, from_number

TEXTS = (pa.string(), pa.large_string())
_ROUNDS = 12  # in which a target is looked for that makes a certain number of ranges
_EVEN = 1.1  # the largest range over the average: good enough
MOST_PARTS = 100_000  # of one bucket: a bound on what a wild target can ask for


@dataclass(frozen=True, slots=True)
class Division:
    """Ranges with the rows that each is expected to have. `heavy` are the ranges that a single value fills."""

    ranges: Ranges
    sizes: tuple[float, ...]
    heavy: tuple[int, ...] = ()

    @property
    def largest(self) -> float:
        return max(self.sizes)

    @property
    def average(self) -> float:
        return sum(self.sizes) / len(self.sizes)

    @property
    def skew(self) -> float:
        """The largest range over the average one: what a job waits for."""
        return self.largest / self.average if self.average else 1.0

    def __str__(self) -> str:
        edges = [shown(boundary) for boundary in self.ranges.boundaries]
        lines = [f"{len(self.sizes)} ranges, largest / average = {self.skew:.2f}"]
        for i, size in enumerate(self.sizes):
            low, high = edges[i - 1] if i else "-", edges[i] if i < len(edges) else "-"
            lines.append(f"  [{low}, {high})  {size:,.0f}{'  one value' if i in self.heavy else ''}")
        return "\n".join(lines)


def divide(
    histogram: Histogram,
    target: float,
    columns: int | None = None,
    characters: int | None = None,
    grain: float = 1.5,
) -> Division:
    """Ranges on the first `columns` of the histogram's keys, each of about `target` rows. With `characters`, boundaries on
    the last of those columns, an ascending string, have at most so many."""
    if target <= 0 or grain <= 0:
        raise ValueError("a target and a grain are more than nothing")
    cutting = _Cutting(histogram, len(histogram.keys) if columns is None else columns, characters)
    heavy = cutting.heavy(target)
    boundaries, below = _measured(histogram, cutting.candidates(heavy, target, grain))
    starts = [cutting.first, *map(cutting.order.row, boundaries)]
    parts = [high - low for low, high in zip([0.0, *below], [*below, histogram.rows], strict=True)]
    chosen: list[Boundary] = []
    sizes, alone = [parts[0]], []
    for at, part in enumerate(parts):
        # What follows a heavy value stays apart by itself: the range has its target.
        if at and (starts[at] in heavy or part / 2 >= target - sizes[-1]):
            chosen.append(boundaries[at - 1])
            sizes.append(part)
        elif at:
            sizes[-1] += part
        if starts[at] in heavy and isclose(part, heavy[starts[at]].rows):
            alone.append(len(sizes) - 1)
    return Division(Ranges(histogram.keys, tuple(chosen)).plain(), tuple(sizes), tuple(alone))


def divide_into(histogram: Histogram, most: int, columns: int | None = None) -> Division:
    """At most so many ranges, as even as can be: fewer where there are no more values to cut at."""
    best = Division(Ranges(histogram.keys, ()).plain(), (histogram.rows,))
    # A smaller target makes more ranges. That of an equal share comes first, and then what is between too many and too few.
    few, many, target = 2.0 * histogram.rows / most, 0.0, histogram.rows / most
    for _ in range(_ROUNDS if histogram.rows > 0 else 0):
        found = divide(histogram, target, columns)
        if len(found.sizes) > most:
            many = target
        else:
            few = target
            best = max(best, found, key=lambda each: (len(each.sizes), -each.skew))
            if len(found.sizes) == most and found.skew <= _EVEN:
                break
        target = (few + many) / 2
    return best


def _measured(histogram: Histogram, candidates: dict[Place, Boundary]) -> tuple[list[Boundary], list[float]]:
    """The boundaries in order, with the rows below each. Of several with nothing in between the last is kept: it is where
    a bucket begins. Those with all rows on one side divide nothing."""
    kept: dict[float, Boundary] = {}
    for place, boundary in sorted(candidates.items()):
        below = histogram.rows_below_place(place, Cut(boundary))
        if 0 < below < histogram.rows:
            kept[below] = boundary
    return list(kept.values()), list(kept)


@dataclass(frozen=True, slots=True)
class _Heavy:
    value: Boundary
    rows: float


class _Cutting:
    """Where boundaries may be: on so many columns, the last of them cut to so many characters."""

    def __init__(self, histogram: Histogram, columns: int, characters: int | None) -> None:
        if not 0 < columns <= len(histogram.keys):
            raise ValueError(f"a key of {len(histogram.keys)} columns has no first {columns}")
        last = histogram.keys[columns - 1]
        if characters is not None and (characters < 1 or last.type not in TEXTS or last.descending):
            # Descending, s <= 'ab' divides 'ab' from 'abc': no boundary keeps those together that begin alike.
            raise ValueError("only an ascending string is cut to its first characters")
        self.histogram, self.columns, self.characters = histogram, columns, characters
        self.order = Order(histogram.keys)
        buckets = histogram.buckets
        self.first: Place = self.order.row(self.cut(buckets[0].interval.low.values)) if buckets else ()

    def cut(self, values: Boundary) -> Boundary:
        values = values[: self.columns]
        if self.characters is None or len(values) < self.columns or values[-1] is None:
            return values
        return (*values[:-1], values[-1][: self.characters])

    def after(self, value: Boundary) -> Boundary | None:
        """The boundary right after all rows of a cut value."""
        text = value[-1]
        if self.characters is None or text is None or len(text) < self.characters:
            return self.order.boundary(Cut(value, after=True))
        further = after_beginning(text)
        return None if further is None else (*value[:-1], further)

    def at_start(self, bucket: Bucket) -> Boundary:
        low = bucket.interval.low
        if low.after and len(low.values) <= self.columns:
            return self.cut(self.order.boundary(low) or low.values)
        return self.cut(low.values)

    def heavy(self, target: float) -> dict[Place, _Heavy]:
        """Values that certainly have the target: buckets that lie wholly inside of them, added up."""
        found: dict[Place, _Heavy] = {}
        for bucket in self.histogram.buckets:
            low, high = bucket.interval.low, self.order.place(bucket.interval.high)
            if len(low.values) < self.columns:
                continue
            value = self.cut(low.values)
            after = self.after(value)
            end = self.order.row(after) if after else self.order.place(Cut(value, after=True))
            if high <= end:
                place = self.order.row(value)
                rows = found[place].rows if place in found else 0.0
                found[place] = _Heavy(value, rows + bucket.rows)
        return {place: each for place, each in found.items() if each.rows >= target}

    def candidates(self, heavy: dict[Place, _Heavy], target: float, grain: float) -> dict[Place, Boundary]:
        found = [self.at_start(bucket) for bucket in self.histogram.buckets]
        for bucket in self.histogram.buckets:
            if bucket.rows > grain * target:
                found += self.inside(bucket, round(bucket.rows / (target * min(1.0, grain))))
        for each in heavy.values():
            found += [each.value, self.after(each.value) or ()]
        return {self.order.row(boundary): boundary for boundary in found}

    def inside(self, bucket: Bucket, parts: int) -> Iterator[Boundary]:
        """Boundaries that divide a bucket evenly, where values between its ends can be made."""
        column = first_difference(bucket.interval)
        if column is None or column >= self.columns or not interpolates(self.histogram.keys[column].type):
            return
        key, low, high = self.histogram.keys[column], bucket.interval.low, bucket.interval.high
        start, end = position(key, low, column), position(key, high, column)
        if start is None or end is None:
            return
        places = self.order.place(low), self.order.place(high)
        parts = min(max(2, parts), MOST_PARTS)
        for part in range(1, parts):
            at = start + (end - start) * part / parts
            whole = at if pa.types.is_floating(key.type) else round(at)
            value = from_number(key.type, -whole if key.descending else whole)
            boundary = (*low.values[:column], value)
            if value is not None and places[0] < self.order.row(boundary) < places[1]:
                yield boundary
