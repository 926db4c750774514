"""Stored Parquet files read with exactly one task for each logical partition.

Spark packs the files of a table into tasks by their sizes. Here a logical partition is any list of files, or of row groups
of files, and is what one task reads, in the order listed; one that has none is a task that reads nothing. A file may stand in
several of them: then `belongs` tells which of its rows are whose. The number of the partition is a constant that Spark's
reader adds to the rows of each file.

The files are read by Spark's own reader, in batches, with what Spark would push into it. What stands above gets rows, since
Spark has no operator that both takes batches and can be told where its rows are. That costs a tenth to two
fifths of a bare scan: of 5 million rows on two busy cores, the best of five runs in turn, summing columns took 1.20 s against
1.06 s of Spark's own scan, filtering 0.68 against 0.49, copying all 0.91 against 0.75.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

from unshuffle.algebra.sql import quote
from unshuffle.spark.bridge import sequence, singleton
from unshuffle.spark.claims import Order, claimed, statistics
from unshuffle.spark.columns import frame_of, jvm, scala_map
from unshuffle.spark.own_range import OwnRange


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or those of its row groups whose middle lies in the `length` bytes from `start` on."""

    path: str  # as Hadoop writes it: nothing in it is escaped
    size: int  # of the whole file
    start: int
    length: int
    modified: int  # milliseconds since 1970
    whole: bool = False  # do all its rows belong to the partition that reads it?


def stored_scan(
    spark: SparkSession,
    schema: StructType,
    partitions: Sequence[Sequence[Piece]],
    number: str,
    *,
    belongs: Column | OwnRange | None = None,
    predicate: Column | None = None,
    order: Order = (),
    rows: int | None = None,
    bytes: int | None = None,
) -> DataFrame:
    """The rows of the pieces with the schema's columns, and the number of their logical partition under the name `number`.

    `belongs` is the number that a row belongs to, or the ranges of the partitions: other rows are left out, of pieces that
    are not whole. `predicate` is pushed into the reader as far as Spark can, and is applied. `order` is how the rows of each
    logical partition are sorted: name, descending, NULLs first. It is believed. `rows` and `bytes` are how much the pieces
    hold; by default, bytes are those of the files."""
    whole = f"{number}_whole"
    constants = [StructField(number, IntegerType(), False)]
    constants += [StructField(whole, BooleanType(), False)] if belongs is not None else []
    ranges = belongs if isinstance(belongs, OwnRange) else None
    constants += ranges.fields if ranges is not None else []
    relation = _relation(spark, schema, StructType(constants))
    output = relation.output()
    attributes = [output.apply(i) for i in range(output.size())]
    rdd = _rdd(spark, relation.relation(), _pushed(spark, relation, predicate), partitions, ranges)
    size = sum(piece.length for pieces in partitions for piece in pieces) if bytes is None else bytes
    frame = claimed(spark, attributes, rdd, number, order, statistics(spark, rows, size))
    if predicate is not None:
        frame = frame.where(predicate)
    if belongs is None:
        return frame
    is_own = F.expr(ranges.condition) if ranges is not None else belongs == F.col(quote(number))
    return frame.where(F.col(quote(whole)) | is_own).drop(*(field.name for field in constants[1:]))


def _relation(spark: SparkSession, schema: StructType, constants: StructType) -> Any:
    """The stored data as Spark sees files: here without any, since which are read is not Spark's to decide."""
    java = jvm(spark)
    datasources = java.org.apache.spark.sql.execution.datasources
    none, options = singleton(java.scala, "None"), scala_map(spark, [])
    index = datasources.InMemoryFileIndex(
        spark._jsparkSession, sequence(spark, []), options, none, singleton(datasources, "NoopCache"), none, none
    )
    # Whatever the schema says, a file may hold NULLs.
    data = spark._jsparkSession.parseDataType(schema.json()).asNullable()
    numbered = spark._jsparkSession.parseDataType(constants.json())
    files = datasources.HadoopFsRelation(
        index, numbered, data, none, datasources.parquet.ParquetFileFormat(), options, spark._jsparkSession
    )
    return singleton(datasources, "LogicalRelation").apply(files, False)


def _pushed(spark: SparkSession, relation: Any, predicate: Column | None) -> Any:
    """What of a predicate Spark would push into the reader of the files."""
    if predicate is None:
        return sequence(spark, [])
    scan = frame_of(spark, relation).where(predicate)._jdf.queryExecution().sparkPlan()
    while scan.children().size() == 1:
        scan = scan.children().apply(0)
    # A predicate that no row meets leaves no scan.
    return scan.pushedDownFilters() if scan.nodeName().startswith("Scan parquet") else sequence(spark, [])


def _rdd(
    spark: SparkSession, files: Any, pushed: Any, partitions: Sequence[Sequence[Piece]], ranges: OwnRange | None
) -> Any:
    java = jvm(spark)
    datasources = java.org.apache.spark.sql.execution.datasources
    reader = files.fileFormat().buildReaderWithPartitionValues(
        spark._jsparkSession,
        files.dataSchema(),
        files.partitionSchema(),
        files.dataSchema(),
        pushed,
        scala_map(spark, [("returning_batch", "false")]),
        spark._jsparkSession.sessionState().newHadoopConf(),
    )
    nothing = scala_map(spark, [])
    return datasources.FileScanRDD(
        spark._jsparkSession,
        reader,
        sequence(spark, _file_partitions(spark, partitions, files.partitionSchema().length(), ranges)),
        files.schema(),
        sequence(spark, []),
        nothing,
        java.org.apache.spark.sql.catalyst.FileSourceOptions(nothing),
    )


def _file_partitions(
    spark: SparkSession, partitions: Sequence[Sequence[Piece]], width: int, ranges: OwnRange | None
) -> list[Any]:
    java, gateway = jvm(spark), spark.sparkContext._gateway
    assert gateway is not None
    datasources = java.org.apache.spark.sql.execution.datasources
    partition_of, file_of = datasources.FilePartition, datasources.PartitionedFile
    row_of = java.org.apache.spark.sql.catalyst.expressions.GenericInternalRow
    from_path, hosts, nothing = (
        java.org.apache.spark.paths.SparkPath.fromPathString,
        _hosts(spark),
        scala_map(spark, []),
    )
    paths = {path: from_path(path) for path in {piece.path for pieces in partitions for piece in pieces}}
    made = []
    for number, pieces in enumerate(partitions):
        rows = {whole: _constants(row_of(width), number, whole) for whole in {piece.whole for piece in pieces}}
        if ranges is not None:
            for row in rows.values():
                ranges.fill(spark, row, 2, number)
        files = gateway.new_array(file_of, len(pieces))
        for i, each in enumerate(pieces):
            files[i] = file_of(
                rows[each.whole],
                paths[each.path],
                each.start,
                each.length,
                hosts(each),
                each.modified,
                each.size,
                nothing,
            )
        made.append(partition_of(number, files))
    return made


def _constants(row: Any, number: int, whole: bool) -> Any:
    """What the reader adds to the rows of a piece."""
    row.setInt(0, number)
    if row.numFields() > 1:
        row.setBoolean(1, whole)
    return row


def _hosts(spark: SparkSession) -> Callable[[Piece], Any]:
    """Which machines have the most of a piece, as far as its file system knows."""
    gateway, configuration = spark.sparkContext._gateway, spark._jsparkSession.sessionState().newHadoopConf()
    assert gateway is not None
    path_of = jvm(spark).org.apache.hadoop.fs.Path
    nowhere = gateway.new_array(gateway.jvm.java.lang.String, 0)
    systems: dict[tuple[str, str], Any] = {}

    def hosts(piece: Piece) -> Any:
        root = urlsplit(piece.path)[:2]
        if root not in systems:
            system = path_of(piece.path).getFileSystem(configuration)
            systems[root] = None if system.getScheme() == "file" else system
        if systems[root] is None:
            return nowhere
        blocks = systems[root].getFileBlockLocations(path_of(piece.path), piece.start, piece.length)
        return max(blocks, key=lambda block: block.getLength()).getHosts() if len(blocks) else nowhere

    return hosts
