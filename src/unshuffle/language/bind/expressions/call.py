"""Function calls: scalar functions, aggregates with their DISTINCT, FILTER and WITHIN GROUP, lambdas and windows."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.schema import DataType
from unshuffle.errors import NameProblem, Span, TypeProblem
from unshuffle.language.bind.expressions.macros import expanded
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Expression,
    Lambda,
    Literal,
    Opaque,
    OpaqueAggregate,
    Ref,
    Template,
    Variable,
    WindowCall,
    is_aggregate,
    walk,
)
from unshuffle.plan.functions import signatures
from unshuffle.plan.functions.aggregates import aggregate_facts
from unshuffle.plan.functions.signatures import Function, Kind
from unshuffle.plan.functions.windows import OFFSETS
from unshuffle.plan.logical import UserFunction
from unshuffle.plan.sql import to_sql

if TYPE_CHECKING:
    from unshuffle.language.bind.expressions.expression import ExpressionBinder

WITHOUT_PARENTHESES: dict[type[exp.Expr], tuple[str, DataType]] = {
    exp.CurrentDate: ("current_date", pa.date32()),
    exp.CurrentTimestamp: ("current_timestamp", pa.timestamp("us", tz="UTC")),
    exp.CurrentUser: ("current_user", pa.string()),
    exp.SessionUser: ("session_user", pa.string()),
}
# Functions whose first argument may be a unit such as DAY.
_DATE_UNITS = {"dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff"}
# SCOPE's names for functions of Spark that take their arguments in the other order.
_SWAPPED = {"argmax": "max_by", "argmin": "min_by"}
# Functions that are part of the syntax of GROUP BY.
_GROUPING_TIME = {"window", "session_window", "window_time"}
_NOT_EXPRESSIONS = (exp.Alias, exp.Kwarg, exp.Star, exp.Ordered, exp.Order, exp.PropertyEQ)


def transform(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return bind_call(binder, "transform", [node.this, node.expression], node)


def named_call(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if node.name.lower() in binder.query.macros:
        return binder.bind(expanded(binder.query, node))
    own = user_function(binder, node.name, node)
    if own is not None:
        return user_call(binder, own, node.name, list(node.expressions), node)
    return bind_call(binder, node.name, list(node.expressions), node)


def user_function(binder: ExpressionBinder, name: str, node: exp.Expr) -> UserFunction | None:
    """The function of the user's that a name without a module means. A function of Spark hides it."""
    if signatures.find(name) is not None or name.lower() in _SWAPPED:
        return None
    registered = binder.query.environment.function(name)
    return registered or binder.query.modules.unqualified_function(name, binder.query.name_span(node))


def user_call(
    binder: ExpressionBinder, function: UserFunction, name: str, arguments: list[exp.Expr], node: exp.Expr
) -> Expression:
    """A call of a function or an aggregate of the user's, by the name that the query has for it."""
    span = binder.query.name_span(node)
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    if any(isinstance(argument, (*_NOT_EXPRESSIONS, exp.Lambda)) for argument in arguments):
        raise TypeProblem(f"{name} takes values", binder.query.span(node), "pass columns or expressions of columns")
    if not arguments:
        raise TypeProblem(f"{name} needs at least one argument", span)
    _check_arguments(function, name, len(arguments), span)
    bound = tuple(_value_or_row(binder, argument) for argument in arguments)
    number = binder.query.modules.number(function)
    if not function.is_aggregate:
        if distinct:
            raise TypeProblem(f"DISTINCT has no meaning in {name}", binder.query.span(node))
        return Opaque(number, name, function, bound, function.returns, True, function.deterministic)
    if any(is_aggregate(argument) for argument in bound):
        message = f"{name} cannot take another aggregate as its argument"
        raise TypeProblem(message, binder.query.span(node), "aggregate in a sub-query first")
    opaque = OpaqueAggregate(number, function, keeps_object=True, is_python=True)
    return AggregateCall(name, bound, function.returns, distinct, deterministic=function.deterministic, opaque=opaque)


def _value_or_row(binder: ExpressionBinder, argument: exp.Expr) -> Expression:
    """A rowset's name in place of a column's stands for its whole row, a struct: `p(R)`."""
    if isinstance(argument, exp.Column) and not argument.table and binder.scope.has_qualifier(argument.name):
        is_column = binder.scope.find([argument.name], binder.query.span(argument)) is not None
        if not is_column and argument.name.lower() not in binder.aliases:
            visible = binder.scope.star(argument.name)
            parts = [part for each in visible for part in (Literal(each.name, pa.string()), Ref(each.column))]
            return Call("struct", tuple(parts), None)
    return binder.bind(argument)


def _check_arguments(function: UserFunction, name: str, count: int, span: Span) -> None:
    called = function.loaded
    if function.is_aggregate:
        form = called.form()
        called, count = getattr(called, form), count + (1 if form == "aggregate" else 2)  # self, and the state
    try:
        signature(called).bind(*[None] * count)
    except TypeError as error:
        raise TypeProblem(f"{name} cannot be called so: {error}", span) from None


def is_unrepeatable(expression: Expression) -> bool:
    """Does the expression call a function of the user's that must be called once, where the query says?"""
    return any(
        isinstance(part, Opaque) and isinstance(part.code, UserFunction) and not part.deterministic
        for part in walk(expression)
    )


def quantifier_call(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    """`any(condition)`, an aggregate. sqlglot reads the quantifier of `LIKE ANY (...)`, which never gets here."""
    argument = node.this.this if isinstance(node.this, exp.Paren) else node.this
    return bind_call(binder, "any", [argument], node)


def call_without_parentheses(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    name, result = WITHOUT_PARENTHESES[next(k for k in type(node).__mro__ if k in WITHOUT_PARENTHESES)]
    return Call(name, (), result)


def _function(binder: ExpressionBinder, name: str, node: exp.Expr) -> Function:
    function = signatures.find(name)
    if function is None and binder.query.environment.has_function(name):
        raise NotUnderstood(f"{name}, a function of the Spark session")
    if function is None:
        near = signatures.similar(name)
        hint = f"did you mean {' or '.join(near)}?" if near else "it is neither built into Spark nor registered"
        raise NameProblem(f"unknown function {name!r}", binder.query.name_span(node), hint)
    return function


def bind_call(
    binder: ExpressionBinder,
    name: str,
    arguments: list[exp.Expr],
    node: exp.Expr,
    ignore_nulls: bool = False,
    windowed: bool = False,
) -> Expression:
    """A call of a function by its name. `node` is the call in the query, for its place and its text."""
    if name.lower() in _SWAPPED and len(arguments) == 2 and not binder.query.environment.has_function(name):
        name, arguments = _SWAPPED[name.lower()], arguments[::-1]
    function = _function(binder, name, node)
    if function.name in _DATE_UNITS and len(arguments) == 3 and isinstance(arguments[0], exp.Column | exp.Var):
        return _with_unit(binder, function, arguments)
    _check_place(binder, function, node, windowed)
    arguments, distinct, skips_nulls = _without_modifiers(function, arguments)
    ignore_nulls = ignore_nulls or skips_nulls
    if any(isinstance(argument, _NOT_EXPRESSIONS) for argument in arguments):
        if function.kind is Kind.SCALAR:
            return binder.template(node)
        raise NotUnderstood(f"the arguments of {function.name}")
    if not function.arity.accepts(len(arguments)):
        message = f"{function.name} takes {function.arity} argument(s), but {len(arguments)} are given"
        raise TypeProblem(message, binder.query.name_span(node))
    if function.name == "struct":
        return struct(binder, arguments)
    bound = _arguments(binder, function, arguments)
    result = _result_type(function, bound)
    if function.kind is Kind.AGGREGATE:
        if any(is_aggregate(argument) for argument in bound) and not windowed:
            message = f"{function.name} cannot take another aggregate as its argument"
            raise TypeProblem(message, binder.query.span(node), "aggregate in a sub-query first")
        return AggregateCall(
            function.name, bound, result, distinct, ignore_nulls=ignore_nulls, deterministic=function.deterministic
        )
    if distinct:
        raise TypeProblem(f"DISTINCT has no meaning in {name}", binder.query.span(node))
    if ignore_nulls:
        raise NotUnderstood("IGNORE NULLS")
    return Call(function.name, bound, result, function.deterministic)


def _check_place(binder: ExpressionBinder, function: Function, node: exp.Expr, windowed: bool) -> None:
    if function.name in _GROUPING_TIME:
        raise NotUnderstood(f"{function.name}, which belongs in GROUP BY")
    if function.kind is Kind.TABLE:
        raise NotUnderstood(f"{function.name}, a function that yields rows")
    if function.kind is Kind.WINDOW and not windowed:
        raise TypeProblem(f"{function.name} needs an OVER clause", binder.query.span(node))


def _without_modifiers(function: Function, arguments: list[exp.Expr]) -> tuple[list[exp.Expr], bool, bool]:
    """The arguments without DISTINCT and IGNORE NULLS, and whether they had each."""
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    ignore_nulls = False
    if arguments and isinstance(arguments[-1], exp.IgnoreNulls | exp.RespectNulls):
        _check_nulls(function.name, arguments[-1])
        ignore_nulls = isinstance(arguments[-1], exp.IgnoreNulls)
        arguments = [*arguments[:-1], arguments[-1].this]
    if function.name == "count" and not distinct and any(isinstance(a, exp.Star) for a in arguments):
        arguments = [exp.Literal.number(1)]  # count(*) is count(1)
    return arguments, distinct, ignore_nulls


def _result_type(function: Function, arguments: tuple[Expression, ...]) -> DataType:
    result = function.result_type([argument.type for argument in arguments])
    match function.name, arguments:
        case "round" | "bround" | "ceil" | "ceiling" | "floor", (number, Literal(value=int(digits))):
            return result or signatures.rounded(number.type, digits)
    return result


def _check_nulls(name: str, node: exp.Expr) -> None:
    # These functions take NULLs for values by default. RESPECT NULLS of any other, such as a list, is left to Spark.
    by_default = name.lower() in OFFSETS or aggregate_facts(name.lower()).picks == "by_position"
    if isinstance(node, exp.RespectNulls) and not by_default:
        raise NotUnderstood(f"RESPECT NULLS of {name}")


def struct(binder: ExpressionBinder, values: list[exp.Expr], word: str = "struct") -> Expression:
    """The values of a struct, each after the name of its field: the name of the column in the query, or `col1`, `col2`, ...
    Spark calls an unnamed `struct(a, b)` so, and `(a, b)` after the `word` named_struct."""
    parts: list[Expression] = []
    for place, value in enumerate(values, 1):
        name = value.name if isinstance(value, exp.Column | exp.Dot) else f"col{place}"
        parts += [Literal(name, pa.string()), binder.bind(value)]
    return Call(word, tuple(parts), None)


def _with_unit(binder: ExpressionBinder, function: Function, arguments: list[exp.Expr]) -> Expression:
    """`dateadd(DAY, 1, d)`: the unit is a word of Spark's, not a column."""
    operands = tuple(binder.bind(a) for a in arguments[1:])
    name = "timestampdiff" if "diff" in function.name else "timestampadd"
    pieces = (f"{name}({arguments[0].name}, ", ", ", ")")
    return Template(pieces, operands, function.result_type([None, *(o.type for o in operands)]))


def _arguments(binder: ExpressionBinder, function: Function, arguments: list[exp.Expr]) -> tuple[Expression, ...]:
    """Binds the plain arguments first: the types of a lambda's parameters follow from them."""
    bound: list[Expression | None] = [None if isinstance(a, exp.Lambda) else binder.bind(a) for a in arguments]
    first = next((b for b in bound if b is not None), None)
    for i, argument in enumerate(arguments):
        if isinstance(argument, exp.Lambda):
            bound[i] = lambda_function(binder, argument, first)
    return tuple(b for b in bound if b is not None)


def lambda_function(binder: ExpressionBinder, node: exp.Lambda, container: Expression | None) -> Lambda:
    names = [e.name for e in node.expressions]
    types: list[DataType] = [None] * len(names)
    if container is not None and container.type is not None:
        if pa.types.is_list(container.type) and len(names) == 1:
            types = [container.type.value_type]
        elif pa.types.is_map(container.type) and len(names) == 2:
            types = [container.type.key_type, container.type.item_type]
    parameters = tuple(Variable(n, t) for n, t in zip(names, types, strict=True))
    inner = type(binder)(binder.query, binder.scope, binder.aliases, binder.windows, (*binder.variables, *parameters))
    return Lambda(parameters, inner.bind(_lambda_body(node)))


def filtered_call(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    call = binder.bind(node.this)
    if not isinstance(call, AggregateCall):
        raise TypeProblem("FILTER needs an aggregate function before it", binder.query.span(node))
    where = binder.predicate(node.expression.this, "FILTER")
    return replace(call, where=where)


def within_group(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    call_node = node.this
    function = _function(binder, call_node.name, call_node)
    distinct = bool(call_node.expressions) and isinstance(call_node.expressions[0], exp.Distinct)
    arguments = call_node.expressions[0].expressions if distinct else call_node.expressions
    bound = tuple(binder.bind(argument) for argument in arguments)
    within = binder.sort_keys(node.expression)
    types = [*(k.expression.type for k in within), *(a.type for a in bound)]
    result = function.result_type(types) if function.arity.accepts(len(types)) else None
    return AggregateCall(function.name, bound, result, distinct, None, within, False, function.deterministic)


def ignoring_nulls(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    if not isinstance(node.this, exp.Anonymous):
        raise NotUnderstood("IGNORE NULLS")
    _check_nulls(node.this.name, node)
    return bind_call(binder, node.this.name, list(node.this.expressions), node.this, isinstance(node, exp.IgnoreNulls))


def window_call(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    assert isinstance(node, exp.Window)
    call = _windowed_call(binder, node.this)
    specification = node
    if node.args.get("alias") is not None:
        name = node.args["alias"].name
        if name.lower() not in binder.windows:
            raise NameProblem(f"unknown window {name!r}", binder.query.span(node))
        specification = binder.windows[name.lower()]
        if node.args.get("partition_by") or node.args.get("order") or node.args.get("spec"):
            raise NotUnderstood("a window that extends another")
    partition = tuple(binder.bind(e) for e in specification.args.get("partition_by") or ())
    order = binder.sort_keys(specification.args.get("order"))
    return WindowCall(call, partition, order, _frame(binder, specification.args.get("spec")))


def _windowed_call(binder: ExpressionBinder, node: exp.Expr) -> AggregateCall | Call:
    ignore_nulls = False
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls, node = isinstance(node, exp.IgnoreNulls), node.this
    if isinstance(node, exp.Anonymous) and user_function(binder, node.name, node) is None:
        function = _function(binder, node.name, node)
        if function.kind is Kind.WINDOW and ignore_nulls:
            raise NotUnderstood("IGNORE NULLS in a window")
        call = bind_call(binder, node.name, list(node.expressions), node, ignore_nulls, windowed=True)
    else:
        call = binder.bind(node)
    if not isinstance(call, AggregateCall | Call):
        raise NotUnderstood("a window over something else than a function")
    return call


def _frame(binder: ExpressionBinder, spec: exp.Expr | None) -> str | None:
    if spec is None:
        return None
    if spec.args.get("exclude"):
        raise NotUnderstood("EXCLUDE in a window frame")

    def bound(value: object, side: object, default: str) -> str:
        if value is None:
            return default
        if isinstance(value, str):
            return f"{value.upper()} {str(side or '').upper()}".strip()
        assert isinstance(value, exp.Expr)
        expression = binder.bind(value)
        return f"{to_sql(expression, lambda column: column.name)} {str(side).upper()}"

    start = bound(spec.args.get("start"), spec.args.get("start_side"), "UNBOUNDED PRECEDING")
    end = bound(spec.args.get("end"), spec.args.get("end_side"), "CURRENT ROW")
    return f"{str(spec.args['kind']).upper()} BETWEEN {start} AND {end}"


def _lambda_body(node: exp.Lambda) -> exp.Expr:
    """sqlglot turns a lambda's parameters inside its body into bare identifiers; we want columns."""
    body = node.this.copy()

    def column(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Identifier) and not isinstance(part.parent, exp.Column | exp.Dot | exp.Alias):
            return exp.Column(this=part.copy())
        if isinstance(part, exp.Dot) and isinstance(part.this, exp.Identifier):
            return exp.Column(this=part.expression.copy(), table=part.this.copy())
        return part

    return body.transform(column) if not isinstance(body, exp.Identifier) else exp.Column(this=body)
