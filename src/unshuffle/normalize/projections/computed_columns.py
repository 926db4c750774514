"""Columns that are computed below an operator and dropped above it, so that the operator reads columns only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Expression, Ref
from unshuffle.plan.logical import Plan, Project


@dataclass(slots=True)
class ComputedColumns:
    """New columns for expressions. Equal expressions share a column."""

    numbers: ColumnNumbers
    _made: dict[Expression, Column] = field(default_factory=dict)

    def column(self, expression: Expression, name: str) -> Column:
        if isinstance(expression, Ref):
            return expression.column
        if expression not in self._made:
            self._made[expression] = self.numbers.new(name, expression.type)
        return self._made[expression]

    def below(self, plan: Plan) -> Plan:
        """The plan with the new columns added to its own."""
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
    """The plan with only these columns, in this order."""
    wanted = tuple(columns)
    return plan if plan.columns == wanted else Project(plan, tuple((column, Ref(column)) for column in wanted))
