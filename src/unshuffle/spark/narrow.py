"""Partitions of an intermediate result merged and split in place: no shuffle, each task reads what it needs of others' rows.

The task of output partition i computes the input partitions `reads[i]`, one after another. So an input that several outputs
read is computed by each of them: below it should be an exchange, whose rows are kept on disk, or stored files.

Spark has an RDD whose tasks read several partitions of another, made for `coalesce`, which groups neighbours as it likes. The
grouping here is given to it as if it had found it itself. It stays on the driver: a task takes along what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra.sql import quote
from unshuffle.errors import InternalError
from unshuffle.spark.bridge import singleton
from unshuffle.spark.claims import Order, claimed, unclaimed
from unshuffle.spark.columns import frame_of, jvm
from unshuffle.spark.faithful import told_inside
from unshuffle.spark.session import temporarily


def narrow(
    frame: DataFrame,
    reads: Sequence[Sequence[int]],
    number: str,
    belongs: Column | None = None,
    order: Order = (),
    *,
    partitions: int | None = None,
) -> DataFrame:
    """The rows of the input partitions `reads[i]` as output partition i, in that order, with `number` = i.

    `belongs` is the number of the output partition that a row belongs to: others are left out. `order` is how the rows of
    each output partition are then sorted: name, descending, NULLs first. It is believed. `partitions` is how many the input
    is expected to have; by default, as many as `reads` names. A frame with a column of that name has the number already."""
    spark = frame.sparkSession
    # An adaptive plan would run its stages now, and might merge partitions.
    with temporarily(spark, **{"spark.sql.adaptive.enabled": False}):
        planned = frame_of(spark, frame._jdf.queryExecution().analyzed())
        rdd = planned._jdf.queryExecution().toRdd()
        expected = max((i for of in reads for i in of), default=-1) + 1 if partitions is None else partitions
        if rdd.getNumPartitions() != expected:
            raise InternalError(f"a fragment has {rdd.getNumPartitions()} partitions, {expected} were expected")
        amount = planned._jdf.queryExecution().optimizedPlan().stats()
        merged, rows = planned, _grouped(spark, rdd, reads)
        if number not in frame.columns:
            merged = unclaimed(spark, _attributes(planned), rows, amount).select(
                "*", F.spark_partition_id().alias(number)
            )
            if belongs is not None:
                merged = merged.where(belongs == F.col(quote(number)))
            rows = merged._jdf.queryExecution().toRdd()
        elif belongs is not None:
            raise InternalError("rows that have numbers are not divided anew")
        rows = rows.setName(f"narrowed {told_inside(planned)}")
    return claimed(spark, _attributes(merged), rows, number, order, amount)


def _attributes(frame: DataFrame) -> list[Any]:
    output = frame._jdf.queryExecution().analyzed().output()
    return [output.apply(i) for i in range(output.size())]


def _grouped(spark: SparkSession, rdd: Any, reads: Sequence[Sequence[int]]) -> Any:
    java, gateway = jvm(spark), spark.sparkContext._gateway
    assert gateway is not None
    none, rdds = singleton(java.scala, "None"), java.org.apache.spark.rdd
    partition_of = rdds.CoalescedRDDPartition
    made = gateway.new_array(java.org.apache.spark.Partition, len(reads))
    for i, of in enumerate(reads):
        parents = gateway.new_array(gateway.jvm.int, len(of))
        for at, parent in enumerate(of):
            parents[at] = parent
        made[i] = partition_of(i, rdd, parents, none)
    grouped = rdds.CoalescedRDD(rdd, len(reads), none, rdd.elementClassTag())
    found = java.java.lang.Class.forName("org.apache.spark.rdd.RDD").getDeclaredField("partitions_")
    found.setAccessible(True)
    found.set(grouped, made)
    if not java.java.util.Objects.equals(grouped.partitions(), made):
        raise InternalError("Spark groups partitions otherwise than it was told")
    return grouped
