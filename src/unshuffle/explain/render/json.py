"""A plan as JSON. Other programs rely on the fields: they are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unshuffle.catalog.types import spark_name
from unshuffle.effort import Stakes
from unshuffle.explain.render.logical import tree
from unshuffle.explain.render.node import DisplayNode, DisplayStage, Execution
from unshuffle.explain.render.parts_json import parts_json
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.render.reasons_json import avoided_json, exchanges_json, sorts_json
from unshuffle.explain.why.more_bytes import MoreBytes
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan.logical import Declared, Script
from unshuffle.search.trace import Trace

Json = Mapping[str, Any]


def explanation(drawing: PlanDrawing, reasons: ReasonText) -> dict[str, Any]:
    """The output of `explain --format json`."""
    optimized = drawing.optimized
    return {
        "plan": {"operator": "Script", "children": [node_json(node) for node in drawing.roots()]},
        "cost": optimized.cost,
        "optimize_ms": round(optimized.optimize_ms, 3),
        "exchanges": exchanges_json(reasons),
        "avoided": avoided_json(reasons),
        "super_operators": [{"rule": each.rule, "columns": list(each.columns)} for each in optimized.super_operators],
        "fallbacks": fallbacks(optimized),
        "target": {"cores": optimized.target.machine.cores, "managed": optimized.target.is_managed},
        "settings": optimized.settings,
        "sorts": sorts_json(reasons),
        "parts": parts_json(reasons),
        "trace": trace_json(optimized.trace),
        "stages": stages_json(drawing.stages()),
    }


def stages_json(stages: Sequence[DisplayStage]) -> Sequence[Json]:
    return [
        {
            "number": stage.number,
            "tasks": stage.tasks,
            "operators": list(stage.operators),
            "reads": list(stage.reads),
        }
        for stage in stages
    ]


def left_as_is_json(stakes: Stakes | None) -> Json | None:
    """Why `sql` and `optimize` leave the query to plain Spark, in estimated seconds. None if they plan it."""
    if stakes is None:
        return None
    return {"straight": stakes.straight, "saving": stakes.saving, "planning": stakes.planning}


def more_bytes_json(found: MoreBytes | None) -> Json | None:
    """What the plan moves in exchange for time, if that is more than the query would move as it was written."""
    if found is None:
        return None
    return {
        "bytes": found.moved,
        "bytes_as_written": found.as_written,
        "seconds": found.seconds,
        "seconds_as_written": found.seconds_as_written,
    }


def logical_explanation(script: Script) -> Json:
    """The same for a bound script, which has no cost and no exchanges yet."""
    return {
        "plan": {"operator": "Script", "children": [node_json(node) for node in tree(script)]},
        "cost": None,
        "optimize_ms": 0.0,
        "exchanges": [],
        "avoided": [],
        "super_operators": [],
        "fallbacks": [{"operator": "Foreign", "reason": n.reason, "sql": n.sql} for n in script.foreign],
        "declared": declared_json(script.declared),
    }


def declared_json(declared: Sequence[Declared]) -> Sequence[Json]:
    """The keys and dependencies that the user declared, and why they are believed."""
    return [
        {"rowset": each.rowset, "declaration": each.what, "believed": "checked" if each.checked else "trusted"}
        for each in declared
    ]


def fallbacks(optimized: PlannedQuery) -> Sequence[Json]:
    """The parts of the query that fall back to Spark, and why."""
    parts = []
    for fallback in optimized.spark_fallbacks:
        part = {"operator": type(fallback.plan).__name__, "reason": fallback.reason}
        sql = getattr(fallback.plan, "sql", None)
        parts.append(part if sql is None else {**part, "sql": sql})
    return parts


def trace_json(trace: Trace) -> Json:
    return {
        "groups": trace.groups,
        "expressions": trace.expressions,
        "goals": trace.goals,
        "rules": dict(sorted(trace.rules.items())),
        "notes": list(trace.notes),
    }


def node_json(node: DisplayNode) -> Json:
    shown: dict[str, Any] = {"operator": node.operator}
    shown.update({name or "what": value for name, value in node.facts})
    if node.rows is not None:
        shown["rows"] = node.rows
    if node.execution is not None:
        shown.update(_execution_json(node.execution))
    shown["output"] = [
        {"id": c.id, "name": c.name, "type": spark_name(c.type), "nullable": c.nullable} for c in node.columns
    ]
    shown["children"] = [node_json(child) for child in node.children]
    return shown


def _execution_json(execution: Execution) -> Json:
    return {
        "runs": execution.runs,
        "layout": execution.layout,
        "rows": round(execution.rows),
        "bytes": round(execution.bytes),
        "partitions": execution.partitions,
        "cost": execution.seconds,
        "total_cost": execution.total_seconds,
        "stage": execution.stage,
    }
