"""A user-defined function of the query over mailboxes."""

from __future__ import annotations

from unshuffle import function


@function("string", deterministic=True)
def Simplified(event: int | None) -> str | None:  # noqa: N802 (the paper's name)
    return None if event is None else "High" if event % 4 == 0 else "Low"
