"""Conditions on parts of a table: `PARTITIONED BY ("orders/2024" WHERE day >= '2024-01-01', ...)`, and from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from sqlglot import exp

from unshuffle.catalog import files
from unshuffle.catalog.constraints.constraint import DeclaredPartitions, PartCondition
from unshuffle.catalog.schema import Column
from unshuffle.errors import DeclarationProblem, FileProblem, InternalError, Source, Span, SyntaxProblem
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.expressions.expression import ExpressionBinder
from unshuffle.language.bind.queries.query import QueryBinder
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.language.bind.statements.paths import substitute
from unshuffle.language.parse.parser import parse_expression
from unshuffle.language.parse.statements import PartSpec, Text
from unshuffle.plan.expressions import Expression, columns_of, has_window, is_aggregate
from unshuffle.plan.logical import Format, Project, Scan, TableScan
from unshuffle.plan.predicates import is_deterministic
from unshuffle.plan.sql import quote, to_sql


def parts_from_python(conditions: object) -> tuple[PartSpec, ...]:
    """The arguments of `Session.declare_partitions`, parsed."""
    if not isinstance(conditions, Mapping):
        raise DeclarationProblem(
            f"the conditions are a {type(conditions).__name__}, not a mapping",
            hint="""write e.g. {"orders/2024": "day >= '2024-01-01'"}""",
        )
    if not conditions:
        raise DeclarationProblem("no condition is declared: the mapping is empty", hint="name at least one part")
    return tuple(_part_from_python(path, condition) for path, condition in conditions.items())


def _part_from_python(path: object, condition: object) -> PartSpec:
    if not isinstance(path, str | Path) or not isinstance(condition, str):
        kinds = f"{type(path).__name__} and {type(condition).__name__}"
        raise DeclarationProblem(f"a part and its condition are {kinds}, not a path and a text")
    source = Source(f"<condition of {str(path)!r}>", condition)
    where = Source("<part>", str(path)).span(0, len(str(path)))
    # In Python a path is written without parameters; @@ is a plain @.
    text = Text(str(path).replace("@", "@@"), where)
    return PartSpec(text, parse_expression(source, 0, len(condition)), source.span(0, len(condition)))


def bind_parts(
    context: BindingContext, specs: Sequence[PartSpec], rowset: Scan | Project | TableScan, label: str
) -> DeclaredPartitions:
    """The conditions, in terms of the rowset's columns."""
    scan = rowset.child if isinstance(rowset, Project) else rowset
    if not isinstance(scan, Scan) or scan.stream is not None or not _is_parquet(scan):
        hint = "declare them on Parquet files, or on a table that reads such files as they are"
        raise DeclarationProblem(f"{label!r} has no parts that conditions can be declared on", specs[0].span, hint)
    if scan.files.base is None and any(file.partition for file in files.data_files(scan.files.paths)):
        hint = "declare them on the folder that has all the folders column=value"
        raise DeclarationProblem(
            f"{label!r} has columns in folder names, but no folder of its own", specs[0].span, hint
        )
    parts = tuple(_bound_part(context, spec, rowset.columns, scan, label) for spec in specs)
    read = {column.name for part in parts if part.expression is not None for column in columns_of(part.expression)}
    return DeclaredPartitions(parts, tuple(sorted(read)))


def _bound_part(
    context: BindingContext, spec: PartSpec, columns: Sequence[Column], scan: Scan, label: str
) -> PartCondition:
    path = _part_path(substitute(spec.path, context.parameters), scan, label, spec.path.span)
    condition = _bound_condition(context, spec, columns)
    return PartCondition(path, to_sql(condition, _name), condition)


def _part_path(path: str, scan: Scan, label: str, span: Span) -> str:
    """The absolute path of a file or folder of a table, as the user would open it, or from the table's own folder."""
    roots = [files.absolute(each) for each in scan.files.paths]
    folders = [folder for root in roots for folder in (root, os.path.dirname(root))]
    is_relative = not path.startswith("/") and not files.is_uri(path)
    candidates = [path, *(f"{folder}/{path}" for folder in folders if is_relative)]
    existing = [files.absolute(each) for each in candidates if files.expand(each) == [each]]
    for each in existing:
        if any(each == root or each.startswith(root + "/") for root in roots):
            return each
    if existing:
        raise FileProblem(f"{path!r} is not a part of {label!r}", span, f"its files are in {roots[0]!r}")
    hint = f"a part is a file or folder in {roots[0]!r}"
    raise FileProblem(f"there is no file or folder {path!r}", span, hint)


def _bound_condition(context: BindingContext, spec: PartSpec, columns: Sequence[Column]) -> Expression:
    query, node = _query_without_tables(context, spec.span), spec.condition

    def refused(what: str) -> SyntaxProblem:
        hint = "a condition compares columns of the table, row by row"
        return SyntaxProblem(f"a condition on a part cannot have {what}", query.span(node), hint)

    if node.find(exp.Query) is not None:
        raise refused("a subquery")
    try:
        bound = ExpressionBinder(query, Scope.of(columns, None)).predicate(node, "a part")
    except NotUnderstood as reason:
        raise refused(str(reason)) from None
    if is_aggregate(bound) or has_window(bound):
        raise refused("an aggregate or window function")
    if not is_deterministic(bound):
        raise refused("a function that is not deterministic")
    if not columns_of(bound):
        raise SyntaxProblem("a condition on a part must read a column", query.span(node))
    return bound


def _query_without_tables(context: BindingContext, span: Span) -> QueryBinder:
    """What a condition needs of a query: there are no rowsets to name, because there are no subqueries."""

    def no_rowset(*_: object) -> NoReturn:
        raise InternalError("a condition on a part names a rowset")

    environment = context.environment
    return QueryBinder(
        span.source,
        span,
        context.numbers,
        context.parameters,
        environment,
        no_rowset,
        no_rowset,
        no_rowset,
        context.modules,
        no_rowset,
        no_rowset,
    )


def _name(column: Column) -> str:
    return column.name if column.name.isidentifier() else quote(column.name)


def _is_parquet(scan: Scan) -> bool:
    return isinstance(scan.files.format, Format) and scan.files.format.name == "Parquet"
