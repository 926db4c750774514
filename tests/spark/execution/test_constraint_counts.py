"""Constraints on rows that only Spark can read: other formats, a user's extractor, tables and views of a session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle import cli
from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.catalog.constraints.counterexamples import find_counterexamples
from unshuffle.declarations import DeclaredConstraint
from unshuffle.errors import DeclarationProblem, Source
from unshuffle.plan.logical import Scan, TableScan
from unshuffle.plan.logical import walk as operators
from unshuffle.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> Session:
    return Session(spark, effort="full")


def _bound(session: Session, script: str, name: str = "q.scope") -> Any:
    return session.pipeline.bind_source(Source(name, script), None, is_script=True)


def _jobs(spark: SparkSession) -> int:
    # From the scheduler, because the status store keeps only the last thousand jobs.
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # type: ignore[union-attr]


def test_csv_and_json_are_counted_by_spark(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,Oslo,N\n2,Oslo,N\n2,Ålesund,\n3,Ålesund,N\n")
    (tmp_path / "a.json").write_text('{"id": 1, "x": 0.0}\n{"id": 1, "x": -0.0}\n{"x": 1}\n{"x": 2}\n')
    csv = f'r = EXTRACT id:long, city:string, region:string FROM "{tmp_path}/a.csv" USING Csv() %s; OUTPUT r TO "o";'
    json = f'r = EXTRACT id:long, x:double FROM "{tmp_path}/a.json" USING Json() %s; OUTPUT r TO "o";'
    with pytest.raises(
        DeclarationProblem, match=r"q.scope:1:.*KEY \(id\) of 'r' does not hold in '.*a.csv': id = 2 in 2 rows"
    ):
        _bound(session, csv % "KEY (id)")
    with pytest.raises(DeclarationProblem, match="city = 'Ålesund' with region = NULL and region = 'N'"):
        _bound(session, csv % "DEPENDS (city -> region)")
    with pytest.raises(DeclarationProblem, match=r"id = NULL in 2 rows; id = 1 in 2 rows"):
        _bound(session, json % "KEY (id)")
    with pytest.raises(DeclarationProblem, match=r"id = NULL with x = 1.0 and x = 2.0\n"):
        _bound(session, json % "DEPENDS (id -> x)")
    _bound(session, json % "DEPENDS (x -> id)")
    text = csv % "KEY (id, city)"
    (scan,) = list(operators(_bound(session, text).outputs[0].plan))
    assert [{column.name for column in key} for key in scan.keys] == [{"id", "city"}]
    jobs = _jobs(spark)
    _bound(session, text)
    _bound(Session(spark, effort="full"), text)
    assert _jobs(spark) == jobs  # the stored result is used
    _bound(session, text.replace("id:long", "id:string"))
    assert _jobs(spark) > jobs  # other values need another job


def test_a_users_extractor_is_checked(session: Session, tmp_path: Path) -> None:
    (tmp_path / "declared_pairs.py").write_text(
        "from unshuffle import Extractor\n\n\nclass Pairs(Extractor):\n    def extract_rows(self, file, path):\n"
        "        for line in file:\n            a, b = line.decode().split()\n            yield {'a': int(a), 'b': b}\n"
    )
    (tmp_path / "x.txt").write_text("1 x\n2 y\n2 y\n")
    script = f'r = EXTRACT a:long, b:string FROM "{tmp_path}/x.txt" USING declared_pairs.Pairs() %s; OUTPUT r TO "o";'
    _bound(session, script % "DEPENDS (a -> b)", str(tmp_path / "q.scope"))
    with pytest.raises(DeclarationProblem, match="a = 2, b = 'y' in 2 rows"):
        _bound(session, script % "KEY (a, b)", str(tmp_path / "q.scope"))
    assert not list(tmp_path.glob("_*.checks.json"))  # its code may change


def test_a_cast_column_is_checked_on_its_cast_values(session: Session, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.2, 1.4, 2.0]}), tmp_path / "t.parquet")
    script = f'r = EXTRACT x:%s FROM "{tmp_path}/t.parquet" USING Parquet() KEY (x); OUTPUT r TO "o";'
    _bound(session, script % "double")
    with pytest.raises(DeclarationProblem, match="x = 1 in 2 rows"):
        _bound(session, script % "int")


def test_nested_values_are_counted_by_spark(session: Session, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[1], [1], None], "y": [1, 1, 2]}), tmp_path / "t.parquet")
    session.declare_dependency(tmp_path / "t.parquet", "x", "y")
    with pytest.raises(DeclarationProblem, match=r"x = \[1\] in 2 rows"):
        session.declare_key(tmp_path / "t.parquet", "x")


def test_spark_and_arrow_agree(session: Session, tmp_path: Path) -> None:
    nan = float("nan")
    table = pa.table(
        {
            "f": [0.0, -0.0, nan, nan, None, None, 1.0],
            "g": [nan, nan, -0.0, 0.0, None, None, None],
            "s": ["a", "A", "é", "e\u0301", None, "", "a"],
            "n": [1, 2, 3, 4, 5, 6, 7],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    rowset = (
        _bound(session, f'r = EXTRACT f, g, s, n FROM "{tmp_path}/t.parquet" USING Parquet(); OUTPUT r TO "o";')
        .outputs[0]
        .plan
    )
    names = ("f", "g", "s", "n")
    constraints = [DeclaredKey((a, b)) for a in names for b in names] + [
        DeclaredDependency((a,), (b,)) for a in names for b in names
    ]
    for constraint in constraints:
        here = find_counterexamples(constraint, table.to_batches, 7)
        there = session.pipeline.constraint_counter().counterexamples(DeclaredConstraint("t", rowset, constraint))
        assert (here is None) == (there is None), constraint


def test_tables_and_views_of_whole_files(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3], "g": ["a", "a", "b"]}), tmp_path / "t.parquet")
    spark.read.parquet(str(tmp_path / "t.parquet")).createOrReplaceTempView("declared_files")
    spark.range(3).createOrReplaceTempView("declared_range")
    spark.sql("select * from declared_files where id < 3").createOrReplaceTempView("declared_some")
    try:
        session.declare_key("Declared_Files", "ID")
        with pytest.raises(DeclarationProblem, match="g = 'a' in 2 rows"):
            session.declare_key("declared_files", "g")
        for other in ("declared_range", "declared_some"):
            with pytest.raises(DeclarationProblem, match="does not read whole files"):
                session.declare_key(other, "id")
        session.declare_key("declared_range", "id", check="trust")

        def keys(table: str) -> list[set[str]]:
            script = session.pipeline.bind_source(Source("<query>", f"select * from {table}"), None, is_script=False)
            (scan,) = [node for node in operators(script.outputs[0].plan) if isinstance(node, Scan | TableScan)]
            return [{column.name for column in key} for key in scan.keys]

        assert keys("declared_range") == [{"id"}]
        jobs = _jobs(spark)
        assert keys("declared_files") == [{"id"}]
        assert _jobs(spark) == jobs
        assert "keys (id)" in session.explain("select * from declared_files", logical=True)
        shown = session.explain(
            "select f.id, g, count(*) from declared_files f, declared_range group by f.id, g", why=True
        )
        assert "Declared: KEY (id) of Declared_Files, checked on the data." in shown
        assert "Declared: KEY (id) of declared_range, trusted, not checked." in shown
        pq.write_table(pa.table({"id": [1, 2, 2, 3], "g": ["a", "a", "b", "b"]}), tmp_path / "t.parquet")
        spark.read.parquet(str(tmp_path / "t.parquet")).createOrReplaceTempView("declared_files")
        with pytest.raises(
            DeclarationProblem, match=r"KEY \(id\) of 'Declared_Files' does not hold in .*: id = 2 in 2 rows"
        ):
            keys("declared_files")
    finally:
        for view in ("declared_files", "declared_range", "declared_some"):
            spark.catalog.dropTempView(view)


def test_run_writes_nothing_when_a_declaration_is_false(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("1\n1\n")
    file = tmp_path / "q.scope"
    text = f'r = EXTRACT a:long FROM "{tmp_path}/a.csv" USING Csv() KEY (a);\nOUTPUT r TO "{tmp_path}/out.csv";\n'
    file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["unshuffle", "run", str(file)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "KEY (a) of 'r' does not hold" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
    (tmp_path / "a.csv").write_text("1\n2\n")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    assert (tmp_path / "out.csv").exists()


def test_plans_that_rely_on_declarations_give_the_same_rows(session: Session, tmp_path: Path) -> None:
    rows = 2000
    cities = [f"city {i % 40}" if i % 40 else None for i in range(rows)]
    regions = [None if city is None else f"region {int(city.split()[1]) % 5}" for city in cities]
    pq.write_table(pa.table({"id": range(rows), "city": cities, "region": regions}), tmp_path / "users.parquet")
    pq.write_table(
        pa.table({"user": [i * 7 % rows for i in range(3 * rows)], "n": range(3 * rows)}), tmp_path / "visits.parquet"
    )
    file = tmp_path / "q.scope"
    file.write_text(
        f"""
        users = EXTRACT id, city, region FROM "{tmp_path}/users.parquet" USING Parquet() KEY (id) DEPENDS (city -> region);
        visits = EXTRACT user, n FROM "{tmp_path}/visits.parquet" USING Parquet();
        by_user = SELECT id, city, region, sum(n) AS n FROM users JOIN visits ON id == user GROUP BY id, city, region;
        by_city = SELECT city, region, sum(n) AS n, count(*) AS users FROM by_user GROUP BY city, region;
        OUTPUT by_user TO "{tmp_path}/out/users";
        OUTPUT by_city TO "{tmp_path}/out/cities";
        """
    )
    compared = session.compare(file, runs=1)
    assert compared.same_rows
    assert not session.fallbacks


def test_a_declaration_on_a_view_applies_to_dataframes(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    """A declaration applies under any name, in SQL and in DataFrames: to the files, or else to the view."""
    pq.write_table(pa.table({"id": [1, 2, 3], "g": ["a", "a", "b"]}), tmp_path / "t.parquet")
    spark.read.parquet(str(tmp_path / "t.parquet")).createOrReplaceTempView("declared_files")
    spark.sql("create or replace temp view declared_names as select id as number, g from declared_files")
    spark.sql("drop table if exists declared_table")
    spark.table("declared_files").write.saveAsTable("declared_table")
    try:
        session.declare_key("declared_files", "id")
        session.declare_key("default.declared_table", "id")
        session.declare_key("declared_names", "number")
        for table, key in (
            ("declared_files", "id"),
            ("declared_table", "id"),
            ("spark_catalog.default.declared_table", "id"),
            ("declared_names", "number"),
        ):
            query = f"select {key}, max(g) as m from {table} group by {key}"
            for what in (query, spark.sql(query)):
                optimized = session.optimize(what) if not isinstance(what, str) else session.sql(what)
                assert "Exchange" not in optimized._jdf.queryExecution().executedPlan().toString(), (table, what)
                assert sorted(map(tuple, optimized.collect())) == [(1, "a"), (2, "a"), (3, "b")]
    finally:
        spark.sql("drop table if exists declared_table")
        for view in ("declared_files", "declared_names"):
            spark.catalog.dropTempView(view)


def test_a_declaration_does_not_apply_to_a_replaced_view(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame made from the old view reads the old rows, for which nothing was declared."""
    pq.write_table(pa.table({"id": [1, 1], "g": ["a", "b"]}), tmp_path / "old.parquet")
    pq.write_table(pa.table({"id": [1, 2], "g": ["a", "b"]}), tmp_path / "new.parquet")
    for name in ("old", "new"):
        spark.sql(
            f"create or replace temp view declared_again as select id as number, g from parquet.`{tmp_path}/{name}.parquet`"
        )
        if name == "old":
            frame = spark.sql("select number, count(*) as n from declared_again group by number")
    try:
        session.declare_key("declared_again", "number")
        with pytest.raises(DeclarationProblem, match="number = 1 in 2 rows"):
            session.optimize(frame)
    finally:
        spark.catalog.dropTempView("declared_again")


def test_tables_of_other_catalogs_are_known_by_name(session: Session, spark: SparkSession, tmp_path: Path) -> None:
    """They are not files, so a declaration can only be trusted. The database is Derby, which Spark includes."""
    url = f"jdbc:derby:{tmp_path}/db;create=true"
    driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    spark.conf.set(
        "spark.sql.catalog.declared_db", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    )
    spark.conf.set("spark.sql.catalog.declared_db.url", url)
    spark.conf.set("spark.sql.catalog.declared_db.driver", driver)
    spark.createDataFrame([(1, 5), (2, 6)], "id int, n int").write.jdbc(url, "T", properties={"driver": driver})
    with pytest.raises(DeclarationProblem, match="does not read whole files"):
        session.declare_key("declared_db.APP.T", "id")
    session.declare_key("declared_db.APP.T", "id", check="trust")
    query = "select id, max(n) as m from declared_db.APP.T group by id"
    for optimized in (session.sql(query), session.optimize(spark.sql(query))):
        assert "Exchange" not in optimized._jdf.queryExecution().executedPlan().toString()
        assert sorted(map(tuple, optimized.collect())) == [(1, 5), (2, 6)]


def test_a_view_of_a_stream_is_left_to_spark(session: Session, spark: SparkSession) -> None:
    """Its rows never end. Nothing is known about it, and no error is raised."""
    spark.readStream.format("rate").load().createOrReplaceTempView("declared_stream")
    try:
        assert session.sql("select value + 1 as next from declared_stream").isStreaming
        with pytest.raises(DeclarationProblem, match="does not read whole files"):
            session.declare_key("declared_stream", "value")
    finally:
        spark.catalog.dropTempView("declared_stream")
