"""From a physical plan to a query that Spark runs as planned.

Every operator becomes an equivalent SELECT, so the rows are right whatever Spark makes of it. (A whole plan is one SQL text:
Spark analyzes a DataFrame anew with each operation on it.) That Spark runs it *as planned* depends on what Spark sees:

- An exchange is a repartitioning into a given number of partitions, which adaptive execution leaves alone. An exchange
  between a partial and a final aggregate is inserted by `shims.plan_bridge`.
- Joins are hinted: the algorithm, and the input that is built or broadcast.
- Sorts are never requested. Merge joins, sort aggregates and windows need them, and Spark adds the missing ones. Keys are
  listed in the order in which the plan has them sorted, so that one sort serves all operators it should.
- A serial plan is coalesced into one partition.

`lowered` explains carriers, the columns by which Spark knows a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from unshuffle.catalog.schema import Column, ColumnNumbers, DataType
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.expressions import Cast, Ref
from unshuffle.plan.logical import Plan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.sql import quote
from unshuffle.properties import Partitioned
from unshuffle.spark.lowering.baseline import Baseline, name_of
from unshuffle.spark.lowering.lowered import Lowered, select_only
from unshuffle.spark.lowering.operators import (
    aggregate,
    exchange,
    fallback,
    join,
    rowwise,
    scan,
    set_operations,
    shared,
    sort_limit,
    udf,
    window,
)
from unshuffle.spark.lowering.partition_number import numbered_layouts, partition_number_text
from unshuffle.spark.shims import plan_bridge


@contextmanager
def lowering(spark: SparkSession, optimized: PlannedQuery) -> Iterator[Lowering]:
    """The lowering of a plan. Its DataFrames remain usable at the end."""
    lowered = Lowering(spark, optimized)
    try:
        yield lowered
    finally:
        lowered.close()


class Lowering(Baseline):
    """Lowers the plans of one query. Parts that fall back to Spark are translated by the baseline."""

    def __init__(self, spark: SparkSession, optimized: PlannedQuery) -> None:
        super().__init__(spark)
        last = max((c.id for root in optimized.roots for node in root.walk() for c in node.columns), default=0)
        self.new_column = ColumnNumbers(last + 1).new
        self.aliases = count(1)  # numbers for table aliases
        self.spools = {spool.number: spool.plan for spool in optimized.spools}
        self.numbered_layouts = numbered_layouts(optimized, self.spools)
        self.spark_exchanges: dict[int, plan_bridge.SparkExchange] = {}  # of each lowered exchange, by the node's id
        self.fallback_inputs: dict[int, str] = {}  # SQL of the inputs of an operator that falls back, by the plan's id
        self._persisted_spools = {spool.number for spool in optimized.spools if spool.kept}
        self._spool_texts: dict[int, str] = {}
        self._persisted_frames: list[DataFrame] = []
        self._subquery_plans = {plan.columns: physical for plan, physical in optimized.subqueries}
        self._lowered: dict[int, tuple[PhysicalPlan, Lowered]] = {}

    def output(self, plan: PhysicalPlan, names: Sequence[str]) -> DataFrame:
        """The plan's rows under the user's column names."""
        if not all(names):  # SQL has no empty names
            return self.query(select_only(self.lower(plan), plan.columns)).toDF(*names)
        columns = ", ".join(f"{name_of(c)} AS {quote(name)}" for c, name in zip(plan.columns, names, strict=True))
        sql = self.lower(plan).sql
        return self.query(f"SELECT {columns} FROM ({sql})") if columns else self.query(sql).select()

    def lower(self, node: PhysicalPlan) -> Lowered:
        if id(node) not in self._lowered:
            # The node is stored with its query: its id is unique only while it is alive.
            self._lowered[id(node)] = (node, self._lower(node))
        return self._lowered[id(node)][1]

    def _lower(self, node: PhysicalPlan) -> Lowered:
        return LOWERINGS[type(node.operator)](self, node, node.operator)

    def close(self) -> None:
        super().close()
        self._lowered.clear()
        self.fallback_inputs.clear()

    def release(self) -> None:
        """Unpersists the spools of this query."""
        for frame in self._persisted_frames:
            frame.unpersist()
        self._persisted_frames.clear()

    # --- what the lowering of operators uses

    def frame_of(self, node: PhysicalPlan, extras: bool = False) -> DataFrame:
        rows = self.lower(node)
        return self.query(rows.sql if extras else select_only(rows, node.columns))

    def new_number(self) -> Column:
        """A new column for partition numbers."""
        return self.new_column("_p", pa.int32())

    def with_column(self, sql: str, column: Column, value: Any) -> str:
        """The rows with one more column, a Spark column."""
        return self.select_from(self.query(sql).withColumn(column.spark_name, value))

    def with_partition_number(self, sql: str, column: Column, layout: Partitioned) -> str:
        """The rows with the number of the partition that each has in a layout."""
        number = partition_number_text(self.spark, layout, self._placeholders.call)
        return f"SELECT *, {number} AS {name_of(column)} FROM ({sql})"

    def typed(self, column: Column, type_: DataType) -> str:
        return name_of(column) if type_ in (None, column.type) else self.expression(Cast(Ref(column), type_))

    def spool(self, number: int) -> str:
        """The rows of a spool, which Spark computes once for all readers."""
        if number not in self._spool_texts:
            sql = self.lower(self.spools[number]).sql
            self._spool_texts[number] = (
                self.select_from(self._persisted(sql))
                if number in self._persisted_spools
                # Spark reuses an exchange only if it is the same for every reader.
                else (self.changed(sql, plan_bridge.PLANNED))
            )
        return self._spool_texts[number]

    def _persisted(self, sql: str) -> DataFrame:
        """The rows, persisted until the end of this query. Spark finds cached data by an equal plan. Data that others have
        cached is not ours to unpersist."""
        frame = self.query(sql)
        if frame.storageLevel == StorageLevel.NONE:
            frame = frame.persist()
            self._persisted_frames.append(frame)
        return frame

    def changed(self, sql: str, change: plan_bridge.PlanChange) -> str:
        """The rows, with a change of the physical plan that Spark makes for them."""
        return self.select_from(self._placeholders.step(sql, change))

    # --- the baseline, over inputs that are lowered already

    def frame(self, plan: Plan) -> DataFrame:
        sql = self.fallback_inputs.get(id(plan))
        return self.query(sql) if sql is not None else super().frame(plan)

    def sql(self, plan: Plan) -> str:
        sql = self.fallback_inputs.get(id(plan))
        return sql if sql is not None else super().sql(plan)

    def subquery(self, plan: Plan) -> str:
        physical_plan = self._subquery_plans.get(plan.columns)
        return super().subquery(plan) if physical_plan is None else select_only(self.lower(physical_plan), plan.columns)


LOWERINGS: Mapping[type, Callable[[Lowering, PhysicalPlan, Any], Lowered]] = physical.per_operator(
    "lowering",
    {
        physical.FileScan: scan.file_scan,
        physical.TableRead: scan.table_read,
        physical.Rows: scan.rows,
        physical.ReadSpool: shared.read_spool,
        physical.Rename: shared.rename,
        physical.Filter: rowwise.filter,
        physical.Project: rowwise.project,
        physical.Expand: rowwise.expand,
        physical.HashAggregate: aggregate.aggregate,
        physical.SortAggregate: aggregate.aggregate,
        physical.HashJoin: join.join,
        physical.MergeJoin: join.join,
        physical.NestedLoopJoin: join.join,
        physical.Concatenate: set_operations.concatenate,
        physical.PartitionwiseUnion: set_operations.concatenate,
        physical.MultisetOperation: set_operations.multiset_operation,
        physical.OrderBy: sort_limit.order_by,
        physical.Limit: sort_limit.limit,
        physical.PartialTopN: sort_limit.left_to_spark,
        physical.LocalSort: sort_limit.left_to_spark,
        physical.Windows: window.windows,
        physical.RunProcess: udf.process,
        physical.RunReduce: udf.reduce,
        physical.RunCombine: udf.combine,
        physical.SparkFallback: fallback.spark_fallback,
        physical.Exchange: exchange.exchange,
    },
)
