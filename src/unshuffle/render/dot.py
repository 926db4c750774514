"""A plan as a Graphviz graph: `unshuffle explain x.scope --format dot | dot -Tsvg > plan.svg`."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.render.node import Node


def dot(nodes: Sequence[Node]) -> str:
    drawing = _Drawing()
    for node in nodes:
        drawing.draw(node)
    body = "\n".join(f"  {line}" for line in drawing.lines)
    return f'digraph plan {{\n  rankdir=BT;\n  node [shape=box, fontname="Helvetica"];\n{body}\n}}'


class _Drawing:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._shared: dict[str, str] = {}
        self._count = 0

    def draw(self, node: Node) -> str:
        """Adds a node and what is below it; a use of a shared rowset is an edge to the one node it has."""
        if node.refers_to in self._shared:
            return self._shared[str(node.refers_to)]
        self._count += 1
        name = f"n{self._count}"
        facts = [f"{key} {value}".strip() for key, value in node.facts]
        rows = [] if node.rows is None else [f"{node.rows:,} rows"]
        label = "\\n".join(_escape(_shortened(part)) for part in [node.operator, *facts, *rows])
        self.lines.append(f'{name} [label="{label}"];')
        if node.shared_as:
            self._shared[node.shared_as] = name
        for child in node.children:
            self.lines.append(f"{self.draw(child)} -> {name};")
        return name


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
