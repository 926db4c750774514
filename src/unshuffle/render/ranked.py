"""The cheapest plans of a script beside one another: what each costs more than the best, and where it differs from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unshuffle.optimizer import Optimized
from unshuffle.render import numbers
from unshuffle.render.json import node_json
from unshuffle.render.node import Node
from unshuffle.render.physical import physical_tree
from unshuffle.render.text import line

SHOWN = 3  # operators that differ, each way


@dataclass(frozen=True, slots=True)
class Difference:
    """Operators of the best plan that another does not have, and what it has instead."""

    without: tuple[str, ...]
    has: tuple[str, ...]


def difference(best: Sequence[Node], other: Sequence[Node]) -> Difference:
    """Operators count as the same where they read the same; those above a change that it does not change read so."""
    one, two = (list(_lines(nodes)) for nodes in (best, other))
    return Difference(tuple(_less(one, two)), tuple(_less(two, one)))


def _lines(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        yield line(node, short=True)
        yield from _lines(node.children)


def _less(lines: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    left = Counter(others)
    for each in lines:
        if left[each]:
            left[each] -= 1
        else:
            yield each


def ranked_text(plans: Sequence[Optimized]) -> str:
    best = physical_tree(plans[0])
    lines = [f"The {len(plans)} cheapest plans:"]
    seen = {Difference((), ()): 1}
    for rank, plan in enumerate(plans, 1):
        if rank == 1:
            lines.append(f"{rank:>3}. {numbers.seconds(plan.cost)}, the plan above")
            continue
        lines.append(f"{rank:>3}. {numbers.seconds(plan.cost)}, {_more(plan.cost - plans[0].cost, plans[0].cost)}")
        found = difference(best, physical_tree(plan))
        if found in seen:
            lines.append(f"     the operators of plan {seen[found]}, in another order")
            continue
        seen[found] = rank
        lines += _some("-", found.without)
        lines += _some("+", found.has)
    return "\n".join(lines)


def _more(more: float, best: float) -> str:
    if more <= 0:
        return "as much"
    share = more / best if best else 0.0
    return f"{numbers.seconds(more)} more" + (f" ({share:+.2%})" if share >= 0.000_05 else "")


def _some(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for each in lines[:SHOWN]:
        yield f"     {sign} {each}"
    if len(lines) > SHOWN:
        yield f"     {sign} and {len(lines) - SHOWN} more"


def ranked_json(plans: Sequence[Optimized]) -> Sequence[Mapping[str, Any]]:
    best = physical_tree(plans[0])
    shown = []
    for rank, plan in enumerate(plans, 1):
        nodes = physical_tree(plan)
        found = difference(best, nodes)
        shown.append(
            {
                "rank": rank,
                "cost": plan.cost,
                "without": list(found.without),
                "with": list(found.has),
                "plan": {"operator": "Script", "children": [node_json(node) for node in nodes]},
            }
        )
    return shown
