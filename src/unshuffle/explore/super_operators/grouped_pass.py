"""Several groupings of one leaf by the same keys, in one pass: aggregates guarded by their branch's predicate.

    branch 1    count(*)  where p        group by a        count(*) filter (where p), max(x), count(1) filter (where p)
    branch 2    max(x)                   group by a        of the rows in which p or true, group by a

A branch has a row for a group only if some row of the group satisfies the branch's predicate, so the pass counts these rows
(section 3.2). Rows that no branch needs are filtered before the exchange. The exchange carries the result of a predicate
rather than the columns that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.explore.aggregation import is_repeatable_call
from unshuffle.explore.super_operators.abstract import Branch, Edge, cores, edges, reaches
from unshuffle.explore.super_operators.leaves import common_leaves
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import AggregateCall, Call, Case, Expression, Literal, Ref, columns_of, connect
from unshuffle.plan.logical import Filter, GroupBy, Plan, Project
from unshuffle.plan.movable_conditions import substitute
from unshuffle.plan.predicates import conjunction
from unshuffle.plan.safe_expressions import never_fails, shared_conjuncts
from unshuffle.search.memo import Group, Memo, as_group

ONE = Literal(1, pa.int32())
NONE = Literal(0, pa.int64())
BOOLEAN = pa.bool_()


# A grouping, and the edge that leads to it.
Reached = tuple[Edge, GroupBy]


def groupings(groups: Sequence[Group], is_wanted: Callable[[GroupBy], bool]) -> list[Reached] | None:
    """For each group, a grouping that an edge from it leads to; None if one has none."""
    if not all(reaches(group, GroupBy) for group in groups):
        return None
    found = []
    for group in groups:
        first = next((each for each in cores(group, GroupBy) if is_wanted(each[1])), None)
        if first is None:
            return None
        found.append(first)
    return found


def has_keys(grouping: GroupBy) -> bool:
    return bool(grouping.keys)


def branches_of(found: Sequence[Reached]) -> tuple[Plan, list[Branch]] | None:
    """Groupings as branches of one leaf; None if they have no common leaf or different keys (Algorithm 1)."""
    if not all(is_foldable(grouping) for _, grouping in found):
        return None
    below = [list(edges(_input(grouping))) for _, grouping in found]
    for leaf, chosen in common_leaves(below):
        branches = [Branch(above, grouping, edge) for (above, grouping), edge in zip(found, chosen, strict=True)]
        first = frozenset(branches[0].keys)
        asked = {branch.below.predicates for branch in branches}
        if len(asked) > 1 and not all(map(never_fails, first)):
            continue  # a key may be safe to compute only for the rows of its own branch
        if all(
            frozenset(branch.keys) == first and len(branch.keys) == len(branches[0].keys) for branch in branches[1:]
        ):
            return leaf, branches
    return None


def _input(grouping: GroupBy) -> Group:
    return as_group(grouping.child)


def is_foldable(grouping: GroupBy) -> bool:
    """Can its aggregates be computed from a stream of rows in which rows of other branches are mixed in? The code
    of an opaque aggregate takes no further FILTER."""
    return all(
        call.opaque is None and not call.distinct and not call.within and is_repeatable_call(call)
        for _, call in grouping.aggregates
    )


@dataclass(frozen=True, slots=True)
class GroupedPass:
    """The pass; and for each branch, its columns in terms of the pass, and the condition for it to have a row for a group."""

    plan: Plan
    keys: tuple[Column, ...]
    outputs: tuple[Mapping[Column, Expression], ...]
    present: tuple[Expression | None, ...]  # None: it has every group


def grouped_pass(leaf: Plan, branches: Sequence[Branch], memo: Memo) -> GroupedPass:
    return _Pass(leaf, branches, memo).built()


class _Pass:
    def __init__(self, leaf: Plan, branches: Sequence[Branch], memo: Memo) -> None:
        shared = shared_conjuncts([branch.below.predicates for branch in branches])
        self._leaf = leaf if not shared else Filter(leaf, connect("and", list(shared)))
        self._branches = [_without(branch, shared) for branch in branches]
        self._numbers = memo.numbers
        self._computed: dict[Expression, Column] = {}  # below the grouping: keys and flags
        self._aggregates: dict[AggregateCall, Column] = {}

    def built(self) -> GroupedPass:
        keys = {expression: self._key(expression, key) for expression, key in _keys(self._branches[0])}
        made = [self._branch(branch, keys) for branch in self._branches]
        grouped = GroupBy(self._input(keys.values()), tuple(keys.values()), self._calls())
        return GroupedPass(
            grouped, tuple(keys.values()), tuple(outputs for outputs, _ in made), tuple(present for _, present in made)
        )

    def _calls(self) -> tuple[tuple[Column, AggregateCall], ...]:
        return tuple((column, call) for call, column in self._aggregates.items())

    def _key(self, expression: Expression, named: Column) -> Column:
        if isinstance(expression, Ref):
            return expression.column
        self._computed[expression] = self._numbers.like(named)
        return self._computed[expression]

    def _branch(
        self, branch: Branch, keys: Mapping[Expression, Column]
    ) -> tuple[Mapping[Column, Expression], Expression | None]:
        predicate = conjunction(branch.below.predicates)
        outputs: dict[Column, Expression] = {column: Ref(keys[expression]) for expression, column in _keys(branch)}
        for column, call in branch.grouping.aggregates:
            below = branch.below.down(call)
            assert isinstance(below, AggregateCall)
            guard = self._flag(all_of(predicate, below.where))
            outputs[column] = Ref(self._aggregate(_guarded(below, guard), column))
        present = None
        if predicate is not None and keys:
            count = AggregateCall("count", (ONE,), NONE.type, where=self._flag(predicate))
            named = self._numbers.new("rows", NONE.type, nullable=False) if count not in self._aggregates else None
            present = Call(">", (Ref(self._aggregate(count, named)), NONE), BOOLEAN)
        return {column: substitute(e, outputs) for column, e in branch.above.outputs.items()}, all_of(
            present, *(substitute(each, outputs) for each in branch.above.predicates)
        )

    def _flag(self, predicate: Expression | None) -> Expression | None:
        """The result of a predicate as a column, which is exchanged instead of the columns that the predicate reads."""
        if predicate is None or isinstance(predicate, Ref):
            return predicate
        if predicate not in self._computed:
            self._computed[predicate] = self._numbers.new("flag", BOOLEAN)
        return Ref(self._computed[predicate])

    def _aggregate(self, call: AggregateCall, like: Column | None) -> Column:
        """Branches with the same aggregate share one column."""
        if call not in self._aggregates:
            assert like is not None
            self._aggregates[call] = self._numbers.like(like)
        return self._aggregates[call]

    def _input(self, keys: Iterable[Column]) -> Plan:
        """The rows that some branch needs, with the columns that are read."""
        wanted = [conjunction(branch.below.predicates) for branch in self._branches]
        rows = self._leaf
        some = [each for each in wanted if each is not None]
        if len(some) == len(wanted):
            rows = Filter(rows, connect("or", list(dict.fromkeys(some))))
        read = frozenset(keys).union(*(columns_of(call) for call in self._aggregates))
        return narrowed(rows, read, [(column, expression) for expression, column in self._computed.items()])


def _without(branch: Branch, shared: Sequence[Expression]) -> Branch:
    """The branch over rows that satisfy the shared predicates."""
    others = tuple(each for each in branch.below.predicates if each not in shared)
    return replace(branch, below=replace(branch.below, predicates=others))


def _guarded(call: AggregateCall, guard: Expression | None) -> AggregateCall:
    """The aggregate of the rows that satisfy the guard. FILTER alone does not protect its arguments: Spark computes an
    expression that two aggregates share once for every row, before their filters, and it may fail for other rows."""
    arguments = (each if isinstance(each, Ref | Literal) else when(guard, each) for each in call.arguments)
    return replace(call, arguments=tuple(arguments), where=guard)


def _keys(branch: Branch) -> Iterable[tuple[Expression, Column]]:
    return zip(branch.keys, branch.grouping.keys, strict=True)


def narrowed(rows: Plan, read: frozenset[Column], computed: Sequence[tuple[Column, Expression]]) -> Plan:
    """The rows with the columns that are read and some that are computed. No projection if nothing changes."""
    passed = tuple((column, Ref(column)) for column in rows.columns if column in read)
    return rows if not computed and len(passed) == len(rows.columns) else Project(rows, (*passed, *computed))


def all_of(*conditions: Expression | None) -> Expression | None:
    return conjunction(each for each in conditions if each is not None)


def when(condition: Expression | None, value: Expression) -> Expression:
    """The value where the condition holds, else NULL."""
    return value if condition is None else Case(((condition, value),), None, value.type)
