"""Properties of a subquery's plan that decide how it can be joined: its number of rows, and its value over no rows."""

from __future__ import annotations

from unshuffle.normalize.subqueries.correlation import BOOLEAN, Columns, substituted
from unshuffle.plan.expressions import AggregateCall, Call, Case, Exists, Expression, Literal, Ref, ScalarSubquery
from unshuffle.plan.functions.scalars import FLIPPED
from unshuffle.plan.logical import Distinct, Filter, GroupBy, Limit, Plan, Project, Reference, Sort, Values, Window


def columns_made_in(plan: Plan) -> Columns:
    """The columns that a plan's operators produce. Columns inside a shared rowset are excluded: all its readers have them."""
    if isinstance(plan, Reference):
        return frozenset(plan.columns)
    return frozenset(plan.columns).union(*map(columns_made_in, plan.children))


def same_existence(plan: Plan) -> Plan:
    """A simpler plan that has a row if and only if this one does."""
    match plan:
        case Project(child) | Sort(child) | Distinct(child) | Window(child):
            return same_existence(child)
        case GroupBy(child, keys) if keys:
            return same_existence(child)
        case Limit(child, count, 0) if count is None or count > 0:
            return same_existence(child)
        case _:
            return plan


def is_one_row(plan: Plan) -> bool:
    """Does it always have exactly one row?"""
    match plan:
        case Project(child) | Sort(child):
            return is_one_row(child)
        case GroupBy(keys=()):
            return True
        case Values(rows):
            return len(rows) == 1
        case _:
            return False


def is_first_row(plan: Plan) -> bool:
    match plan:
        case Project(child) | Sort(child) | Filter(child):
            return is_first_row(child)
        case Limit(count=count):
            return count is not None and count <= 1
        case _:
            return False


def over_aggregates(plan: Plan) -> tuple[GroupBy, Expression] | None:
    """The aggregate without keys below a scalar subquery, and the subquery's value in terms of it. If HAVING is not true,
    there is no row, and the value is NULL."""
    value: Expression = Ref(plan.columns[0])
    while True:
        match plan:
            case Project(child, outputs):
                replaced = substituted(value, dict(outputs))
                if replaced is None:
                    return None
                value, plan = replaced, child
            case Filter(child, predicate):
                value, plan = Case(((predicate, value),), None, value.type), child
            case Sort(child):
                plan = child
            case GroupBy(keys=()):
                return plan, value
            case _:
                return None


# The comparisons of a count with a number that test whether there is a row, or none.
_SOME = frozenset(((">", 0), (">=", 1), ("<>", 0)))
_NONE = frozenset((("=", 0), ("<", 1), ("<=", 0)))


def as_existence(condition: Expression) -> Expression:
    """`(select count(*) ...) > 0` as EXISTS, `= 0` as NOT EXISTS. A count is never NULL, so the two are equivalent."""
    match condition:
        case Call(name, (ScalarSubquery() as subquery, Literal(number))):
            pass
        case Call(flipped, (Literal(number), ScalarSubquery() as subquery)) if flipped in FLIPPED:
            name = FLIPPED[flipped]
        case _:
            return condition
    comparison = (name, number)
    if (comparison not in _SOME and comparison not in _NONE) or type(number) is not int:
        return condition
    found = over_aggregates(subquery.plan)
    counted = found and _counted_rows(*found)
    if counted is None:
        return condition
    exists = Exists(counted, subquery.outer)
    return exists if comparison in _SOME else Call("not", (exists,), BOOLEAN)


def _counted_rows(aggregation: GroupBy, value: Expression) -> Plan | None:
    match aggregation.aggregates:
        case ((column, AggregateCall("count", (Literal(one),), distinct=False, where=None)),) if value == Ref(column):
            return aggregation.child if one is not None else None
    return None
