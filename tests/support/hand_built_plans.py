"""Physical plans built by hand. Each node records the layout that its operator delivers, so a plan is valid until a test
changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import logical, physical
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, Ref, SortKey
from unshuffle.plan.logical import Files, Format, Output, Plan
from unshuffle.plan.physical import Cost, PhysicalOperator, PhysicalPlan, SizeEstimate
from unshuffle.plan.predicates import join_condition
from unshuffle.properties import (
    Delivered,
    FullMerge,
    RandomMerge,
    Repartitioning,
    Replicated,
    Sorted,
    UnknownPartitioning,
    asc,
    hashed,
    partitions_of,
)
from unshuffle.properties.layouts.delivered import Partitioned
from unshuffle.properties.layouts.exchange import Topology
from unshuffle.properties.matching.operator_requirements import MergeKey
from unshuffle.search.spools import Spool
from unshuffle.search.trace import Trace
from unshuffle.verify.rederive import facts_after, to_logical, without_search_results

INT, BIGINT = pa.int32(), pa.int64()


def columns(first: int, names: str, type: pa.DataType = BIGINT) -> tuple[Column, ...]:
    return tuple(Column(number, name, type) for number, name in enumerate(names.split(), first))


def equal(one: Column, other: Column) -> Expression:
    return Call("=", (Ref(one), Ref(other)), pa.bool_())


def both(*parts: Expression) -> Expression:
    return Call("and", parts, pa.bool_())


def total(column: Column) -> AggregateCall:
    return AggregateCall("sum", (Ref(column),), BIGINT)


def more_than(column: Column, value: int) -> Expression:
    return Call(">", (Ref(column), Literal(value, BIGINT)), pa.bool_())


def node(operator: PhysicalOperator, *inputs: PhysicalPlan, alternative: str | None = None) -> PhysicalPlan:
    """The operator over its inputs, with the layout that it delivers. It runs by its last alternative unless one is
    given."""
    plan = to_logical(operator, [each.columns for each in inputs])
    facts = [each.facts for each in inputs]
    delivered = without_search_results(operator, plan).deliver([each.delivered for each in inputs], facts)
    name = alternative if alternative is not None else operator.alternatives()[-1].name
    return recorded(operator, inputs, delivered, facts_after(plan, facts), name)


def recorded(
    operator: PhysicalOperator, inputs: tuple[PhysicalPlan, ...], delivered: Delivered, facts: Any, alternative: str
) -> PhysicalPlan:
    count = partitions_of(delivered.partitioning)
    size = SizeEstimate(1000.0, 8000.0, 0 if isinstance(delivered.partitioning, Replicated) else count or 8, 0.1)
    return PhysicalPlan(operator, inputs, delivered, facts, size, Cost(), 0.0, alternative)


def scan(
    label: str,
    of: Iterable[Column],
    keys: Iterable[Iterable[Column]] = (),
    depends: Mapping[Column, Column] | None = None,
    layout: Delivered | None = None,
    pieces: int = 8,
) -> PhysicalPlan:
    """A table, read in splits or stored in a layout."""
    facts = tuple(Dependency(frozenset((a,)), frozenset((b,))) for a, b in (depends or {}).items())
    files = Files((f"{label}.parquet",), Format("Parquet"))
    unique = tuple(frozenset(key) for key in keys)
    table = logical.Scan(label, files, tuple(of), keys=unique, dependencies=facts, layout=layout)
    return node(physical.FileScan(table, layout or Delivered(UnknownPartitioning(pieces))))


def move(how: Topology, below: PhysicalPlan) -> PhysicalPlan:
    return node(physical.Exchange(how, below.columns), below)


def send(below: PhysicalPlan, *on: Column, into: int = 8, types: Iterable[pa.DataType] | None = None) -> PhysicalPlan:
    return move(Repartitioning(hashed(on, into, types), RandomMerge()), below)


def send_by(layout: Partitioned, below: PhysicalPlan) -> PhysicalPlan:
    return move(Repartitioning(layout, RandomMerge()), below)


def copy(below: PhysicalPlan) -> PhysicalPlan:
    return move(Repartitioning(Replicated(), RandomMerge()), below)


def gather(below: PhysicalPlan) -> PhysicalPlan:
    return move(FullMerge(RandomMerge()), below)


def sort(below: PhysicalPlan, *by: Column | Sorted) -> PhysicalPlan:
    keys = tuple(asc(key) if isinstance(key, Column) else key for key in by)
    return node(physical.LocalSort(keys, below.columns), below)


def select(below: PhysicalPlan, predicate: Expression) -> PhysicalPlan:
    return node(physical.Filter(predicate, below.columns), below)


def compute(below: PhysicalPlan, *outputs: Column | tuple[Column, Expression]) -> PhysicalPlan:
    made = tuple((each, Ref(each)) if isinstance(each, Column) else each for each in outputs)
    return node(physical.Project(made), below)


def aggregate(below: PhysicalPlan, by: Iterable[Column], **made: Any) -> PhysicalPlan:
    """`total=(column, call)`. With `streaming=True`, an aggregate that requires grouped input."""
    kind = physical.SortAggregate if made.pop("streaming", False) else physical.HashAggregate
    return node(kind(tuple(by), tuple(made.values())), below)


def join(
    kind: JoinKind,
    left: PhysicalPlan,
    right: PhysicalPlan,
    condition: Expression | None,
    alternative: str = "pair-wise",
    build: int = 1,
    merge: bool = False,
) -> PhysicalPlan:
    plan = logical.Join(kind, _input(left), _input(right), condition)
    split = join_condition(condition, left.columns, right.columns)
    if merge:
        by = tuple(MergeKey(key) for key in split.keys)
        return node(physical.MergeJoin(plan, split.keys, split.rest, by=by), left, right, alternative=alternative)
    if not split.keys:
        inner: Any = build
        return node(physical.NestedLoopJoin(plan, (), condition, inner=inner), left, right, alternative=alternative)
    side: Any = build
    return node(physical.HashJoin(plan, split.keys, split.rest, build=side), left, right, alternative=alternative)


def _input(plan: PhysicalPlan) -> Plan:
    return logical.TableScan(("input",), plan.columns)


def optimized(
    plan: PhysicalPlan,
    order: Iterable[Sorted] = (),
    spools: Iterable[Spool] = (),
    subqueries: Iterable[tuple[Plan, PhysicalPlan]] = (),
    required: tuple[Column, ...] | None = None,
) -> PlannedQuery:
    """A planned query with one output, and with a required order if one is given."""
    query: Plan = logical.TableScan(("result",), plan.columns if required is None else required)
    keys = tuple(SortKey(Ref(key.column), key.descending, key.nulls_first) for key in order)
    if keys:
        query = logical.Sort(query, keys)
    return PlannedQuery(((Output(query, None), plan),), tuple(spools), tuple(subqueries), 0.0, 0.0, Trace())


def over(plan: PhysicalPlan, *inputs: PhysicalPlan, **changed: Any) -> PhysicalPlan:
    """The same node over other inputs, or with other recorded properties."""
    return replace(plan, inputs=inputs or plan.inputs, **changed)


def with_operator(plan: PhysicalPlan, **changed: Any) -> PhysicalPlan:
    return replace(plan, operator=replace(plan.operator, **changed))  # type: ignore[type-var]
