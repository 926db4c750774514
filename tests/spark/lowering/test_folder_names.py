"""Tables in folders with unusual names, beside plain Spark: the same rows, or an error, and never other rows."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.plans import other_costs, session_of
from unshuffle import Session
from unshuffle.errors import UnshuffleError

pytestmark = pytest.mark.spark

NULL = "__HIVE_DEFAULT_PARTITION__"
TABLES = {
    "numbers_and_texts": ("p=1", "p=2", "p=x"),
    "numbers_and_fractions": ("p=1", "p=1.5", "p=2"),
    "numbers_and_days": ("p=1", "p=2026-01-01"),
    "small_and_large_numbers": ("p=1", "p=20000000000"),
    "leading_zeros": ("p=01", "p=1", "p=+1"),
    "days_that_are_none": ("p=2026-01-01", "p=2026-02-30"),
    "days_and_times": ("p=2026-01-01", "p=2026-01-02 10%3A00%3A00"),
    "words_of_numbers": ("p=NaN", "p=1", "p=Infinity"),
    "true_or_false": ("p=true", "p=false"),
    "numbers_and_null": ("p=1", "p=2", f"p={NULL}"),
    "days_and_null": ("p=2026-01-01", f"p={NULL}", "p=2026-01-02"),
    "texts_and_null": ("p=a", f"p={NULL}", "p=null"),
    "only_null": (f"p={NULL}",),
    "percent_encoded": ("p=a%2Fb", "p=50%25", "p=x%3Dy", "p=%20", "p=%C3%A9", "p=%zz"),
    "unicode": ("p=é", "p=e\u0301", "p=\U0001f600", "p=日本"),
    "brackets": ("p={a}", "p=[b]", "p=c d"),
    "two_columns": ("p=1/q=a", "p=1/q=b", "p=2/q=a", f"p={NULL}/q={NULL}"),
    "another_case": ("p=1", "P=2"),
}
BROKEN = {
    "no_column": ("p=1", "stray"),
    "another_column": ("p=1", "q=2"),
    "another_depth": ("p=1", "p=2/q=1"),
    "another_order": ("p=1/q=1", "q=2/p=2"),
    "no_value": ("p=1", "p="),
}
QUERIES = (
    "select p, count(*) as n, max(id) as m from {0} where p {1} or p is null group by p",
    "select x.id, y.id, x.p from {0} x join {0} y on x.p = y.p",
    "select x.id, y.id from {0} x left join {0} y on x.p <=> y.p and x.id < y.id where x.p {1}",
)
WANTED = {
    "string": "in ('a/b', 'é', '1', '01', '[b]', 'x', 'a', 'true', '2026-01-01', 'NaN')",
    "date": "= date'2026-01-01'",
    "boolean": "= true",
    "timestamp": "> timestamp'2026-01-01'",
}


def make(folder: Path, names: tuple[str, ...]) -> Path:
    for number, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        ids = pa.array(range(10 * number, 10 * number + 5), pa.int32())
        pq.write_table(pa.table({"id": ids}), folder / name / "0.parquet")
    return folder


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def outcome(frame: DataFrame) -> Counter[str] | str:
    """The rows, or the class of Spark's error."""
    try:
        return rows(frame)
    except PySparkException as error:
        return str(error.getCondition() or type(error).__name__)


@contextmanager
def view(spark: SparkSession, name: str, folder: Path) -> Iterator[None]:
    spark.read.parquet(str(folder)).createOrReplaceTempView(name)
    try:
        yield
    finally:
        spark.catalog.dropTempView(name)


def same_as_spark(spark: SparkSession, name: str) -> int:
    """How many queries had rows. Rows and errors are those of plain Spark, also at other costs."""
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        types = {column.lower(): type_ for column, type_ in spark.table(name).dtypes}
        wanted = WANTED.get(types["p"], "= 1")
        for query in (each.format(name, wanted) for each in QUERIES):
            expected = outcome(spark.sql(query))
            count += isinstance(expected, Counter) and bool(expected)
            with other_costs(count):
                assert outcome(session_of(spark).optimize(spark.sql(query))) == expected, query
    return count


@pytest.mark.parametrize(
    ("name", "inferred"),
    [
        *((name, "true") for name in TABLES),
        *((name, "false") for name in ("leading_zeros", "numbers_and_null", "days_and_null", "two_columns")),
    ],
)
def test_rows_are_those_of_plain_spark(spark: SparkSession, tmp_path: Path, name: str, inferred: str) -> None:
    setting = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(setting, inferred)
    try:
        with view(spark, "folders", make(tmp_path / name, TABLES[name])):
            assert same_as_spark(spark, "folders") >= (1 if name == "only_null" else 2)
    finally:
        spark.conf.unset(setting)


@pytest.mark.parametrize("name", TABLES)
def test_a_script_joins_the_rows_that_plain_spark_joins(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / name, TABLES[name])
    script = tmp_path / "s.scope"
    script.write_text(f"""
        t = EXTRACT id, p FROM "{folder}" USING Parquet();
        r = SELECT x.id, y.id AS other FROM t AS x JOIN t AS y ON x.p == y.p;
        OUTPUT r TO "{tmp_path}/out" USING Parquet();
    """)
    table = spark.read.parquet(str(folder))
    expected = table.alias("x").join(table.alias("y"), "p").selectExpr("x.id", "y.id as other")
    Session(spark, effort="full").run(script)
    assert rows(spark.read.parquet(f"{tmp_path}/out")) == rows(expected)


@pytest.mark.parametrize("name", BROKEN)
def test_folders_that_spark_refuses_are_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / name, BROKEN[name])
    with pytest.raises(PySparkException) as refused:
        spark.read.parquet(str(folder)).collect()
    assert refused.value.getCondition() is not None
    script = tmp_path / "s.scope"
    script.write_text(f't = EXTRACT id FROM "{folder}" USING Parquet(); OUTPUT t TO "{tmp_path}/out" USING Parquet();')
    with pytest.raises(UnshuffleError):
        Session(spark, effort="full").run(script)
    assert not (tmp_path / "out").exists()


def test_empty_folders_have_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    folder = make(tmp_path / "t", ("p=1", "p=2"))
    (folder / "p=3").mkdir()
    (folder / "p=4").mkdir()
    pq.write_table(pa.table({"id": pa.array([], pa.int32())}), folder / "p=4" / "0.parquet")
    with view(spark, "folders", folder):
        assert same_as_spark(spark, "folders") >= 2
    for name in ("p=1", "p=2"):
        (folder / name / "0.parquet").unlink()
    with view(spark, "folders", folder):
        assert same_as_spark(spark, "folders") == 0


@pytest.mark.parametrize("gone", ["p=2", "p=1/0.parquet"])
def test_a_part_that_vanishes_after_planning_is_an_error(spark: SparkSession, tmp_path: Path, gone: str) -> None:
    folder = make(tmp_path / "t", ("p=1", "p=2", "p=3"))
    with view(spark, "folders", folder):
        planned = [session_of(spark).optimize(spark.sql(each.format("folders", "< 3"))) for each in QUERIES]
        pruned = session_of(spark).optimize(spark.sql("select id from folders where p = 3"))
        if (folder / gone).is_dir():
            shutil.rmtree(folder / gone)
        else:
            (folder / gone).unlink()
        for frame in planned:
            with pytest.raises((PySparkException, Py4JJavaError), match="FILE_NOT_EXIST"):
                frame.collect()
        assert len(pruned.collect()) == 5  # it was not to be read
