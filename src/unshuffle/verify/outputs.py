"""The roots of a plan: outputs with their columns and order, spools, and uncorrelated subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column, names
from unshuffle.plan import logical
from unshuffle.plan.expressions import Ref, Subquery, walk
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Delivered,
    Dependencies,
    Exactly,
    Partitioned,
    Proof,
    RangeOrdered,
    Required,
    SinglePartition,
    Sorted,
    match,
)
from unshuffle.search.enforcers import sort_keys
from unshuffle.verify.derivation import Derivation, DerivedNode, check_root
from unshuffle.verify.invalid_plan import invalid_plan
from unshuffle.verify.rederive import to_logical

if TYPE_CHECKING:
    from unshuffle.optimizer import PlannedQuery


def check_outputs(optimized: PlannedQuery, derivation: Derivation) -> None:
    for output, plan in optimized.outputs:
        root = derivation.of(plan)
        check_root(root, tuple(output.plan.columns))
        if output.layout is None:
            check_order(root, required_order(output.plan))
        else:  # a stored layout has its own order, whatever the query says
            check_layout(root, output.layout)
    for spool in optimized.spools:
        check_root(derivation.of(spool.plan), spool.plan.columns)
    for query, plan in optimized.subqueries:
        check_root(derivation.of(plan), tuple(query.columns))
    _check_subqueries(optimized)


def required_order(plan: logical.Plan) -> tuple[Sorted, ...]:
    """The order that a query requires, as far as the columns of its result show it."""
    match plan:
        case logical.Sort(order=order):
            keys: list[Sorted] = []
            for key in order:
                if not isinstance(key.expression, Ref):
                    return ()  # Spark runs the sort as it is written
                keys.append(Sorted(key.expression.column, key.descending, key.nulls_first))
            return tuple(keys)
        case logical.Limit(child=child):
            return required_order(child)
        case logical.Project(child=child, outputs=outputs):
            renamed: dict[Column, Column] = {}
            for column, expression in outputs:
                if isinstance(expression, Ref):
                    renamed.setdefault(expression.column, column)
            visible: list[Sorted] = []
            for sort in required_order(child):
                if sort.column not in renamed:
                    break
                visible.append(sort.on(renamed[sort.column]))
            return tuple(visible)
        case _:
            return ()


def check_order(root: DerivedNode, keys: tuple[Sorted, ...]) -> None:
    if not is_ordered(root.delivered, keys, root.facts):
        order = ", ".join(map(str, keys))
        raise invalid_plan(root.node, f"must deliver rows in the order {order}, but delivers {root.delivered}")


def check_layout(root: DerivedNode, layout: Delivered) -> None:
    if not isinstance(match(root.delivered, required_layout(layout), root.facts), Proof):
        raise invalid_plan(root.node, f"must have the layout {layout}, but delivers {root.delivered}")


def required_layout(layout: Delivered) -> Required:
    """The requirement on an output that is stored in a layout."""
    partitioning = layout.partitioning
    if not isinstance(partitioning, Partitioned):
        return Required()
    # In a single partition, no row can be in a wrong one.
    is_single = partitioning.function.partitions == 1
    return Required(SinglePartition() if is_single else Exactly(partitioning), layout.local)


def is_ordered(delivered: Delivered, keys: tuple[Sorted, ...], facts: Dependencies) -> bool:
    """Are all rows in order: in a single partition, or in range partitions that are in order themselves? Keys that earlier
    keys determine, and constants, need no order."""
    needed = sort_keys(keys, facts)
    distributions = (SinglePartition(), RangeOrdered(needed)) if needed else ()
    return not needed or any(
        isinstance(match(delivered, Required(each, needed), facts), Proof) for each in distributions
    )


def _check_subqueries(optimized: PlannedQuery) -> None:
    """Every uncorrelated subquery has a plan. Its columns identify it, since no two plans deliver the same ones."""
    planned = {query.columns for query, _ in optimized.subqueries}
    for root in optimized.roots:
        for node in root.walk():
            for query in _uncorrelated_subqueries(node):
                if query.columns not in planned:
                    raise invalid_plan(node, f"reads {names(query.columns)} of a subquery that has no plan")


def _uncorrelated_subqueries(node: PhysicalPlan) -> list[logical.Plan]:
    if not node.inputs:
        return []
    plan = to_logical(node.operator, [each.columns for each in node.inputs])
    expressions = logical.expressions_of(plan)
    return [p.plan for e in expressions for p in walk(e) if isinstance(p, Subquery) and not p.outer]
