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

import datetime
import struct
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.plan.sql import quote
from unshuffle.spark.shims.catalyst import frame_of, query_execution
from unshuffle.spark.shims.claimed_layout import SortOrder, statistics, with_claimed_layout
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.gateway import (
    items_of,
    java_session,
    jvm,
    none,
    scala_map,
    scala_object,
    sequence,
)
from unshuffle.spark.shims.hadoop import hadoop_configuration
from unshuffle.spark.shims.range_filter import RangeFilter

_EPOCH = datetime.date(1970, 1, 1)
_DATASOURCES = "org.apache.spark.sql.execution.datasources"


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or those of its row groups whose midpoint is in the `length` bytes from `start` on."""

    path: str  # as Hadoop writes it, without escapes
    size: int  # of the whole file
    start: int
    length: int
    modified: int  # milliseconds since 1970
    whole: bool = False  # all its rows belong to the partition that reads it
    values: tuple[Any, ...] = ()  # of the columns that are in the names of its folders


def exact_scan(
    spark: SparkSession,
    schema: StructType,
    partitions: Sequence[Sequence[Piece]],
    number: str,
    *,
    folder_columns: StructType | None = None,
    belongs: Column | RangeFilter | None = None,
    predicate: Column | None = None,
    order: SortOrder = (),
    rows: int | None = None,
    bytes: int | None = None,
) -> DataFrame:
    """The rows of the pieces with the schema's columns and `folder_columns`, which have the values of each piece, and their
    logical partition in the column `number`.

    `belongs` is the number of the partition that a row belongs to, or the ranges of the partitions. Other rows of pieces that
    are not whole are filtered out. `predicate` is pushed into the reader as far as Spark can, and is applied. `order` is how
    the rows of each logical partition are sorted, and is not checked. `rows` and `bytes` are the size of all pieces; by
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
    frame = with_claimed_layout(spark, attributes, rdd, number, order, statistics(spark, rows, size))
    if predicate is not None:
        frame = frame.where(predicate)
    if belongs is None:
        return frame
    is_own = F.expr(ranges.condition) if ranges is not None else belongs == F.col(quote(number))
    return frame.where(F.col(quote(whole)) | is_own).drop(*(field.name for field in constants[1:]))


def _relation(spark: SparkSession, schema: StructType, constants: StructType) -> Any:
    """The relation that Spark would have for the files. It lists none, because we decide which are read."""
    session, nothing, options = java_session(spark), none(spark), scala_map(spark, [])
    datasources = jvm(spark).org.apache.spark.sql.execution.datasources
    no_cache = scala_object(spark, f"{_DATASOURCES}.NoopCache")
    index = datasources.InMemoryFileIndex(session, sequence(spark, []), options, nothing, no_cache, nothing, nothing)
    # Whatever the schema says, a file may contain NULLs.
    data_schema = session.parseDataType(schema.json()).asNullable()
    constant_schema = session.parseDataType(constants.json())
    parquet = datasources.parquet.ParquetFileFormat()
    files = datasources.HadoopFsRelation(index, constant_schema, data_schema, nothing, parquet, options, session)
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
    java, session = jvm(spark), java_session(spark)
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
    return java.org.apache.spark.sql.execution.datasources.FileScanRDD(
        session,
        reader,
        _file_partitions(spark, partitions, files.partitionSchema().length(), ranges, folder_types),
        files.schema(),
        sequence(spark, []),
        no_metadata,
        java.org.apache.spark.sql.catalyst.FileSourceOptions(no_metadata),
    )


def _file_partitions(
    spark: SparkSession,
    partitions: Sequence[Sequence[Piece]],
    constants: int,
    ranges: RangeFilter | None,
    folder_types: Sequence[DataType],
) -> Any:
    """Spark's description of the tasks, made from one array of bytes."""
    rows: dict[tuple[int, bool, tuple[Any, ...]], int] = {}  # the constants of a piece, each combination once
    encoded = _Encoded()
    for number, pieces in enumerate(partitions):
        encoded.number(len(pieces))
        for each in pieces:
            key = (number, each.whole, each.values)
            encoded.number(rows.setdefault(key, len(rows)))
            encoded.text(each.path)
            encoded.longs(each.start, each.length, each.modified, each.size)
    table = _Encoded()
    table.number(len(rows))
    table.number(constants)
    for number, is_whole, values in rows:
        table.value(IntegerType(), number)
        if constants > 1 + len(folder_types):
            table.value(BooleanType(), is_whole)
        for type_, value in ranges.constants(number) if ranges is not None else ():
            table.value(type_, value)
        for type_, value in zip(folder_types, values, strict=True):
            table.value(type_, value)
    table.number(len(partitions))
    maker = java_object(spark, "unshuffle.FilePartitions", _FILE_PARTITIONS)
    made = maker.made(bytes(table.bytes + encoded.bytes), hadoop_configuration(spark))
    return jvm(spark).scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq()


class _Encoded:
    """Values as Java's `DataInput` reads them."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def number(self, value: int) -> None:
        self.bytes += struct.pack(">i", value)

    def longs(self, *values: int) -> None:
        self.bytes += struct.pack(f">{len(values)}q", *values)

    def text(self, value: str) -> None:
        encoded = value.encode("utf-8", "surrogatepass")
        self.number(len(encoded))
        self.bytes += encoded

    def value(self, type_: DataType, value: Any) -> None:
        """A constant, in Spark's internal form, after a byte that says what it is."""
        match type_:
            case _ if value is None:
                self.bytes += b"n"
            case BooleanType():
                self.bytes += b"b" + bytes([value])
            case StringType():
                self.bytes += b"s"
                self.text(value)
            case DateType():
                self.bytes += b"i" + struct.pack(">i", (value - _EPOCH).days)
            case IntegerType():
                self.bytes += b"i" + struct.pack(">i", value)
            case LongType():
                self.bytes += b"l" + struct.pack(">q", value)
            case ShortType():
                self.bytes += b"h" + struct.pack(">h", value)
            case ByteType():
                self.bytes += b"y" + struct.pack(">b", value)
            case _:
                raise InternalError(f"a constant of type {type_.simpleString()}")


# Reads what `_file_partitions` encodes. Each piece gets the machines that store most of it, as far as its file system knows.
_FILE_PARTITIONS = """
package unshuffle;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.util.ArrayList;
import java.util.HashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.types.UTF8String;

public class FilePartitions {
  public FilePartitions() {}

  public ArrayList made(byte[] encoded, Configuration configuration) throws Exception {
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(encoded));
    GenericInternalRow[] rows = new GenericInternalRow[in.readInt()];
    int fields = in.readInt();
    for (int i = 0; i < rows.length; i++) {
      Object[] values = new Object[fields];
      for (int j = 0; j < fields; j++) values[j] = value(in);
      rows[i] = new GenericInternalRow(values);
    }
    HashMap systems = new HashMap();
    ArrayList found = new ArrayList();
    int partitions = in.readInt();
    for (int i = 0; i < partitions; i++) {
      PartitionedFile[] files = new PartitionedFile[in.readInt()];
      for (int j = 0; j < files.length; j++) {
        GenericInternalRow row = rows[in.readInt()];
        String path = text(in);
        long start = in.readLong();
        long length = in.readLong();
        long modified = in.readLong();
        long size = in.readLong();
        String[] hosts = hosts(path, start, length, configuration, systems);
        files[j] = new PartitionedFile(
          row, SparkPath.fromPathString(path), start, length, hosts, modified, size,
          scala.collection.immutable.Map$.MODULE$.empty());
      }
      found.add(new FilePartition(i, files));
    }
    return found;
  }

  private Object value(DataInputStream in) throws Exception {
    switch (in.readByte()) {
      case 'n': return null;
      case 'b': return Boolean.valueOf(in.readBoolean());
      case 'i': return Integer.valueOf(in.readInt());
      case 'l': return Long.valueOf(in.readLong());
      case 'h': return Short.valueOf(in.readShort());
      case 'y': return Byte.valueOf(in.readByte());
      default: return UTF8String.fromBytes(bytes(in));
    }
  }

  private byte[] bytes(DataInputStream in) throws Exception {
    byte[] found = new byte[in.readInt()];
    in.readFully(found);
    return found;
  }

  private String text(DataInputStream in) throws Exception {
    return new String(bytes(in), "UTF-8");
  }

  private String[] hosts(String path, long start, long length, Configuration configuration, HashMap systems)
      throws Exception {
    Path at = new Path(path);
    String root = at.toUri().getScheme() + "://" + at.toUri().getAuthority();
    if (!systems.containsKey(root)) {
      FileSystem system = at.getFileSystem(configuration);
      systems.put(root, "file".equals(system.getScheme()) ? null : system);
    }
    FileSystem system = (FileSystem) systems.get(root);
    if (system == null) return new String[0];
    BlockLocation[] blocks = system.getFileBlockLocations(at, start, length);
    BlockLocation most = null;
    for (int i = 0; i < blocks.length; i++) {
      if (most == null || blocks[i].getLength() > most.getLength()) most = blocks[i];
    }
    return most == null ? new String[0] : most.getHosts();
  }
}
"""
