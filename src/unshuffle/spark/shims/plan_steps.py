"""DataFrames of our plans, made by the JVM in one call for as many as are waiting.

A lowered plan is a SQL text over tables that stand for other texts, DataFrames and relations. Some of these are changed after
Spark has planned them (`shims.plan_bridge`), which SQL cannot say. Each is a `Step`. Nothing happens until a DataFrame is
needed; then a class of ours makes the step and all steps below it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.gateway import java_session
from unshuffle.spark.shims.java_plans import SEPARATOR
from unshuffle.spark.shims.plan_bridge import PlanChange
from unshuffle.spark.shims.plan_tree import FoundNode, JavaNode, PlanTree


@dataclass(eq=False)
class OpaqueText:
    """An expression that has no SQL text, and the call that represents it in one. `arguments` replace its `holes`."""

    call: str
    expression: JavaNode | FoundNode
    holes: Sequence[JavaNode | FoundNode]
    arguments: Sequence[str]


@dataclass(eq=False)
class Step:
    """A query over tables of these names, as a DataFrame to be made. `then` is what is done to its physical plan. An opaque
    expression comes after those in its arguments."""

    text: str
    tables: Mapping[str, Table]
    opaque: Sequence[OpaqueText] = ()
    then: PlanChange | None = None


Table = Step | DataFrame | JavaNode


@dataclass(eq=False)
class Steps:
    """The steps of one query in one session, and their names in the JVM."""

    spark: SparkSession
    _java: Any = None
    _names: dict[Any, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _to_give: list[tuple[str, Any]] = field(
        default_factory=list
    )  # objects that the JVM does not know by their names yet

    def frame(self, step: Step) -> DataFrame:
        if self._java is None:
            self._java = java_object(self.spark, "unshuffle.PlanSteps", _PLAN_STEPS).of(java_session(self.spark))
        if step in self._names:
            return DataFrame(self._java.get(self._names[step]), self.spark)
        program: list[dict[str, Any]] = []
        self._add(step, program)
        self._give()
        made = self._java.run(json.dumps(program))
        if isinstance(made, str):
            raise InternalError(made)
        return DataFrame(made, self.spark)

    def _add(self, step: Step, program: list[dict[str, Any]]) -> str:
        """The name of a step, which is added to a program unless it was made."""
        if step not in self._names:
            tables = {name: self._place(table, program) for name, table in step.tables.items()}
            opaque = [
                {
                    "call": each.call,
                    "expression": self._place(each.expression, program),
                    "holes": [self._place(hole, program) for hole in each.holes],
                    "arguments": each.arguments,
                }
                for each in step.opaque
            ]
            self._names[step] = f"step {next(self._numbers)}"
            name = self._names[step]
            program.append({"name": name, "text": step.text, "tables": tables, "opaque": opaque, "then": step.then})
        return self._names[step]

    def _place(self, table: Table | FoundNode, program: list[dict[str, Any]]) -> list[str]:
        """Where the JVM finds something: its name, and a path in it."""
        match table:
            case Step():
                return [self._add(table, program)]
            case JavaNode(tree, path):
                return [self._given(tree, tree), path]
            case FoundNode():
                return [self._given(table, table)]
            case _:
                return [self._given(table, table)]

    def _given(self, key: Any, value: PlanTree | DataFrame | FoundNode) -> str:
        """The name of an object of the JVM, which is told of it once."""
        if id(key) not in self._names:
            self._names[id(key)] = f"given {next(self._numbers)}"
            self._names[f"kept {id(key)}"] = value  # type: ignore[assignment]
            java = (
                value.java if isinstance(value, PlanTree) else value.jvm if isinstance(value, FoundNode) else value._jdf
            )
            self._to_give.append((self._names[id(key)], java))
        return self._names[id(key)]

    def _give(self) -> None:
        """Names objects in the JVM, several in one call."""
        for start in range(0, len(self._to_give), _GIVEN):
            names, objects = zip(*self._to_give[start : start + _GIVEN], strict=True)
            self._java.put(SEPARATOR.join(names), *objects, *[None] * (_GIVEN - len(objects)))
        self._to_give.clear()


_GIVEN = 8  # objects that `put` takes


_PLAN_STEPS = """
package unshuffle;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Descending$;
import org.apache.spark.sql.catalyst.expressions.DirectShufflePartitionID;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NullOrdering;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.NullsLast$;
import org.apache.spark.sql.catalyst.expressions.SortDirection;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.SparkPartitionID;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.PartialMerge$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.RangePartitioning;
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition$;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.LogicalQueryStage;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.aggregate.ObjectHashAggregateExec;
import org.apache.spark.sql.execution.aggregate.SortAggregateExec;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.exchange.REPARTITION_BY_NUM$;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.functions;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

public class PlanSteps {
  public PlanSteps() {}

  public Object of(SparkSession session) {
    return new Steps(session);
  }

  // A step that cannot be made: a fault of ours, and none of the query.
  public static class Fault extends RuntimeException {
    public Fault(String message) {
      super(message);
    }
  }

  public static class Replacing extends AbstractPartialFunction {
    final HashMap replacements;

    public Replacing(HashMap replacements) {
      this.replacements = replacements;
    }

    Object key(Object part) {
      if (!(part instanceof UnresolvedRelation)) return part;
      Seq name = ((UnresolvedRelation) part).multipartIdentifier();
      return name.length() == 1 ? name.apply(0) : null;
    }

    public boolean isDefinedAt(Object part) {
      return replacements.containsKey(key(part));
    }

    public Object applyOrElse(Object part, Function1 otherwise) {
      Object found = replacements.get(key(part));
      return found == null ? otherwise.apply(part) : found;
    }
  }

  public static class Steps {
    static final String FRAGMENT = "_fragment";

    final SparkSession session;
    final HashMap objects = new HashMap();

    Steps(SparkSession session) {
      this.session = session;
    }

    public void put(
        String names, Object a, Object b, Object c, Object d, Object e, Object f, Object g, Object h) {
      Object[] given = {a, b, c, d, e, f, g, h};
      String[] each = names.split("\\u0001");
      for (int i = 0; i < each.length; i++) objects.put(each[i], given[i]);
    }

    public Object get(String name) {
      return objects.get(name);
    }

    // The DataFrame of the last step, or what is wrong with a step.
    public Object run(String program) throws Exception {
      Object made = null;
      try {
        List steps = (List) new ObjectMapper().readValue(program, List.class);
        for (int i = 0; i < steps.size(); i++) {
          Map step = (Map) steps.get(i);
          made = then(query(step), (Map) step.get("then"));
          objects.put(step.get("name"), made);
        }
      } catch (Fault fault) {
        return fault.getMessage();
      }
      return made;
    }

    Object at(Object place) throws Exception {
      List steps = (List) place;
      Object object = objects.get(steps.get(0));
      if (steps.size() == 1) return object;
      Method at = object.getClass().getMethod("at", new Class[] {String.class});
      return at.invoke(object, new Object[] {steps.get(1)});
    }

    // ------------------------------------------------------------------------------------------------------- queries

    Dataset query(Map step) throws Exception {
      LogicalPlan plan = session.sessionState().sqlParser().parsePlan((String) step.get("text"));
      List opaque = (List) step.get("opaque");
      if (!opaque.isEmpty()) {
        plan = (LogicalPlan) plan.transformAllExpressionsWithSubqueries(new Replacing(replacements(opaque)));
      }
      HashMap plans = new HashMap();
      for (Iterator each = ((Map) step.get("tables")).entrySet().iterator(); each.hasNext(); ) {
        Map.Entry table = (Map.Entry) each.next();
        Object object = at(table.getValue());
        plans.put(
            table.getKey(),
            object instanceof Dataset ? ((Dataset) object).queryExecution().analyzed() : bound((LogicalPlan) object));
      }
      if (!plans.isEmpty()) plan = (LogicalPlan) plan.transformWithSubqueries(new Replacing(plans));
      return Dataset.ofRows(session, plan);
    }

    // Opaque expressions by the calls that represent them.
    HashMap replacements(List opaque) throws Exception {
      HashMap found = new HashMap();
      for (int i = 0; i < opaque.size(); i++) {
        Map each = (Map) opaque.get(i);
        List holes = (List) each.get("holes");
        List arguments = (List) each.get("arguments");
        HashMap inside = new HashMap();
        for (int j = 0; j < holes.size(); j++) {
          inside.put(at(holes.get(j)), replaced(parsed((String) arguments.get(j)), found));
        }
        found.put(parsed((String) each.get("call")), replaced((Expression) at(each.get("expression")), inside));
      }
      return found;
    }

    Expression parsed(String text) throws Exception {
      return session.sessionState().sqlParser().parseExpression(text);
    }

    static Expression replaced(Expression expression, HashMap replacements) {
      return replacements.isEmpty() ? expression : (Expression) expression.transform(new Replacing(replacements));
    }

    // A scan of files takes its settings, such as the size of a piece, from the session that its relation was made in.
    LogicalPlan bound(LogicalPlan plan) throws Exception {
      if (!(plan instanceof LogicalRelation)) return plan;
      LogicalRelation relation = (LogicalRelation) plan;
      if (!(relation.relation() instanceof HadoopFsRelation)) return plan;
      HadoopFsRelation source = (HadoopFsRelation) relation.relation();
      if (source.sparkSession() == session) return plan;
      HadoopFsRelation here = new HadoopFsRelation(
          source.location(), source.partitionSchema(), source.dataSchema(), source.bucketSpec(), source.fileFormat(),
          source.options(), session);
      Object[] fields = fields((Product) relation);
      fields[0] = here;
      return (LogicalPlan) made(LogicalRelation.class, fields);
    }

    static Object[] fields(Product product) {
      Object[] found = new Object[product.productArity()];
      for (int i = 0; i < found.length; i++) found[i] = product.productElement(i);
      return found;
    }

    // An object of a class whose constructor takes these arguments, and perhaps newer ones that may be left out.
    static Object made(Class of, Object[] arguments) throws Exception {
      Constructor[] all = of.getConstructors();
      for (int i = 0; i < all.length; i++) {
        Class[] types = all[i].getParameterTypes();
        if (types.length < arguments.length) continue;
        Object[] given = new Object[types.length];
        for (int j = 0; j < types.length; j++) {
          given[j] = j < arguments.length ? arguments[j] : types[j] == Boolean.TYPE ? (Object) Boolean.FALSE : Option.empty();
        }
        return all[i].newInstance(given);
      }
      throw new Fault(of.getName() + " has no constructor of " + arguments.length + " arguments");
    }

    static Seq seq(List items) {
      return PythonUtils.toSeq(items);
    }

    static ArrayList items(Seq items) {
      ArrayList found = new ArrayList();
      for (int i = 0; i < items.length(); i++) found.add(items.apply(i));
      return found;
    }

    static Seq one(Object item) {
      ArrayList items = new ArrayList();
      items.add(item);
      return seq(items);
    }

    // ------------------------------------------------------------------------------------------------ physical plans

    Dataset then(Dataset frame, Map then) throws Exception {
      if (then == null) return frame;
      if (then.get("kind").equals("repartitioned")) return repartitioned(frame, (Map) then.get("exchange"));
      QueryExecution execution = frame.queryExecution();
      if (wouldNotTerminate(execution.sparkPlan())) return frame;
      String kind = (String) then.get("kind");
      if (kind.equals("planned")) return leaf(execution, execution.sparkPlan());
      ArrayList above = new ArrayList();
      BaseAggregateExec top = topAggregate(execution, above);
      if (kind.equals("sort_aggregated")) {
        return leaf(execution, top == null ? execution.sparkPlan() : under(above, sortBased((SparkPlan) top)));
      }
      if (top == null) return frame;
      SparkPlan below = (SparkPlan) ((SparkPlan) top).children().apply(0);
      SparkPlan plan = null;
      if (kind.equals("aggregated_in_each_partition")) {
        plan = aggregate(top, top.aggregateExpressions(), top.resultExpressions(), below, 0);
      } else {
        plan = inTwoPhases(top, below, (Map) then.get("exchange"), (List) then.get("fragments"));
      }
      return plan == null ? frame : leaf(execution, under(above, plan));
    }

    static Dataset repartitioned(Dataset frame, Map exchange) {
      int partitions = ((Number) exchange.get("partitions")).intValue();
      List names = (List) exchange.get("columns");
      Column[] keys = new Column[names.size()];
      for (int i = 0; i < keys.length; i++) {
        keys[i] = functions.col("`" + ((String) names.get(i)).replace("`", "``") + "`");
        if (exchange.get("kind").equals("number")) return (Dataset) frame.repartitionById(partitions, keys[i]);
        List direction = (List) ((List) exchange.get("directions")).get(i);
        boolean nullsFirst = ((Boolean) direction.get(1)).booleanValue();
        if (((Boolean) direction.get(0)).booleanValue()) {
          keys[i] = nullsFirst ? keys[i].desc_nulls_first() : keys[i].desc_nulls_last();
        } else {
          keys[i] = nullsFirst ? keys[i].asc_nulls_first() : keys[i].asc_nulls_last();
        }
      }
      return (Dataset) frame.repartitionByRange(partitions, keys);
    }

    // Adaptive execution would plan our leaf again after each stage. It recognizes the leaf's stages, but not a scan of
    // cached data, nor anything if exchange reuse is off: then it would wait for a new stage each time. Cached data are
    // avoided whether or not adaptive execution is on: it may be by the time the DataFrame runs.
    boolean wouldNotTerminate(SparkPlan physical) {
      if (readsCachedData(physical)) return true;
      SQLConf conf = session.sessionState().conf();
      return conf.adaptiveExecutionEnabled() && !conf.exchangeReuseEnabled();
    }

    static boolean readsCachedData(TreeNode plan) {
      if (plan instanceof InMemoryRelation) return true;
      for (int i = 0; i < plan.children().length(); i++) {
        if (readsCachedData((TreeNode) plan.children().apply(i))) return true;
      }
      for (int i = 0; i < plan.innerChildren().length(); i++) {
        if (readsCachedData((TreeNode) plan.innerChildren().apply(i))) return true;
      }
      return false;
    }

    // A leaf of a logical plan with a physical plan, under a projection, so that Spark can rename its columns.
    Dataset leaf(QueryExecution execution, SparkPlan physical) {
      LogicalPlan stage = new LogicalQueryStage(execution.optimizedPlan(), physical);
      ArrayList outputs = new ArrayList();
      for (int i = 0; i < stage.output().length(); i++) {
        Attribute attribute = (Attribute) stage.output().apply(i);
        outputs.add(named(attribute, attribute.name()));
      }
      return Dataset.ofRows(session, new Project(seq(outputs), stage));
    }

    static Alias named(Expression column, String name) {
      Seq none = seq(new ArrayList());
      return new Alias(column, name, NamedExpression$.MODULE$.newExprId(), none, Option.empty(), none);
    }

    // The uppermost aggregate, and the operators above it. Null if Spark's optimizer has removed it: over an input that is
    // known to be empty, or whose rows it knows to be distinct.
    static BaseAggregateExec topAggregate(QueryExecution execution, ArrayList above) {
      LogicalPlan plan = execution.optimizedPlan();
      while (plan.nodeName().equals("Project") || plan.nodeName().equals("Filter")) {
        plan = (LogicalPlan) plan.children().apply(0);
      }
      if (!plan.nodeName().equals("Aggregate")) return null;
      SparkPlan operator = execution.sparkPlan();
      while (!(operator instanceof BaseAggregateExec)) {
        if (operator.children().length() != 1) throw new Fault("no aggregate below " + operator.nodeName());
        above.add(operator);
        operator = (SparkPlan) operator.children().apply(0);
      }
      return (BaseAggregateExec) operator;
    }

    static SparkPlan under(ArrayList above, SparkPlan plan) {
      for (int i = above.size() - 1; i >= 0; i--) plan = (SparkPlan) ((TreeNode) above.get(i)).withNewChildren(one(plan));
      return plan;
    }

    // An aggregate and the steps below it that belong to it, down to the first that reads rows instead of states.
    static SparkPlan sortBased(SparkPlan aggregate) throws Exception {
      ArrayList calls = items(((BaseAggregateExec) aggregate).aggregateExpressions());
      boolean readsRows = true;
      for (int i = 0; i < calls.size(); i++) {
        readsRows = readsRows && ((AggregateExpression) calls.get(i)).mode().toString().equals("Partial");
      }
      SparkPlan below = (SparkPlan) aggregate.children().apply(0);
      if (!readsRows && below instanceof BaseAggregateExec) {
        aggregate = (SparkPlan) ((TreeNode) aggregate).withNewChildren(one(sortBased(below)));
      }
      if (!(aggregate instanceof ObjectHashAggregateExec)) return aggregate;
      return (SparkPlan) made(SortAggregateExec.class, fields((Product) aggregate));
    }

    // Null if Spark's optimizer has removed a key of the exchange, which it knows to be constant.
    SparkPlan inTwoPhases(BaseAggregateExec top, SparkPlan below, Map exchange, List fragments) throws Exception {
      if (!(below instanceof BaseAggregateExec)) {
        String names = ((SparkPlan) top).nodeName() + " over " + below.nodeName();
        throw new Fault("Spark plans this aggregate in one step: " + names);
      }
      BaseAggregateExec partial = (BaseAggregateExec) below;
      HashMap columns = columns(below);
      List keys = (List) exchange.get("columns");
      if (!columns.keySet().containsAll(keys)) return null;
      for (int i = 0; i < fragments.size(); i++) {
        SparkPlan gathered = gathered(below, ((Number) fragments.get(i)).intValue());
        below = combined(top, partial, gathered);
      }
      return (SparkPlan) ((TreeNode) top).withNewChildren(one(exchanged(below, exchange)));
    }

    static HashMap columns(SparkPlan plan) {
      HashMap found = new HashMap();
      for (int i = 0; i < plan.output().length(); i++) {
        Attribute attribute = (Attribute) plan.output().apply(i);
        found.put(attribute.name(), attribute);
      }
      return found;
    }

    // Whole partitions gathered into fragments by their number, which Spark takes modulo the number of fragments. The number
    // is the first column: Spark finds states by position, counted from the end or from `initialInputBufferOffset`.
    static SparkPlan gathered(SparkPlan plan, int fragments) throws Exception {
      ArrayList outputs = new ArrayList();
      outputs.add(named(new SparkPartitionID(), FRAGMENT));
      outputs.addAll(items(plan.output()));
      SparkPlan numbered = new ProjectExec(seq(outputs), plan);
      Attribute number = (Attribute) numbered.output().apply(0);
      return shuffled(new ShufflePartitionIdPassThrough(new DirectShufflePartitionID(number), fragments), numbered);
    }

    // Partial states with equal keys, combined. It is a final aggregate that returns states, in the mode PartialMerge, which
    // Spark has for aggregates of distinct values.
    static SparkPlan combined(BaseAggregateExec top, BaseAggregateExec partial, SparkPlan below) throws Exception {
      ArrayList calls = items(top.aggregateExpressions());
      for (int i = 0; i < calls.size(); i++) {
        AggregateExpression call = (AggregateExpression) calls.get(i);
        calls.set(i, new AggregateExpression(
            call.aggregateFunction(), PartialMerge$.MODULE$, call.isDistinct(), Option.empty(), call.resultId()));
      }
      int afterFragment = 1;
      return aggregate(top, seq(calls), partial.resultExpressions(), below, afterFragment);
    }

    // An aggregate like the final one, which requires no distribution of its input.
    static SparkPlan aggregate(BaseAggregateExec like, Seq calls, Seq results, SparkPlan below, int skipped)
        throws Exception {
      ArrayList attributes = new ArrayList();
      for (int i = 0; i < calls.length(); i++) attributes.add(((AggregateExpression) calls.apply(i)).resultAttribute());
      return (SparkPlan) made(like.getClass(), new Object[] {
          Option.empty(), // requiredChildDistributionExpressions
          Boolean.FALSE, // isStreaming
          Option.empty(), // numShufflePartitions
          like.groupingExpressions(),
          calls,
          seq(attributes),
          Integer.valueOf(like.initialInputBufferOffset() + skipped),
          results,
          below});
    }

    static SparkPlan exchanged(SparkPlan child, Map exchange) throws Exception {
      String kind = (String) exchange.get("kind");
      if (kind.equals("gather")) return shuffled(SinglePartition$.MODULE$, child);
      int partitions = ((Number) exchange.get("partitions")).intValue();
      HashMap columns = columns(child);
      List names = (List) exchange.get("columns");
      if (kind.equals("number")) {
        Expression number = new DirectShufflePartitionID((Expression) columns.get(names.get(0)));
        return shuffled(new ShufflePartitionIdPassThrough((DirectShufflePartitionID) number, partitions), child);
      }
      ArrayList keys = new ArrayList();
      for (int i = 0; i < names.size(); i++) {
        Expression column = (Expression) columns.get(names.get(i));
        keys.add(kind.equals("hash") ? column : sorted(column, (List) ((List) exchange.get("directions")).get(i)));
      }
      if (kind.equals("hash")) return shuffled(new HashPartitioning(seq(keys), partitions), child);
      return shuffled(new RangePartitioning(seq(keys), partitions), child);
    }

    static Expression sorted(Expression column, List direction) {
      boolean descending = ((Boolean) direction.get(0)).booleanValue();
      boolean nullsFirst = ((Boolean) direction.get(1)).booleanValue();
      return new SortOrder(
          column,
          descending ? (SortDirection) Descending$.MODULE$ : (SortDirection) Ascending$.MODULE$,
          nullsFirst ? (NullOrdering) NullsFirst$.MODULE$ : (NullOrdering) NullsLast$.MODULE$,
          seq(new ArrayList()));
    }

    static SparkPlan shuffled(Partitioning partitioning, SparkPlan child) throws Exception {
      return (SparkPlan) made(ShuffleExchangeExec.class, new Object[] {partitioning, child, REPARTITION_BY_NUM$.MODULE$});
    }
  }
}
"""
