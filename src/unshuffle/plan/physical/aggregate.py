"""Aggregation, by hashing or over sorted input. Both algorithms run every phase of an aggregate."""

from __future__ import annotations

from typing import Literal

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import AggregateCall
from unshuffle.plan.physical.base import InputFacts, InputLayouts, LayoutPreservingOperator
from unshuffle.properties import Alternative, Delivered, Grouped, Local, Required
from unshuffle.properties.layouts.propagate import through_aggregate
from unshuffle.properties.matching import operator_requirements

# A complete aggregate turns rows into results. A partial one turns rows into partial states, before an exchange; a final one
# turns partial states into results. A combining one merges partial states into partial states: it is an inner vertex of an
# aggregation tree (SIGMOD 2012, section 2.4.1).
AggregatePhase = Literal["complete", "partial", "combining", "final"]


@dataclass(frozen=True, slots=True)
class HashAggregate(LayoutPreservingOperator):
    """Keeps the states of all groups in a hash table. The output has no order."""

    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]
    phase: AggregatePhase = "complete"
    states: tuple[Column, ...] = ()  # of a final aggregate: the columns with the partial states

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return column if column in self.keys else None

    def alternatives(self) -> tuple[Alternative, ...]:
        if self.phase in ("partial", "combining"):
            return operator_requirements.row_by_row()
        return operator_requirements.hash_aggregate(self.keys)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return through_aggregate(inputs[0], facts[0], self.keys, streaming=False)


@dataclass(frozen=True, slots=True)
class SortAggregate(LayoutPreservingOperator):
    """Requires grouped input, so only the state of the current group is in memory."""

    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]
    phase: AggregatePhase = "complete"
    states: tuple[Column, ...] = ()  # of a final aggregate: the columns with the partial states
    listed: frozenset[Column] = frozenset()  # percentiles that are looked up in a sorted list of the group's values

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))

    def source(self, column: Column) -> Column | None:
        return column if column in self.keys else None

    def alternatives(self) -> tuple[Alternative, ...]:
        if self.phase != "partial":
            return operator_requirements.stream_aggregate(self.keys)
        local: Local = (Grouped(frozenset(self.keys)),) if self.keys else ()
        return tuple(
            Alternative(each.name, (Required(each.children[0].partitioning, local),))
            for each in operator_requirements.row_by_row()
        )

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return through_aggregate(inputs[0], facts[0], self.keys, streaming=True)
