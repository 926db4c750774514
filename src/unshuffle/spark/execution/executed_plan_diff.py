"""Compares the exchanges and sorts that Spark runs with those that were planned.

Spark's are read from the text of its plan. The rows are right either way: an exchange that Spark adds is one that it could
not see to be redundant, which makes the plan slower, not wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pyspark.sql import DataFrame

from unshuffle.frozen import dataclass
from unshuffle.implement.spark_ordering import is_hashed
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalOperator, PhysicalPlan
from unshuffle.properties import Replicated
from unshuffle.spark.lowering.operators.sort_limit import below_limit
from unshuffle.spark.shims.executed_plan import executed_plan, is_adaptive, operators_in
from unshuffle.spark.shims.plan_bridge import (
    GatherExchange,
    HashExchange,
    NumberExchange,
    RangeExchange,
    SparkExchange,
)


@dataclass(frozen=True, slots=True)
class ExchangeShape:
    """One exchange, as far as both sides can tell. An exchange by partition number has no columns here: its number column has
    a name of its own."""

    how: str  # hash, range, gather, number or round robin
    columns: frozenset[str]
    partitions: int

    def __str__(self) -> str:
        of = f" of ({', '.join(sorted(self.columns))})" if self.columns else ""
        return f"{self.how}{of} into {self.partitions}"


@dataclass(frozen=True, slots=True)
class ExecutedShape:
    """The exchanges and sorts of a plan, each as often as it runs."""

    exchanges: Counter[ExchangeShape]
    sorts: int


def differences(planned: ExecutedShape, executed: ExecutedShape) -> list[str]:
    """Exchanges that Spark adds or omits, and additional sorts."""
    added, missing = executed.exchanges - planned.exchanges, planned.exchanges - executed.exchanges
    found = [f"Spark added an exchange: {each}" for each in added.elements()]
    found += [f"Spark left out an exchange: {each}" for each in missing.elements()]
    if executed.sorts > planned.sorts:
        found.append(f"Spark sorts {executed.sorts} times, {planned.sorts} were planned")
    return found


def added(
    optimized: PlannedQuery, spark_exchanges: Mapping[int, SparkExchange], frames: Iterable[DataFrame]
) -> tuple[str, ...]:
    """The exchanges and sorts that Spark adds to a plan, in words for the user. This makes Spark plan the DataFrames."""
    planned, executed = as_planned(optimized, spark_exchanges), [of_frame(frame) for frame in frames]
    exchanges = sum((each.exchanges for each in executed), Counter[ExchangeShape]())
    sorts = sum(each.sorts for each in executed) - planned.sorts
    if optimized.spools:  # the plan of a spool appears in every plan that reads it
        exchanges, sorts = Counter(set(exchanges)), 0
    more = sorted(str(each) for each in (exchanges - planned.exchanges).elements())
    found = [f"Spark adds an exchange that was not planned: {each}" for each in more]
    if sorts > 0:
        found.append(f"Spark sorts {sorts} more time{'s' if sorts > 1 else ''} than was planned")
    return tuple(found)


def as_planned(optimized: PlannedQuery, spark_exchanges: Mapping[int, SparkExchange]) -> ExecutedShape:
    """The exchanges and sorts of a plan. `spark_exchanges` is how each exchange was lowered, by the id of its node."""
    exchanges: Counter[ExchangeShape] = Counter()
    sorts = 0
    for root in optimized.roots:
        for node in _each_use(root):
            # An exchange with readers reads partitions in place and sends nothing.
            if isinstance(node.operator, physical.Exchange) and node.operator.readers is None:
                shape = _shape(node, spark_exchanges.get(id(node)))
                exchanges.update([shape] if shape is not None else [])
            sorts += _sorts(node.operator)
    return ExecutedShape(exchanges, sorts)


def _sorts(operator: PhysicalOperator) -> int:
    match operator:
        case physical.LocalSort() | physical.RunReduce():
            return 1
        case physical.RunCombine():
            return 2
        case physical.HashAggregate(keys=keys, aggregates=aggregates, phase=phase) if phase != "partial":
            # The partial and the final aggregate sort: Spark normalizes floating-point keys in between.
            return 0 if is_hashed(keys, aggregates) else 2
        case physical.SortAggregate(aggregates=aggregates) if any(call.distinct for _, call in aggregates):
            return 1  # by the keys and the values that are counted once
    return 0


def of_frame(frame: DataFrame) -> ExecutedShape:
    """What Spark would run. The text of an adaptive plan that has run holds the plan twice, so a new one is made."""
    return of_text(executed_plan(frame.select("*") if is_adaptive(frame) else frame))


def of_text(lines: Iterable[str]) -> ExecutedShape:
    found = operators_in(lines)
    exchanges = Counter(shape for line in found if (shape := _parse(line)) is not None)
    return ExecutedShape(exchanges, sum(line.startswith("Sort [") for line in found))


def _each_use(root: PhysicalPlan) -> Iterator[PhysicalPlan]:
    """Every node as often as it is used, except those that Spark's own top-n operator replaces."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node.operator, physical.Limit):
            waiting.extend(node.inputs)
            continue
        below = below_limit(node)
        while isinstance(below.operator, physical.Filter | physical.Project | physical.Rename):
            yield below
            (below,) = below.inputs
        waiting.extend(below.inputs if isinstance(below.operator, physical.LocalSort) else [below])


def _shape(node: PhysicalPlan, spark_exchange: SparkExchange | None) -> ExchangeShape | None:
    match spark_exchange:
        case GatherExchange():
            return ExchangeShape("gather", frozenset(), 1)
        case NumberExchange(_, partitions):
            return ExchangeShape("number", frozenset(), partitions)
        case HashExchange(columns, partitions):
            return ExchangeShape("hash", frozenset(columns), partitions)
        case RangeExchange(keys, partitions):
            return ExchangeShape("range", frozenset(name for name, _, _ in keys), partitions)
    # The others are lowered by hints: broadcasts, round-robin exchanges, and gathering without keys.
    match getattr(node.operator.how, "scheme", None):  # type: ignore[attr-defined]
        case Replicated():
            return None
        case None:
            return ExchangeShape("gather", frozenset(), 1)
        case _:
            return ExchangeShape("round robin", frozenset(), node.size.partitions)


# Up to the last parenthesis: keys may be calls, and names of columns may look like what follows it.
_EXCHANGE = re.compile(r"Exchange (\w+)(?:\((.*)\))?, [A-Z_]+")


def _parse(line: str) -> ExchangeShape | None:
    found = _EXCHANGE.match(line)
    if found is None:
        return None
    kind, inside = found[1], found[2] or ""
    *columns, last = [part.strip() for part in inside.split(",")]
    names = frozenset(re.sub(r"#\d+L?.*$", "", column) for column in columns)
    match kind:
        case "SinglePartition":
            return ExchangeShape("gather", frozenset(), 1)
        case "hashpartitioning":
            return ExchangeShape("hash", names, int(last))
        case "rangepartitioning":
            return ExchangeShape("range", names, int(last))
        case "RoundRobinPartitioning":
            return ExchangeShape("round robin", frozenset(), int(last))
        case _:
            return ExchangeShape("number", frozenset(), int(last) if last.isdecimal() else 0)
