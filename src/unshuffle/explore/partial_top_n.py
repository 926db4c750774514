"""LIMIT as a partial top-n in each partition and a final one: the first rows of all are among the first of each partition."""

from __future__ import annotations

from collections.abc import Iterator

from unshuffle.constants import THRESHOLDS
from unshuffle.plan.logical import Limit, PartialTopN, Plan, Sort
from unshuffle.plan.physical import sorted_keys
from unshuffle.search.memo import Memo, as_group


def split_limit(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A LIMIT needs at most as many rows of each partition as it keeps in all, the skipped ones of its OFFSET included.

    Not for an OFFSET without a LIMIT: it needs all rows."""
    if not isinstance(plan, Limit) or plan.count is None or plan.count + plan.offset > THRESHOLDS.partial_top_n_rows:
        return
    below = as_group(plan.child)
    first = below.expressions[0]
    if isinstance(first, PartialTopN):
        return
    count = plan.count + plan.offset
    if isinstance(first, Sort):
        inside = as_group(first.child)
        if sorted_keys(first.order) is None or isinstance(inside.expressions[0], PartialTopN):
            return
        top = PartialTopN(first.child, count, first.order)
        yield Limit(Sort(top, first.order), plan.count, plan.offset)
    else:
        yield Limit(PartialTopN(plan.child, count, ()), plan.count, plan.offset)
