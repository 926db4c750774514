"""Catalyst's expressions as ours.

A class is mapped only if the SQL text of our expression gives Spark the very same expression back, in the settings of the
session. So arithmetic and casts must have the session's ANSI mode and time zone, which Catalyst keeps in each of them: a
view keeps those of its making. Anything else is `Opaque`: Spark's expression as it is, with places for the columns it reads.

Constants are computed here, by Spark, as its own optimizer would: `date'1998-12-01' - interval 90 days` is a day that a
histogram can be asked about.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from unshuffle.algebra.expressions import (
    AggregateCall,
    Call,
    Case,
    Cast,
    Exists,
    Expression,
    Field,
    InSubquery,
    Literal,
    Opaque,
    Ref,
    ScalarSubquery,
    SortKey,
    Value,
    WindowCall,
    connect,
)
from unshuffle.algebra.logical import Plan, outer_columns
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    arithmetic_type,
    is_decimal,
    is_integer,
    is_numeric,
)
from unshuffle.spark.catalyst_aggregates import NEVER_NULL, aggregate, window
from unshuffle.spark.catalyst_tree import Node, NotUnderstood, data_type
from unshuffle.spark.columns import OpaqueCode, jvm

Scope = Mapping[int, Column]  # the columns of an operator's inputs by Catalyst's numbers


# Functions of their children alone, by the class: our name, the type, and what the first argument must be (None: anything).
_CALLS: dict[str, tuple[str, DataType, tuple[pa.DataType, ...] | None]] = {
    "EqualTo": ("=", BOOLEAN, None),
    "EqualNullSafe": ("<=>", BOOLEAN, None),
    "LessThan": ("<", BOOLEAN, None),
    "LessThanOrEqual": ("<=", BOOLEAN, None),
    "GreaterThan": (">", BOOLEAN, None),
    "GreaterThanOrEqual": (">=", BOOLEAN, None),
    "IsNull": ("isnull", BOOLEAN, None),
    "IsNotNull": ("isnotnull", BOOLEAN, None),
    "In": ("in", BOOLEAN, None),
    "RLike": ("rlike", BOOLEAN, (STRING,)),
    "StartsWith": ("startswith", BOOLEAN, (STRING,)),
    "EndsWith": ("endswith", BOOLEAN, (STRING,)),
    "Contains": ("contains", BOOLEAN, (STRING,)),
    "IsNaN": ("isnan", BOOLEAN, (DOUBLE,)),
    "Upper": ("upper", STRING, (STRING,)),
    "Lower": ("lower", STRING, (STRING,)),
    "Substring": ("substring", STRING, (STRING,)),
    "Length": ("length", INT, (STRING,)),
    "Year": ("year", INT, (DATE,)),
    "Quarter": ("quarter", INT, (DATE,)),
    "Month": ("month", INT, (DATE,)),
    "DayOfMonth": ("day", INT, (DATE,)),
    "DateAdd": ("date_add", DATE, (DATE,)),
    "DateSub": ("date_sub", DATE, (DATE,)),
    "DateDiff": ("datediff", INT, (DATE,)),
}
# What these say of themselves beyond their children does not change what they mean.
_CALL_FIELDS = {"left", "right", "child", "value", "list", "str", "pos", "len", "startDate", "endDate", "days"}
_ARITHMETIC = {"Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/", "Remainder": "%", "IntegralDivide": "div"}

_SUBQUERIES = ("ScalarSubquery", "Exists", "InSubquery")
# Where an opaque expression ends: what stands below is ours again.
_HOLES = (*_SUBQUERIES, "AttributeReference", "OuterReference", "AggregateExpression", "WindowExpression")


@dataclass
class Settings:
    """What the session would make of a text; the expressions of a plan must agree with it."""

    mode: str
    precision_loss: bool
    time_zone: str
    plain_strings: bool  # a backslash in a literal is only a backslash
    zoned_timestamps: bool  # TIMESTAMP is an instant, as it is for us

    @classmethod
    def of(cls, spark: SparkSession) -> Settings:
        def is_on(key: str) -> bool:
            return str(spark.conf.get(key)).lower() == "true"

        return cls(
            "ANSI" if is_on("spark.sql.ansi.enabled") else "LEGACY",
            is_on("spark.sql.decimalOperations.allowPrecisionLoss"),
            str(spark.conf.get("spark.sql.session.timeZone")),
            is_on("spark.sql.parser.escapedStringLiterals"),
            str(spark.conf.get("spark.sql.timestampType")) == "TIMESTAMP_LTZ",
        )


@dataclass
class ExpressionReader:
    """Reads the expressions of one DataFrame. `subquery` gives the plan of a sub-query inside these scopes."""

    spark: SparkSession
    subquery: Callable[[Node, Sequence[Scope]], Plan]
    _opaque: list[tuple[str, Opaque]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = Settings.of(self.spark)

    @cached_property
    def _catalyst(self) -> Any:
        return jvm(self.spark).org.apache.spark.sql.catalyst

    def folded(self, expression: Any) -> Any | None:
        """Spark's literal for a constant of Spark's. None if there is none before the query runs (CURRENT_DATE), or if to
        compute it is an error, which then is the query's to raise, when it runs and if it gets there."""
        logical = self._catalyst.plans.logical
        alone = logical.Filter(expression, logical.OneRowRelation())
        try:
            with _unreported():
                found = self._catalyst.optimizer.ConstantFolding.apply(alone).condition()
        except (Py4JError, PySparkException):
            return None
        return found if found.getClass().getSimpleName() == "Literal" else None

    def read(self, node: Node, scopes: Sequence[Scope]) -> Expression:
        """An expression of ours. The last of the scopes is the operator's own, those before are around its query."""
        return Reading(self, scopes).read(node)

    def sort_keys(self, nodes: Sequence[Node], scopes: Sequence[Scope]) -> tuple[SortKey, ...]:
        return tuple(
            SortKey(
                self.read(each.children[0], scopes),
                each.object("direction") == "Descending",
                each.object("nullOrdering") == "NullsFirst",
            )
            for each in nodes
        )

    def interned(self, shape: str, made: Opaque) -> Opaque:
        """One number for what Catalyst calls the same. JSON cannot tell two functions of one name apart, the JVM can."""
        for other_shape, other in self._opaque:
            alike = made.deterministic and other_shape == shape and other.arguments == made.arguments
            if alike and other.code.expression.semanticEquals(made.code.expression):
                return other
        numbered = replace(made, number=len(self._opaque) + 1)
        self._opaque.append((shape, numbered))
        return numbered


@dataclass
class Reading:
    reader: ExpressionReader
    scopes: Sequence[Scope]
    common: Expression | None = None  # what the expressions of a WITH refer to

    def read(self, node: Node) -> Expression:
        if node.kind != "Literal" and _is_constant(node) and (folded := self._folded(node)) is not None:
            return folded
        rule = _RULES.get(node.kind) if node.is_sparks_own else None
        found = rule(self, node) if rule is not None else None
        return found if found is not None else self._opaque(node)

    def children(self, node: Node) -> tuple[Expression, ...]:
        return tuple(map(self.read, node.children))

    # --- leaves

    def _attribute(self, node: Node) -> Expression:
        column = self.scopes[-1].get(node.id)
        if column is None:
            raise NotUnderstood(f"the column {node.fields['name']}, which is not among the input's")
        return Ref(column)

    def _outer(self, node: Node) -> Expression:
        (found,) = node.fields["e"]
        number = found["exprId"]["id"] if "exprId" in found else -1
        for scope in reversed(self.scopes[:-1]):
            if number in scope:
                return Ref(scope[number])
        raise NotUnderstood("a column of a query further out")

    def _common_reference(self, node: Node) -> Expression | None:
        return self.common

    def _with(self, node: Node) -> Expression | None:
        """One value that is used twice. Where it is the same each time it is computed, it may be written twice."""
        inside, *definitions = node.children
        if len(definitions) != 1 or any(each.kind == "With" for each in inside.walk()):
            return None
        value = self.read(definitions[0].children[0])
        return Reading(self.reader, self.scopes, value).read(inside) if is_deterministic(value) else None

    def _literal(self, node: Node) -> Expression | None:
        type, text = node.type, node.fields.get("value")
        if not self._can_be_written(type):
            return None
        if text is None:
            return Literal(None, type)
        value = _value(text, type, lambda: node.jvm.value())
        if isinstance(value, str) and self.reader.settings.plain_strings and re.search(r"['\\\r\n\0]", value):
            return None  # our text would escape what is then not read as escaped
        return None if value is None else Literal(value, type)

    def _folded(self, node: Node) -> Expression | None:
        """The value of a constant, unless a NULL could have been expected of it and is not there: a column of it would no
        longer say that it may hold one."""
        if node.kind == "Cast" and (literal := self._cast_literal(node)) is not None:
            return literal
        if not all(each.is_sparks_own and each.kind != "ScalaUDF" for each in node.walk()):
            return None
        literal = self.reader.folded(node.jvm)
        type = self.type_of(node) if literal is not None else None
        if literal is None or not self._can_be_written(type):
            return None
        value = literal.value()
        if node.jvm.nullable() != (value is None):
            return None
        if value is None:
            return Literal(None, type)
        text = value.toString() if hasattr(value, "toString") else str(value)
        found = None if pa.types.is_binary(type) else _value(text, type, lambda: value)
        return None if found is None else Literal(found, type)

    def _cast_literal(self, node: Node) -> Literal | None:
        """Without asking the JVM: a number in a wider type."""
        (operand,) = node.children
        literal = self._literal(operand) if operand.kind == "Literal" else None
        type = node.type
        if not isinstance(literal, Literal) or literal.value is None or literal.type is None or type is None:
            return None
        given = literal.type
        if is_integer(given) and is_integer(type) and given.bit_width <= type.bit_width:
            return Literal(literal.value, type)
        if is_decimal(given) and is_decimal(type) and type.scale >= given.scale:
            digits = given.precision - given.scale
            return Literal(literal.value, type) if type.precision - type.scale >= digits else None
        return None

    # --- conditions

    def _connected(self, node: Node) -> Expression:
        # Chains run to thousands of terms: no recursion on the left.
        kind, parts, left = node.kind, [], node
        while left.kind == kind:
            left, right = left.children
            parts.append(right)
        parts.append(left)
        return connect("and" if kind == "And" else "or", [self.read(part) for part in reversed(parts)])

    def _not(self, node: Node) -> Expression:
        operand = self.read(node.children[0])
        if isinstance(operand, Call) and operand.function == "=":
            return Call("<>", operand.arguments, BOOLEAN)
        return Call("not", (operand,), BOOLEAN)

    def _like(self, node: Node) -> Expression | None:
        text, pattern = self.children(node)
        escape = str(node.jvm.escapeChar())
        if text.type != STRING or (self.reader.settings.plain_strings and escape != "\\"):
            return None
        return Call("like", (text, pattern) if escape == "\\" else (text, pattern, Literal(escape, STRING)), BOOLEAN)

    # --- calls

    def _call(self, node: Node) -> Expression | None:
        name, type, wanted = _CALLS[node.kind]
        if not node.fields.keys() <= _CALL_FIELDS or (node.kind == "In" and len(node.children) < 2):
            return None
        arguments = self.children(node)
        if wanted is not None and arguments[0].type not in wanted:
            return None
        return Call(name, arguments, type)

    def _coalesce(self, node: Node) -> Expression:
        arguments = self.children(node)
        return Call("coalesce", arguments, arguments[0].type)

    def _if(self, node: Node) -> Expression:
        arguments = self.children(node)
        return Call("if", arguments, arguments[1].type)

    def _case(self, node: Node) -> Expression:
        parts = self.children(node)
        otherwise = parts[-1] if len(parts) % 2 else None
        branches = tuple(zip(parts[0 : len(parts) // 2 * 2 : 2], parts[1::2], strict=True))
        return Case(branches, otherwise, branches[0][1].type)

    def _struct_field(self, node: Node) -> Expression | None:
        operand = self.read(node.children[0])
        if operand.type is None or not pa.types.is_struct(operand.type):
            return None
        names = [each.name.lower() for each in operand.type]
        chosen = operand.type.field(node.fields["ordinal"])
        return Field(operand, chosen.name, chosen.type) if names.count(chosen.name.lower()) == 1 else None

    # --- what depends on settings

    def _arithmetic(self, node: Node) -> Expression | None:
        operator = _ARITHMETIC[node.kind]
        left, right = self.children(node)
        if not (is_numeric(left.type) and is_numeric(right.type)):
            return None
        if is_decimal(left.type) and is_decimal(right.type):
            type = arithmetic_type(operator, left.type, right.type)
        elif left.type == right.type:
            type = BIGINT if operator == "div" else left.type
        else:
            return None
        # Sums and products of floating-point numbers overflow to infinity in every mode.
        if not (pa.types.is_floating(left.type) and operator in "+-*") and not self.in_sessions_mode(node):
            return None
        if is_decimal(type) and not self.reader.settings.precision_loss:
            type = self.type_of(node)
        return Call(operator, (left, right), type)

    def _negative(self, node: Node) -> Expression | None:
        if node.fields.get("failOnError") != (self.reader.settings.mode == "ANSI"):
            return None
        operand = self.read(node.children[0])
        name = "negative" if node.kind == "UnaryMinus" else "abs"
        return Call(name, (operand,), operand.type) if is_numeric(operand.type) else None

    def _cast(self, node: Node) -> Expression | None:
        type, zone = node.type, node.fields.get("timeZoneId")
        operand = self.read(node.children[0])
        if operand.type is None or pa.types.is_nested(operand.type) or not self._can_be_written(type):
            return None
        if zone not in (None, self.reader.settings.time_zone):
            return None
        assert type is not None
        widened = is_integer(operand.type) and (is_integer(type) and operand.type.bit_width <= type.bit_width)
        if widened or (is_integer(operand.type) and type == DOUBLE):
            return Cast(operand, type)
        mode = node.jvm.evalMode().toString()
        return Cast(operand, type, safe=mode == "TRY") if mode in ("TRY", self.reader.settings.mode) else None

    def _can_be_written(self, type: DataType) -> bool:
        """Does the name of a type mean it in this session? Not where it holds others, which may be never NULL."""
        if type == TIMESTAMP and not self.reader.settings.zoned_timestamps:
            return False
        return type is not None and not pa.types.is_nested(type)

    def in_sessions_mode(self, node: Node) -> bool:
        settings = self.reader.settings
        if "evalContext" in node.fields:
            loss = str(settings.precision_loss).lower()
            return bool(node.jvm.evalContext().toString() == f"NumericEvalContext({settings.mode},{loss})")
        return bool(node.jvm.evalMode().toString() == settings.mode)

    # --- sub-queries

    def _subquery(self, node: Node) -> Expression:
        values, query = node.children[:-1], node.children[-1] if node.kind == "InSubquery" else node
        plan = self.reader.subquery(query.plan(), self.scopes)
        outer = outer_columns(plan)
        match node.kind:
            case "ScalarSubquery":
                return ScalarSubquery(plan, outer)
            case "Exists":
                return Exists(plan, outer)
            case _:
                return InSubquery(tuple(map(self.read, values)), plan, outer)

    # --- everything else

    def _replaced(self, node: Node) -> Expression | None:
        """What Spark's optimizer begins with: many functions stand for an expression that they hold as their only child."""
        return self.read(node.children[0]) if len(node.children) == 1 and "replacement" in node.fields else None

    def _opaque(self, node: Node) -> Expression:
        if replaced := self._replaced(node):
            return replaced
        holes: dict[str, Node] = {}
        shape = _shape(node, holes, _HOLES if self.common is None else (*_HOLES, "CommonExpressionRef"))
        arguments = tuple(map(self.read, holes.values()))
        code = OpaqueCode(node.jvm, tuple(hole.jvm for hole in holes.values()))
        nullable, deterministic = bool(node.jvm.nullable()), bool(node.jvm.deterministic())
        made = Opaque(0, node.name, code, arguments, self.type_of(node), nullable, deterministic)
        return self.reader.interned(shape, made)

    def type_of(self, node: Node) -> DataType:
        return data_type(json.loads(node.jvm.dataType().json()))


_Rule = Callable[[Reading, Node], Expression | None]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_CALLS, Reading._call),
    **dict.fromkeys(_ARITHMETIC, Reading._arithmetic),
    **dict.fromkeys(_SUBQUERIES, Reading._subquery),
    "AttributeReference": Reading._attribute,
    "OuterReference": Reading._outer,
    "Literal": Reading._literal,
    "Alias": lambda reading, node: reading.read(node.children[0]),
    "And": Reading._connected,
    "Or": Reading._connected,
    "Not": Reading._not,
    "Like": Reading._like,
    "Coalesce": Reading._coalesce,
    "If": Reading._if,
    "CaseWhen": Reading._case,
    "GetStructField": Reading._struct_field,
    "UnaryMinus": Reading._negative,
    "Abs": Reading._negative,
    "Cast": Reading._cast,
    "With": Reading._with,
    "CommonExpressionRef": Reading._common_reference,
    "AggregateExpression": aggregate,
    "WindowExpression": window,
}


@contextmanager
def _unreported() -> Iterator[None]:
    """PySpark prints every error of a query, also one that is no concern of the user's."""
    loggers = [PySparkLogger.getLogger(name) for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def is_nullable(expression: Expression) -> bool:
    """May it be NULL? Where we cannot tell, it may."""
    match expression:
        case Ref(column):
            return column.nullable
        case Literal(value):
            return value is None
        case Exists() | Call(function="isnull" | "isnotnull" | "<=>" | "isnan"):
            return False
        case Call(function="coalesce", arguments=arguments):
            return all(map(is_nullable, arguments))
        case Call(function="=" | "<>" | "<" | "<=" | ">" | ">=" | "and" | "or" | "not", arguments=arguments):
            return any(map(is_nullable, arguments))
        case Opaque(nullable=nullable):
            return nullable
        case AggregateCall(function=name):
            return name not in NEVER_NULL
        case WindowCall(call=call):
            return call.function not in ("row_number", "rank", "dense_rank", *NEVER_NULL)
        case _:
            return True


def _is_constant(node: Node) -> bool:
    return all(each.kind == "Literal" or (each.children and each.kind not in _HOLES) for each in node.walk())


def _shape(node: Node, holes: dict[str, Node], ends: tuple[str, ...]) -> str:
    """The text of an expression without what it reads, and without the numbers that every use of it has new. What it reads
    is put into `holes`, each once."""
    if node.kind in ends:
        text = json.dumps([node.kind, node.fields])
        holes.setdefault(text, node)
        return str(list(holes).index(text))
    plain = {key: value for key, value in node.fields.items() if key not in ("resultId", "exprId")}
    return f"{node.kind}{json.dumps(plain)}({','.join(_shape(child, holes, ends) for child in node.children)})"


def _value(text: Any, type: pa.DataType, number: Callable[[], Any]) -> Value:
    """A literal's value from its text; of days and instants, whose text follows another calendar, from their number. None
    if Python has no such value."""
    try:
        if pa.types.is_boolean(type):
            return bool(str(text).lower() == "true")
        if pa.types.is_integer(type):
            return int(text)
        if pa.types.is_floating(type):
            return float(text)
        if pa.types.is_decimal(type):
            return decimal.Decimal(text)
        if pa.types.is_string(type):
            return str(text)
        if type == DATE:
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=number())
        if type in (TIMESTAMP, TIMESTAMP_NTZ):
            zone = datetime.UTC if type == TIMESTAMP else None
            return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=number())
    except (OverflowError, ValueError, decimal.InvalidOperation):
        return None
    return None
