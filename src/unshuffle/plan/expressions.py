"""Scalar expressions over columns.

An expression is an immutable tree that can be compared and hashed, so `==` finds the grouping expression. Columns appear by
identity (`Ref`), never by name. Functions and operators are `Call`s under their Spark names. Syntax that the optimizer does
not interpret (an interval, a collation) is a `Template` of Spark SQL text around its operands. An expression of a DataFrame
without SQL text (a user's function, a seeded random number) is `Opaque`. Only Spark evaluates expressions.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any
from typing import Literal as Literal_

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.frozen import dataclass
from unshuffle.plan.functions.aggregates import NOTHING_KNOWN, AggregateFacts, aggregate_facts

if TYPE_CHECKING:
    from unshuffle.plan.logical import Plan

Value = None | bool | int | float | decimal.Decimal | str | bytes | datetime.date | datetime.datetime


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of a column."""

    column: Column

    @property
    def type(self) -> DataType:
        return self.column.type


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A Spark function or operator by its Spark name (`substring`, `+`, `isnull`). `and` and `or` take any number of
    arguments and are flat: no argument of an `and` is an `and`."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType
    deterministic: bool = True


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Expression
    type: pa.DataType
    safe: bool = False  # TRY_CAST: NULL instead of an error


@dataclass(frozen=True, slots=True)
class Case:
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    type: DataType


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    operand: Expression
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter of a lambda."""

    name: str
    type: DataType = None


@dataclass(frozen=True, slots=True)
class Lambda:
    parameters: tuple[Variable, ...]
    body: Expression

    @property
    def type(self) -> DataType:
        return self.body.type


@dataclass(frozen=True, slots=True)
class Template:
    """Spark SQL text with operands between its pieces: pieces[0] operands[0] pieces[1] ... pieces[-1]."""

    pieces: tuple[str, ...]
    operands: tuple[Expression, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class Opaque:
    """A function of its arguments that only Spark can compute, and that no SQL text names.

    `number` is its identity: two with one number and equal arguments have the same value if they are deterministic. `code`
    is Spark's own expression with placeholders for the arguments. Only `unshuffle.spark` uses it; comparing it would call
    the JVM."""

    number: int
    name: str = field(compare=False)  # for people
    code: Any = field(compare=False, repr=False)
    arguments: tuple[Expression, ...]
    type: DataType = field(compare=False)
    nullable: bool = field(default=True, compare=False)
    deterministic: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column of an order. Spark's default puts NULLs first when ascending and last when descending."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = True


def is_fixed(type: DataType) -> bool:
    """Do all values have the same width? Spark can then update one in place."""
    if type is None:
        return False
    return bool(pa.types.is_primitive(type) or pa.types.is_decimal(type) or pa.types.is_null(type))


@dataclass(frozen=True, slots=True)
class OpaqueAggregate:
    """An aggregate function that no SQL text names. `number` and `code` are as in `Opaque`."""

    number: int
    code: Any = field(compare=False, repr=False)
    keeps_object: bool = field(compare=False)  # the state is an object that grows with the group
    is_python: bool = field(default=False, compare=False)  # Spark runs it in a Python worker, over sorted groups


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function over the rows of a group (or, inside a window, of a frame).

    Nothing is known of an opaque one. The code of one that Spark made contains its FILTER."""

    function: str
    arguments: tuple[Expression, ...]
    type: DataType
    distinct: bool = False
    where: Expression | None = None
    within: tuple[SortKey, ...] = ()  # WITHIN GROUP (ORDER BY ...)
    ignore_nulls: bool = False
    deterministic: bool = True
    opaque: OpaqueAggregate | None = None

    @property
    def facts(self) -> AggregateFacts:
        return aggregate_facts(self.function) if self.opaque is None else NOTHING_KNOWN

    @property
    def keeps_object(self) -> bool:
        """Is the state an object that grows with the group?"""
        if self.opaque is not None:
            return self.opaque.keeps_object
        return self.facts.state in ("counts", "list")

    @property
    def keeps_unfixed(self) -> bool:
        """Is the state a value of variable width, such as a text or a struct? Spark then aggregates sorted rows only, outside
        whole-stage code generation, and copies the value whenever it takes another."""
        return self.facts.state == "value" and not all(is_fixed(part.type) for part in self.arguments)


@dataclass(frozen=True, slots=True)
class WindowCall:
    call: AggregateCall | Call
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: str | None  # Spark SQL text with constant bounds

    @property
    def type(self) -> DataType:
        return self.call.type


@dataclass(frozen=True, slots=True)
class ScalarSubquery:
    """The value of the only row of a query. NULL if there is no row."""

    plan: Plan
    outer: frozenset[Column]  # the columns that its plan reads from the enclosing query

    @property
    def type(self) -> DataType:
        return self.plan.columns[0].type


@dataclass(frozen=True, slots=True)
class Exists:
    plan: Plan
    outer: frozenset[Column]

    @property
    def type(self) -> DataType:
        return pa.bool_()


@dataclass(frozen=True, slots=True)
class InSubquery:
    """Three-valued: NULL if no row matches and some comparison is NULL."""

    operands: tuple[Expression, ...]
    plan: Plan
    outer: frozenset[Column]

    @property
    def type(self) -> DataType:
        return pa.bool_()


Subquery = ScalarSubquery | Exists | InSubquery
Expression = (
    Ref
    | Literal
    | Call
    | Cast
    | Case
    | Field
    | Variable
    | Lambda
    | Template
    | Opaque
    | AggregateCall
    | WindowCall
    | ScalarSubquery
    | Exists
    | InSubquery
)


def connect(word: Literal_["and", "or"], parts: Sequence[Expression]) -> Expression:
    """The conditions connected by `and` or `or`, flat."""
    flat: list[Expression] = []
    for part in parts:
        flat.extend(part.arguments if isinstance(part, Call) and part.function == word else (part,))
    return flat[0] if len(flat) == 1 else Call(word, tuple(flat), pa.bool_())


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The direct operands of an expression. The plan of a subquery is not one; see `columns_of`."""
    match expression:
        case Ref() | Literal() | Variable() | ScalarSubquery() | Exists():
            return ()
        case Call(arguments=parts) | Opaque(arguments=parts) | Template(operands=parts) | InSubquery(operands=parts):
            return parts
        case Cast(operand=part) | Field(operand=part) | Lambda(body=part):
            return (part,)
        case Case(branches=branches, otherwise=otherwise):
            flat = tuple(part for branch in branches for part in branch)
            return flat if otherwise is None else (*flat, otherwise)
        case AggregateCall(arguments=arguments, where=where, within=within):
            return (*arguments, *((where,) if where else ()), *(key.expression for key in within))
        case WindowCall(call=call, partition=partition, order=order):
            return (call, *partition, *(key.expression for key in order))


def map_operands(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The same expression over changed operands."""

    def keys(order: tuple[SortKey, ...]) -> tuple[SortKey, ...]:
        return tuple(replace(key, expression=change(key.expression)) for key in order)

    match expression:
        case Ref() | Literal() | Variable() | ScalarSubquery() | Exists():
            return expression
        case Call() | Opaque():
            return replace(expression, arguments=tuple(map(change, expression.arguments)))
        case Template() | InSubquery():
            return replace(expression, operands=tuple(map(change, expression.operands)))
        case Cast() | Field():
            return replace(expression, operand=change(expression.operand))
        case Lambda():
            return replace(expression, body=change(expression.body))
        case Case():
            branches = tuple((change(when), change(then)) for when, then in expression.branches)
            return replace(
                expression, branches=branches, otherwise=change(expression.otherwise) if expression.otherwise else None
            )
        case AggregateCall():
            return replace(
                expression,
                arguments=tuple(map(change, expression.arguments)),
                where=change(expression.where) if expression.where else None,
                within=keys(expression.within),
            )
        case WindowCall():
            call = change(expression.call)
            assert isinstance(call, AggregateCall | Call)
            return replace(
                expression, call=call, partition=tuple(map(change, expression.partition)), order=keys(expression.order)
            )


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all its parts, top down. The plans of subqueries are not entered."""
    yield expression
    for part in operands(expression):
        yield from walk(part)


def columns_of(expression: Expression) -> frozenset[Column]:
    """The columns that an expression reads, the correlation columns of its subqueries included."""
    found: set[Column] = set()
    for part in walk(expression):
        match part:
            case Ref(column=column):
                found.add(column)
            case ScalarSubquery(outer=outer) | Exists(outer=outer) | InSubquery(outer=outer):
                found |= outer
            case _:
                pass
    return frozenset(found)


def text_prefix(expression: Expression) -> tuple[Column, int] | None:
    """The text column that an expression is a prefix of, and the length of the prefix."""
    match expression:
        case Call("left", (text, Literal(value=int() as length))) if length > 0:
            pass
        case Call("substring", (text, Literal(value=1), Literal(value=int() as length))) if length > 0:
            pass
        case _:
            return None
    if isinstance(text, Ref):
        return (text.column, length) if text.column.type == pa.string() else None
    longer = text_prefix(text)
    return (longer[0], min(length, longer[1])) if longer is not None else None


def is_aggregate(expression: Expression) -> bool:
    """Does the expression need a GROUP BY? A window function does not, but its arguments may."""
    match expression:
        case AggregateCall():
            return True
        case WindowCall(call=call):
            inner = (*operands(call), *expression.partition, *(key.expression for key in expression.order))
            return any(is_aggregate(part) for part in inner)
        case _:
            return any(is_aggregate(part) for part in operands(expression))


def has_window(expression: Expression) -> bool:
    return any(isinstance(part, WindowCall) for part in walk(expression))
