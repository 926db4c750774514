"""PROCESS, REDUCE and COMBINE: user-defined operators over one rowset or two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import spark_name
from unshuffle.errors import Span, SyntaxProblem, TypeProblem
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.queries.query import QueryBinder
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.statements.columns import declared_type, find_column, keep_columns, sort_keys
from unshuffle.language.bind.statements.using import bind_user_class
from unshuffle.language.parse import statements
from unshuffle.language.parse.statements import ColumnSpec, InputRowset, Name
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Combine, Plan, Process, Reduce

BinderAt = Callable[[Span], QueryBinder]  # binds the queries of a statement at a place in it


def bind_input(binder_at: BinderAt, node: InputRowset) -> tuple[Plan, Scope]:
    """The rowset that a statement reads, and the names of its columns."""
    return binder_at(node.span).relation(node.table)


def bind_process(context: BindingContext, binder_at: BinderAt, node: statements.ProcessBody) -> Plan:
    plan, _ = bind_input(binder_at, node.input)
    user_class = bind_user_class(context, node.produces.using, "processor")
    readonly = [find_column(name, plan.columns) for name in node.produces.readonly]
    plan = _with_required_columns(plan, node.produces.required, readonly)
    columns = _produced_columns(context, node.produces.columns, plan.columns)
    return Process(plan, user_class, columns, _readonly_pairs(node.produces.readonly, columns, plan.columns))


def bind_reduce(context: BindingContext, binder_at: BinderAt, node: statements.ReduceBody) -> Plan:
    plan, _ = bind_input(binder_at, node.input)
    user_class = bind_user_class(context, node.produces.using, "reducer")
    keys = tuple(find_column(name, plan.columns) for name in node.on)
    presort = sort_keys(node.presort, plan.columns)
    readonly = [find_column(name, plan.columns) for name in node.produces.readonly]
    sort_columns = [k.expression.column for k in presort if isinstance(k.expression, Ref)]
    plan = _with_required_columns(plan, node.produces.required, [*keys, *sort_columns, *readonly])
    columns = _produced_columns(context, node.produces.columns, plan.columns)
    pairs = _readonly_pairs(node.produces.readonly, columns, plan.columns)
    return Reduce(plan, keys, presort, user_class, columns, pairs)


def bind_combine(context: BindingContext, binder_at: BinderAt, node: statements.CombineBody) -> Plan:
    left, left_scope = bind_input(binder_at, node.left)
    right, right_scope = bind_input(binder_at, node.right)
    left_keys, right_keys = _combine_keys(binder_at(node.on_span), node, left_scope, right_scope)
    user_class = bind_user_class(context, node.produces.using, "combiner")
    required = node.produces.required
    if required is not None:
        both = (*left.columns, *right.columns)
        for name in required:
            if not any(c.name.lower() == name.text.lower() for c in both):
                raise Scope.of(both, None).unknown([name.text], name.span)
        names = {name.text.lower() for name in (*required, *node.produces.readonly)}
        left = keep_columns(left, [c for c in left.columns if c.name.lower() in names or c in left_keys])
        right = keep_columns(right, [c for c in right.columns if c.name.lower() in names or c in right_keys])
    columns = _produced_columns(context, node.produces.columns, (*left.columns, *right.columns))
    # Where both inputs have a read-only column, the left one's is meant. If it is a key, the two are equal.
    left_names = {c.name.lower() for c in left.columns}
    inputs = (*left.columns, *(c for c in right.columns if c.name.lower() not in left_names))
    pairs = _readonly_pairs(node.produces.readonly, columns, inputs)
    return Combine(left, right, left_keys, right_keys, user_class, columns, pairs)


def _combine_keys(
    binder: QueryBinder, node: statements.CombineBody, left: Scope, right: Scope
) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """The pairs of columns in `a.x == b.x && a.y == b.y`."""
    equalities = node.on.flatten() if isinstance(node.on, exp.And) else [node.on]
    pairs = [_key_pair(binder, equality.unnest(), left, right) for equality in equalities]
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _key_pair(binder: QueryBinder, equality: exp.Expr, left: Scope, right: Scope) -> tuple[Column, Column]:
    operands = [equality.this, equality.expression] if isinstance(equality, exp.EQ) else []
    if not operands or not all(isinstance(operand, exp.Column) for operand in operands):
        hint = "write e.g. ON a.x == b.x && a.y == b.y"
        raise SyntaxProblem("COMBINE ON takes equalities of columns", binder.span(equality), hint)
    by_side: dict[str, Column] = {}
    for operand in operands:
        parts = [part.name for part in operand.parts]
        match = (left + right).find(parts, binder.span(operand))
        if match is None:
            raise (left + right).unknown(parts, binder.span(operand))
        by_side["left" if match.column in left.columns() else "right"] = match.column
    if len(by_side) != 2:
        raise SyntaxProblem("each equality must compare a column of each rowset", binder.span(equality))
    one, other = by_side["left"], by_side["right"]
    if one.type is not None and one.type != other.type:
        message = f"COMBINE compares {spark_name(one.type)} and {spark_name(other.type)}"
        raise TypeProblem(message, binder.span(equality), "cast one of them in a SELECT before")
    return one, other


def _with_required_columns(plan: Plan, required: Sequence[Name] | None, also: Sequence[Column]) -> Plan:
    """REQUIRED: the operator sees only these columns and the ones that it is keyed or sorted on or passes on."""
    if required is None:
        return plan
    seen = {find_column(name, plan.columns) for name in required} | set(also)
    return keep_columns(plan, [c for c in plan.columns if c in seen])


def _produced_columns(
    context: BindingContext, specs: Sequence[ColumnSpec], inputs: Sequence[Column]
) -> tuple[Column, ...]:
    """The columns of PRODUCE. One without a type has the type of the input column of its name."""
    columns = []
    for spec in specs:
        type = declared_type(spec)
        if type is None:
            same_name = [c for c in inputs if c.name.lower() == spec.name.text.lower()]
            if len({c.type for c in same_name}) != 1 or same_name[0].type is None:
                message = f"PRODUCE does not say the type of {spec.name.text!r}"
                raise TypeProblem(message, spec.name.span, f"write {spec.name.text}:string, or another type")
            type = same_name[0].type
        columns.append(context.numbers.new(spec.name.text, type))
    return tuple(columns)


def _readonly_pairs(
    names: Sequence[Name], produced: Sequence[Column], inputs: Sequence[Column]
) -> tuple[tuple[Column, Column], ...]:
    """READONLY: pairs of an output column and the input column whose values it has."""
    pairs = []
    for name in names:
        output, column = find_column(name, produced), find_column(name, inputs)
        if column.type is not None and output.type != column.type:
            types = f"{spark_name(column.type)} in the input, but PRODUCE says {spark_name(output.type)}"
            raise TypeProblem(f"READONLY {name.text!r} is {types}", name.span)
        pairs.append((output, column))
    return tuple(pairs)
