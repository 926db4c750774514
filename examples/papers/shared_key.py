"""Conditions on rows of two tables."""

from __future__ import annotations

from typing import Any

from unshuffle import function


@function("boolean", deterministic=True)
def p1(row: dict[str, Any]) -> bool:
    return row["c"] % 3 != 0


@function("boolean", deterministic=True)
def p2(row: dict[str, Any]) -> bool:
    return row["d"] is not None
