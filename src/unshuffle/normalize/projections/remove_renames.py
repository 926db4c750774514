"""Columns that only rename others are removed, and their readers read the originals.

A subquery, or a rowset with one reader, leaves a projection that gives its columns new identities. Between two joins such a
projection hides that the joins are adjacent and can be reordered. The operators above can read the original columns instead,
up to an operator for which the column identities matter: the root, inputs of set operations and user-defined operators,
shared rowsets, foreign queries. There one projection restores the names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import AggregateCall, Expression, Ref, WindowCall
from unshuffle.plan.logical import (
    Filter,
    GroupBy,
    Join,
    Limit,
    Plan,
    Project,
    Shared,
    Sort,
    Window,
    expressions_of,
)
from unshuffle.plan.movable_conditions import correlation_columns, substitute
from unshuffle.plan.rebuild import map_inputs, map_subqueries, with_inputs

Originals = Mapping[Column, Column]
_NONE: Originals = {}


def drop_renames(plan: Plan, context: Rewriting, nested: bool = True) -> Plan:
    """Lets the operators of a whole plan read original columns instead of renamed ones.

    Unsound where both inputs of a join would then have the same column. Not where a correlated subquery reads a renamed
    column in its plan.
    """
    if drop_renames.__name__ in context.disabled:
        return plan
    changed = _Dropping(nested).closed(plan)
    if changed is not plan:
        context.fired[drop_renames.__name__] += 1
    return changed


class _Dropping:
    def __init__(self, nested: bool) -> None:
        self._nested = nested
        self._shared: dict[int, Shared] = {}

    def closed(self, plan: Plan) -> Plan:
        """The plan without renames inside, with the columns that it had."""
        match plan:
            case Shared(child=child):
                return self._rowset(plan)
            case Sort(child) | Limit(child) | Filter(child):
                plan = self._subqueries(plan)
                below = self.closed(child)
                return plan if below is child else with_inputs(plan, (below,))
            case Project(child):
                plan = self._subqueries(plan)
                assert isinstance(plan, Project)
                below, originals = self._input(plan, child)
                if not originals:
                    return plan if below is child else replace(plan, child=below)
                refs = _refs(originals)
                return Project(below, tuple((column, substitute(e, refs)) for column, e in plan.outputs))
            case _:
                return _named(*self.plain(plan), plan.columns)

    def plain(self, plan: Plan) -> tuple[Plan, Originals]:
        """The plan without renames, and the original of each column that was renamed."""
        match plan:
            case Project() | Filter() | Sort() | Limit() | GroupBy() | Window():
                plan = self._subqueries(plan)
                assert isinstance(plan, Project | Filter | Sort | Limit | GroupBy | Window)
                return _over(plan, *self._input(plan, plan.child))
            case Join():
                plan = self._subqueries(plan)
                assert isinstance(plan, Join)
                return _joined(plan, self._input(plan, plan.left), self._input(plan, plan.right))
            case Shared():
                return self._rowset(plan), _NONE
            case _:
                return map_inputs(plan, self.closed, self._nested), _NONE

    def _subqueries(self, plan: Plan) -> Plan:
        return map_subqueries(plan, self.closed) if self._nested else plan

    def _input(self, plan: Plan, child: Plan) -> tuple[Plan, Originals]:
        """An input without renames; with its own columns if a subquery of the operator reads them in its plan."""
        if self._nested:
            taken = frozenset[Column]().union(*map(correlation_columns, expressions_of(plan)))
            if not taken.isdisjoint(child.columns):
                return self.closed(child), _NONE
        return self.plain(child)

    def _rowset(self, plan: Shared) -> Shared:
        if id(plan) not in self._shared:
            child = self.closed(plan.child)
            self._shared[id(plan)] = plan if child is plan.child else Shared(plan.name, child)
        return self._shared[id(plan)]


def _named(plan: Plan, originals: Originals, columns: Sequence[Column]) -> Plan:
    """The plan with the given columns restored."""
    if not originals and plan.columns == tuple(columns):
        return plan
    return Project(plan, tuple((column, Ref(originals.get(column, column))) for column in columns))


def _refs(originals: Originals) -> dict[Column, Expression]:
    return {column: Ref(original) for column, original in originals.items()}


def _over(
    plan: Project | Filter | Sort | Limit | GroupBy | Window, child: Plan, originals: Originals
) -> tuple[Plan, Originals]:
    """The operator over an input some of whose columns were replaced by their originals."""
    if isinstance(plan, Project):
        return _projected(plan, child, originals)
    if not originals:
        return (plan if child is plan.child else replace(plan, child=child)), _NONE
    refs = _refs(originals)
    match plan:
        case Filter(predicate=predicate):
            return Filter(child, substitute(predicate, refs)), originals
        case Sort(order=order):
            return Sort(child, tuple(replace(k, expression=substitute(k.expression, refs)) for k in order)), originals
        case Limit():
            return replace(plan, child=child), originals
        case GroupBy(keys=keys, aggregates=aggregates):
            grouped = tuple(dict.fromkeys(originals.get(key, key) for key in keys))
            calls = tuple((column, cast(AggregateCall, substitute(call, refs))) for column, call in aggregates)
            return GroupBy(child, grouped, calls), {key: originals[key] for key in keys if key in originals}
        case Window(calls=windows):
            made = tuple((column, cast(WindowCall, substitute(call, refs))) for column, call in windows)
            return Window(child, made), originals


def _projected(plan: Project, child: Plan, below: Originals) -> tuple[Plan, Originals]:
    refs = _refs(below)
    outputs: dict[Column, Expression] = {}
    originals: dict[Column, Column] = {}
    for column, expression in plan.outputs:
        made = substitute(expression, refs) if refs else expression
        if isinstance(made, Ref) and made.column != column:
            originals[column] = made.column
            outputs[made.column] = Ref(made.column)
        else:
            outputs[column] = made
    if not originals and not below:
        return (plan if child is plan.child else replace(plan, child=child)), _NONE
    if tuple(outputs) == child.columns and all(e == Ref(column) for column, e in outputs.items()):
        return child, originals
    return Project(child, tuple(outputs.items())), originals


def _joined(plan: Join, left: tuple[Plan, Originals], right: tuple[Plan, Originals]) -> tuple[Plan, Originals]:
    if not set(left[0].columns).isdisjoint(right[0].columns):
        right = _named(*right, plan.right.columns), _NONE
    if not set(left[0].columns).isdisjoint(right[0].columns):
        left = _named(*left, plan.left.columns), _NONE
    originals = {**left[1], **right[1]}
    if not originals:
        return map_inputs(plan, lambda each: left[0] if each is plan.left else right[0], nested=False), _NONE
    condition = None if plan.condition is None else substitute(plan.condition, _refs(originals))
    join = replace(plan, left=left[0], right=right[0], condition=condition, kept=None)
    made = {column: column for column in join.made}
    kept = tuple(dict.fromkeys(made[originals.get(column, column)] for column in plan.columns))
    if kept != join.made:
        join = replace(join, kept=kept)
    return join, {column: originals[column] for column in plan.columns if column in originals}
