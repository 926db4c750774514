"""Several outputs that group one input by the same keys: one pass finds the groups of all, and each output takes its own.

  OUTPUT x        OUTPUT y                       OUTPUT x          OUTPUT y
 e3 |               | e4                          guarded |      | guarded
GROUP BY a      GROUP BY a          -->              groups, computed once
 e1 \\              / e2                                     |
        input                                    GROUP BY a, guarded aggregates
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from unshuffle.algebra.expressions import Ref
from unshuffle.algebra.logical import GroupBy, Limit, Plan, Project, Reference, Shared, Sort
from unshuffle.rules.conditions import substitute
from unshuffle.rules.super_operators.abstract import Branch, cores
from unshuffle.rules.super_operators.diamond_join import filtered
from unshuffle.rules.super_operators.grouped_pass import Found, branches_of, grouped_pass
from unshuffle.search.memo import Group, Memo


def several_outputs(roots: Sequence[Group], memo: Memo) -> None:
    """Outputs that are groupings of one input by the same keys read from one grouping with the aggregates of all.

    Not by different keys, and not where an output is something else of the groups than a choice and a computation: it may
    have its own way to be had."""
    found: list[tuple[Group, Found]] = []
    for root in roots:
        below = _unordered(root)
        first = next((each for each in cores(below, GroupBy) if each[1].keys), None)
        if first is not None and all(below is not other for other, _ in found):
            found.append((below, first))
    while len(found) > 1:
        first_group, first = found.pop(0)
        same = [(group, each) for group, each in found if branches_of([first, each]) is not None]
        matched = branches_of([first, *(each for _, each in same)]) if same else None
        if matched is not None:
            _read_once([first_group, *(group for group, _ in same)], *matched, memo)
            found = [each for each in found if each not in same]


def _unordered(group: Group) -> Group:
    first = group.expressions[0]
    return _unordered(cast(Group, first.child)) if isinstance(first, Sort | Limit) else group


def _read_once(groups: Sequence[Group], leaf: Plan, branches: Sequence[Branch], memo: Memo) -> None:
    once = grouped_pass(leaf, branches, memo)
    whole = memo.insert(once.plan)
    whole.name = f"groups by {', '.join(key.name for key in once.keys)}"
    for group, outputs, present in zip(groups, once.outputs, once.present, strict=True):
        names = {column: memo.numbers.like(column) for column in whole.columns}
        refs = {column: Ref(new) for column, new in names.items()}
        read = Reference(cast(Shared, whole), tuple(names.values()))
        rows = filtered(read, None if present is None else substitute(present, refs))
        made = Project(rows, tuple((column, substitute(outputs[column], refs)) for column in group.columns))
        memo.offer(made, group, several_outputs.__name__)
