"""From a bound script to its physical plan: normalize, explore, search.

Everything the optimizer depends on is an argument: the script, with the statistics and facts of its tables, and the machine.
It starts no JVM. Of files, it reads only the rows that estimates look at (`catalog.statistics.table_look`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from math import inf
from time import perf_counter
from typing import Any

from unshuffle.cardinality.estimate import distinct_after, estimate
from unshuffle.cardinality.sampled import columns_looked_at, looked_at, only_value
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.constants import COST, SEARCH, THRESHOLDS
from unshuffle.cost.model import CostModel
from unshuffle.explore.join_reordering import gather_joins, order_joins
from unshuffle.explore.rules import EXPLORATION, JOIN_ESTIMATES, OUTPUT_RULES, SUPER_OPERATOR_NAMES
from unshuffle.frozen import dataclass
from unshuffle.implement import percentile_lists
from unshuffle.implement.dynamic_pruning import prunes_as_planned
from unshuffle.implement.rules import Implement
from unshuffle.implement.spark_ordering import is_sorted_as_planned
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize_script
from unshuffle.plan.expressions import Expression, Literal, ScalarSubquery, Subquery, map_operands
from unshuffle.plan.expressions import walk as parts
from unshuffle.plan.logical import (
    Expand,
    Filter,
    Join,
    MultiJoin,
    MultiOutput,
    Output,
    PartialGroupBy,
    PartialTopN,
    Plan,
    Project,
    Reference,
    Scan,
    Script,
    expressions_of,
    has_subqueries,
    walk,
)
from unshuffle.plan.physical import Exchange, PhysicalOperator, PhysicalPlan, SparkFallback
from unshuffle.plan.rebuild import map_expressions
from unshuffle.properties import Dependencies, Partitioned, Required
from unshuffle.search.layouts.output_layouts import chosen_layout, stored_in
from unshuffle.search.memo import Group, Memo, Rule, as_group
from unshuffle.search.plan_builder import Accepts
from unshuffle.search.recosted import Recosted
from unshuffle.search.search import Search
from unshuffle.search.spools import Spool, Spools
from unshuffle.search.top_k.top_k_plans import TopKPlans
from unshuffle.search.trace import Trace
from unshuffle.target import Setting, Target, execution_settings


def can_be_run(operator: PhysicalOperator, inputs: Sequence[PhysicalPlan]) -> bool:
    """Will Spark run the operator over these inputs as it is planned?"""
    return (
        is_sorted_as_planned(operator, inputs)
        and percentile_lists.fits(operator, inputs)
        and prunes_as_planned(operator, inputs)
    )


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may choose. `disabled` names rules that must not fire; `accepts` says whether an operator can run over
    some inputs."""

    target: Target = field(default_factory=Target)
    disabled: frozenset[str] = frozenset()
    accepts: Accepts = can_be_run
    expressions: int = SEARCH.expressions
    steps: int = SEARCH.steps
    trace: bool = False


@dataclass(frozen=True, slots=True)
class SuperOperator:
    """A rule that replaced a sub-query by a single pass, and the columns of the pass."""

    rule: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """The plan of a script: of each output, of each spool, and of each uncorrelated subquery."""

    outputs: tuple[tuple[Output, PhysicalPlan], ...]
    spools: tuple[Spool, ...]
    subqueries: tuple[tuple[Plan, PhysicalPlan], ...]
    cost: float
    optimize_ms: float
    trace: Trace
    target: Target = field(default_factory=Target)
    super_operators: tuple[SuperOperator, ...] = ()

    @property
    def roots(self) -> tuple[PhysicalPlan, ...]:
        return (
            *(plan for _, plan in self.outputs),
            *(spool.plan for spool in self.spools),
            *(plan for _, plan in self.subqueries),
        )

    @property
    def moved_bytes(self) -> float:
        """What its exchanges move, by estimate."""
        nodes = {id(node): node for root in self.roots for node in root.walk()}
        return sum(node.size.bytes for node in nodes.values() if isinstance(node.operator, Exchange))

    @property
    def spark_fallbacks(self) -> tuple[SparkFallback, ...]:
        """The operators that only Spark understands, and runs as they were written."""
        nodes = (node for root in self.roots for node in root.walk())
        return tuple(node.operator for node in nodes if isinstance(node.operator, SparkFallback))

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Why parts of the query fall back to Spark."""
        return tuple(operator.reason for operator in self.spark_fallbacks)

    @property
    def settings(self) -> dict[str, Setting]:
        """The settings that the plan runs under, beyond those of the session: none where a part is left to Spark, which may
        rely on its own."""
        return {} if self.spark_fallbacks else execution_settings(self.roots, self.target)


@dataclass(frozen=True, slots=True)
class Divided:
    """The seconds of a plan if partitions that are too large are divided, which its exchanges do not do themselves."""

    seconds: float


def optimize(script: Script, options: Options | None = None) -> PlannedQuery:
    """The cheapest plan found for all outputs of a script together."""
    return Planning(script, options).planned


class Planning:
    """A script's plan, and what it takes to plan it again once it is known how many rows some exchanges really have."""

    def __init__(self, script: Script, options: Options | None = None) -> None:
        begun = perf_counter()
        self._script = script
        self._run = _begin(script, options or Options())
        self.planned = self._best(begun)

    def again(
        self,
        observed: Mapping[int, float],
        done: Collection[PhysicalPlan],
        skewed: Sequence[tuple[PhysicalPlan, float]] = (),
        may_divide: bool = False,
    ) -> PlannedQuery | Divided | None:
        """A plan that takes the rows of some groups, by number, into account, if it is better to begin again with it than to
        go on with the plan so far, whose exchanges `done` are complete. Exchanges may be `skewed`: they have a partition with
        that share of the rows. If no plan avoids these and somebody else `may_divide` them, so be it.

        The alternatives are those of the first search: only their sizes change. The estimates of what is left and of the new
        plan are rough, so the gain must be clear."""
        begun = perf_counter()
        self._run.memo.observe(observed)
        divided = self._remaining(()) if skewed and may_divide else inf
        for exchange, share in skewed:
            if isinstance(exchange.delivered.partitioning, Partitioned):
                self._run.memo.groups[exchange.group].observe_largest(exchange.delivered.partitioning, share)
        remaining = self._remaining(done)
        if remaining < THRESHOLDS.replan_seconds:
            return None
        self._run.prepare(self._script)
        planned = self._best(begun)
        if min(planned.cost, divided) * THRESHOLDS.replan_gain >= remaining:
            return None
        return planned if planned.cost <= divided else Divided(divided)

    def _remaining(self, done: Collection[PhysicalPlan]) -> float:
        """Seconds that the plan still takes if these exchanges are complete, by the present estimates."""
        return Recosted(self._run.memo, self._run.search.builder).remaining(self.planned.roots, done)

    def without_broadcasts(self) -> PlannedQuery:
        """The cheapest plan without broadcasts, given what was observed so far."""
        begun = perf_counter()
        target = self._run.target
        self._run.model = _cost_model(replace(target, machine=replace(target.machine, broadcast_bytes=1.0)))
        self._run.prepare(self._script)
        return self._best(begun)

    def adopt(self, planned: PlannedQuery) -> None:
        self.planned = planned

    def _best(self, begun: float) -> PlannedQuery:
        outputs, spools, subqueries, cost = self._run.best()
        return self._run.result(self._script, outputs, spools, subqueries, cost, begun)


def optimize_ranked(script: Script, count: int, options: Options | None = None) -> tuple[PlannedQuery, ...]:
    """The cheapest plans in order of their cost, beginning with the one of `optimize`. All of them have the same spools."""
    begun = perf_counter()
    run = _begin(script, options or Options())
    outputs, spools, subqueries, cost = run.best()
    best = run.result(script, outputs, spools, subqueries, cost, begun)
    next_best = (
        run.result(script, plans, spools, others, total, begun)
        for total, plans, others in run.ranked(outputs, subqueries)
    )
    return (best, *islice(next_best, count - 1))


def _begin(script: Script, options: Options) -> _Run:
    trace = Trace(detailed=options.trace)
    numbers = ColumnNumbers(1 + max((c.id for node in script.operators() for c in node.columns), default=0))
    context = Rewriting(numbers, options.disabled)
    normal = normalize_script(script, context)
    trace.rules.update(context.fired)
    return _Run(normal, numbers, options, trace)


class _Run:
    """One optimization: the memo, the search, and the decisions about spools."""

    def __init__(self, script: Script, numbers: ColumnNumbers, options: Options, trace: Trace) -> None:
        self._options = options
        self.target = options.target
        self._looked_at = columns_looked_at(script)
        self.model = _cost_model(options.target)
        rules = [rule for rule in EXPLORATION if rule.__name__ not in options.disabled]
        self.memo = Memo(self._estimate, rules, numbers, trace, options.expressions)
        # With join reordering disabled, joins stay in the order of the query.
        gather = gather_joins if order_joins.__name__ not in options.disabled else lambda plan: plan
        plans = gather(MultiOutput(tuple(output.plan for output in script.outputs))).children
        self._values: dict[tuple[Column, ...], Literal] = {}
        for plan in _uncorrelated_subqueries(script) if self._looked_at else ():
            value = only_value(self.memo.insert(gather(plan)).estimate, plan)
            if value is not None:
                self._values[plan.columns] = value
        self.roots = [self.memo.insert(plan) for plan in plans]
        for output_rule in OUTPUT_RULES:
            if output_rule.__name__ not in options.disabled:
                output_rule(self.roots, self.memo)
        self.subqueries = [(plan, self.memo.insert(gather(plan))) for plan in _uncorrelated_subqueries(script)]
        self.trace = trace
        self.prepare(script)

    def prepare(self, script: Script) -> None:
        """Begins a search of the memo."""
        for group in self.memo.groups:
            group.forget()
        machine, target = self.model.machine, self.target
        implement = Implement(
            lambda rows, bytes: machine.file_pieces(bytes), machine.few_rows, target.settings.prunes_dynamically
        )
        self.search = Search(implement, self._options.accepts, self.model, self.trace, self._options.steps)
        self.search.prepare([*self.roots, *(group for _, group in self.subqueries)])
        self.layouts = [
            chosen_layout(self.search, output, group) or output.layout
            for output, group in zip(script.outputs, self.roots, strict=True)
        ]
        self.required = list(map(stored_in, self.layouts))
        goals = [
            *zip(self.roots, self.required, strict=True),
            *((group, Required()) for _, group in self.subqueries),
        ]
        self.spools = Spools(self.memo, self.search, goals, target.is_managed)

    def best(self) -> tuple[list[PhysicalPlan], tuple[Spool, ...], tuple[tuple[Plan, PhysicalPlan], ...], float]:
        self.spools.decide()
        outputs = [self.search.best(*goal) for goal in zip(self.roots, self.required, strict=True)]
        subqueries = tuple((plan, self.search.best(group)) for plan, group in self.subqueries)
        return outputs, tuple(self.spools.chosen()), subqueries, self.spools.total_cost()

    def ranked(
        self, outputs: Sequence[PhysicalPlan], subqueries: Sequence[tuple[Plan, PhysicalPlan]]
    ) -> Iterator[tuple[float, tuple[PhysicalPlan, ...], tuple[tuple[Plan, PhysicalPlan], ...]]]:
        """Every other plan of the outputs and the uncorrelated subqueries, by cost. Only for outputs of any layout."""
        if any(required != Required() for required in self.required):
            return
        ranking = TopKPlans(self.search)
        best = (*outputs, *(plan for _, plan in subqueries))
        spooling = self.spools.cost()
        for cost, plans in ranking.plans([*self.roots, *(group for _, group in self.subqueries)]):
            if not ranking.are_same(plans, best):
                others = zip((plan for plan, _ in subqueries), plans[len(outputs) :], strict=True)
                yield spooling + cost, plans[: len(outputs)], tuple(others)

    def result(
        self,
        script: Script,
        outputs: Sequence[PhysicalPlan],
        spools: tuple[Spool, ...],
        subqueries: tuple[tuple[Plan, PhysicalPlan], ...],
        cost: float,
        begun: float,
    ) -> PlannedQuery:
        self.trace.groups, self.trace.expressions = len(self.memo.groups), self.memo.size
        optimize_ms = (perf_counter() - begun) * 1000
        laid_out = (replace(each, layout=layout) for each, layout in zip(script.outputs, self.layouts, strict=True))
        plans = tuple(zip(laid_out, outputs, strict=True))
        planned = PlannedQuery(plans, spools, subqueries, cost, optimize_ms, self.trace, self.target)
        return replace(planned, super_operators=tuple(self._super_operators(planned.roots)))

    def _super_operators(self, roots: Sequence[PhysicalPlan]) -> Iterator[SuperOperator]:
        """The super-operators in the plan. One application makes several operators, among which others may be; the topmost
        one stands for all. A pass that took in the pass right below it is one."""
        applications: set[int] = set()
        seen: set[int] = set()
        waiting: deque[tuple[PhysicalPlan, Rule | None]] = deque((root, None) for root in roots)
        while waiting:
            node, above = waiting.popleft()
            if id(node) in seen:
                continue
            seen.add(id(node))
            rule, application = self._made_by(node)
            if rule is not None and application not in applications and rule.__name__ in SUPER_OPERATOR_NAMES:
                applications.add(application)
                if rule is not above:
                    yield SuperOperator(rule.__name__, tuple(column.name for column in node.columns))
            waiting.extend((each, rule) for each in node.inputs)

    def _made_by(self, node: PhysicalPlan) -> tuple[Rule | None, int]:
        """The rule that made an operator, and the number of its application."""
        for each in self.memo.groups[node.group].implementations or ():
            if each.operator is node.operator:
                return self.memo.made_by(each.expression), self.memo.made_in(each.expression)
        return None, 0

    # --- estimates

    def _estimate(self, node: Plan, inputs: Sequence[Any], facts: Dependencies) -> Any:
        """The estimate of an expression. Partial aggregates and limits yield rows per partition, so theirs depends on the
        machine. A rule may know more about an expression that it made."""
        match node:
            case PartialGroupBy(keys=keys):
                given = inputs[0]
                count = self._expected_partitions(as_group(node.child))
                groups = given.groups(keys) if keys else 1.0
                rows = min(given.rows, count * distinct_after(given.rows / count, groups))
                return replace(given, rows=rows, facts=facts)
            case PartialTopN(count=limit):
                given = inputs[0]
                count = self._expected_partitions(as_group(node.child))
                return replace(given, rows=min(given.rows, float(limit * count)))
            case Scan() if self._looked_at and node.look is not None:
                return looked_at(node, estimate(node, inputs, facts), self._looked_at)
            case Filter() | Join() if self._values and has_subqueries(node):
                return estimate(map_expressions(node, self._with_values), inputs, facts)
            case Join():
                return JOIN_ESTIMATES.get(self.memo.made_by(node), estimate)(node, inputs, facts)
            case _:
                return estimate(node, inputs, facts)

    def _with_values(self, expression: Expression) -> Expression:
        """An expression with the values of subqueries whose rows were all looked at."""
        if isinstance(expression, ScalarSubquery):
            return self._values.get(expression.plan.columns, expression)
        return map_operands(expression, self._with_values)

    def _expected_partitions(self, group: Group) -> int:
        """The number of partitions that a group probably has: the pieces of its files, or the output of an exchange. A join
        with small inputs, which are broadcast, leaves the rows of its largest input where they are."""
        below = group
        while (unmoved := _unmoved_input(below)) is not None:
            below = unmoved
        first = below.expressions[0]
        if isinstance(first, Scan):
            return self.model.machine.file_pieces(first.files.bytes or below.bytes)
        return self.model.ideal_partitions(group.rows, group.bytes)


def _unmoved_input(group: Group) -> Group | None:
    """The input of a group whose partitions are probably those of the group."""
    match group.expressions[0]:
        case Project() | Filter() | Reference() | Expand() as rowwise:
            return as_group(rowwise.children[0])
        case Join() | MultiJoin() as join:
            *small, largest = sorted(map(as_group, join.children), key=lambda each: each.bytes)
            return largest if all(each.bytes < THRESHOLDS.join_broadcast_bytes for each in small) else None
    return None


def _cost_model(target: Target) -> CostModel:
    """Nobody watches a DataFrame while it runs, so what rests on guesses has to be the better choice by far."""
    return CostModel(target.machine, COST.guess_risk if target.is_managed else COST.unwatched_guess_risk)


def _uncorrelated_subqueries(script: Script) -> list[Plan]:
    """The plans of uncorrelated subqueries. Each runs once, before the operator that uses its value."""
    plans: dict[int, Plan] = {}
    for output in script.outputs:
        for node in walk(output.plan):
            for expression in expressions_of(node):
                for part in parts(expression):
                    if isinstance(part, Subquery) and not part.outer:
                        plans[id(part.plan)] = part.plan
    return list(plans.values())
