"""Facts about window functions that are no aggregates."""

from __future__ import annotations

# They number the rows of a partition from 1, with or without gaps. Never NULL.
RANKINGS = frozenset(("row_number", "rank", "dense_rank"))
# They pick the value of another row of the partition. NULLs count as values unless IGNORE NULLS is written.
OFFSETS = frozenset(("nth_value", "lead", "lag"))
