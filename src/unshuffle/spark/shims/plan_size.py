"""How much a DataFrame reads and does, in one call, without reading its plan into Python."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame

from unshuffle.effort import PlanSize
from unshuffle.spark.shims.compiled_java import java_object


def plan_size(frame: DataFrame) -> PlanSize:
    java = java_object(frame.sparkSession, "unshuffle.PlanSizes", _PLAN_SIZES)
    return PlanSize(**json.loads(java.of(frame._jdf)))


_PLAN_SIZES = r"""
package unshuffle;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.HashSet;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.classic.Dataset;
import scala.Option;

public class PlanSizes {
  public PlanSizes() {}

  public String of(Dataset frame) throws Exception {
    Size size = new Size();
    LogicalPlan plan = frame.queryExecution().analyzed();
    for (int i = 0; i < plan.output().length(); i++) size.used.add(((Attribute) plan.output().apply(i)).exprId());
    size.look(plan);
    HashMap found = new HashMap();
    found.put("bytes", Double.valueOf(size.bytes));
    found.put("operators", Integer.valueOf(size.operators));
    found.put("redistributing", Integer.valueOf(size.redistributing));
    found.put("may_grow", Boolean.valueOf(size.mayGrow));
    return new ObjectMapper().writeValueAsString(found);
  }

  static class Size {
    static final String REDISTRIBUTING = " Distinct Deduplicate Window Sort Intersect Except ";
    static final String GROWING = " Generate UnionLoop AsOfJoin LateralJoin Sample MapInPandas MapInArrow ";

    final HashSet used = new HashSet();
    final HashMap uses = new HashMap();
    double bytes = 0;
    int operators = 0;
    int redistributing = 0;
    boolean mayGrow = false;

    // From the top, so that what is above a leaf has said which of its columns are used.
    void look(LogicalPlan plan) {
      String name = plan.nodeName();
      operators++;
      if (plan instanceof WithCTE) {
        // Uses before definitions, so that they have said which columns are used; later definitions use earlier ones.
        look((LogicalPlan) plan.children().apply(plan.children().length() - 1));
        for (int i = plan.children().length() - 2; i >= 0; i--) definition((LogicalPlan) plan.children().apply(i));
        return;
      }
      if (plan instanceof CTERelationRef) {
        Long id = Long.valueOf(((CTERelationRef) plan).cteId());
        Integer uses = (Integer) this.uses.get(id);
        this.uses.put(id, Integer.valueOf(uses == null ? 1 : uses.intValue() + 1));
        return;
      }
      if (plan.children().isEmpty()) {
        leaf(plan);
        return;
      }
      if (REDISTRIBUTING.contains(" " + name + " ")) redistributing++;
      if (plan instanceof Aggregate && !((Aggregate) plan).groupingExpressions().isEmpty()) redistributing++;
      if (plan instanceof Join) {
        redistributing++;
        Option condition = ((Join) plan).condition();
        mayGrow = mayGrow || (condition.isDefined() && !hasEquality((Expression) condition.get()));
      }
      mayGrow = mayGrow || GROWING.contains(" " + name + " ") || name.contains("Pandas") || name.contains("Arrow");
      for (int i = 0; i < plan.expressions().length(); i++) expression((Expression) plan.expressions().apply(i));
      for (int i = 0; i < plan.children().length(); i++) look((LogicalPlan) plan.children().apply(i));
    }

    // Plain Spark computes a definition for each of its uses, unless their exchanges are the same.
    void definition(LogicalPlan plan) {
      double bytesBefore = bytes;
      int before = redistributing;
      for (int i = 0; i < plan.output().length(); i++) used.add(((Attribute) plan.output().apply(i)).exprId());
      look(plan);
      Object found = plan instanceof CTERelationDef ? uses.get(Long.valueOf(((CTERelationDef) plan).id())) : null;
      int times = found == null ? 1 : ((Integer) found).intValue();
      bytes = bytesBefore + times * (bytes - bytesBefore);
      redistributing = before + times * (redistributing - before);
    }

    void leaf(LogicalPlan plan) {
      double all = 0;
      double read = 0;
      for (int i = 0; i < plan.output().length(); i++) {
        Attribute column = (Attribute) plan.output().apply(i);
        all += column.dataType().defaultSize();
        if (used.contains(column.exprId())) read += column.dataType().defaultSize();
      }
      if (all > 0) bytes += plan.stats().sizeInBytes().doubleValue() * (read / all);
    }

    void expression(Expression node) {
      if (node instanceof AttributeReference) used.add(((AttributeReference) node).exprId());
      String name = node.getClass().getSimpleName();
      mayGrow = mayGrow || name.endsWith("UDF") || name.endsWith("UDAF");
      for (int i = 0; i < node.children().length(); i++) expression((Expression) node.children().apply(i));
      if (node instanceof PlanExpression && ((PlanExpression) node).plan() instanceof LogicalPlan) {
        LogicalPlan plan = (LogicalPlan) ((PlanExpression) node).plan();
        for (int i = 0; i < plan.output().length(); i++) used.add(((Attribute) plan.output().apply(i)).exprId());
        look(plan);
      }
    }

    static boolean hasEquality(Expression node) {
      if (node instanceof EqualTo || node instanceof EqualNullSafe) return true;
      if (node instanceof Literal) return true;
      for (int i = 0; i < node.children().length(); i++) {
        if (hasEquality((Expression) node.children().apply(i))) return true;
      }
      return false;
    }
  }
}
"""
