"""COMBINE: user code over the rows of several rowsets that have the same key.

Spark groups two rowsets together. More than two, or rows in an order, are one rowset of all rows: their keys, the number of
the rowset that each comes from, and the columns of every rowset, NULL in the rows of the others. One REDUCE over it sees each
key once, with its rows in the order of the rowsets and, in each, of PRESORT.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import spark_name
from unshuffle.errors import NameProblem, SyntaxProblem, TypeProblem
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.queries.query import QueryBinder
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.statements.columns import keep_columns
from unshuffle.language.bind.statements.user_operators import (
    BinderAt,
    bind_input,
    produced_columns,
    readonly_pairs,
)
from unshuffle.language.bind.statements.using import bind_operator
from unshuffle.language.parse import statements
from unshuffle.language.parse.statements import QualifiedSortColumn
from unshuffle.plan.expressions import Expression, Literal, Ref, SortKey
from unshuffle.plan.logical import Combine, Plan, Project, Reduce, SetKind, SetOperation

Keys = tuple[Column, ...]  # the column of each input


def bind_combine(context: BindingContext, binder_at: BinderAt, node: statements.CombineBody) -> Plan:
    bound = [bind_input(binder_at, each) for each in node.inputs]
    inputs, scopes = [plan for plan, _ in bound], [scope for _, scope in bound]
    keys = _keys(binder_at(node.on_span), node, scopes)
    presort = [_presorted(each, scopes) for each in node.presort]
    user_class, produces = bind_operator(context, node.produces.using, "combiner")
    inputs = _with_required_columns(node, inputs, keys, [column for _, column in presort])
    columns = produced_columns(context, node.produces, produces, [c for plan in inputs for c in plan.columns])
    # Where several inputs have a read-only column, the first one's is meant. If it is a key, they are equal.
    first: dict[str, Column] = {}
    for column in (c for plan in inputs for c in plan.columns):
        first.setdefault(column.name.lower(), column)
    if len(inputs) == 2 and not presort:
        pairs = readonly_pairs(node.produces.readonly, columns, list(first.values()))
        left, right = inputs
        return Combine(left, right, tuple(a for a, _ in keys), tuple(b for _, b in keys), user_class, columns, pairs)
    union, made_keys, number, made = _together(context, inputs, keys)
    pairs = readonly_pairs(node.produces.readonly, columns, _readable(first, keys, made_keys, made))
    number_first = SortKey(Ref(number))
    order = (number_first, *(SortKey(Ref(made[c]), o.descending, not o.descending) for o, c in presort))
    parts = tuple(tuple(column.name for column in plan.columns) for plan in inputs)
    return Reduce(union, made_keys, order, user_class, columns, pairs, parts)


def _together(
    context: BindingContext, inputs: Sequence[Plan], keys: Sequence[Keys]
) -> tuple[Plan, Keys, Column, dict[Column, Column]]:
    """All rows as one rowset: its keys, the number of the input of each row, and the columns that the inputs' became."""
    numbers = context.numbers
    made_keys = tuple(numbers.like(key[0], nullable=True) for key in keys)
    number = numbers.new("input", pa.int32(), False)
    made = {column: numbers.like(column, nullable=True) for plan in inputs for column in plan.columns}
    branches: list[Plan] = []
    for place, plan in enumerate(inputs):
        values: list[Expression] = [Ref(key[place]) for key in keys]
        values.append(Literal(place, pa.int32()))
        own = set(plan.columns)
        values += (Ref(c) if c in own else Literal(None, c.type) for c in made)
        branches.append(Project(plan, tuple((numbers.new(_name(value), value.type), value) for value in values)))
    union = SetOperation(SetKind.UNION, True, tuple(branches), (*made_keys, number, *made.values()))
    return union, made_keys, number, made


def _name(value: Expression) -> str:
    return value.column.name if isinstance(value, Ref) else "value"


def _readable(
    first: dict[str, Column], keys: Sequence[Keys], made_keys: Keys, made: dict[Column, Column]
) -> list[Column]:
    """The columns that READONLY may name. A key is that of the group, which every row has."""
    of_group = {column: group for key, group in zip(keys, made_keys, strict=True) for column in key}
    return list(dict.fromkeys(of_group.get(column, made[column]) for column in first.values()))


def _presorted(node: QualifiedSortColumn, scopes: Sequence[Scope]) -> tuple[QualifiedSortColumn, Column]:
    found = [match.column for scope in scopes if (match := scope.find(node.names, node.span)) and not match.fields]
    if len(found) > 1:
        raise NameProblem(f"several rowsets have a column {node.names[-1]!r}", node.span, "write rowset.column")
    if not found:
        everything = Scope(tuple(entry for scope in scopes for entry in scope.entries))
        raise everything.unknown(node.names, node.span)
    return node, found[0]


def _with_required_columns(
    node: statements.CombineBody, inputs: Sequence[Plan], keys: Sequence[Keys], presort: Sequence[Column]
) -> list[Plan]:
    required = node.produces.required
    if required is None:
        return list(inputs)
    everything = [column for plan in inputs for column in plan.columns]
    for name in required:
        if not any(c.name.lower() == name.text.lower() for c in everything):
            raise Scope.of(everything, None).unknown([name.text], name.span)
    names = {name.text.lower() for name in (*required, *node.produces.readonly)}
    kept = {*(column for key in keys for column in key), *presort}
    return [keep_columns(p, [c for c in p.columns if c.name.lower() in names or c in kept]) for p in inputs]


def _keys(binder: QueryBinder, node: statements.CombineBody, scopes: Sequence[Scope]) -> list[Keys]:
    """The columns of each key, one of every input, in `a.x == b.x && b.x == c.x && a.y == b.y && b.y == c.y`."""
    equalities = node.on.flatten() if isinstance(node.on, exp.And) else [node.on]
    pairs = [_key_pair(binder, equality.unnest(), scopes) for equality in equalities]
    keys: list[dict[int, Column]] = []
    for one, other in pairs:
        joined = [key for key in keys if any(key.get(place) == column for place, column in (one, other))]
        merged = dict((one, other))
        for key in joined:
            for place, column in key.items():
                if merged.setdefault(place, column) != column:
                    message = f"{merged[place].name!r} and {column.name!r} of one rowset cannot be one key"
                    raise SyntaxProblem(message, node.on_span, "compare them in a WHERE before")
        keys = [key for key in keys if all(key is not each for each in joined)] + [merged]
    for key in keys:
        if len(key) < len(scopes):
            missing = next(place for place in range(len(scopes)) if place not in key)
            names = " and ".join(repr(column.name) for column in key.values())
            raise SyntaxProblem(
                f"the key of {names} has no column of the {_ORDINALS[min(missing, 4)]} rowset",
                node.on_span,
                "write e.g. ON a.x == b.x && b.x == c.x",
            )
    return [tuple(key[place] for place in range(len(scopes))) for key in keys]


_ORDINALS = ("first", "second", "third", "fourth", "last")


def _key_pair(
    binder: QueryBinder, equality: exp.Expr, scopes: Sequence[Scope]
) -> tuple[tuple[int, Column], tuple[int, Column]]:
    operands = [equality.this, equality.expression] if isinstance(equality, exp.EQ) else []
    if not operands or not all(isinstance(operand, exp.Column) for operand in operands):
        hint = "write e.g. ON a.x == b.x && a.y == b.y"
        raise SyntaxProblem("COMBINE ON takes equalities of columns", binder.span(equality), hint)
    together = Scope(tuple(entry for scope in scopes for entry in scope.entries))
    sides: list[tuple[int, Column]] = []
    for operand in operands:
        parts = [part.name for part in operand.parts]
        match = together.find(parts, binder.span(operand))
        if match is None:
            raise together.unknown(parts, binder.span(operand))
        place = next(place for place, scope in enumerate(scopes) if match.column in scope.columns())
        sides.append((place, match.column))
    (one, first), (other, second) = sorted(sides, key=lambda side: side[0])
    if one == other:
        rowset = "rowset" if len(scopes) == 2 else "different rowset"
        raise SyntaxProblem(f"each equality must compare a column of each {rowset}", binder.span(equality))
    if first.type is not None and first.type != second.type:
        message = f"COMBINE compares {spark_name(first.type)} and {spark_name(second.type)}"
        raise TypeProblem(message, binder.span(equality), "cast one of them in a SELECT before")
    return (one, first), (other, second)
