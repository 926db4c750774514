"""Writing structured streams with Spark.

Rows get their partition number, are repartitioned by it, sorted, and written to one folder for each number. Readers ignore
the files of an unfinished writer; see `sstream.version_writer`.

Timestamps are written as microseconds, for which Parquet stores minimum and maximum. For INT96, Spark's default, it does
not. With these statistics, and pages of limited size in a sorted file, Parquet's page index is the tree in which a range of
keys is looked up (SIGMOD 2012, section 2.5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.catalog.schema import DataType
from unshuffle.errors import disk_problems
from unshuffle.frozen import dataclass
from unshuffle.partitions import Boundary
from unshuffle.plan.sql import quote
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.spark.columns import sort_column
from unshuffle.spark.io.commit_record import StreamOutput, recover
from unshuffle.spark.io.hadoop_files import write_problems
from unshuffle.spark.io.hadoop_storage import storage_for, uri_of
from unshuffle.spark.reader.catalyst_tree import data_type
from unshuffle.spark.session import temporarily
from unshuffle.spark.shims.range_number import hash_number, range_number
from unshuffle.sstream.layout_defaults import partitions_for, ranges_for
from unshuffle.sstream.layout_request import LayoutRequest, ResolvedLayout, resolve_layout
from unshuffle.sstream.manifest import Manifest, typed_keys
from unshuffle.sstream.storage import Storage
from unshuffle.sstream.store import Stream, open_stream
from unshuffle.sstream.version_writer import VersionWriter

# The layout of the rows to write: none; those of partition i in the frame's partition i; and sorted there, too.
InputLayout = Literal["none", "partitioned", "sorted"]

SAMPLE_ROWS = 20_000  # from which the boundaries of ranges are chosen
_SEED = 7
_SETTINGS: dict[str, str | int | bool | None] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": False,
    "spark.sql.optimizer.plannedWrite.enabled": True,
}


@dataclass(frozen=True, slots=True)
class ParquetSizes:
    """The units that are read by themselves: a row group by a task that needs part of a partition, a page by a lookup."""

    row_group_bytes: int = 32 << 20
    page_rows: int = 20_000


class PendingStreams:
    """The streams that one script writes. Their files are written one stream at a time; `commit` publishes a version of all
    of them. As a context manager it removes at the end what was not published."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pending: list[VersionWriter] = []

    def write(
        self,
        frame: DataFrame,
        path: str,
        request: LayoutRequest,
        *,
        follows: int | None = None,
        input_layout: InputLayout = "none",
        sizes: ParquetSizes | None = None,
        storage: Storage | None = None,
    ) -> Manifest:
        """Writes the files of a stream. `follows` is the version that the rows are computed from, if any."""
        with write_problems(f"{path!r} cannot be written"):
            return self._prepare(frame, path, request, follows, input_layout, sizes, storage)

    def _prepare(
        self,
        frame: DataFrame,
        path: str,
        request: LayoutRequest,
        follows: int | None,
        input_layout: InputLayout,
        sizes: ParquetSizes | None,
        storage: Storage | None,
    ) -> Manifest:
        storage = storage or storage_for(self._spark, path)
        layout = resolved_layout(frame, request)
        writer = VersionWriter(storage, path, request.overwrite, follows)
        self._pending.append(writer)
        function = layout.function or choose_function(frame, layout)
        self._write(
            frame, f"{uri_of(storage)}/{writer.staging}", layout, function, input_layout, sizes or ParquetSizes()
        )
        manifest = writer.prepare(layout, function, verify=input_layout == "sorted")
        if input_layout == "partitioned" and any(len(partition.files) > 1 for partition in manifest.partitions):
            # Spark has split a partition among tasks, and each task has sorted its part only.
            self._pending.remove(writer)
            writer.discard()
            return self._prepare(frame, path, request, follows, "none", sizes, storage)
        return manifest

    def publish(self) -> list[Stream]:
        """Publishes one version after the other. Who publishes several records that before (`commit_record`)."""
        return [writer.publish() for writer in self._pending]

    def outputs(self) -> tuple[StreamOutput, ...]:
        """The versions to publish, for the record of a commit."""
        return tuple(StreamOutput(*writer.publication) for writer in self._pending)

    def _write(
        self,
        frame: DataFrame,
        staging: str,
        layout: ResolvedLayout,
        function: HashFunction | RangeFunction,
        input_layout: InputLayout,
        sizes: ParquetSizes,
    ) -> None:
        number = _free_name("_p", frame.columns)
        names = [each.name for each in layout.clustered_by[: function.arity]]
        rows = frame.withColumn(number, partition_number(self._spark, names, function))
        if input_layout == "none":
            rows = rows.repartitionById(function.partitions, F.col(number))
        if input_layout != "sorted":
            rows = rows.sortWithinPartitions(
                F.col(number),
                *(sort_column(each.name, each.descending, each.nulls_first) for each in layout.sorted_by),
            )
        options = {
            "parquet.block.size": sizes.row_group_bytes,
            "parquet.page.row.count.limit": sizes.page_rows,
            "parquet.page.write-checksum.enabled": True,
            "maxRecordsPerFile": 0,
        }
        # Spark must not sort rows by the partition number again if they are sorted already. With concurrent writers it does
        # not; a task has rows of one partition, so one writer is enough.
        writers = 1 if input_layout == "sorted" else 0
        settings = {**_SETTINGS, "spark.sql.maxConcurrentOutputFileWriters": writers}
        with temporarily(self._spark, **settings):
            rows.write.partitionBy(number).options(**options).parquet(staging)

    def __enter__(self) -> PendingStreams:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        for writer in self._pending:
            writer.discard(after_error=kind is not None)
        return False


def write(
    frame: DataFrame,
    path: str,
    request: LayoutRequest,
    *,
    follows: int | None = None,
    input_layout: InputLayout = "none",
    sizes: ParquetSizes | None = None,
    storage: Storage | None = None,
    running: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Stream:
    """Writes the rows of a frame as the next version of a stream. Its jobs run in the context `running`; what publishes the
    version does not."""
    with disk_problems(f"{path!r} cannot be written"):
        recover(frame.sparkSession, [path])
    with PendingStreams(frame.sparkSession) as pending:
        with running():
            pending.write(
                frame, path, request, follows=follows, input_layout=input_layout, sizes=sizes, storage=storage
            )
        return pending.publish()[0]


def resolved_layout(frame: DataFrame, request: LayoutRequest) -> ResolvedLayout:
    reference = open_stream(request.reference) if request.reference is not None else None
    return resolve_layout(request, [_column(field) for field in frame.schema.jsonValue()["fields"]], reference)


def _column(field: dict[str, Any]) -> tuple[str, DataType]:
    """A column of a frame and its type; None for a collated string, which our types cannot express."""
    return field["name"], None if "__COLLATIONS" in field.get("metadata", {}) else data_type(field["type"])


def choose_function(frame: DataFrame, layout: ResolvedLayout) -> HashFunction | RangeFunction:
    """The partition function of a layout that does not fix one, from a sample of the rows."""
    if not layout.ranged:
        return layout.hashed(layout.partitions or partitions_for(layout.schema, frame.count()))
    rows, sample = _sample(frame, layout)
    partitions = layout.partitions or partitions_for(layout.schema, rows)
    return ranges_for(typed_keys(layout.schema, layout.clustered_by), sample, partitions)


def _sample(frame: DataFrame, layout: ResolvedLayout) -> tuple[int, list[Boundary]]:
    """The number of rows, and the clustering keys of a random sample, in one pass."""
    names = [each.name for each in layout.clustered_by]
    types = dict(layout.schema)
    counted = Observation()
    keys = frame.select(*(F.col(quote(name)) for name in names)).observe(counted, F.count(F.lit(1)).alias("rows"))
    table = keys.toDF(*(f"k{i}" for i in range(len(names)))).orderBy(F.rand(_SEED)).limit(SAMPLE_ROWS).toArrow()
    columns = (table.column(i).cast(types[name]).to_pylist() for i, name in enumerate(names))
    return int(counted.get["rows"]), list(zip(*columns, strict=True))


def partition_number(spark: SparkSession, names: Sequence[str], function: HashFunction | RangeFunction) -> Column:
    """The number of a row's partition, from the columns of a frame."""
    columns = [F.col(quote(name)) for name in names]
    return (
        range_number(spark, columns, function)
        if isinstance(function, RangeFunction)
        else hash_number(spark, columns, function)
    )


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name.lower() in {each.lower() for each in taken}:
        name += "_"
    return name
