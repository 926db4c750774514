"""A partitioning by a function of some columns, claimed to Catalyst.

Spark knows `repartitionById`: a row goes to the partition whose number an expression gives. It takes rows for together, and
two inputs of a join for co-partitioned, only if that expression is itself a key of the operator. But rows that agree on the
columns of the expression have one number, and so has a row of the other input, if both numbers are computed by one function
from columns that the join compares. The class below says that too. With it a join needs no key beside its own: a further
key would keep Spark from sorting and looking up a single integer, which takes about half the time.

Catalyst's plans, and the claims in them, are serialized for each task. The executors do not know the class. Of rows that lie
in partitions already, no task asks how they do, and there may be thousands of boundaries: there a claim is an unknown
partitioning. An exchange computes the number in its tasks: there it is what `repartitionById` has.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from unshuffle.spark.shims.compiled_java import java_object


def claims_of_functions(spark: SparkSession) -> Any:
    """A Scala function of a text, Catalyst's expression for a number, and a count of partitions. It gives the claim that a
    row is in the partition `number mod partitions`. Claims with the same text have the same expression, over other columns
    in the same order."""
    return java_object(spark, "unshuffle.FunctionPartitionings", _PARTITIONING)


_PARTITIONING = """
package unshuffle;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DirectShufflePartitionID;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution;
import org.apache.spark.sql.catalyst.plans.physical.Distribution;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough;
import org.apache.spark.sql.catalyst.plans.physical.ShuffleSpec;
import org.apache.spark.sql.catalyst.plans.physical.ShuffleSpecCollection;
import org.apache.spark.sql.catalyst.plans.physical.SinglePartitionShuffleSpec$;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction3;
import scala.runtime.AbstractPartialFunction;

public class FunctionPartitionings extends AbstractFunction3 {
  public FunctionPartitionings() {}

  public Object apply(Object function, Object number, Object partitions) {
    DirectShufflePartitionID own = new DirectShufflePartitionID((Expression) number);
    return new Claim((String) function, own, ((Integer) partitions).intValue(), false);
  }

  public static class Claim extends ShufflePartitionIdPassThrough {
    final String function;
    final boolean isOfExchange;

    public Claim(String function, DirectShufflePartitionID number, int partitions, boolean isOfExchange) {
      super(number, partitions);
      this.function = function;
      this.isOfExchange = isOfExchange;
    }

    /** The columns of the number, in the order of the function's arguments. */
    ArrayList columns() {
      ArrayList found = new ArrayList();
      Iterator leaves = expr().collectLeaves().iterator();
      while (leaves.hasNext()) {
        Object leaf = leaves.next();
        if (leaf instanceof Attribute) found.add(leaf);
      }
      return found;
    }

    public boolean satisfies0(Distribution required) {
      if (super.satisfies0(required)) return true;
      if (!(required instanceof ClusteredDistribution)) return false;
      ClusteredDistribution clustered = (ClusteredDistribution) required;
      return !clustered.requireAllClusterKeys() && isOn(clustered);
    }

    /** Whether all columns of the number are among the keys of an operator. */
    boolean isOn(ClusteredDistribution distribution) {
      ArrayList columns = columns();
      for (int i = 0; i < columns.size(); i++) {
        if (positions(distribution, (Expression) columns.get(i)).isEmpty()) return false;
      }
      return !columns.isEmpty();
    }

    public ShuffleSpec createShuffleSpec(ClusteredDistribution distribution) {
      return new Spec(this, distribution);
    }

    public ShufflePartitionIdPassThrough withNewChildrenInternal(IndexedSeq children) {
      return new Claim(function, (DirectShufflePartitionID) children.apply(0), numPartitions(), isOfExchange);
    }

    public boolean canEqual(Object other) {
      return other instanceof Claim;
    }

    public boolean equals(Object other) {
      return other instanceof Claim && ((Claim) other).function.equals(function) && super.equals(other);
    }

    public int hashCode() {
      return super.hashCode();
    }

    Object writeReplace() {
      if (isOfExchange) return new ShufflePartitionIdPassThrough(expr(), numPartitions());
      return new UnknownPartitioning(numPartitions());
    }
  }

  /** Where a column is among the keys of an operator. */
  static ArrayList positions(ClusteredDistribution distribution, Expression column) {
    ArrayList found = new ArrayList();
    Seq keys = distribution.clustering();
    for (int i = 0; i < keys.length(); i++) {
      if (((Expression) keys.apply(i)).semanticEquals(column)) found.add(Integer.valueOf(i));
    }
    return found;
  }

  public static class Spec implements ShuffleSpec {
    final Claim claim;
    final ClusteredDistribution distribution;

    public Spec(Claim claim, ClusteredDistribution distribution) {
      this.claim = claim;
      this.distribution = distribution;
    }

    public int numPartitions() {
      return claim.numPartitions();
    }

    public boolean isCompatibleWith(ShuffleSpec other) {
      if (other == SinglePartitionShuffleSpec$.MODULE$) return numPartitions() == 1;
      if (other instanceof ShuffleSpecCollection) {
        Iterator specs = ((ShuffleSpecCollection) other).specs().iterator();
        while (specs.hasNext()) {
          if (isCompatibleWith((ShuffleSpec) specs.next())) return true;
        }
        return false;
      }
      return other instanceof Spec && isSame((Spec) other);
    }

    /** Whether both inputs have one function, and the join compares its arguments. */
    boolean isSame(Spec other) {
      ArrayList mine = claim.columns();
      ArrayList theirs = other.claim.columns();
      if (!claim.function.equals(other.claim.function) || numPartitions() != other.numPartitions()) return false;
      if (distribution.clustering().length() != other.distribution.clustering().length()) return false;
      if (mine.size() != theirs.size()) return false;
      for (int i = 0; i < mine.size(); i++) {
        ArrayList shared = positions(distribution, (Expression) mine.get(i));
        shared.retainAll(positions(other.distribution, (Expression) theirs.get(i)));
        if (shared.isEmpty()) return false;
      }
      return true;
    }

    public boolean canCreatePartitioning() {
      return claim.isOn(distribution);
    }

    /** The same function of the keys of another input. */
    public Partitioning createPartitioning(Seq clustering) {
      Claim named = (Claim) claim.transform(new Renaming(distribution, clustering));
      return new Claim(named.function, named.expr(), named.numPartitions(), true);
    }
  }

  public static class Renaming extends AbstractPartialFunction {
    final ClusteredDistribution from;
    final Seq to;

    public Renaming(ClusteredDistribution from, Seq to) {
      this.from = from;
      this.to = to;
    }

    public boolean isDefinedAt(Object part) {
      return part instanceof Attribute;
    }

    public Object applyOrElse(Object part, Function1 otherwise) {
      if (!isDefinedAt(part)) return otherwise.apply(part);
      return to.apply(((Integer) positions(from, (Expression) part).get(0)).intValue());
    }
  }
}
"""
