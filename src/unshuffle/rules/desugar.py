"""What SQL has for convenience, in terms of the few operators that the search knows: every rewrite of the families below
always helps, and all together leave plain operators over columns."""

from __future__ import annotations

from unshuffle.rules import (
    distinct_aggregates,
    grouping_sets,
    join_keys,
    percentiles,
    set_operations,
    sorted_lists,
    unordered,
    windows,
)

RULES = (
    *unordered.RULES,
    *set_operations.RULES,
    *grouping_sets.RULES,
    *windows.RULES,
    *distinct_aggregates.RULES,
    *percentiles.RULES,
    *sorted_lists.RULES,
    *join_keys.RULES,
)
