"""A plan as text to read in a terminal.

A logical plan is its tree alone. A physical plan has its numbers in a margin to the left, where they can be compared, so that
the tree stays a tree however long its lines are:

          rows      size      time   plan
                                     Output  to usage.csv
            23     460 B             └─ OrderBy  user_group↑
            23     460 B     13 ms      └─ Exchange  gather  ·  merging in order of user_group↑  → one partition

After the arrow stands how the rows lie, where the operator has changed that.
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.render import numbers
from unshuffle.render.node import Flow, Node

WIDEST = 110  # characters of what an operator computes


def text(nodes: Sequence[Node]) -> str:
    """The tree alone."""
    return "\n\n".join("\n".join(line for line, _ in _lines(node)) for node in nodes)


def table(nodes: Sequence[Node]) -> str:
    """The tree beside its numbers."""
    head = f"{'rows':>14} {'size':>9} {'time':>9}   plan"
    parts = []
    for node in nodes:
        parts.append("\n".join(f"{_margin(flow)}   {line}" for line, flow in _lines(node, short=True)))
    return "\n".join([head, "\n\n".join(parts)])


def compact(nodes: Sequence[Node]) -> str:
    """The tree with rows and layouts, without sizes and times: what stays the same from one machine to the next."""

    def shown(node: Node) -> str:
        return "\n".join(f"{line}{_rows(flow)}" for line, flow in _lines(node, short=False))

    return "\n\n".join(map(shown, nodes))


def _rows(flow: Flow | None) -> str:
    return f"  ({numbers.rough(flow.rows)})" if flow is not None else ""


def _margin(flow: Flow | None) -> str:
    if flow is None:
        return " " * 34
    time = numbers.seconds(flow.seconds) if flow.seconds > 0 else ""
    return f"{numbers.count(flow.rows):>14} {numbers.size(flow.bytes):>9} {time:>9}"


def _lines(node: Node, short: bool = False) -> list[tuple[str, Flow | None]]:
    lines = [(line(node, short), node.flow)]
    for i, child in enumerate(node.children):
        last = i == len(node.children) - 1
        (first, flow), *rest = _lines(child, short)
        lines.append((("└─ " if last else "├─ ") + first, flow))
        lines += [(("   " if last else "│  ") + one, flow) for one, flow in rest]
    return lines


def line(node: Node, short: bool = False) -> str:
    """One operator on one line."""
    if node.flow is None and node.refers_to:
        return f"Reference to {node.refers_to} (above)"
    what = "  ·  ".join(f"{name} {value}".strip() for name, value in node.facts)
    if short:
        what = shortened(what)
    if node.rows is not None:
        what += ("  ·  " if what else "") + f"{node.rows:,} rows"
    layout = ""
    if node.flow is not None and node.flow.changes:
        layout = f"→ {shortened(node.flow.layout) if short else node.flow.layout}"
    return "  ".join(filter(None, (node.operator, what, layout)))


def shortened(text: str, most: int = WIDEST) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
