"""Columns computed beneath an operator and taken away above it, so that the operator itself speaks of columns only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from unshuffle.algebra.expressions import Expression, Ref
from unshuffle.algebra.logical import Plan, Project
from unshuffle.catalog.schema import Column, ColumnNumbers


@dataclass(slots=True)
class Computed:
    """The new columns of a plan. The same expression is computed once."""

    numbers: ColumnNumbers
    _made: dict[Expression, Column] = field(default_factory=dict)

    def column(self, expression: Expression, name: str) -> Column:
        if isinstance(expression, Ref):
            return expression.column
        if expression not in self._made:
            self._made[expression] = self.numbers.new(name, expression.type)
        return self._made[expression]

    def beneath(self, plan: Plan) -> Plan:
        """The plan with the new columns beside its own."""
        return with_columns(plan, ((column, expression) for expression, column in self._made.items()))

    @property
    def expressions(self) -> tuple[tuple[Column, Expression], ...]:
        return tuple((column, expression) for expression, column in self._made.items())

    def __bool__(self) -> bool:
        return bool(self._made)


def with_columns(plan: Plan, computed: Iterable[tuple[Column, Expression]]) -> Plan:
    more = tuple(computed)
    return Project(plan, (*((column, Ref(column)) for column in plan.columns), *more)) if more else plan


def only(plan: Plan, columns: Iterable[Column]) -> Plan:
    """The plan with these of its columns, in this order."""
    wanted = tuple(columns)
    return plan if plan.columns == wanted else Project(plan, tuple((column, Ref(column)) for column in wanted))
