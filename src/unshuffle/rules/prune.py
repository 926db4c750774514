"""Columns that nobody reads are dropped as early as can be.

Two questions an operator: which columns of its inputs does it need, if these of its own are needed (`_needs`), and what is
it without the rest (`_Pruning.without_rest`). A join says itself which columns go on (`kept`). Below an operator that may
move or keep many rows (a join, a group-by, a sort, a window, a set operation) the rows are made exactly as narrow as it needs
them, by a Projection where the input cannot do it itself: a column that only a filter below reads is not shuffled.

The columns of the root stay. So do those that user-defined operators and foreign queries see, who know them by name; what
REQUIRED leaves out, the binder has already projected away. A shared rowset keeps what any of its uses needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.algebra.expressions import Expression, Ref, columns_of
from unshuffle.algebra.facts import facts_of
from unshuffle.algebra.logical import (
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
    walk,
)
from unshuffle.catalog.schema import Column
from unshuffle.properties import restrict
from unshuffle.properties.through import through_project
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import map_subqueries, subqueries_of, with_inputs

Columns = frozenset[Column]
# Operators that had no column to drop, by their ids and what was needed of them.
Pruned = dict[tuple[int, Columns], Plan]
# A window goes with its last column, and filters may pass where it stood.
DROP_WINDOW = "drop_unread_window"


def prune_columns(plan: Plan, context: Rewriting, nested: bool = True, done: Pruned | None = None) -> Plan:
    """A whole plan, of which every column is needed, without the columns that are not.

    Not below DISTINCT, INTERSECT and EXCEPT, nor grouping columns: there a column tells rows apart even if nobody reads it.
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
        self._wanted: dict[int, set[int]] = {}  # places of a shared rowset's columns that some use needs
        self._shared: dict[int, Shared] = {}
        self.dropped = 0  # windows of which no column was read

    def gather(self, plan: Plan, needed: Columns) -> None:
        """Finds what the uses of each shared rowset need together, before any of them is pruned."""
        needed = _at_least_one(plan, needed)
        if isinstance(plan, Reference):
            known = self._wanted.setdefault(id(plan.rowset), set())
            places = {place for place, column in enumerate(plan.columns) if column in needed} | known
            if places != known:
                known |= places
                self.gather(plan.rowset.child, frozenset(plan.rowset.columns[place] for place in places))
            return
        if self._nested:
            for inner in subqueries_of(plan):
                self.gather(inner, frozenset(inner.columns))
        for child, columns in zip(plan.children, _needs(plan, needed), strict=True):
            self.gather(child, columns)

    def prune(self, plan: Plan, needed: Columns) -> Plan:
        """The plan with the needed columns, and no others that it can do without."""
        needed = _at_least_one(plan, needed)
        if (id(plan), needed) in self._done:
            return plan
        pruned = self._pruned(plan, needed)
        # Of a shared rowset other uses may need more another time.
        if pruned is plan and not self._wanted:
            self._done[id(plan), needed] = plan
        return pruned

    def _pruned(self, plan: Plan, needed: Columns) -> Plan:
        if self._nested:
            plan = map_subqueries(plan, lambda inner: self.prune(inner, frozenset(inner.columns)))
        if isinstance(plan, Reference):
            return self._reference(plan)
        wanted = _needs(plan, needed)
        # A row at a time, or few: what they read but do not yield costs nothing between them and their input.
        change = self.prune if isinstance(plan, Project | Filter | Limit) else self._exactly
        inputs = [change(child, columns) for child, columns in zip(plan.children, wanted, strict=True)]
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
        rowset = plan.rowset
        places = sorted(self._wanted[id(rowset)])
        if id(rowset) not in self._shared:
            child = self._exactly(rowset.child, frozenset(rowset.columns[place] for place in places))
            self._shared[id(rowset)] = rowset if child is rowset.child else Shared(rowset.name, child)
        if self._shared[id(rowset)] is rowset:
            return plan
        return Reference(self._shared[id(rowset)], tuple(plan.columns[place] for place in places))


def _needs(plan: Plan, needed: Columns) -> Sequence[Columns]:
    """The columns of each input that an operator reads, to yield the needed ones."""
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
    """The operator alone without what it need not yield; its inputs are as they were."""
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
    if len(columns) == len(plan.columns) or not _goes_by_name(plan.files.format):
        return plan
    if not plan.keys and not plan.dependencies and plan.layout is None:
        return replace(plan, columns=columns)
    # What was only known through a column that goes is said of those that stay: a -> b and b -> c leave a -> c, and files
    # hashed on b are laid out by some function of a.
    known = facts_of(plan, ())
    layout = through_project(plan.layout, known, columns) if plan.layout is not None else None
    facts = restrict(known, columns)
    keys = tuple(sorted(facts.keys, key=lambda key: sorted(column.id for column in key)))
    return replace(plan, columns=columns, keys=keys, dependencies=facts.functional, layout=layout)


def _goes_by_name(format: Format | UserClass) -> bool:
    """Can some of the columns be read without the others? Lines, CSV without a header and a user's own extractor know
    them by their places."""
    if isinstance(format, UserClass):
        return False
    header = any(name.lower() == "header" and str(value).lower() == "true" for name, value in format.options)
    return format.name.lower() in ("parquet", "json") or (format.name.lower() in ("csv", "tsv") and header)


def _join(plan: Join, inputs: Sequence[Plan]) -> Join:
    join = replace(plan, left=inputs[0], right=inputs[1])
    if join.kept is None:
        # All columns are needed, and still in the inputs: nothing to leave out.
        return join
    return replace(join, kept=None) if join.kept == join.made else join


def _at_least_one(plan: Plan, needed: Columns) -> Columns:
    """A rowset without columns has rows all the same, which SQL cannot say: one column stands for them."""
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
    """Narrow before wide, the smaller number first among equals."""
    try:
        return (column.type.bit_width if column.type is not None else 1000, column.id)
    except ValueError:
        return (1000 if pa.types.is_nested(column.type) else 500, column.id)


def _read(expressions: Iterable[Expression]) -> Columns:
    return frozenset[Column]().union(*map(columns_of, expressions))


RULES = (prune_columns,)  # of a whole plan, not of an operator
