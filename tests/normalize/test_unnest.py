"""Unnesting subqueries keeps the rows. The plans are in tests/plans/unnest.txt.

Random plans run in Python, which evaluates a subquery for each outer row. Queries with NULLs, duplicates and empty inputs
run on Spark, and are compared with Spark's own result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from tests.support import rule_differential
from tests.support.binding import context_for
from tests.support.correlated_queries import SeveralRows, filled_tables, queries, result_with_subqueries
from tests.support.random_plans import random_plan_settings
from tests.support.wellformed import problems
from unshuffle import Session
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import UNNEST, normalize
from unshuffle.normalize.traversal import ascend
from unshuffle.plan.logical import Plan, Script


@random_plan_settings(normal=100, quick=20)
@given(queries(), filled_tables())
def test_random_subqueries_give_the_same_rows(drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]]) -> None:
    plan, numbers = drawn
    try:
        rows = result_with_subqueries(plan, data)
    except SeveralRows:
        return
    context = Rewriting(numbers)
    for changed in (ascend(plan, UNNEST, context), normalize(plan, context)):
        assert changed.columns == plan.columns
        assert not problems(changed)
        assert result_with_subqueries(changed, data) == rows


@pytest.mark.parametrize("benchmark", ["tpch", "tpcds"])
def test_all_correlated_subqueries_of_the_benchmarks_are_unnested(
    benchmark: str, request: pytest.FixtureRequest
) -> None:
    scripts: dict[int, Script] = request.getfixturevalue(f"{benchmark}_scripts")
    for number, script in scripts.items():
        for output in script.outputs:
            changed = ascend(output.plan, UNNEST, context_for(output.plan))
            assert not list(rule_differential.subqueries(changed)), number


# --- on Spark

UNNESTED = [
    # EXISTS
    "select id from o where exists (select 1 from t where t.k = o.k)",
    "select id from o where not exists (select * from t where t.k = o.k and t.v > 4)",
    "select id from o where exists (select 1 from t where t.k <=> o.k)",
    "select id from o where not exists (select 1 from t where t.k <=> o.k and t.v is not null)",
    "select id from o where exists (select 1 from e where e.k = o.k)",
    "select id from o where not exists (select 1 from e where e.k = o.k)",
    "select id from o where exists (select t.k from t where t.k = o.k group by t.k having count(*) > 1)",
    "select id from o where exists (select s, count(*) from t where t.k = o.k group by s having count(*) > 1)",
    "select id from o where exists (select max(v) from t where t.k = o.k)",
    "select id from o where not exists (select max(v) from t where t.k = o.k)",
    "select id from o where exists (select max(v) from t where t.k = o.k having max(v) > 5)",
    "select id from o where not exists (select 1 from t where t.k = o.k having count(*) > 1)",
    "select id from o where exists (select distinct v from t where t.k = o.k order by v limit 3)",
    "select id from o where exists (select 1 from t where t.k = o.k and t.v > o.id)",
    "select id from o where exists (select 1 from t, sure where t.k = sure.k and sure.v = o.k and t.v > o.id)",
    "select id from o where exists (select 1 from t left join sure on t.k = sure.k where t.v > o.id and sure.v is null)",
    "select id from o where exists (select 1 from (select k + 1 as j, v from t) u where u.j = o.k)",
    "select id from o where exists (select 1 from t where t.k = o.k) and not exists (select 1 from sure where sure.k = o.k)",
    "select id from o where exists (select 1 from e)",
    "select id from o where not exists (select 1 from e) and exists (select 1 from sure where k > 3)",
    "select id from o where exists (select o.k)",
    "select id from o where exists (select 1 from t where t.k = o.k and o.g > 10)",
    "select id from o where not exists (select 1 from t where o.g > 10)",
    "select id from o where exists (select 1 from t where (t.k = o.k and t.v > 4) or (t.k = o.k and t.s = 'a'))",
    # EXISTS that is not a condition of its own
    "select id from o where g = 40 or exists (select 1 from t where t.k = o.k)",
    "select id from o where exists (select 1 from t where t.k = o.k) or exists (select 1 from sure where sure.v = o.id)",
    "select id from o where not (g = 10 and exists (select 1 from t where t.k = o.k))",
    "select id from o where not (g = 10 or exists (select 1 from t where t.k = o.k))",
    "select id, exists (select 1 from t where t.k = o.k) as x from o",
    "select id, exists (select 1 from t where t.k <=> o.k) as x, not exists (select 1 from e where e.k = o.k) from o",
    "select id, case when exists (select 1 from t where t.k = o.k) then 'y' else 'n' end from o",
    "select id, exists (select 1 from t where t.s = o.k and t.s in ('1', '01')) as x from o",
    "select id, exists (select 1 from t where t.k = o.k and o.g = 10) as x, exists (select 1 from t where o.g = 10) from o",
    "select exists (select 1 from t where t.k = o.k) as x, count(*) from o group by 1",
    "select sum(case when exists (select 1 from t where t.k = o.k) then 1 else 0 end) from o",
    # IN
    "select id from o where k in (select k from t)",
    "select id from o where k in (select k from t where t.v = o.g - 5)",
    "select id from o where (k, s) in (select k, s from t)",
    "select id from o where k + 1 in (select k from t group by k having count(*) > 1)",
    "select id from o where k in (select k from e)",
    "select id from o where k in (select q from t) and g in (select v * 2 from t)",
    "select id from o where k in (select max(k) from t)",
    "select id from o where g in (select count(*) * 10 from t where t.k = o.k)",
    "select id from o where k in (select o.g / 10 from t)",
    "select id from o where s in (select cast(k as string) from t)",
    "select id from o where k in (select cast(k as decimal(10, 2)) from t)",
    "select id from o where d in (select k from t)",
    "select id from o where k in (select k from t order by v limit 3)",
    "select id from o where g = 40 or k in (select k from t where v > 4)",
    "select id, case when k in (select k from t) then 1 else 0 end from o",
    "select id, id in (select k from sure) from o",
    "select id, id not in (select k from sure) from o",
    "select id from o where g = 10 or id not in (select k from sure)",
    # NOT IN
    "select id from o where k not in (select k from t)",
    "select id from o where k not in (select k from t where k is not null)",
    "select id from o where k not in (select k from e)",
    "select id from o where k not in (select k from nulls)",
    "select id from o where k not in (select k from sure)",
    "select id from o where id not in (select k from sure)",
    "select id from o where id not in (select k from t)",
    "select id from o where k not in (select k from t where t.v = o.g)",
    "select id from o where k not in (select k from t where t.s = o.s)",
    "select id from o where (k, g) not in (select k, v from t)",
    "select id from o where (k, id) not in (select k, v from sure)",
    "select id from o where (k, s) not in (select k, s from t where s is not null)",
    "select id from o where not (k in (select k from t where k is not null) or g = 10)",
    "select id from o where k not in (select count(*) from t where t.k = o.k)",
    "select id from o where k not in (select k from t where t.k > o.id)",
    # scalar
    "select id, (select max(v) from t where t.k = o.k) from o",
    "select id, (select count(*) from t where t.k = o.k) from o",
    "select id, (select count(*) + 1 from t where t.k = o.k) from o",
    "select id, (select count(v) from t where t.k <=> o.k) from o",
    "select id, (select sum(v) is null from t where t.k = o.k) from o",
    "select id, (select coalesce(sum(v), -1) from t where t.k = o.k) from o",
    "select id, (select coalesce(sum(v), count(*)) from t where t.k = o.k) from o",
    "select id, (select count(*) from t where t.k = o.k having count(*) > 1) from o",
    "select id, (select count(*) from t where t.k = o.k having count(*) = 0) from o",
    "select id, (select count(distinct v) from t where t.k = o.k and o.g = 10) from o",
    "select id, (select count(*) from e where e.k = o.k), (select max(v) from e where e.k = o.k) from o",
    "select id, (select count(v) from t where t.s = o.k and t.s in ('1', '01')) from o",
    "select id, (select max(t.v) from t join sure on t.k = sure.k where sure.v = o.k) from o",
    "select id, (select max(n) from (select k, count(*) as n from t group by k) where k = o.k) from o",
    "select id, (select max(v) from t where t.k = o.k group by t.k) from o",
    "select id, (select o.k + 1) from o",
    "select id from o where g > (select avg(v) from t where t.k = o.k)",
    "select id from o where 0 = (select count(*) from t where t.k = o.k)",
    "select id from o where (select count(*) from t where t.k = o.k) > 0",
    "select id from o where g > (select max(v) from t) and k < (select count(*) from t where t.s = o.s)",
    "select id from o where g > 3 * (select min(v) from t where t.k = o.k and t.q = o.k) or g is null",
    "select g, sum(k) from o group by g having sum(k) > (select min(v) from t)",
    "select g, count(*) from o group by g having count(*) >= (select count(*) from t where t.v * 2 = o.g)",
    "select id, (select count(*) from t where (t.k = o.k and t.v = 5) or (t.k = o.k and t.s = 'a')) from o",
    "select o.id, t.tid from o join t on o.k = t.k and t.v in (select v from sure union all select 7)",
    "select id from o where (select count(*) from t where t.k = o.k and t.v > o.id) > 0 and g > 0",
    "select id from o where 1 > (select count(*) from t where t.k = o.k and t.v > o.id)",
    "select id from o where (select count(*) from e) = 0 and (select count(v) from t where t.k = o.k) = 0",
    "select id, (select v from t where t.k = o.k order by v desc nulls last, tid limit 1) from o",
    "select id from o where g in (select v + 5 from t where t.k = o.k order by v, tid limit 1 offset 1)",
    "select id, (select max(v) from t where t.k = o.k) as m, m + 1 from o",
    "select id, sum(case when k in (select k from t) then 1 end) over (partition by g) from o",
    "select o.id, t.tid from o left join t on o.k = t.k and t.v not in (select k from nulls union all select 1)",
    "select o.id, t.tid from t right join o on o.k = t.k and exists (select 1 from sure where sure.k = t.k)",
    # nested
    "select id from o where k in (select k from t where exists (select 1 from sure where sure.k = t.k))",
    "select id from o where exists (select 1 from t where t.k = o.k and t.v in (select v + 4 from sure))",
    "select id from o where not exists (select 1 from t where t.k = o.k and t.v > (select avg(v) from t u where u.k = t.k))",
    "select id from o where k in (select k from t where v > (select avg(v) from sure where sure.k = t.k))",
    "with w as (select k, max(v) as m from t group by k) select a.k from w a where a.m = (select max(m) from w)",
    "with w as (select k, max(v) as m from t group by k) select id from o where exists (select 1 from w where w.k = o.k) and k not in (select k from w where m > 6 and k is not null)",
]

# Spark rejects the first text; the second one is equivalent.
REJECTED_BY_SPARK = [
    (
        "select id, (select sum(v) * o.id from t where t.k = o.k) from o",
        "select id, (select sum(v) from t where t.k = o.k) * id from o",
    ),
    (
        "select o.id, t.tid from o join t on o.k = t.k and exists (select 1 from sure where sure.k = o.k and sure.k = t.k)",
        "select o.id, t.tid from o join t on o.k = t.k where exists (select 1 from sure where sure.k = o.k)",
    ),
]

NOT_UNNESTED = [
    "select g, sum(k) from o group by g having sum(k) < (select max(v) from t where t.v < o.g)",
    "select id, k in (select k from t) from o",
    "select id, k not in (select k from sure) from o",
    "select id from o where g = 40 or k not in (select k from t)",
    "select id from o where g = 40 or exists (select 1 from t where t.k = o.k and t.v > o.g)",
    "select id, (select max(v) from t where t.k < o.k) from o",
    "select id from o where exists (select 1 from t where t.k = o.k union all select 1 from sure where sure.k = o.k)",
    "select o.id, t.tid from o left join t on o.k = t.k and o.g in (select v * 2 from t)",
    "select id, (select collect_list(v) from t where t.k = o.k) from o",
]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[Session]:
    with rule_differential.quick(spark):
        yield rule_differential.session(spark)


@pytest.mark.spark
def test_unnested_on_spark(session: Session) -> None:
    plans = []
    for text, meaning in [*((query, query) for query in UNNESTED), *REJECTED_BY_SPARK]:
        plan, _ = rule_differential.rewritten(session, text)
        assert not list(rule_differential.subqueries(plan)), text
        plans.append((meaning, plan))
    assert not rule_differential.differences(session, plans)


@pytest.mark.spark
def test_not_unnested_on_spark(session: Session) -> None:
    plans = [(query, rule_differential.rewritten(session, query)[0]) for query in NOT_UNNESTED]
    assert all(list(rule_differential.subqueries(plan)) for _, plan in plans)
    assert not rule_differential.differences(session, plans)
