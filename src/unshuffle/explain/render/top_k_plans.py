"""The cheapest plans of a script: how much more each costs than the best, and where it differs from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from unshuffle.explain.phrases import numbers
from unshuffle.explain.render.json import node_json
from unshuffle.explain.render.node import DisplayNode
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import node_line
from unshuffle.frozen import dataclass
from unshuffle.optimizer import PlannedQuery

MAX_SHOWN = 3  # differing operators, of each plan
NOTICED = 0.001  # a share of the cost


@dataclass(frozen=True, slots=True)
class Difference:
    """Operators of the best plan that another plan lacks, and those that it has instead."""

    lacking: tuple[str, ...]
    added: tuple[str, ...]


def difference(best: Sequence[DisplayNode], other: Sequence[DisplayNode]) -> Difference:
    """Operators are the same if their texts are. So an operator above a change is no difference unless it changes too."""
    best_lines, other_lines = (list(_lines(nodes)) for nodes in (best, other))
    return Difference(tuple(_without(best_lines, other_lines)), tuple(_without(other_lines, best_lines)))


def _lines(nodes: Sequence[DisplayNode]) -> Iterator[str]:
    for node in nodes:
        yield node_line(node, short=True)
        yield from _lines(node.children)


def _without(lines: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """The multiset difference, in the order of `lines`."""
    remaining = Counter(others)
    for line in lines:
        if remaining[line]:
            remaining[line] -= 1
        else:
            yield line


def ranked_text(plans: Sequence[PlannedQuery]) -> str:
    best = physical_tree(plans[0])
    lines = [f"The {len(plans)} cheapest plans:"]
    seen = {Difference((), ()): 1}
    for rank, plan in enumerate(plans, 1):
        if rank == 1:
            lines.append(f"{rank:>3}. {numbers.seconds(plan.cost)}, the plan above")
            continue
        lines.append(
            f"{rank:>3}. {numbers.seconds(plan.cost)}, {_extra_cost(plan.cost - plans[0].cost, plans[0].cost)}"
        )
        differs = difference(best, physical_tree(plan))
        if differs in seen:
            lines.append(f"     the operators of plan {seen[differs]}, in another order")
            continue
        seen[differs] = rank
        lines += _limited("-", differs.lacking)
        lines += _limited("+", differs.added)
    return "\n".join(lines)


def _extra_cost(extra: float, best: float) -> str:
    share = extra / best if best else 0.0
    if share <= -NOTICED:
        return f"{numbers.seconds(-extra)} less: the search did not find this plan"
    if extra <= 0:
        return "the same cost"
    return f"{numbers.seconds(extra)} more" + (f" ({share:+.2%})" if share >= 0.000_05 else "")


def _limited(sign: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines[:MAX_SHOWN]:
        yield f"     {sign} {line}"
    if len(lines) > MAX_SHOWN:
        yield f"     {sign} and {len(lines) - MAX_SHOWN} more"


def ranked_json(plans: Sequence[PlannedQuery]) -> Sequence[Mapping[str, Any]]:
    best = physical_tree(plans[0])
    ranked = []
    for rank, plan in enumerate(plans, 1):
        nodes = physical_tree(plan)
        differs = difference(best, nodes)
        ranked.append(
            {
                "rank": rank,
                "cost": plan.cost,
                "without": list(differs.lacking),
                "with": list(differs.added),
                "plan": {"operator": "Script", "children": [node_json(node) for node in nodes]},
            }
        )
    return ranked
