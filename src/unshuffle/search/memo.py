"""The memo: groups of logical expressions that yield the same rows, each group's facts and size derived once.

An expression is a logical operator whose inputs are groups. Inserting the same operator over the same groups twice gives
the group that it is already in, so shared work is found, not repeated. Exploration rules add expressions to a group, each
rule once for each expression; the budget bounds how many there may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from unshuffle.algebra.facts import facts_of, has_facts
from unshuffle.algebra.logical import (
    Combine,
    Filter,
    Foreign,
    Limit,
    PartialTop,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Shared,
    TableScan,
    expressions_of,
)
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.properties import Dependencies, Partitioned, Sorted, Within
from unshuffle.search.ranges import Spread
from unshuffle.search.trace import Trace


class Sizes(Protocol):
    """What the search asks of an estimate."""

    @property
    def rows(self) -> float: ...

    def width(self, columns: Iterable[Column]) -> float: ...

    def largest_share(self, columns: Iterable[Column]) -> float: ...

    def distinct(self, columns: Iterable[Column]) -> float: ...

    @property
    def columns(self) -> Mapping[Column, ColumnStatistics]: ...

    def kept(self, column: Column) -> float: ...

    def counted_on(self, column: Column) -> float: ...


Estimator = Callable[[Plan, Sequence[Any], Dependencies], Any]
Explore = Callable[[Plan, "Memo"], Iterator[Plan]]


class Group:
    """Expressions with the same rows and columns. Compared by identity."""

    def __init__(self, number: int, columns: tuple[Column, ...]) -> None:
        self.number = number
        self.columns = columns
        self.column_set = frozenset(columns)
        self.expressions: list[Plan] = []
        self.name: str | None = None  # of a shared rowset
        self.goals: dict[Any, Any] = {}
        self.natural: dict[Any, Any] = {}
        self.implementations: list[Any] | None = None
        # Column sets that some operator above, or below, would like rows to be laid out by (search.interest).
        self.above: tuple[frozenset[Column], ...] = ()
        self.below: tuple[frozenset[Column], ...] = ()
        self.origins: tuple[frozenset[Column], ...] = ()  # columns that come from one input, or from one further below
        self.counts: tuple[int, ...] = ()
        self.ordered: frozenset[Column] = frozenset()  # wanted in order, from one partition to the next
        self.stored = False  # is there a stored layout somewhere below?
        self.lies: tuple[Partitioned | Within, ...] = ()  # stored ranges that may come out
        # How rows lie that come from stored ranges, and by the values that were counted of a column (search.ranges).
        self.spreads: tuple[Spread, ...] = ()
        self.counted: dict[Sorted, Spread | None] = {}
        # What any plan of the group costs at the least, and any exchange of it; the largest shares found so far.
        self.floors: list[float] = []
        self.least_move = 0.0
        self.again = 0.0  # seconds to compute the rows once more from the exchanges and files that they come from
        self.shares: dict[Any, float] = {}
        self._facts: Dependencies | None = None
        self._wide: Dependencies | None = None
        self._estimate: Any = None
        self._width: float | None = None

    @property
    def children(self) -> tuple[Group, ...]:
        return ()

    @property
    def facts(self) -> Dependencies:
        assert self._facts is not None
        return self._facts

    @property
    def waits(self) -> bool:
        """Does it take an exchange, or another input, to compute its rows? Not where they are read, chosen and computed."""
        first = self.expressions[0]
        if isinstance(first, Project | Filter):
            return cast(Group, first.child).waits
        return bool(first.children)

    @property
    def estimate(self) -> Any:
        return self._estimate

    @property
    def rows(self) -> float:
        return float(self._estimate.rows)

    @property
    def bytes(self) -> float:
        if self._width is None:
            self._width = float(self._estimate.width(self.columns))
        return self._width * self.rows

    def __repr__(self) -> str:
        return f"group {self.number}"


class Memo:
    def __init__(
        self,
        estimator: Estimator,
        rules: Sequence[Explore],
        numbers: ColumnNumbers,
        trace: Trace,
        expressions: int = 2000,
    ) -> None:
        self.groups: list[Group] = []
        self.numbers = numbers
        self.trace = trace
        self.budget = expressions
        self.spent = False
        self._estimator = estimator
        self._rules = rules
        self._table: dict[Plan, Group] = {}
        self._shared: dict[int, tuple[Shared, Group]] = {}
        self._inserted = 0
        self._rule: str | None = None  # that is at work
        self._made_by: dict[Plan, str] = {}

    def insert(self, plan: Plan | Group, into: Group | None = None) -> Group:
        """The group of a plan, whose leaves may be groups already. With `into`, one more expression of that group."""
        if isinstance(plan, Group):
            return plan
        if isinstance(plan, Shared):
            return self._insert_shared(plan)
        node = with_inputs(plan, [self.insert(cast("Plan | Group", child)) for child in plan.children])
        known = self._table.get(node)
        if known is not None:
            return known
        if into is not None and _reaches(cast("tuple[Group, ...]", node.children), into):
            return into  # two rules that undo each other: a group must not be made of itself
        group = into or self._new(plan.columns)
        self._table[node] = group
        if self._rule is not None:
            self._made_by[node] = self._rule
        group.expressions.append(node)
        self._inserted += 1
        self._derive(group, node)
        same = self._explore(group, node)
        if group._facts is None:  # of joins whose order is open, and all their orders are known already
            self._table[node] = group = same
        return group

    def _insert_shared(self, plan: Shared) -> Group:
        if id(plan) not in self._shared:
            group = self.insert(plan.child)
            group.name = plan.name
            self._shared[id(plan)] = plan, group
        return self._shared[id(plan)][1]

    def _new(self, columns: tuple[Column, ...]) -> Group:
        group = Group(len(self.groups), columns)
        self.groups.append(group)
        return group

    def _derive(self, group: Group, node: Plan) -> None:
        """Facts and size come from the first expression: they belong to the rows, not to one way of writing them."""
        if group._facts is not None or not has_facts(node):
            return
        inputs = cast("tuple[Group, ...]", node.children)
        derived = facts_of(node, [child.facts for child in inputs])
        group._facts = derived
        group._estimate = self._estimator(node, [child.estimate for child in inputs], derived)

    def _explore(self, group: Group, node: Plan) -> Group:
        """Other forms of what a group stands for. The answer is the group that has the last of them: another, if that was
        known already."""
        same = group
        for rule in self._rules:
            if self._is_spent(group):
                break
            for other in rule(node, self):
                same = self.offer(other, group, rule.__name__)
                if self._is_spent(group):
                    break
        return same

    def _is_spent(self, group: Group) -> bool:
        """Were enough forms found? Joins whose order is open have none before they have an order."""
        if self._inserted < self.budget or group._facts is None:
            return False
        if not self.spent:
            self.spent = True
            self.trace.note(
                f"stopped looking for other forms of the query after {self.budget} expressions; the plan is the "
                "best of those found"
            )
        return True

    def offer(self, plan: Plan, group: Group, rule: str) -> Group:
        """One more form of what a group stands for, found by a rule. The answer is the group that has it."""
        before = self._inserted
        around, self._rule = self._rule, rule
        found = self.insert(plan, into=group)
        self._rule = around
        if self._inserted > before:
            self.trace.fired(rule, group.number)
        return found

    def group_of(self, expression: Plan) -> Group:
        """The group that an expression is in."""
        return self._table[expression]

    def made_by(self, expression: Plan) -> str | None:
        """The rule that an expression is from; None if the query is written so."""
        return self._made_by.get(expression)

    @property
    def size(self) -> int:
        return self._inserted


def _reaches(starts: Sequence[Group], goal: Group) -> bool:
    seen: set[int] = set()
    waiting = list(starts)
    while waiting:
        group = waiting.pop()
        if group is goal:
            return True
        if group.number not in seen:
            seen.add(group.number)
            for expression in group.expressions:
                waiting.extend(cast("tuple[Group, ...]", expression.children))
    return False


def with_inputs(plan: Plan, inputs: Sequence[Any]) -> Plan:
    """The same operator over other inputs."""
    node: Any = plan
    if not inputs:
        return plan
    if hasattr(node, "child"):
        return cast(Plan, replace(node, child=inputs[0]))
    if hasattr(node, "left"):
        return cast(Plan, replace(node, left=inputs[0], right=inputs[1]))
    if isinstance(node, Reference):
        return replace(node, rowset=inputs[0])
    names = [name for name, _ in node.inputs] if node.inputs and isinstance(node.inputs[0], tuple) else None
    return cast(Plan, replace(node, inputs=tuple(zip(names, inputs, strict=True)) if names else tuple(inputs)))


# What may yield other rows when it is run again: rows that are cut off anywhere, and code that we cannot see into.
_UNREPEATABLE = (Limit, PartialTop, Process, Reduce, Combine, Foreign, TableScan)


def is_repeatable(group: Group) -> bool:
    """Would computing it twice give the same rows? If not, what is read twice must be computed once and kept."""
    seen: set[int] = set()
    waiting = [group]
    while waiting:
        each = waiting.pop()
        if each.number in seen:
            continue
        seen.add(each.number)
        first = each.expressions[0]
        if isinstance(first, _UNREPEATABLE) or not all(is_deterministic(e) for e in expressions_of(first)):
            return False
        waiting.extend(cast("tuple[Group, ...]", first.children))
    return True
