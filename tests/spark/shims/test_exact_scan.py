"""Exact scans of stored partitions: every row is in its numbered partition and in order, and Spark relies on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.properties import RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from unshuffle.spark.shims.file_partitions import Piece

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

# Sorted by (k, x) in Spark's order, with boundaries at "b" and "é".
PARTITIONS: list[list[tuple[str | None, float | None, int]]] = [
    [(None, None, 1), (None, 1.0, 2), ("", -0.0, 3), ("a", float("nan"), 4), ("a\0", 5.0, 5)],
    [("b", -1.0, 6), ("b", 0.0, 7), ("c", None, 8)],
    [("é", 1.0, 9), ("\uffff", 2.0, 10), ("\U00010000", float("inf"), 11)],
]
RANGES = RangeFunction((RangeKey(pa.string()),), (("b",), ("é",)))
SORTED = (("k", False, True), ("x", False, True))
SETTINGS = {"spark.sql.autoBroadcastJoinThreshold": -1}


def piece(path: Path) -> Piece:
    from unshuffle.spark.shims.file_partitions import Piece

    size = path.stat().st_size
    return Piece(f"file://{path}", size, 0, size, int(path.stat().st_mtime * 1000))


def written(path: Path, rows: list[tuple[Any, ...]], row_group: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    names, types = ("k", "x", "v"), (pa.string(), pa.float64(), pa.int64())
    columns = {name: pa.array([row[i] for row in rows], types[i]) for i, name in enumerate(names)}
    pq.write_table(pa.table(columns), path, row_group_size=row_group)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folder name contains characters that a URL cannot have."""
    folder = tmp_path_factory.mktemp("stored") / "a b=1%20 ü"
    return [written(folder / f"p={i}" / "rows+.parquet", rows) for i, rows in enumerate(PARTITIONS)]


def scan(spark: SparkSession, partitions: list[list[Path]], **more: Any) -> DataFrame:
    from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

    from unshuffle.spark.shims.exact_scan import exact_scan

    fields = [StructField("k", StringType()), StructField("x", DoubleType()), StructField("v", LongType())]
    pieces = [[each if hasattr(each, "start") else piece(each) for each in paths] for paths in partitions]
    return exact_scan(spark, StructType(fields), pieces, "p", **more)  # type: ignore[arg-type]


def placed(frame: DataFrame) -> list[list[int]]:
    """The values v in each partition, in order, after a check of each row's partition number."""
    found: list[list[int]] = [[] for _ in range(frame.rdd.getNumPartitions())]
    for row in frame.selectExpr("v", "p", "spark_partition_id() AS at").collect():
        assert row.p == row["at"]
        found[row["at"]].append(row.v)
    return found


def operators(frame: DataFrame) -> str:
    """The final plan that Spark ran."""
    frame.collect()
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan.partition("== Initial Plan ==")[0]


def belonging(spark: SparkSession, function: RangeFunction) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.shims.range_number import range_number

    return range_number(spark, [F.col("k")], function)


def test_each_logical_partition_is_a_task(spark: SparkSession, files: list[Path]) -> None:
    found = scan(spark, [[file] for file in files], order=SORTED)
    assert placed(found) == [[row[2] for row in rows] for rows in PARTITIONS]
    plain = spark.read.parquet(*(str(file) for file in files)).collect()
    assert sorted(map(str, found.drop("p").collect())) == sorted(map(str, plain))
    assert found.columns == ["k", "x", "v", "p"]


def test_empty_partitions_stay_and_files_may_be_empty(spark: SparkSession, files: list[Path], tmp_path: Path) -> None:
    empty = written(tmp_path / "empty.parquet", [])
    assert placed(scan(spark, [[], [files[0]], [], [empty], [empty, files[1], empty]])) == [
        [], [1, 2, 3, 4, 5], [], [], [6, 7, 8]
    ]  # fmt: skip
    assert placed(scan(spark, [[], []])) == [[], []]
    assert placed(scan(spark, [files])) == [list(range(1, 12))]


def test_a_file_may_be_in_several_partitions(spark: SparkSession, files: list[Path]) -> None:
    """New boundaries at "a" and "c": each partition keeps only its own rows."""
    cut = RangeFunction((RangeKey(pa.string()),), (("a",), ("c",)))
    found = scan(spark, [files[:1], files[:2], files[1:]], belongs=belonging(spark, cut), order=SORTED)
    assert placed(found) == [[1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_task_keeps_the_rows_of_its_range(spark: SparkSession, tmp_path: Path) -> None:
    """Every task reads all rows and keeps its own: with boundaries on one key and on two, at NULL, at existing and
    missing values."""
    from itertools import product

    from unshuffle.spark.shims.range_filter import RangeFilter

    texts = [None, "", "a", "a\0", "b", "é", "\uffff", "\U00010000"]
    pairs = list(product(texts, [None, -(2**63), -1, 0, 7, 2**63 - 1]))
    path = tmp_path / "rows.parquet"
    columns = {"k": pa.array([k for k, _ in pairs], pa.string()), "v": pa.array([v for _, v in pairs], pa.int64())}
    pq.write_table(pa.table({**columns, "x": pa.nulls(len(pairs), pa.float64())}), path)
    boundaries = (
        (None, -1),
        ("",),
        ("a", None),
        ("a", 0),
        ("a\0b",),
        ("é", 2**63 - 1),
        ("\U00010000", None),
        ("\U00010000", 3),
    )
    keys = (RangeKey(pa.string()), RangeKey(pa.int64()))
    for function in (RangeFunction(keys, boundaries), RangeFunction(keys, ())):
        assert RangeFilter.supports(function)
        own = RangeFilter(function, ["k", "v"], "p")
        found = scan(spark, [[path]] * (len(function.boundaries) + 1), belongs=own)  # type: ignore[arg-type]
        assert found.columns == ["k", "x", "v", "p"]
        rows = [(row.k, row.v, row.p) for row in found.collect()]
        expected = [(*pair, function.number(pair)) for pair in pairs]
        assert sorted(rows, key=str) == sorted(expected, key=str)
    for key in (
        RangeKey(pa.string(), descending=True),
        RangeKey(pa.string(), nulls_first=False),
        RangeKey(pa.float64()),
    ):
        assert not RangeFilter.supports(RangeFunction((key,), ()))


def test_row_groups_can_be_read_separately(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.shims.file_partitions import Piece

    path = written(tmp_path / "groups.parquet", [("k", 1.0, i) for i in range(6)], row_group=2)
    whole, groups = piece(path), pq.ParquetFile(path).metadata
    pieces = []
    for i in range(groups.num_row_groups):
        columns = [groups.row_group(i).column(c) for c in range(groups.num_columns)]
        start = min(c.dictionary_page_offset or c.data_page_offset for c in columns)
        length = sum(c.total_compressed_size for c in columns)
        pieces.append([Piece(whole.path, whole.size, start, length, whole.modified)])
    assert placed(scan(spark, [*pieces, [*pieces[2], *pieces[0]]])) == [[0, 1], [2, 3], [4, 5], [4, 5, 0, 1]]  # type: ignore[list-item]


def test_a_predicate_is_pushed_and_applied(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    path = written(tmp_path / "many.parquet", [(f"k{i % 3}", float(i), i) for i in range(9000)], row_group=1000)
    found = scan(spark, [[path]], predicate=(F.col("v") >= 8500) & (F.length("k") == 2) & (F.col("p") == 0))
    assert placed(found) == [list(range(8500, 9000))]
    read = found.selectExpr("k")._jdf.queryExecution().executedPlan()
    total = read.execute().count()
    scanned = read
    while scanned.children().size():
        scanned = scanned.children().apply(0)
    # The reader returns only the row group of the matching rows, as a whole.
    assert total == 500
    assert scanned.metrics().apply("numOutputRows").value() == 1000
    assert placed(scan(spark, [[path]], predicate=F.lit(False))) in ([], [[]])


def test_an_aggregate_needs_no_exchange_and_no_sort(spark: SparkSession, files: list[Path]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    found = scan(spark, [[file] for file in files], order=SORTED).where("v <> 4")
    grouped = found.groupBy("p", "k").agg(
        F.max("k").alias("text"), F.sum("v").alias("s")
    )  # a sort aggregate, because the state is a string
    plan = operators(grouped)
    assert "SortAggregate" in plan
    assert "Exchange" not in plan
    assert "Sort [" not in plan
    assert {(row.k, row.s) for row in grouped.collect()} == {
        (None, 3), ("", 3), ("a\0", 5), ("b", 13), ("c", 8), ("é", 9), ("\uffff", 10), ("\U00010000", 11)
    }  # fmt: skip


def test_a_merge_join_of_two_scans_and_of_one_with_itself(spark: SparkSession, files: list[Path]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.session import temporarily

    one = scan(spark, [[file] for file in files], order=SORTED)
    other = scan(spark, [[file] for file in files], order=SORTED)
    with temporarily(spark, **SETTINGS):
        for left, right in ((one, other), (one, one)):
            joined = left.alias("l").join(
                right.alias("r").where("v > 2"),
                (F.col("l.p") == F.col("r.p")) & (F.col("l.k") == F.col("r.k")),
            )
            plan = operators(joined)
            assert "SortMergeJoin" in plan
            assert "Exchange" not in plan
            assert "Sort [" not in plan
            assert sorted(row[2] for row in joined.collect()) == [3, 4, 5, 6, 6, 7, 7, 8, 9, 10, 11]
            assert placed(joined.select("l.*")) == [[3, 4, 5], [6, 6, 7, 7, 8], [9, 10, 11]]


def test_a_union_has_unknown_partitioning(spark: SparkSession, files: list[Path]) -> None:
    """Spark loses the partition numbers in a union. (`narrow_repartition` unions partition by partition.)"""
    one = scan(spark, [[file] for file in files])
    other = scan(spark, [[files[2]], [files[1]], [files[0]]], belongs=belonging(spark, RANGES))
    counts = one.union(other).groupBy("p", "k").count().collect()
    assert {(row.k, row["count"]) for row in counts} == {
        (None, 2), ("", 1), ("a", 1), ("a\0", 1), ("b", 4), ("c", 2), ("é", 1), ("\uffff", 1), ("\U00010000", 1)
    }  # fmt: skip


def test_the_size_is_known(spark: SparkSession, files: list[Path]) -> None:
    found = scan(spark, [[file] for file in files], rows=11, bytes=5_000_000_000)
    statistics = found._jdf.queryExecution().optimizedPlan().stats()
    assert (statistics.sizeInBytes(), statistics.rowCount().get()) == (5_000_000_000, 11)
    known = scan(spark, [files])._jdf.queryExecution().optimizedPlan().stats()
    assert known.sizeInBytes() == sum(file.stat().st_size for file in files)
    assert known.rowCount().isEmpty()


def test_preferred_hosts_come_from_the_file_system(spark: SparkSession, files: list[Path]) -> None:
    """Through a file system that only delegates to another."""
    from unshuffle.spark.session import temporarily
    from unshuffle.spark.shims.file_partitions import Piece

    given = piece(files[1])
    with temporarily(spark, **{"fs.viewfs.mounttable.here.link./data": files[1].parent.as_uri()}):
        there = Piece("viewfs://here/data/rows+.parquet", given.size, 0, given.length, given.modified)
        assert placed(scan(spark, [[there]])) == [[6, 7, 8]]  # type: ignore[list-item]


def test_settings_do_not_change(spark: SparkSession, files: list[Path]) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    before = spark.conf.getAll
    scan(spark, [[file] for file in files], predicate=F.col("v") > 1, belongs=belonging(spark, RANGES)).collect()
    assert spark.conf.getAll == before
