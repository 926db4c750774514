"""Random plans with subqueries, and their reference evaluation: the subquery runs once for each outer row, with the row's
values in place of the outer columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.support.evaluation import Row, Tables, call, rows, value
from tests.support.random_plans import BIGINT, BOOLEAN, INT, Draw, drawn_rows
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.normalize.subqueries.correlation import has_subquery
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Exists,
    Expression,
    InSubquery,
    Literal,
    Ref,
    ScalarSubquery,
    WindowCall,
    connect,
    map_operands,
)
from unshuffle.plan.logical import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    Limit,
    Plan,
    Project,
    Sort,
    Values,
    Window,
    expressions_of,
    outer_columns,
)
from unshuffle.plan.rebuild import map_inputs, with_inputs

Columns = tuple[Column, ...]


class SeveralRows(Exception):
    """A scalar subquery has more than one row, which is an error."""


# --- generation


class DrawCorrelated(Draw):
    def query(self) -> Plan:
        plan: Plan = self.plan(self.pick(0, 0, 1))
        if self.pick(True, True, False):
            plan = Filter(plan, self.asking(plan.columns, 2))
        if self.pick(True, False):
            made = self.pick(self.asking, self.computing)(plan.columns, 1)
            plan = Project(plan, (*((c, Ref(c)) for c in plan.columns), (self.numbers.new("p", made.type), made)))
        return plan

    def asking(self, columns: Columns, depth: int, inside: int = 1) -> Expression:
        """A condition with `inside` levels of nested subqueries."""

        def inner() -> Expression:
            return self.asking(columns, depth - 1, inside)

        match self.pick(*("eEiIsc" if depth == 0 else "eEiIscAON")):
            case "e" | "E":
                plan = self.subquery(columns, inside)
                return self.maybe_not(Exists(plan, outer_columns(plan)))
            case "i" | "I":
                plan = self.subquery(columns, inside)
                width = self.pick(1, 1, min(2, len(plan.columns)))
                narrow = Project(plan, tuple((c, Ref(c)) for c in plan.columns[:width]))
                sides = tuple(self.operand(columns) for _ in range(width))
                return self.maybe_not(InSubquery(sides, narrow, outer_columns(narrow)))
            case "s":
                name = self.pick("=", "<", ">=", "<=>")
                return Call(name, (self.operand(columns), self.scalar(columns, inside)), BOOLEAN)
            case "c":
                return self.condition(columns, 0)
            case "A":
                return connect("and", [inner() for _ in range(2)])
            case "O":
                return connect("or", [inner() for _ in range(2)])
            case _:
                return Call("not", (inner(),), BOOLEAN)

    def maybe_not(self, condition: Expression) -> Expression:
        return Call("not", (condition,), BOOLEAN) if self.pick(True, False) else condition

    def computing(self, columns: Columns, depth: int) -> Expression:
        scalar = self.scalar(columns, depth)
        match self.pick("plain", "case", "coalesce"):
            case "plain":
                return scalar
            case "case":
                return Case(((self.asking(columns, 0, 0), scalar),), self.literal(), INT)
            case _:
                return Call("coalesce", (scalar, self.literal()), INT)

    def scalar(self, columns: Columns, inside: int) -> Expression:
        plan = self.correlated(columns, inside)
        if self.pick(True, True, True, False):
            calls = tuple(self.aggregate(plan.columns) for _ in range(self.pick(1, 2)))
            plan = GroupBy(plan, (), calls)
            if self.pick(True, False, False):
                plan = Filter(plan, self.condition(self.pick(plan.columns, plan.columns, (*plan.columns, *columns))))
        made = self.pick(self.operand(plan.columns), Ref(plan.columns[0]))
        if self.pick(True, False, False):
            made = Call("+", (made, self.operand(columns)), INT)
        plan = Project(plan, ((self.numbers.new("s", made.type), made),))
        return ScalarSubquery(plan, outer_columns(plan))

    def subquery(self, columns: Columns, inside: int) -> Plan:
        plan = self.correlated(columns, inside)
        for _ in range(self.pick(0, 1, 2)):
            plan = self.around(plan, columns)
        return plan

    def correlated(self, columns: Columns, inside: int) -> Plan:
        plan: Plan = self.plan(self.pick(0, 0, 0, 1))
        if self.pick(True, True, True, False):
            plan = Filter(plan, self.tie(plan.columns, columns, inside))
        if self.pick(True, False, False, False):
            other = self.plan(0)
            kind = self.pick(
                JoinKind.INNER, JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI, JoinKind.RIGHT
            )
            condition = self.pick(self.join_condition(plan, other), self.tie(other.columns, plan.columns, 0))
            left, right = self.pick((plan, other), (other, plan))
            plan = Join(kind, left, right, condition)
        return plan

    def tie(self, inner: Columns, outer: Columns, inside: int) -> Expression:
        parts: list[Expression] = []
        for _ in range(self.pick(0, 1, 1, 2)):
            pair = (self.pick(Ref(self.pick(*inner)), self.operand(inner)), Ref(self.pick(*outer)))
            parts.append(Call(self.pick("=", "=", "=", "<=>"), self.pick(pair, pair[::-1]), BOOLEAN))
        if self.pick(True, False, False):
            parts.append(self.condition(self.pick(inner, inner, outer, (*inner, *outer)), 1))
        if inside and self.pick(True, False, False, False):
            parts.append(self.asking(inner, 0, inside - 1))
        return connect("and", parts) if parts else Literal(True, BOOLEAN)

    def around(self, plan: Plan, outer: Columns) -> Plan:
        match self.pick(*"fppgghdslw"):
            case "f":
                return Filter(plan, self.condition((*plan.columns, *outer)))
            case "p":
                made = self.operand(self.pick(plan.columns, (*plan.columns, *outer)))
                return Project(
                    plan, ((self.numbers.new("p", made.type), made), (plan.columns[0], Ref(plan.columns[0])))
                )
            case "g":
                return GroupBy(plan, self.some(plan.columns, 1), (self.aggregate(plan.columns),))
            case "h":
                plan = GroupBy(plan, (), (self.aggregate(plan.columns),))
                return Filter(plan, self.condition(self.pick(plan.columns, (*plan.columns, *outer))))
            case "d":
                return Distinct(plan)
            case "s":
                return Sort(plan, self.order(plan.columns))
            case "l":
                return Limit(Sort(plan, self.order(plan.columns)), self.pick(0, 1, 2), self.pick(0, 0, 1))
            case _:
                return self.window_over(plan)

    def window_over(self, plan: Plan) -> Plan:
        column, aggregate = self.aggregate(plan.columns)
        whole = AggregateCall(aggregate.function, aggregate.arguments, aggregate.type)
        partition = tuple(Ref(each) for each in self.some(plan.columns))
        return Window(plan, ((column, WindowCall(whole, partition, (), None)),))


@st.composite
def queries(draw: Any) -> tuple[Plan, ColumnNumbers]:
    drawing = DrawCorrelated(draw)
    return drawing.query(), drawing.numbers


_few = st.one_of(st.none(), st.integers(0, 2), st.integers(0, 2))


def _filled(**columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    by_least = {least: drawn_rows(5, least, **columns) for least in (0, 2, 3)}
    return st.sampled_from((0, 2, 3, 3)).flatmap(by_least.__getitem__)


_keyed = _filled(id=st.integers(0, 3), v=_few)
_others = {
    "t": _filled(a=_few, b=_few, c=_few),
    "u": _filled(d=_few, e=st.integers(0, 2)),
    "c": _filled(f=_few, g=_few),
}


@st.composite
def filled_tables(draw: Any) -> dict[str, list[dict[str, Any]]]:
    """Rows for `random_plans`, rarely none, so that most subqueries have rows for some outer rows and not for others."""
    keyed = {row["id"]: row for row in draw(_keyed)}
    return {
        **{name: draw(each) for name, each in _others.items()},
        "k": [{**row, "w": row["v"] and row["v"] * 2 % 3} for row in keyed.values()],
    }


# --- evaluation


def result_with_subqueries(plan: Plan, tables: Tables) -> Counter[tuple[Any, ...]]:
    flat = without_subqueries(plan, tables)
    return Counter(tuple(row[column] for column in flat.columns) for row in rows(flat, tables))


def without_subqueries(plan: Plan, tables: Tables) -> Plan:
    """The plan with every filter and projection that has a subquery replaced by its rows."""
    inputs = [without_subqueries(child, tables) for child in plan.children]
    if inputs:
        plan = with_inputs(plan, inputs)
    if not any(map(has_subquery, expressions_of(plan))):
        return plan
    match plan:
        case Filter(child, predicate):
            found = [row for row in rows(child, tables) if value(answered(predicate, row, tables), row) is True]
            return _values(found, plan.columns)
        case Project(child, outputs):
            made = [{c: value(answered(e, row, tables), row) for c, e in outputs} for row in rows(child, tables)]
            return _values(made, plan.columns)
        case _:
            raise NotImplementedError(type(plan).__name__)


def _values(found: list[Any], columns: Columns) -> Plan:
    return Values(tuple(tuple(Literal(row[c], c.type) for c in columns) for row in found), columns)


def answered(expression: Expression, row: Row, tables: Tables) -> Expression:
    """The expression with the values of its subqueries for a row."""

    def inner(part: Expression) -> Expression:
        return answered(part, row, tables)

    expression = map_operands(expression, inner)
    if not isinstance(expression, Exists | InSubquery | ScalarSubquery):
        return expression
    plan = with_values(expression.plan, {c: Literal(row[c], c.type) for c in expression.outer})
    found = [tuple(each[c] for c in plan.columns) for each in rows(without_subqueries(plan, tables), tables)]
    match expression:
        case Exists():
            return Literal(bool(found), BOOLEAN)
        case InSubquery(operands):
            sides = [value(operand, row) for operand in operands]
            each_row = [call("and", [call("=", [a, b]) for a, b in zip(sides, one, strict=True)]) for one in found]
            return Literal(call("or", each_row), BOOLEAN)
        case ScalarSubquery():
            if len(found) > 1:
                raise SeveralRows
            return Literal(found[0][0] if found else None, BIGINT)


def with_values(plan: Plan, outer: Mapping[Column, Literal]) -> Plan:
    """The plan with literals in place of columns, in its expressions and in the subqueries in them."""

    def inside(part: Expression) -> Expression:
        if isinstance(part, Ref):
            return outer.get(part.column, part)
        return map_operands(part, inside)

    plan = map_inputs(plan, lambda each: with_values(each, outer))
    match plan:
        case Filter(child, predicate):
            return Filter(child, inside(predicate))
        case Project(child, outputs):
            return Project(child, tuple((column, inside(e)) for column, e in outputs))
        case Join(condition=condition):
            return plan if condition is None else replace(plan, condition=inside(condition))
        case _:
            return plan
