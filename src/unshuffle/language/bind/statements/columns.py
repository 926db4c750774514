"""Columns that a statement names: looked up in a rowset, typed, sorted by, declared as keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import NameProblem, TypeProblem
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.user_modules import UserModules
from unshuffle.language.parse.statements import ColumnSpec, Depends, Name, SortColumn, Text, Using
from unshuffle.plan.expressions import Ref, SortKey
from unshuffle.plan.logical import Plan, Project


def find_column(name: Name, columns: Sequence[Column]) -> Column:
    """The one column of that name; names compare without case."""
    matches = [c for c in columns if c.name.lower() == name.text.lower()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NameProblem(f"the column name {name.text!r} is ambiguous", name.span, "rename one of them in a SELECT")
    raise Scope.of(columns, None).unknown([name.text], name.span)


def declared_type(spec: ColumnSpec, modules: UserModules) -> pa.DataType | None:
    """The type in `name:type`, if there is one."""
    return None if spec.type is None else type_named(spec.type, modules)


def type_named(text: Text, modules: UserModules) -> pa.DataType:
    """A type by its name: Spark's, SCOPE's or the user's. Values of every type may be NULL, so `int?` is `int`."""
    name = text.value.replace("?", "").strip()
    try:
        return from_spark_name(name)
    except ValueError as error:
        own = modules.type(name, text.span) if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name) else None
        if own is None:
            raise TypeProblem(str(error), text.span) from None
        return own


def produced_type(produces: Mapping[str, str], name: Name, using: Using | None) -> pa.DataType | None:
    """The type that a class says a column has, if it does."""
    found = next((type for column, type in produces.items() if column.lower() == name.text.lower()), None)
    if found is None or using is None:
        return None
    try:
        return from_spark_name(found)
    except ValueError as error:
        raise TypeProblem(f"{using.name}.produces() gives {name.text!r} an unknown type: {error}", using.span) from None


def sort_keys(orders: Sequence[SortColumn], columns: Sequence[Column]) -> tuple[SortKey, ...]:
    """NULLs come first in an ascending order and last in a descending one, as in Spark."""
    return tuple(SortKey(Ref(find_column(o.column, columns)), o.descending, not o.descending) for o in orders)


def constraints(
    keys: Sequence[Sequence[Name]], depends: Sequence[Depends], columns: Sequence[Column]
) -> tuple[tuple[Key, ...], tuple[Dependency, ...]]:
    """The columns of `KEY (...)` and `DEPENDS (... -> ...)` clauses."""

    def columns_named(names: Sequence[Name]) -> frozenset[Column]:
        return frozenset(find_column(name, columns) for name in names)

    return (
        tuple(columns_named(names) for names in keys),
        tuple(Dependency(columns_named(d.left), columns_named(d.right)) for d in depends),
    )


def keep_columns(plan: Plan, kept: Sequence[Column]) -> Plan:
    """A projection to some columns, unless they are all there is."""
    if tuple(kept) == tuple(plan.columns):
        return plan
    return Project(plan, tuple((column, Ref(column)) for column in kept))
