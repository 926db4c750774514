"""Steps on Catalyst's plans that would take dozens of calls from Python, each made in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.gateway import java_session

SEPARATOR = "\x01"  # between names that are passed as one text


def selection(spark: SparkSession, names: Sequence[tuple[str, str]]) -> tuple[Any, tuple[str, str]]:
    """The Java object that selects rows and columns of a frame, and its arguments for columns of these names, under other
    names."""
    from_names, to_names = (SEPARATOR.join(pair[i] for pair in names) for i in range(2))
    return _plans(spark), (from_names, to_names)


def with_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with the names, the nullability and the metadata of a schema with the same types."""
    spark = frame.sparkSession
    return DataFrame(_plans(spark).withSchema(java_session(spark), frame._jdf, schema.json()), spark)


def _plans(spark: SparkSession) -> Any:
    return java_object(spark, "unshuffle.Plans", _PLANS)


_PLANS = """
package unshuffle;

import java.util.ArrayList;
import java.util.HashMap;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownNotNull;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

public class Plans {
  public Plans() {}

  public Object selected(SparkSession session, Dataset frame, ArrayList conditions, String from, String to) {
    Column all = null;
    for (int i = 0; i < conditions.size(); i++) {
      Object each = conditions.get(i);
      Column condition = each instanceof String ? functions.expr((String) each) : (Column) each;
      all = all == null ? condition : all.and(condition);
    }
    LogicalPlan plan = (all == null ? frame : frame.where(all)).queryExecution().analyzed();
    HashMap attributes = new HashMap();
    for (int i = 0; i < plan.output().length(); i++) {
      Attribute attribute = (Attribute) plan.output().apply(i);
      attributes.put(attribute.name(), attribute);
    }
    ArrayList outputs = new ArrayList();
    String[] old = from.split("\\u0001", -1);
    String[] names = to.split("\\u0001", -1);
    for (int i = 0; i < old.length; i++) {
      Attribute attribute = (Attribute) attributes.get(old[i]);
      if (attribute == null) throw new IllegalStateException("no column " + old[i]);
      outputs.add(old[i].equals(names[i]) ? attribute : named(attribute, names[i], Option.empty()));
    }
    return Dataset.ofRows(session, new Project(PythonUtils.toSeq(outputs), plan));
  }

  public Object withSchema(SparkSession session, Dataset frame, String json) {
    LogicalPlan plan = frame.queryExecution().analyzed();
    StructField[] fields = ((StructType) DataType.fromJson(json)).fields();
    ArrayList outputs = new ArrayList();
    for (int i = 0; i < fields.length; i++) {
      Expression column = (Expression) plan.output().apply(i);
      if (fields[i].nullable() && !column.nullable()) column = new KnownNullable(column);
      if (!fields[i].nullable() && column.nullable()) column = new KnownNotNull(column);
      Metadata metadata = fields[i].metadata();
      boolean inherits = metadata.equals(Metadata.empty());
      outputs.add(named(column, fields[i].name(), inherits ? Option.empty() : Option.apply(metadata)));
    }
    return Dataset.ofRows(session, new Project(PythonUtils.toSeq(outputs), plan));
  }

  static Object named(Expression column, String name, Option metadata) {
    Seq none = PythonUtils.toSeq(new ArrayList());
    return new Alias(column, name, NamedExpression$.MODULE$.newExprId(), none, metadata, none);
  }
}
"""
