"""A plan as text to read in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.render.tree import Node


def text(nodes: Sequence[Node]) -> str:
    return "\n\n".join("\n".join(_lines(node)) for node in nodes)


def _lines(node: Node) -> list[str]:
    lines = [line(node)]
    for i, child in enumerate(node.children):
        last = i == len(node.children) - 1
        first, *rest = _lines(child)
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + one for one in rest]
    return lines


def line(node: Node) -> str:
    """One operator on one line."""
    facts = [f"{name} {value}".strip() for name, value in node.facts]
    rows = [] if node.rows is None else [f"{node.rows:,} rows"]
    if node.refers_to:
        return f"Reference to {node.refers_to} (above)"
    return f"{node.operator}  " + "  ·  ".join([*facts, *rows]) if facts or rows else node.operator
