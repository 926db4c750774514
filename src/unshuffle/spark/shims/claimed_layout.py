"""DataFrames of our own RDDs, with a layout that is claimed to Catalyst.

The claim: a row with number p is in partition p, and each partition is sorted. Catalyst believes it and then adds neither
exchanges nor sorts: an aggregate or join with the number among its keys, or the columns that it is computed from, finds its
rows together. So a claim must be true. If such rows occur on both sides of a self-join, Spark renames their attributes, and
those in the claim with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.function_partitioning import claims_of_functions
from unshuffle.spark.shims.gateway import java_session
from unshuffle.spark.shims.java_plans import SEPARATOR
from unshuffle.spark.shims.range_number import number_code

SortOrder = Sequence[tuple[str, bool, bool]]  # name, descending, NULLs first


def layout_by_number(spark: SparkSession, number: str, order: SortOrder) -> tuple[Any, ...]:
    """The Java object that makes DataFrames of RDDs, and its arguments for the claim that the attribute `number` holds the
    number of a row's partition, and that each partition is sorted by `order`."""
    return _layouts(spark), number, None, None, None, None, None, _encoded([(number, False, True), *order])


def layout_by_columns(
    spark: SparkSession, columns: Sequence[str], function: HashFunction | RangeFunction, order: SortOrder
) -> tuple[Any, ...]:
    """The same for the claim that a row is in the partition that the function of its columns gives."""
    number, claims = number_code(spark, function), claims_of_functions(spark)
    names = SEPARATOR.join(columns)
    return _layouts(spark), None, claims, number.text, number.expression, number.holes, names, _encoded(order)


def with_claimed_layout(
    spark: SparkSession, attributes: Any, rdd: Any, number: str, order: SortOrder, statistics: Any
) -> DataFrame:
    """An RDD of Catalyst's rows as a DataFrame with a layout by number. The attributes are a Scala Seq."""
    layouts, *_, sorted_by = layout_by_number(spark, number, order)
    return DataFrame(layouts.byNumber(java_session(spark), attributes, rdd, number, sorted_by, statistics), spark)


def without_layout(spark: SparkSession, attributes: Any, rdd: Any, statistics: Any) -> DataFrame:
    """An RDD of Catalyst's rows as a DataFrame of unknown partitioning and order."""
    return DataFrame(_layouts(spark).unknown(java_session(spark), attributes, rdd, statistics), spark)


def _encoded(order: SortOrder) -> str:
    keys = (
        (name, "descending" if descending else "ascending", "first" if nulls_first else "last")
        for name, descending, nulls_first in order
    )
    return SEPARATOR.join(part for key in keys for part in key)


def _layouts(spark: SparkSession) -> Any:
    return java_object(spark, "unshuffle.ClaimedLayouts", _CLAIMED_LAYOUTS)


_CLAIMED_LAYOUTS = """
package unshuffle;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.DirectShufflePartitionID;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NullOrdering;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.NullsLast$;
import org.apache.spark.sql.catalyst.expressions.SortDirection;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.Function1;
import scala.Function3;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.math.BigInt;
import scala.runtime.AbstractPartialFunction;

public class ClaimedLayouts {
  static final Seq NONE = PythonUtils.toSeq(new ArrayList());

  public ClaimedLayouts() {}

  /** A BigInt of Scala is made here, because py4j would turn it into a Python int. Without statistics, Spark assumes more
      bytes than it would ever broadcast. */
  public Object statistics(long bytes, long rows) {
    Option count = rows < 0 ? Option.empty() : Option.apply(BigInt.apply(rows));
    return new Statistics(BigInt.apply(bytes), count, AttributeMap$.MODULE$.empty(), false);
  }

  public Object unknown(SparkSession session, Seq attributes, RDD rows, Statistics statistics) throws Exception {
    Partitioning unknown = new UnknownPartitioning(rows.getNumPartitions());
    return frame(session, attributes, rows, unknown, NONE, statistics);
  }

  public Object byNumber(
      SparkSession session, Seq attributes, RDD rows, String number, String order, Statistics statistics)
      throws Exception {
    HashMap byName = byName(attributes);
    DirectShufflePartitionID own = new DirectShufflePartitionID((Expression) byName.get(number));
    Partitioning claim = new ShufflePartitionIdPassThrough(own, rows.getNumPartitions());
    return frame(session, attributes, rows, claim, ordering(byName, order), statistics);
  }

  public Object byFunction(
      SparkSession session, Seq attributes, RDD rows, Function3 claims, String function, Expression number, Seq holes,
      String columns, String order, Statistics statistics) throws Exception {
    HashMap byName = byName(attributes);
    HashMap arguments = new HashMap();
    String[] names = columns.split("\\u0001", -1);
    for (int i = 0; i < names.length; i++) arguments.put(holes.apply(i), byName.get(names[i]));
    Object own = number.transform(new Arguments(arguments));
    Object claim = claims.apply(function, own, Integer.valueOf(rows.getNumPartitions()));
    return frame(session, attributes, rows, (Partitioning) claim, ordering(byName, order), statistics);
  }

  public static class Arguments extends AbstractPartialFunction {
    final HashMap arguments;

    public Arguments(HashMap arguments) {
      this.arguments = arguments;
    }

    public boolean isDefinedAt(Object part) {
      return arguments.containsKey(part);
    }

    public Object applyOrElse(Object part, Function1 otherwise) {
      return isDefinedAt(part) ? arguments.get(part) : otherwise.apply(part);
    }
  }

  static HashMap byName(Seq attributes) {
    HashMap found = new HashMap();
    for (int i = 0; i < attributes.length(); i++) {
      Attribute attribute = (Attribute) attributes.apply(i);
      found.put(attribute.name(), attribute);
    }
    return found;
  }

  static Seq ordering(HashMap byName, String order) {
    ArrayList found = new ArrayList();
    String[] parts = order.split("\\u0001", -1);
    for (int i = 0; i + 2 < parts.length; i += 3) {
      SortDirection direction = Ascending$.MODULE$;
      if (parts[i + 1].equals("descending")) direction = Descending$.MODULE$;
      NullOrdering nulls = NullsFirst$.MODULE$;
      if (parts[i + 2].equals("last")) nulls = NullsLast$.MODULE$;
      found.add(new SortOrder((Expression) byName.get(parts[i]), direction, nulls, NONE));
    }
    return PythonUtils.toSeq(found);
  }

  /** Since Spark 4.3, the constructor has a further argument: whether the rows are from a checkpoint. */
  static Object frame(
      SparkSession session, Seq attributes, RDD rows, Partitioning partitioning, Seq ordering, Statistics statistics)
      throws Exception {
    Object[] known = {
      attributes, rows, partitioning, ordering, Boolean.FALSE, Option.empty(), session, Option.apply(statistics),
      Option.empty(), Boolean.FALSE
    };
    Constructor constructor = LogicalRDD.class.getConstructors()[0];
    Object[] arguments = new Object[constructor.getParameterCount()];
    System.arraycopy(known, 0, arguments, 0, arguments.length);
    return Dataset.ofRows(session, (LogicalPlan) constructor.newInstance(arguments));
  }
}
"""
