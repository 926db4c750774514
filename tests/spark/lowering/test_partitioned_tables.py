"""Tables in folders and buckets, read in place: the rows of plain Spark, by whatever plan."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.plans import other_costs, pipeline_of, session_of
from unshuffle import Session
from unshuffle.plan import physical
from unshuffle.plan.stored_reads import stored_reads
from unshuffle.properties import Partitioned, PrefixPartitioned
from unshuffle.spark.execution import executed_plan_diff

pytestmark = pytest.mark.spark

SEEDS = 3
# By day, with a NULL day; by a number and a text, with names that are escaped; catalog tables in folders and buckets.
WRITES = {
    "daily": (
        "id, k, s, day",
        "if(id % 11 = 0, null, date_add(date'2026-01-30', cast(id % 5 as int))) as day",
        ("day",),
    ),
    "other_days": ("id, k, s, day", "date_add(date'2026-02-01', cast(id % 6 as int)) as day", ("day",)),
    "nested": ("id, day, k, s", "date'2026-02-01' as day", ("k", "s")),
    "one_folder": ("id, k, s, day", "date'2026-02-01' as day", ("day",)),
}
ROWS = """select cast(id as int) as id, cast(id % 4 as int) as k,
    element_at(array('a/b', 'é', 'x=y', ' 50%', 'plain', null), cast(id % 6 as int) + 1) as s from range(60)"""


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("partitioned")
    for name, (columns, day, by) in WRITES.items():
        rows = spark.sql(f"select {columns} from (select *, {day} from ({ROWS}))")
        rows.repartition(2).write.partitionBy(*by).parquet(str(folder / name))
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    made = spark.table("daily")
    made.write.mode("overwrite").partitionBy("day").saveAsTable("daily_table")
    for buckets in (4, 6):
        made.write.mode("overwrite").bucketBy(buckets, "k").saveAsTable(f"in_{buckets}")
    yield folder
    for name in WRITES:
        spark.catalog.dropTempView(name)
    for name in ("daily_table", "in_4", "in_6"):
        spark.sql(f"drop table {name}")


KINDS = ("join", "left join", "right join", "full join", "left semi join", "left anti join")
QUERIES = (
    *(f"select * from daily x {kind} other_days y on x.day = y.day and x.k = y.k" for kind in KINDS),
    *(f"select * from daily_table x {kind} daily y on x.day <=> y.day and x.id = y.id" for kind in KINDS[:4]),
    *(f"select * from in_4 x {kind} in_6 y on x.k = y.k and x.day = y.day" for kind in KINDS),
    "select x.day, x.s, count(*) as n from daily x join other_days y on x.day = y.day group by x.day, x.s",
    "select x.id, y.id, z.id from daily x join other_days y on x.day = y.day join daily_table z on y.day = z.day and x.k = z.k",
    "select k, s, count(*) as n, max(id) as m from nested group by k, s",
    "select x.id, y.id from nested x join nested y on x.k = y.k and x.s = y.s where x.k between 1 and 2",
    "select day, count(distinct s) as n from daily where day >= '2026-02-01' or day is null group by day",
    "select id, rank() over (partition by day order by id) as r from daily_table where day < date'2026-02-02'",
    "select k, sum(id) as n from in_6 group by k having sum(id) > 3",
    "select id from one_folder where day = '2026-02-01' union all select id from daily where day = '2026-02-02'",
    "select * from daily where day = '2020-01-01'",
    "select x.k, count(*) as n from in_4 x join nested y on x.k = y.k group by x.k",
)


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def reads_in_place(session: Session) -> bool:
    scans = (node.operator for plan in pipeline_of(session).planned for root in plan.roots for node in root.walk())
    return any(
        isinstance(scan.layout.partitioning, Partitioned | PrefixPartitioned)
        for scan in scans
        if isinstance(scan, physical.FileScan)
    )


@pytest.fixture(scope="module")
def in_place() -> Counter[str]:
    return Counter()


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_those_of_plain_spark(spark: SparkSession, query: str, in_place: Counter[str]) -> None:
    expected = rows(spark.sql(query))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(SEEDS):
            session = session_of(spark)
            with other_costs(seed):
                found = session.optimize(spark.sql(query))
                in_place[query] += reads_in_place(session)
                assert rows(found) == expected


def test_most_queries_were_read_in_place(in_place: Counter[str]) -> None:
    """Runs after the tests above, in the same run."""
    assert sum(1 for query in QUERIES if in_place[query]) >= len(QUERIES) - 6, in_place


def exchanges(session: Session, frame: DataFrame) -> int:
    frame.collect()
    return sum(executed_plan_diff.of_frame(frame).exchanges.values())


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    "query",
    [
        "select x.day, x.k, count(*) as n from daily x join other_days y on x.day = y.day and x.k = y.k group by x.day, x.k",
        "select x.k, count(*) as n from in_4 x join in_6 y on x.k = y.k and x.day = y.day group by x.k",
        "select day, count(*) as n from daily_table group by day",
    ],
)
def test_nothing_moves(spark: SparkSession, query: str) -> None:
    session = Session(spark, effort="full")
    assert exchanges(session, session.sql(query)) == 0


@pytest.mark.usefixtures("tables")
def test_a_table_whose_folders_are_elsewhere_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("create table moved (id int, p int) using parquet partitioned by (p)")
    try:
        spark.sql("insert into moved values (1, 1), (2, 2)")
        spark.range(5).selectExpr("cast(id as int) as id").write.parquet(str(tmp_path / "x"))
        spark.sql(f"alter table moved add partition (p = 3) location '{tmp_path / 'x'}'")
        session = Session(spark, effort="full")
        for query in ("select p, count(*) as n from moved group by p", "select * from moved where p > 1"):
            assert rows(session.sql(query)) == rows(spark.sql(query))
    finally:
        spark.sql("drop table moved")


def test_a_column_that_was_added_has_its_default_in_older_files(spark: SparkSession) -> None:
    spark.sql("create table grown (id int, p int) using parquet partitioned by (p)")
    try:
        spark.sql("insert into grown select cast(id as int), cast(id % 3 as int) from range(9)")
        spark.sql("alter table grown add column (d int default 5, e char(3))")
        spark.sql("insert into grown partition (p = 1) (id, d, e) values (10, 7, 'x')")
        query = "select x.p, x.d, y.d, x.e, y.id from grown x join grown y on x.p = y.p and x.id <= y.id"
        expected = rows(spark.sql(query))
        for seed in range(SEEDS):
            session = session_of(spark)
            with other_costs(seed):
                assert rows(session.optimize(spark.sql(query))) == expected
        assert exchanges(Session(spark, effort="full"), Session(spark, effort="full").sql(query)) == 0
    finally:
        spark.sql("drop table grown")


@pytest.mark.usefixtures("tables")
def test_folders_of_a_script_prune_and_join_in_place(spark: SparkSession, tables: Path, tmp_path: Path) -> None:
    script = tmp_path / "s.scope"
    script.write_text(f"""
        d = EXTRACT id, k, day FROM "{tables}/daily" USING Parquet();
        o = EXTRACT id, day FROM "{tables}/other_days" USING Parquet();
        r = SELECT d.day, d.k, COUNT(*) AS n FROM d JOIN o ON d.day == o.day WHERE d.day >= '2026-02-02' GROUP BY d.day, d.k;
        OUTPUT r TO "{tmp_path}/out" USING Parquet();
    """)
    session = Session(spark, effort="full")
    assert "% of the bytes" in session.explain(script)
    session.run(script)
    expected = spark.sql(
        "select d.day, d.k, count(*) as n from daily d join other_days o on d.day = o.day"
        " where d.day >= '2026-02-02' group by d.day, d.k"
    )
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(expected)


def test_folders_of_the_second_column_that_are_not_needed_are_not_read_in_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Folders are stored in the order of (region, day), so no interval of that order has one day of all regions."""
    folder = str(tmp_path / "regions")
    spark.sql(
        "select id, concat('r', id % 3) as region, date_add(date'2026-02-01', cast(id % 4 as int)) as day from range(120)"
    ).repartition(1).write.partitionBy("region", "day").parquet(folder)
    frame = spark.read.parquet(folder)
    frame = frame.where("day = '2026-02-02'").groupBy("region", "day").count()
    session = session_of(spark)
    pipeline = pipeline_of(session)
    plans = pipeline.plan(pipeline.read(frame), pipeline.target(is_managed=False), 20)
    scans = [node.operator for plan in plans for root in plan.roots for node in root.walk()]
    stored = [
        each
        for each in scans
        if isinstance(each, physical.FileScan)
        and each.bounded_by is None
        and isinstance(each.layout.partitioning, Partitioned | PrefixPartitioned)
    ]
    assert stored
    for each in stored:
        files = [slice.file.path for task in stored_reads(each.scan, None) for slice in task]
        assert len(files) == 3
        assert all("day=2026-02-02" in path for path in files)
    assert rows(session.optimize(frame)) == rows(frame)
