"""Several outputs that group one input by the same keys: one pass computes the groups for all of them.

  OUTPUT x        OUTPUT y                       OUTPUT x          OUTPUT y
 e3 |               | e4                          guarded |      | guarded
GROUP BY a      GROUP BY a          -->              groups, computed once
 e1 \\              / e2                                     |
        input                                    GROUP BY a, guarded aggregates
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.explore.super_operators.abstract import Branch, cores
from unshuffle.explore.super_operators.diamond_join import filtered
from unshuffle.explore.super_operators.grouped_pass import Reached, branches_of, grouped_pass
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import GroupBy, Limit, Plan, Project, Reference, Sort
from unshuffle.plan.movable_conditions import substitute
from unshuffle.search.memo import Group, Memo, as_group


def several_outputs(roots: Sequence[Group], memo: Memo) -> None:
    """Outputs that group one input by the same keys read one grouping, computed once, with the aggregates of all.

    Unsound for different keys, as for `diamond_union`. Not for outputs that do more than filter and project their groups."""
    found: list[tuple[Group, Reached]] = []
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
    return _unordered(as_group(first.child)) if isinstance(first, Sort | Limit) else group


def _read_once(groups: Sequence[Group], leaf: Plan, branches: Sequence[Branch], memo: Memo) -> None:
    once = grouped_pass(leaf, branches, memo)
    whole = memo.insert(once.plan)
    whole.name = f"groups by {', '.join(key.name for key in once.keys)}"
    for group, outputs, present in zip(groups, once.outputs, once.present, strict=True):
        names = {column: memo.numbers.like(column) for column in whole.columns}
        refs = {column: Ref(new) for column, new in names.items()}
        read = Reference(whole, tuple(names.values()))
        rows = filtered(read, None if present is None else substitute(present, refs))
        made = Project(rows, tuple((column, substitute(outputs[column], refs)) for column in group.columns))
        memo.offer(made, group, several_outputs)
