"""Conditions that are declared on parts of tables, in files without statistics: the rows of plain Spark, by plans that use the
conditions; and what is refused."""

from __future__ import annotations

import datetime
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.effort import QUICK
from tests.support.hunt.plans import other_costs, pipeline_of, session_of
from tests.support.part_rows import DAY, SCHEMA, row
from unshuffle import Session
from unshuffle.errors import DeclarationProblem, UserError
from unshuffle.plan import physical

pytestmark = pytest.mark.spark

YEARS = (2023, 2024, 2025)


def write(path: Path, **columns: Any) -> None:
    """A file whose footer has no statistics."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, write_statistics=False)


def rows(frame: DataFrame) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Orders and shipments in a folder for each year."""
    monkeypatch.chdir(tmp_path)
    for year in YEARS:
        keys = pa.array([year * 100 + i for i in range(40)], pa.int64())
        days = pa.array([datetime.date(year, 1 + i % 12, 1) for i in range(40)])
        write(tmp_path / f"orders/{year}/a.parquet", o_key=keys, day=days, n=pa.array(range(40), pa.int32()))
        write(tmp_path / f"shipments/{year}/a.parquet", s_key=keys, w=pa.array(range(40), pa.int32()))
    for table in ("orders", "shipments"):
        spark.read.parquet(f"{tmp_path}/{table}/*").createOrReplaceTempView(table)
    yield tmp_path
    for table in ("orders", "shipments"):
        spark.catalog.dropTempView(table)


DAYS = {f"orders/{y}": f"day >= '{y}-01-01' AND day < '{y + 1}-01-01' AND o_key >= {y}00" for y in YEARS}
JOIN = """SELECT o_key, day, w FROM orders JOIN shipments ON o_key = s_key
    WHERE day BETWEEN DATE '2024-02-01' AND DATE '2024-06-30'"""


def test_conditions_prune_a_table_and_across_a_join(spark: SparkSession, orders: Path) -> None:
    session = Session(spark, effort="full")
    assert "row groups" not in session.explain(JOIN, why=True)
    session.declare_partitions(
        str(orders / "orders"), DAYS | {"orders/2024": f"{DAYS['orders/2024']} AND o_key < 202500"}
    )
    session.declare_partitions("shipments/", {str(y): f"s_key BETWEEN {y}00 AND {y}99" for y in YEARS})
    text = session.explain(JOIN, why=True)
    assert "1 of 3 row groups, 33.3 % of the bytes: no other can have (day >= DATE'2024-02-01')" in text
    assert "no other can have (s_key >= 202400L) AND (s_key < 202500L), by declared conditions" in text
    declared = f"Declared: PARTITIONED BY (\"{orders}/orders/2023\" WHERE ((day >= '2023-01-01') AND"
    assert declared in text
    assert text.count("checked on the data") == 2
    assert rows(session.sql(JOIN)) == rows(spark.sql(JOIN))
    assert rows(session.optimize(spark.sql(JOIN))) == rows(spark.sql(JOIN))


def test_files_that_change_or_appear_are_checked_before_use(spark: SparkSession, orders: Path) -> None:
    Session(spark, effort="full").declare_partitions("orders/", DAYS)
    jobs = _jobs(spark)
    session = Session(spark, effort="full")
    session.declare_partitions("orders/", DAYS)
    assert _jobs(spark) == jobs  # the result of the check is stored
    query = "SELECT n FROM orders WHERE day = DATE '2024-02-01'"
    late = pa.array([datetime.date(2024, 2, 1)])
    write(orders / "orders/2025/b.parquet", o_key=pa.array([202501]), day=late, n=pa.array([77], pa.int32()))
    spark.read.parquet(f"{orders}/orders/*").createOrReplaceTempView("orders")
    for _ in range(2):
        with pytest.raises(
            DeclarationProblem, match=r'is not true in ".*/orders/2025".*day = 2024-02-01, o_key = 202501'
        ):
            session.sql(query)
    session.declare_partitions("orders/", DAYS | {"orders/2025": "day >= '2024-01-01'"})
    found = rows(session.sql(query))
    assert found == rows(spark.sql(query))
    assert found["Row(n=77)"] == 1
    assert "3 of 4 row groups" in session.explain(query, why=True)


def test_a_file_beside_the_parts_may_have_any_rows(spark: SparkSession, orders: Path) -> None:
    session = Session(spark, effort="full")
    session.declare_partitions("orders/", {f"orders/{y}/a.parquet": DAYS[f"orders/{y}"] for y in YEARS})
    write(
        orders / "orders/2023/b.parquet",
        o_key=pa.array([1, 2]),
        day=pa.array([datetime.date(2025, 3, 1), None]),
        n=pa.array([77, 78], pa.int32()),
    )
    spark.read.parquet(f"{orders}/orders/*").createOrReplaceTempView("orders")
    query = "SELECT n FROM orders WHERE day >= DATE '2025-03-01'"
    assert "2 of 4 row groups" in session.explain(query, why=True)
    assert rows(session.sql(query)) == rows(spark.sql(query))


def _jobs(spark: SparkSession) -> int:
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # type: ignore[union-attr]


def test_a_contradicted_condition_declares_nothing(spark: SparkSession, orders: Path) -> None:
    session = Session(spark, effort="full")
    with pytest.raises(DeclarationProblem) as raised:
        session.declare_partitions("orders/", DAYS | {"orders/2024": "n < 39 OR day IS NULL"})
    assert str(raised.value).splitlines() == [
        f"PARTITIONED BY of 'orders/' does not hold in 'orders/': ((n < 39) OR (day IS NULL)) is not true in"
        f' "{orders}/orders/2024", where a row has day = 2024-04-01, n = 39, o_key = 202439',
        "  fix the data or remove the declaration: a plan that relies on it would return wrong rows",
    ]
    assert "Declared" not in session.explain(JOIN)
    with pytest.raises(DeclarationProblem, match="is not true"):  # a NULL is not true either
        session.declare_partitions("orders/", {"orders/2023": "nullif(n, 7) >= 0"})
    session.declare_partitions("orders/", {"orders/2024": "n < 10"}, check="trust")
    assert "trusted, not checked" in session.explain("SELECT n FROM orders")


def test_conditions_may_overlap_leave_gaps_and_be_replaced(spark: SparkSession, orders: Path) -> None:
    session, query = Session(spark, effort="full"), "SELECT n FROM orders WHERE o_key = 202410"
    for conditions, read in (
        ({"orders/2023": "o_key < 202420", "orders/2024": "o_key > 0", "orders/2025": "o_key > 202420"}, 2),
        ({"orders": "o_key > 0", "orders/2025": "o_key IN (202500, 202501) OR o_key > 202501"}, 2),
        ({"2023": "o_key < 202400", "2024": "o_key <=> o_key", "2025/a.parquet": "o_key > 202410"}, 1),
        ({"orders/2024": "n + 1 > 0"}, None),
    ):
        session.declare_partitions("orders/", conditions)
        assert session.explain(query).count("Declared") == 1
        assert (f"{read} of 3 row groups" in session.explain(query, why=True)) is (read is not None)
        assert rows(session.sql(query)) == rows(spark.sql(query))


def test_only_the_rows_of_the_dataframe_matter(spark: SparkSession, orders: Path) -> None:
    """A column that is read as another type is compared in another way, so the condition is not used."""
    session = Session(spark, effort="full")
    session.declare_partitions("orders/", {f"orders/{y}": f"n >= 0 AND o_key >= {y}00" for y in YEARS})
    frame = spark.read.schema("o_key string, n int").parquet(f"{orders}/orders/*")
    assert "Declared" not in session.explain(frame.where("o_key > '2024'"))
    some = spark.read.parquet(f"{orders}/orders/2024", f"{orders}/orders/2025").where("o_key < 202450")
    assert "1 of 2 row groups" in session.explain(some, why=True)
    assert rows(session.optimize(some)) == rows(some)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"orders/2024": "dya > '2024'"}, "<condition of 'orders/2024'>:1:1: unknown column 'dya'"),
        ({"orders/2024": "day >> "}, "<condition of 'orders/2024'>:1:"),
        ({"orders/2024": ""}, "an expression is missing here"),
        ({"orders/2024": "n > 1; n > 2"}, "one expression is expected here"),
        ({"orders/2024": "n"}, "a part needs a condition, but this is of type int"),
        ({"orders/2024": "true"}, "a condition on a part must read a column"),
        ({"orders/2024": "n IN (SELECT 1)"}, "a condition on a part cannot have a subquery"),
        ({"orders/2024": "max(n) > 1"}, "a condition on a part cannot have an aggregate or window function"),
        ({"orders/2024": "n < 'many'"}, "WHERE (n < 'many')) of 'orders' cannot be checked: [CAST_INVALID_INPUT]"),
        ({"orders/2024": "rand() > n"}, "a condition on a part cannot have a function that is not deterministic"),
        ({"orders/2026": "n > 1"}, "there is no file or folder 'orders/2026'"),
        ({"orders/*": "n > 1"}, "there is no file or folder 'orders/*'"),
        ({"shipments/2024": "n > 1"}, "'shipments/2024' is not a part of 'orders'"),
        ({}, "no condition is declared: the mapping is empty"),
        ("orders/2024", "the conditions are a str, not a mapping"),
        ({"orders/2024": 5}, "a part and its condition are str and int, not a path and a text"),
    ],
)  # fmt: skip
def test_bad_conditions(spark: SparkSession, orders: Path, conditions: Any, message: str) -> None:
    with pytest.raises(UserError) as raised:
        Session(spark, effort="full").declare_partitions("orders/", conditions)
    assert message.replace("of 'orders'", "of 'orders/'") in str(raised.value)
    if "dya" in message:
        assert "did you mean 'day'?" in str(raised.value)


def test_tables_without_files_have_no_parts(spark: SparkSession, orders: Path) -> None:
    spark.range(3).createOrReplaceTempView("numbers")
    with pytest.raises(DeclarationProblem, match="'numbers' has no parts that conditions can be declared on"):
        Session(spark, effort="full").declare_partitions("numbers", {"orders/2024": "id > 1"})
    with pytest.raises(DeclarationProblem, match="check='maybe' is neither 'data' nor 'trust'"):
        Session(spark, effort="full").declare_partitions("orders/", DAYS, check="maybe")  # type: ignore[arg-type]


SCRIPT = """#DECLARE last string = "2024-12-31";
    o = EXTRACT o_key, day, n:string FROM "{0}/orders/*" USING Parquet()
        PARTITIONED BY ("{0}/orders/2023" WHERE day < '2024-01-01', "2024" WHERE year(day) = 2024 AND n >= '0'
            AND day BETWEEN '2024-01-01' AND @last, "2025" WHERE day > '2024-12-31') KEY (o_key);
    r = SELECT day, COUNT(*) AS n FROM o WHERE day >= '2024-05-01' AND day < '2024-09-01' GROUP BY day;
    OUTPUT r TO "{0}/out" USING Parquet() OVERWRITE;
"""


def test_conditions_of_a_script(spark: SparkSession, orders: Path) -> None:
    script = orders / "s.scope"
    script.write_text(SCRIPT.format(orders))
    session = Session(spark, effort="full")
    text = session.explain(script, why=True)
    assert "1 of 3 row groups" in text
    assert "Declared: KEY (o_key) of o, checked on the data." in text
    assert "Declared: PARTITIONED BY (" in text
    session.run(script)
    expected = spark.sql(
        "SELECT day, count(*) AS n FROM orders WHERE day >= '2024-05-01' AND day < '2024-09-01' GROUP BY day"
    )
    assert rows(spark.read.parquet(f"{orders}/out")) == rows(expected)
    with pytest.raises(DeclarationProblem, match=r"s.scope:3:25: PARTITIONED BY of 'o' does not hold") as raised:
        session.run(script, {"last": "2024-06-30"})  # the text is the same, the condition is not
    assert "AND (day BETWEEN '2024-01-01' AND '2024-06-30')) is not true in" in str(raised.value)


def test_a_column_that_was_added_with_a_default_is_not_bounded_in_older_files(spark: SparkSession) -> None:
    spark.sql("create table grown_parts (id int, p int) using parquet partitioned by (p)")
    try:
        spark.sql("insert into grown_parts select cast(id as int), cast(id % 3 as int) from range(9)")
        spark.sql("alter table grown_parts add column (d int default 5)")
        session = Session(spark, effort="full")
        session.declare_partitions("grown_parts", {f"p={p}": "d IS NULL" for p in range(3)}, check="trust")
        query = "select id from grown_parts where d = 5"
        assert rows(session.sql(query)) == rows(spark.sql(query))
        assert len(session.sql(query).collect()) == 9
    finally:
        spark.sql("drop table grown_parts")


# --- generated tables, conditions and queries

TABLES = 5
QUERIES = 10 if QUICK else 24


def part(random: Random, low: int, wide: int) -> tuple[list[int | None], str]:
    """Keys, and a condition that is true for them: a range, a list, alternatives or two columns, with and without NULL."""
    high = low + wide
    day, last = (DAY + datetime.timedelta(days=each // 3) for each in (low, high))
    some = [random.randrange(low, high) for _ in range(10)]
    conditions = [
        f"k >= {low} AND k < {high}",
        f"{high} > k AND NOT k < {low} AND k > {low - 1}",
        f"k BETWEEN {low} AND {high - 1} AND d >= '{day}' AND d <= DATE '{last}'",
        f"k IN ({', '.join(map(str, sorted(set(some))))})",
        f"(k < {low + 2} AND k >= {low}) OR (k >= {low + 2} AND k < {high} AND (f = 1.5 OR f IS NULL OR f <> 1.5))",
        f"k >= {low} AND (k = {low} OR k < {high}) AND coalesce(n, 0) > -9",
    ]
    condition = random.choice(conditions)
    keys: list[int | None] = list(some)
    if random.random() < 0.4:
        keys += [None] * random.randrange(1, 4)
        condition = f"({condition}) OR {random.choice(('k IS NULL', 'k <=> NULL', 'isnull(k)'))}"
    return ([], condition) if random.random() < 0.1 else (keys, condition)


@pytest.fixture(scope="module")
def generated(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Path, dict[str | Path, str]]]]:
    """Tables, each with its folder and its conditions."""
    random, found = Random(7), {}
    for table in range(TABLES):
        folder, conditions, number = tmp_path_factory.mktemp("declared"), {}, 0
        step = random.choice((4, 6, 9))
        for each in range(random.randrange(4, 8)):
            keys, condition = part(random, each * step, random.choice((step, step, step + 4)))
            made = [row(random, number + i, key) for i, key in enumerate(keys)]
            number += len(made)
            random.shuffle(made)
            place = folder / f"part={each}" if table % 2 else folder
            place.mkdir(exist_ok=True)
            pq.write_table(
                pa.Table.from_pylist(made, SCHEMA), place / f"{each}.parquet", row_group_size=6, write_statistics=False
            )
            if table % 2 and random.random() < 0.5:
                condition = f"({condition}) AND part IN ({each}, {each + 50})"
            if random.random() < 0.9:
                conditions[f"part={each}" if table % 2 else f"{each}.parquet"] = condition
        spark.read.parquet(str(folder)).createOrReplaceTempView(f"declared_{table}")
        found[f"declared_{table}"] = (folder, conditions)
    yield found
    for name in found:
        spark.catalog.dropTempView(name)


JOINS = ("join", "left join", "right join", "full join", "left semi join", "left anti join")
ON = ("x.k = y.k", "x.k = y.n", "x.d = y.d", "x.k <=> y.k", "x.k = y.k and x.s = y.s", "x.k < y.n and x.s = y.s")
WHERE = (
    "x.k between 5 and 17",
    "x.k is null or x.k > 9",
    "x.d >= '2026-01-30'",
    "x.n in (1, 2)",
    "x.k is null",
    "true",
)


def query(random: Random, names: list[str]) -> str:
    kind, (one, other) = random.choice(JOINS), random.choices(names, k=2)
    shown = "x.id as a" if kind.startswith(("left semi", "left anti")) else "x.id as a, y.id as b"
    text = f"select {shown}, x.k as k from {one} x {kind} {other} y on {random.choice(ON)} where {random.choice(WHERE)}"
    return f"select k, count(*) as c, max(a) as m from ({text}) group by k" if random.random() < 0.4 else text


def test_rows_are_those_of_plain_spark(
    spark: SparkSession, generated: dict[str, tuple[Path, dict[str | Path, str]]]
) -> None:
    random, pruned, in_place = Random(11), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(QUERIES):
            text = query(random, list(generated))
            expected = rows(spark.sql(text))
            session = session_of(spark)
            for folder, conditions in generated.values():
                session.declare_partitions(folder, conditions)
            with other_costs(random.randrange(1_000_000)):
                found = session.optimize(spark.sql(text))
            assert rows(found) == expected, text
            scans = [
                node.operator
                for plan in pipeline_of(session).planned
                for root in plan.roots
                for node in root.walk()
                if isinstance(node.operator, physical.FileScan)
            ]
            pruned += any(each.scan.needed is not None for each in scans)
            in_place += any(each.bounded_by is not None for each in scans)
    print(f"plans that skip parts: {pruned}, that read them in place: {in_place}, of {QUERIES}")
    assert pruned >= QUERIES // 4
    assert in_place >= QUERIES // 10


HASHED = "SELECT x.u, count(*) AS n, sum(y.v) AS s FROM hashed_8 x JOIN hashed_4 y ON x.u = y.u GROUP BY x.u"


@pytest.fixture
def hashed(spark: SparkSession, tmp_path: Path) -> Iterator[dict[str, dict[str, str]]]:
    """Tables whose files have hashes, though nothing says so, and the conditions of their files."""
    conditions: dict[str, dict[str, str]] = {}
    for buckets in (8, 4):
        name = f"hashed_{buckets}"
        made = spark.range(80).selectExpr("id % 17 as u", "id as v", f"pmod(hash(id % 17), {buckets}) as b")
        for number in range(buckets):
            file = tmp_path / name / f"{number}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(made.where(f"b = {number}").drop("b").toArrow(), file)
            conditions.setdefault(name, {})[str(file)] = f"pmod(hash(u), {buckets}) = {number} AND v >= 0"
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    yield conditions
    for name in conditions:
        spark.catalog.dropTempView(name)


def test_declared_hashes_are_buckets(spark: SparkSession, hashed: dict[str, dict[str, str]]) -> None:
    session = Session(spark, effort="full")
    expected = rows(spark.sql(HASHED))
    for name, conditions in hashed.items():
        session.declare_partitions(name, conditions)
    assert rows(session.sql(HASHED)) == expected
    text = session.explain(HASHED)
    for seed in range(3):
        with other_costs(seed):
            found = session.explain(HASHED)
            text += found
            assert rows(session.sql(HASHED)) == expected
    assert "stored partitions" in text
    assert "→ hash(u" in text


@pytest.mark.parametrize("change", ["a file without a condition", "another modulus", "another column", "two numbers"])
def test_other_hashes_are_not_buckets(spark: SparkSession, hashed: dict[str, dict[str, str]], change: str) -> None:
    """The conditions are true, or trusted, but do not tell the bucket of every row."""
    conditions = dict(hashed["hashed_8"])
    first = next(iter(conditions))
    match change:
        case "a file without a condition":
            del conditions[first]
        case "another modulus":
            conditions[first] = "pmod(hash(u), 4) = 0"
        case "another column":
            conditions[first] = "pmod(hash(v), 8) = 0"
        case "two numbers":
            conditions[first] += " AND pmod(hash(u), 8) = 1"
    session = session_of(spark)
    session.declare_partitions("hashed_8", conditions, check="trust")
    query = "SELECT u, count(*) AS n FROM hashed_8 GROUP BY u"
    for seed in range(3):
        with other_costs(seed):
            assert "stored partitions" not in session.explain(query)


def test_a_false_hash_is_refused(spark: SparkSession, hashed: dict[str, dict[str, str]]) -> None:
    conditions = hashed["hashed_4"]
    one, two = list(conditions)[:2]
    conditions[one], conditions[two] = conditions[two], conditions[one]
    with pytest.raises(DeclarationProblem, match=r"pmod\(hash\(u\), 4\) = 1\) AND .* is not true in"):
        Session(spark, effort="full").declare_partitions("hashed_4", conditions)
