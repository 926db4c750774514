"""The scan of files in stored partitions: one task for each partition of the layout that a plan reads them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ByteType,
    DateType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import sql_name
from unshuffle.errors import InternalError
from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression, Opaque, Subquery, walk
from unshuffle.plan.logical import StoredParts
from unshuffle.plan.part_bounds import Part
from unshuffle.plan.predicates import is_deterministic
from unshuffle.plan.sql import quote
from unshuffle.plan.stored_reads import stored_reads
from unshuffle.properties import HashFunction, Partitioned, Partitioning, PrefixPartitioned, RangeFunction, Sorted
from unshuffle.spark.lowering.partition_number import partition_number
from unshuffle.spark.lowering.placeholders import column
from unshuffle.spark.shims.exact_scan import exact_scan
from unshuffle.spark.shims.file_partitions import Piece
from unshuffle.spark.shims.range_filter import RangeFilter
from unshuffle.sstream.logical_partitions import FileSlice
from unshuffle.sstream.manifest import ranges_of

# The types whose values are read from the names of folders (`plan.folder_values.have_names`).
_FOLDER_TYPES = {
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.date32(): DateType(),
    pa.string(): StringType(),
}


def can_push_down(predicate: Expression) -> bool:
    """Whether a scan can apply the predicate."""
    return is_deterministic(predicate) and not any(isinstance(part, Subquery | Opaque) for part in walk(predicate))


def rows(
    spark: SparkSession,
    operator: physical.FileScan,
    number: str,
    predicate: Expression | None,
    is_known_by_columns: bool = False,
) -> DataFrame:
    """The rows that may satisfy the predicate, under the plan's column names. Spark knows their partitions by their number,
    which is one more column, or by the columns that it is computed from."""
    scan, layout = operator.scan, operator.layout.partitioning
    if not isinstance(layout, Partitioned | PrefixPartitioned):
        raise InternalError(f"{scan.label} is not read in partitions")
    read = {column.name: column for column in scan.columns}
    source = scan.bounds if operator.bounded_by is not None else scan.parts
    if source is None:
        raise InternalError(f"{scan.label} is not stored in partitions")
    in_folders = [name for name in source.folder_columns if name in read]
    positions = [source.folder_columns.index(name) for name in in_folders]
    function, tasks = _bounded_reads(operator, positions) or _stored_reads(operator, positions)
    is_filtered = not all(piece.whole for pieces in tasks for piece in pieces)
    relation = scan.files.relation
    names = [(each.name, each.spark_name) for each in scan.columns]
    return exact_scan(
        spark,
        _schema([column for column in scan.columns if column.name not in in_folders], relation is not None),
        tasks,
        number,
        folder_columns=StructType([StructField(name, _FOLDER_TYPES[read[name].type]) for name in in_folders]),
        relation=relation,
        belongs=_membership(spark, scan.label, layout, function, number) if is_filtered else None,
        predicate=_column(spark, predicate) if predicate is not None else None,
        by=_by(layout) if is_known_by_columns else None,
        order=[
            (key.column.name, key.descending, key.nulls_first)
            for key in operator.layout.local
            if isinstance(key, Sorted)
        ],
        rows=scan.files.rows,
        bytes=scan.files.bytes,
        names=names if is_known_by_columns else [*names, (number, number)],
    )


def _by(layout: Partitioned | PrefixPartitioned) -> tuple[list[str], HashFunction | RangeFunction]:
    if not isinstance(layout.function, HashFunction | RangeFunction):
        raise InternalError(f"Spark cannot compute {layout.function}")
    return [each.name for each in layout.columns], layout.function


Tasks = tuple[HashFunction | RangeFunction, list[list[Piece]]]  # a partition function, and what the task of each reads


def _stored_reads(operator: physical.FileScan, positions: Sequence[int]) -> Tasks:
    scan, layout = operator.scan, operator.layout.partitioning
    if scan.parts is None or not isinstance(layout, Partitioned | PrefixPartitioned):
        raise InternalError(f"{scan.label} is not stored in partitions")
    parts, stored = scan.parts, scan.parts.layout
    function = layout.function if operator.readers is not None else stored.function
    if not isinstance(function, HashFunction | RangeFunction):
        raise InternalError(f"{scan.label} cannot be read as {function}")
    return function, [[_piece(parts, e, positions) for e in of_task] for of_task in stored_reads(scan, function)]


def _piece(parts: StoredParts, slice: FileSlice, positions: Sequence[int]) -> Piece:
    """A part of a file. In folders every row of a file has the values that are in their names."""
    file = slice.file
    values = tuple(file.groups[0].first[i] for i in positions)
    return Piece(parts.path_of(file), file.bytes, slice.start, slice.length, 0, slice.is_whole, values)


def _bounded_reads(operator: physical.FileScan, positions: Sequence[int]) -> Tasks | None:
    scan, layout = operator.scan, operator.layout.partitioning
    if operator.bounded_by is None or scan.bounds is None or not isinstance(layout, Partitioned):
        return None
    if not isinstance(layout.function, RangeFunction):
        return None
    bounds = scan.bounds
    reads = bounds.reads(operator.bounded_by, ranges_of(layout.function), scan.needed)
    if reads is None:
        return None
    return layout.function, [_pieces([(bounds.parts[e.part], e.is_whole) for e in each], positions) for each in reads]


def _pieces(parts: Sequence[tuple[Part, bool]], positions: Sequence[int]) -> list[Piece]:
    """Row groups that one task reads. Adjacent ones of a file are read together."""
    found: list[Piece] = []
    before: Part | None = None
    for part, is_whole in parts:
        follows = before is not None and before.path == part.path and before.end == part.start
        if follows and found[-1].whole == is_whole:
            found[-1] = replace(found[-1], length=part.end - found[-1].start)
        else:
            values = tuple(part.folder_values[i] for i in positions)
            found.append(Piece(part.path, part.file_bytes, part.start, part.end - part.start, 0, is_whole, values))
        before = part
    return found


def _membership(
    spark: SparkSession, label: str, layout: Partitioning, function: HashFunction | RangeFunction, number: str
) -> SparkColumn | RangeFilter:
    """What tells which rows of a shared file belong to a partition."""
    if not isinstance(layout, Partitioned):
        raise InternalError(f"the partition of a row of {label} cannot be computed from {layout}")
    if isinstance(function, RangeFunction) and RangeFilter.supports(function):
        return RangeFilter(function, [each.name for each in layout.columns], number)
    return partition_number(spark, layout, lambda each: each.name)


def _schema(columns: Sequence[Column], is_known: bool) -> StructType:
    """The columns with their types; without, if Spark's relation knows them. It also knows what a column that was added later
    is in older files."""
    if is_known or not columns:
        return StructType([StructField(each.name, NullType()) for each in columns])
    return cast(StructType, StructType.fromDDL(", ".join(f"{quote(c.name)} {sql_name(c.type)}" for c in columns)))


def _column(spark: SparkSession, predicate: Expression) -> SparkColumn:
    def no_subquery(plan: object) -> str:
        raise InternalError("a predicate with a subquery is not pushed into a scan")

    return column(spark, predicate, lambda each: quote(each.name), no_subquery)
