"""How the parts of tables meet, as an SVG: the parts of one table above, those of the other below, and between them the
ranges of the tasks, all along the values of a column.

The SVG needs nothing from outside: a page has it inside, with `part_style.STYLE` among the page's own styles, and
`part_style.picture` makes a file of it. All text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from unshuffle.explain.phrases import numbers
from unshuffle.explain.render.escaping import escape
from unshuffle.explain.render.part_axis import Axis
from unshuffle.explain.render.part_lanes import COLUMN, Bar, Lanes, lanes
from unshuffle.explain.render.part_style import WIDTH
from unshuffle.explain.render.part_text import PartText, shown_bounds, shown_range
from unshuffle.explain.why import MatchedParts, PrunedParts, TablePart, TableReads
from unshuffle.frozen import dataclass
from unshuffle.partitions import EVERYTHING, Cut, KeyColumn, KeyInterval
from unshuffle.partitions.values import SortedKey
from unshuffle.plan.expressions import Expression
from unshuffle.properties import RangeKey

LEFT, RIGHT = 104, 12  # margins, in pixels
PLOT = WIDTH - LEFT - RIGHT
HEADER, LANE, BAR, STRIP, TICKS, LEGEND = 28, 21, 18, 32, 26, 24  # heights
MIN_BAND, MIN_BANDS = 15, 50  # pixels; tasks with narrower ranges are drawn together, in as many as are wide enough
CHARACTER = 6.2  # the width of one, about
MAX_NAME, MAX_HEADER = 60, 122  # characters of a name, and above the bars of a table


@dataclass(frozen=True, slots=True)
class _Row:
    """A table in the drawing. `top` is where its lanes begin; lane 0 is next to the tasks."""

    table: TableReads
    predicate: Expression | None
    lanes: Lanes
    top: float
    grows_up: bool

    def y(self, lane: int) -> float:
        return self.top + LANE * (self.lanes.count - 1 - lane if self.grows_up else lane)

    @property
    def bottom(self) -> float:
        return self.top + LANE * self.lanes.count


class PartDrawing:
    """Draws the parts of one plan's tables, in its words. Every drawing of a page needs a `number` of its own."""

    def __init__(self, text: PartText) -> None:
        self._text = text

    def matched(self, matched: MatchedParts, number: int = 1) -> str:
        axis = _axis(matched.ranges.keys[0], matched.sides)
        one, other = (lanes(side, axis, PLOT) for side in matched.sides)
        left = _Row(matched.sides[0], matched.predicates[0], one, HEADER, grows_up=True)
        right = _Row(matched.sides[1], matched.predicates[1], other, left.bottom + STRIP, grows_up=False)
        axis_at = right.bottom + HEADER + 2
        bands = list(_bands(matched, axis))
        body = [
            *_stripes(bands, left.top, right.bottom),
            *_ticks(axis, left.top, right.bottom, axis_at),
            *self._table(left, HEADER - 10, number),
            *self._strip(matched, bands, left.bottom),
            *self._table(right, right.bottom + 19, number),
            *_boundaries(bands, left.top, right.bottom),
        ]
        return _svg(self._text.meeting(matched), [left, right], axis_at + TICKS, body, number)

    def pruned(self, pruned: PrunedParts, number: int = 1) -> str:
        axis = _axis(KeyColumn(RangeKey(pruned.table.column.type).type), [pruned.table])
        row = _Row(pruned.table, pruned.predicate, lanes(pruned.table, axis, PLOT), HEADER, grows_up=True)
        body = [*_ticks(axis, row.top, row.bottom, row.bottom), *self._table(row, HEADER - 10, number)]
        return _svg(self._text.pruned(pruned), [row], row.bottom + TICKS, body, number)

    def _table(self, row: _Row, header: float, number: int) -> Iterator[str]:
        table, left_off = row.table, row.lanes.left_off
        facts = [f" by {self._text.column(table)}", _how_many(table)]
        facts += [f"{left_off:,} not drawn"] if left_off else []
        if len(table.read) < len(table.parts) and row.predicate is not None:
            facts.append(self._text.no_other(row.predicate))
        label = _cut(table.label)
        name, said = escape(label), escape(_cut(" · ".join(facts), MAX_HEADER - len(label)))
        yield f'<text class="table" x="{LEFT}" y="{_n(header)}"><tspan>{name}</tspan>{said}</text>'
        for lane, label in row.lanes.labels:
            y = _n(row.y(lane) + BAR - 5)
            yield f'<text class="end" x="{LEFT - 8}" y="{y}">{escape(_cut(label, 15))}</text>'
        nulls = [bar for bar in row.lanes.bars if bar.is_null]
        if nulls and not row.lanes.labels:
            yield f'<text class="end" x="{LEFT - 24}" y="{_n(row.y(nulls[0].lane) + BAR - 5)}">NULL</text>'
        for bar in row.lanes.bars:
            yield self._bar(row, bar, number)

    def _bar(self, row: _Row, bar: Bar, number: int) -> str:
        left, right = (LEFT - 20, LEFT - 6) if bar.is_null else (LEFT + bar.left, LEFT + bar.right)
        gap = 1.0 if right - left >= COLUMN else 0.5
        width, y = max(1.0, right - left - gap), row.y(bar.lane)
        kind = "several" if bar.readers > 1 else "one" if bar.is_read else "unread"
        fill = "" if bar.is_read else f' fill="url(#hatch{number})"'
        corner = ' rx="2"' if width >= 6 else ""
        box = f'<rect class="{kind}"{fill} x="{_n(left)}" y="{_n(y)}" width="{_n(width)}" height="{BAR}"{corner}/>'
        label = _label(bar, width, row.table.unit)
        if label:
            place = f'x="{_n(left + width / 2)}" y="{_n(y + BAR - 5)}"'
            box += f'<text class="{"on-bar" if bar.is_read else "on-pale"}" {place}>{escape(label)}</text>'
        return f"<g><title>{escape(self._title(row, bar))}</title>{box}</g>"

    def _title(self, row: _Row, bar: Bar) -> str:
        parts = bar.parts
        rows, size = sum(part.rows for part in parts), sum(part.bytes for part in parts)
        first, last = parts[0], parts[-1]
        column = self._text.column(row.table)
        if len(parts) == 1:
            name, bounds = _cut(first.name), shown_bounds(first.bounds)
        else:
            name = f"{len(parts):,} {row.table.unit}s, {_cut(first.name, 40)} to {_cut(last.name, 40)}"
            bounds = f"{shown_bounds(first.bounds)}, ..., {shown_bounds(last.bounds)}"
        lines = [name, f"{numbers.rows(rows)}, {numbers.size(size)}", f"{_cut(column)}: {bounds}"]
        return "\n".join([*lines, _cut(self._readers(row, parts), 2 * MAX_NAME)])

    def _readers(self, row: _Row, parts: Sequence[TablePart]) -> str:
        tasks = sorted({task for part in parts for task in part.tasks})
        if tasks:
            return f"read by {_listed(tasks)}"
        return "read" if parts[0].is_read else self._text.why_not_read(parts[0], row.predicate)

    def _strip(self, matched: MatchedParts, bands: Sequence[_Band], top: float) -> Iterator[str]:
        middle = top + STRIP / 2 + 3
        yield f'<text class="end" x="{LEFT - 8}" y="{_n(middle)}">{numbers.counted(matched.tasks, "task")}</text>'
        sizes = matched.task_bytes
        for band in bands:
            size = numbers.size(sum(sizes[band.first : band.last + 1]))
            tasks = list(range(band.first, band.last + 1))
            title = f"{_listed(tasks)}: {shown_range(band.range)}, {size}"
            x, width = LEFT + band.left, band.right - band.left
            label = next((each for each in _band_labels(band, size) if len(each) * CHARACTER < width - 4), "")
            box = f'x="{_n(x + 0.5)}" y="{_n(top + 3)}" width="{_n(max(1, width - 1))}" height="{STRIP - 9}" rx="3"'
            text = (
                f'<text class="task" x="{_n(x + width / 2)}" y="{_n(middle)}">{escape(label)}</text>' if label else ""
            )
            yield f'<g><title>{escape(title)}</title><rect class="band-other" {box}/>{text}</g>'


@dataclass(frozen=True, slots=True)
class _Band:
    """The ranges of some neighbouring tasks, between two pixels."""

    first: int
    last: int
    left: float
    right: float
    range: KeyInterval


def _bands(matched: MatchedParts, axis: Axis) -> Iterator[_Band]:
    """Tasks whose ranges are too narrow to be seen are drawn with their neighbours."""
    ranges = list(matched.ranges)
    first, left = 0, 0.0
    for task, each in enumerate(ranges):
        right = PLOT * min(1.0, max(0.0, axis.at(Cut(each.high.values[:1], each.high.after))))
        is_last = task == len(ranges) - 1
        least = MIN_BAND if first == task else MIN_BANDS
        if is_last or (right - left >= least and PLOT - right >= MIN_BAND):
            yield _Band(first, task, left, PLOT if is_last else right, KeyInterval(ranges[first].low, each.high))
            first, left = task + 1, right


def _band_labels(band: _Band, size: str) -> Iterator[str]:
    if band.first == band.last:
        yield from (f"task {band.first} · {size}", f"task {band.first}", str(band.first))
    else:
        several = f"{band.first}–{band.last}"
        yield from (f"tasks {several} · {size}", f"tasks {several}", several)


def _axis(key: SortedKey, tables: Sequence[TableReads]) -> Axis:
    parts = [part for table in tables for part in table.parts]
    shown = [each for part in parts for each in part.bounds]
    focus = [each for part in parts if part.is_read for each in part.bounds]
    return Axis(key, shown, [] if EVERYTHING in focus else focus)


# --- pieces of SVG


def _stripes(bands: Sequence[_Band], top: float, bottom: float) -> Iterator[str]:
    for number, band in enumerate(bands):
        if number % 2 == 0:
            box = f'x="{_n(LEFT + band.left)}" y="{_n(top - 2)}" width="{_n(band.right - band.left)}"'
            yield f'<rect class="band" {box} height="{_n(bottom - top + 2)}"/>'


def _boundaries(bands: Sequence[_Band], top: float, bottom: float) -> Iterator[str]:
    for band in bands[1:]:
        yield f'<path class="boundary" d="M{_n(LEFT + band.left)} {_n(top - 4)}V{_n(bottom + 2)}"/>'


def _ticks(axis: Axis, top: float, bottom: float, axis_at: float) -> Iterator[str]:
    yield f'<path class="line" d="M{LEFT} {_n(axis_at)}H{LEFT + PLOT}"/>'
    taken = -100.0
    for place, text in axis.ticks():
        x, text = LEFT + place * PLOT, _cut(text, 20)
        half = len(text) * CHARACTER / 2
        if x - half < taken or x + half > WIDTH:
            continue
        taken = x + half + 8
        yield f'<path class="line" d="M{_n(x)} {_n(axis_at)}v5"/>'
        yield f'<text class="middle" x="{_n(x)}" y="{_n(axis_at + 17)}">{escape(text)}</text>'


def _svg(label: str, rows: Sequence[_Row], height: float, body: Iterable[str], number: int) -> str:
    """Everything is one image to a screen reader, which has the text beside it."""
    size = f'viewBox="0 0 {WIDTH} {_n(height + LEGEND)}"'
    hatch = (
        f'<defs><pattern id="hatch{number}" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="pale" width="5" height="5"/>'
        '<path class="hatch" d="M0 0V5"/></pattern></defs>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="parts" {size} role="img" aria-label="{escape(label)}">'
    return "".join([head, hatch, *body, *_legend(rows, height + 6, number), "</svg>"])


def _legend(rows: Sequence[_Row], top: float, number: int) -> Iterator[str]:
    """What the colours mean, of those that are there."""
    bars = [bar for row in rows for bar in row.lanes.bars]
    has_tasks = any(part.tasks for bar in bars for part in bar.parts)
    kinds = [
        ("one", "read by one task" if has_tasks else "read", any(bar.is_read and bar.readers < 2 for bar in bars)),
        ("several", "read by several tasks (×2: by two)", any(bar.readers > 1 for bar in bars)),
        ("unread", "not read", any(not bar.is_read for bar in bars)),
    ]
    x = float(LEFT)
    for kind, text, is_there in kinds:
        if is_there:
            fill = f' fill="url(#hatch{number})"' if kind == "unread" else ""
            yield f'<rect class="{kind}"{fill} x="{_n(x)}" y="{_n(top)}" width="12" height="12" rx="2"/>'
            yield f'<text x="{_n(x + 18)}" y="{_n(top + 10)}">{text}</text>'
            x += 18 + len(text) * CHARACTER + 20
    most = max((len(bar.parts) for bar in bars), default=1)
    if most > 1:
        text = f"a bar stands for up to {most:,} parts"
        yield f'<text x="{_n(x)}" y="{_n(top + 10)}">{text}</text>'


def _label(bar: Bar, width: float, unit: str) -> str:
    times = f"×{bar.readers}" if bar.readers > 1 else ""
    if len(bar.parts) > 1:
        choices = [f"{len(bar.parts):,} {unit}s {times}".strip(), f"{len(bar.parts):,} {times}".strip()]
    else:
        folder = bar.parts[0].folder
        choices = [f"{folder} {times}".strip(), f"{folder.partition('=')[2]} {times}".strip(), times]
    return next((each for each in choices if each and len(each) * CHARACTER <= width - 4), "")


def _listed(tasks: Sequence[int]) -> str:
    if len(tasks) == 1:
        return f"task {tasks[0]}"
    if len(tasks) == 2:
        return f"tasks {tasks[0]} and {tasks[1]}"
    is_range = tasks[-1] - tasks[0] == len(tasks) - 1
    return f"tasks {tasks[0]} to {tasks[-1]}" if is_range else f"{len(tasks):,} tasks from {tasks[0]} to {tasks[-1]}"


def _how_many(table: TableReads) -> str:
    if len(table.read) == len(table.parts):
        return f"reads all {len(table.parts):,} {table.unit}s" if len(table.parts) > 1 else "is read"
    return f"reads {len(table.read):,} of {len(table.parts):,} {table.unit}s"


def _cut(text: str, length: int = MAX_NAME) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
