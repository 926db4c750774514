"""The memo: groups of logical expressions that yield the same rows. Each group's facts and size are derived once.

An expression is a logical operator whose inputs are groups. Inserting the same operator over the same groups twice gives
the group that already has it, so common subexpressions are found. Exploration rules add expressions to a group, each rule
once per expression; the budget bounds the number of expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.constants import SEARCH
from unshuffle.plan.facts import facts_of, has_facts
from unshuffle.plan.logical import GroupRef, Plan, Shared
from unshuffle.plan.operator_facts import has_repeatable_rows, is_rowwise
from unshuffle.plan.rebuild import with_inputs
from unshuffle.properties import Dependencies, Partitioned, PrefixPartitioned, RangeFunction, Sorted
from unshuffle.search.layouts.range_layouts import Spread
from unshuffle.search.trace import Trace

Estimator = Callable[[Plan, Sequence[Any], Dependencies], Any]
Explore = Callable[[Plan, "Memo"], Iterator[Plan]]
Rule = Callable[..., object]  # an exploration rule of an expression, or one of all outputs


class Group(GroupRef):
    """Expressions with the same rows and columns. Compared by identity. A group is its own `GroupRef`: the inputs of an
    expression are groups."""

    def __init__(self, number: int, columns: tuple[Column, ...]) -> None:
        self.number = number
        self.columns = columns
        self.column_set = frozenset(columns)
        self.expressions: list[Plan] = []
        self.name: str | None = None  # of a shared rowset
        self._observed_shares: dict[Any, float] = {}
        self.forget()
        self._facts: Dependencies | None = None
        self._estimate: Any = None

    def forget(self) -> None:
        """Drops everything that a search has found."""
        # Goals by requirement: over all plans, and over plans without an enforcer at their top.
        self.goals: dict[Any, Any] = {}
        self.unenforced_goals: dict[Any, Any] = {}
        self.implementations: list[Any] | None = None
        # Column sets by which an operator above, or below, benefits from a partitioning (search.interesting_properties).
        self.interesting_above: tuple[frozenset[Column], ...] = ()
        self.interesting_below: tuple[frozenset[Column], ...] = ()
        self.origins: tuple[frozenset[Column], ...] = ()  # columns that come from one input, or from one further below
        self.partition_counts: tuple[int, ...] = ()  # of stored layouts below
        self.range_ordered: frozenset[Column] = (
            frozenset()
        )  # columns that an operator above wants partitions ordered by
        self.user_seconds = 0.0  # per row, of user code above that works in the partitions of these rows
        self.has_stored_layout = False  # here or below
        self.stored_ranges: tuple[Partitioned | PrefixPartitioned, ...] = ()  # range layouts stored here or below
        # Distributions of rows over stored ranges, and over the values of one analyzed column (search.layouts).
        self.spreads: tuple[Spread, ...] = ()
        self.column_spreads: dict[Sorted, Spread | None] = {}
        # Lower bounds on the cost of any plan, by shape, and of any exchange (search.lower_bounds).
        self.lower_bounds: list[float] = []
        self.exchange_lower_bound = 0.0
        self.recompute_seconds = 0.0  # to compute the rows once more from the last exchanges and files
        self.largest_shares: dict[Any, float] = dict(self._observed_shares)
        self._width: float | None = None

    @staticmethod
    def share_key(layout: Partitioned) -> Any:
        """What decides how large the largest partition is: the boundaries of ranges, else the columns."""
        return layout if isinstance(layout.function, RangeFunction) else layout.columns

    def observe_largest(self, layout: Partitioned, share: float) -> None:
        """Under this layout, the largest partition has that share of the rows."""
        self._observed_shares[self.share_key(layout)] = share
        self.largest_shares = dict(self._observed_shares)

    def resize(self, estimate: Any) -> None:
        """Another estimate of the rows. Plans that were found before rest on the old one."""
        self._estimate = estimate
        self._width = None
        self.largest_shares = dict(self._observed_shares)

    @property
    def facts(self) -> Dependencies:
        assert self._facts is not None
        return self._facts

    @property
    def waits(self) -> bool:
        """Do its rows need an exchange or another input? Not if they are only read, filtered and projected."""
        first = self.expressions[0]
        if is_rowwise(first):
            return as_group(first.children[0]).waits
        return bool(first.children)

    @property
    def estimate(self) -> Any:
        return self._estimate

    @property
    def rows(self) -> float:
        return float(self._estimate.rows)

    @property
    def guesses(self) -> int:
        return int(self._estimate.guesses)

    @property
    def bytes(self) -> float:
        if self._width is None:
            self._width = float(self._estimate.width(self.columns))
        return self._width * self.rows

    def __repr__(self) -> str:
        return f"group {self.number}"


def as_group(plan: Plan) -> Group:
    """The group that an input of an expression stands for."""
    assert isinstance(plan, Group)
    return plan


def input_groups(expression: Plan) -> tuple[Group, ...]:
    return tuple(map(as_group, expression.children))


class Memo:
    def __init__(
        self,
        estimator: Estimator,
        rules: Sequence[Explore],
        numbers: ColumnNumbers,
        trace: Trace,
        expressions: int = SEARCH.expressions,
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
        self._rule: Rule | None = None  # the rule whose result is being inserted
        self._made_by: dict[Plan, Rule] = {}
        self._application = 0  # the number of the alternative that is being inserted
        self._made_in: dict[Plan, int] = {}

    def insert(self, plan: Plan, into: Group | None = None) -> Group:
        """The group of a plan whose leaves may be groups. With `into`, the plan becomes an expression of that group."""
        if isinstance(plan, Group):
            return plan
        if isinstance(plan, Shared):
            return self._insert_shared(plan)
        node = with_inputs(plan, [self.insert(child) for child in plan.children])
        existing = self._table.get(node)
        if existing is not None:
            return existing
        if into is not None and _reaches(input_groups(node), into):
            return into  # two rules that undo each other: a group must not be its own input
        group = into or self._new(plan.columns)
        self._table[node] = group
        if self._rule is not None:
            self._made_by[node] = self._rule
            self._made_in[node] = self._application
        group.expressions.append(node)
        self._inserted += 1
        self._derive(group, node)
        last = self._explore(group, node)
        if group._facts is None:  # a MultiJoin all of whose join orders are in another group
            self._table[node] = group = last
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
        """Facts and size come from the first expression: they are the same for all expressions of a group."""
        if group._facts is not None or not has_facts(node):
            return
        inputs = input_groups(node)
        derived = facts_of(node, [child.facts for child in inputs])
        group._facts = derived
        group._estimate = self._estimator(node, [child.estimate for child in inputs], derived)

    def _explore(self, group: Group, node: Plan) -> Group:
        """Adds the alternatives of an expression. Returns the group of the last one, which is another group if the memo
        already had it."""
        last = group
        for rule in self._rules:
            if self._is_spent(group):
                break
            for other in rule(node, self):
                last = self.offer(other, group, rule)
                if self._is_spent(group):
                    break
        return last

    def _is_spent(self, group: Group) -> bool:
        """Is the budget used up? A MultiJoin is explored nevertheless until it has one join order."""
        if self._inserted < self.budget or group._facts is None:
            return False
        if not self.spent:
            self.spent = True
            self.trace.note(
                f"stopped looking for other forms of the query after {self.budget} expressions; the plan is the "
                "best of those found"
            )
        return True

    def offer(self, plan: Plan, group: Group, rule: Rule) -> Group:
        """Adds a rule's alternative to a group. Returns the group that has it."""
        before = self._inserted
        outer = self._rule, self._application
        self._rule, self._application = rule, len(self._made_in) + 1
        owner = self.insert(plan, into=group)
        self._rule, self._application = outer
        if self._inserted > before:
            self.trace.fired(rule.__name__, group.number)
        return owner

    def group_of(self, expression: Plan) -> Group:
        """The group that an expression is in."""
        return self._table[expression]

    def made_by(self, expression: Plan) -> Rule | None:
        """The rule that made an expression; None if it is from the query itself."""
        return self._made_by.get(expression)

    def made_in(self, expression: Plan) -> int:
        """A number for the alternative that an expression was inserted with, as a rule makes several expressions at once; 0
        for an expression of the query itself."""
        return self._made_in.get(expression, 0)

    def observe(self, observed: Mapping[int, float]) -> None:
        """Estimates every group anew, given the true rows of some groups by number.

        A group has an expression for every order of its joins, and its rows should follow from what was observed in any of
        them. So its estimate is that of the expression whose inputs rest on most observations: of none, it stays."""
        rests_on: dict[int, frozenset[int]] = {}
        for group in _inputs_first(self.groups):
            estimate, rests_on[group.number] = self._observed(group, observed, rests_on)
            group.resize(estimate)

    def _observed(
        self, group: Group, observed: Mapping[int, float], rests_on: Mapping[int, frozenset[int]]
    ) -> tuple[Any, frozenset[int]]:
        if group._facts is None:
            return None, frozenset()
        estimate, rests = group.estimate, frozenset[int]()
        expressions = [each for each in group.expressions if has_facts(each)]
        below = [frozenset[int]().union(*(rests_on[i.number] for i in input_groups(each))) for each in expressions]
        most = max(range(len(expressions)), key=lambda place: len(below[place]))
        if below[most]:
            inputs = [child.estimate for child in input_groups(expressions[most])]
            estimate, rests = self._estimator(expressions[most], inputs, group._facts), below[most]
        if group.number in observed:
            estimate, rests = estimate.with_rows(observed[group.number]), rests | {group.number}
        return estimate, rests

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
                waiting.extend(input_groups(expression))
    return False


def _inputs_first(groups: Sequence[Group]) -> Iterator[Group]:
    seen: set[int] = set()

    def visit(group: Group) -> Iterator[Group]:
        if group.number not in seen:
            seen.add(group.number)
            for expression in group.expressions:
                for child in input_groups(expression):
                    yield from visit(child)
            yield group

    for group in groups:
        yield from visit(group)


def is_repeatable(group: Group) -> bool:
    """Does computing the group twice give the same rows? If not, a group with several readers must be spooled."""
    seen: set[int] = set()
    waiting = [group]
    while waiting:
        each = waiting.pop()
        if each.number in seen:
            continue
        seen.add(each.number)
        first = each.expressions[0]
        if not has_repeatable_rows(first):
            return False
        waiting.extend(input_groups(first))
    return True
