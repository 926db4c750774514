"""Rows that Spark knows to be partitioned by a function of columns: no exchange where that suffices, one where it does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

ROWS = [(k, k % 3, f"v{k}") for k in (*range(40), 7, 7, 23)] + [(None, 1, "nothing"), (None, None, "at all")]
RANGES = RangeFunction((RangeKey(pa.int64()),), ((10,), (30,)))
OTHERS = RangeFunction((RangeKey(pa.int64()),), ((11,), (30,)))
HASH = HashFunction((pa.int64(),), 3)


@pytest.fixture(autouse=True)
def no_broadcasts(spark: SparkSession) -> Any:
    from unshuffle.spark.session import temporarily

    with temporarily(spark, **{"spark.sql.autoBroadcastJoinThreshold": -1}):
        yield


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("rows") / "rows.parquet"
    columns = zip(*ROWS, strict=True)
    types = (("k", pa.int64()), ("g", pa.int64()), ("v", pa.string()))
    pq.write_table(pa.table({n: pa.array(c, t) for (n, t), c in zip(types, columns, strict=True)}), found)
    return found


def stored(spark: SparkSession, path: Path, suffix: str, function: HashFunction | RangeFunction = RANGES) -> DataFrame:
    """The rows, read into three partitions by k; each task keeps its own."""
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.shims.exact_scan import exact_scan
    from unshuffle.spark.shims.file_partitions import Piece
    from unshuffle.spark.shims.range_number import hash_number, range_number

    size = path.stat().st_size
    piece = Piece(f"file://{path}", size, 0, size, int(path.stat().st_mtime * 1000), False)
    compute: Any = range_number if isinstance(function, RangeFunction) else hash_number
    number = compute(spark, [F.col("k")], function)
    plain = spark.read.parquet(str(path))
    frame = exact_scan(spark, plain.schema, [[piece]] * 3, "p", belongs=number, by=(["k"], function))
    return frame.select(*(F.col(name).alias(f"{name}{suffix}") for name in plain.columns))


def plain(spark: SparkSession, path: Path, suffix: str) -> DataFrame:
    return spark.read.parquet(str(path)).toDF(*(f"{name}{suffix}" for name in ("k", "g", "v")))


def exchanges(frame: DataFrame) -> int:
    return str(frame._jdf.queryExecution().executedPlan().toString()).count("Exchange ")


def rows(frame: DataFrame) -> Counter[Any]:
    return Counter(map(tuple, frame.collect()))


@pytest.mark.parametrize("function", [RANGES, HASH], ids=["ranges", "hash"])
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "semi", "anti"])
def test_joins_on_the_columns_need_no_exchange(
    spark: SparkSession, path: Path, function: HashFunction | RangeFunction, kind: str
) -> None:
    a, b = (stored(spark, path, suffix, function) for suffix in "ab")
    x, y = (plain(spark, path, suffix) for suffix in "ab")
    for keys in (["k"], ["k", "g"], ["g", "k"]):
        found = a.join(b, [a[f"{key}a"] == b[f"{key}b"] for key in keys], kind)
        assert exchanges(found) == 0
        assert rows(found) == rows(x.join(y, [x[f"{key}a"] == y[f"{key}b"] for key in keys], kind))


def test_a_join_of_a_join_and_a_grouping_of_it_need_none_either(spark: SparkSession, path: Path) -> None:
    def query(a: DataFrame, b: DataFrame, c: DataFrame, key: str) -> DataFrame:
        both = a.join(b, a.ka == b.kb)  # Spark knows two layouts of it
        return both.join(c, both[key] == c.kc).groupBy("kc", "ga").count()

    for key in ("ka", "kb"):
        found = query(*(stored(spark, path, suffix) for suffix in "abc"), key)
        assert exchanges(found) == 0
        assert rows(found) == rows(query(*(plain(spark, path, suffix) for suffix in "abc"), key))


@pytest.mark.parametrize("query", ["select ga, count(*) from a group by ga", "select count(distinct va) from a"])
def test_groups_of_other_columns_are_exchanged(spark: SparkSession, path: Path, query: str) -> None:
    stored(spark, path, "a").createOrReplaceTempView("a")
    found = spark.sql(query)
    assert exchanges(found) > 0
    plain(spark, path, "a").createOrReplaceTempView("a")
    assert rows(found) == rows(spark.sql(query))
    spark.catalog.dropTempView("a")


def test_rows_that_lie_otherwise_are_exchanged(spark: SparkSession, path: Path) -> None:
    """Other boundaries, another function, a join on other columns, rows by `repartitionById`, and rows anyhow. Only these
    last ones can be sent to where the stored rows are."""
    from pyspark.sql import functions as F  # noqa: N812

    a, b = stored(spark, path, "a"), plain(spark, path, "b")
    expected = rows(plain(spark, path, "a").join(b, F.col("ka") == F.col("kb")))
    by_id = b.where("kb is not null").repartitionById(3, F.col("kb").cast("int"))
    for other in (stored(spark, path, "b", OTHERS), stored(spark, path, "b", HASH), by_id):
        found = a.join(other, F.col("ka") == F.col("kb"))
        assert exchanges(found) >= 1
        assert rows(found) == expected
        assert rows(other.join(a, F.col("ka") == F.col("kb")).select("ka", "ga", "va", "kb", "gb", "vb")) == expected
    found = a.join(b, F.col("ka") == F.col("kb"))
    assert (exchanges(found), rows(found)) == (1, expected)
    on_groups = a.join(stored(spark, path, "b"), F.col("ka") == F.col("gb"))
    assert exchanges(on_groups) >= 1
    assert rows(on_groups) == rows(plain(spark, path, "a").join(b, F.col("ka") == F.col("gb")))


def test_spark_counts_on_the_columns_after_they_were_renamed_or_computed(spark: SparkSession, path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    a = stored(spark, path, "a")
    assert exchanges(a.select(F.col("ka").alias("key")).groupBy("key").count()) == 0
    assert exchanges(a.select((F.col("ka") % 5).alias("key")).groupBy("key").count()) == 1
    assert exchanges(a.select("ga").groupBy("ga").count()) == 1


def test_tasks_do_not_get_the_boundaries_of_stored_rows(spark: SparkSession) -> None:
    """The plan is in every task, so thousands of tasks would read thousands of boundaries each."""
    from unshuffle.spark.shims.function_partitioning import claims_of_functions
    from unshuffle.spark.shims.gateway import jvm
    from unshuffle.spark.shims.range_number import number_code

    def size_in_task(count: int) -> int:
        function = RangeFunction((RangeKey(pa.int64()),), tuple((i,) for i in range(1, count)))
        code = number_code(spark, function)
        buffer = jvm(spark).java.io.ByteArrayOutputStream()
        stream = jvm(spark).java.io.ObjectOutputStream(buffer)
        stream.writeObject(claims_of_functions(spark).apply(code.text, code.expression, count))
        return int(buffer.size())

    assert size_in_task(5_000) == size_in_task(3) < 1_000
