"""Structured streams, written by Spark.

Rows get the number of their partition, are sent there, sorted, and written to a folder for each number. What is in a
stream's folder of a writer that has not finished, no reader looks at; see `streams.writing`.

Timestamps are written as microseconds, of which Parquet keeps the least and the greatest; of INT96, Spark's default, it
does not. With these, and pages of not too many rows in a file that is sorted, its page index is the tree by which a range of
keys is found (SIGMOD 2012, section 2.5.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra.sql import quote
from unshuffle.catalog.schema import DataType
from unshuffle.partitions import Boundary
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.spark.catalyst_tree import data_type
from unshuffle.spark.columns import ordered
from unshuffle.spark.hadoop_place import place_in, uri_of
from unshuffle.spark.range_number import hash_number, range_number
from unshuffle.spark.session import temporarily
from unshuffle.streams.chosen import partitions_for, ranges_for
from unshuffle.streams.manifest import Manifest, typed
from unshuffle.streams.places import Place
from unshuffle.streams.store import Stream, open_stream
from unshuffle.streams.wanted import Settled, Wanted, settle
from unshuffle.streams.writing import Writing

# How the rows of a frame lie already: anyhow; those of partition i in its partition i; and there, sorted too.
Laid = Literal["anyhow", "partitioned", "sorted"]

SAMPLE = 20_000  # rows that ranges are chosen by
_SEED = 7
_SETTINGS: dict[str, str | int | bool | None] = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": False,
    "spark.sql.optimizer.plannedWrite.enabled": True,
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of what can be read without the rest: a row group for a task that needs a part of a partition, a page for a key."""

    row_group_bytes: int = 32 << 20
    page_rows: int = 20_000


class PendingStreams:
    """The streams that one script writes: their files are put in place one by one, and all of them become versions by
    `commit`, or none does. As a context manager it removes on the way out what was not committed."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._pending: list[Writing] = []

    def write(
        self,
        frame: DataFrame,
        path: str,
        wanted: Wanted,
        *,
        sample: DataFrame | None = None,
        laid: Laid = "anyhow",
        sizes: Sizes | None = None,
        place: Place | None = None,
    ) -> Manifest:
        """Writes the files of a stream. `sample` gives the same rows, to look at before they are written."""
        place = place or place_in(self._spark, path)
        settled = settled_for(frame, wanted)
        writing = Writing(place, path, wanted.overwrite)
        self._pending.append(writing)
        function = settled.function or choose(frame if sample is None else sample, settled)
        self._write(frame, f"{uri_of(place)}/{writing.staging}", settled, function, laid, sizes or Sizes())
        manifest = writing.prepare(settled, function, verify=laid == "sorted")
        if laid == "partitioned" and any(len(partition.files) > 1 for partition in manifest.partitions):
            # Spark has divided a partition among tasks, and each of them has sorted its part.
            self._pending.remove(writing)
            writing.discard()
            return self.write(frame, path, wanted, sample=sample, sizes=sizes, place=place)
        return manifest

    def commit(self) -> list[Stream]:
        done: list[Stream] = []
        try:
            for writing in self._pending:
                done.append(writing.publish())
        except BaseException:
            self.withdraw()
            raise
        return done

    def withdraw(self) -> None:
        """Takes back what was just committed, because something that belongs to it failed."""
        for writing in self._pending:
            writing.withdraw()

    def _write(
        self,
        frame: DataFrame,
        staging: str,
        settled: Settled,
        function: HashFunction | RangeFunction,
        laid: Laid,
        sizes: Sizes,
    ) -> None:
        number = _free_name("_p", frame.columns)
        names = [each.name for each in settled.clustered_by[: function.arity]]
        rows = frame.withColumn(number, partition_number(self._spark, names, function))
        if laid == "anyhow":
            rows = rows.repartitionById(function.partitions, F.col(number))
        if laid != "sorted":
            rows = rows.sortWithinPartitions(
                F.col(number), *(ordered(each.name, each.descending, each.nulls_first) for each in settled.sorted_by)
            )
        options = {
            "parquet.block.size": sizes.row_group_bytes,
            "parquet.page.row.count.limit": sizes.page_rows,
            "parquet.page.write-checksum.enabled": True,
            "maxRecordsPerFile": 0,
        }
        # Rows that are sorted by other means must not be sorted by the partition's number: with a writer for each
        # partition of a task, and there is one, Spark does not.
        writers = 1 if laid == "sorted" else 0
        settings = {**_SETTINGS, "spark.sql.maxConcurrentOutputFileWriters": writers}
        with temporarily(self._spark, **settings):
            rows.write.partitionBy(number).options(**options).parquet(staging)

    def __enter__(self) -> PendingStreams:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        for writing in self._pending:
            writing.discard()
        return False


def write(
    frame: DataFrame,
    path: str,
    wanted: Wanted,
    *,
    laid: Laid = "anyhow",
    sizes: Sizes | None = None,
    place: Place | None = None,
) -> Stream:
    """The next version of a stream, with the rows of a frame."""
    with PendingStreams(frame.sparkSession) as pending:
        pending.write(frame, path, wanted, laid=laid, sizes=sizes, place=place)
        return pending.commit()[0]


def settled_for(frame: DataFrame, wanted: Wanted) -> Settled:
    reference = open_stream(wanted.reference) if wanted.reference is not None else None
    return settle(wanted, [_column(field) for field in frame.schema.jsonValue()["fields"]], reference)


def _column(field: dict[str, Any]) -> tuple[str, DataType]:
    """A column of a frame and its type; None if that is collated, which our types do not say."""
    return field["name"], None if "__COLLATIONS" in field.get("metadata", {}) else data_type(field["type"])


def choose(frame: DataFrame, settled: Settled) -> HashFunction | RangeFunction:
    """The function of a layout that is not fixed yet, by a look at the rows."""
    if not settled.ranged:
        return settled.hashed(settled.partitions or partitions_for(settled.schema, frame.count()))
    rows, sample = _sample(frame, settled)
    partitions = settled.partitions or partitions_for(settled.schema, rows)
    return ranges_for(typed(settled.schema, settled.clustered_by), sample, partitions)


def _sample(frame: DataFrame, settled: Settled) -> tuple[int, list[Boundary]]:
    """How many rows there are, and the clustering keys of some, chosen at random in one pass."""
    names = [each.name for each in settled.clustered_by]
    types = dict(settled.schema)
    seen = Observation()
    keys = frame.select(*(F.col(quote(name)) for name in names)).observe(seen, F.count(F.lit(1)).alias("rows"))
    table = keys.toDF(*(f"k{i}" for i in range(len(names)))).orderBy(F.rand(_SEED)).limit(SAMPLE).toArrow()
    columns = (table.column(i).cast(types[name]).to_pylist() for i, name in enumerate(names))
    return int(seen.get["rows"]), list(zip(*columns, strict=True))


def partition_number(spark: SparkSession, names: Sequence[str], function: HashFunction | RangeFunction) -> Column:
    """The number of a row's partition, over a frame that has these columns."""
    columns = [F.col(quote(name)) for name in names]
    return (
        range_number(spark, columns, function)
        if isinstance(function, RangeFunction)
        else hash_number(columns, function)
    )


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name.lower() in {each.lower() for each in taken}:
        name += "_"
    return name
