"""Leaves: files, structured streams, tables and constant rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Partitioned, PrefixPartitioned
from unshuffle.spark.lowering.lowered import Lowered, in_one_partition, is_serial, numbered
from unshuffle.spark.lowering.operators import sstream_scan

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering


def file_scan(
    lowering: Lowering, node: PhysicalPlan, operator: physical.FileScan, predicate: Expression | None = None
) -> Lowered:
    """Files. Stored partitions are known to Spark by their columns or by the partition number; `predicate` may skip some of
    their rows."""
    layout = operator.layout.partitioning
    if not isinstance(layout, Partitioned | PrefixPartitioned):
        return _leaf(node, lowering.sql(operator.scan))
    number = lowering.new_number()
    if id(node) not in lowering.numbered_layouts:
        frame = sstream_scan.rows(lowering.spark, operator, number.spark_name, predicate, is_known_by_columns=True)
        return Lowered(lowering.select_from(frame), layout.columns)
    frame = sstream_scan.rows(lowering.spark, operator, number.spark_name, predicate)
    return numbered(lowering.select_from(frame), number, is_sorted_by_number=bool(operator.layout.local))


def table_read(lowering: Lowering, node: PhysicalPlan, operator: physical.TableRead) -> Lowered:
    return _leaf(node, lowering.sql(operator.table))


def rows(lowering: Lowering, node: PhysicalPlan, operator: physical.Rows) -> Lowered:
    return _leaf(node, lowering.sql(operator.values))


def _leaf(node: PhysicalPlan, sql: str) -> Lowered:
    return Lowered(in_one_partition(sql) if is_serial(node) else sql)
