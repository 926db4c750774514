"""What the plan of a subquery looks like, for those who would join it: how many rows it has, and what it is over no rows."""

from __future__ import annotations

from unshuffle.algebra.expressions import (
    AggregateCall,
    Call,
    Case,
    Exists,
    Expression,
    Literal,
    Ref,
    ScalarSubquery,
)
from unshuffle.algebra.logical import (
    Distinct,
    Filter,
    GroupBy,
    Limit,
    Plan,
    Project,
    Reference,
    Sort,
    Values,
    Window,
)
from unshuffle.rules.correlation import BOOLEAN, Columns, substituted

# What aggregates are over no rows. One that is in neither set may be anything, and is left alone.
ZERO = frozenset(("count", "count_if", "regr_count", "approx_count_distinct"))
NULL = frozenset(
    ("sum", "avg", "mean", "min", "max", "any", "some", "every", "bool_and", "bool_or", "any_value", "first",
     "first_value", "last", "last_value", "max_by", "min_by", "std", "stddev", "stddev_pop", "stddev_samp", "variance",
     "var_pop", "var_samp", "corr", "covar_pop", "covar_samp", "kurtosis", "skewness", "median", "percentile",
     "percentile_cont", "percentile_disc", "approx_percentile", "percentile_approx", "try_sum", "try_avg", "bit_and",
     "bit_or", "bit_xor")
)  # fmt: skip


def made_in(plan: Plan) -> Columns:
    """The columns of a plan's operators; a shared rowset's own are the same for all its uses."""
    if isinstance(plan, Reference):
        return frozenset(plan.columns)
    return frozenset(plan.columns).union(*map(made_in, plan.children))


def existing(plan: Plan) -> Plan:
    """A simpler plan that has a row if and only if this one has."""
    match plan:
        case Project(child) | Sort(child) | Distinct(child) | Window(child):
            return existing(child)
        case GroupBy(child, keys) if keys:
            return existing(child)
        case Limit(child, count, 0) if count is None or count > 0:
            return existing(child)
        case _:
            return plan


def is_one_row(plan: Plan) -> bool:
    """Does it yield exactly one row, whatever its input?"""
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
    """A one-row aggregate beneath a scalar subquery, and the subquery's value over its columns. HAVING leaves no row where
    it is not true, and the value of no row is NULL."""
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


# How `count <comparison> number` reads as a question whether there is a row.
_SOME = frozenset(((">", 0), (">=", 1), ("<>", 0)))
_NONE = frozenset((("=", 0), ("<", 1), ("<=", 0)))
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


def as_existence(condition: Expression) -> Expression:
    """`(select count(*) ...) > 0` as EXISTS, `= 0` as NOT EXISTS. A count is never NULL, so nothing is lost."""
    match condition:
        case Call(name, (ScalarSubquery() as subquery, Literal(number))):
            pass
        case Call(turned, (Literal(number), ScalarSubquery() as subquery)) if turned in _TURNED:
            name = _TURNED[turned]
        case _:
            return condition
    asked = (name, number)
    if (asked not in _SOME and asked not in _NONE) or type(number) is not int:
        return condition
    found = over_aggregates(subquery.plan)
    counted = found and _counted_rows(*found)
    if counted is None:
        return condition
    exists = Exists(counted, subquery.outer)
    return exists if asked in _SOME else Call("not", (exists,), BOOLEAN)


def _counted_rows(aggregation: GroupBy, value: Expression) -> Plan | None:
    match aggregation.aggregates:
        case ((column, AggregateCall("count", (Literal(one),), distinct=False, where=None)),) if value == Ref(column):
            return aggregation.child if one is not None else None
    return None
