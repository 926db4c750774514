"""The roots of a plan: each output with its columns and in its order, each spool and each subquery that stands alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.algebra import logical
from unshuffle.algebra.expressions import Ref, Subquery, walk
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.schema import Column, names
from unshuffle.properties import (
    Delivered,
    Dependencies,
    Exactly,
    OnePartition,
    Partitioned,
    Proof,
    RangeOrdered,
    Required,
    Sorted,
    match,
)
from unshuffle.search.enforcers import sort_keys
from unshuffle.verify.derivation import Derivation, Standing, check_planned
from unshuffle.verify.rederive import read_back
from unshuffle.verify.refusal import refused

if TYPE_CHECKING:
    from unshuffle.optimizer import Optimized


def check_outputs(optimized: Optimized, derivation: Derivation) -> None:
    for output, plan in optimized.outputs:
        root = derivation.of(plan)
        check_planned(root, tuple(output.plan.columns))
        if output.layout is None:
            check_order(root, asked_order(output.plan))
        else:  # in its own order, whatever the query says
            check_layout(root, output.layout)
    for spool in optimized.spools:
        check_planned(derivation.of(spool.plan), spool.plan.columns)
    for asked, plan in optimized.subqueries:
        check_planned(derivation.of(plan), tuple(asked.columns))
    _check_subqueries(optimized)


def asked_order(plan: logical.Plan) -> tuple[Sorted, ...]:
    """The order that a query asks for, in the columns of its result, as far as they tell it."""
    match plan:
        case logical.Sort(order=order):
            keys: list[Sorted] = []
            for key in order:
                if not isinstance(key.expression, Ref):
                    break
                keys.append(Sorted(key.expression.column, key.descending, key.nulls_first))
            return tuple(keys)
        case logical.Limit(child=child):
            return asked_order(child)
        case logical.Project(child=child, outputs=outputs):
            known: dict[Column, Column] = {}
            for column, expression in outputs:
                if isinstance(expression, Ref):
                    known.setdefault(expression.column, column)
            kept: list[Sorted] = []
            for sort in asked_order(child):
                if sort.column not in known:
                    break
                kept.append(sort.on(known[sort.column]))
            return tuple(kept)
        case _:
            return ()


def check_order(root: Standing, keys: tuple[Sorted, ...]) -> None:
    if not in_order(root.delivered, keys, root.facts):
        wanted = ", ".join(map(str, keys))
        raise refused(root.node, f"must yield rows in the order {wanted}, but delivers {root.delivered}")


def check_layout(root: Standing, wanted: Delivered) -> None:
    place = wanted.partitioning
    required = Required(Exactly(place), wanted.local) if isinstance(place, Partitioned) else Required()
    if not isinstance(match(root.delivered, required, root.facts), Proof):
        raise refused(root.node, f"must yield rows laid out {wanted}, but delivers {root.delivered}")


def in_order(delivered: Delivered, keys: tuple[Sorted, ...], facts: Dependencies) -> bool:
    """Are all rows in order: those of one partition, or of partitions that are in order themselves? What is determined by
    the keys before it puts nothing in order, and a constant never does."""
    by = sort_keys(keys, facts)
    places = (OnePartition(), RangeOrdered(by)) if by else ()
    return not by or any(isinstance(match(delivered, Required(each, by), facts), Proof) for each in places)


def _check_subqueries(optimized: Optimized) -> None:
    """Every subquery that stands alone has a plan. Its columns tell which: no two plans yield the same ones."""
    planned = {asked.columns for asked, _ in optimized.subqueries}
    for root in optimized.roots:
        for node in root.walk():
            for asked in _standing_alone(node):
                if asked.columns not in planned:
                    raise refused(node, f"asks a subquery for {names(asked.columns)} that has no plan")


def _standing_alone(node: Physical) -> list[logical.Plan]:
    if not node.inputs:
        return []
    plan = read_back(node.operator, [each.columns for each in node.inputs])
    expressions = logical.expressions_of(plan)
    return [p.plan for e in expressions for p in walk(e) if isinstance(p, Subquery) and not p.outer]
