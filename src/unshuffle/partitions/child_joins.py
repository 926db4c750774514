"""Which ranges of a join column are joined with the same sizes: the clusters of a join of two tables in parts (Herodotou,
Borisov and Babu, section 5).

Where one table has few bytes beside the other, it is copied or hashed; where both have many, another method is best; where
one has none, nothing is joined. So ranges of like sizes are one child join, however many pairs of parts meet in them. There
are at most as many child joins as kinds of sizes, and a chain of parts that overlap their neighbours is divided as well.

    months        1     2     3     4            months of visits and of bought, in megabytes
    visits      900   800    10     -
    bought        9     8   700   600
    child joins  the right is small: months 1 and 2; the left is small: month 3; the right is alone: month 4

The intervals of all child joins together are the whole line, so every value is in exactly one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import accumulate, pairwise

from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.partitions.intervals import END, START, Cut, KeyInterval, KeyOrder
from unshuffle.partitions.values import SortedKey, number


class Sizes(Enum):
    """What a range has of one table beside the other."""

    LEFT_ALONE = "the left alone"
    RIGHT_ALONE = "the right alone"
    LEFT_SMALL = "the left is small"
    RIGHT_SMALL = "the right is small"
    ALIKE = "alike"


AFTER_NULL = Cut((None,), after=True)  # where the values begin
ALONE = (Sizes.LEFT_ALONE, Sizes.RIGHT_ALONE)


@dataclass(frozen=True, slots=True)
class SizedPart:
    """A part of a table: the intervals of its values, and its bytes."""

    intervals: tuple[KeyInterval, ...]
    bytes: float


@dataclass(frozen=True, slots=True)
class ChildJoin:
    """Ranges that are joined with like sizes."""

    sizes: Sizes
    intervals: tuple[KeyInterval, ...]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What one table has between two cuts. Bytes are estimated; without parts there are certainly no rows."""

    bytes: float
    parts: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring stretches between cuts, with like sizes."""

    sizes: Sizes
    bytes: float
    end: int  # the first stretch after it


def child_joins(key: SortedKey, left: Sequence[SizedPart], right: Sequence[SizedPart]) -> list[ChildJoin]:
    """The ranges of each kind of sizes, in the order of their first ranges."""
    place = KeyOrder((key,)).place
    found = {place(cut): cut for part in (*left, *right) for each in part.intervals for cut in (each.low, each.high)}
    ends = [AFTER_NULL, *(cut for each, cut in sorted(found.items()) if each > place(AFTER_NULL) and cut != END), END]
    numbers = {place(START): 0} | {place(cut): at for at, cut in enumerate(ends)}
    positions = _positions(key, ends)

    def stretches(parts: Sequence[SizedPart]) -> list[_Stretch]:
        spans = [([(numbers[place(i.low)], numbers[place(i.high)]) for i in e.intervals], e.bytes) for e in parts]
        return _stretches(spans, positions)

    runs = _heaviest(_runs(stretches(left), stretches(right)))
    intervals: dict[Sizes, list[KeyInterval]] = {}
    start = 0
    for run in runs:
        intervals.setdefault(run.sizes, []).append(KeyInterval(ends[start], ends[run.end]))
        start = run.end
    return [ChildJoin(sizes, tuple(each)) for sizes, each in intervals.items()]


def _positions(key: SortedKey, cuts: Sequence[Cut]) -> list[float]:
    """Where cuts are on a line. Values that are not numbers have equal distances."""
    inner = [number(key.type, cut.values[0]) for cut in cuts[1:-1]]
    known = [float(each) + cut.after for each, cut in zip(inner, cuts[1:-1], strict=True) if each is not None]
    if len(known) < len(inner) or not known:
        return list(map(float, range(len(cuts))))
    return [known[0] - 1.0, *known, known[-1] + 1.0]


def _stretches(parts: Iterable[tuple[Sequence[tuple[int, int]], float]], positions: Sequence[float]) -> list[_Stretch]:
    """What is between each two cuts that follow each other, if the bytes of a part are spread evenly over its intervals."""
    densities, numbers = [0.0] * len(positions), [0] * len(positions)
    for spans, size in parts:
        density = size / max(1.0, sum(positions[high] - positions[low] for low, high in spans))
        for low, high in spans:
            densities[low] += density
            densities[high] -= density
            numbers[low] += 1
            numbers[high] -= 1
    widths = (after - before for before, after in pairwise(positions))
    found = zip(widths, accumulate(densities), accumulate(numbers), strict=False)
    return [_Stretch(max(0.0, density * width), parts) for width, density, parts in found]


def _runs(left: Sequence[_Stretch], right: Sequence[_Stretch]) -> list[_Run]:
    """Neighbours of like sizes together. A stretch without parts belongs to its neighbours."""
    found: list[_Run] = []
    for stretch, (ours, theirs) in enumerate(zip(left, right, strict=True)):
        sizes, size = _sizes(ours, theirs), ours.bytes + theirs.bytes
        if found and sizes in (None, found[-1].sizes):
            found[-1] = _Run(found[-1].sizes, found[-1].bytes + size, stretch + 1)
        elif sizes is not None:
            found.append(_Run(sizes, size, stretch + 1))
    return found


def _sizes(left: _Stretch, right: _Stretch) -> Sizes | None:
    if not left.parts and not right.parts:
        return None
    if not right.parts:
        return Sizes.LEFT_ALONE
    if not left.parts:
        return Sizes.RIGHT_ALONE
    if left.bytes * THRESHOLDS.small_input_ratio <= right.bytes:
        return Sizes.LEFT_SMALL
    return Sizes.RIGHT_SMALL if right.bytes * THRESHOLDS.small_input_ratio <= left.bytes else Sizes.ALIKE


def _heaviest(runs: Sequence[_Run]) -> list[_Run]:
    """The runs with many bytes. Each of the others becomes part of the one before it."""
    least = THRESHOLDS.child_join_share * sum(run.bytes for run in runs)
    heavy = sorted((each for each in range(len(runs)) if runs[each].bytes >= least), key=lambda i: -runs[i].bytes)
    kept = frozenset(heavy[: THRESHOLDS.pruning_intervals])
    found: list[_Run] = []
    for place, run in enumerate(runs):
        if not found or (place in kept and run.sizes is not found[-1].sizes):
            found.append(run)
        else:
            before = found[-1]
            found[-1] = _Run(_together(before, run), before.bytes + run.bytes, run.end)
    return found


def _together(one: _Run, other: _Run) -> Sizes:
    """The sizes of two runs in one child join. If either is joined, rows that were alone are joined with it."""
    joined = [each for each in (one, other) if each.sizes not in ALONE]
    if joined:
        return max(joined, key=lambda each: each.bytes).sizes
    return one.sizes if one.sizes is other.sizes else Sizes.ALIKE
