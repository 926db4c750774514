"""A plan as a Graphviz graph: `unshuffle explain x.scope --format dot | dot -Tsvg > plan.svg`."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.explain.phrases import numbers
from unshuffle.explain.render.node import ENFORCERS, DisplayNode, DisplayStage
from unshuffle.printable import printable


def dot(nodes: Sequence[DisplayNode], stages: Sequence[DisplayStage] = ()) -> str:
    """With `stages`, the operators of each stage are in a box of their own."""
    graph = _Graph()
    for node in nodes:
        graph.draw(node)
    graph.connect_spools()
    graph.enclose(stages)
    body = "\n".join(f"  {line}" for line in graph.lines)
    return f'digraph plan {{\n  rankdir=BT;\n  node [shape=box, fontname="Helvetica"];\n{body}\n}}'


class _Graph:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._shared: dict[str, str] = {}
        self._spool_reads: list[tuple[str, str]] = []  # names of spools, and the nodes that read them
        self._stages: dict[int, list[str]] = {}  # the nodes of each stage
        self._count = 0

    def draw(self, node: DisplayNode) -> str:
        """Adds a node and the nodes below it, and returns its name. Every use of a shared rowset gets an edge from the same
        node."""
        if node.execution is None and node.refers_to in self._shared:
            return self._shared[str(node.refers_to)]
        self._count += 1
        name = f"n{self._count}"
        facts = [f"{key} {value}".strip() for key, value in node.facts]
        rows = [] if node.rows is None else [f"{node.rows:,} rows"]
        if node.execution is not None:
            rows = [node.execution.layout, f"{numbers.rows(node.execution.rows)}, {numbers.size(node.execution.bytes)}"]
        label = "\\n".join(_escape(_shortened(part)) for part in [node.operator, *facts, *rows])
        style = ", style=filled, fillcolor=lightyellow" if node.operator in ENFORCERS else ""
        self.lines.append(f'{name} [label="{label}"{style}];')
        if node.execution is not None:
            self._stages.setdefault(node.execution.stage, []).append(name)
        if node.execution is not None and node.refers_to:
            self._spool_reads.append((node.refers_to, name))
        if node.shared_as:
            self._shared[node.shared_as] = name
        for child in node.children:
            self.lines.append(f"{self.draw(child)} -> {name};")
        return name

    def enclose(self, stages: Sequence[DisplayStage]) -> None:
        for stage in stages:
            label = f"stage {stage.number}, {numbers.counted(stage.tasks, 'task')}"
            nodes = " ".join(f"{name};" for name in self._stages.get(stage.number, ()))
            self.lines.append(f'subgraph cluster_{stage.number} {{ label="{label}"; color=gray; {nodes} }}')

    def connect_spools(self) -> None:
        for spool, reader in self._spool_reads:
            self.lines.append(f"{self._shared[spool]} -> {reader} [style=dashed];")


def _escape(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def _shortened(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
