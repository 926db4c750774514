"""Counts the rows of exchanges while a query runs, and tells when they are far from what was expected.

A listener in the driver knows Spark's jobs by a tag of theirs, and the exchanges in the plans of these jobs by the names of
their columns, which no two exchanges of ours share. It adds up the rows that tasks report as they end: of a shuffle those
that are written, of a broadcast those of the operator below it. Python waits in one call until there is something to tell.

Everything here happens on Spark's listener thread, which calls a listener for one event at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from unshuffle.constants import RuleThresholds
from unshuffle.frozen import dataclass
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.gateway import java_class


@dataclass(frozen=True, slots=True)
class ExpectedExchange:
    """An exchange: the names of its columns, the rows that it is expected to have, and the largest partition's share of its
    bytes. A broadcast has one partition."""

    is_broadcast: bool
    columns: frozenset[str]
    rows: float
    largest: float = 1.0


@dataclass(frozen=True, slots=True)
class ObservedExchange:
    """The true rows of an exchange, by its position among those that are expected. Before the end of the stage that computes
    them, `rows` is what its tasks make expect so far. `largest` is the largest partition's share of the bytes of a shuffle in
    which it is a task of its own; None if that is as expected."""

    place: int
    rows: float
    is_complete: bool
    largest: float | None = None


class ExchangeWatcher:
    """Watches the jobs with a tag from now on, until it is closed."""

    def __init__(
        self, spark: SparkSession, tag: str, expected: Iterable[ExpectedExchange], thresholds: RuleThresholds
    ) -> None:
        lines = java_class(spark, "java.util.ArrayList")()
        for each in expected:
            kind = "broadcast" if each.is_broadcast else "shuffle"
            lines.add(" ".join([kind, repr(float(each.rows)), repr(float(each.largest)), *sorted(each.columns)]))
        watchers = java_object(spark, "unshuffle.ExchangeWatchers", _WATCHERS)
        self._tag = tag
        self._context = spark.sparkContext._jsc.sc()
        self._java = watchers.watcher(
            tag,
            lines,
            float(thresholds.replan_error),
            int(thresholds.replan_rows),
            float(thresholds.replan_skew),
            float(thresholds.replan_skew_bytes),
        )
        self._context.addSparkListener(self._java)

    def next(self) -> list[ObservedExchange] | None:
        """All exchanges observed so far, once one more of them is off; None after `close`."""
        text = self._java.next()
        if not text:
            return None
        observed = (line.split(" ") for line in text.splitlines())
        return [
            ObservedExchange(int(place), float(rows), ended == "1", float(largest) if largest != "-" else None)
            for place, rows, ended, largest in observed
        ]

    def close(self) -> None:
        self._java.close()
        self._context.removeSparkListener(self._java)

    def cancel(self, reason: str) -> None:
        """Cancels the jobs that run now."""
        self._context.cancelJobsWithTag(self._tag, reason)


_WATCHERS = r"""
package unshuffle;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import scala.Option;
import scala.Tuple4;
import scala.collection.immutable.Seq;

public class ExchangeWatchers {
  public ExchangeWatchers() {}

  public Object watcher(String tag, List lines, double error, int leastRows, double skew, double leastBytes) {
    return new Watcher(tag, lines, error, leastRows, skew, leastBytes);
  }

  // An exchange, and what is known of it.
  static class Exchange {
    int place;
    boolean isBroadcast;
    double expected;
    TreeSet columns = new TreeSet();
    boolean isFound;
    boolean isSpoiled; // a stage ran again: its rows were counted twice
    long rows;
    int ended;
    int stage = -1;
    int tasks;
    boolean isComplete;
    ShuffleExchangeExec shuffle;
    double expectedLargest;
    double largest; // the share of the bytes that is in the largest partition
    double largestBytes;
    HashMap running = new HashMap(); // the rows so far of the tasks that have not ended
    int told; // 1: while its stage was running, 2: when it was complete

    double atLeast() {
      double sum = (double) rows;
      Iterator each = running.values().iterator();
      while (each.hasNext()) sum += ((Long) each.next()).doubleValue();
      return sum;
    }

    double estimate() {
      if (isComplete) return (double) rows;
      double all = ended == 0 ? 0.0 : (double) rows * Math.max(tasks, ended) / ended;
      return Math.max(all, atLeast());
    }

    void measure() {
      if (shuffle == null) return;
      long[] sizes = (long[]) bytesByPartition(shuffle.shuffleDependency());
      double sum = 0.0;
      largestBytes = 0.0;
      for (int i = 0; i < sizes.length; i++) {
        sum += (double) sizes[i];
        largestBytes = Math.max(largestBytes, (double) sizes[i]);
      }
      largest = sum == 0.0 ? 0.0 : largestBytes / sum;
    }
  }

  // Classes of these methods cannot be compiled against: others of their methods have types that are not on the class path.
  static Object bytesByPartition(Object dependency) {
    try {
      MethodHandles.Lookup lookup = MethodHandles.publicLookup();
      Class env = Class.forName("org.apache.spark.SparkEnv");
      Class tracker = Class.forName("org.apache.spark.MapOutputTracker");
      Class master = Class.forName("org.apache.spark.MapOutputTrackerMaster");
      Class shuffle = Class.forName("org.apache.spark.ShuffleDependency");
      Class statistics = Class.forName("org.apache.spark.MapOutputStatistics");
      Object current = lookup.findStatic(env, "get", MethodType.methodType(env)).invokeWithArguments(new Object[0]);
      Object found = lookup.findVirtual(env, "mapOutputTracker", MethodType.methodType(tracker))
          .invokeWithArguments(new Object[] {current});
      Object told = lookup.findVirtual(master, "getStatistics", MethodType.methodType(statistics, shuffle))
          .invokeWithArguments(new Object[] {found, dependency});
      return lookup.findVirtual(statistics, "bytesByPartitionId", MethodType.methodType(long[].class))
          .invokeWithArguments(new Object[] {told});
    } catch (Throwable unknown) {
      return new long[0];
    }
  }

  public static class Watcher extends SparkListener {
    final String tag;
    final double error;
    final double leastRows;
    final double skew;
    final double leastBytes;
    final ArrayList exchanges = new ArrayList();
    final HashSet names = new HashSet();
    final HashMap byMetric = new HashMap();
    final HashMap stages = new HashMap(); // the numbers of tasks, by stage
    final HashSet ours = new HashSet(); // stages
    final LinkedBlockingQueue queue = new LinkedBlockingQueue();

    Watcher(String tag, List lines, double error, int leastRows, double skew, double leastBytes) {
      this.skew = skew;
      this.leastBytes = leastBytes;
      this.tag = tag;
      this.error = error;
      this.leastRows = (double) leastRows;
      for (int i = 0; i < lines.size(); i++) {
        String[] parts = ((String) lines.get(i)).split(" ");
        Exchange each = new Exchange();
        each.place = i;
        each.isBroadcast = parts[0].equals("broadcast");
        each.expected = Double.parseDouble(parts[1]);
        each.expectedLargest = Double.parseDouble(parts[2]);
        for (int j = 3; j < parts.length; j++) each.columns.add(parts[j]);
        names.addAll(each.columns);
        exchanges.add(each);
      }
    }

    public String next() throws InterruptedException {
      return (String) queue.take();
    }

    public void close() {
      queue.clear();
      queue.add("");
    }

    // --- which exchanges and stages are ours

    public void onOtherEvent(SparkListenerEvent event) {
      if (!(event instanceof SparkListenerSQLExecutionStart)) return;
      SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) event;
      if (!start.jobTags().contains(tag)) return;
      QueryExecution execution = SQLExecution.getQueryExecution(start.executionId());
      if (execution != null) find(execution.executedPlan());
    }

    void find(SparkPlan plan) {
      if (plan instanceof ShuffleExchangeExec) {
        found(plan, false, (SQLMetric) metric(plan, "shuffleRecordsWritten"));
      } else if (plan instanceof BroadcastExchangeExec) {
        found(plan, true, rowsOf(((BroadcastExchangeExec) plan).child()));
      } else if (plan instanceof InMemoryTableScanExec) {
        find(((InMemoryTableScanExec) plan).relation().cachedPlan());
      }
      Seq children = plan.children();
      for (int i = 0; i < children.length(); i++) find((SparkPlan) children.apply(i));
      Seq subqueries = plan.subqueries();
      for (int i = 0; i < subqueries.length(); i++) find((SparkPlan) subqueries.apply(i));
    }

    void found(SparkPlan plan, boolean isBroadcast, SQLMetric metric) {
      if (metric == null) return;
      TreeSet columns = new TreeSet();
      Seq output = plan.output();
      for (int i = 0; i < output.length(); i++) {
        String name = ((NamedExpression) output.apply(i)).name();
        if (names.contains(name)) columns.add(name);
      }
      Exchange match = null;
      for (int i = 0; i < exchanges.size(); i++) {
        Exchange each = (Exchange) exchanges.get(i);
        if (each.isBroadcast != isBroadcast || !each.columns.equals(columns)) continue;
        if (match != null) return;
        match = each;
      }
      // A plan may run an exchange more than once, and a script several plans: the first one tells.
      if (match == null || match.isFound) return;
      match.isFound = true;
      if (plan instanceof ShuffleExchangeExec) match.shuffle = (ShuffleExchangeExec) plan;
      byMetric.put(Long.valueOf(metric.id()), match);
    }

    // The rows that an operator returns, if an operator below it that returns the same rows counts them.
    static SQLMetric rowsOf(SparkPlan plan) {
      while (true) {
        SQLMetric metric = metric(plan, "numOutputRows");
        if (metric != null) return metric;
        if (plan instanceof ShuffleExchangeExec) return metric(plan, "recordsRead");
        boolean keepsRows = plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter
            || plan instanceof ProjectExec || plan instanceof SortExec || plan instanceof CoalesceExec;
        if (!keepsRows) return null;
        plan = (SparkPlan) plan.children().head();
      }
    }

    static SQLMetric metric(SparkPlan plan, String name) {
      Option found = plan.metrics().get(name);
      return found.isDefined() ? (SQLMetric) found.get() : null;
    }

    public void onJobStart(SparkListenerJobStart event) {
      String tags = event.properties() == null ? null : event.properties().getProperty("spark.job.tags");
      if (tags == null || !(("," + tags + ",").contains("," + tag + ","))) return;
      Seq ids = event.stageIds();
      for (int i = 0; i < ids.length(); i++) ours.add(ids.apply(i));
    }

    public void onStageSubmitted(SparkListenerStageSubmitted event) {
      Integer id = Integer.valueOf(event.stageInfo().stageId());
      if (ours.contains(id)) stages.put(id, Integer.valueOf(event.stageInfo().numTasks()));
    }

    // --- counting

    public void onTaskEnd(SparkListenerTaskEnd event) {
      if (!ours.contains(Integer.valueOf(event.stageId()))) return;
      boolean hasRows = event.taskInfo().successful();
      boolean isChanged = false;
      Iterator values = scala.jdk.javaapi.CollectionConverters.asJava(event.taskInfo().accumulables()).iterator();
      while (values.hasNext()) {
        AccumulableInfo info = (AccumulableInfo) values.next();
        Exchange exchange = counted(info, event.stageId(), event.stageAttemptId());
        if (exchange == null) continue;
        exchange.running.remove(Long.valueOf(event.taskInfo().taskId()));
        if (!hasRows) continue;
        if (exchange.isComplete) exchange.isSpoiled = true;
        exchange.rows += Long.parseLong(info.update().get().toString());
        exchange.ended += 1;
        isChanged = true;
      }
      if (isChanged) tell();
    }

    // Executors report on running tasks every few seconds.
    public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate event) {
      boolean isChanged = false;
      Iterator tasks = scala.jdk.javaapi.CollectionConverters.asJava(event.accumUpdates()).iterator();
      while (tasks.hasNext()) {
        Tuple4 task = (Tuple4) tasks.next();
        int stage = ((Number) task._2()).intValue();
        if (!ours.contains(Integer.valueOf(stage))) continue;
        Iterator values = scala.jdk.javaapi.CollectionConverters.asJava((Seq) task._4()).iterator();
        while (values.hasNext()) {
          AccumulableInfo info = (AccumulableInfo) values.next();
          Exchange exchange = counted(info, stage, ((Number) task._3()).intValue());
          if (exchange == null || exchange.isComplete) continue;
          exchange.running.put(task._1(), Long.valueOf(info.update().get().toString()));
          isChanged = true;
        }
      }
      if (isChanged) tell();
    }

    Exchange counted(AccumulableInfo info, int stage, int attempt) {
      Exchange exchange = (Exchange) byMetric.get(Long.valueOf(info.id()));
      if (exchange == null || !info.update().isDefined()) return null;
      Integer tasks = (Integer) stages.get(Integer.valueOf(stage));
      exchange.tasks = tasks == null ? 0 : tasks.intValue();
      exchange.stage = stage;
      if (attempt > 0) exchange.isSpoiled = true;
      return exchange;
    }

    public void onStageCompleted(SparkListenerStageCompleted event) {
      boolean isChanged = false;
      for (int i = 0; i < exchanges.size(); i++) {
        Exchange each = (Exchange) exchanges.get(i);
        if (each.stage != event.stageInfo().stageId() || event.stageInfo().failureReason().isDefined()) continue;
        each.isComplete = true;
        each.running.clear();
        each.measure();
        isChanged = true;
      }
      if (isChanged) tell();
    }

    // --- telling

    void tell() {
      boolean isNew = false;
      StringBuilder text = new StringBuilder();
      for (int i = 0; i < exchanges.size(); i++) {
        Exchange each = (Exchange) exchanges.get(i);
        if (each.isSpoiled || each.stage < 0) continue;
        double rows = each.estimate();
        // Before its end, a stage tells at least how many rows there are.
        boolean isMore = each.atLeast() > each.expected * error && each.atLeast() >= leastRows;
        boolean isLess = each.isComplete && rows * error < each.expected && each.expected >= leastRows;
        boolean isSkewed = each.largestBytes >= leastBytes && each.largest > skew * each.expectedLargest;
        int news = isMore || isLess || isSkewed ? (each.isComplete ? 2 : 1) : 0;
        if (news > each.told) {
          each.told = news;
          isNew = true;
        }
        if (each.isComplete || isMore) {
          text.append(each.place).append(' ').append(rows).append(' ').append(each.isComplete ? 1 : 0).append(' ');
          text.append(isSkewed ? String.valueOf(each.largest) : "-").append('\n');
        }
      }
      if (isNew) queue.add(text.toString());
    }
  }
}
"""
