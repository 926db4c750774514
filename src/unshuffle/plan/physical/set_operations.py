"""UNION ALL, INTERSECT ALL and EXCEPT ALL."""

from __future__ import annotations

from dataclasses import field

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan import logical
from unshuffle.plan.physical.base import InputFacts, InputLayouts, Operator
from unshuffle.properties import (
    Alternative,
    AnyDistribution,
    Clustered,
    CoPartitioned,
    Delivered,
    JoinKey,
    Required,
    Serial,
    SinglePartition,
    UnknownPartitioning,
    partitions_of,
)
from unshuffle.properties.layouts.propagate import through_project
from unshuffle.properties.matching import operator_requirements


@dataclass(frozen=True, slots=True)
class Concatenate(Operator):
    """UNION ALL: the partitions of all inputs, side by side. `whole` is the plan that the inputs are pieces of, if any."""

    columns: tuple[Column, ...]
    inputs: tuple[tuple[Column, ...], ...]
    whole: logical.Plan | None = field(default=None, compare=False, repr=False)

    def alternatives(self) -> tuple[Alternative, ...]:
        count = len(self.inputs)
        return (
            Alternative("serial", (Required(SinglePartition()),) * count),
            Alternative("partitioned", (Required(AnyDistribution()),) * count),
        )

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        """One task can read several single partitions one after another, so serial inputs give a serial output."""
        if all(isinstance(each.partitioning, Serial) for each in inputs):
            return Delivered(Serial())
        counts = [partitions_of(each.partitioning) for each in inputs]
        known = [count for count in counts if count is not None]
        return Delivered(UnknownPartitioning(sum(known) if len(known) == len(counts) else None))


@dataclass(frozen=True, slots=True)
class PartitionwiseUnion(Operator):
    """UNION ALL of co-partitioned inputs, partition by partition. The layout is preserved."""

    columns: tuple[Column, ...]
    inputs: tuple[tuple[Column, ...], ...]
    keys: tuple[JoinKey, ...]
    whole: logical.Plan | None = field(default=None, compare=False, repr=False)

    @property
    def carried(self) -> int | None:
        return 0

    def source(self, column: Column) -> Column | None:
        return dict(zip(self.columns, self.inputs[0], strict=True)).get(column)

    def alternatives(self) -> tuple[Alternative, ...]:
        return operator_requirements.union_partitionwise(self.keys)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        renamed = dict(zip(self.columns, self.inputs[0], strict=True))
        return Delivered(through_project(inputs[0], facts[0], (), renamed).partitioning)


@dataclass(frozen=True, slots=True)
class MultisetOperation(Operator):
    """INTERSECT ALL and EXCEPT ALL. They count equal rows on both sides, so equal rows must be in one partition."""

    operation: logical.SetOperation
    keys: tuple[JoinKey, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.operation.columns

    @property
    def carried(self) -> int | None:
        return 0

    def source(self, column: Column) -> Column | None:
        return dict(zip(self.columns, self.operation.inputs[0].columns, strict=True)).get(column)

    def alternatives(self) -> tuple[Alternative, ...]:
        left, right = (Clustered(frozenset(key.columns[side] for key in self.keys)) for side in (0, 1))
        return (
            Alternative("serial", (Required(SinglePartition()), Required(SinglePartition()))),
            Alternative("pair-wise", (Required(left), Required(right)), CoPartitioned(self.keys)),
        )

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        renamed = dict(zip(self.columns, self.operation.inputs[0].columns, strict=True))
        return Delivered(through_project(inputs[0], facts[0], (), renamed).partitioning)
