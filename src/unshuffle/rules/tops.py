"""LIMIT in two halves: the first rows of all are among the first rows of each partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from unshuffle.algebra.logical import Limit, PartialTop, Plan, Sort
from unshuffle.algebra.operators import sorted_keys
from unshuffle.search.memo import Group, Memo

# Beyond this many rows a heap is no better than a sort.
LARGEST = 100_000


def split_limit(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A LIMIT looks at no more than its own number of rows of each partition. Not without a number."""
    if not isinstance(plan, Limit) or plan.count is None or plan.count + plan.offset > LARGEST:
        return
    below = cast(Group, plan.child)
    first = below.expressions[0]
    if isinstance(first, PartialTop):
        return
    count = plan.count + plan.offset
    if isinstance(first, Sort):
        inside = cast(Group, first.child)
        if sorted_keys(first.order) is None or isinstance(inside.expressions[0], PartialTop):
            return
        top = PartialTop(first.child, count, first.order)
        yield Limit(Sort(top, first.order), plan.count, plan.offset)
    else:
        yield Limit(PartialTop(plan.child, count, ()), plan.count, plan.offset)


RULES = (split_limit,)
