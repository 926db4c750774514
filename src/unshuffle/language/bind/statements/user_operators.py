"""PROCESS and REDUCE: user-defined operators over one rowset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import spark_name
from unshuffle.errors import Span, SyntaxProblem, TypeProblem
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.queries.query import QueryBinder
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.statements.columns import (
    declared_type,
    find_column,
    keep_columns,
    produced_type,
    sort_keys,
)
from unshuffle.language.bind.statements.using import bind_operator
from unshuffle.language.parse import statements
from unshuffle.language.parse.statements import ColumnSpec, InputRowset, Name, Produces
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Plan, Process, Reduce

BinderAt = Callable[[Span], QueryBinder]  # binds the queries of a statement at a place in it


def bind_input(binder_at: BinderAt, node: InputRowset) -> tuple[Plan, Scope]:
    """The rowset that a statement reads, and the names of its columns."""
    return binder_at(node.span).relation(node.table)


def bind_process(context: BindingContext, binder_at: BinderAt, node: statements.ProcessBody) -> Plan:
    plan, _ = bind_input(binder_at, node.input)
    user_class, produces = bind_operator(context, node.produces.using, "processor")
    readonly = [find_column(name, plan.columns) for name in node.produces.readonly]
    plan = with_required_columns(plan, node.produces.required, readonly)
    columns = produced_columns(context, node.produces, produces, plan.columns)
    return Process(plan, user_class, columns, readonly_pairs(node.produces.readonly, columns, plan.columns))


def bind_reduce(context: BindingContext, binder_at: BinderAt, node: statements.ReduceBody) -> Plan:
    plan, _ = bind_input(binder_at, node.input)
    user_class, produces = bind_operator(context, node.produces.using, "reducer")
    keys = tuple(find_column(name, plan.columns) for name in node.on)
    presort = sort_keys(node.presort, plan.columns)
    readonly = [find_column(name, plan.columns) for name in node.produces.readonly]
    sort_columns = [k.expression.column for k in presort if isinstance(k.expression, Ref)]
    plan = with_required_columns(plan, node.produces.required, [*keys, *sort_columns, *readonly])
    columns = produced_columns(context, node.produces, produces, plan.columns)
    pairs = readonly_pairs(node.produces.readonly, columns, plan.columns)
    return Reduce(plan, keys, presort, user_class, columns, pairs)


def with_required_columns(plan: Plan, required: Sequence[Name] | None, also: Sequence[Column]) -> Plan:
    """REQUIRED: the operator sees only these columns and the ones that it is keyed or sorted on or passes on."""
    if required is None:
        return plan
    seen = {find_column(name, plan.columns) for name in required} | set(also)
    return keep_columns(plan, [c for c in plan.columns if c in seen])


def produced_columns(
    context: BindingContext, node: Produces, produces: Mapping[str, str], inputs: Sequence[Column]
) -> tuple[Column, ...]:
    """The columns of PRODUCE, or else those that the class says it makes. One without a type has the type that the class
    says, or else that of the input column of its name."""
    specs = node.columns or tuple(ColumnSpec(Name(name, node.using.span)) for name in produces)
    if not specs:
        hint = "write e.g. PRODUCE word:string, n:int, or give the class a method produces()"
        raise SyntaxProblem(f"PRODUCE with the columns that {node.using.name} makes is missing", node.using.span, hint)
    columns = []
    for spec in specs:
        type = declared_type(spec, context.modules) or produced_type(produces, spec.name, node.using)
        if type is None:
            same_name = [c for c in inputs if c.name.lower() == spec.name.text.lower()]
            if len({c.type for c in same_name}) != 1 or same_name[0].type is None:
                message = f"PRODUCE does not say the type of {spec.name.text!r}"
                raise TypeProblem(message, spec.name.span, f"write {spec.name.text}:string, or another type")
            type = same_name[0].type
        columns.append(context.numbers.new(spec.name.text, type))
    return tuple(columns)


def readonly_pairs(
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
