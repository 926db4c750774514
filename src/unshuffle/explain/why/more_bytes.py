"""Why a plan moves more bytes than the query would in the shape in which it was written.

Plans are chosen by their estimated time, of which bytes are a part. A join order that starts with a small result, or a single
pass instead of several, may take less time and still move more.
"""

from __future__ import annotations

from unshuffle.constants import COST
from unshuffle.frozen import dataclass
from unshuffle.optimizer import PlannedQuery


@dataclass(frozen=True, slots=True)
class MoreBytes:
    """Estimated bytes that are moved and estimated seconds, of a plan and of the query as it was written."""

    moved: float
    as_written: float
    seconds: float
    seconds_as_written: float

    @classmethod
    def of(cls, planned: PlannedQuery, as_written: PlannedQuery) -> MoreBytes | None:
        """None where the plan does not move more, or not much."""
        found = cls(planned.moved_bytes, as_written.moved_bytes, planned.cost, as_written.cost)
        most = max(found.as_written * COST.more_bytes_share, found.as_written + COST.more_bytes)
        return found if found.moved > most else None
