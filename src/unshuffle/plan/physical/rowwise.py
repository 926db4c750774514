"""Operators that process one row at a time: Filter, Project, Expand."""

from __future__ import annotations

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.partitions import KeyColumn, KeyInterval
from unshuffle.plan import logical
from unshuffle.plan.expressions import Expression, Ref, text_prefix
from unshuffle.plan.physical.base import InputFacts, InputLayouts, LayoutPreservingOperator, RowByRowOperator
from unshuffle.plan.predicate_intervals import intervals_of_column
from unshuffle.properties import Delivered
from unshuffle.properties.layouts.propagate import through_project


@dataclass(frozen=True, slots=True)
class Filter(RowByRowOperator):
    predicate: Expression
    columns: tuple[Column, ...]
    in_python: bool = False

    def selected(self, column: Column, key: KeyColumn) -> tuple[KeyInterval, ...] | None:
        return intervals_of_column(self.predicate, column, key)


@dataclass(frozen=True, slots=True)
class Project(RowByRowOperator):
    outputs: tuple[tuple[Column, Expression], ...]
    in_python: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for column, _ in self.outputs)

    def source(self, column: Column) -> Column | None:
        for made, expression in self.outputs:
            if made == column:
                return expression.column if isinstance(expression, Ref) else None
        return None

    def prefix(self, column: Column) -> tuple[Column, int] | None:
        for made, expression in self.outputs:
            if made == column:
                return text_prefix(expression)
        return None

    def kept(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        copies = {made: e.column for made, e in self.outputs if isinstance(e, Ref)}
        kept = [made for made, source in copies.items() if made == source]
        renamed = {made: source for made, source in copies.items() if made != source}
        prefixes = {made: prefix for made, e in self.outputs if (prefix := text_prefix(e)) is not None}
        return through_project(inputs[0], facts[0], kept, renamed, prefixes)


@dataclass(frozen=True, slots=True)
class Expand(LayoutPreservingOperator):
    """Several copies of each row, one after another. The order on the columns that pass through is preserved."""

    expand: logical.Expand

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.expand.columns

    def source(self, column: Column) -> Column | None:
        return column if column in self.expand.child.columns else None

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return through_project(inputs[0], facts[0], self.expand.child.columns)
