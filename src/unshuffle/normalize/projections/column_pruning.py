"""Columns that nobody reads are dropped as early as possible.

For each operator there are two questions: which columns of its inputs does it need to produce the columns needed of it
(`_needs`), and what is the operator without its other columns (`_narrowed`)? A join lists the columns that it produces
(`kept`). Below an operator that may exchange or hold many rows (a join, group-by, sort, window or set operation) the rows
have exactly the columns that it needs, with a Project where the input cannot drop columns itself. So a column that only a
filter below reads is not shuffled.

The columns of the root stay. So do those of the inputs of user-defined operators and foreign queries, which know them by
name; the binder has already applied REQUIRED. A shared rowset keeps the columns that any of its readers needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import Expression, Ref, columns_of
from unshuffle.plan.facts import facts_of
from unshuffle.plan.logical import (
    Expand,
    Filter,
    Format,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    Plan,
    Project,
    Reference,
    Scan,
    SetKind,
    SetOperation,
    Shared,
    Sort,
    UserClass,
    Values,
    Window,
    subqueries_of,
    walk,
)
from unshuffle.plan.rebuild import map_subqueries, with_inputs
from unshuffle.properties import restrict
from unshuffle.properties.layouts.propagate import through_project

Columns = frozenset[Column]
# Operators without a column to drop, by their id and the columns needed of them.
Pruned = dict[tuple[int, Columns], Plan]
# A window without columns is removed, and filters may then move past its place.
DROP_WINDOW = "drop_unread_window"


def prune_columns(plan: Plan, context: Rewriting, nested: bool = True, done: Pruned | None = None) -> Plan:
    """Removes columns that nobody reads from a whole plan. All columns of its root are read.

    Unsound below DISTINCT, INTERSECT and EXCEPT, and for grouping columns: they distinguish rows even if nobody reads them.
    """
    if prune_columns.__name__ in context.disabled:
        return plan
    pruning = _Pruning(nested, {} if done is None else done)
    needed = frozenset(plan.columns)
    if any(isinstance(node, Reference) for node in walk(plan)):
        pruning.gather(plan, needed)
    pruned = pruning.prune(plan, needed)
    if pruned is not plan:
        context.fired[prune_columns.__name__] += 1
    if pruning.dropped:
        context.fired[DROP_WINDOW] += pruning.dropped
    return pruned


class _Pruning:
    def __init__(self, nested: bool, done: Pruned) -> None:
        self._nested = nested  # may expressions hold plans?
        self._done = done
        self._needed_of: dict[int, set[int]] = {}  # positions of a shared rowset's columns that some reader needs
        self._shared: dict[int, Shared] = {}
        self.dropped = 0  # windows without a column that is read

    def gather(self, plan: Plan, needed: Columns) -> None:
        """Collects the columns that the readers of each shared rowset need, before any reader is pruned."""
        needed = _at_least_one(plan, needed)
        if isinstance(plan, Reference):
            known = self._needed_of.setdefault(id(plan.rowset), set())
            places = {place for place, column in enumerate(plan.columns) if column in needed} | known
            if places != known:
                known |= places
                self.gather(plan.shared.child, frozenset(plan.rowset.columns[place] for place in places))
            return
        if self._nested:
            for inner in subqueries_of(plan):
                self.gather(inner, frozenset(inner.columns))
        for child, columns in zip(plan.children, _needs(plan, needed), strict=True):
            self.gather(child, columns)

    def prune(self, plan: Plan, needed: Columns) -> Plan:
        """The plan with the needed columns, and without others that it need not have."""
        needed = _at_least_one(plan, needed)
        if (id(plan), needed) in self._done:
            return plan
        pruned = self._pruned(plan, needed)
        # Other readers of a shared rowset may need more columns in a later round.
        if pruned is plan and not self._needed_of:
            self._done[id(plan), needed] = plan
        return pruned

    def _pruned(self, plan: Plan, needed: Columns) -> Plan:
        if self._nested:
            plan = map_subqueries(plan, lambda inner: self.prune(inner, frozenset(inner.columns)))
        if isinstance(plan, Reference):
            return self._reference(plan)
        below = _needs(plan, needed)
        # These operators process a row at a time, or few rows: columns that only they read cost nothing.
        change = self.prune if isinstance(plan, Project | Filter | Limit) else self._exactly
        inputs = [change(child, columns) for child, columns in zip(plan.children, below, strict=True)]
        narrow = _narrowed(plan, needed)
        if isinstance(narrow, Window) and not narrow.calls:
            self.dropped += 1
            return inputs[0]
        if all(new is old for new, old in zip(inputs, plan.children, strict=True)):
            return narrow
        return _join(narrow, inputs) if isinstance(narrow, Join) else with_inputs(narrow, inputs)

    def _exactly(self, plan: Plan, needed: Columns) -> Plan:
        needed = _at_least_one(plan, needed)
        pruned = self.prune(plan, needed)
        kept = [column for column in pruned.columns if column in needed]
        if len(kept) == len(pruned.columns):
            return pruned
        return Project(pruned, tuple((column, Ref(column)) for column in kept))

    def _reference(self, plan: Reference) -> Plan:
        rowset = plan.shared
        places = sorted(self._needed_of[id(rowset)])
        if id(rowset) not in self._shared:
            child = self._exactly(rowset.child, frozenset(rowset.columns[place] for place in places))
            self._shared[id(rowset)] = rowset if child is rowset.child else Shared(rowset.name, child)
        if self._shared[id(rowset)] is rowset:
            return plan
        return Reference(self._shared[id(rowset)], tuple(plan.columns[place] for place in places))


def _needs(plan: Plan, needed: Columns) -> Sequence[Columns]:
    """The columns of each input that an operator needs to produce the needed columns."""
    match plan:
        case Project(outputs=outputs):
            return (_read(expression for column, expression in outputs if column in needed),)
        case Filter(predicate=predicate):
            return (needed | columns_of(predicate),)
        case GroupBy(keys=keys, aggregates=aggregates):
            return (frozenset(keys) | _read(call for column, call in aggregates if column in needed),)
        case GroupingSets(keys=pairs, aggregates=aggregates):
            grouped = frozenset(column for _, column in pairs)
            return (grouped | _read(call for column, call in aggregates if column in needed),)
        case Expand(child, pairs):
            return ((needed & frozenset(child.columns)) | {column for _, column in pairs},)
        case Window(child, calls):
            return ((needed & frozenset(child.columns)) | _read(call for column, call in calls if column in needed),)
        case Sort(order=order):
            return (needed | _read(key.expression for key in order),)
        case Limit():
            return (needed,)
        case Join(left=left, right=right, condition=condition):
            both = needed if condition is None else needed | columns_of(condition)
            return both & frozenset(left.columns), both & frozenset(right.columns)
        case SetOperation(SetKind.UNION, True, inputs, columns):
            places = [place for place, column in enumerate(columns) if column in needed]
            return [frozenset(each.columns[place] for place in places) for each in inputs]
        case _:
            return [frozenset(each.columns) for each in plan.children]


def _narrowed(plan: Plan, needed: Columns) -> Plan:
    """The operator without the columns that nobody needs, over unchanged inputs."""
    match plan:
        case Project(outputs=outputs):
            kept = tuple(each for each in outputs if each[0] in needed)
            return plan if len(kept) == len(outputs) else replace(plan, outputs=kept)
        case GroupBy(aggregates=aggregates) | GroupingSets(aggregates=aggregates):
            wanted = tuple(each for each in aggregates if each[0] in needed)
            return plan if len(wanted) == len(aggregates) else replace(plan, aggregates=wanted)
        case Window(calls=calls):
            computed = tuple(each for each in calls if each[0] in needed)
            return plan if len(computed) == len(calls) else replace(plan, calls=computed)
        case Join():
            columns = tuple(column for column in plan.columns if column in needed)
            return plan if len(columns) == len(plan.columns) else replace(plan, kept=columns)
        case SetOperation(SetKind.UNION, True):
            columns = tuple(column for column in plan.columns if column in needed)
            return plan if len(columns) == len(plan.columns) else replace(plan, columns=columns)
        case Values(rows, columns):
            places = [place for place, column in enumerate(columns) if column in needed]
            if len(places) == len(columns):
                return plan
            return Values(tuple(tuple(row[p] for p in places) for row in rows), tuple(columns[p] for p in places))
        case Scan():
            return _scan(plan, needed)
        case _:
            return plan


def _scan(plan: Scan, needed: Columns) -> Scan:
    columns = tuple(column for column in plan.columns if column in needed)
    if len(columns) == len(plan.columns) or not _identifies_by_name(plan.files.format):
        return plan
    if not plan.keys and not plan.dependencies and plan.layout is None:
        return replace(plan, columns=columns)
    # Facts that involve a dropped column are restated without it: a -> b and b -> c leave a -> c, and files hashed on b are
    # partitioned by a function of a.
    known = facts_of(plan, ())
    layout = through_project(plan.layout, known, columns) if plan.layout is not None else None
    facts = restrict(known, columns)
    keys = tuple(sorted(facts.keys, key=lambda key: sorted(column.id for column in key)))
    return replace(plan, columns=columns, keys=keys, dependencies=facts.functional, layout=layout)


def _identifies_by_name(format: Format | UserClass) -> bool:
    """Does the format identify columns by name, so that some can be skipped? Lines, CSV without a header and user-defined
    extractors identify them by position."""
    if isinstance(format, UserClass):
        return False
    header = any(name.lower() == "header" and str(value).lower() == "true" for name, value in format.options)
    return format.name.lower() in ("parquet", "json") or (format.name.lower() in ("csv", "tsv") and header)


def _join(plan: Join, inputs: Sequence[Plan]) -> Join:
    join = replace(plan, left=inputs[0], right=inputs[1])
    if join.kept is None:
        # All columns are needed, and the inputs have no others.
        return join
    return replace(join, kept=None) if join.kept == join.made else join


def _at_least_one(plan: Plan, needed: Columns) -> Columns:
    """SQL has no rowset without columns. If no column is needed, one stays to carry the rows."""
    columns = plan.columns
    found = needed.intersection(columns)
    if found or not columns:
        return found
    match plan:
        case GroupBy(keys=(first, *_)):
            return frozenset((first,))
        case Window(child) | Expand(child):
            return _at_least_one(child, needed)
        case _:
            return frozenset((min(columns, key=_width),))


def _width(column: Column) -> tuple[int, int]:
    """Sorts narrow columns first, and among equals the one with the smaller number."""
    try:
        return (column.type.bit_width if column.type is not None else 1000, column.id)
    except ValueError:
        return (1000 if pa.types.is_nested(column.type) else 500, column.id)


def _read(expressions: Iterable[Expression]) -> Columns:
    return frozenset[Column]().union(*map(columns_of, expressions))
