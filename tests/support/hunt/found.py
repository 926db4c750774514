"""Cases that the hunt found and that were mended since. tests/spark/test_hunt.py runs each again.

An entry is what tools/hunt.py prints for a finding, with a line that says what was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.hunt.cases import Case
from tests.support.hunt.schemas import Table


@dataclass(frozen=True, slots=True)
class Found:
    """A case by its texts, so that it stays as it is when the generator changes. See `Case` for the fields."""

    kind: str
    tables: tuple[str, ...]
    text: str
    settings: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    costs: int = 0
    is_ordered: bool = False
    declared: tuple[str, ...] = ()

    def case(self) -> Case:
        drops = [f"drop {_what(each)} if exists {_name(each)}" for each in self.tables if _makes(each)]
        made = Table("", (), self.tables, tuple(drops), self.declared)
        return Case(0, self.kind, self.text, self.is_ordered, (made,), self.settings, self.without, self.costs)


def _makes(statement: str) -> bool:
    return statement.startswith("create") or "createOrReplaceTempView" in statement


def _what(statement: str) -> str:
    if statement.startswith("session."):
        return "view"
    return "view" if " view " in statement.split(" as ")[0] else "table"


def _name(statement: str) -> str:
    if statement.startswith("session."):
        return statement.split('createOrReplaceTempView("')[1].split('"')[0]
    words = statement.replace("(", " ").split()
    return words[words.index(_what(statement)) + 1]


FOUND = (
    # No plan was found for a window whose keys are all constant: Spark sorts by them, and no sort was planned.
    Found(
        kind="sql",
        tables=("create or replace temporary view t0 as select a, b from values (1, 2), (1, 3), (2, 4) as v(a, b)",),
        text="select b, rank() over (order by a desc) as n, sum(b) over (partition by a) as s from t0 where a = 1",
    ),
    Found(
        kind="sql",
        tables=("create or replace temporary view t0 as select cast(null as int) as a where false",),
        text="select r.n as m, row_number() over (order by r.n) as k from (select a as n from t0) as r",
    ),
    # Spark removes a key that it knows to be constant from the partial aggregate, and our exchange was by that key.
    Found(
        kind="sql",
        tables=(
            "create or replace temporary view t0 as select cast(id % 7 as int) as a, cast(id % 5 as int) as b from range(40)",
        ),
        text="(select coalesce(1.5, 0) as x, last_day(date'2024-02-29') as d from (select a from t0 union all select b from t0)) except (select a as x, date'1970-01-01' as d from t0)",
        costs=480826,
    ),
    # A join lost the equality of two columns whose type only Spark knows.
    Found(
        kind="sql",
        tables=(
            "create or replace temporary view t0 as select a, s collate utf8_lcase as s from values (1, 'a'), (1, 'B'), (2, 'A') as v(a, s)",
        ),
        text="select x.a as n, y.s as m from t0 as x join t0 as y on x.a = y.a and x.s = y.s",
    ),
    # A relation of no rows lost the nullability inside of a struct.
    Found(
        kind="sql",
        tables=("create or replace temporary view t0 as select a, s from values ('a', 1), ('2', 2) as v(s, a)",),
        text="select named_struct('q', a) as n, s as m from t0 where 1 = 0",
    ),
    # Rows that are drawn by a seed depend on how their input is partitioned.
    Found(
        kind="frame",
        tables=("create table t0 using parquet as select cast(id as int) as a, id % 3 as b from range(0, 40, 1, 3)",),
        text='spark.table("t0").sample(0.5, seed=3).groupBy("b").count()',
    ),
    # The aggregate of a pivot could not be made over other inputs.
    Found(
        kind="frame",
        tables=(
            "create or replace temporary view t0 as select a, s from values (1, 'a'), (1, 'b'), (2, 'a') as v(a, s)",
        ),
        text='spark.table("t0").groupBy("s").pivot("a", [1, 2]).agg(F.count(F.lit(1))).toDF("x", "y", "z").selectExpr("z", "explode(array(1, y)) as n")',
        costs=9262910,
    ),
    # Strings that a collation calls equal were sent to different partitions.
    Found(
        kind="sql",
        tables=(
            "insert overwrite directory '{folder}/t0' using parquet select /*+ repartition(3) */ if(id % 2 = 0, 'b', 'B') as s, id % 7 as k from range(300)",
            "create or replace temporary view t0 using parquet options (path '{folder}/t0')",
        ),
        text="select s collate utf8_lcase as n, k as m, count(*) as c from t0 group by s collate utf8_lcase, k",
        costs=8850020,
    ),
    # The names of types in our texts meant another type.
    Found(
        kind="sql",
        tables=(
            'session.write_stream(spark.sql("""select cast(id as timestamp_ltz) as c, id from range(30)"""), "{folder}/t0.ss", clustered_by=["c"], partitions=3, ranged=True, overwrite=True)',
            'session.read_stream("{folder}/t0.ss").createOrReplaceTempView("t0")',
        ),
        text="select x.n as n from (select distinct c as n from t0) as x left anti join (select distinct c as m from t0 where id > 3) as y on x.n <=> y.m",
        settings={"spark.sql.timestampType": "TIMESTAMP_NTZ"},
    ),
    # Verification did not see that a value is the same for all rows of a group where an outer join was rewritten.
    Found(
        kind="sql",
        tables=(
            'session.write_stream(spark.sql("""select cast(id % 97 as int) as a, cast(id % 13 as int) as b from range(300)"""), "{folder}/t0.ss", clustered_by=["a"], partitions=1, overwrite=True)',
            'session.read_stream("{folder}/t0.ss").createOrReplaceTempView("t0")',
        ),
        text="select percent_rank() over (order by g.a desc, g.b desc, g.n desc, r.a desc, r.b) as p, r.a as a from (select a, b, bit_xor(a) as n from t0 group by a, b) as g right join t0 as r on r.a = g.a and r.b = g.b",
    ),
    # Nor did it see this of a value of a nested type.
    Found(
        kind="frame",
        tables=(
            'session.write_stream(spark.sql("""select id % 3 as a, id as b, array(id) as c from range(8)"""), "{folder}/t0.ss", clustered_by=["b"], partitions=5, overwrite=True)',
            'session.read_stream("{folder}/t0.ss").createOrReplaceTempView("t0")',
        ),
        text='spark.table("t0").toDF("a", "b", "c").repartition(3).join(spark.table("t0").toDF("a", "b", "c").repartition(3).groupBy("a").agg(F.expr("min(c)").alias("n")), ["a"], "left").sort("a", "b", "c", "n").limit(20)',
        is_ordered=True,
    ),
    # Distinct values of an aggregate that nobody reads were computed, and raised an error that Spark does not raise.
    Found(
        kind="sql",
        tables=("create or replace temporary view t0 as select id as a, id * 100 as b from range(9)",),
        text="select n, m from (select a as n, count(distinct cast(b as tinyint)) as d, max(b) as m from t0 group by a)",
    ),
    # The metadata of a field, that it was a CHAR, was lost inside of a struct.
    Found(
        kind="sql",
        tables=(
            "create table t1 (b int, c char(5)) using parquet",
            "insert into t1 select cast(id as int), 'x' from range(9)",
        ),
        text="select * from (select named_struct('p', y.b, 'q', x.c) as n from t1 as x left join t1 as y on x.b = y.b + 1 union all select named_struct('p', b, 'q', 'y') as n from t1) order by n",
        is_ordered=True,
    ),
)
