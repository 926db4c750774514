"""GROUP BY: rewrites expressions over its input into expressions over its output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from unshuffle.catalog.schema import Column
from unshuffle.errors import TypeProblem
from unshuffle.language.bind.expressions.call import is_unrepeatable
from unshuffle.language.bind.queries.unsupported import NotUnderstood
from unshuffle.plan.column_naming import unnamed
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Exists,
    Expression,
    InSubquery,
    Ref,
    ScalarSubquery,
    WindowCall,
    map_operands,
)
from unshuffle.plan.logical import GroupBy, GroupingSets, Plan, Project

if TYPE_CHECKING:
    from unshuffle.language.bind.queries.query import QueryBinder


class Aggregation:
    """Rewrites expressions over the input of a GROUP BY into expressions over its output, and collects the aggregates.

    A part equal to a grouping expression becomes the column of that key. An aggregate becomes a column of the GROUP BY. Any
    other column of the input is an error, because it has no single value in a group.
    """

    def __init__(
        self,
        query: QueryBinder,
        select: exp.Select,
        child: Plan,
        keys: tuple[Expression, ...],
        sets: list[list[Expression]] | None,
    ) -> None:
        if sets is not None and sum(not isinstance(key, Ref) for key in keys) > 1:
            raise NotUnderstood("grouping sets of several expressions")  # they may be one to Spark: `a + b` and `b + a`
        self._query, self._select, self._sets = query, select, sets
        computed: list[tuple[Column, Expression]] = []
        computed += ((query.numbers.new(_key_name(k), k.type), k) for k in keys if not isinstance(k, Ref))
        self._computed = computed
        self._inputs: dict[Expression, Column] = {k: k.column for k in keys if isinstance(k, Ref)}
        self._inputs.update({k: column for column, k in computed})
        self._inputs = {k: self._inputs[k] for k in keys}
        self._child = child
        # Keys of grouping sets are new columns in the output, NULL in the sets without them.
        self._keys: dict[Expression, Column] = (
            self._inputs if sets is None else {k: query.numbers.like(c, nullable=True) for k, c in self._inputs.items()}
        )
        self._aggregates: dict[AggregateCall, Column] = {}
        self._available = {*child.columns, *(column for column, _ in computed)}

    def __call__(self, expression: Expression) -> Expression:
        if expression in self._keys:
            return Ref(self._keys[expression])
        match expression:
            case AggregateCall():
                return Ref(self._aggregate(expression))
            case WindowCall(call=AggregateCall() as call):
                inner = map_operands(call, self)
                assert isinstance(inner, AggregateCall)
                return WindowCall(
                    inner,
                    tuple(self(p) for p in expression.partition),
                    tuple(replace(k, expression=self(k.expression)) for k in expression.order),
                    expression.frame,
                )
            case Ref(column) if column in self._available:
                raise self._ungrouped(column)
            case ScalarSubquery() | Exists() | InSubquery():
                for column in sorted(expression.outer & self._available, key=lambda c: c.id):
                    if Ref(column) not in self._keys:
                        raise self._ungrouped(column)
                    if self._keys[Ref(column)] != column:
                        raise NotUnderstood("a correlated sub-query over grouping sets")
                return map_operands(expression, self)
            case Call(function="grouping" | "grouping_id"):
                raise NotUnderstood("grouping()")
            case _:
                return map_operands(expression, self)

    def _aggregate(self, call: AggregateCall) -> Column:
        if any(map(is_unrepeatable, call.arguments)):
            call = replace(call, arguments=tuple(map(self._called_before, call.arguments)))
        if call not in self._aggregates:
            nullable = not call.facts.never_null
            self._aggregates[call] = self._query.numbers.new(call.function, call.type, nullable)
        return self._aggregates[call]

    def _called_before(self, argument: Expression) -> Expression:
        """Spark aggregates no value of a function that is not deterministic: it is computed before."""
        if not is_unrepeatable(argument):
            return argument
        column = self._query.numbers.new(_key_name(argument), argument.type)
        self._computed.append((column, argument))
        return Ref(column)

    def _ungrouped(self, column: Column) -> TypeProblem | NotUnderstood:
        if any(not isinstance(key, Ref) for key in self._keys):
            # Spark matches `1 + a` with the key `a + 1`, and much more. If it finds nothing, it says so.
            return NotUnderstood("a grouping expression that is written in two ways")
        span = self._query.span(self._select)
        for part in self._select.walk():
            if isinstance(part, exp.Column) and part.name.lower() == column.name.lower():
                span = self._query.span(part)
                break
        hint = "group by it too, or wrap it in an aggregate such as any_value()"
        return TypeProblem(f"the column {column.name!r} is neither grouped by nor aggregated", span, hint)

    def plan(self) -> Plan:
        aggregates = tuple((column, call) for call, column in self._aggregates.items())
        child = self._child
        if self._computed:
            child = Project(child, (*((c, Ref(c)) for c in child.columns), *self._computed))
        if self._sets is None:
            return GroupBy(child, tuple(self._inputs.values()), aggregates)
        pairs = tuple((self._keys[k], self._inputs[k]) for k in self._inputs)
        sets = tuple(tuple(self._inputs[k] for k in s) for s in self._sets)
        return GroupingSets(child, pairs, sets, aggregates)


def _key_name(expression: Expression) -> str:
    name = unnamed(expression)
    return name if len(name) <= 24 else "key"
