"""Merging and splitting the partitions of an intermediate result without a shuffle: a narrow dependency.

The task of output partition i computes the input partitions `reads[i]`, one after another. An input partition that several
output partitions read is computed by each of them. So the input should be an exchange, whose rows are on disk, or files.

Spark's `CoalescedRDD`, made for `coalesce`, has tasks that read several partitions of another RDD, but chooses the groups
itself. Here our groups are put in place of its own. They stay on the driver: a task carries the partitions that it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.errors import InternalError
from unshuffle.plan.sql import quote
from unshuffle.spark.execution.session_settings import isolated_session
from unshuffle.spark.shims.catalyst import analyzed_plan, frame_of, query_execution
from unshuffle.spark.shims.claimed_layout import SortOrder, with_claimed_layout, without_layout
from unshuffle.spark.shims.executed_plan import exchanges_and_sorts
from unshuffle.spark.shims.gateway import java_array, jvm, none

_ADAPTIVE = "spark.sql.adaptive.enabled"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_EMPTY_INPUTS = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"


def narrow_repartition(
    frame: DataFrame,
    reads: Sequence[Sequence[int]],
    number: str,
    belongs: Column | None = None,
    order: SortOrder = (),
    *,
    partitions: int | None = None,
) -> DataFrame:
    """The rows of the input partitions `reads[i]` as output partition i, in that order, with `number` = i.

    `belongs` is the number of the output partition that a row belongs to; other rows are filtered out. `order` is how the
    rows of each output partition are then sorted, and is not checked. `partitions` is the expected number of input
    partitions; by default, one more than the largest number in `reads`. A frame that has the column `number` keeps it."""
    spark = _for_fragments(frame.sparkSession)
    planned = frame_of(spark, analyzed_plan(frame))
    execution = query_execution(planned)
    rdd = execution.toRdd()
    expected = max((i for group in reads for i in group), default=-1) + 1 if partitions is None else partitions
    if rdd.getNumPartitions() != expected:
        raise InternalError(f"a fragment has {rdd.getNumPartitions()} partitions, {expected} were expected")
    statistics = execution.optimizedPlan().stats()
    merged, rows = planned, _grouped(spark, rdd, reads)
    if number not in frame.columns:
        unnumbered = without_layout(spark, analyzed_plan(planned).output(), rows, statistics)
        merged = unnumbered.select("*", F.spark_partition_id().alias(number))
        if belongs is not None:
            merged = merged.where(belongs == F.col(quote(number)))
        rows = query_execution(merged).toRdd()
    elif belongs is not None:
        raise InternalError("rows that already have partition numbers cannot be split")
    rows = rows.setName(f"narrowed {exchanges_and_sorts(planned)}")
    return with_claimed_layout(frame.sparkSession, analyzed_plan(merged).output(), rows, number, order, statistics)


def _for_fragments(spark: SparkSession) -> SparkSession:
    """A session whose plans can become an RDD now, with the partitions that were planned. An adaptive plan would run its
    stages for that, and might merge partitions; and Spark would leave out an input of a union that it sees to be empty. The
    user's session is not changed, because other threads use it."""
    excluded = filter(None, (spark.conf.get(_EXCLUDED, ""), _EMPTY_INPUTS))
    return isolated_session(spark, {_ADAPTIVE: False, _EXCLUDED: ",".join(excluded)})


def _grouped(spark: SparkSession, rdd: Any, reads: Sequence[Sequence[int]]) -> Any:
    java, nothing = jvm(spark), none(spark)
    rdds = java.org.apache.spark.rdd
    coalesced_partition, int_ = rdds.CoalescedRDDPartition, java.int
    groups = [coalesced_partition(i, rdd, java_array(spark, int_, group), nothing) for i, group in enumerate(reads)]
    partitions = java_array(spark, java.org.apache.spark.Partition, groups)
    grouped = rdds.CoalescedRDD(rdd, len(reads), nothing, rdd.elementClassTag())
    field = java.java.lang.Class.forName("org.apache.spark.rdd.RDD").getDeclaredField("partitions_")
    field.setAccessible(True)
    field.set(grouped, partitions)
    if not java.java.util.Objects.equals(grouped.partitions(), partitions):
        raise InternalError("Spark does not group partitions as requested")
    return grouped
