"""Keys of joins and sorts as columns: an exchange or a sort by a column serves every operator that needs that column."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.projections.computed_columns import ComputedColumns, only, with_columns
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.subqueries.correlation import has_subquery
from unshuffle.plan.expressions import Call, Expression, Ref, columns_of
from unshuffle.plan.logical import Join, Plan, Sort
from unshuffle.plan.predicates import conjunction, conjuncts, is_deterministic
from unshuffle.plan.safe_expressions import never_fails


def compute_join_keys(plan: Plan, context: Rewriting) -> Plan | None:
    """In `substring(a, 1, 2) = b` the left input can compute its side as a column. The column has the expression's type, so
    the comparison is the same.

    Unsound for an expression that is not deterministic. Not for one that reads both inputs.
    """
    if not isinstance(plan, Join):
        return None
    left, right = frozenset(plan.left.columns), frozenset(plan.right.columns)
    sides = ComputedColumns(context.numbers), ComputedColumns(context.numbers)
    conditions: list[Expression] = []
    for part in conjuncts(plan.condition):
        match part:
            case Call("=" | "<=>", (one, other)) if _reads(one, left) and _reads(other, right):
                keys = (Ref(sides[0].column(one, "key")), Ref(sides[1].column(other, "key")))
                conditions.append(replace(part, arguments=keys))
            case Call("=" | "<=>", (other, one)) if _reads(one, left) and _reads(other, right):
                keys = (Ref(sides[1].column(other, "key")), Ref(sides[0].column(one, "key")))
                conditions.append(replace(part, arguments=keys))
            case _:
                conditions.append(part)
    if not any(sides):
        return None
    inputs = [_with(each, side) for each, side in zip(plan.children, sides, strict=True)]
    keyed = Join(plan.kind, inputs[0], inputs[1], conjunction(conditions), plan.kept)
    return keyed if keyed.columns == plan.columns else replace(keyed, kept=plan.columns)


def _reads(expression: Expression, columns: frozenset[Column]) -> bool:
    read = columns_of(expression)
    return bool(read) and read <= columns and is_deterministic(expression) and not has_subquery(expression)


def _with(plan: Plan, computed: ComputedColumns) -> Plan:
    for column, expression in computed.expressions:
        plan = _with_column(plan, column, expression)
    return plan


def _with_column(plan: Plan, column: Column, expression: Expression) -> Plan:
    """Computes the column below inner joins, so that these stay adjacent and can be reordered. An expression that may fail
    stays above: it must not see rows that a join drops."""
    if isinstance(plan, Join) and plan.kind is JoinKind.INNER and never_fails(expression):
        read = columns_of(expression)
        kept = None if plan.kept is None else (*plan.kept, column)
        if read <= frozenset(plan.left.columns):
            return replace(plan, left=_with_column(plan.left, column, expression), kept=kept)
        if read <= frozenset(plan.right.columns):
            return replace(plan, right=_with_column(plan.right, column, expression), kept=kept)
    return with_columns(plan, ((column, expression),))


def compute_sort_keys(plan: Plan, context: Rewriting) -> Plan | None:
    """A sort by an expression is a sort by a column that holds its value. Unsound if it is not deterministic."""
    if not isinstance(plan, Sort):
        return None
    computed = ComputedColumns(context.numbers)
    order = []
    for key in plan.order:
        if is_deterministic(key.expression) and not has_subquery(key.expression):
            key = replace(key, expression=Ref(computed.column(key.expression, "key")))
        order.append(key)
    return only(Sort(computed.below(plan.child), tuple(order)), plan.columns) if computed else None
