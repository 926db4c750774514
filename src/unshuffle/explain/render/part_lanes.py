"""Parts as bars in lanes, so that no bar covers another. What would be too narrow or too much to see is drawn as one bar.

    lane 0   ├── January ──┤├──── March ────┤          bars that overlap are in different lanes
    lane 1          ├─── February ───┤

The parts of folders such as region=asia/day=1 have a lane for each region.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from unshuffle.explain.render.part_axis import Axis
from unshuffle.explain.why import TablePart, TableReads
from unshuffle.frozen import dataclass
from unshuffle.plan.predicate_intervals import NULLS

COLUMN = 4  # pixels; narrower bars in one such column are drawn as one
MAX_LANES = 8
MAX_BARS = 500  # of a table
_STEPS = (1, COLUMN, 2 * COLUMN, 4 * COLUMN, 8 * COLUMN)  # pixels; bars that begin and end in the same steps are one


@dataclass(frozen=True, slots=True)
class Bar:
    """Some parts that are drawn as one, between two pixels. `is_null` is a part without values, to the left of all."""

    parts: tuple[TablePart, ...]
    left: float
    right: float
    lane: int = 0
    is_null: bool = False

    @property
    def is_read(self) -> bool:
        return any(part.is_read for part in self.parts)

    @property
    def readers(self) -> int:
        """The most tasks that read one of the parts."""
        return max(len(part.tasks) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Lanes:
    bars: tuple[Bar, ...]
    count: int
    labels: tuple[tuple[int, str], ...]  # the first lane of each group of folders
    left_off: int  # how many parts are left and right of what is drawn


def lanes(table: TableReads, axis: Axis, width: float) -> Lanes:
    placed: list[tuple[float, float, bool, TablePart]] = []
    left_off = 0
    for part in table.parts:
        values = [each for each in part.bounds if each != NULLS]
        if not values:
            placed += [(-1.0, -1.0, True, part)] if part.bounds else []
            continue
        span = axis.span(values[0])
        if span is None:
            left_off += 1
        else:
            placed.append((span[0] * width, span[1] * width, False, part))
    groups = _groups(part for _, _, _, part in placed)
    found: list[Bar] = []
    for step in _STEPS:
        bars = list(_bars(placed, step, groups))
        found, labels = _stacked(bars, groups)
        if len(found) <= MAX_BARS and max((bar.lane for bar in found), default=0) < MAX_LANES:
            break
    found = _with_rest(found)
    count = max((bar.lane for bar in found), default=0) + 1
    return Lanes(tuple(found), count, labels, left_off)


def _groups(parts: Iterable[TablePart]) -> list[str]:
    """The folders of other columns, if there are not too many."""
    found = sorted({part.group for part in parts})
    return found if 1 < len(found) <= MAX_LANES else []


def _bars(placed: Sequence[tuple[float, float, bool, TablePart]], step: int, groups: Sequence[str]) -> Iterator[Bar]:
    together: dict[tuple[object, ...], list[tuple[float, float, bool, TablePart]]] = {}
    for number, each in enumerate(placed):
        left, right, is_null, part = each
        kind = (part.group if groups else "", is_null, part.is_read, len(part.tasks) > 1)
        if right - left < COLUMN:
            place: tuple[object, ...] = (left // COLUMN,)  # a narrow bar has the whole column
        else:
            place = (left // step, right // step) if step > 1 else (number, 0)
        together.setdefault((*kind, *place), []).append(each)
    for same in together.values():
        left, right, is_null, _ = same[0]
        if right - left < COLUMN and not is_null:
            left = left // COLUMN * COLUMN
            right = left + COLUMN
        else:
            left, right = min(each[0] for each in same), max(each[1] for each in same)
        yield Bar(tuple(each[3] for each in same), left, right, 0, is_null)


def _stacked(bars: Sequence[Bar], groups: Sequence[str]) -> tuple[list[Bar], tuple[tuple[int, str], ...]]:
    """Each bar in the first lane of its group that is free, or in a lane that is not drawn if there are too many."""
    found: list[Bar] = []
    labels: list[tuple[int, str]] = []
    first = 0
    for group in groups or [""]:
        ends: list[float] = []
        labels += [(first, group)] if groups else []
        mine = [bar for bar in bars if not groups or bar.parts[0].group == group]
        for bar in sorted(mine, key=lambda bar: (round(bar.left), bar.right)):
            lane = next((at for at, end in enumerate(ends) if end <= bar.left + 0.5), len(ends))
            if lane < MAX_LANES:
                ends[lane : lane + 1] = [max(bar.right, bar.left + 1)]
            found.append(replace(bar, lane=first + lane))
        first += len(ends)
    return found, tuple(labels)


def _with_rest(bars: Sequence[Bar]) -> list[Bar]:
    """If there are too many lanes, the bars of the last ones are drawn together."""
    if all(bar.lane < MAX_LANES for bar in bars):
        return list(bars)
    kept = [bar for bar in bars if bar.lane < MAX_LANES - 1]
    rest: list[list[Bar]] = []
    right = -1.0
    for bar in sorted((bar for bar in bars if bar.lane >= MAX_LANES - 1), key=lambda bar: bar.left):
        if rest and bar.left <= right:
            rest[-1].append(bar)
        else:
            rest.append([bar])
        right = max(right, bar.right)
    return kept + [_together(each) for each in rest]


def _together(bars: Sequence[Bar]) -> Bar:
    parts = tuple(part for bar in bars for part in bar.parts)
    return Bar(parts, bars[0].left, max(bar.right for bar in bars), MAX_LANES - 1, all(bar.is_null for bar in bars))
