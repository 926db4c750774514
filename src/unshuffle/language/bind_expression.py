"""From sqlglot's expressions to ours: names become columns, operators and functions get their types.

What has no meaning of its own for an optimizer (an interval, a collation, `struct(a AS x)`) becomes a `Template`: Spark's
own text around operands that are bound. What cannot even be that raises `NotUnderstood`, and the query around it is left
to Spark whole.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from unshuffle.algebra.expressions import (
    Call,
    Case,
    Cast,
    Exists,
    Expression,
    Field,
    InSubquery,
    Literal,
    Ref,
    ScalarSubquery,
    SortKey,
    Template,
    Variable,
    connect,
)
from unshuffle.algebra.logical import Plan, outer_columns
from unshuffle.algebra.sql import string_literal
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import arithmetic_type, common_type, from_spark_name, is_decimal, literal_type, spark_name
from unshuffle.errors import NameProblem, Span, TypeProblem
from unshuffle.language.bind_call import (
    WITHOUT_PARENTHESES,
    bind_call,
    call_without_parentheses,
    filtered_call,
    ignoring_nulls,
    named_call,
    struct,
    transform,
    window_call,
    within_group,
)
from unshuffle.language.dialect import AmbiguousPipes, Pipes
from unshuffle.language.dialect import Scope as ScopeDialect
from unshuffle.language.environment import Environment
from unshuffle.language.not_understood import NotUnderstood
from unshuffle.language.parameters import Parameters
from unshuffle.language.scope import Scope

BOOLEAN = pa.bool_()


class QueryContext(Protocol):
    """What an expression needs of the query it stands in."""

    environment: Environment
    parameters: Parameters

    def span(self, node: exp.Expr) -> Span: ...

    def name_span(self, node: exp.Expr) -> Span: ...

    def subquery(self, query: exp.Expr, outer: Scope) -> Plan: ...


_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.RegexpLike: "rlike",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.DPipe: "||",
}
_ARITHMETIC = {"+", "-", "*", "/", "%", "div"}
_BITWISE = {"&", "|", "^"}
_IS = {True: "is true", False: "is false"}


@dataclass(slots=True)
class ExpressionBinder:
    """Binds the expressions of one clause of one query."""

    query: QueryContext
    scope: Scope
    aliases: Mapping[str, Expression] = field(default_factory=dict)  # earlier items of the same SELECT list
    windows: Mapping[str, exp.Window] = field(default_factory=dict)  # the WINDOW clause
    variables: tuple[Variable, ...] = ()

    def bind(self, node: exp.Expr) -> Expression:
        for kind in type(node).__mro__:
            rule = _RULES.get(kind)
            if rule is not None:
                return rule(self, node)
        return self._template(node)

    def predicate(self, node: exp.Expr, clause: str) -> Expression:
        bound = self.bind(node)
        if bound.type is not None and bound.type not in (BOOLEAN, pa.null()):
            message = f"{clause} needs a condition, but this is of type {spark_name(bound.type)}"
            raise TypeProblem(message, self.query.span(node))
        return bound

    def sort_keys(self, order: exp.Expr | None) -> tuple[SortKey, ...]:
        return tuple(self.sort_key(o, self.bind(o.this)) for o in order.expressions) if order else ()

    @staticmethod
    def sort_key(ordered: exp.Expr, expression: Expression) -> SortKey:
        descending = bool(ordered.args.get("desc"))
        nulls_first = ordered.args.get("nulls_first")
        return SortKey(expression, descending, not descending if nulls_first is None else bool(nulls_first))

    # --- names

    def _column(self, node: exp.Expr) -> Expression:
        parts = [part.name for part in node.parts]  # type: ignore[attr-defined]
        if len(parts) == 1:
            for variable in reversed(self.variables):
                if variable.name.lower() == parts[0].lower():
                    return variable
        elif self.variables and any(v.name.lower() == parts[0].lower() for v in self.variables):
            variable = next(v for v in reversed(self.variables) if v.name.lower() == parts[0].lower())
            return self._fields(variable, tuple(parts[1:]), node)
        span = self.query.span(node)
        found = self.scope.find(parts, span)
        if found and (not found.outer or parts[0].lower() not in self.aliases):
            return self._fields(Ref(found.column), found.fields, node)
        if parts[0].lower() in self.aliases:
            # A SELECT item may use the alias of an item before it.
            return self._fields(self.aliases[parts[0].lower()], tuple(parts[1:]), node)
        raise self.scope.unknown(parts, span)

    def _fields(self, operand: Expression, fields: tuple[str, ...], node: exp.Expr) -> Expression:
        for name in fields:
            operand = self._field(operand, name, node)
        return operand

    def _field(self, operand: Expression, name: str, node: exp.Expr) -> Expression:
        type = operand.type
        if type is None or pa.types.is_list(type) or pa.types.is_map(type):
            return Field(operand, name, None)
        if not pa.types.is_struct(type):
            message = f"{name!r} is no field of this: it is of type {spark_name(type)}"
            raise NameProblem(message, self.query.span(node))
        by_name = {type.field(i).name.lower(): type.field(i).type for i in range(type.num_fields)}
        if name.lower() not in by_name:
            known = ", ".join(type.field(i).name for i in range(type.num_fields))
            raise NameProblem(f"unknown field {name!r}", self.query.span(node), f"its fields are: {known}")
        return Field(operand, name, by_name[name.lower()])

    def _dot(self, node: exp.Expr) -> Expression:
        if not isinstance(node.expression, exp.Identifier):
            raise NotUnderstood("a function with a qualified name")
        return self._field(self.bind(node.this), node.expression.name, node)

    # --- values

    def _literal(self, node: exp.Expr) -> Expression:
        if node.args.get("is_string"):
            return Literal(node.name, pa.string())
        return self._number(node.name)

    @staticmethod
    def _number(text: str, sign: int = 1) -> Expression:
        if re.fullmatch(r"\d+", text):
            value = sign * int(text)
            if -(2**63) <= value < 2**63:
                return Literal(value, pa.int32() if -(2**31) <= value < 2**31 else pa.int64())
            if len(text) > 38:
                raise NotUnderstood("a number of more than 38 digits")
            return Literal(decimal.Decimal(value), pa.decimal128(len(text.lstrip("0")), 0))
        if re.search(r"[eE]", text):
            return Literal(sign * float(text), pa.float64())
        exact = decimal.Decimal(text)
        digits, scale = len(exact.as_tuple().digits), max(0, -int(exact.as_tuple().exponent))
        if max(digits, scale) > 38:
            raise NotUnderstood("a decimal literal of more than 38 digits")
        return Literal(sign * exact, pa.decimal128(max(digits, scale), scale))

    def _parameter(self, node: exp.Expr) -> Expression:
        constant = self.query.parameters.get(node.name, self.query.span(node))
        return Literal(constant.value, constant.type)

    # --- operators

    def _binary(self, node: exp.Expr) -> Expression:
        operator = _BINARY[type(node)]
        # Left-deep chains (a AND b AND c ...) run to thousands of terms in generated queries: no recursion on the left.
        chain: list[exp.Expr] = []
        while type(node) in _BINARY and _BINARY[type(node)] == operator and isinstance(node, exp.Binary):
            chain.append(node)
            node = node.this
        if operator in ("and", "or"):
            nodes = [node, *(link.expression for link in reversed(chain))]
            return connect("and" if operator == "and" else "or", [self._condition(operator, n) for n in nodes])
        left = self.bind(node)
        for link in reversed(chain):
            left = self._operation(operator, left, self.bind(link.expression))
        return left

    def _condition(self, operator: str, node: exp.Expr) -> Expression:
        bound = self.bind(node)
        # A string is cast to a boolean, as Spark does.
        if bound.type is not None and bound.type not in (BOOLEAN, pa.null(), pa.string()):
            message = f"{operator.upper()} needs conditions, but this is of type {spark_name(bound.type)}"
            raise TypeProblem(message, self.query.span(node))
        return bound

    def _operation(self, operator: str, left: Expression, right: Expression) -> Expression:
        if operator in _ARITHMETIC:
            type = arithmetic_type(operator, _beside(left, right), _beside(right, left))
        elif operator in _BITWISE:
            type = common_type(left.type, right.type)
        elif operator in ("<<", ">>"):
            type = left.type
        elif operator == "||":
            type = self._concatenation_type(left.type, right.type)
        else:
            type = BOOLEAN
        return Call(operator, (left, right), type)

    @staticmethod
    def _concatenation_type(left: DataType, right: DataType) -> DataType:
        if left is None or right is None:
            return None
        if pa.types.is_list(left) or pa.types.is_list(right):
            return common_type(left, right)
        return pa.binary() if pa.types.is_binary(left) and pa.types.is_binary(right) else pa.string()

    def _pipes(self, node: exp.Expr) -> Expression:
        """`||` is OR between conditions, and concatenation between anything else."""
        parts = [self.bind(part) for part in node.expressions]
        if all(part.type == BOOLEAN for part in parts):
            return connect("or", parts)
        return reduce(lambda left, right: self._operation("||", left, right), parts)

    def _ambiguous_pipes(self, node: exp.Expr) -> Expression:
        try:
            parts = [self.bind(part) for part in node.expression.flatten(unnest=False)]
        except TypeProblem:
            parts = []
        if parts and all(part.type == BOOLEAN for part in parts):
            return connect("or", parts)
        return self.bind(node.this)

    def _negative(self, node: exp.Expr) -> Expression:
        if isinstance(node.this, exp.Literal) and not node.this.args.get("is_string"):
            return self._number(node.this.name, -1)
        operand = self.bind(node.this)
        return Call("negative", (operand,), operand.type)

    def _not(self, node: exp.Expr) -> Expression:
        operand = self.bind(node.this)
        if isinstance(operand, Call) and operand.function == "isnull":
            return Call("isnotnull", operand.arguments, BOOLEAN)
        return Call("not", (operand,), BOOLEAN)

    def _bitwise_not(self, node: exp.Expr) -> Expression:
        operand = self.bind(node.this)
        return Call("~", (operand,), operand.type)

    def _is(self, node: exp.Expr) -> Expression:
        operand = self.bind(node.this)
        if isinstance(node.expression, exp.Null):
            return Call("isnull", (operand,), BOOLEAN)
        if isinstance(node.expression, exp.Boolean):
            return Call(_IS[bool(node.expression.this)], (operand,), BOOLEAN)
        return self._template(node)

    def _distinct_from(self, node: exp.Expr) -> Expression:
        return Call("not", (Call("<=>", (self.bind(node.this), self.bind(node.expression)), BOOLEAN),), BOOLEAN)

    def _between(self, node: exp.Expr) -> Expression:
        if node.args.get("symmetric"):
            raise NotUnderstood("BETWEEN SYMMETRIC")
        parts = (self.bind(node.this), self.bind(node.args["low"]), self.bind(node.args["high"]))
        return Call("between", parts, BOOLEAN)

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("unnest") or node.args.get("field"):
            raise NotUnderstood("IN over something else than a list or a query")
        if query := node.args.get("query"):
            needle = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            plan = self.query.subquery(query, self.scope)
            operands = tuple(self.bind(part) for part in needle)
            if len(plan.columns) != len(operands):
                message = f"IN compares {len(operands)} value(s) with a query of {len(plan.columns)} columns"
                raise TypeProblem(message, self.query.span(node))
            return InSubquery(operands, plan, outer_columns(plan))
        return Call("in", (self.bind(node.this), *(self.bind(e) for e in node.expressions)), BOOLEAN)

    def _escape(self, node: exp.Expr) -> Expression:
        like = self.bind(node.this)
        if not isinstance(like, Call) or like.function not in ("like", "ilike"):
            return self._template(node)
        return Call(like.function, (*like.arguments, self.bind(node.expression)), BOOLEAN)

    def _like(self, node: exp.Expr) -> Expression:
        if isinstance(node.expression, exp.Any | exp.All) or node.args.get("negate"):
            return self._template(node)
        return self._binary(node)

    def _case(self, node: exp.Expr) -> Expression:
        operand = self.bind(node.this) if node.this else None
        branches: list[tuple[Expression, Expression]] = []
        for when in node.args["ifs"]:
            if operand is None:
                condition = self.predicate(when.this, "WHEN")
            else:
                condition = Call("=", (operand, self.bind(when.this)), BOOLEAN)
            branches.append((condition, self.bind(when.args["true"])))
        default = node.args.get("default")
        otherwise = self.bind(default) if default is not None else None
        values = [value for _, value in branches] + ([otherwise] if otherwise is not None else [])
        return Case(tuple(branches), otherwise, reduce(common_type, (v.type for v in values)))

    def _if(self, node: exp.Expr) -> Expression:
        condition = self.predicate(node.this, "IF")
        then = self.bind(node.args["true"])
        otherwise = self.bind(node.args["false"]) if node.args.get("false") else Literal(None, pa.null())
        return Call("if", (condition, then, otherwise), common_type(then.type, otherwise.type))

    def _cast(self, node: exp.Expr) -> Expression:
        if node.args.get("format"):
            return self._template(node)
        text = node.args["to"].sql(dialect=ScopeDialect)
        if node.args.get("is_literal"):
            return self._typed_literal(text, node)
        try:
            type = from_spark_name(text)
        except ValueError as error:
            raise TypeProblem(str(error), self.query.span(node)) from None
        operand = self.bind(node.this)
        return Cast(operand, type, safe=isinstance(node, exp.TryCast))

    def _typed_literal(self, type: str, node: exp.Expr) -> Expression:
        """`DATE '2024-01-31'`. What a TIMESTAMP's text means is for the session's time zone to say."""
        if type.upper() == "DATE" and re.fullmatch(r"\d{4}-\d{2}-\d{2}", node.this.name):
            try:
                return Literal(datetime.date.fromisoformat(node.this.name), pa.date32())
            except ValueError:
                raise TypeProblem(f"{node.this.name!r} is not a day of the calendar", self.query.span(node)) from None
        try:
            result: DataType = from_spark_name(type)
        except ValueError as error:
            raise TypeProblem(str(error), self.query.span(node)) from None
        return Template((f"{type.upper()} {string_literal(node.this.name)}",), (), result)

    def _bracket(self, node: exp.Expr) -> Expression:
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            return self._template(node)
        container, index = self.bind(node.this), self.bind(node.expressions[0])
        type: DataType = None
        if container.type is not None and pa.types.is_list(container.type):
            type = container.type.value_type
        elif container.type is not None and pa.types.is_map(container.type):
            type = container.type.item_type
        return Call("[]", (container, index), type)

    def _extract(self, node: exp.Expr) -> Expression:
        unit = node.this.name.lower()  # sqlglot keeps it in capitals; most people write it in small letters
        type = pa.decimal128(8, 6) if unit.upper() in ("SECOND", "SECONDS", "S", "SEC", "SECS") else pa.int32()
        return Template((f"extract({unit} FROM ", ")"), (self.bind(node.expression),), type)

    def _interval(self, node: exp.Expr) -> Expression:
        unit = node.args.get("unit")
        words = unit.sql(dialect=ScopeDialect).upper().split() if unit is not None else []
        type: DataType = None
        if words:
            first, last = words[0].rstrip("S"), words[-1].rstrip("S")
            if {first, last} <= {"YEAR", "MONTH", "QUARTER"}:
                type = pa.month_day_nano_interval()
            elif {first, last} <= {"DAY", "HOUR", "MINUTE", "SECOND", "WEEK", "MILLISECOND", "MICROSECOND"}:
                type = pa.duration("us")
        value = node.this
        if isinstance(value, exp.Literal) or value is None:
            return Template((node.sql(dialect=ScopeDialect),), (), type)
        return Template(("INTERVAL (", f") {' '.join(words)}"), (self.bind(value),), type)

    def _tuple(self, node: exp.Expr) -> Expression:
        return struct(self, node.expressions, "named_struct")

    def _substring(self, node: exp.Expr) -> Expression:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        return bind_call(self, "substring", [part for part in parts if part is not None], node)

    def _trim(self, node: exp.Expr) -> Expression:
        where = str(node.args.get("position") or "").upper()
        if node.args.get("collation"):
            return self._template(node)
        if not where and not node.expression:
            return bind_call(self, "trim", [node.this], node)
        characters = (self.bind(node.expression),) if node.expression else ()
        pieces = (f"TRIM({where or 'BOTH'} ", " FROM ", ")") if characters else (f"TRIM({where} FROM ", ")")
        return Template(pieces, (*characters, self.bind(node.this)), pa.string())

    def _position(self, node: exp.Expr) -> Expression:
        arguments = [node.args["substr"], node.this, node.args.get("position") or exp.Literal.number(1)]
        return bind_call(self, "locate", arguments, node)

    # --- subqueries

    def _scalar_subquery(self, node: exp.Expr) -> Expression:
        plan = self.query.subquery(node, self.scope)
        if len(plan.columns) != 1:
            message = f"a query used as a value must have one column, but this has {len(plan.columns)}"
            raise TypeProblem(message, self.query.span(node))
        return ScalarSubquery(plan, outer_columns(plan))

    def _exists(self, node: exp.Expr) -> Expression:
        plan = self.query.subquery(node.this, self.scope)
        return Exists(plan, outer_columns(plan))

    # --- anything else

    def _template(self, node: exp.Expr) -> Template:
        """Spark's text for a node, around its operands. sqlglot's generator writes the text; we bind the operands."""
        if isinstance(node, exp.Query | exp.Star | exp.Alias | exp.Aliases | exp.Placeholder):
            raise NotUnderstood(f"{node.key} inside an expression")
        copied = node.copy()
        operands: list[Expression] = []

        def fill(part: exp.Expr) -> None:
            for child in list(part.iter_expressions()):
                if isinstance(child, _BINDABLE):
                    # Positions are on the copy's nodes too, so errors inside still point to the source.
                    operands.append(self.bind(child.copy()))
                    child.replace(exp.Var(this=f"\x01{len(operands) - 1}\x01"))
                else:
                    fill(child)

        fill(copied)
        text = copied.sql(dialect=ScopeDialect, normalize_functions=False)
        pieces = re.split("\x01(\\d+)\x01", text)
        ordered = tuple(operands[int(i)] for i in pieces[1::2])
        return Template(tuple(pieces[0::2]), ordered, None)


def _beside(operand: Expression, other: Expression) -> DataType:
    """The type of an operand of arithmetic: an integer literal beside a decimal counts by its digits."""
    if isinstance(operand, Literal) and type(operand.value) is int and is_decimal(other.type):
        return literal_type(operand.value)
    return operand.type


_BINDABLE = (
    exp.Column,
    exp.Anonymous,
    exp.Binary,
    exp.Paren,
    exp.Cast,
    exp.Case,
    exp.If,
    exp.Neg,
    exp.Not,
    exp.Window,
    exp.Subquery,
    exp.Parameter,
    Pipes,
    AmbiguousPipes,
    exp.Bracket,
    exp.Extract,
    exp.Substring,
    exp.Exists,
    exp.In,
    exp.Between,
    exp.Boolean,
)


def _null(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return Literal(None, pa.null())


def _boolean(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return Literal(bool(node.this), BOOLEAN)


def _hex(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    digits = node.name
    return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), pa.binary())


def _parentheses(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return binder.bind(node.this)


_Rule = Callable[[ExpressionBinder, exp.Expr], Expression]
_RULES: dict[type, _Rule] = {
    **dict.fromkeys(_BINARY, ExpressionBinder._binary),
    **dict.fromkeys(WITHOUT_PARENTHESES, call_without_parentheses),
    exp.Like: ExpressionBinder._like,
    exp.ILike: ExpressionBinder._like,
    Pipes: ExpressionBinder._pipes,
    AmbiguousPipes: ExpressionBinder._ambiguous_pipes,
    exp.Column: ExpressionBinder._column,
    exp.Dot: ExpressionBinder._dot,
    exp.Literal: ExpressionBinder._literal,
    exp.Parameter: ExpressionBinder._parameter,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.HexString: _hex,
    exp.Paren: _parentheses,
    exp.Neg: ExpressionBinder._negative,
    exp.Not: ExpressionBinder._not,
    exp.BitwiseNot: ExpressionBinder._bitwise_not,
    exp.Is: ExpressionBinder._is,
    exp.NullSafeNEQ: ExpressionBinder._distinct_from,
    exp.Between: ExpressionBinder._between,
    exp.In: ExpressionBinder._in,
    exp.Escape: ExpressionBinder._escape,
    exp.Case: ExpressionBinder._case,
    exp.If: ExpressionBinder._if,
    exp.Cast: ExpressionBinder._cast,
    exp.Bracket: ExpressionBinder._bracket,
    exp.Extract: ExpressionBinder._extract,
    exp.Interval: ExpressionBinder._interval,
    exp.Tuple: ExpressionBinder._tuple,
    exp.Substring: ExpressionBinder._substring,
    exp.Trim: ExpressionBinder._trim,
    exp.Transform: transform,
    exp.StrPosition: ExpressionBinder._position,
    exp.Anonymous: named_call,
    exp.Filter: filtered_call,
    exp.WithinGroup: within_group,
    exp.IgnoreNulls: ignoring_nulls,
    exp.RespectNulls: ignoring_nulls,
    exp.Window: window_call,
    exp.Subquery: ExpressionBinder._scalar_subquery,
    exp.Exists: ExpressionBinder._exists,
}
