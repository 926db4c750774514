"""The baseline translation against plain Spark: the same text gives the same columns, types and rows.

Every query runs through both on tables with NULLs, duplicates, -0.0, NaN, Unicode and an empty table. Some expressions
depend on precedence, because Spark parses the generated text itself.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from unshuffle import Aggregator, Session
from unshuffle.errors import Source
from unshuffle.pipeline import QUERY
from unshuffle.plan.logical import Script
from unshuffle.spark.reader.environment import arrow_type
from unshuffle.spark.session import temporarily

pytestmark = pytest.mark.spark

UNDERSTOOD = [
    # projections, names, precedence
    "select * from sales",
    "select id + 1, -amount, id * 2 - 3, not paid, amount is null, amount / 2, id % 3, id div 2 from sales",
    "select 1 | 2 & 3 ^ 4, 1 << 2 + 1, 5 & 3 | 8, ~5, 7 >> 1",
    "select 1 = 2 < true, 1 + 1 in (2, 3), not 1 = 2, 1 = 1 is null, 2 between 1 and 3 and true",
    "select 'a' || 'b' || 1, 1 + 1 || 'a', name || '!' = 'ann!' from people",
    "select 1 union select 2 intersect select 2",
    "select 1 except select 2 union all select 1",
    "select 1 as a union all select 2 union all select 2 union select 3 union all select 3",
    "select cast(id as int), cast('7' as bigint), try_cast('x' as int), id::string from sales",
    "select case when id > 2 then 'big' when id is null then 'none' else 'small' end from sales",
    "select case region when 'north' then 1 when 'süd' then 2 end as n from people",
    "select if(paid, 1, 2), coalesce(amount, 0), nullif(id, 1), nvl(region, 'none') from sales join people on person = pid",
    "select name like 'a%', name like '%\\\\_%', name rlike '^a', name ilike 'A%' from people",
    "select name like any ('a%', 'b%') as n from people",
    "select substring(name, 1, 2), substr(name from 2 for 1), trim(both 'a' from name), position('n' in name) from people",
    "select upper(name), length(region), concat(name, region), concat_ws('-', name, region) from people",
    "select date '2024-01-31' + interval '1' month, extract(year from day), year(day), day + 1 from sales",
    "select dateadd(day, 3, day), datediff(day, date '2024-01-01', day), date_add(day, 2) from sales",
    "select day - date '2024-01-01', current_date() >= day, timestamp '2024-01-01 10:00:00' from sales",
    "select 1L as a, 1S as b, 1Y as c, 1.5BD as d, 1.5D as e, 1.5F as f, 1, 1.5, 1e3, 12345678901, 12345678901234567890, -2147483648, -1.5, 'it''s', x'1F'",
    "select 'tab\\tquote\\'back\\\\slash', \"double\", 'ünïcödé', 'line\\nfeed'",
    "select id as a, a + 1 as b, b * 2 as c from sales",
    "select tags[0], size(tags), place.city, place.zip + 1, attrs['k'], element_at(tags, 1) from nested",
    "select transform(tags, t -> upper(t)), filter(tags, t -> t != 'x'), aggregate(array(1, 2), 0, (a, x) -> a + x) as s from nested",
    "select exists(tags, t -> t = 'x'), forall(tags, t -> t is not null), struct(1 as a, 2 as b), named_struct('a', 1) from nested",
    "select struct(id, s.name), struct(s.id, id + 1, upper(p.name)), struct(p.region) from sales s join people p on person = pid",
    "select struct(place.city, tags), (id, id + 1) from nested",
    "select b.AMOUNT, c.id from (select struct(id, amount) b, max(struct(day, id)) c from sales group by id, amount)",
    "select max(struct(renamed, id)) from (select amount as renamed, id from sales)",
    "select map('a', 1), array(1, 2), array(id, 2) from sales",
    "select (a.place).city from nested a",
    "select * except (amount, day) from sales",
    "select s.*, p.name from sales s join people p on s.person = p.pid",
    "select `odd name`, `odd name` + 1 as `with ``tick` from odd",
    "select Id, ID as iD, sales.id from sales",
    "select rank, `order` from (select 1 as rank, 2 as `order`)",
    # filters
    "select * from sales where amount > 1 and (paid or id = 3)",
    "select id from sales where not (amount > 1) or amount is null",
    "select id from sales where x = 0.0",
    "select id from sales where x = double('nan')",
    "select id from sales where amount not between 1 and 2",
    "select id from sales where id in (1, 2, null)",
    "select id from sales where id not in (1, 2)",
    "select id from sales where name <=> null",
    "select id from sales where name is distinct from 'ann'",
    # joins
    "select s.id, p.name from sales s join people p on s.person = p.pid",
    "select s.id, p.name from sales s left join people p on s.person = p.pid and p.region is not null",
    "select s.id, p.name from sales s right join people p on s.person = p.pid",
    "select s.id, p.name from sales s full outer join people p on s.person = p.pid",
    "select id from sales left semi join people on person = pid",
    "select id from sales left anti join people on person = pid",
    "select count(*) from sales cross join people",
    "select count(*) from sales, people",
    "select count(*) from sales, people a right join people b on a.pid = b.pid",
    "select * from (select person as pid, id from sales) join people using (pid)",
    "select * from (select person as pid, id from sales) full join people using (pid)",
    "select * from (select person as pid, id from sales) right join people using (pid)",
    "select * from (select person as pid, id from sales) left semi join people using (pid)",
    "select a.pid, b.pid, pid from (select person as pid, id from sales) a left join people b using (pid)",
    "select * from (select person as pid, id from sales) natural join people",
    "select a.id, b.id from sales a join sales b on a.person <=> b.person and a.id < b.id",
    "select count(*) from (sales s join people p on s.person = p.pid) join nested n on n.id = s.id",
    "select count(*) from sales s join empty e on s.id = e.k",
    "select s.id, e.k from sales s left join empty e on s.id = e.k",
    # aggregates
    "select count(*), count(amount), sum(amount), avg(amount), min(name), max(day) from sales",
    "select count(*), sum(k) from empty",
    "select k, count(*) from empty group by k",
    "select person, count(*), sum(amount) from sales group by person",
    "select person, name, count(distinct id), count(distinct id, name) from sales group by person, name",
    "select x, count(*) from sales group by x",
    "select upper(name) as u, count(*) as n from sales group by upper(name) having count(*) > 1 order by u",
    "select upper(name) as u, count(*) as n from sales group by u having n >= 1",
    "select person, sum(amount) from sales group by 1 having sum(amount) > 1",
    "select person + 1, count(*) + person from sales group by person",
    "select person, sum(amount) filter (where paid), max(id) filter (where amount > 1) from sales group by person",
    "select person, sum(distinct amount), percentile_cont(0.5) within group (order by id) from sales group by person",
    "select sum(amount) > 1, sum(amount) + count(*) from sales",
    "select person, paid, count(*), sum(amount) from sales group by rollup (person, paid)",
    "select person, paid, count(*), grouping(person), grouping_id() from sales group by cube (person, paid)",
    "select person, paid, sum(person) from sales group by grouping sets ((person), (paid), ())",
    "select person, paid, sum(person) from sales group by person, paid grouping sets ((person), (paid))",
    "select person, paid, count(*) from sales group by person, paid with rollup",
    "select person, paid, count(*) from sales group by all",
    "select distinct person, paid from sales",
    "select distinct x from sales",
    "select count(*) from sales having count(*) > 100",
    "select max(id) as m from sales having max(id) > 1",
    "select 1 from sales having true",
    "select any_value(name) is null, first(name) is null from sales where name is null",
    "select collect_set(person) is not null, array_sort(collect_list(id)) as a from sales",
    # windows
    "select id, row_number() over (partition by person order by id) from sales",
    "select id, sum(amount) over (partition by person order by id rows between 1 preceding and current row) from sales",
    "select id, lag(id, 1, 0) over w, lead(id) over w, rank() over w from sales window w as (order by id)",
    "select person, sum(sum(amount)) over (order by person), rank() over (order by sum(amount) desc) from sales group by person",
    "select id, amount / sum(amount) over () from sales",
    "select id, first_value(name) over (order by id) from sales",
    "select * from (select id, row_number() over (partition by person order by id desc) as n from sales) where n = 1",
    # order and limit
    "select id, amount from sales order by amount desc nulls last, id",
    "select id from sales order by person desc, id asc nulls last limit 3",
    "select id, amount as a from sales order by -a, 1",
    "select name from people order by length(name), name limit 2 offset 1",
    "select person, count(*) as n from sales group by person order by count(*) desc, person limit 2",
    "select distinct person from sales order by person",
    "select id from sales union all select pid from people order by id limit 4",
    "(select id from sales order by id limit 2) union all (select 99)",
    "select id as person from sales order by person",
    "select s.id from sales s order by s.id, id limit 1",
    # subqueries
    "select * from (select id, amount from sales where amount > 1) as t(a, b) where a > 1",
    "with t as (select person, sum(amount) as total from sales group by person) select a.total from t a join t b on a.person = b.person",
    "with a as (select 1 as x), b as (select x + 1 as x from a) select a.x, b.x from a, b",
    "select id from sales where amount > (select avg(amount) from sales)",
    "select id, (select max(name) from people where pid = person) from sales",
    "select name from people p where exists (select 1 from sales s where s.person = p.pid and s.amount > 1)",
    "select name from people p where not exists (select * from sales where person = pid)",
    "select name from people where pid in (select person from sales)",
    "select name from people where pid not in (select person from sales where person is not null)",
    "select name from people where pid not in (select person from sales)",
    "select name from people where (pid, name) in (select person, name from sales)",
    "select p.name, (select count(*) from sales s where s.person = p.pid) as n from people p",
    "select p.name from people p where 1 < (select count(*) from sales s where s.person = p.pid)",
    "select person, sum(amount) from sales group by person having sum(amount) > (select avg(amount) from sales)",
    "select * from (values (1, 'a'), (2, null)) as t(n, s)",
    "select col1 from values (1), (2)",
    "values (1, 'x')",
    "from sales |> where id > 1 |> select id",
    "select id from sales where id = @three or name = @who",
]

FOREIGN = [
    "select id, tag from nested lateral view explode(tags) t as tag",
    "select explode(tags) from nested",
    "select person, array_sort(collect_list(amount) respect nulls) from sales group by person",
    "select * from sales tablesample (100 percent)",
    "select * from (select person, paid, amount from sales) pivot (sum(amount) for paid in (true, false))",
    "select id from range(5)",
    "select sum(x) from (select explode(tags) as t, 1 as x from nested)",
    "with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select * from t",
    "select /*+ broadcast(p) */ s.id from sales s join people p on s.person = p.pid",
    "select person, count(*) from sales group by person union all select t, 1 from (select explode(array(1, 2)) as t)",
    "select p.name, t.id from people p, lateral (select id from sales where person = p.pid) t",
]


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("tables")
    day = datetime.date(2024, 2, 29)
    sales = pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5, 5], pa.int64()),
            "person": pa.array([10, 10, 20, None, 30, 30], pa.int32()),
            "amount": pa.array([Decimal("1.50"), None, Decimal("2.25"), Decimal("0.00"), Decimal("9.99"), Decimal("9.99")], pa.decimal128(10, 2)),
            "name": pa.array(["ann", None, "bob", "ünï", "ann", "ann"]),
            "paid": pa.array([True, False, None, True, True, True]),
            "day": pa.array([day, day, None, datetime.date(2023, 12, 31), day, day]),
            "x": pa.array([0.0, -0.0, float("nan"), None, 1.5, 1.5]),
        }
    )  # fmt: skip
    people = pa.table(
        {
            "pid": pa.array([10, 20, 40, 40], pa.int32()),
            "name": ["ann", "bob", "cé_", None],
            "region": ["north", None, "süd", "süd"],
        }
    )
    nested = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "tags": pa.array([["x", "y", None], [], None], pa.list_(pa.string())),
            "place": pa.array([{"city": "Oslo", "zip": 1}, None, {"city": None, "zip": 3}]),
            "attrs": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        }
    ).filter(pa.array([True, False, True]))
    tables = {
        "sales": sales,
        "people": people,
        "nested": nested,
        "empty": pa.table({"k": pa.array([], pa.int64())}),
        "odd": pa.table({"odd name": [1, 2]}),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    with temporarily(spark, **{"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}):
        yield Session(spark, tables=folder, effort="full")


PARAMS = {"three": 3, "who": "bob' or '1' = '1"}


def comparable(value: Any) -> Any:
    """A value as GROUP BY compares it: -0.0 equals 0.0, and NaN equals NaN. Sums of floats are rounded, because they
    depend on the order of the rows."""
    if isinstance(value, float):
        return f"{value + 0.0:.9e}"
    if isinstance(value, tuple | list):
        return tuple(map(comparable, value))
    return frozenset((comparable(k), comparable(v)) for k, v in value.items()) if isinstance(value, dict) else value


def bound(session: Session, query: str) -> Script:
    """The query as our binder reads it."""
    return session.pipeline.bind_source(Source(QUERY, query), PARAMS, is_script=True)


def check(session: Session, query: str) -> DataFrame:
    literals = query.replace("@three", "3").replace("@who", "'bob\\' or \\'1\\' = \\'1'")
    plain = session.spark.sql(literals)
    with session.pipeline.executing(bound(session, query), is_managed=False) as execution:
        (ours,) = execution.frames
        return compared(query, ours, plain)


def compared(query: str, ours: DataFrame, plain: DataFrame) -> DataFrame:
    assert ours.columns == plain.columns
    assert [f.dataType for f in ours.schema] == [f.dataType for f in plain.schema]
    mine, theirs = ours.collect(), plain.collect()
    assert Counter(map(comparable, mine)) == Counter(map(comparable, theirs))
    if "order by" in query.split(")")[-1]:
        assert str(mine) == str(theirs)
    return ours


@pytest.mark.parametrize("query", UNDERSTOOD)
def test_understood(session: Session, query: str) -> None:
    script = bound(session, query)
    assert not script.foreign
    ours = check(session, query)
    # Where the binder knows a type, Spark has the same one.
    (output,) = script.outputs
    for column, field in zip(output.plan.columns, ours.schema.fields, strict=True):
        assert column.type is None or column.type == arrow_type(field.dataType), column


@pytest.mark.parametrize("query", FOREIGN)
def test_foreign(session: Session, query: str) -> None:
    assert bound(session, query).foreign
    check(session, query)


def views(session: Session) -> set[str]:
    return {row.viewName for row in session.spark.sql("show views").collect()}


def test_no_view_is_left_behind(session: Session) -> None:
    before = views(session)
    session.sql("with t as (select id from sales) select a.id from t a join t b on a.id = b.id").collect()
    assert views(session) == before


def test_tables_and_functions_of_the_users_session(session: Session) -> None:
    session.spark.range(3).createOrReplaceTempView("callers_view")
    session.spark.udf.register("callers_function", lambda n: n + 1, "bigint")
    rows = session.sql("select callers_function(id) as n from callers_view where id > 0").collect()
    assert sorted(row.n for row in rows) == [2, 3]


def test_a_date_range_and_its_column(session: Session, tmp_path: Path) -> None:
    for day, values in (("2024-02-28", [1, 2]), ("2024-02-29", [3]), ("2024-03-02", [4])):
        (tmp_path / f"log/Date={day}").mkdir(parents=True)
        pq.write_table(pa.table({"v": values}), tmp_path / f"log/Date={day}/part.parquet")
    script = tmp_path / "days.scope"
    script.write_text(
        f'log = EXTRACT v, Date FROM "{tmp_path}/log?Date=(Today-2)..Today" USING Parquet();\n'
        f'OUTPUT log TO "{tmp_path}/out.parquet";'
    )
    session.run(script, {"Today": "2024-03-01"})
    rows = session.spark.read.parquet(str(tmp_path / "out.parquet")).collect()
    assert sorted((row.v, str(row.Date)) for row in rows) == [(1, "2024-02-28"), (2, "2024-02-28"), (3, "2024-02-29")]


class Spread(Aggregator):
    """The largest minus the smallest of some numbers."""

    def aggregate(self, values: pa.Array) -> float | None:
        numbers = [v for v in values.to_pylist() if v is not None]
        return float(max(numbers) - min(numbers)) if numbers else None


def test_a_registered_aggregator(session: Session) -> None:
    session.register_aggregator("spread", Spread, returns="double")
    script = session.pipeline.bind("select person, spread(id) as s from sales group by person")
    assert not script.foreign
    rows = session.sql("select person, spread(id) as s from sales group by person having spread(id) >= 0").collect()
    assert {row.person: row.s for row in rows} == {10: 1.0, 20: 0.0, None: 0.0, 30: 0.0}
