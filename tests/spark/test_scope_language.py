"""What SCOPE has and SQL has not, as it runs: the values of members, COMBINE of several rowsets, views, operators in FROM."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from unshuffle import Session

pytestmark = pytest.mark.spark

MINE = '''
from dataclasses import dataclass
from unshuffle import Aggregator, Combiner, Processor, Reducer, UserType

@dataclass
class Point(UserType):
    stored = "struct<x: double, y: bigint>"
    x: float
    y: int

    def moved(self):
        return Point(self.x + 0.5, self.y + 1)

class Points(Processor):
    def process_row(self, row):
        yield {"k": row["k"], "p": None if row["v"] is None else Point(float(len(row["v"])), row["k"] or 0)}

class Moved(Processor):
    def process_row(self, row):
        yield {"k": row["k"], "p": row["p"] and row["p"].moved()}

class Farthest(Reducer):
    def reduce_rows(self, key, rows):
        points = [row["p"] for row in rows if row["p"] is not None]
        yield {**key, "n": len(points), "p": max(points, key=lambda point: (point.x, point.y)) if points else None}

class Names(Combiner):
    def combine_rows(self, key, left, right):
        yield {"names": str([key["p"] and key["p"].moved().y, len(left), [row["p"] and row["p"].x for row in right]])}

def height(point) -> int | None:
    return point and point.y

class Total(Aggregator):
    returns = "double"
    def initialize(self):
        return 0.0
    def accumulate(self, state, point):
        return state + (point.x if point else 0.0)

class Sides(Combiner):
    """The values of each side, in the order in which they come."""
    def combine_rows(self, key, *inputs):
        yield {"k": key["k"], "sides": str([[row["v"] for row in rows] for rows in inputs])}

class ArrowSides(Combiner):
    def combine(self, *inputs):
        import pyarrow as pa
        key = next(each.column(0)[0].as_py() for each in inputs if each.num_rows)
        return pa.table({"k": pa.array([key], pa.int64()), "sides": [str([each["v"].to_pylist() for each in inputs])]})

class Twice(Processor):
    def process_row(self, row):
        yield row
        yield row
'''

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scope")
    (made / "mine.py").write_text(MINE)

    def store(name: str, **columns: Any) -> None:
        pq.write_table(pa.table(columns), made / f"{name}.parquet")

    long = pa.int64()
    store("x", k=pa.array([1, 1, 2, None, 1], long), v=["b", None, "c", "n", "a"])
    store("y", k=pa.array([1, None, 3, None], long), v=["e", "o", "f", "m"])
    store("z", k=pa.array([4, 1, 1, None], long), v=["g", "i", "h", None])
    store("nothing", k=pa.array([], long), v=pa.array([], pa.string()))
    times = [
        datetime.datetime(2024, 2, 29, 23, 59, 58, 250_001),
        datetime.datetime(1969, 12, 31, 12, 30, 0, 1_000),
        None,
    ]
    later = [times[0] + datetime.timedelta(days=400, milliseconds=7), datetime.datetime(1960, 1, 1), None]  # type: ignore[operator]
    store(
        "t",
        i=pa.array([1, 2, 3], pa.int32()),
        at=pa.array(times, pa.timestamp("us")),
        end=pa.array(later, pa.timestamp("us")),
        utc=pa.array(times, pa.timestamp("us", "UTC")),
        d=pa.array([each and each.date() for each in times], pa.date32()),
        s=["  Größe\t", "", None],
        n=pa.array([None, 7, None], pa.int32()),
    )
    return made


@pytest.fixture
def run(folder: Path, tmp_path: Path, spark: SparkSession) -> Run:
    def rows(query: str, before: str = "") -> list[tuple[Any, ...]]:
        script = folder / "script.scope"
        script.write_text(f'{before}\nr = {query};\nOUTPUT r TO "{tmp_path}/out" OVERWRITE;')
        session = Session(spark, tables=folder, effort="full")
        assert session.compare(script, runs=1).same_rows
        session.run(script)
        assert not session.fallbacks, session.fallbacks
        return sorted((tuple(row) for row in spark.read.parquet(f"{tmp_path}/out").collect()), key=repr)

    return rows


def test_conditional_values(run: Run) -> None:
    query = (
        "SELECT i, n ?? 0 AS a, n ?? i * 10 AS b, n > 5 ? 'big' : 'small' AS c, n.HasValue ? n.Value : -1 AS d FROM t"
    )
    assert run(query) == [(1, 0, 10, "small", -1), (2, 7, 7, "big", 7), (3, 0, 30, "small", -1)]


def test_members_of_strings(run: Run) -> None:
    query = """SELECT i, s.Length AS a, s.Trim() AS b, s.TrimStart() AS c, s.TrimEnd() AS d, s.ToUpper().Trim().ToLower() AS e,
        s.Substring(2, 3) AS f, s.Substring(4) AS g, s.IndexOf("ö") AS h, s.Contains("öß") AS j, s.Replace("G", "g") AS k,
        string.IsNullOrEmpty(s) AS l, string.IsNullOrWhiteSpace(s.Substring(7)) AS m FROM t"""
    assert run(query) == [
        (1, 8, "Größe", "Größe\t", "  Größe", "grösse", "Grö", "öße\t", 4, True, "  größe\t", False, True),
        (2, 0, "", "", "", "", "", "", -1, False, "", True, True),
        (3, *([None] * 10), True, True),
    ]


def test_members_of_times(run: Run) -> None:
    query = """SELECT i, at.Year AS a, at.Month AS b, at.Day AS c, at.Hour AS d, at.Minute AS e, at.Second AS f,
        at.Millisecond AS g, at.DayOfYear AS h, at.DayOfWeek AS j, at.Date AS k, d.Year AS l, d.DayOfWeek AS m FROM t"""
    assert run(query) == [
        (1, 2024, 2, 29, 23, 59, 58, 250, 60, 4, datetime.date(2024, 2, 29), 2024, 4),
        (2, 1969, 12, 31, 12, 30, 0, 1, 365, 3, datetime.date(1969, 12, 31), 1969, 3),
        (3, *([None] * 12)),
    ]
    query = """SELECT at.AddDays(1).AddHours(-1).AddMilliseconds(5) AS a, at.AddYears(1) AS b, at.AddMonths(i) AS c,
        d.AddDays(i) AS d, d.AddMonths(12) AS e, utc.AddSeconds(2).Second AS f FROM t WHERE i == 1"""
    day = datetime.datetime(2024, 2, 29, 23, 59, 58, 250_001)
    assert run(query) == [
        (
            day + datetime.timedelta(days=1, hours=-1, milliseconds=5),
            datetime.datetime(2025, 2, 28, 23, 59, 58, 250_001),
            datetime.datetime(2024, 3, 29, 23, 59, 58, 250_001),
            datetime.date(2024, 3, 1),
            datetime.date(2025, 2, 28),
            0,
        )
    ]


def test_the_length_of_an_interval(run: Run) -> None:
    """Exact, of either sign, and for the difference of dates too."""
    query = """SELECT (end - at).TotalMilliseconds AS a, (end - at).TotalSeconds AS b, (end - at).TotalDays AS c,
        (end - at).Days AS d, (end - at).Hours AS e, (end - at).Milliseconds AS f, (d - DATE '2024-01-01').TotalHours AS g,
        (utc - utc).TotalMinutes AS h FROM t"""
    back = (datetime.datetime(1960, 1, 1) - datetime.datetime(1969, 12, 31, 12, 30, 0, 1_000)).total_seconds()
    first = datetime.timedelta(days=400, milliseconds=7).total_seconds()
    assert run(query) == [
        (
            back * 1000,
            back,
            back / 86400,
            -3652,
            -12,
            -1,
            (datetime.date(1969, 12, 31) - datetime.date(2024, 1, 1)).days * 24.0,
            0.0,
        ),
        (first * 1000, first, first / 86400, 400, 0, 7, 59 * 24.0, 0.0),
        (*([None] * 8),),
    ]


@pytest.mark.parametrize("name", ["Sides", "ArrowSides"])
def test_combine_of_three_rowsets(run: Run, name: str) -> None:
    query = f"""COMBINE x WITH y WITH z ON x.k == y.k && y.k == z.k PRESORT x.v DESC, z.v
        PRODUCE k:long, sides:string READONLY k USING mine.{name}()"""
    found = dict(run(query))
    assert found[1] == "[['b', 'a', None], ['e'], ['h', 'i']]"
    assert found[2] == "[['c'], [], []]"
    assert found[4] == "[[], [], ['g']]"
    assert found[None] in ("[['n'], ['o', 'm'], [None]]", "[['n'], ['m', 'o'], [None]]")
    assert len(found) == 5
    counted = run("SELECT k, COUNT(*) AS n FROM r0 GROUP BY k", f"r0 = {query};")
    assert counted == [(1, 1), (2, 1), (3, 1), (4, 1), (None, 1)]


def test_combine_with_presort_and_an_empty_rowset(run: Run) -> None:
    query = """COMBINE x WITH nothing ON x.k == nothing.k PRESORT x.v DESC PRODUCE k:long, sides:string USING mine.Sides()"""
    assert run(query) == [(1, "[['b', 'a', None], []]"), (2, "[['c'], []]"), (None, "[['n'], []]")]


def test_operators_in_from_and_views(run: Run) -> None:
    before = """VIEW of(least long, suffix string = "!") AS
        SELECT k, v || @suffix AS v FROM (PROCESS x PRODUCE k, v USING mine.Twice()) WHERE k >= @least;"""
    query = """SELECT k, COUNT(*) AS n, max(v) AS m FROM (PROCESS of(1) PRODUCE k, v READONLY k USING mine.Twice()) GROUP BY k
        UNION ALL SELECT k, 0, v FROM of(suffix = "?", least = 2) AS q"""
    assert run(query, before) == [(1, 12, "b!"), (2, 0, "c?"), (2, 0, "c?"), (2, 4, "c!")]


def test_types_of_the_users_pass_through_operators(run: Run, folder: Path, tmp_path: Path) -> None:
    points = "points = PROCESS x PRODUCE k, p:mine.Point USING mine.Points();"
    moved = "SELECT k, p.x AS x, mine.height(p) AS y FROM (PROCESS points PRODUCE k, p:mine.Point USING mine.Moved())"
    expected = [(1, 1.5, 2), (1, 1.5, 2), (1, None, None), (2, 1.5, 3), (None, 1.5, 1)]
    assert run(moved, points) == sorted(expected, key=repr)
    joined = """SELECT q.k, q.p, COUNT(*) AS n, mine.Total(q.p) AS t FROM points AS q JOIN points AS r ON q.p == r.p
        GROUP BY q.k, q.p"""
    assert run(joined, points) == [
        (1, Row(x=1.0, y=1), 4, 4.0),
        (2, Row(x=1.0, y=2), 1, 1.0),
        (None, Row(x=1.0, y=0), 1, 1.0),
    ]
    reduced = "REDUCE points ON k PRODUCE k, n:long, p:mine.Point USING mine.Farthest()"
    found = run(f"SELECT k, n, mine.height(p) AS h FROM ({reduced})", points)
    assert found == [(1, 2, 1), (2, 1, 2), (None, 1, 0)]
    combined = "COMBINE points WITH (SELECT p AS p FROM points) AS o ON points.p == o.p PRODUCE names:string USING mine.Names()"
    found = run(combined, points)
    assert found == [("[1, 1, [1.0]]",), ("[2, 2, [1.0, 1.0]]",), ("[3, 1, [1.0]]",), ("[None, 1, [None]]",)]


def test_types_of_the_users_are_stored(run: Run, folder: Path, tmp_path: Path, spark: SparkSession) -> None:
    script = folder / "store.scope"
    script.write_text(
        f'points = PROCESS x PRODUCE k, p:mine.Point USING mine.Points();OUTPUT points TO "{tmp_path}/points.parquet";'
    )
    Session(spark, tables=folder).run(script)
    read = f'e = EXTRACT k, p:mine.Point FROM "{tmp_path}/points.parquet";'
    assert run("SELECT mine.height(p) AS h FROM e WHERE k == 2", read) == [(2,)]
