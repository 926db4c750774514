"""User-defined operators: PROCESS, REDUCE and COMBINE."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan import logical
from unshuffle.plan.physical.base import InputFacts, InputLayouts, Operator
from unshuffle.properties import (
    Alternative,
    Clustered,
    CoPartitioned,
    Delivered,
    Grouped,
    JoinKey,
    Local,
    Partitioning,
    PrefixPartitioned,
    Required,
    Serial,
    SinglePartition,
    Sorted,
    UnknownPartitioning,
    partitions_of,
)
from unshuffle.properties.layouts.propagate import through_project
from unshuffle.properties.matching import operator_requirements


@dataclass(frozen=True, slots=True)
class RunProcess(Operator):
    """PROCESS. Only columns that are declared READONLY are known to pass through unchanged."""

    process: logical.Process

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.process.columns

    @property
    def carried(self) -> int | None:
        return 0

    def source(self, column: Column) -> Column | None:
        return dict(self.process.readonly).get(column)

    @property
    def seconds_per_row(self) -> float:
        return self.process.user_class.seconds_per_row

    def alternatives(self) -> tuple[Alternative, ...]:
        return operator_requirements.row_by_row()

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        renamed = dict(self.process.readonly)
        return Delivered(_implied_by_columns(through_project(inputs[0], facts[0], (), renamed).partitioning))


@dataclass(frozen=True, slots=True)
class RunReduce(Operator):
    """REDUCE: user code over each group. Only key columns that are declared READONLY keep the layout."""

    reduce: logical.Reduce
    presort: tuple[Sorted, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.reduce.columns

    @property
    def carried(self) -> int | None:
        return 0

    def source(self, column: Column) -> Column | None:
        source = dict(self.reduce.readonly).get(column)
        return source if source in self.reduce.keys else None

    @property
    def seconds_per_row(self) -> float:
        return self.reduce.user_class.seconds_per_row

    def alternatives(self) -> tuple[Alternative, ...]:
        by = frozenset(self.reduce.keys)
        local: Local = (*((Grouped(by),) if by else ()), *self.presort)
        serial = Alternative("serial", (Required(SinglePartition(), local),))
        if not by:
            return (serial,)
        return (serial, Alternative("partitioned", (Required(Clustered(by, parallel=True), local),)))

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        by = frozenset(self.reduce.keys)
        renamed = {out: source for out, source in self.reduce.readonly if source in by}
        return Delivered(_implied_by_columns(through_project(inputs[0], facts[0], (), renamed).partitioning))


@dataclass(frozen=True, slots=True)
class RunCombine(Operator):
    """COMBINE. Keys are compared null-safe: NULL matches NULL.

    A key that only one input has is passed on as well, so a READONLY key column agrees with the layout only in rows whose own
    input has the key. No layout is delivered."""

    combine: logical.Combine
    keys: tuple[JoinKey, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.combine.columns

    @property
    def seconds_per_row(self) -> float:
        return self.combine.user_class.seconds_per_row

    def alternatives(self) -> tuple[Alternative, ...]:
        sides = [frozenset(key.columns[side] for key in self.keys) for side in (0, 1)]
        local: list[Local] = [(Grouped(side),) for side in sides]
        return (
            Alternative("serial", tuple(Required(SinglePartition(), each) for each in local)),
            Alternative(
                "pair-wise",
                tuple(Required(Clustered(side), each) for side, each in zip(sides, local, strict=True)),
                CoPartitioned(self.keys),
            ),
        )

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        if all(isinstance(each.partitioning, Serial) for each in inputs):
            return Delivered(Serial())
        return Delivered(UnknownPartitioning(partitions_of(inputs[0].partitioning)))


def _implied_by_columns(layout: Partitioning) -> Partitioning:
    """The part of a layout that still holds after user code, which returns other rows than it takes: what columns imply."""
    return UnknownPartitioning(layout.function.partitions) if isinstance(layout, PrefixPartitioned) else layout
