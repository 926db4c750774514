"""Catalyst's expressions as ours.

A class is mapped only if the SQL text of our expression makes Spark produce the very same expression under the session's
settings. So arithmetic and casts must have the session's ANSI mode and time zone, which Catalyst stores in each of them: a
view keeps those it was created under. Everything else is `Opaque`: Spark's own expression, with holes for the columns that
it reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import field, replace

import pyarrow as pa
from pyspark.sql import SparkSession

from unshuffle.catalog.schema import DataType
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Expression, Opaque, SortKey
from unshuffle.plan.logical import Plan
from unshuffle.spark.reader.catalyst_tree import AttributeScope, CatalystNode
from unshuffle.spark.reader.expressions import aggregates, calls, constants, references
from unshuffle.spark.shims.catalyst import OpaqueCode
from unshuffle.spark.shims.plan_tree import are_same_expressions
from unshuffle.spark.shims.session_conf import session_conf


@dataclass
class ParserSettings:
    """The settings that decide what a SQL text means; the expressions of a plan must agree with them."""

    mode: str
    precision_loss: bool
    time_zone: str
    has_plain_strings: bool  # a backslash in a literal is not an escape

    @classmethod
    def of(cls, spark: SparkSession) -> ParserSettings:
        conf = session_conf(spark)
        return cls("ANSI" if conf.ansi else "LEGACY", conf.precision_loss, conf.time_zone, conf.plain_strings)


@dataclass
class ExpressionReader:
    """Reads the expressions of one DataFrame. `subquery` gives the plan of a subquery inside given scopes."""

    spark: SparkSession
    subquery: Callable[[CatalystNode, Sequence[AttributeScope]], Plan]
    _opaque: list[tuple[str, Opaque]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = ParserSettings.of(self.spark)

    def read(self, node: CatalystNode, scopes: Sequence[AttributeScope]) -> Expression:
        """An expression. The last scope is that of the operator, those before it belong to the queries around."""
        return ScopedReader(self, scopes).read(node)

    def sort_keys(self, nodes: Sequence[CatalystNode], scopes: Sequence[AttributeScope]) -> tuple[SortKey, ...]:
        return tuple(
            SortKey(
                self.read(each.children[0], scopes),
                each.object("direction") == "Descending",
                each.object("nullOrdering") == "NullsFirst",
            )
            for each in nodes
        )

    def interned(self, shape: str, opaque: Opaque) -> Opaque:
        """The expression with a number that equal expressions share. Catalyst decides what is equal: JSON does not
        distinguish two functions of one name."""
        for other_shape, other in self._opaque:
            is_similar = opaque.deterministic and other_shape == shape and other.arguments == opaque.arguments
            if is_similar and are_same_expressions(other.code.expression, opaque.code.expression):
                return other
        numbered = replace(opaque, number=len(self._opaque) + 1)
        self._opaque.append((shape, numbered))
        return numbered


@dataclass
class ScopedReader:
    """Reads expressions inside given scopes."""

    reader: ExpressionReader
    scopes: Sequence[AttributeScope]
    common: Expression | None = None  # the value of the WITH expression around

    def read(self, node: CatalystNode) -> Expression:
        if node.kind != "Literal" and _is_constant(node) and (folded := constants.folded(self, node)) is not None:
            return folded
        rule = _RULES.get(node.kind) if node.is_sparks_own else None
        expression = rule(self, node) if rule is not None else None
        return expression if expression is not None else self._by_spark(node)

    def children(self, node: CatalystNode) -> tuple[Expression, ...]:
        return tuple(map(self.read, node.children))

    def _by_spark(self, node: CatalystNode) -> Expression:
        if len(node.children) == 1 and "replacement" in node.fields:
            # Spark's optimizer begins by replacing such a function by the expression that is its only child.
            return self.read(node.children[0])
        return self.opaque(node)

    def opaque(self, node: CatalystNode) -> Opaque:
        """An expression that only Spark computes, of arguments that we read."""
        holes: dict[str, CatalystNode] = {}
        ends = _HOLES if self.common is None else (*_HOLES, "CommonExpressionRef")
        shape = _shape(node, holes, tuple(kind for kind in ends if kind != node.kind))
        arguments = tuple(map(self.read, holes.values()))
        code = OpaqueCode(node.java, tuple(hole.java for hole in holes.values()))
        opaque = Opaque(0, node.name, code, arguments, node.result_type, node.is_nullable, node.is_deterministic)
        return self.reader.interned(shape, opaque)

    def can_name(self, type: DataType) -> bool:
        """Whether the name of a type means that type. Not for nested types: elements may be not null."""
        return type is not None and not pa.types.is_nested(type)

    def has_session_mode(self, node: CatalystNode) -> bool:
        """Whether arithmetic overflows as the session's settings say."""
        settings = self.reader.settings
        if "evalContext" in node.fields:
            loss = str(settings.precision_loss).lower()
            return node.omitted("evalContext") == f"NumericEvalContext({settings.mode},{loss})"
        return node.omitted("evalMode") == settings.mode


_SUBQUERIES = ("ScalarSubquery", "Exists", "InSubquery")
# The parts of an opaque expression that are its arguments: they are read as expressions of ours.
_HOLES = (*_SUBQUERIES, "AttributeReference", "OuterReference", "AggregateExpression", "WindowExpression")

_Rule = Callable[[ScopedReader, CatalystNode], Expression | None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(calls.CALLS, calls.call),
    **dict.fromkeys(calls.ARITHMETIC, calls.arithmetic),
    **dict.fromkeys(_SUBQUERIES, references.subquery),
    "AttributeReference": references.attribute,
    "OuterReference": references.outer,
    "Literal": constants.literal,
    "Alias": lambda reader, node: reader.read(node.children[0]),
    "And": calls.connected,
    "Or": calls.connected,
    "Not": calls.negation,
    "Like": calls.like,
    "Coalesce": calls.coalesce,
    "If": calls.if_,
    "CaseWhen": calls.case,
    "GetStructField": calls.struct_field,
    "UnaryMinus": calls.sign,
    "Abs": calls.sign,
    "Cast": calls.cast,
    "With": references.with_,
    "CommonExpressionRef": lambda reader, node: reader.common,
    "AggregateExpression": aggregates.aggregate,
    "WindowExpression": aggregates.window,
}


def _is_constant(node: CatalystNode) -> bool:
    return all(each.kind == "Literal" or (each.children and each.kind not in _HOLES) for each in node.walk())


def _shape(node: CatalystNode, holes: dict[str, CatalystNode], ends: tuple[str, ...]) -> str:
    """The text of an expression without its arguments, and without ids that are new at every use. Each argument is added once
    to `holes`."""
    if node.kind in ends:
        text = json.dumps([node.kind, node.fields])
        holes.setdefault(text, node)
        return str(list(holes).index(text))
    plain = {key: value for key, value in node.fields.items() if key not in ("resultId", "exprId")}
    return f"{node.kind}{json.dumps(plain)}({','.join(_shape(child, holes, ends) for child in node.children)})"
