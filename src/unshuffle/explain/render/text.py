"""A plan as text to read in a terminal.

A logical plan is drawn as a tree alone. A physical plan has its numbers in a margin to the left, where they line up however
long the lines of the tree are:

          rows      size      time stage   plan
                                           Output  to usage.csv
            23     460 B               2   └─ OrderBy  user_group↑
            23     460 B     13 ms     1      └─ Exchange  gather  ·  merging in order of user_group↑  → single partition

An arrow shows the layout of the rows if the operator changes it. A stage is a group of operators that run in the same tasks.
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.explain.phrases import numbers
from unshuffle.explain.render.node import DisplayNode, Execution

MAX_WIDTH = 110  # of the facts of an operator, and of its layout, in characters


def text(nodes: Sequence[DisplayNode]) -> str:
    """The tree alone."""
    return "\n\n".join("\n".join(line for line, _ in _lines(node)) for node in nodes)


def table(nodes: Sequence[DisplayNode]) -> str:
    """The tree beside its numbers."""
    head = f"{'rows':>14} {'size':>9} {'time':>9} {'stage':>5}   plan"
    parts = []
    for node in nodes:
        parts.append("\n".join(f"{_margin(execution)}   {line}" for line, execution in _lines(node, short=True)))
    return "\n".join([head, "\n\n".join(parts)])


def compact(nodes: Sequence[DisplayNode]) -> str:
    """The tree with rows and layouts, without sizes and times, which differ between machines."""

    def shown(node: DisplayNode) -> str:
        return "\n".join(f"{line}{_rows(execution)}" for line, execution in _lines(node, short=False))

    return "\n\n".join(map(shown, nodes))


def _rows(execution: Execution | None) -> str:
    return f"  ({numbers.rough(execution.rows)})" if execution is not None else ""


def _margin(execution: Execution | None) -> str:
    if execution is None:
        return " " * 40
    time = numbers.seconds(execution.seconds) if execution.seconds > 0 else ""
    return f"{numbers.count(execution.rows):>14} {numbers.size(execution.bytes):>9} {time:>9} {execution.stage:>5}"


def _lines(node: DisplayNode, short: bool = False) -> list[tuple[str, Execution | None]]:
    lines = [(node_line(node, short), node.execution)]
    for i, child in enumerate(node.children):
        last = i == len(node.children) - 1
        (first, execution), *rest = _lines(child, short)
        lines.append((("└─ " if last else "├─ ") + first, execution))
        lines += [(("   " if last else "│  ") + line, execution) for line, execution in rest]
    return lines


def node_line(node: DisplayNode, short: bool = False) -> str:
    """One operator on one line."""
    if node.execution is None and node.refers_to:
        return f"Reference to {node.refers_to} (above)"
    facts = "  ·  ".join(f"{name} {value}".strip() for name, value in node.facts)
    if short:
        facts = shortened(facts)
    if node.rows is not None:
        facts += ("  ·  " if facts else "") + f"{node.rows:,} rows"
    layout = ""
    if node.execution is not None and node.execution.changes_layout:
        layout = f"→ {shortened(node.execution.layout) if short else node.execution.layout}"
    return "  ".join(filter(None, (node.operator, facts, layout))).replace("\n", " ")


def shortened(text: str, limit: int = MAX_WIDTH) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
