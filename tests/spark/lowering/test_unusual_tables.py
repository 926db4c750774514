"""Tables whose files lie as nobody would put them, beside plain Spark: the same rows, by whatever plan, or Spark's error."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.plans import other_costs, session_of
from unshuffle import Session
from unshuffle.errors import UnshuffleError

pytestmark = pytest.mark.spark

QUERIES = (
    "select id, count(*) as n from t group by id",
    "select x.id, y.v from t x join t y on x.id = y.id where x.id between 2 and 40",
)
OF_FOLDERS = (
    "select p, count(*) as n, max(id) as m from t group by p",
    "select x.id, y.v, x.p from t x join t y on x.p = y.p and x.id = y.id where x.p >= 2",
)


def write(file: Path, first: int, **more: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = {"id": list(range(first, first + 5)), "v": [first] * 5}
    pq.write_table(pa.table(columns | {name: [value] * 5 for name, value in more.items()}), file)


def folders(t: Path) -> None:
    for p in (1, 2, 3):
        write(t / f"p={p}" / "a.parquet", 10 * p)


def a_column_in_folders_and_in_files(t: Path) -> None:
    """What folders say counts."""
    for p in (1, 2, 3):
        write(t / f"p={p}" / "a.parquet", 10 * p, p=7)


def links(t: Path) -> None:
    folders(t)
    write(t.parent / "elsewhere" / "a.parquet", 40)
    (t / "p=4").symlink_to(t.parent / "elsewhere")
    (t / "p=1" / "b.parquet").symlink_to(t.parent / "elsewhere" / "a.parquet")


def hidden_files(t: Path) -> None:
    folders(t)
    for name in ("_b.parquet", ".b.parquet", "b.parquet._COPYING_"):
        write(t / "p=1" / name, 50)
    for name in ("_temporary", ".hidden", ".p=5"):
        write(t / name / "a.parquet", 60)


def a_hidden_column(t: Path) -> None:
    folders(t)
    for p in (1, 2, 3):
        (t / f"p={p}" / "_q=1").mkdir()
        (t / f"p={p}" / "a.parquet").rename(t / f"p={p}" / "_q=1" / "a.parquet")


def empty_files(t: Path) -> None:
    folders(t)
    (t / "p=2" / "_SUCCESS").touch()
    (t / "p=2" / "empty.parquet").touch()


def no_rows(t: Path) -> None:
    folders(t)
    pq.write_table(pa.table({"id": pa.array([], pa.int64()), "v": pa.array([], pa.int64())}), t / "p=2" / "b.parquet")


def folders_without_columns(t: Path) -> None:
    """Spark reads the files of the folder itself, and not those in folders inside."""
    write(t / "a.parquet", 0)
    write(t / "inside" / "b.parquet", 20)
    write(t / "inside" / "deeper" / "c.parquet", 30)


def folders_inside_of_folders(t: Path) -> None:
    folders(t)
    write(t / "p=2" / "inside" / "b.parquet", 70)


def columns_in_other_orders(t: Path) -> None:
    for p, names in ((1, ("id", "v")), (2, ("v", "id"))):
        (t / f"p={p}").mkdir(parents=True)
        pq.write_table(pa.table({name: [p, p + 1] for name in names}), t / f"p={p}" / "a.parquet")


def a_column_that_some_files_lack(t: Path) -> None:
    folders(t)
    pq.write_table(pa.table({"id": [98, 99]}), t / "p=3" / "b.parquet")


def many_files(t: Path) -> None:
    write(t / "p=0" / "a.parquet", 0)
    for p in range(1, 300):
        (t / f"p={p}").mkdir()
        os.link(t / "p=0" / "a.parquet", t / f"p={p}" / "a.parquet")


TABLES: tuple[Callable[[Path], None], ...] = (
    a_column_in_folders_and_in_files,
    links,
    hidden_files,
    a_hidden_column,
    empty_files,
    no_rows,
    folders_without_columns,
    folders_inside_of_folders,
    columns_in_other_orders,
    a_column_that_some_files_lack,
    many_files,
)


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


@pytest.mark.parametrize("make", TABLES, ids=lambda make: str(make.__name__))
def test_rows_are_those_of_plain_spark(spark: SparkSession, tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "t")
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("t")
    try:
        queries = (*QUERIES, *(OF_FOLDERS if "p" in spark.table("t").columns else ()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for seed, query in enumerate(queries):
                expected = rows(spark.sql(query))
                assert rows(session_of(spark).optimize(spark.sql(query))) == expected, query
                with other_costs(seed):
                    assert rows(session_of(spark).optimize(spark.sql(query))) == expected, query
    finally:
        spark.catalog.dropTempView("t")


@pytest.mark.parametrize("make", TABLES, ids=lambda make: str(make.__name__))
def test_a_script_reads_what_plain_spark_reads(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "t")
    (tmp_path / "s.scope").write_text(f"""
        t = EXTRACT id:long, v:long FROM "{tmp_path}/t" USING Parquet();
        r = SELECT x.id, y.v FROM t AS x JOIN t AS y ON x.id == y.id AND x.v == y.v;
        OUTPUT r TO "{tmp_path}/out" USING Parquet() OVERWRITE;
    """)
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("t")
    expected = rows(spark.sql("select x.id, y.v from t x join t y on x.id = y.id and x.v = y.v"))
    for seed in range(3):
        with other_costs(seed):
            Session(spark, effort="full").run(tmp_path / "s.scope")
            assert rows(spark.read.parquet(f"{tmp_path}/out")) == expected


def test_a_table_of_empty_files_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.parquet").touch()
    (tmp_path / "s.scope").write_text(
        f'OUTPUT (EXTRACT id:long FROM "{tmp_path}/t" USING Parquet()) TO "{tmp_path}/out" USING Parquet();'
    )
    with pytest.raises(PySparkException):
        spark.read.parquet(str(tmp_path / "t"))
    with pytest.raises(UnshuffleError):
        Session(spark, effort="full").run(tmp_path / "s.scope")
