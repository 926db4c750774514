"""Filters of a shared rowset by what all of its uses keep.

A rowset that is computed once for several uses would be computed whole, however few of its rows each use keeps. A row that no
use keeps is dropped before.

    inv is used twice: with d_moy = 1, and with d_moy = 2
        the rowset is filtered by d_moy = 1 or d_moy = 2, and that filter is pushed down to the calendar

For each column, a use keeps rows by those of its conditions that read this column alone. The rowset is filtered by their
disjunction over all uses. A filter of one column can be pushed down further than one of several. The filters of the uses
stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unshuffle.catalog.schema import Column
from unshuffle.normalize.predicates.implied_predicates import holds
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import Expression, Ref, columns_of, connect
from unshuffle.plan.logical import Filter, Plan, Reference, Shared, subqueries_of
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjunction, conjuncts
from unshuffle.plan.rebuild import map_inputs

Conditions = Mapping[Column, Expression]  # of one use, by the column of the rowset that they read


def filter_shared_rowsets(plan: Plan, context: Rewriting, nested: bool = True) -> Plan:
    """Drops rows of a shared rowset that none of its uses keeps.

    Unsound if a use is overlooked. So a rowset that is used in a subquery, whose plan is part of an expression, is left
    alone.
    """
    if filter_shared_rowsets.__name__ in context.disabled:
        return plan
    uses = _Uses(nested)
    uses.find(plan)
    filters = {key: found for key, found in uses.filters() if found is not None}
    if not filters:
        return plan
    context.fired[filter_shared_rowsets.__name__] += 1
    return _filtered(plan, filters, {})


class _Uses:
    """The conditions of every use of every shared rowset in a plan."""

    def __init__(self, nested: bool) -> None:
        self._nested = nested  # may expressions hold plans?
        self._rowsets: dict[int, Shared] = {}
        self._conditions: dict[int, list[Conditions]] = {}
        self._in_subqueries: set[int] = set()

    def find(self, plan: Plan, predicates: Sequence[Expression] = (), in_subquery: bool = False) -> None:
        """`predicates` are the conditions that are applied directly to the plan."""
        if isinstance(plan, Reference):
            self._use(plan, predicates, in_subquery)
            return
        for inner in subqueries_of(plan) if self._nested else ():
            self.find(inner, (), in_subquery=True)
        below = (*predicates, *conjuncts(plan.predicate)) if isinstance(plan, Filter) else ()
        for child in plan.children:
            self.find(child, below, in_subquery)

    def _use(self, plan: Reference, predicates: Sequence[Expression], in_subquery: bool) -> None:
        rowset = plan.shared
        key = id(rowset)
        is_new = in_subquery and key not in self._in_subqueries
        if in_subquery:
            self._in_subqueries.add(key)
        self._conditions.setdefault(key, []).append(_by_column(plan, predicates))
        if key not in self._rowsets or is_new:
            self._rowsets[key] = rowset
            self.find(rowset.child, (), in_subquery)

    def filters(self) -> list[tuple[int, Expression | None]]:
        """The filter of each rowset, None if it would drop nothing."""
        return [
            (key, conjunction(_of_all(rowset, self._conditions[key])))
            for key, rowset in self._rowsets.items()
            if key not in self._in_subqueries
        ]


def _by_column(use: Reference, predicates: Sequence[Expression]) -> Conditions:
    originals = dict(zip(use.columns, map(Ref, use.rowset.columns), strict=True))
    found: dict[Column, list[Expression]] = {}
    for each in predicates:
        read = columns_of(each)
        if len(read) == 1 and is_movable(each):
            (column,) = read
            found.setdefault(originals[column].column, []).append(substitute(each, originals))
    return {column: kept for column, parts in found.items() if (kept := conjunction(parts)) is not None}


def _of_all(rowset: Shared, uses: Sequence[Conditions]) -> list[Expression]:
    """What every row satisfies that some use keeps, beyond what every row of the rowset satisfies."""
    found = []
    for column in rowset.columns:
        if all(column in use for use in uses):
            alternatives = tuple(dict.fromkeys(use[column] for use in uses))
            kept = connect("or", alternatives) if len(alternatives) > 1 else alternatives[0]
            if not all(holds(rowset.child, each) for each in conjuncts(kept)):
                found.append(kept)
    return found


def _filtered(plan: Plan, filters: Mapping[int, Expression], done: dict[int, Shared]) -> Plan:
    if not isinstance(plan, Reference):
        return map_inputs(plan, lambda child: _filtered(child, filters, done))
    rowset = plan.shared
    if id(rowset) not in done:
        child = _filtered(rowset.child, filters, done)
        if id(rowset) in filters:
            child = Filter(child, filters[id(rowset)])
        done[id(rowset)] = rowset if child is rowset.child else Shared(rowset.name, child)
    made = done[id(rowset)]
    return plan if made is rowset else Reference(made, plan.columns)
