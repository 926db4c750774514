"""What a script says, statement by statement, before any name is looked up.

Queries inside a statement stay sqlglot trees; everything a statement adds around them is here, with the place in the
source it came from.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from unshuffle.errors import Span


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted string."""

    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """`name` or `name:type`."""

    name: Name
    type: Text | None = None


@dataclass(frozen=True, slots=True)
class Depends:
    """`a, b -> c`."""

    left: tuple[Name, ...]
    right: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a user-defined or built-in operator: a constant, by position or by name."""

    name: str | None
    value: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Using:
    """`USING module.Class(args)`."""

    name: str
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Order:
    column: Name
    descending: bool


@dataclass(frozen=True, slots=True)
class Input:
    """A rowset by name, or a query in parentheses."""

    table: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class Extract:
    columns: tuple[ColumnSpec, ...]
    path: Text
    using: Using
    keys: tuple[tuple[Name, ...], ...]
    depends: tuple[Depends, ...]


@dataclass(frozen=True, slots=True)
class Select:
    query: exp.Expr


@dataclass(frozen=True, slots=True)
class Produces:
    """What PROCESS, REDUCE and COMBINE have in common."""

    columns: tuple[ColumnSpec, ...]
    readonly: tuple[Name, ...]
    required: tuple[Name, ...] | None
    using: Using


@dataclass(frozen=True, slots=True)
class Process:
    input: Input
    produces: Produces


@dataclass(frozen=True, slots=True)
class Reduce:
    input: Input
    on: tuple[Name, ...]
    presort: tuple[Order, ...]
    produces: Produces


@dataclass(frozen=True, slots=True)
class Combine:
    left: Input
    right: Input
    on: exp.Expr
    on_span: Span
    produces: Produces


Body = Extract | Select | Process | Reduce | Combine


@dataclass(frozen=True, slots=True)
class Assign:
    name: Name
    body: Body
    span: Span


@dataclass(frozen=True, slots=True)
class View:
    name: Name
    body: Body
    span: Span


@dataclass(frozen=True, slots=True)
class Output:
    input: Input
    path: Text
    using: Using | None
    overwrite: bool
    span: Span


@dataclass(frozen=True, slots=True)
class OutputStream:
    """`OUTPUT r TO SSTREAM "x.ss" [HASH | RANGE] CLUSTERED BY ... [SORTED BY ...] [INTO n] [REFERENCE "y.ss"]`."""

    input: Input
    path: Text
    range_partitioned: bool
    clustered_by: tuple[Order, ...]
    sorted_by: tuple[Order, ...]
    partitions: int | None
    reference: Text | None
    keys: tuple[tuple[Name, ...], ...]
    depends: tuple[Depends, ...]
    overwrite: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Query:
    """A query that stands alone, in a .sql file."""

    query: exp.Expr
    span: Span


Statement = Assign | View | Output | OutputStream | Query
