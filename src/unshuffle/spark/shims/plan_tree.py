"""One of Catalyst's plans in Python: handed over in two calls, with what its JSON omits.

The JSON is that of `TreeNode.toJSON`, which asks Scala's reflection for the fields of every node, and takes longer for a
large plan than Spark takes to optimize it. Ours asks once for every class. A test compares the two.

It has the operators and expressions of a plan, but leaves out fields of many classes: whether a cast is ANSI, the type of a
function's result, what a constant folds to. These are collected for the whole plan. Nodes are named by their paths: `/0` is
the first child of an operator or expression, `/projectList:2` the third expression of that field. A node itself stays in the
JVM, and is fetched where Spark needs it again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.frozen import dataclass
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.gateway import java_session

Facts = Mapping[str, Any]
NO_FACTS: Facts = {}


class PlanTree:
    """A plan in the JVM. `text` is its JSON, `facts` has what the JSON omits, by path, and `types` the types that facts
    refer to by number, as JSON."""

    def __init__(self, spark: SparkSession, java: Any) -> None:
        self.spark, self.java = spark, java
        facts, _, self.text = zlib.decompress(self.java.handedOver()).decode().partition("\n")
        found = json.loads(facts)
        self.is_streaming: bool = found["streaming"]
        self.facts: Mapping[str, Facts] = found["facts"]
        self.types: Sequence[str] = found["types"]
        self.relations: Mapping[str, int] = {path: number for number, path in enumerate(found["relations"])}

    @classmethod
    def of_plan(cls, spark: SparkSession, plan: Any) -> PlanTree:
        return cls(spark, java_object(spark, "unshuffle.PlanTrees", _PLAN_TREES).ofPlan(plan))

    @classmethod
    def of_frame(cls, frame: DataFrame) -> PlanTree:
        """The analyzed plan of a DataFrame, over the data that the user has cached, as Spark itself would run it."""
        spark = frame.sparkSession
        trees = java_object(spark, "unshuffle.PlanTrees", _PLAN_TREES)
        return cls(spark, trees.ofFrame(java_session(spark), frame._jdf))

    @cached_property
    def has_seeds(self) -> bool:
        """Whether an expression has a seed, which users see or do not see."""
        return '"hideSeed"' in self.text

    def at(self, path: str) -> Any:
        """The JVM's node at a path."""
        return self.java.at(path)


@dataclass(frozen=True, eq=False)
class JavaNode:
    """A node of a plan in the JVM, fetched at first use."""

    tree: PlanTree
    path: str

    @cached_property
    def jvm(self) -> Any:
        return self.tree.at(self.path)


@dataclass(frozen=True, eq=False)
class FoundNode:
    """A node of the JVM that is at hand already."""

    jvm: Any


def are_same_expressions(one: JavaNode | FoundNode, other: JavaNode | FoundNode) -> bool:
    """Whether two expressions are the same to Catalyst."""
    if isinstance(one, JavaNode) and isinstance(other, JavaNode) and one.tree is other.tree:
        return bool(one.tree.java.areSame(one.path, other.path))
    return bool(one.jvm.semanticEquals(other.jvm))


_PLAN_TREES = r"""
package unshuffle;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.zip.DeflaterOutputStream;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.CatalystIdentifier;
import org.apache.spark.sql.catalyst.ScalaReflection$;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.FunctionResource;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import org.apache.spark.sql.catalyst.optimizer.ConstantFolding$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.physical.BroadcastMode;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.storage.StorageLevel;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;

public class PlanTrees {
  public PlanTrees() {}

  public Object ofPlan(LogicalPlan plan) {
    return new Tree(plan);
  }

  public Object ofFrame(SparkSession session, Dataset frame) throws Exception {
    LogicalPlan plan = frame.queryExecution().analyzed();
    CacheManager cache = session.sharedState().cacheManager();
    return new Tree(cache.isEmpty() ? plan : overCachedData(cache, plan));
  }

  /** Since Spark 4.3 the method has overloads, in an order that the JVM chooses. */
  static LogicalPlan overCachedData(CacheManager cache, LogicalPlan plan) throws Exception {
    Method[] all = CacheManager.class.getMethods();
    for (int i = 0; i < all.length; i++) {
      Class[] types = all[i].getParameterTypes();
      if (!all[i].getName().equals("useCachedData") || types.length > 1 && types[1] != scala.Function1.class) continue;
      if (types.length == 1) return (LogicalPlan) all[i].invoke(cache, new Object[] {plan});
      Object second = CacheManager.class.getMethod("useCachedData$default$2", new Class[0]).invoke(cache, new Object[0]);
      return (LogicalPlan) all[i].invoke(cache, new Object[] {plan, second});
    }
    throw new IllegalStateException("no useCachedData");
  }

  // A value that Spark writes in a way of its own.
  static class Unwritten extends Exception {}

  // A plan as `TreeNode.toJSON` writes it.
  static class Json {
    static final HashMap NAMES = new HashMap();

    final StringBuilder out = new StringBuilder();
    final HashMap types = new HashMap();

    void tree(TreeNode node) throws Unwritten {
      out.append('[');
      nodes(node, true);
      out.append(']');
    }

    void nodes(TreeNode node, boolean isFirst) throws Unwritten {
      if (!isFirst) out.append(',');
      out.append("{\"class\":");
      text(node.getClass().getName());
      out.append(",\"num-children\":").append(node.children().length());
      if (node instanceof Literal) literal((Literal) node);
      else fields(node);
      out.append('}');
      for (int i = 0; i < node.children().length(); i++) nodes((TreeNode) node.children().apply(i), false);
    }

    void literal(Literal node) throws Unwritten {
      boolean isShown = node.dataType() instanceof DateType || node.dataType() instanceof TimestampType;
      out.append(",\"value\":");
      if (node.value() == null) out.append("null");
      else text(isShown ? node.toString() : node.value().toString());
      out.append(",\"dataType\":");
      type(node.dataType());
    }

    void fields(TreeNode node) throws Unwritten {
      Seq names = names(node.getClass());
      Product fields = (Product) node;
      Seq others = node.otherCopyArgs();
      if (names.length() != fields.productArity() + others.length()) throw new Unwritten();
      for (int i = 0; i < names.length(); i++) {
        Object value = i < fields.productArity() ? fields.productElement(i) : others.apply(i - fields.productArity());
        if (value instanceof Option && ((Option) value).isEmpty()) continue;
        out.append(',');
        text((String) names.apply(i));
        out.append(':');
        field(node, value);
      }
    }

    void field(TreeNode node, Object value) throws Unwritten {
      if (value instanceof TreeNode && node.containsChild().contains(value)) {
        out.append(node.children().indexOf(value));
      } else if (value instanceof Seq && areChildren(node, (Seq) value)) {
        out.append('[');
        for (int i = 0; i < ((Seq) value).length(); i++) {
          if (i > 0) out.append(',');
          out.append(node.children().indexOf(((Seq) value).apply(i)));
        }
        out.append(']');
      } else {
        value(value);
      }
    }

    static boolean areChildren(TreeNode node, Seq values) {
      for (int i = 0; i < values.length(); i++) {
        if (!(values.apply(i) instanceof TreeNode) || !node.containsChild().contains(values.apply(i))) return false;
      }
      return true;
    }

    void value(Object value) throws Unwritten {
      if (value == null) out.append("null");
      else if (value instanceof Boolean || value instanceof Byte || value instanceof Short) out.append(value);
      else if (value instanceof Integer || value instanceof Long) out.append(value);
      else if (value instanceof String) text((String) value);
      else if (value instanceof DataType) type((DataType) value);
      else if (value instanceof Metadata) out.append("{}");
      else if (value instanceof Class) text(((Class) value).getName());
      else if (value instanceof TreeNode) tree((TreeNode) value);
      else if (value instanceof Option) value(((Option) value).isDefined() ? ((Option) value).get() : null);
      else if (value instanceof Seq) list((Seq) value);
      else if (value instanceof scala.collection.Map) out.append("null");
      else if (value instanceof java.util.UUID) text(value.toString());
      else if (value instanceof Number || value instanceof StorageLevel) throw new Unwritten();
      else if (value.getClass().getName().endsWith("$")) object(value);
      else if (value instanceof Product && isWritten((Product) value)) product((Product) value);
      else out.append("null");
    }

    void list(Seq values) throws Unwritten {
      if (areWritten(values)) {
        out.append('[');
        for (int i = 0; i < values.length(); i++) {
          if (i > 0) out.append(',');
          value(values.apply(i));
        }
        out.append(']');
      } else if (values.head() instanceof String) {
        if (values.length() >= MOST_TEXTS) throw new Unwritten();
        text(values.mkString("[", ", ", "]"));
      } else {
        out.append("null");
      }
    }

    static boolean areWritten(Seq values) {
      boolean areTypes = true;
      boolean arePartitionings = true;
      boolean areProducts = true;
      for (int i = 0; i < values.length(); i++) {
        areTypes = areTypes && values.apply(i) instanceof DataType;
        arePartitionings = arePartitionings && values.apply(i) instanceof Partitioning;
        areProducts = areProducts && values.apply(i) instanceof Product;
      }
      return areTypes || arePartitionings || areProducts;
    }

    // Spark abbreviates lists of more texts (spark.sql.debug.maxToStringFields).
    static final int MOST_TEXTS = 5;

    void object(Object value) {
      out.append("{\"object\":");
      text(value.getClass().getName());
      out.append('}');
    }

    void product(Product value) throws Unwritten {
      Seq names = names(value.getClass());
      if (names.length() != value.productArity()) throw new Unwritten();
      out.append("{\"product-class\":");
      text(value.getClass().getName());
      for (int i = 0; i < names.length(); i++) {
        Object each = value.productElement(i);
        if (each instanceof Option && ((Option) each).isEmpty()) continue;
        out.append(',');
        text((String) names.apply(i));
        out.append(':');
        value(each);
      }
      out.append('}');
    }

    static boolean isWritten(Product value) {
      if (value instanceof ExprId || value instanceof JoinType || value instanceof StructField) return true;
      if (value instanceof CatalystIdentifier || value instanceof AliasIdentifier) return true;
      if (value instanceof CatalogTable || value instanceof CatalogTableType) return true;
      if (value instanceof CatalogStorageFormat || value instanceof BucketSpec) return true;
      if (value instanceof Partitioning || value instanceof FunctionResource || value instanceof BroadcastMode) return true;
      for (int i = 0; i < value.productArity(); i++) if (value.productElement(i) instanceof TreeNode) return true;
      return false;
    }

    void type(DataType type) {
      String json = (String) types.get(type);
      if (json == null) {
        json = type.json();
        types.put(type, json);
      }
      out.append(json);
    }

    void text(String text) {
      out.append('"');
      JsonStringEncoder.getInstance().quoteAsString(text, out);
      out.append('"');
    }

    static synchronized Seq names(Class of) throws Unwritten {
      Seq found = (Seq) NAMES.get(of);
      if (found == null) {
        try {
          found = ScalaReflection$.MODULE$.getConstructorParameterNames(of);
        } catch (RuntimeException noConstructor) {
          throw new Unwritten();
        }
        NAMES.put(of, found);
      }
      return found;
    }
  }

  public static class Tree {
    // Accessors that JSON omits, by the names that Python knows them by.
    static final String[] OMITTED = {"evalMode", "evalContext", "escapeChar"};
    // As the parts that the reader takes out of an expression: what they are depends on more than the expression.
    static final String HOLES = " ScalarSubquery Exists InSubquery AttributeReference OuterReference"
        + " AggregateExpression WindowExpression ";
    static final String EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.";
    static final HashMap ACCESSORS = new HashMap();

    final LogicalPlan plan;
    final HashMap facts = new HashMap();
    final ArrayList types = new ArrayList();
    final HashMap numbers = new HashMap();
    final ArrayList paths = new ArrayList();
    final ArrayList relations = new ArrayList();

    Tree(LogicalPlan plan) {
      this.plan = plan;
      operator(plan, "");
    }

    // Facts on one line, and the plan on another. Compressed, because an answer of more than 8 kB goes through the socket in
    // several writes, and then the system holds the last one back for 40 ms.
    public byte[] handedOver() throws Exception {
      HashMap all = new HashMap();
      all.put("facts", facts);
      all.put("types", types);
      all.put("relations", paths);
      all.put("streaming", Boolean.valueOf(plan.isStreaming()));
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      DeflaterOutputStream out = new DeflaterOutputStream(bytes);
      out.write((new ObjectMapper().writeValueAsString(all) + "\n" + json(plan)).getBytes("UTF-8"));
      out.close();
      return bytes.toByteArray();
    }

    static String json(LogicalPlan plan) throws Exception {
      try {
        Json json = new Json();
        json.tree(plan);
        return json.out.toString();
      } catch (Unwritten unwritten) {
        return plan.toJSON();
      }
    }

    public ArrayList relations() {
      return relations;
    }

    public boolean areSame(String one, String other) throws Exception {
      return ((Expression) at(one)).semanticEquals((Expression) at(other));
    }

    public Object at(String path) throws Exception {
      Object node = plan;
      String[] steps = path.split("/");
      for (int i = 1; i < steps.length; i++) {
        String step = steps[i];
        if (Character.isDigit(step.charAt(0))) {
          node = ((TreeNode) node).children().apply(Integer.parseInt(step));
          continue;
        }
        String[] parts = step.split(":");
        node = node.getClass().getMethod(parts[0], new Class[0]).invoke(node, new Object[0]);
        if (node instanceof Option) node = ((Option) node).get();
        for (int j = 1; j < parts.length; j++) node = ((Seq) node).apply(Integer.parseInt(parts[j]));
      }
      return node;
    }

    void operator(LogicalPlan node, String path) {
      if (node instanceof LogicalRelation) {
        paths.add(path);
        relations.add(node);
        return;
      }
      if (node instanceof Expand) lists((Expand) node, path);
      Product fields = (Product) node;
      for (int i = 0; i < fields.productArity(); i++) {
        field(fields.productElement(i), path + "/" + fields.productElementName(i));
      }
      for (int i = 0; i < node.children().length(); i++) operator((LogicalPlan) node.children().apply(i), path + "/" + i);
    }

    void field(Object value, String path) {
      if (value instanceof Option) value = ((Option) value).isDefined() ? ((Option) value).get() : null;
      if (value instanceof Expression) {
        expression((Expression) value, path, false);
      } else if (value instanceof Seq) {
        for (int i = 0; i < ((Seq) value).length(); i++) field(((Seq) value).apply(i), path + ":" + i);
      }
    }

    // JSON omits lists of lists that hold a literal of a class that it does not know.
    void lists(Expand node, String path) {
      ArrayList lists = new ArrayList();
      for (int i = 0; i < node.projections().length(); i++) {
        Seq one = (Seq) node.projections().apply(i);
        ArrayList list = new ArrayList();
        for (int j = 0; j < one.length(); j++) list.add(((TreeNode) one.apply(j)).toJSON());
        lists.add(list);
      }
      HashMap found = new HashMap();
      found.put("projections", lists);
      facts.put(path, found);
    }

    void expression(Expression node, String path, boolean folded) {
      if (node instanceof AttributeReference) return;
      HashMap found = new HashMap();
      if (node instanceof Literal) {
        Object value = ((Literal) node).value();
        if (value instanceof Integer || value instanceof Long) found.put("value", value);
      } else {
        described(node, found);
        if (!folded && isConstant(node) && isSparks(node)) {
          // A value that is nullable where the value is not is of no use: then its parts are folded.
          HashMap value = folded(node);
          found.put("folded", value);
          folded = value != null && (value.get("text") == null) == node.nullable();
        }
      }
      if (!found.isEmpty()) facts.put(path, found);
      for (int i = 0; i < node.children().length(); i++) {
        expression((Expression) node.children().apply(i), path + "/" + i, folded);
      }
      if (node instanceof PlanExpression && ((PlanExpression) node).plan() instanceof LogicalPlan) {
        operator((LogicalPlan) ((PlanExpression) node).plan(), path + "/plan");
      }
    }

    // Python asks the JVM for what is not here.
    void described(Expression node, HashMap found) {
      try {
        Method[] accessors = accessors(node.getClass());
        for (int i = 0; i < OMITTED.length; i++) {
          if (accessors[i] != null) found.put(OMITTED[i], accessors[i].invoke(node, new Object[0]).toString());
        }
        found.put("deterministic", Boolean.valueOf(node.deterministic()));
        found.put("keeps_objects", Boolean.valueOf(node instanceof TypedImperativeAggregate));
        found.put("type", Integer.valueOf(type(node.dataType())));
        found.put("nullable", Boolean.valueOf(node.nullable()));
      } catch (Throwable unknown) {
        return;
      }
    }

    int type(DataType type) {
      Integer number = (Integer) numbers.get(type);
      if (number == null) {
        number = Integer.valueOf(types.size());
        numbers.put(type, number);
        types.add(type.json());
      }
      return number.intValue();
    }

    static synchronized Method[] accessors(Class of) {
      Method[] found = (Method[]) ACCESSORS.get(of);
      if (found == null) {
        found = new Method[OMITTED.length];
        Method[] all = of.getMethods();
        for (int i = 0; i < all.length; i++) {
          for (int j = 0; j < OMITTED.length; j++) {
            if (all[i].getName().equals(OMITTED[j]) && all[i].getParameterTypes().length == 0) found[j] = all[i];
          }
        }
        ACCESSORS.put(of, found);
      }
      return found;
    }

    static boolean isConstant(Expression node) {
      if (node instanceof Literal) return true;
      if (node.children().isEmpty() || HOLES.contains(" " + node.getClass().getSimpleName() + " ")) return false;
      for (int i = 0; i < node.children().length(); i++) {
        if (!isConstant((Expression) node.children().apply(i))) return false;
      }
      return true;
    }

    static boolean isSparks(Expression node) {
      String name = node.getClass().getName();
      if (!name.startsWith(EXPRESSIONS) || name.endsWith(".ScalaUDF")) return false;
      for (int i = 0; i < node.children().length(); i++) {
        if (!isSparks((Expression) node.children().apply(i))) return false;
      }
      return true;
    }

    // Null where Spark does not fold it before the query runs.
    HashMap folded(Expression node) {
      try {
        LogicalPlan filter = ConstantFolding$.MODULE$.apply((LogicalPlan) new Filter(node, new OneRowRelation()));
        Expression result = ((Filter) filter).condition();
        if (!(result instanceof Literal)) return null;
        Object value = ((Literal) result).value();
        HashMap found = new HashMap();
        // As a double, a float keeps its value.
        Object shown = value instanceof Float ? (Object) Double.valueOf(((Float) value).doubleValue()) : value;
        found.put("text", shown == null ? null : shown.toString());
        if (value instanceof Integer || value instanceof Long) found.put("value", value);
        return found;
      } catch (Throwable error) {
        return null;
      }
    }
  }
}
"""
