"""DataFrames of our own RDDs, with a layout that is claimed to Catalyst.

The claim: a row with number p is in partition p, and each partition is sorted. Catalyst believes it and then adds neither
exchanges nor sorts: an aggregate or join with the number among its keys, or the columns that it is computed from, finds its
rows together. So a claim must be true. If such rows occur on both sides of a self-join, Spark renames their attributes, and
those in the claim with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.spark.shims.catalyst import frame_of, sort_order
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.function_partitioning import function_partitioning
from unshuffle.spark.shims.gateway import constructed, java_class, java_session, none, sequence
from unshuffle.spark.shims.range_number import number_expression

_CATALYST = "org.apache.spark.sql.catalyst"
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
    by_name = {attribute.name(): attribute for attribute in attributes}
    own_number = java_class(spark, f"{_CATALYST}.expressions.DirectShufflePartitionID")(by_name[number])
    pass_through = java_class(spark, f"{_CATALYST}.plans.physical.ShufflePartitionIdPassThrough")
    partitioning = pass_through(own_number, rdd.getNumPartitions())
    ordering = [
        sort_order(spark, by_name[name], descending, nulls_first)
        for name, descending, nulls_first in ((number, False, True), *order)
    ]
    return _frame(spark, attributes, rdd, partitioning, ordering, statistics)


def with_layout_by_columns(
    spark: SparkSession,
    attributes: Sequence[Any],
    rdd: Any,
    columns: Sequence[str],
    function: HashFunction | RangeFunction,
    order: SortOrder,
    statistics: Any,
) -> DataFrame:
    """An RDD of Catalyst's rows as a DataFrame. A row is in the partition that the function of its columns gives."""
    by_name = {attribute.name(): attribute for attribute in attributes}
    number = number_expression(spark, [by_name[name] for name in columns], function)
    partitioning = function_partitioning(spark, _text(function), number, rdd.getNumPartitions())
    ordering = [sort_order(spark, by_name[name], descending, first) for name, descending, first in order]
    return _frame(spark, attributes, rdd, partitioning, ordering, statistics)


def _text(function: HashFunction | RangeFunction) -> str:
    """What tells partition functions apart; short, because there may be thousands of boundaries."""
    return sha256(repr(function).encode()).hexdigest()


def without_layout(spark: SparkSession, attributes: Sequence[Any], rdd: Any, statistics: Any) -> DataFrame:
    """An RDD of Catalyst's rows as a DataFrame of unknown partitioning and order."""
    unknown = java_class(spark, f"{_CATALYST}.plans.physical.UnknownPartitioning")(rdd.getNumPartitions())
    return _frame(spark, attributes, rdd, unknown, [], statistics)


def _frame(
    spark: SparkSession,
    attributes: Sequence[Any],
    rdd: Any,
    partitioning: Any,
    ordering: Sequence[Any],
    statistics: Any,
) -> DataFrame:
    nothing = none(spark)
    arguments = [
        sequence(spark, attributes),
        rdd,
        partitioning,
        sequence(spark, ordering),
        False,  # isStreaming
        nothing,  # stream
        java_session(spark),
        java_class(spark, "scala.Some")(
            statistics
        ),  # without statistics, Spark assumes more bytes than it would ever broadcast
        nothing,  # constraints
    ]
    from_checkpoint = [False]  # since Spark 4.3
    logical_rdd = java_class(spark, "org.apache.spark.sql.execution.LogicalRDD")
    return frame_of(spark, constructed(logical_rdd, arguments, from_checkpoint))


def statistics(spark: SparkSession, rows: int | None, bytes: int) -> Any:
    """Catalyst's statistics. py4j would turn a Scala BigInt into a Python int, so the BigInts are made inside of the JVM."""
    maker = java_object(spark, "unshuffle.MadeStatistics", _STATISTICS)
    return maker.made(bytes, -1 if rows is None else rows)


_STATISTICS = """
package unshuffle;

import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import scala.Option;
import scala.math.BigInt;

public class MadeStatistics {
  public MadeStatistics() {}

  public Object made(long bytes, long rows) {
    Option count = rows < 0 ? Option.empty() : Option.apply(BigInt.apply(rows));
    return new Statistics(BigInt.apply(bytes), count, AttributeMap$.MODULE$.empty(), false);
  }
}
"""
