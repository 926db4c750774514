"""The parts of tables in words: which are not read, which can meet in a join, and which tasks read which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from unshuffle.explain.phrases import numbers
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.explain.why import (
    ExplainedChildJoin,
    MatchedParts,
    PrunedParts,
    TablePart,
    TableReads,
    UnionOfChildJoins,
)
from unshuffle.partitions import END, START, KeyInterval
from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.predicate_intervals import NULLS

MAX_TASKS = 3  # that are described one by one
MAX_VALUE_WIDTH = 40  # characters


class PartText:
    """Describes the parts of one plan's tables, with its column names. `operator` is a short text for an operator."""

    def __init__(self, names: ColumnNames, operator: Callable[[PhysicalPlan], str]) -> None:
        self._names = names
        self._operator = operator

    def pruned(self, pruned: PrunedParts) -> str:
        table = pruned.table
        because = "" if pruned.predicate is None else f": {self.no_other(pruned.predicate)}"
        counts = f"{len(table.read):,} of {len(table.parts):,} {table.unit}s"
        by = ", by declared conditions" if pruned.is_declared else ""
        return f"{table.label}: {counts}, {100 * table.share:.3g} % of the bytes{because}{by}"

    def no_other(self, predicate: Expression) -> str:
        return f"no other can have {self._names.expression(predicate)}"

    def matched(self, matched: MatchedParts) -> list[str]:
        """What can meet, then some lines on what the tasks read."""
        return [self.meeting(matched), *_tasks(matched), _amounts(matched), f"{_shared(matched)}; {method(matched)}"]

    def meeting(self, matched: MatchedParts) -> str:
        one, other = matched.sides
        total = len(one.read) * len(other.read)
        sides = " and ".join(
            f"{len(side.read):,} of {side.label} by the {_kind_of_bounds(side)} of {self._names.listed((side.column,))}"
            for side in matched.sides
        )
        return (
            f"{self._operator(matched.join)}: {matched.pairs:,} of {total:,} pairs of {_unit(matched.sides)} can meet, "
            f"in {numbers.counted(matched.tasks, 'task')} ({sides})"
        )

    def child_joins(self, found: UnionOfChildJoins) -> list[str]:
        """A union of child joins, then the ranges, the method and the sizes of each."""
        count = numbers.counted(len(found.children), "child join")
        return [f"{count}: each has the method that suits its sizes", *map(self.child_join, found.children)]

    def child_join(self, child: ExplainedChildJoin) -> str:
        ranges = "all values" if child.ranges is None else self._names.expression(child.ranges)
        sizes = " with ".join(numbers.size(side.size.bytes) for side in child.sides)
        how = f"{type(child.node.operator).__name__} ({child.node.alternative})" if child.is_joined else "not joined"
        return f"{ranges}: {how}, {sizes}"

    def why_not_read(self, part: TablePart, predicate: Expression | None) -> str:
        if not part.bounds:
            return "not read: it has no rows"
        if predicate is None:
            return "not read: no row of it is needed"
        return f"not read: no row can have {self._names.expression(predicate)}"

    def column(self, table: TableReads) -> str:
        return self._names.name(table.column)


def method(matched: MatchedParts) -> str:
    """How each task joins its parts."""
    operator = matched.join.operator
    if isinstance(operator, physical.HashJoin):
        return f"each task hashes the side of {matched.sides[operator.build].label}"
    return "each task merges its sorted inputs"


def _kind_of_bounds(side: TableReads) -> str:
    bounds = side.scan.scan.bounds
    return "declared bounds" if bounds is not None and bounds.is_declared(side.column) else "bounds"


def _tasks(matched: MatchedParts) -> Iterator[str]:
    for task in range(min(matched.tasks, MAX_TASKS)):
        sides = " and ".join(_read_by(side, task) for side in matched.sides)
        yield f"task {task} reads {sides}"


def _read_by(side: TableReads, task: int) -> str:
    parts = [part for part in side.parts if task in part.tasks]
    if not parts:
        return f"nothing of {side.label}"
    first, last = parts[0].folder, parts[-1].folder
    where = first if first == last else f"{first} to {last}"
    return f"{len(parts):,} {side.unit}{'s' if len(parts) > 1 else ''} of {side.label} ({where})"


def _amounts(matched: MatchedParts) -> str:
    sizes = matched.task_bytes
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    more = f"{numbers.counted(matched.tasks - MAX_TASKS, 'more task')}; " if matched.tasks > MAX_TASKS else ""
    average = numbers.size(sum(sizes) / len(sizes))
    return f"{more}a task reads {average} on average, the largest, task {largest}, {numbers.size(sizes[largest])}"


def _shared(matched: MatchedParts) -> str:
    """How much is read more than once."""
    shared = [part for side in matched.sides for part in side.shared]
    read = sum(len(side.read) for side in matched.sides)
    unit = _unit(matched.sides)
    if not shared:
        return f"no {unit.removesuffix('s')} is read by two tasks"
    most = max(len(part.tasks) for part in shared)
    tasks = "two tasks" if most == 2 else f"2 to {most:,} tasks"
    verb = "is" if len(shared) == 1 else "are"
    percent = 100 * matched.extra_share
    more = f"{percent:,.0f}" if percent >= 10 else f"{percent:.2g}"
    return f"{len(shared):,} of {read:,} {unit} {verb} read by {tasks}, {more} % more bytes"


def _unit(sides: Sequence[TableReads]) -> str:
    units = {side.unit for side in sides}
    return f"{units.pop()}s" if len(units) == 1 else "parts"


# --- bounds


def shown_value(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= MAX_VALUE_WIDTH else f"{text[: MAX_VALUE_WIDTH - 1]}…"


def shown_bounds(bounds: Sequence[KeyInterval]) -> str:
    """The bounds of a part: `1 to 7, and NULL`."""
    if not bounds:
        return "no rows"
    texts = [_interval(each) for each in bounds if each != NULLS]
    return ", and ".join([*texts, *(["NULL"] if NULLS in bounds else [])])


def _interval(interval: KeyInterval) -> str:
    if interval.low == START or interval.high == END:
        return "any value"
    low, high = interval.low.values[0], interval.high.values[0]
    return shown_value(low) if low == high else f"{shown_value(low)} to {shown_value(high)}"


def shown_range(interval: KeyInterval) -> str:
    """The range of a task: `from 2 up to 7`."""
    texts = [] if interval.low == START else [f"from {_boundary(interval.low.values)}"]
    texts += [] if interval.high == END else [f"up to {_boundary(interval.high.values)}"]
    return " ".join(texts) or "all values"


def _boundary(values: Sequence[Any]) -> str:
    return ", ".join(map(shown_value, values))
