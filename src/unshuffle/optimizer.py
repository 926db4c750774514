"""From a bound script to its physical plan: normalize, explore, search.

Everything the optimizer knows of the world comes in as arguments: the script (with the statistics and facts of its
tables) and the machine. It starts no JVM and reads no files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from time import perf_counter
from typing import Any, cast

from unshuffle.algebra.expressions import Subquery
from unshuffle.algebra.expressions import walk as parts
from unshuffle.algebra.logical import (
    Filter,
    Foreign,
    Join,
    Output,
    PartialGroupBy,
    PartialTop,
    Plan,
    Project,
    Reference,
    Scan,
    Script,
    expressions_of,
    walk,
)
from unshuffle.algebra.operators import AsWritten, Move, ReadSpool
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.cost.cardinality import distinct_after, estimate
from unshuffle.cost.machine import Machine, this_machine
from unshuffle.cost.model import CostModel
from unshuffle.properties import Delivered, Dependencies, Exactly, Partitioned, Replicated, Required
from unshuffle.properties.through import through_project
from unshuffle.rules import aggregates, decompose, joins, late_semi_joins, listed, picked_rows, super_operators, tops
from unshuffle.rules.implement import Implement
from unshuffle.rules.joins import gather_joins, order_joins
from unshuffle.rules.normalize import normalize_script
from unshuffle.rules.picked_rows import pick_from_rows, rows_with_extremes
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.sorted_inputs import is_sorted_as_planned
from unshuffle.search.implementation import Implementation
from unshuffle.search.memo import Group, Memo, is_repeatable
from unshuffle.search.optimize import Accepts, Search
from unshuffle.search.output_ranges import known_ranges
from unshuffle.search.ranked import Ranking
from unshuffle.search.trace import Trace

EXPLORATION = (
    *joins.RULES,
    *late_semi_joins.RULES,
    *aggregates.RULES,
    *tops.RULES,
    *decompose.RULES,
    *picked_rows.RULES,
    *super_operators.RULES,
)
# What may be switched off by name: without any of these a plan is as good as it is written, or as good as the others make it.
RULE_NAMES = frozenset(rule.__name__ for rule in EXPLORATION) | super_operators.NAMES


def can_be_run(operator: PhysicalOperator, inputs: Sequence[Physical]) -> bool:
    """Will Spark run the operator over these inputs as it is planned?"""
    return is_sorted_as_planned(operator, inputs) and listed.fits(operator, inputs)


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may choose. `disabled` are names of rules that must not fire; `keeps` says whether a rowset may be kept
    for several uses, which takes someone to release it; `accepts` says over which inputs an operator can be run."""

    machine: Machine = field(default_factory=this_machine)
    disabled: frozenset[str] = frozenset()
    keeps: bool = True
    accepts: Accepts = can_be_run
    expressions: int = 2000
    steps: int = 200_000
    trace: bool = False


@dataclass(frozen=True, slots=True)
class Spool:
    """A shared rowset that is computed once: its plan, and how many read it. What ends in an exchange need not be kept: Spark
    runs an exchange once, whoever reads from it."""

    name: str
    number: int
    plan: Physical
    uses: int
    kept: bool = True


@dataclass(frozen=True, slots=True)
class SuperOperator:
    """A rule that put one pass in place of a sub-query, and the columns that come out of it."""

    rule: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Optimized:
    """The plan of a script: of each output, of what is computed once for several, of subqueries that stand alone."""

    outputs: tuple[tuple[Output, Physical], ...]
    spools: tuple[Spool, ...]
    subqueries: tuple[tuple[Plan, Physical], ...]
    cost: float
    milliseconds: float
    trace: Trace
    machine: Machine = field(default_factory=this_machine)
    super_operators: tuple[SuperOperator, ...] = ()

    @property
    def roots(self) -> tuple[Physical, ...]:
        return (
            *(plan for _, plan in self.outputs),
            *(spool.plan for spool in self.spools),
            *(plan for _, plan in self.subqueries),
        )

    @property
    def foreign(self) -> tuple[AsWritten, ...]:
        """What is left to Spark as it stands."""
        nodes = (node for root in self.roots for node in root.walk())
        return tuple(node.operator for node in nodes if isinstance(node.operator, AsWritten))


def optimize(script: Script, options: Options | None = None) -> Optimized:
    """The cheapest plan found for all outputs of a script together."""
    begun = perf_counter()
    run = _begin(script, options or Options())
    outputs, spools, subqueries, cost = run.best()
    return run.result(script, outputs, spools, subqueries, cost, begun)


def optimize_ranked(script: Script, count: int, options: Options | None = None) -> tuple[Optimized, ...]:
    """The cheapest plans in order of their cost, the one that `optimize` finds first. What is computed once for several
    readers is the same in all of them."""
    begun = perf_counter()
    run = _begin(script, options or Options())
    outputs, spools, subqueries, cost = run.best()
    best = run.result(script, outputs, spools, subqueries, cost, begun)
    others = (
        run.result(script, plans, spools, apart, total, begun)
        for total, plans, apart in run.ranked(outputs, subqueries)
    )
    return (best, *islice(others, count - 1))


def _begin(script: Script, options: Options) -> _Run:
    trace = Trace(detailed=options.trace)
    numbers = ColumnNumbers(1 + max((c.id for node in script.operators() for c in node.columns), default=0))
    context = Rewriting(numbers, options.disabled)
    normal = normalize_script(script, context)
    trace.rules.update(context.fired)
    return _Run(normal, numbers, options, trace)


class _Run:
    """One optimization: the memo, the search, and the decisions about what is computed once."""

    def __init__(self, script: Script, numbers: ColumnNumbers, options: Options, trace: Trace) -> None:
        self.model = CostModel(options.machine)
        rules = [rule for rule in EXPLORATION if rule.__name__ not in options.disabled]
        self.memo = Memo(self._estimate, rules, numbers, trace, options.expressions)
        machine = self.model.machine
        implement = Implement(lambda rows, bytes: machine.file_pieces(bytes), machine.few_rows)
        self.search = Search(implement, options.accepts, self.model, trace, options.steps)
        # Joins that are not gathered stay in the order they were written in.
        gathered = gather_joins if order_joins.__name__ not in options.disabled else lambda plan: plan
        plans = gathered(Foreign("", tuple(("", output.plan) for output in script.outputs), (), "")).children
        self.roots = [self.memo.insert(plan) for plan in plans]
        if super_operators.OF_OUTPUTS.__name__ not in options.disabled:
            super_operators.OF_OUTPUTS(self.roots, self.memo)
        self.apart = [(plan, self.memo.insert(gathered(plan))) for plan in _standing_alone(script)]
        self._keeps = options.keeps
        self._again: dict[int, list[Implementation]] = {}  # how each use of a shared rowset computes it for itself
        self.trace = trace
        self.search.prepare([*self.roots, *(group for _, group in self.apart)])
        self.layouts = [
            known_ranges(self.search, output, group) or output.layout
            for output, group in zip(script.outputs, self.roots, strict=True)
        ]
        self.wanted = list(map(_wanted, self.layouts))

    def result(
        self,
        script: Script,
        outputs: Sequence[Physical],
        spools: tuple[Spool, ...],
        subqueries: tuple[tuple[Plan, Physical], ...],
        cost: float,
        begun: float,
    ) -> Optimized:
        self.trace.groups, self.trace.expressions = len(self.memo.groups), self.memo.size
        milliseconds = (perf_counter() - begun) * 1000
        laid = (replace(each, layout=layout) for each, layout in zip(script.outputs, self.layouts, strict=True))
        plans = tuple(zip(laid, outputs, strict=True))
        found = Optimized(plans, spools, subqueries, cost, milliseconds, self.trace, self.model.machine)
        return replace(found, super_operators=tuple(self._super_operators(found.roots)))

    def _super_operators(self, roots: Sequence[Physical]) -> Iterator[SuperOperator]:
        """Those that the plan is made of. Their operators are made by one rule, and the topmost stands for all."""
        seen: set[int] = set()
        waiting: list[tuple[Physical, str | None]] = [(root, None) for root in roots]
        while waiting:
            node, above = waiting.pop(0)
            if id(node) in seen:
                continue
            seen.add(id(node))
            rule = self._made_by(node)
            if rule in super_operators.NAMES and rule != above:
                yield SuperOperator(rule, tuple(column.name for column in node.columns))
            waiting.extend((each, rule) for each in node.inputs)

    def _made_by(self, node: Physical) -> str | None:
        for each in self.memo.groups[node.group].implementations or ():
            if each.operator is node.operator:
                return self.memo.made_by(each.expression)
        return None

    def ranked(
        self, outputs: Sequence[Physical], subqueries: Sequence[tuple[Plan, Physical]]
    ) -> Iterator[tuple[float, tuple[Physical, ...], tuple[tuple[Plan, Physical], ...]]]:
        """Every other plan, by cost: of the outputs, and of subqueries that stand alone."""
        ranking = Ranking(self.search)
        kept = sum(plan.cost + self._keeping(number) for number, plan in self.search.spools.items())
        best = (*outputs, *(plan for _, plan in subqueries))
        if any(wanted != Required() for wanted in self.wanted):
            return  # other plans are told of what may lie anyhow
        for cost, plans in ranking.plans([*self.roots, *(group for _, group in self.apart)]):
            if not ranking.same(plans, best):
                apart = zip((plan for plan, _ in subqueries), plans[len(outputs) :], strict=True)
                yield kept + cost, plans[: len(outputs)], tuple(apart)

    def _estimate(self, node: Plan, inputs: Sequence[Any], facts: Dependencies) -> Any:
        """The two halves of aggregates and limits yield rows for each partition, which the machine has a say in; what a rule
        made may be known better by the rule."""
        match node:
            case PartialGroupBy(keys=keys):
                given = inputs[0]
                count = self._tasks(cast(Group, node.child))
                groups = given.distinct(keys) if keys else 1.0
                rows = min(given.rows, count * distinct_after(given.rows / count, groups))
                return replace(given, rows=rows, facts=facts)
            case PartialTop(count=limit):
                given = inputs[0]
                count = self._tasks(cast(Group, node.child))
                return replace(given, rows=min(given.rows, float(limit * count)))
            case Join() if self.memo.made_by(node) == pick_from_rows.__name__:
                return rows_with_extremes(node, inputs, facts)
            case _:
                return estimate(node, inputs, facts)

    def _tasks(self, group: Group) -> int:
        """In how many parts the rows of a group are likely to lie: as files are cut, or as an exchange would have it."""
        below = group
        while isinstance(below.expressions[0], Project | Filter | Reference):
            below = cast(Group, below.expressions[0].children[0])
        first = below.expressions[0]
        if isinstance(first, Scan):
            return self.model.machine.file_pieces(first.files.bytes or below.bytes)
        return self.model.ideal_partitions(group.rows, group.bytes)

    def best(self) -> tuple[list[Physical], tuple[Spool, ...], tuple[tuple[Plan, Physical], ...], float]:
        self._decide_spools()
        outputs = [self.search.best(group, wanted) for group, wanted in zip(self.roots, self.wanted, strict=True)]
        apart = tuple((plan, self.search.best(group)) for plan, group in self.apart)
        spools = tuple(
            Spool(group.name or "", group.number, self.search.spools[group.number], len(uses), self._is_kept(group))
            for group, uses in self._shared()
            if group.number in self.search.spools
        )
        return outputs, spools, apart, self._total(inf)

    # --- what is computed once (the papers' spools)

    def _shared(self) -> Iterator[tuple[Group, list[Group]]]:
        """Shared rowsets with the groups that use them, those that others are made of first."""
        uses: dict[int, list[Group]] = {}
        for group in self.memo.groups:
            for expression in group.expressions:
                if isinstance(expression, Reference):
                    uses.setdefault(cast(Group, expression.rowset).number, []).append(group)
        for number in sorted(uses):
            yield self.memo.groups[number], uses[number]

    def _decide_spools(self) -> None:
        """For each shared rowset, one plan for all its uses together, if that is cheaper than computing it for each.

        Which layout serves them all best is not known to any of them: every requirement that a use made of the rowset is
        tried for all, and the whole is costed."""
        for group, uses in self._shared():
            if len(uses) < 2:
                continue
            # What would not be the same twice is computed once, whatever it costs.
            least = self._total(inf) if is_repeatable(group) else inf
            wishes = [Required(), *(wish for wish, goal in group.goals.items() if goal.best is not None)]
            plans = _different(self.search.best(group, wish) for wish in wishes)
            if not self._keeps and is_repeatable(group):
                plans = [plan for plan in plans if _ends_in_exchange(plan)]
            touched = self._above(uses)
            kept: Physical | None = None
            for plan in sorted(plans, key=lambda plan: plan.cost)[:TRIED]:
                self._read_from(group, uses, plan, touched)
                total = self._total(least)
                if total >= least:
                    break  # a dearer plan of the rowset would have to make up for still more
                least, kept = total, plan
            if kept is not self.search.spools.get(group.number):
                self._read_from(group, uses, kept, touched)

    def _is_kept(self, group: Group) -> bool:
        """What would not be the same twice is not left to Spark, which need not see that two exchanges are one."""
        return not is_repeatable(group) or not _ends_in_exchange(self.search.spools[group.number])

    def _keeping(self, number: int) -> float:
        return self.model.keep(self.search.spools[number].amount) if self._is_kept(self.memo.groups[number]) else 0.0

    def _read_from(self, group: Group, uses: Sequence[Group], plan: Physical | None, touched: Sequence[Group]) -> None:
        self.search.spools.pop(group.number, None)
        if plan is not None:
            self.search.spools[group.number] = plan
        for use in uses:
            again = self._again.setdefault(use.number, list(use.implementations or ()))
            use.implementations = again
            if plan is not None:
                names = dict(zip(use.columns, group.columns, strict=True))
                layout = through_project(plan.delivered, group.facts, (), names)
                read = ReadSpool(group.name or "", group.number, use.columns, layout)
                use.implementations = [Implementation(read, (), use.expressions[0], read.alternatives())]
        self.search.forget(touched)

    def _above(self, uses: Sequence[Group]) -> list[Group]:
        """The groups whose plans may rest on how a shared rowset is had."""
        users: dict[int, list[Group]] = {}
        for group in self.memo.groups:
            for each in group.implementations or ():
                for child in each.inputs:
                    users.setdefault(child.number, []).append(group)
        found: dict[int, Group] = {}
        waiting = list(uses)
        while waiting:
            group = waiting.pop()
            if group.number not in found:
                found[group.number] = group
                waiting.extend(users.get(group.number, ()))
        return list(found.values())

    def _total(self, limit: float) -> float:
        """The cost of everything: outputs, subqueries, and what is computed once, including to keep it. Infinite where it
        is not under the limit."""
        total = 0.0
        for number, plan in self.search.spools.items():
            total += plan.cost + self._keeping(number)
        roots = (*zip(self.roots, self.wanted, strict=True), *((group, Required()) for _, group in self.apart))
        for group, wanted in roots:
            found = self.search.solve(group, wanted, limit - total)
            if found is None:
                return inf
            total += found.cost
        return total


# Requirements that are tried for a shared rowset.
TRIED = 3


def _wanted(layout: Delivered | None) -> Required:
    if layout is None or not isinstance(layout.partitioning, Partitioned):
        return Required()
    return Required(Exactly(layout.partitioning), layout.local)


def _ends_in_exchange(plan: Physical) -> bool:
    """Is its last operator one that writes shuffle files?"""
    operator = plan.operator
    if not isinstance(operator, Move) or operator.readers is not None:
        return False
    return not isinstance(getattr(operator.how, "scheme", None), Replicated)


def _different(plans: Iterator[Physical]) -> list[Physical]:
    """One plan a layout."""
    found: dict[Any, Physical] = {}
    for plan in plans:
        found.setdefault(plan.delivered, plan)
    return list(found.values())


def _standing_alone(script: Script) -> list[Plan]:
    """The plans of subqueries that take nothing from outside: each is run once, before what uses its value."""
    found: dict[int, Plan] = {}
    for output in script.outputs:
        for node in walk(output.plan):
            for expression in expressions_of(node):
                for part in parts(expression):
                    if isinstance(part, Subquery) and not part.outer:
                        found[id(part.plan)] = part.plan
    return list(found.values())
