"""The kinds of join. Operators and the rules for their properties share them."""

from __future__ import annotations

from enum import Enum


class JoinKind(Enum):
    """An inner join without a condition is the cross product."""

    INNER = "inner"
    LEFT = "left outer"
    RIGHT = "right outer"
    FULL = "full outer"
    SEMI = "left semi"
    ANTI = "left anti"

    @property
    def extends_left(self) -> bool:
        """Whether the left side's columns can be NULL because no row matched."""
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def extends_right(self) -> bool:
        return self in (JoinKind.LEFT, JoinKind.FULL)
