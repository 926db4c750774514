"""Nodes that only the optimizer makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Expression
from unshuffle.plan.logical.node import Leaf, Nary

if TYPE_CHECKING:
    from unshuffle.plan.logical.plan import Plan


class GroupRef(Leaf):
    """A memo group as the input of an expression. It stands for every plan of that group."""

    __slots__ = ()
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class MultiJoin(Nary):
    """An unordered inner join of any number of inputs: every combination of rows that satisfies the conditions and agrees on
    each class of equal columns. No value in a class is NULL. `beam` limits how many splits into two joins are tried."""

    inputs: tuple[Plan, ...]
    classes: tuple[tuple[Column, ...], ...]
    conditions: tuple[Expression, ...]
    columns: tuple[Column, ...]
    beam: int | None = None


@dataclass(frozen=True, slots=True)
class MultiOutput(Nary):
    """All outputs of a script under one root, so that one rewrite sees the rowsets that they share."""

    inputs: tuple[Plan, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return ()
