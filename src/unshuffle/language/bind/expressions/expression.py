"""From sqlglot's expressions to ours: names become columns, operators and functions get types.

This file holds the binder, names, and the table of rules, one for each kind of sqlglot node. An expression that means nothing
to an optimizer (an interval, a collation, `struct(a AS x)`) becomes a `Template`: Spark's text around bound operands. One
that cannot be a `Template` either raises `NotUnderstood`, and Spark runs the query around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from unshuffle.catalog.types import spark_name
from unshuffle.errors import NameProblem, Span, TypeProblem
from unshuffle.frozen import dataclass
from unshuffle.language.bind.environment import Environment
from unshuffle.language.bind.expressions import literals, members, operators, own_syntax, predicates
from unshuffle.language.bind.expressions.call import (
    WITHOUT_PARENTHESES,
    call_without_parentheses,
    filtered_call,
    ignoring_nulls,
    named_call,
    quantifier_call,
    transform,
    window_call,
    within_group,
)
from unshuffle.language.bind.queries.scope import Scope
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.language.bind.user_modules import UserModules
from unshuffle.language.parse.dialect import AmbiguousPipes, Pipes, ScopeDialect
from unshuffle.language.parse.parameters import Parameters
from unshuffle.language.parse.preprocess import Macro
from unshuffle.plan.expressions import (
    Expression,
    Field,
    Ref,
    SortKey,
    Template,
    Variable,
)
from unshuffle.plan.logical import Plan

BOOLEAN = pa.bool_()


class QueryContext(Protocol):
    """What an expression needs of the query around it."""

    environment: Environment
    parameters: Parameters
    modules: UserModules
    macros: Mapping[str, Macro]

    def span(self, node: exp.Expr) -> Span: ...

    def name_span(self, node: exp.Expr) -> Span: ...

    def subquery(self, query: exp.Expr, outer: Scope) -> Plan: ...


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
        return self.template(node)

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
        if isinstance(node.this, exp.Filter):
            return self.bind(members.filter_of_qualified(node))
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
        if parts[-1].lower() == "grouping__id":
            raise NotUnderstood("grouping__id")
        raise self.scope.unknown(parts, span)

    def _word(self, node: exp.Expr) -> Expression:
        """ORDER BY ALL where a column has that name."""
        if node.name.upper() != "ALL" or not isinstance(node.parent, exp.Ordered):
            return self.template(node)
        return self._column(exp.column(exp.to_identifier(node.name)))

    def _fields(self, operand: Expression, fields: tuple[str, ...], node: exp.Expr) -> Expression:
        for name in fields:
            operand = self._member(operand, name, node)
        return operand

    def _field(self, operand: Expression, name: str, node: exp.Expr) -> Expression:
        type = operand.type
        if type is None or pa.types.is_list(type) or pa.types.is_map(type):
            return Field(operand, name, None)
        if not pa.types.is_struct(type):
            message = f"this has no field {name!r}: it is of type {spark_name(type)}"
            raise NameProblem(message, self.query.span(node))
        by_name = {type.field(i).name.lower(): type.field(i).type for i in range(type.num_fields)}
        if name.lower() not in by_name:
            known = ", ".join(type.field(i).name for i in range(type.num_fields))
            raise NameProblem(f"unknown field {name!r}", self.query.span(node), f"its fields are: {known}")
        return Field(operand, name, by_name[name.lower()])

    def _dot(self, node: exp.Expr) -> Expression:
        if isinstance(node.expression, exp.Identifier):
            operand = self.bind(node.this)
            return self._member(operand, node.expression.name, node)
        if not isinstance(node.expression, exp.Anonymous):
            raise NotUnderstood("a function with a qualified name")
        return members.qualified_call(self, node)

    def _member(self, operand: Expression, name: str, node: exp.Expr) -> Expression:
        """A field of a struct, or a property such as `.Length`."""
        made = members.bound_property(self, operand, name, node)
        return made if made is not None else self._field(operand, name, node)

    # --- anything else

    def template(self, node: exp.Expr) -> Template:
        """Spark's text for a node, around its bound operands. sqlglot's generator writes the text."""
        if isinstance(node, exp.Query | exp.Star | exp.Alias | exp.Aliases | exp.Placeholder):
            raise NotUnderstood(f"{node.key} inside an expression")
        copied = node.copy()
        operands: list[Expression] = []

        def fill(part: exp.Expr) -> None:
            for child in list(part.iter_expressions()):
                if isinstance(child, _BINDABLE):
                    # Copied nodes keep their positions, so errors inside still point to the source.
                    operands.append(self.bind(child.copy()))
                    child.replace(exp.Var(this=f"\x01{len(operands) - 1}\x01"))
                else:
                    fill(child)

        fill(copied)
        text = copied.sql(dialect=ScopeDialect, normalize_functions=False)
        pieces = re.split("\x01(\\d+)\x01", text)
        ordered = tuple(operands[int(i)] for i in pieces[1::2])
        return Template(tuple(pieces[0::2]), ordered, None)


_BINDABLE = (
    exp.Column,
    exp.Anonymous,
    exp.Dot,
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


def _parentheses(binder: ExpressionBinder, node: exp.Expr) -> Expression:
    return binder.bind(node.this)


_Rule = Callable[[ExpressionBinder, exp.Expr], Expression]
_RULES: dict[type, _Rule] = {
    **dict.fromkeys(operators.BINARY, operators.binary),
    **dict.fromkeys(WITHOUT_PARENTHESES, call_without_parentheses),
    exp.Like: predicates.like,
    exp.ILike: predicates.like,
    Pipes: operators.pipes,
    AmbiguousPipes: operators.ambiguous_pipes,
    exp.Column: ExpressionBinder._column,
    exp.Var: ExpressionBinder._word,
    exp.Any: quantifier_call,
    exp.Dot: ExpressionBinder._dot,
    exp.Literal: literals.literal,
    exp.Parameter: literals.parameter,
    exp.Null: literals.null,
    exp.Boolean: literals.boolean,
    exp.HexString: literals.hex_bytes,
    exp.Paren: _parentheses,
    exp.Neg: operators.negative,
    exp.Not: operators.not_,
    exp.BitwiseNot: operators.bitwise_not,
    exp.Is: predicates.is_,
    exp.NullSafeNEQ: predicates.distinct_from,
    exp.Between: predicates.between,
    exp.In: predicates.in_,
    exp.Escape: predicates.escape,
    exp.Case: predicates.case,
    exp.If: predicates.if_,
    exp.Cast: literals.cast,
    exp.Bracket: own_syntax.bracket,
    exp.Extract: own_syntax.extract,
    exp.Interval: own_syntax.interval,
    exp.Tuple: own_syntax.tuple_,
    exp.Substring: own_syntax.substring,
    exp.Trim: own_syntax.trim,
    exp.Transform: transform,
    exp.StrPosition: own_syntax.position,
    exp.Anonymous: named_call,
    exp.Filter: filtered_call,
    exp.WithinGroup: within_group,
    exp.IgnoreNulls: ignoring_nulls,
    exp.RespectNulls: ignoring_nulls,
    exp.Window: window_call,
    exp.Subquery: predicates.scalar_subquery,
    exp.Exists: predicates.exists,
}
