"""A scan of Parquet files with exactly one task for each logical partition.

Spark packs the files of a table into tasks by size. Here a logical partition is a list of files, or of row groups of files,
which one task reads in that order; an empty list is a task that reads nothing. A file may occur in several partitions. Then
`belongs` tells which of its rows are in which. The partition number is a constant that Spark's reader appends to the rows of
each file, as it does the values of partition columns.

Spark's own reader reads the files in batches, with the filters that Spark would push into it. The operators above get rows:
Spark has no operator that both passes batches on and takes a claimed layout. That costs a tenth to two fifths of a bare
scan. For 5 million rows on two busy cores, best of five interleaved runs: summing columns took 1.20 s against 1.06 s for
Spark's own scan, filtering 0.68 against 0.49, copying all 0.91 against 0.75.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    StructField,
    StructType,
)

from unshuffle.plan.sql import quote
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.spark.shims.catalyst import frame_of, query_execution
from unshuffle.spark.shims.claimed_layout import SortOrder, statistics, with_claimed_layout, with_layout_by_columns
from unshuffle.spark.shims.file_partitions import Piece, file_partitions
from unshuffle.spark.shims.gateway import (
    items_of,
    java_class,
    java_session,
    none,
    scala_map,
    scala_object,
    sequence,
)
from unshuffle.spark.shims.hadoop import hadoop_configuration
from unshuffle.spark.shims.range_filter import RangeFilter

_DATASOURCES = "org.apache.spark.sql.execution.datasources"


def exact_scan(
    spark: SparkSession,
    schema: StructType,
    partitions: Sequence[Sequence[Piece]],
    number: str,
    *,
    folder_columns: StructType | None = None,
    belongs: Column | RangeFilter | None = None,
    predicate: Column | None = None,
    by: tuple[Sequence[str], HashFunction | RangeFunction] | None = None,
    order: SortOrder = (),
    rows: int | None = None,
    bytes: int | None = None,
) -> DataFrame:
    """The rows of the pieces with the schema's columns and `folder_columns`, which have the values of each piece, and their
    logical partition in the column `number`.

    `belongs` is the number of the partition that a row belongs to, or the ranges of the partitions. Other rows of pieces that
    are not whole are filtered out. `predicate` is pushed into the reader as far as Spark can, and is applied. `order` is how
    the rows of each logical partition are sorted, and is not checked. Nor is `by`: the columns and the function that give the
    number; without it, Spark knows of the number alone. `rows` and `bytes` are the size of all pieces; by
    default, bytes are those of the files."""
    whole = f"{number}_whole"
    constants = [StructField(number, IntegerType(), False)]
    constants += [StructField(whole, BooleanType(), False)] if belongs is not None else []
    ranges = belongs if isinstance(belongs, RangeFilter) else None
    constants += ranges.fields if ranges is not None else []
    folders = list(folder_columns.fields) if folder_columns is not None else []
    relation = _relation(spark, schema, StructType(constants + folders))
    attributes = items_of(relation.output())
    filters = _pushed_filters(spark, relation, predicate)
    rdd = _rdd(spark, relation.relation(), filters, partitions, ranges, [field.dataType for field in folders])
    size = sum(piece.length for pieces in partitions for piece in pieces) if bytes is None else bytes
    known = statistics(spark, rows, size)
    if by is None:
        frame = with_claimed_layout(spark, attributes, rdd, number, order, known)
    else:
        frame = with_layout_by_columns(spark, attributes, rdd, *by, order, known)
    if predicate is not None:
        frame = frame.where(predicate)
    if belongs is None:
        return frame
    is_own = F.expr(ranges.condition) if ranges is not None else belongs == F.col(quote(number))
    return frame.where(F.col(quote(whole)) | is_own).drop(*(field.name for field in constants[1:]))


def _relation(spark: SparkSession, schema: StructType, constants: StructType) -> Any:
    """The relation that Spark would have for the files. It lists none, because we decide which are read."""
    session, nothing, options = java_session(spark), none(spark), scala_map(spark, [])
    no_cache = scala_object(spark, f"{_DATASOURCES}.NoopCache")
    index = java_class(spark, f"{_DATASOURCES}.InMemoryFileIndex")(
        session, sequence(spark, []), options, nothing, no_cache, nothing, nothing
    )
    # Whatever the schema says, a file may contain NULLs.
    data_schema = session.parseDataType(schema.json()).asNullable()
    constant_schema = session.parseDataType(constants.json())
    parquet = java_class(spark, f"{_DATASOURCES}.parquet.ParquetFileFormat")()
    files = java_class(spark, f"{_DATASOURCES}.HadoopFsRelation")(
        index, constant_schema, data_schema, nothing, parquet, options, session
    )
    return scala_object(spark, f"{_DATASOURCES}.LogicalRelation").apply(files, False)


def _pushed_filters(spark: SparkSession, relation: Any, predicate: Column | None) -> Any:
    """The parts of a predicate that Spark would push into the reader of the files."""
    if predicate is None:
        return sequence(spark, [])
    scan = query_execution(frame_of(spark, relation).where(predicate)).sparkPlan()
    while scan.children().size() == 1:
        scan = scan.children().apply(0)
    # Spark replaces the scan by an empty relation if no row can satisfy the predicate.
    return scan.pushedDownFilters() if scan.nodeName().startswith("Scan parquet") else sequence(spark, [])


def _rdd(
    spark: SparkSession,
    files: Any,
    filters: Any,
    partitions: Sequence[Sequence[Piece]],
    ranges: RangeFilter | None,
    folder_types: Sequence[DataType],
) -> Any:
    session = java_session(spark)
    reader = files.fileFormat().buildReaderWithPartitionValues(
        session,
        files.dataSchema(),
        files.partitionSchema(),
        files.dataSchema(),
        filters,
        scala_map(spark, [("returning_batch", "false")]),
        hadoop_configuration(spark),
    )
    no_metadata = scala_map(spark, [])
    return java_class(spark, f"{_DATASOURCES}.FileScanRDD")(
        session,
        reader,
        file_partitions(spark, partitions, files.partitionSchema().length(), ranges, folder_types),
        files.schema(),
        sequence(spark, []),
        no_metadata,
        java_class(spark, "org.apache.spark.sql.catalyst.FileSourceOptions")(no_metadata),
    )
