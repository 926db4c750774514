"""The files that each task of a scan reads, as Spark describes them, made in one call.

Python encodes the pieces of all tasks as bytes, and a Java class reads them: one call for each piece would take seconds for a
thousand files.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, ByteType, DataType, DateType, IntegerType, LongType, ShortType, StringType

from unshuffle.errors import InternalError
from unshuffle.frozen import dataclass
from unshuffle.spark.shims.compiled_java import java_object
from unshuffle.spark.shims.range_filter import RangeFilter

_EPOCH = datetime.date(1970, 1, 1)
# A piece: its row of constants, its start, length and time of change, the size of the file, the length of the path.
_PIECE = struct.Struct(">iqqqqi")


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


def file_partitions(spark: SparkSession) -> Any:
    """The Java object that makes Spark's description of tasks, a Scala Seq, from `encoded_partitions`."""
    return java_object(spark, "unshuffle.FilePartitions", _FILE_PARTITIONS)


def encoded_partitions(
    partitions: Sequence[Sequence[Piece]], constants: int, ranges: RangeFilter | None, folder_types: Sequence[DataType]
) -> bytes:
    """What each task reads, for the Java object."""
    rows: dict[tuple[int, bool, tuple[Any, ...]], int] = {}  # the constants of a piece, each combination once
    encoded = _Encoded()
    for number, pieces in enumerate(partitions):
        encoded.number(len(pieces))
        for each in pieces:
            row = rows.setdefault((number, each.whole, each.values), len(rows))
            path = each.path.encode("utf-8", "surrogatepass")
            encoded.bytes += _PIECE.pack(row, each.start, each.length, each.modified, each.size, len(path)) + path
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
    return bytes(table.bytes + encoded.bytes)


class _Encoded:
    """Values as Java's `DataInput` reads them."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def number(self, value: int) -> None:
        self.bytes += struct.pack(">i", value)

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


# Reads what `encoded_partitions` wrote. Each piece gets the machines that store most of it, as far as its file system knows.
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
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.types.UTF8String;

public class FilePartitions {
  public FilePartitions() {}

  public Object made(byte[] encoded, Configuration configuration) throws Exception {
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
        long start = in.readLong();
        long length = in.readLong();
        long modified = in.readLong();
        long size = in.readLong();
        Path path = new Path(text(in));
        String[] hosts = hosts(path, start, length, configuration, systems);
        files[j] = new PartitionedFile(
          row, SparkPath.fromPath(path), start, length, hosts, modified, size,
          scala.collection.immutable.Map$.MODULE$.empty());
      }
      found.add(new FilePartition(i, files));
    }
    return PythonUtils.toSeq(found);
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

  private String[] hosts(Path at, long start, long length, Configuration configuration, HashMap systems)
      throws Exception {
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
