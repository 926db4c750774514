"""Rows of our own making inside Spark's plans, with what is true of where they are.

A row with number p is in partition p, and rows are in some order there. Catalyst takes our word, and then neither exchanges
nor sorts what need not be: an aggregate or a join that has the number among its keys finds its rows together. So nothing may
be claimed that is not so. Under a self-join, Spark itself gives such rows new identities and our claims with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.spark.bridge import constructed, sequence, singleton, sort_order
from unshuffle.spark.columns import frame_of, jvm

Order = Sequence[tuple[str, bool, bool]]  # name, descending, NULLs first


def claimed(
    spark: SparkSession,
    attributes: Sequence[Any],
    rdd: Any,
    number: str,
    order: Order,
    statistics: Any,
) -> DataFrame:
    """An RDD of Catalyst's rows as a DataFrame. `number` names the attribute with the number of a row's partition; each
    partition is sorted by `order`."""
    catalyst = jvm(spark).org.apache.spark.sql.catalyst
    named = {attribute.name(): attribute for attribute in attributes}
    partitioning = catalyst.plans.physical.ShufflePartitionIdPassThrough(
        catalyst.expressions.DirectShufflePartitionID(named[number]), rdd.getNumPartitions()
    )
    ordering = [
        sort_order(spark, named[name], descending, nulls_first)
        for name, descending, nulls_first in ((number, False, True), *order)
    ]
    return _rows(spark, attributes, rdd, partitioning, ordering, statistics)


def unclaimed(spark: SparkSession, attributes: Sequence[Any], rdd: Any, statistics: Any) -> DataFrame:
    """The same of which nothing is known but the rows."""
    unknown = jvm(spark).org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(rdd.getNumPartitions())
    return _rows(spark, attributes, rdd, unknown, [], statistics)


def _rows(
    spark: SparkSession,
    attributes: Sequence[Any],
    rdd: Any,
    partitioning: Any,
    ordering: Sequence[Any],
    statistics: Any,
) -> DataFrame:
    java = jvm(spark)
    none = singleton(java.scala, "None")
    given = [
        sequence(spark, attributes),
        rdd,
        partitioning,
        sequence(spark, ordering),
        False,  # no stream
        none,
        spark._jsparkSession,
        java.scala.Some(statistics),  # without any, Spark takes rows for more than it would ever copy
        none,  # no constraints
    ]
    return frame_of(spark, constructed(java.org.apache.spark.sql.execution.LogicalRDD, given, [False]))


def statistics(spark: SparkSession, rows: int | None, bytes: int) -> Any:
    """How much there is, as Catalyst says it. Scala's large numbers would reach us as Python's, so the JVM makes them
    where they are needed."""
    java = jvm(spark)
    catalyst, of = java.org.apache.spark.sql.catalyst, java.java.lang.Class.forName
    handles = java.java.lang.invoke.MethodHandles
    big = of("scala.math.BigInt")
    whole = next(method for method in big.getMethods() if method.getName() == "long2bigInt")
    large = [handles.publicLookup().unreflect(whole)]

    def called(java_class: str, *given: Any) -> Any:
        (constructor,) = of(java_class).getConstructors()
        made = handles.publicLookup().unreflectConstructor(constructor)
        made = made.asType(made.type().changeParameterType(0, big))
        from_whole = handles.filterArguments(made, 0, _array(spark, java.java.lang.invoke.MethodHandle, large))
        return from_whole.invokeWithArguments(_array(spark, java.java.lang.Object, given))

    return called(
        "org.apache.spark.sql.catalyst.plans.logical.Statistics",
        bytes,
        singleton(java.scala, "None") if rows is None else called("scala.Some", rows),
        singleton(catalyst.expressions, "AttributeMap").empty(),
        False,  # not measured while the plan runs
    )


def _array(spark: SparkSession, java_class: Any, items: Sequence[Any]) -> Any:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    made = gateway.new_array(java_class, len(items))
    for i, item in enumerate(items):
        made[i] = item
    return made
