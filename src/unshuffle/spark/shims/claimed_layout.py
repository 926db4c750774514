"""DataFrames of our own RDDs, with a layout that is claimed to Catalyst.

The claim: a row with number p is in partition p, and each partition is sorted. Catalyst believes it and then adds neither
exchanges nor sorts: an aggregate or join with the number among its keys finds its rows together. So a claim must be true.
If such rows occur on both sides of a self-join, Spark renames their attributes, and those in the claim with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.spark.shims.catalyst import frame_of, sort_order
from unshuffle.spark.shims.gateway import constructed, java_array, java_session, jvm, none, scala_object, sequence

SortOrder = Sequence[tuple[str, bool, bool]]  # name, descending, NULLs first


def with_claimed_layout(
    spark: SparkSession,
    attributes: Sequence[Any],
    rdd: Any,
    number: str,
    order: SortOrder,
    statistics: Any,
) -> DataFrame:
    """An RDD of Catalyst's rows as a DataFrame. The attribute `number` holds the number of a row's partition. Each partition
    is sorted by `order`."""
    catalyst = jvm(spark).org.apache.spark.sql.catalyst
    by_name = {attribute.name(): attribute for attribute in attributes}
    partitioning = catalyst.plans.physical.ShufflePartitionIdPassThrough(
        catalyst.expressions.DirectShufflePartitionID(by_name[number]), rdd.getNumPartitions()
    )
    ordering = [
        sort_order(spark, by_name[name], descending, nulls_first)
        for name, descending, nulls_first in ((number, False, True), *order)
    ]
    return _frame(spark, attributes, rdd, partitioning, ordering, statistics)


def without_layout(spark: SparkSession, attributes: Sequence[Any], rdd: Any, statistics: Any) -> DataFrame:
    """An RDD of Catalyst's rows as a DataFrame of unknown partitioning and order."""
    unknown = jvm(spark).org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(rdd.getNumPartitions())
    return _frame(spark, attributes, rdd, unknown, [], statistics)


def _frame(
    spark: SparkSession,
    attributes: Sequence[Any],
    rdd: Any,
    partitioning: Any,
    ordering: Sequence[Any],
    statistics: Any,
) -> DataFrame:
    java, nothing = jvm(spark), none(spark)
    arguments = [
        sequence(spark, attributes),
        rdd,
        partitioning,
        sequence(spark, ordering),
        False,  # isStreaming
        nothing,  # stream
        java_session(spark),
        java.scala.Some(statistics),  # without statistics, Spark assumes more bytes than it would ever broadcast
        nothing,  # constraints
    ]
    from_checkpoint = [False]  # since Spark 4.3
    return frame_of(spark, constructed(java.org.apache.spark.sql.execution.LogicalRDD, arguments, from_checkpoint))


def statistics(spark: SparkSession, rows: int | None, bytes: int) -> Any:
    """Catalyst's statistics. py4j would turn a Scala BigInt into a Python int, so method handles make the BigInts inside the
    JVM."""
    java = jvm(spark)
    class_of, handles = java.java.lang.Class.forName, java.java.lang.invoke.MethodHandles
    big_int = class_of("scala.math.BigInt")
    from_long = next(method for method in big_int.getMethods() if method.getName() == "long2bigInt")
    filters = [handles.publicLookup().unreflect(from_long)]

    def made(class_name: str, *arguments: Any) -> Any:
        """An object whose first argument is a BigInt, made from a long."""
        (constructor,) = class_of(class_name).getConstructors()
        handle = handles.publicLookup().unreflectConstructor(constructor)
        handle = handle.asType(handle.type().changeParameterType(0, big_int))
        handle = handles.filterArguments(handle, 0, java_array(spark, java.java.lang.invoke.MethodHandle, filters))
        return handle.invokeWithArguments(java_array(spark, java.java.lang.Object, arguments))

    return made(
        "org.apache.spark.sql.catalyst.plans.logical.Statistics",
        bytes,
        none(spark) if rows is None else made("scala.Some", rows),
        scala_object(spark, "org.apache.spark.sql.catalyst.expressions.AttributeMap").empty(),
        False,  # isRuntime
    )
