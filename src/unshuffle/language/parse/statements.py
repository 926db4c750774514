"""Parsed statements, before any name is looked up.

Queries stay sqlglot trees. Everything else in a statement is here, with its place in the source.
"""

from __future__ import annotations

from sqlglot import exp

from unshuffle.errors import Span
from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """A name as written."""

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
class SortColumn:
    """`name`, `name ASC` or `name DESC`."""

    column: Name
    descending: bool


@dataclass(frozen=True, slots=True)
class InputRowset:
    """A rowset by name, or a query in parentheses."""

    table: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class PartSpec:
    """`"path" WHERE condition`."""

    path: Text
    condition: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class ExtractBody:
    """`EXTRACT columns FROM "path" [USING format] [KEY (...)] [DEPENDS (...)] [PARTITIONED BY (...)]`."""

    columns: tuple[ColumnSpec, ...]
    path: Text
    using: Using | None
    keys: tuple[tuple[Name, ...], ...]
    depends: tuple[Depends, ...]
    parts: tuple[PartSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectBody:
    """A query."""

    query: exp.Expr


@dataclass(frozen=True, slots=True)
class Produces:
    """`[PRODUCE columns] [READONLY columns] [REQUIRED columns] USING class`, after PROCESS, REDUCE or COMBINE."""

    columns: tuple[ColumnSpec, ...] | None
    readonly: tuple[Name, ...]
    required: tuple[Name, ...] | None
    using: Using


@dataclass(frozen=True, slots=True)
class ProcessBody:
    """`PROCESS rowset PRODUCE ...`."""

    input: InputRowset
    produces: Produces


@dataclass(frozen=True, slots=True)
class ReduceBody:
    """`REDUCE rowset ON columns [PRESORT columns] PRODUCE ...`."""

    input: InputRowset
    on: tuple[Name, ...]
    presort: tuple[SortColumn, ...]
    produces: Produces


@dataclass(frozen=True, slots=True)
class QualifiedSortColumn:
    """`name`, or `rowset.name`, of one of several rowsets."""

    names: tuple[str, ...]
    descending: bool
    span: Span


@dataclass(frozen=True, slots=True)
class CombineBody:
    """`COMBINE a WITH b [WITH c ...] ON condition [PRESORT columns] PRODUCE ...`."""

    inputs: tuple[InputRowset, ...]
    on: exp.Expr
    on_span: Span
    presort: tuple[QualifiedSortColumn, ...]
    produces: Produces


Body = ExtractBody | SelectBody | ProcessBody | ReduceBody | CombineBody


@dataclass(frozen=True, slots=True)
class Assign:
    """`name = body`."""

    name: Name
    body: Body
    span: Span


@dataclass(frozen=True, slots=True)
class ViewParameter:
    """`name type [= default]`."""

    name: Name
    type: Text
    default: Argument | None


@dataclass(frozen=True, slots=True)
class View:
    """`VIEW name [(parameters)] AS body`."""

    name: Name
    parameters: tuple[ViewParameter, ...]
    body: Body
    span: Span


@dataclass(frozen=True, slots=True)
class OutputStatement:
    """`OUTPUT [rowset] TO "path" [USING format] [OVERWRITE]`. Without a rowset, the one before it is meant."""

    input: InputRowset | None
    path: Text
    using: Using | None
    overwrite: bool
    span: Span


@dataclass(frozen=True, slots=True)
class OutputStreamStatement:
    """`OUTPUT r TO SSTREAM "x.ss" [HASH | RANGE] CLUSTERED BY ... [SORTED BY ...] [INTO n] [REFERENCE "y.ss"]`."""

    input: InputRowset | None
    path: Text
    range_partitioned: bool
    clustered_by: tuple[SortColumn, ...]
    sorted_by: tuple[SortColumn, ...]
    partitions: int | None
    reference: Text | None
    keys: tuple[tuple[Name, ...], ...]
    depends: tuple[Depends, ...]
    overwrite: bool
    span: Span


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """A query on its own, as in a .sql file."""

    query: exp.Expr
    span: Span


Statement = Assign | View | OutputStatement | OutputStreamStatement | QueryStatement
