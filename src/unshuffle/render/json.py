"""A plan as JSON: the shape other programs rely on. Fields are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unshuffle.algebra.logical import Script
from unshuffle.catalog.types import spark_name
from unshuffle.render.node import Node
from unshuffle.render.tree import tree

Json = Mapping[str, Any]


def explanation(script: Script, optimize_ms: float) -> Json:
    """What `explain --format json` prints. Without an optimizer in the way there is no cost to tell and no exchange
    to choose; Spark places its own."""
    return {
        "plan": {"operator": "Script", "children": [node_json(node) for node in tree(script)]},
        "cost": None,
        "optimize_ms": round(optimize_ms, 3),
        "exchanges": [],
        "avoided": [],
        "super_operators": [],
        "fallbacks": fallbacks(script),
    }


def fallbacks(script: Script) -> Sequence[Json]:
    return [{"operator": "Foreign", "reason": node.reason, "sql": node.sql} for node in script.foreign]


def node_json(node: Node) -> Json:
    shown: dict[str, Any] = {"operator": node.operator}
    shown.update({name or "what": value for name, value in node.facts})
    if node.rows is not None:
        shown["rows"] = node.rows
    shown["output"] = [
        {"id": c.id, "name": c.name, "type": spark_name(c.type), "nullable": c.nullable} for c in node.columns
    ]
    shown["children"] = [node_json(child) for child in node.children]
    return shown
