"""A plan as a Graphviz graph: `unshuffle explain x.scope --format dot | dot -Tsvg > plan.svg`."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.render import numbers
from unshuffle.render.node import Node


def dot(nodes: Sequence[Node]) -> str:
    drawing = _Drawing()
    for node in nodes:
        drawing.draw(node)
    drawing.join_spools()
    body = "\n".join(f"  {line}" for line in drawing.lines)
    return f'digraph plan {{\n  rankdir=BT;\n  node [shape=box, fontname="Helvetica"];\n{body}\n}}'


class _Drawing:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._shared: dict[str, str] = {}
        self._uses: list[tuple[str, str]] = []  # spools with the nodes that read them
        self._count = 0

    def draw(self, node: Node) -> str:
        """Adds a node and what is below it; a use of a shared rowset has an edge from the one node it has."""
        if node.flow is None and node.refers_to in self._shared:
            return self._shared[str(node.refers_to)]
        self._count += 1
        name = f"n{self._count}"
        facts = [f"{key} {value}".strip() for key, value in node.facts]
        rows = [] if node.rows is None else [f"{node.rows:,} rows"]
        if node.flow is not None:
            rows = [node.flow.layout, f"{numbers.rows(node.flow.rows)}, {numbers.size(node.flow.bytes)}"]
        label = "\\n".join(_escape(_shortened(part)) for part in [node.operator, *facts, *rows])
        style = ", style=filled, fillcolor=lightyellow" if node.operator in _MOVES else ""
        self.lines.append(f'{name} [label="{label}"{style}];')
        if node.flow is not None and node.refers_to:
            self._uses.append((node.refers_to, name))
        if node.shared_as:
            self._shared[node.shared_as] = name
        for child in node.children:
            self.lines.append(f"{self.draw(child)} -> {name};")
        return name

    def join_spools(self) -> None:
        for spool, name in self._uses:
            self.lines.append(f"{self._shared[spool]} -> {name} [style=dashed];")


_MOVES = ("Exchange", "Broadcast", "Sort")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _shortened(text: str, most: int = 80) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
