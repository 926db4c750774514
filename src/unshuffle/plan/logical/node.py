"""Base classes of the logical operators: the shapes of their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column

if TYPE_CHECKING:
    from unshuffle.plan.logical.plan import Plan


class Leaf:
    __slots__ = ()

    @property
    def children(self) -> tuple[Plan, ...]:
        return ()


class Unary:
    __slots__ = ()
    child: Plan

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.child,)


class ColumnPreserving(Unary):
    """One input. The output has the same columns."""

    __slots__ = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


class Binary:
    __slots__ = ()
    left: Plan
    right: Plan

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.left, self.right)


class Nary:
    __slots__ = ()
    inputs: tuple[Plan, ...]

    @property
    def children(self) -> tuple[Plan, ...]:
        return self.inputs
