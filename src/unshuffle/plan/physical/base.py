"""Base classes of the physical operators.

A physical operator is immutable and holds what it computes with. Its inputs are not part of it: a `PhysicalPlan` puts an
operator over inputs. Every concrete operator is listed in `registry.OPERATORS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.partitions import KeyColumn, KeyInterval
from unshuffle.properties import (
    Alternative,
    Delivered,
    Dependencies,
    Partitioned,
    PartitionFunction,
    RangeFunction,
    RegroupedFunction,
    SampledBoundaries,
    Serial,
    SplitFunction,
    UnknownPartitioning,
    partitions_of,
)
from unshuffle.properties.matching import operator_requirements

if TYPE_CHECKING:
    from unshuffle.plan.physical.node import PhysicalOperator

InputLayouts = Sequence[Delivered]
InputFacts = Sequence[Dependencies]


class Operator:
    """The defaults: no layout is carried from an input to the output."""

    __slots__ = ()

    @property
    def carried(self) -> int | None:
        return None

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return None

    def prefix(self, column: Column) -> tuple[Column, int] | None:
        return None

    def selected(self, column: Column, key: KeyColumn) -> tuple[KeyInterval, ...] | None:
        return None

    @property
    def hides_layout(self) -> bool:
        return False

    @property
    def seconds_per_row(self) -> float:
        return 0.0

    def read_as(self, layout: Partitioned) -> PhysicalOperator | None:
        return None


class LeafOperator(Operator):
    """An operator without inputs, so without requirements."""

    __slots__ = ()

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("", ()),)


class LayoutPreservingOperator(Operator):
    """An operator whose output has the layout and the order of its only input. Columns keep their identity."""

    __slots__ = ()

    @property
    def carried(self) -> int | None:
        return 0

    @property
    def keeps_order(self) -> bool:
        return True

    def source(self, column: Column) -> Column | None:
        return column

    def alternatives(self) -> tuple[Alternative, ...]:
        return operator_requirements.row_by_row()

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return inputs[0]


class RowByRowOperator(Operator):
    """An operator that evaluates expressions on each row. Spark forgets the layout and the order of rows that it sends to a
    Python worker, and would exchange and sort them again. That they are in one partition can be said again."""

    __slots__ = ()
    in_python: bool

    @property
    def carried(self) -> int | None:
        return None if self.in_python else 0

    @property
    def keeps_order(self) -> bool:
        return not self.in_python

    @property
    def hides_layout(self) -> bool:
        return self.in_python

    def source(self, column: Column) -> Column | None:
        return column

    def alternatives(self) -> tuple[Alternative, ...]:
        return operator_requirements.row_by_row()

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        if self.in_python:
            given = inputs[0].partitioning
            return Delivered(given if isinstance(given, Serial) else UnknownPartitioning(partitions_of(given)))
        return self.kept(inputs, facts)

    def kept(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        """The layout that Spark knows after expressions of its own."""
        return inputs[0]


def is_sampled(function: PartitionFunction) -> bool:
    """Do the range boundaries come from a sample that is taken at run time?"""
    match function:
        case RangeFunction():
            return isinstance(function.boundaries, SampledBoundaries)
        case RegroupedFunction():
            return is_sampled(function.base)
        case SplitFunction():
            return is_sampled(function.base) or is_sampled(function.by)
        case _:
            return False
