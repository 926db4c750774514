"""Physical plans of ours inside Spark's.

One thing cannot be expressed with DataFrames: an aggregate whose partial states are exchanged as we choose. Spark plans an
aggregate as two operators, and decides on the exchange between them when it prepares the plan. Here the two are taken from
the plan before that (`sparkPlan`), our exchange is put between them, and the result becomes a leaf of a logical plan: what
adaptive execution calls a query stage, a leaf with a physical plan of its own. Spark checks it as it does its own plans, and
would add an exchange if one were missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.spark.shims.catalyst import query_execution, sort_order
from unshuffle.spark.shims.gateway import constructed, items_of, java_class, jvm, none, scala_object, sequence
from unshuffle.spark.shims.java_plans import leaf

_SQL = "org.apache.spark.sql"


@dataclass(frozen=True, slots=True)
class GatherExchange:
    """All rows into one partition."""


@dataclass(frozen=True, slots=True)
class HashExchange:
    columns: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class NumberExchange:
    """Each row into the partition whose number is in a column."""

    column: str
    partitions: int


@dataclass(frozen=True, slots=True)
class RangeExchange:
    """By ranges of some columns: name, descending, NULLs first."""

    keys: tuple[tuple[str, bool, bool], ...]
    partitions: int


SparkExchange = GatherExchange | HashExchange | NumberExchange | RangeExchange

# ------------------------------------------------------------------------------------------------------ plans as leaves


def planned(frame: DataFrame) -> DataFrame:
    """The same rows, by Spark's current physical plan: the optimizer no longer sees what is inside."""
    execution = query_execution(frame)
    if _would_not_terminate(frame.sparkSession, execution.sparkPlan()):
        return frame
    return leaf(frame.sparkSession, execution.optimizedPlan(), execution.sparkPlan())


def sort_aggregated(frame: DataFrame) -> DataFrame:
    """The same rows, with groups formed from sorted rows. For states that are Java objects, Spark would use a hash table, and
    sort the rest once the table has 128 groups, even if the rows are sorted already. (Spark has a setting for this, but
    other threads would see it change in the user's session.)"""
    spark, execution = frame.sparkSession, query_execution(frame)
    if _would_not_terminate(spark, execution.sparkPlan()):
        return frame
    aggregate = _top_aggregate(execution)
    if aggregate is None:
        return planned(frame)
    final, above = aggregate
    return leaf(spark, execution.optimizedPlan(), _under(spark, above, _sort_based(spark, final)))


def _sort_based(spark: SparkSession, aggregate: Any) -> Any:
    """An aggregate and the steps below it that belong to it, down to the first that reads rows instead of states."""
    reads_rows = all(call.mode().toString() == "Partial" for call in items_of(aggregate.aggregateExpressions()))
    (below,) = items_of(aggregate.children())
    if not reads_rows and below.nodeName().endswith("Aggregate"):
        aggregate = aggregate.withNewChildren(sequence(spark, [_sort_based(spark, below)]))
    if aggregate.nodeName() != "ObjectHashAggregate":
        return aggregate
    fields = [aggregate.productElement(i) for i in range(aggregate.productArity())]
    return java_class(spark, f"{_SQL}.execution.aggregate.SortAggregateExec")(*fields)


def _would_not_terminate(spark: SparkSession, physical: Any) -> bool:
    """Whether adaptive execution would wait forever. After each stage it plans our leaf again. It recognizes the leaf's
    stages, but not a scan of cached data, nor anything if exchange reuse is off: then it would wait for a new stage each
    time. The caller leaves the plan to Spark instead, which is correct as well.

    Cached data are avoided whether or not adaptive execution is on: it may be by the time the DataFrame runs."""
    if "InMemoryRelation" in physical.toString():
        return True
    is_adaptive: bool = spark.conf.get("spark.sql.adaptive.enabled") == "true"
    return is_adaptive and spark.conf.get("spark.sql.exchange.reuse") != "true"


# ----------------------------------------------------------------------------------------------------------- aggregates


def aggregated_in_two_phases(grouped: DataFrame, exchange: SparkExchange, fragments: Sequence[int] = ()) -> DataFrame:
    """A GROUP BY with this exchange between its partial and its final aggregate. The exchange is by grouping keys.

    Before that, the partial states are gathered into as many partitions as each of `fragments` says, one step after another,
    and combined there."""
    spark = grouped.sparkSession
    execution = query_execution(grouped)
    if _would_not_terminate(spark, execution.sparkPlan()):
        return grouped
    aggregate = _top_aggregate(execution)
    if aggregate is None:
        return grouped
    final, above = aggregate
    (partial,) = items_of(final.children())
    if not partial.nodeName().endswith("Aggregate"):
        raise InternalError(f"Spark plans this aggregate in one step: {final.nodeName()} over {partial.nodeName()}")
    if not _columns(exchange) <= {attribute.name() for attribute in items_of(partial.output())}:
        return grouped  # Spark's optimizer has removed a key that it knows to be constant
    below = partial
    for partitions in fragments:
        below = _combined(spark, final, partial, _gathered(spark, below, partitions))
    plan = final.withNewChildren(sequence(spark, [_exchanged(spark, below, exchange)]))
    return leaf(spark, execution.optimizedPlan(), _under(spark, above, plan))


def aggregated_in_each_partition(grouped: DataFrame) -> DataFrame:
    """A GROUP BY within each partition: a group occurs once for each partition that has rows of it."""
    spark = grouped.sparkSession
    execution = query_execution(grouped)
    if _would_not_terminate(spark, execution.sparkPlan()):
        return grouped  # whole groups are correct as well
    aggregate = _top_aggregate(execution)
    if aggregate is None:
        return grouped
    final, above = aggregate
    (below,) = items_of(final.children())
    plan = _aggregate(spark, final, final.aggregateExpressions(), final.resultExpressions(), below)
    return leaf(spark, execution.optimizedPlan(), _under(spark, above, plan))


def _top_aggregate(execution: Any) -> tuple[Any, list[Any]] | None:
    """The uppermost aggregate of a plan, and the operators above it. None if Spark's optimizer has removed it: over an input
    that is known to be empty, or whose rows it knows to be distinct."""
    if not _is_grouped(execution.optimizedPlan()):
        return None
    operator, above = execution.sparkPlan(), []
    while not operator.nodeName().endswith("Aggregate"):
        above.append(operator)
        (operator,) = items_of(operator.children())
    return operator, above


def _is_grouped(plan: Any) -> bool:
    """Whether an optimized plan is an aggregate, under nothing but projections and filters."""
    while plan.nodeName() in ("Project", "Filter"):
        plan = plan.children().apply(0)
    name: str = plan.nodeName()
    return name == "Aggregate"


def _under(spark: SparkSession, above: Sequence[Any], plan: Any) -> Any:
    for operator in reversed(above):
        plan = operator.withNewChildren(sequence(spark, [plan]))
    return plan


# The column with the number of the partition that a partial state comes from.
FRAGMENT = "_fragment"


def _gathered(spark: SparkSession, plan: Any, fragments: int) -> Any:
    """Whole partitions gathered into fragments by their number, which Spark takes modulo the number of fragments. The number
    is the first column: Spark finds states by position, counted from the end or from `initialInputBufferOffset`."""
    java, nothing, empty = jvm(spark), none(spark), sequence(spark, [])
    expressions, execution = java.org.apache.spark.sql.catalyst.expressions, java.org.apache.spark.sql.execution
    identity = scala_object(spark, f"{_SQL}.catalyst.expressions.NamedExpression").newExprId()
    number = expressions.Alias(expressions.SparkPartitionID(), FRAGMENT, identity, empty, nothing, empty)
    numbered = execution.ProjectExec(sequence(spark, [number, *items_of(plan.output())]), plan)
    return _exchanged(spark, numbered, NumberExchange(FRAGMENT, fragments))


def _combined(spark: SparkSession, final: Any, partial: Any, below: Any) -> Any:
    """Partial states with equal keys, combined. It is a final aggregate that returns states, in the mode PartialMerge, which
    Spark has for aggregates of distinct values."""
    nothing = none(spark)
    merge = scala_object(spark, f"{_SQL}.catalyst.expressions.aggregate.PartialMerge")
    calls = [
        call.copy(call.aggregateFunction(), merge, call.isDistinct(), nothing, call.resultId())
        for call in items_of(final.aggregateExpressions())
    ]
    after_fragment = 1
    return _aggregate(spark, final, sequence(spark, calls), partial.resultExpressions(), below, after_fragment)


def _aggregate(spark: SparkSession, final: Any, calls: Any, results: Any, below: Any, skipped_columns: int = 0) -> Any:
    """An aggregate like the final one, which requires no distribution of its input."""
    nothing = none(spark)
    attributes = [call.resultAttribute() for call in items_of(calls)]
    return java_class(spark, final.getClass().getName())(
        nothing,  # requiredChildDistributionExpressions
        False,  # isStreaming
        nothing,  # numShufflePartitions
        final.groupingExpressions(),
        calls,
        sequence(spark, attributes),
        final.initialInputBufferOffset() + skipped_columns,
        results,
        below,
    )


# ------------------------------------------------------------------------------------------------------------ exchanges


def _exchanged(spark: SparkSession, child: Any, exchange: SparkExchange) -> Any:
    sql = jvm(spark).org.apache.spark.sql
    origin = scala_object(spark, f"{_SQL}.execution.exchange.REPARTITION_BY_NUM")
    newer_arguments = [none(spark), False]  # which not all versions have
    return constructed(
        sql.execution.exchange.ShuffleExchangeExec,
        [_partitioning(spark, sql.catalyst, child, exchange), child, origin],
        newer_arguments,
    )


def _columns(exchange: SparkExchange) -> set[str]:
    match exchange:
        case GatherExchange():
            return set()
        case NumberExchange(column):
            return {column}
        case HashExchange(columns):
            return set(columns)
        case RangeExchange(keys):
            return {name for name, *_ in keys}


def _partitioning(spark: SparkSession, catalyst: Any, child: Any, exchange: SparkExchange) -> Any:
    attributes = {attribute.name(): attribute for attribute in items_of(child.output())}
    physical = catalyst.plans.physical
    match exchange:
        case GatherExchange():
            return scala_object(spark, f"{_SQL}.catalyst.plans.physical.SinglePartition")
        case NumberExchange(column, partitions):
            number = catalyst.expressions.DirectShufflePartitionID(attributes[column])
            return physical.ShufflePartitionIdPassThrough(number, partitions)
        case HashExchange(columns, partitions):
            return physical.HashPartitioning(sequence(spark, [attributes[name] for name in columns]), partitions)
        case RangeExchange(keys, partitions):
            orders = [sort_order(spark, attributes[name], *direction) for name, *direction in keys]
            return physical.RangePartitioning(sequence(spark, orders), partitions)
