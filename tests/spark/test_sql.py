"""SQL keeps the meaning that it has in Spark: rows and their order, names, types, nullability, settings and errors. Code
generation is on, as users have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from unshuffle import Aggregator, Session, UserError
from unshuffle.errors import Source
from unshuffle.spark.session import temporarily

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

TABLES = """
create table chars (k int, c char(5), d char(8), v varchar(5)) using parquet
insert into chars values (1, 'ab', 'ab', 'ab'), (2, 'abc', 'x', 'x'), (3, null, 'ab', null)
create temporary view t as select * from values (1, 2, 'x'), (2, 1, null), (3, 3, 'y'), (3, null, 'y') as t(a, b, s)
create temporary view named as select * from values (1, 2), (3, 4) as t(`all`, `Größe`)
create temporary view collated as select k, c collate utf8_lcase as c from values (1, 'a'), (2, 'B'), (3, 'A') as t(k, c)
"""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[Session]:
    spark.sql("drop table if exists chars")
    for text in TABLES.strip().splitlines():
        spark.sql(text)
    yield Session(spark, effort="full")
    spark.sql("drop table chars")
    for view in ("t", "named", "collated"):
        spark.catalog.dropTempView(view)


def rows(frame: DataFrame) -> list[str]:
    return list(map(repr, frame.collect()))


TEXTS = """
select a from values (1), (2) t(a) order by all desc limit 1
select a, b from t order by all
select k from chars where c = 'ab'
select k from chars where c <> 'ab'
select k from chars where c > 'ab'
select k from chars where c in ('ab', 'q')
select k, case when c = 'ab' then 1 else 0 end as m from chars
select count(*) filter (where c = 'ab') as n from chars
select c, count(*) from chars group by c having c = 'ab'
select k from chars where exists (select 1 from values ('ab') x(y) where y = c)
select x.k, y.k from chars x join chars y on x.c = y.d
select k, length(c), length(v) from chars
select c from collated except select 'A' collate utf8_lcase
select array(c) from collated except select array('A' collate utf8_lcase)
select c, count(*) from collated group by c
select distinct c from collated
select x.k, y.k from collated x join collated y on x.c = y.c
select c from collated intersect select 'b' collate utf8_lcase
select c from collated union select 'b' collate utf8_lcase
select 12345678901234567890123456789012.123457 - 12345678901234567890123456789012.123456 as d
select a + b, count(*) from t group by grouping sets ((a + b), (b + a), (b))
select `all`, `Größe` from named where `all` > 1
select -128Y, -32768S, -9223372036854775808L
select array(a, 7)[0] from t
select map('k', a)['k'], struct(a, b).b from t
select any(a > 1), sum(b), some(b > 5), every(a > 0) from t
select a, (select max(x) from values (1), (2) v(x) where x <= a) as m from t
select count(*) from t where (select count(*) from t u where u.a = t.a) > 1
select not (b is null), count(*) from t group by b is null
select 1 + a, count(*) from t group by a + 1
select a, b, grouping__id, count(*) from t group by a, b with cube
select a, sum(b) over (order by timestamp'2024-01-01' + make_interval(0, 0, 0, a) range between interval 1 day preceding and current row) as s from t
with outer_ as (select a from t) select * from outer_ where a in (with inner_ as (select b from t) select b from inner_)
select count(1, a), count(*), count(s) from t
select * from (select a, a as b2, b from t) where b2 > 1
select * from (select a, s from t) pivot (count(a) + 1 as n for s in ('x', 'y'))
with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select n from r
select distinct 1 as one from t where a = 0
select 'foo', max(struct(a)) from t where a = 0 group by 1
select (select sum(x) from (select a as x intersect select b as x)) as s from t
select a, b from t order by a, (select 1), b
select a, (select a) z from t
select sum(x) from values (1), (2) v(x)
select id, count(*) from (select null as id union all select 1) group by rollup(id)
select a from t tablesample (100 percent)
select s like 'x%' and a between 1 and 2 as m from t
select stack(2, a, b) as v from t
select a from t lateral view explode(array(1, 2)) e as x where x = 2
select /*+ broadcast(u) */ t.a from t join t u on t.a = u.b
select s, a from t order by s nulls last, a desc
select 'it''s', "double", r'raw\\n', 'tab\\t'
select session_window.start as f, count(*) from (select timestamp'2024-01-01' + make_dt_interval(a) as x from t) group by session_window(x, '1 day')
select s, session_window, sum(a) from (select *, timestamp'2024-01-01' + make_dt_interval(a) as x from t) group by s, session_window(x, concat(b, ' days'))
select window.end as f, count(*) from (select timestamp'2024-01-01' + make_dt_interval(a) as x from t) group by window(x, '2 days', '1 day')
select window_time(window) as f, n from (select window, count(*) as n from (select timestamp'2024-01-01' + make_dt_interval(a) as x from t) group by window(x, '2 days'))
""".strip().splitlines()


Answer = Callable[[Session, str], DataFrame]
ANSWERS: dict[str, Answer] = {
    "sql": lambda session, text: session.sql(text),
    "optimize": lambda session, text: session.optimize(session.spark.sql(text)),
}
WAYS = pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)


@WAYS
@pytest.mark.parametrize("text", TEXTS)
def test_rows_order_and_schema_are_sparks(session: Session, text: str, answer: Answer) -> None:
    plain, ours = session.spark.sql(text), answer(session, text)
    assert ours.schema == plain.schema
    assert in_order(text, rows(ours)) == in_order(text, rows(plain))


def in_order(text: str, found: list[str]) -> list[str]:
    """The rows as they come if the text orders them, and sorted if it does not."""
    while (outside := re.sub(r"\([^()]*\)", "", text)) != text:
        text = outside
    return found if "order by" in text.lower() else sorted(found)


NOT_IN_SCRIPTS = (
    "chars",  # the padding of CHAR columns is not part of the language of scripts
    "pivot (count(a) + 1",  # sqlglot does not parse it
    "window(x",  # windows of time have names that only Spark's analyzer resolves
)


@pytest.mark.parametrize("text", [text for text in TEXTS if not any(each in text for each in NOT_IN_SCRIPTS)])
def test_our_binder_agrees_with_spark(session: Session, text: str) -> None:
    """What scripts, and queries without a JVM, are bound with."""
    pipeline = session.pipeline
    script = pipeline.bind_source(Source("test.scope", text), None, is_script=True)
    with pipeline.executing(script, is_managed=False) as execution:
        (ours,), plain = execution.frames, session.spark.sql(text)
        assert [field.dataType for field in ours.schema] == [field.dataType for field in plain.schema]
        found, expected = (list(map(tuple, frame.collect())) for frame in (ours, plain))
    assert in_order(text, list(map(repr, found))) == in_order(text, list(map(repr, expected)))


SETTINGS = [
    ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'select "a", count(*) from t group by "a"'),
    ("spark.sql.parser.escapedStringLiterals", "true", r"select count(*) from t where s rlike '^\w$'"),
    ("spark.sql.orderByOrdinal", "false", "select a from t order by 1, a limit 2"),
    ("spark.sql.groupByOrdinal", "false", "select count(*) from t group by 1"),
    ("spark.sql.groupByAliases", "false", "select a as q, count(*) from t group by a"),
    ("spark.sql.caseSensitive", "true", "select A, a from (select a, a + 1 as A from t)"),
    ("spark.sql.legacy.setopsPrecedence.enabled", "true", "select 1 union select 2 intersect select 3"),
    ("spark.sql.legacy.ctePrecedencePolicy", "LEGACY", "with q as (select 1 as x) select * from (with q as (select 2 as x) select * from q)"),
    ("spark.sql.session.timeZone", "America/Los_Angeles", "select hour(timestamp'2024-01-01 00:00:00Z'), current_timezone()"),
]  # fmt: skip


@WAYS
@pytest.mark.parametrize(("setting", "value", "text"), SETTINGS, ids=[each[0] for each in SETTINGS])
def test_settings_that_change_what_a_text_means(
    session: Session, setting: str, value: str, text: str, answer: Answer
) -> None:
    with temporarily(session.spark, **{setting: value}):
        plain, ours = session.spark.sql(text), answer(session, text)
        assert ours.schema == plain.schema
        assert in_order(text, rows(ours)) == in_order(text, rows(plain))


SCRIPT = """
x = SELECT a, b, s, 'it''s \\\\ \\'q\\'' AS text, "double" AS d FROM t WHERE s == "y" || s RLIKE '^\\\\w$' || s IS NULL;
SELECT A AS k, count(*) AS n, max(text) AS text, max(d) AS d FROM x GROUP BY 1 ORDER BY 2 DESC, 1;
"""


@pytest.mark.parametrize(("setting", "value"), [each[:2] for each in SETTINGS], ids=[each[0] for each in SETTINGS])
def test_a_script_means_the_same_under_every_setting(session: Session, setting: str, value: str) -> None:
    expected = [(3, 2, "it's \\ 'q'", "double"), (1, 1, "it's \\ 'q'", "double"), (2, 1, "it's \\ 'q'", "double")]
    with temporarily(session.spark, **{setting: value}):
        script = session.pipeline.bind_source(Source("test.scope", SCRIPT), None, is_script=True)
        for is_managed in (False, True):
            with session.pipeline.executing(script, is_managed) as execution:
                assert [tuple(row) for row in execution.frames[-1].collect()] == expected


def test_parameterless_counts_where_spark_allows_them(session: Session) -> None:
    with temporarily(session.spark, **{"spark.sql.legacy.allowParameterlessCount": "true"}):
        assert rows(session.sql("select count(), count(*) from t")) == ["Row(count()=0, count(1)=4)"]


REFUSED = [
    "select nope from t",
    "select a from nope",
    "select a from t where and b = 1",
    "select a, sum(b) from t",
    "select a from t where sum(b) > 1",
    "select a + from t",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_spark_rejects_is_refused_in_our_words(session: Session, text: str) -> None:
    with pytest.raises(UserError) as raised:
        session.sql(text)
    assert raised.value.span is not None


def test_what_only_spark_rejects_is_refused_too(session: Session) -> None:
    with pytest.raises(UserError, match=r"\[PARSE_SYNTAX_ERROR\]"):
        session.sql("select a from t where a = 1 && b = 2")


def test_errors_of_a_query_are_sparks(session: Session) -> None:
    text = "select a from t order by (select b from t)"
    for frame in (session.sql(text), session.spark.sql(text)):
        with pytest.raises(Py4JJavaError, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
            frame.collect()


AGGREGATES = """
select a, percentile(b, 0.5), percentile(b, array(0.25, 0.75)), median(b) from t group by a
select a, percentile_cont(0.3) within group (order by b desc), percentile_disc(0.5) within group (order by b) from t group by a
select a, percentile(b, 0.5, 2), percentile(distinct b, 0.5) from t group by a
select mode(a), skewness(a), kurtosis(b), covar_pop(a, b), covar_samp(a, b), bit_and(a), bit_or(b), bit_xor(a) from t
select a, try_sum(b), try_avg(b), regr_slope(a, b), regr_count(a, b), histogram_numeric(b, 2) from t group by a
select a, listagg(s), mode() within group (order by b desc) from t group by a
select max(c), min(c), mode(c) from collated
select sum(b) filter (where a > 1), try_sum(b) filter (where s is not null) from t
select a, try_sum(b) over (partition by a), percentile(b, 0.5) over (partition by a) from t
from t |> where a > 1 |> aggregate sum(b) as x group by a |> order by a
""".strip().splitlines()


@pytest.mark.parametrize("text", AGGREGATES)
def test_aggregates_are_read_whatever_their_function(session: Session, text: str) -> None:
    plain, ours = session.spark.sql(text), session.sql(text)
    assert not session.fallbacks
    assert ours.schema == plain.schema
    assert in_order(text, rows(ours)) == in_order(text, rows(plain))


def test_a_users_aggregate_is_read_from_a_dataframe(session: Session) -> None:
    class Spread(Aggregator):
        def aggregate(self, values: pa.Array) -> int:
            return len(values)

    session.register_aggregator("spread", Spread, returns="bigint")
    text = "select a, spread(b) as n from t group by a"
    ours = session.sql(text)
    assert not session.pipeline.bind(text).foreign
    assert sorted(map(tuple, ours.collect())) == [(1, 1), (2, 1), (3, 2)]


def test_parameters_are_values_to_spark_too(session: Session) -> None:
    text = "select 1 + a, count(*) from t where s = @s or a = @n group by a + 1"
    hostile = "y' or '1' = '1"
    assert rows(session.sql(text, {"s": hostile, "n": 2})) == ["Row((1 + a)=3, count(1)=1)"]


def test_commands_run(session: Session) -> None:
    session.sql("create or replace temporary view made as select 1 as one")
    assert session.sql("select one from made").collect() == [(1,)]
    assert any(row.viewName == "made" for row in session.sql("show views").collect())
    session.sql("drop view made")


def test_spark_reads_tables_of_folders_and_forgets_them(session: Session, tmp_path: Path) -> None:
    spark = session.spark
    spark.range(5).selectExpr("id", "id % 2 as k").coalesce(1).write.parquet(str(tmp_path / "Parts.parquet"))
    before = spark.sql("show tables").collect()
    ours = Session(spark, tables=tmp_path, effort="full")
    found = ours.sql("select 1 + k as k, count(*) as n from parts group by k + 1").collect()
    assert sorted(map(tuple, found)) == [(1, 3), (2, 2)]
    assert spark.sql("show tables").collect() == before


def test_a_text_is_compared_with_what_it_means_to_spark(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "query.sql"
    file.write_text("select array(a, 7)[0] as x from t; select b from t order by all")
    script = session.pipeline.bind_file(file)
    frames = session.pipeline.as_written(file, None, script).frames
    assert [rows(frame) for frame in frames] == [rows(session.spark.sql(text)) for text in file.read_text().split(";")]
