"""The scan of files in stored partitions: one task for each partition of the layout that a plan reads them in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import StructType

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import sql_name
from unshuffle.errors import InternalError
from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression, Opaque, Subquery, walk
from unshuffle.plan.logical import Scan, StoredParts
from unshuffle.plan.predicates import is_deterministic
from unshuffle.plan.sql import quote
from unshuffle.properties import HashFunction, Partitioned, Partitioning, PrefixPartitioned, RangeFunction, Sorted
from unshuffle.spark.lowering.partition_number import partition_number
from unshuffle.spark.lowering.placeholders import column
from unshuffle.spark.shims.exact_scan import exact_scan
from unshuffle.spark.shims.file_partitions import Piece
from unshuffle.spark.shims.range_filter import RangeFilter
from unshuffle.sstream.logical_partitions import FileSlice, logical_partitions


def can_push_down(predicate: Expression) -> bool:
    """Whether a scan can apply the predicate."""
    return is_deterministic(predicate) and not any(isinstance(part, Subquery | Opaque) for part in walk(predicate))


def rows(spark: SparkSession, operator: physical.FileScan, number: str, predicate: Expression | None) -> DataFrame:
    """The rows that may satisfy the predicate, under the plan's column names, with their partition number."""
    scan, layout = operator.scan, operator.layout.partitioning
    if scan.parts is None or not isinstance(layout, Partitioned | PrefixPartitioned):
        raise InternalError(f"{scan.label} is not stored in partitions")
    parts, stored = scan.parts, scan.parts.layout
    function = layout.function if operator.readers is not None else stored.function
    if not isinstance(function, HashFunction | RangeFunction):
        raise InternalError(f"{scan.label} cannot be read as {function}")
    logical = logical_partitions(stored, function, scan.within)
    read = {column.name: column for column in scan.columns}
    in_folders = [name for name in parts.folder_columns if name in read]
    positions = [parts.folder_columns.index(name) for name in in_folders]
    frame = exact_scan(
        spark,
        _schema(scan, [column for column in scan.columns if column.name not in in_folders]),
        [[_piece(parts, each, positions) for each in slices] for slices in logical.slices],
        number,
        folder_columns=_schema(scan, [read[name] for name in in_folders]),
        belongs=_membership(spark, scan.label, layout, function, number) if logical.filtered else None,
        predicate=_column(spark, predicate) if predicate is not None else None,
        order=[
            (key.column.name, key.descending, key.nulls_first)
            for key in operator.layout.local
            if isinstance(key, Sorted)
        ],
        rows=stored.rows,
        bytes=stored.bytes,
    )
    named = (F.col(quote(each.name)).alias(each.spark_name) for each in scan.columns)
    return frame.select(*named, F.col(number))


def _piece(parts: StoredParts, slice: FileSlice, positions: Sequence[int]) -> Piece:
    """A part of a file. In folders every row of a file has the values that are in their names."""
    file = slice.file
    values = tuple(file.groups[0].first[i] for i in positions)
    return Piece(parts.path_of(file), file.bytes, slice.start, slice.length, 0, slice.is_whole, values)


def _membership(
    spark: SparkSession, label: str, layout: Partitioning, function: HashFunction | RangeFunction, number: str
) -> SparkColumn | RangeFilter:
    """What tells which rows of a shared file belong to a partition."""
    if not isinstance(layout, Partitioned):
        raise InternalError(f"the partition of a row of {label} cannot be computed from {layout}")
    if isinstance(function, RangeFunction) and RangeFilter.supports(function):
        return RangeFilter(function, [each.name for each in layout.columns], number)
    return partition_number(spark, layout, lambda each: each.name)


def _schema(scan: Scan, columns: Sequence[Column]) -> StructType:
    """The columns as a table has them: the metadata of a column that was added later says what older files have for it."""
    if not columns:
        return StructType()
    if scan.files.relation is not None:
        known = StructType.fromJson(json.loads(scan.files.relation.relation().schema().json()))
        return StructType([known[column.name] for column in columns])
    return cast(StructType, StructType.fromDDL(", ".join(f"{quote(c.name)} {sql_name(c.type)}" for c in columns)))


def _column(spark: SparkSession, predicate: Expression) -> SparkColumn:
    def no_subquery(plan: object) -> str:
        raise InternalError("a predicate with a subquery is not pushed into a scan")

    return column(spark, predicate, lambda each: quote(each.name), no_subquery)
