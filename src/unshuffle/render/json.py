"""A plan as JSON: the shape other programs rely on. Fields are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unshuffle.algebra.logical import Declared, Script
from unshuffle.catalog.types import spark_name
from unshuffle.optimizer import Optimized
from unshuffle.render.node import Flow, Node
from unshuffle.render.physical import Drawing
from unshuffle.render.tree import tree
from unshuffle.render.why import Telling
from unshuffle.search.trace import Trace

Json = Mapping[str, Any]


def explanation(drawing: Drawing, telling: Telling) -> dict[str, Any]:
    """What `explain --format json` prints of a plan."""
    optimized = drawing.optimized
    return {
        "plan": {"operator": "Script", "children": [node_json(node) for node in drawing.roots()]},
        "cost": optimized.cost,
        "optimize_ms": round(optimized.milliseconds, 3),
        "exchanges": telling.exchanges(),
        "avoided": telling.avoided(),
        "super_operators": [{"rule": each.rule, "columns": list(each.columns)} for each in optimized.super_operators],
        "fallbacks": fallbacks(optimized),
        "sorts": telling.sorts(),
        "trace": trace_json(optimized.trace),
    }


def logical_explanation(script: Script) -> Json:
    """The same of a script as it was bound: there is no cost to tell and no exchange to choose."""
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
    """What the user declared, and why it is believed."""
    return [
        {"rowset": each.rowset, "declaration": each.what, "believed": "checked" if each.checked else "trusted"}
        for each in declared
    ]


def fallbacks(optimized: Optimized) -> Sequence[Json]:
    """What is left to Spark as it stands, and why."""
    found = []
    for left in optimized.foreign:
        sql = getattr(left.plan, "sql", None)
        found.append(
            {"operator": type(left.plan).__name__, "reason": left.reason, **({"sql": sql} if sql is not None else {})}
        )
    return found


def trace_json(trace: Trace) -> Json:
    return {
        "groups": trace.groups,
        "expressions": trace.expressions,
        "goals": trace.goals,
        "rules": dict(sorted(trace.rules.items())),
        "notes": list(trace.notes),
    }


def node_json(node: Node) -> Json:
    shown: dict[str, Any] = {"operator": node.operator}
    shown.update({name or "what": value for name, value in node.facts})
    if node.rows is not None:
        shown["rows"] = node.rows
    if node.flow is not None:
        shown.update(_flow_json(node.flow))
    shown["output"] = [
        {"id": c.id, "name": c.name, "type": spark_name(c.type), "nullable": c.nullable} for c in node.columns
    ]
    shown["children"] = [node_json(child) for child in node.children]
    return shown


def _flow_json(flow: Flow) -> Json:
    return {
        "runs": flow.runs,
        "layout": flow.layout,
        "rows": round(flow.rows),
        "bytes": round(flow.bytes),
        "partitions": flow.partitions,
        "cost": flow.seconds,
        "total_cost": flow.total,
    }
