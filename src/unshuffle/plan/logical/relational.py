"""The relational operators."""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import AggregateCall, Expression, SortKey, WindowCall
from unshuffle.plan.logical.node import Binary, ColumnPreserving, Nary, Unary

if TYPE_CHECKING:
    from unshuffle.plan.logical.plan import Plan


@dataclass(frozen=True, slots=True)
class Project(Unary):
    """Each output column with the expression that computes it. A column that passes through keeps its identity."""

    child: Plan
    outputs: tuple[tuple[Column, Expression], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for column, _ in self.outputs)


@dataclass(frozen=True, slots=True)
class Filter(ColumnPreserving):
    child: Plan
    predicate: Expression


@dataclass(frozen=True, slots=True)
class GroupBy(Unary):
    """One row per group. Without keys, one row in all, also for an empty input."""

    child: Plan
    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))


@dataclass(frozen=True, slots=True)
class PartialGroupBy(Unary):
    """The part of a GROUP BY that needs no exchange: one row per group *and partition*, with a column of partial state per
    aggregate. Only below a `FinalGroupBy`, because its rows depend on the layout."""

    child: Plan
    keys: tuple[Column, ...]
    states: tuple[tuple[Column, AggregateCall], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.states))


@dataclass(frozen=True, slots=True)
class FinalGroupBy(Unary):
    """Merges the partial states of each group. `states` are the columns that hold them, in the order of `aggregates`."""

    child: Plan
    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]
    states: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))


@dataclass(frozen=True, slots=True)
class GroupingSets(Unary):
    """GROUPING SETS, ROLLUP and CUBE. The output has a new column per key, which is NULL in the sets without that key.
    Aggregates read the input columns."""

    child: Plan
    keys: tuple[tuple[Column, Column], ...]  # (output, input)
    sets: tuple[tuple[Column, ...], ...]  # of input columns
    aggregates: tuple[tuple[Column, AggregateCall], ...]  # grouping(k) and grouping_id() among them

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*(out for out, _ in self.keys), *(column for column, _ in self.aggregates))


@dataclass(frozen=True, slots=True)
class Expand(Unary):
    """Each row once per grouping set, with the set's number and the keys of that set. Other keys are NULL. A row for which
    `repeated` is not true comes once, in the first set."""

    child: Plan
    keys: tuple[tuple[Column, Column], ...]  # (output, input)
    sets: tuple[tuple[Column, ...], ...]  # of input columns; a set's position is its number
    number: Column
    repeated: Expression | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *(out for out, _ in self.keys), self.number)


@dataclass(frozen=True, slots=True)
class Distinct(ColumnPreserving):
    child: Plan


@dataclass(frozen=True, slots=True)
class Window(Unary):
    """The input's columns, and one more per window function."""

    child: Plan
    calls: tuple[tuple[Column, WindowCall], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *(column for column, _ in self.calls))


@dataclass(frozen=True, slots=True)
class Sort(ColumnPreserving):
    child: Plan
    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Limit(ColumnPreserving):
    child: Plan
    count: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PartialTopN(ColumnPreserving):
    """At most the first `count` rows of each partition. The first rows of the whole input are among them. Below a Limit."""

    child: Plan
    count: int
    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Join(Binary):
    """Without a condition, every pair of rows. `kept` are the output columns; None stands for all of them."""

    kind: JoinKind
    left: Plan
    right: Plan
    condition: Expression | None
    kept: tuple[Column, ...] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.made if self.kept is None else self.kept

    @property
    def made(self) -> tuple[Column, ...]:
        """All columns of the join, before any is dropped."""

        def nullable(columns: tuple[Column, ...], extended: bool) -> tuple[Column, ...]:
            return tuple(replace(c, nullable=True) for c in columns) if extended else columns

        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        return (
            *nullable(self.left.columns, self.kind.extends_left),
            *nullable(self.right.columns, self.kind.extends_right),
        )


class SetKind(Enum):
    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True, slots=True)
class SetOperation(Nary):
    """Input columns match by position; the output has new columns. Without `all`, NULLs are equal to each other. A UNION ALL
    has two or more inputs, any other operation two. Inputs that are pieces of another plan have that as
    `whole`: it has the same rows and columns, so its facts hold too."""

    kind: SetKind
    all: bool
    inputs: tuple[Plan, ...]
    columns: tuple[Column, ...]
    whole: Plan | None = field(default=None, compare=False, repr=False)
