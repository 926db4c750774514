"""Boundaries of ranges of about equal size (SIGMOD 2012, sections 3.2.1, 3.3.2 and 3.3.4).

`divide` is Algorithm 1 of the paper. Candidate boundaries are the starts of buckets, so that input partitions go whole to an
output wherever possible if the buckets are theirs. The algorithm visits the candidates from left to right and adds the next
part to the current range as long as that brings the size of the range closer to the target.

Worked example: partitions on (a, b) are divided on a into ranges of about 100 rows.

    partitions       [(1,A), (1,F))   [(1,F), (2,C))   [(2,C), (4,A))   [(4,A), (6,A))
    rows                  60               40               90               30
    candidates on a   1                                2                4
    parts                 80                               87.5             52.5

The second partition starts within a = 1 and ends within a = 2, so half of its rows are assumed to be below 2. The next 87.5
rows are not added to the first 80, because 167.5 is further from 100 than 80 is: the boundaries are 2 and 4.

Extensions and corrections:

- **Parts are measured between candidates, not by bucket.** As printed, the algorithm can add a bucket that starts at (2, C)
  to a range that then ends at 2, because the next bucket, from (2, F), was too large to add. Its rows still go to the next
  range, and both sizes are wrong. Here the candidates are fixed first, and the sizes are estimated between them.
- **A large bucket is divided** into parts of about the target if values between its ends can be computed. `grain` is the
  threshold, in targets: a small grain gives even ranges, a large one preserves the buckets.
- **A heavy value**, which alone reaches the target, gets its own range. It cannot be divided; `Division.skew` reports it.
- **Strings** can be truncated to n characters, so that the ranges are also ranges of left(s, n).
- **Several inputs**: `divide(first.union(second, ..))` gives boundaries for all of them together.

A bucket may end after a value. The boundary is then the next value of the type if there is one (6 after 5, 'b\\0' after
'b'); otherwise the value goes to the right of the boundary.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import isclose

import pyarrow as pa

from unshuffle.frozen import dataclass
from unshuffle.partitions.histograms import Bucket, KeyHistogram, first_difference, interpolates, position
from unshuffle.partitions.intervals import Boundary, Cut, KeyOrder, Place, Ranges, shown
from unshuffle.partitions.values import after_beginning, from_number

TEXTS = (pa.string(), pa.large_string())
_ROUNDS = 12  # of the binary search for a target size that gives the required number of ranges
_EVEN = 1.1  # a skew (largest range over average) that ends the search
MOST_PARTS = 100_000  # the most parts of one bucket, which bounds the work for very small targets


@dataclass(frozen=True, slots=True)
class Division:
    """Ranges with their estimated row counts. `heavy` are the ranges that consist of a single heavy value."""

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
        """The largest range over the average one."""
        return self.largest / self.average if self.average else 1.0

    def __str__(self) -> str:
        edges = [shown(boundary) for boundary in self.ranges.boundaries]
        lines = [f"{len(self.sizes)} ranges, largest / average = {self.skew:.2f}"]
        for i, size in enumerate(self.sizes):
            low, high = edges[i - 1] if i else "-", edges[i] if i < len(edges) else "-"
            lines.append(f"  [{low}, {high})  {size:,.0f}{'  one value' if i in self.heavy else ''}")
        return "\n".join(lines)


def divide(
    histogram: KeyHistogram,
    target: float,
    columns: int | None = None,
    characters: int | None = None,
    grain: float = 1.5,
) -> Division:
    """Ranges of about `target` rows on the first `columns` of the keys. `characters` limits the length of boundary values of
    the last of these columns, which must be an ascending string."""
    if target <= 0 or grain <= 0:
        raise ValueError("the target and the grain must be positive")
    cutting = _cutting(histogram, len(histogram.keys) if columns is None else columns, characters)
    heavy = cutting.heavy(target)
    boundaries, below = cutting.measured(cutting.candidates(heavy, target, grain))
    starts = [cutting.first, *map(cutting.order.row, boundaries)]
    parts = [high - low for low, high in zip([0.0, *below], [*below, histogram.rows], strict=True)]
    chosen: list[Boundary] = []
    sizes, alone = [parts[0]], []
    for at, part in enumerate(parts):
        # A heavy value fills its range, so the next part starts a new range without a special case.
        if at and (starts[at] in heavy or part / 2 >= target - sizes[-1]):
            chosen.append(boundaries[at - 1])
            sizes.append(part)
        elif at:
            sizes[-1] += part
        if starts[at] in heavy and isclose(part, heavy[starts[at]].rows):
            alone.append(len(sizes) - 1)
    return Division(Ranges(histogram.keys, tuple(chosen)).plain(), tuple(sizes), tuple(alone))


def divide_into(histogram: KeyHistogram, most: int, columns: int | None = None) -> Division:
    """At most `most` ranges, as even as possible; fewer if there are not enough distinct values."""
    best = Division(Ranges(histogram.keys, ()).plain(), (histogram.rows,))
    # A smaller target makes more ranges: a binary search that starts with an equal share.
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


@dataclass(frozen=True, slots=True)
class _Heavy:
    value: Boundary
    rows: float


def _cutting(histogram: KeyHistogram, columns: int, characters: int | None) -> _Cutting:
    """The candidates of a histogram are prepared once, for all targets."""
    mark = (columns, characters)
    if mark not in histogram.prepared:
        histogram.prepared[mark] = _Cutting(histogram, columns, characters)
    found: _Cutting = histogram.prepared[mark]
    return found


class _Cutting:
    """Candidate boundaries on the first `columns` columns, with at most `characters` characters in the last of them."""

    def __init__(self, histogram: KeyHistogram, columns: int, characters: int | None) -> None:
        if not 0 < columns <= len(histogram.keys):
            raise ValueError(f"cannot divide a key of {len(histogram.keys)} columns on its first {columns}")
        last = histogram.keys[columns - 1]
        if characters is not None and (characters < 1 or last.type not in TEXTS or last.descending):
            # In descending order, a boundary 'ab' separates 'ab' from 'abc': no boundary keeps a prefix together.
            raise ValueError("only an ascending string can be truncated to its first characters")
        self.histogram, self.columns, self.characters = histogram, columns, characters
        self.order = KeyOrder(histogram.keys)
        self._below: dict[Place, float] = {}
        self._ends: dict[Place, dict[Place, Boundary]] = {}
        buckets = histogram.buckets
        self.first: Place = self.order.row(self.cut(buckets[0].interval.low.values)) if buckets else ()

    def cut(self, values: Boundary) -> Boundary:
        values = values[: self.columns]
        if self.characters is None or len(values) < self.columns or values[-1] is None:
            return values
        return (*values[:-1], values[-1][: self.characters])

    def after(self, value: Boundary) -> Boundary | None:
        """The boundary after all rows with a truncated value."""
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

    @cached_property
    def _values(self) -> dict[Place, _Heavy]:
        """The values that fill buckets, counting only buckets that are entirely within the value."""
        found: dict[Place, _Heavy] = {}
        for bucket in self.histogram.buckets:
            low, high = bucket.interval.low, bucket.interval.high
            if len(low.values) < self.columns:
                continue
            value = self.cut(low.values)
            if not (high.after and len(high.values) >= self.columns and self.cut(high.values) == value):
                after = self.after(value)
                end = self.order.row(after) if after else self.order.place(Cut(value, after=True))
                if self.order.place(high) > end:
                    continue
            place = self.order.row(value)
            rows = found[place].rows if place in found else 0.0
            found[place] = _Heavy(value, rows + bucket.rows)
        return found

    @cached_property
    def _starts(self) -> dict[Place, Boundary]:
        starts = map(self.at_start, self.histogram.buckets)
        return {self.order.row(boundary): boundary for boundary in starts}

    def _around(self, place: Place) -> dict[Place, Boundary]:
        """The boundaries before and after a value."""
        if place not in self._ends:
            value = self._values[place].value
            after = self.after(value) or ()
            self._ends[place] = {place: value, self.order.row(after): after}
        return self._ends[place]

    def heavy(self, target: float) -> dict[Place, _Heavy]:
        """Values that reach the target."""
        return {place: each for place, each in self._values.items() if each.rows >= target}

    def candidates(self, heavy: dict[Place, _Heavy], target: float, grain: float) -> dict[Place, Boundary]:
        found: list[Boundary] = []
        for bucket in self.histogram.buckets:
            if bucket.rows > grain * target:
                found += self.inside(bucket, round(bucket.rows / (target * min(1.0, grain))))
        made = {self.order.row(boundary): boundary for boundary in found}
        for place in heavy:
            made |= self._around(place)
        return self._starts | made

    def measured(self, candidates: dict[Place, Boundary]) -> tuple[list[Boundary], list[float]]:
        """The boundaries in order, with the rows below each. Of several without rows in between, the last is kept: a bucket
        starts there. Boundaries with all rows on one side are dropped."""
        kept: dict[float, Boundary] = {}
        for place, boundary in sorted(candidates.items()):
            below = self._below.get(place)
            if below is None:
                below = self._below[place] = self.histogram.rows_below_place(place, Cut(boundary))
            if 0 < below < self.histogram.rows:
                kept[below] = boundary
        return list(kept.values()), list(kept)

    def inside(self, bucket: Bucket, parts: int) -> Iterator[Boundary]:
        """Boundaries that divide a bucket evenly, if values between its ends can be computed."""
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
