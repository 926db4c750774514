"""Functions and aggregates of the user's in scripts: what they are called with, and beside what else they can stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from unshuffle import Session, UserError

pytestmark = pytest.mark.spark

MINE = '''
import random
import pyarrow.compute as pc
from unshuffle import Aggregator, function

CALLS = []

def twice(x: int) -> int | None:
    return None if x is None else 2 * x

@function("string", deterministic=True)
def shout(text, times=1):
    return None if text is None else text.upper() + "!" * times

@function("double", arrow=True, deterministic=True)
def half(x):
    return pc.divide(x.cast("float64"), 2.0)

@function("double")
def some(x):
    return random.random()

@function("int")
def wrong(x):
    return "text"

@function("int", arrow=True)
def short(x):
    return x.slice(1)

def failing(x) -> int:
    return 1 // 0

class Middle(Aggregator):
    """The upper median, or -1 over nothing: it depends on all values of a group, and on nothing else."""
    returns = "double"
    def aggregate(self, values):
        known = sorted(value for value in values.to_pylist() if value is not None)
        return float(known[len(known) // 2]) if known else -1.0

class Pairs(Aggregator):
    returns = "string"
    def initialize(self):
        return []
    def accumulate(self, state, a, b):
        return [*state, (a, b)]
    def evaluate(self, state):
        return str(sorted(state, key=repr))
'''

ROWS = [
    (1, 10, "x", 1.5),
    (1, 30, "ü", -0.0),
    (1, 20, None, 0.0),
    (2, None, "", float("nan")),
    (2, 5, "x", None),
    (None, 7, "z", 2.0),
    (None, 7, "z", 2.0),
]

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("functions")
    (made / "mine.py").write_text(MINE)
    names = ["a", "v", "s", "d"]
    types = [pa.int64(), pa.int64(), pa.string(), pa.float64()]
    columns = {
        name: pa.array([row[i] for row in ROWS], type) for i, (name, type) in enumerate(zip(names, types, strict=True))
    }
    pq.write_table(pa.table(columns), made / "t.parquet")
    return made


@pytest.fixture
def run(folder: Path, tmp_path: Path, spark: SparkSession) -> Run:
    """The rows of a query in a script: the same by unshuffle and by its translation for plain Spark."""

    def rows(query: str, before: str = "", to: str = "") -> list[tuple[Any, ...]]:
        script = folder / "script.scope"
        script.write_text(f'{before}\nr = {query};\nOUTPUT r TO {to or f""" "{tmp_path}/out" """} OVERWRITE;')
        session = Session(spark, tables=folder, effort="full")
        assert session.compare(script, runs=1).same_rows
        session.run(script)
        assert not session.fallbacks, session.fallbacks
        path = f"{tmp_path}/out"
        written = session.read_stream(path + ".ss") if to else spark.read.parquet(path)
        return sorted((tuple(row) for row in written.collect()), key=repr)

    return rows


# ---------------------------------------------------------------------------------------------------------- aggregates


def test_an_aggregate_of_the_users_alone(run: Run) -> None:
    assert run("SELECT a, mine.Middle(v) AS m FROM t GROUP BY a") == [(1, 20.0), (2, 5.0), (None, 7.0)]


def test_beside_other_aggregates(run: Run) -> None:
    query = "SELECT a, COUNT(*) AS n, mine.Middle(v) AS m, SUM(v) AS s, mine.Pairs(v, s) AS p FROM t GROUP BY a"
    pairs = "[(10, 'x'), (20, None), (30, 'ü')]", "[(5, 'x'), (None, '')]", "[(7, 'z'), (7, 'z')]"
    assert run(query) == [(1, 3, 20.0, 60, pairs[0]), (2, 2, 5.0, 5, pairs[1]), (None, 2, 7.0, 14, pairs[2])]


def test_with_distinct_and_filter(run: Run) -> None:
    query = "SELECT a, mine.Pairs(DISTINCT v, v) AS p, mine.Middle(v) FILTER (WHERE v > 10) AS m FROM t GROUP BY a"
    assert run(query) == [
        (1, "[(10, 10), (20, 20), (30, 30)]", 30.0),
        (2, "[(5, 5), (None, None)]", -1.0),
        (None, "[(7, 7)]", -1.0),
    ]


def test_without_groups_there_is_one_row(run: Run) -> None:
    assert run("SELECT mine.Middle(v) AS m FROM t") == [(10.0,)]
    assert run("SELECT mine.Middle(v) AS m, COUNT(*) AS n FROM t WHERE a > 99") == [(-1.0, 0)]
    assert run("SELECT mine.Middle(v) AS m FROM t WHERE a > 99") == [(-1.0,)]
    assert run("SELECT a, mine.Middle(v) AS m FROM t WHERE a > 99 GROUP BY a") == []


def test_with_grouping_sets_having_and_windows(run: Run) -> None:
    query = "SELECT a, mine.Middle(v) AS m, COUNT(*) AS n FROM t GROUP BY ROLLUP(a)"
    assert run(query) == [(1, 20.0, 3), (2, 5.0, 2), (None, 10.0, 7), (None, 7.0, 2)]
    assert run("SELECT a FROM t GROUP BY a HAVING mine.Middle(v) > 6 && COUNT(*) > 2") == [(1,)]
    found = run("SELECT v, mine.Middle(v) OVER (PARTITION BY a) AS m FROM t WHERE a < 2")
    assert found == [(10, 20.0), (20, 20.0), (30, 20.0)]


@pytest.mark.parametrize("order", ["", "SORTED BY a"])
@pytest.mark.parametrize("kind", ["HASH", "RANGE"])
@pytest.mark.parametrize("more", ["", ", COUNT(*) AS n"])
def test_over_a_stream_into_a_stream(
    run: Run, folder: Path, tmp_path: Path, spark: SparkSession, order: str, kind: str, more: str
) -> None:
    """The script of the 2012 paper's section 3."""
    source = f"{folder}/{kind}{order[:6]}.ss"
    if not Path(source).exists():
        (folder / "store.scope").write_text(f'OUTPUT t TO SSTREAM "{source}" {kind} CLUSTERED BY a {order} INTO 3;')
        Session(spark, tables=folder).run(folder / "store.scope")
    to = f'SSTREAM "{tmp_path}/out.ss" {kind} CLUSTERED BY a {order} INTO 2'
    found = run(f'SELECT a, mine.Middle(v) AS m{more} FROM SSTREAM "{source}" GROUP BY a', to=to)
    counts = [(3,), (2,), (2,)] if more else [()] * 3
    assert found == [(1, 20.0, *counts[0]), (2, 5.0, *counts[1]), (None, 7.0, *counts[2])]


def test_an_aggregate_that_is_registered(folder: Path, spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle import Aggregator

    class Largest(Aggregator):
        def aggregate(self, *columns: pa.Array) -> Any:
            return max((value for value in columns[0].to_pylist() if value is not None), default=None)

    session = Session(spark, tables=folder, effort="full")
    session.register_aggregator("largest", Largest, "bigint")
    script = folder / "registered.scope"
    script.write_text(f'OUTPUT (SELECT a, largest(v) AS l, COUNT(*) AS n FROM t GROUP BY a) TO "{tmp_path}/o.parquet";')
    session.run(script)
    found = sorted((tuple(row) for row in spark.read.parquet(f"{tmp_path}/o.parquet").collect()), key=repr)
    assert found == [(1, 30, 3), (2, 5, 2), (None, 7, 2)]


def test_branches_with_aggregates_that_only_spark_knows(folder: Path, spark: SparkSession) -> None:
    """One pass over both branches would call the aggregate with the rows of both."""
    from pyspark.sql.functions import PandasUDFType, count, pandas_udf

    def size(values):  # type: ignore[no-untyped-def]
        return float(len(values))

    table = spark.read.parquet(f"{folder}/t.parquet")
    of_group = pandas_udf(size, "double", PandasUDFType.GROUPED_AGG)  # type: ignore[call-overload]
    few = table.where("v > 10").groupBy("a").agg(of_group("d").alias("n"))
    for other in (
        table.where("v < 20").groupBy("a").agg(of_group("d").alias("n")),
        table.groupBy("a").agg(count("d").cast("double").alias("n")),
    ):
        union = few.unionAll(other)
        session = Session(spark, effort="full")
        found = session.optimize(union)
        assert sorted(map(tuple, found.collect()), key=repr) == sorted(map(tuple, union.collect()), key=repr)
        assert not session.fallbacks


# ----------------------------------------------------------------------------------------------------------- functions


def test_functions_of_the_users(run: Run) -> None:
    query = "SELECT v, mine.twice(v) AS t, mine.shout(s, 2) AS s, mine.half(v) AS h FROM t WHERE mine.twice(v) >= 20"
    assert run(query) == [(10, 20, "X!!", 5.0), (20, 40, None, 10.0), (30, 60, "Ü!!", 15.0)]


def test_functions_anywhere_in_a_query(run: Run) -> None:
    assert run("SELECT mine.shout(s) AS k, SUM(mine.twice(v)) AS n FROM t GROUP BY mine.shout(s)") == [
        ("!", None),
        ("X!", 30),
        ("Z!", 28),
        ("Ü!", 60),
        (None, 40),
    ]
    query = "SELECT x.v FROM t AS x JOIN t AS y ON mine.half(x.v) == mine.half(y.v) && x.a == y.a"
    assert run(query) == [(10,), (20,), (30,), (5,)]
    query = "SELECT x.v, y.v AS w FROM t AS x LEFT JOIN t AS y ON x.a == y.a && mine.half(x.v) < mine.half(y.v)"
    assert run(query) == [
        *[(10, 20), (10, 30), (20, 30), (30, None), (5, None), (7, None), (7, None)],
        (None, None),
    ]
    query = "SELECT v FROM t WHERE v IN (SELECT mine.twice(v) FROM t) ORDER BY mine.shout(s)"
    assert run(query) == [(10,), (20,)]


def test_functions_over_a_stream(run: Run, folder: Path, spark: SparkSession) -> None:
    """Spark forgets the layout of rows that pass Python code, and the plan says so: there are no fallbacks."""
    source = f"{folder}/functions.ss"
    (folder / "store.scope").write_text(f'OUTPUT t TO SSTREAM "{source}" HASH CLUSTERED BY a INTO 3;')
    Session(spark, tables=folder).run(folder / "store.scope")
    query = f'SELECT a, SUM(mine.twice(v)) AS s FROM SSTREAM "{source}" WHERE mine.half(v) < 14 GROUP BY a'
    assert run(query) == [(1, 60), (2, 10), (None, 28)]
    query = f'SELECT a, mine.half(s) AS h FROM (SELECT a, SUM(v) AS s FROM SSTREAM "{source}" GROUP BY a)'
    assert run(query) == [(1, 30.0), (2, 2.5), (None, 7.0)]


def test_a_function_that_is_not_deterministic_is_called_once(run: Run) -> None:
    query = "SELECT x - x AS zero, x < 1 && x >= 0 AS is_random FROM (SELECT mine.some(v) AS x FROM t)"
    assert run(query) == [(0.0, True)] * len(ROWS)
    assert run("SELECT COUNT(*) AS n FROM (SELECT mine.some(v) AS x FROM t GROUP BY mine.some(v))") == [(len(ROWS),)]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("mine.wrong(v)", "mine.wrong returned 'text', but it is declared to return int"),
        ("mine.short(v)", "mine.short returned"),
        (
            "mine.failing(v)",
            "mine.failing failed: ZeroDivisionError: integer division or modulo by zero (mine.py, line",
        ),
    ],
)
def test_messages_for_wrong_results(run: Run, expression: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        run(f"SELECT {expression} AS x FROM t")
    assert message in str(error.value)
    assert expression in str(error.value)
