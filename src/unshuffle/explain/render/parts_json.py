"""The parts of tables as JSON: those that are not read, and those that meet in joins. Long lists are cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unshuffle.explain.render.part_text import method
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.why import MatchedParts, PrunedParts, TablePart, TableReads, UnionOfChildJoins
from unshuffle.partitions import END, START, Cut
from unshuffle.plan.predicate_intervals import NULLS

Json = Mapping[str, Any]
MAX_LISTED = 200  # parts of a table, and tasks of a join


def parts_json(text: ReasonText) -> Json:
    return {
        "pruned": [_pruned(text, each) for each in text.reasons.pruned],
        "matched": [_matched(text, each) for each in text.reasons.matched],
        "child_joins": [_child_joins(text, each) for each in text.reasons.child_joins],
    }


def _pruned(text: ReasonText, pruned: PrunedParts) -> Json:
    table = pruned.table
    return {
        "table": table.label,
        "read": len(table.read),
        "all": len(table.parts),
        "bytes_share": table.share,
        "why": text.parts.pruned(pruned),
        "side": _side(table),
    }


def _matched(text: ReasonText, matched: MatchedParts) -> Json:
    sizes = matched.task_bytes
    return {
        "operator": text.operator(matched.join),
        "tables": [side.label for side in matched.sides],
        "columns": [side.column.name for side in matched.sides],
        "parts": [len(side.read) for side in matched.sides],
        "pairs": matched.pairs,
        "tasks": matched.tasks,
        "readers": [side.scan.readers for side in matched.sides],
        "method": method(matched),
        "task_bytes": {"average": sum(sizes) / len(sizes), "largest": max(sizes)},
        "extra_bytes_share": matched.extra_share,
        "ranges": [
            {"from": _end(each.low), "to": _end(each.high), "bytes": sizes[task]}
            for task, each in zip(range(MAX_LISTED), matched.ranges, strict=False)
        ],
        "sides": [_side(side) for side in matched.sides],
    }


def _child_joins(text: ReasonText, found: UnionOfChildJoins) -> Json:
    return {
        "operator": text.operator(found.union),
        "children": [
            {
                "operator": text.operator(child.node) if child.is_joined else None,
                "bytes": [side.size.bytes for side in child.sides],
                "rows": [side.size.rows for side in child.sides],
                "why": text.parts.child_join(child),
            }
            for child in found.children
        ],
    }


def _side(table: TableReads) -> Json:
    return {
        "table": table.label,
        "column": table.column.name,
        "part": table.unit,
        "all": len(table.parts),
        "read": len(table.read),
        "read_by_several": len(table.shared),
        "bytes": sum(part.bytes for part in table.read),
        "bytes_read": table.bytes_read,
        "listed": [_part(part) for part in table.parts[:MAX_LISTED]],
        "left_off": max(0, len(table.parts) - MAX_LISTED),
    }


def _part(part: TablePart) -> Json:
    values = [each for each in part.bounds if each != NULLS]
    return {
        "name": part.name,
        "rows": part.rows,
        "bytes": part.bytes,
        "least": _end(values[0].low) if values else None,
        "greatest": _end(values[-1].high) if values else None,
        "has_nulls": NULLS in part.bounds,
        "read": part.is_read,
        "tasks": {
            "count": len(part.tasks),
            "first": min(part.tasks, default=None),
            "last": max(part.tasks, default=None),
        },
    }


def _end(cut: Cut) -> Any:
    """The value at an end of an interval, a list for a composite key; null if there is no end."""
    if cut in (START, END):
        return None
    values = [each if isinstance(each, int | str | None) else str(each) for each in cut.values]
    return values[0] if len(values) == 1 else values
