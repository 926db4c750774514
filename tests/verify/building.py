"""Physical plans by hand: each node claims what its operator delivers, so that a plan is right until a test makes it wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from unshuffle.algebra import logical
from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Literal, Ref
from unshuffle.algebra.logical import Files, Format, Output, Plan, SortKey
from unshuffle.algebra.physical import Amount, Cost, Physical, PhysicalOperator
from unshuffle.algebra.predicates import join_condition
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.optimizer import Optimized, Spool
from unshuffle.properties import (
    Delivered,
    FullMerge,
    RandomMerge,
    Repartitioning,
    Replicated,
    Scattered,
    Sorted,
    asc,
    hashed,
    partitions_of,
)
from unshuffle.properties.delivered import Partitioned
from unshuffle.properties.exchange import Exchange
from unshuffle.properties.requirements import MergeKey
from unshuffle.search.trace import Trace
from unshuffle.verify.rederive import facts_after, read_back, untold

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


def node(operator: PhysicalOperator, *inputs: Physical, alternative: str | None = None) -> Physical:
    """The operator over inputs, claiming exactly what it delivers; it runs in the last way it can unless told."""
    plan = read_back(operator, [each.columns for each in inputs])
    facts = [each.facts for each in inputs]
    delivered = untold(operator, plan).deliver([each.delivered for each in inputs], facts)
    ways = operator.alternatives()
    way = alternative if alternative is not None else ways[-1].name
    return claiming(operator, inputs, delivered, facts_after(plan, facts), way)


def claiming(
    operator: PhysicalOperator, inputs: tuple[Physical, ...], delivered: Delivered, facts: Any, way: str
) -> Physical:
    count = partitions_of(delivered.partitioning)
    amount = Amount(1000.0, 8000.0, 0 if isinstance(delivered.partitioning, Replicated) else count or 8, 0.1)
    return Physical(operator, inputs, delivered, facts, amount, Cost(), 0.0, way)


def scan(
    label: str,
    of: Iterable[Column],
    keys: Iterable[Iterable[Column]] = (),
    depends: Mapping[Column, Column] | None = None,
    layout: Delivered | None = None,
    pieces: int = 8,
) -> Physical:
    """A table; in so many pieces, or stored in a layout."""
    facts = tuple(Dependency(frozenset((a,)), frozenset((b,))) for a, b in (depends or {}).items())
    files = Files((f"{label}.parquet",), Format("Parquet"))
    unique = tuple(frozenset(key) for key in keys)
    table = logical.Scan(label, files, tuple(of), keys=unique, dependencies=facts, layout=layout)
    return node(ops.FileScan(table, layout or Delivered(Scattered(pieces))))


def move(how: Exchange, below: Physical) -> Physical:
    return node(ops.Move(how, below.columns), below)


def send(below: Physical, *on: Column, into: int = 8, types: Iterable[pa.DataType] | None = None) -> Physical:
    return move(Repartitioning(hashed(on, into, types), RandomMerge()), below)


def send_by(layout: Partitioned, below: Physical) -> Physical:
    return move(Repartitioning(layout, RandomMerge()), below)


def copy(below: Physical) -> Physical:
    return move(Repartitioning(Replicated(), RandomMerge()), below)


def gather(below: Physical) -> Physical:
    return move(FullMerge(RandomMerge()), below)


def sort(below: Physical, *by: Column | Sorted) -> Physical:
    keys = tuple(asc(key) if isinstance(key, Column) else key for key in by)
    return node(ops.LocalSort(keys, below.columns), below)


def select(below: Physical, predicate: Expression) -> Physical:
    return node(ops.Select(predicate, below.columns), below)


def compute(below: Physical, *outputs: Column | tuple[Column, Expression]) -> Physical:
    made = tuple((each, Ref(each)) if isinstance(each, Column) else each for each in outputs)
    return node(ops.Compute(made), below)


def aggregate(below: Physical, by: Iterable[Column], **made: Any) -> Physical:
    """`total=(column, call)`; with `streaming=True` one that wants its groups one after another."""
    kind = ops.StreamAggregate if made.pop("streaming", False) else ops.HashAggregate
    return node(kind(tuple(by), tuple(made.values())), below)


def join(
    kind: JoinKind,
    left: Physical,
    right: Physical,
    condition: Expression | None,
    way: str = "pair-wise",
    build: int = 1,
    merge: bool = False,
) -> Physical:
    plan = logical.Join(kind, _input(left), _input(right), condition)
    told = join_condition(condition, left.columns, right.columns)
    if merge:
        by = tuple(MergeKey(key) for key in told.keys)
        return node(ops.MergeJoin(plan, told.keys, told.rest, by=by), left, right, alternative=way)
    if not told.keys:
        inner: Any = build
        return node(ops.LoopJoin(plan, (), condition, inner=inner), left, right, alternative=way)
    built: Any = build
    return node(ops.HashJoin(plan, told.keys, told.rest, build=built), left, right, alternative=way)


def _input(plan: Physical) -> Plan:
    return logical.TableScan(("input",), plan.columns)


def optimized(
    plan: Physical,
    order: Iterable[Sorted] = (),
    spools: Iterable[Spool] = (),
    subqueries: Iterable[tuple[Plan, Physical]] = (),
    asked: tuple[Column, ...] | None = None,
) -> Optimized:
    """A script with one output, of which an order may be asked."""
    wanted: Plan = logical.TableScan(("result",), plan.columns if asked is None else asked)
    keys = tuple(SortKey(Ref(key.column), key.descending, key.nulls_first) for key in order)
    if keys:
        wanted = logical.Sort(wanted, keys)
    return Optimized(((Output(wanted, None), plan),), tuple(spools), tuple(subqueries), 0.0, 0.0, Trace())


def over(plan: Physical, *inputs: Physical, **changed: Any) -> Physical:
    """The same node over other inputs, with other claims: what a search that had lost its mind would build."""
    return replace(plan, inputs=inputs or plan.inputs, **changed)


def with_operator(plan: Physical, **changed: Any) -> Physical:
    return replace(plan, operator=replace(plan.operator, **changed))  # type: ignore[type-var]
