"""Desugaring keeps the rows of random plans, and those of queries on Spark. The plans are in tests/plans/desugar.txt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from pyspark.sql import SparkSession

from tests.support import rule_differential
from tests.support.correlated_queries import filled_tables
from tests.support.evaluation import result
from tests.support.random_plans import plans, random_plan_settings
from tests.support.wellformed import problems
from unshuffle import Session
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import DESUGAR
from unshuffle.normalize.traversal import ascend
from unshuffle.plan.logical import Plan


@random_plan_settings(normal=50, quick=20)
@given(plans(), filled_tables())
def test_random_plans_give_the_same_rows(drawn: tuple[Plan, ColumnNumbers], data: dict[str, list[Any]]) -> None:
    plan, numbers = drawn
    changed = ascend(plan, DESUGAR, Rewriting(numbers))
    assert changed.columns == plan.columns
    assert not problems(changed)
    assert result(changed, data) == result(plan, data)


# --- on Spark: the rule that must fire, and a query

REWRITTEN = [
    # set operations
    ("distinct_as_group_by", "select distinct k, s from o"),
    ("distinct_as_group_by", "select distinct d from o"),
    ("union_as_group_by", "select k from o union select k from t"),
    ("union_as_group_by", "select k, s from o union select q, s from t union select k, 'x' from e"),
    ("union_as_group_by", "select distinct k from o union (select k from t union all select 99)"),
    ("flatten_unions", "select k from o union all (select k from t union all select k from e)"),
    ("flatten_unions", "select k from o union all (select q from t union all select k from sure)"),
    ("intersect_as_semi_join", "select k from o intersect select k from t"),
    ("intersect_as_semi_join", "select k, s from o intersect select q, s from t"),
    ("intersect_as_semi_join", "select d from o intersect select k from t"),
    ("intersect_as_semi_join", "select d from o intersect select d + 0 from o"),
    ("intersect_as_semi_join", "select k from o intersect select k from e"),
    ("except_as_anti_join", "select k from o except select k from t"),
    ("except_as_anti_join", "select k, g from o except select k, v from t"),
    ("except_as_anti_join", "select k from o except select cast(k as decimal(10, 2)) from t where k is not null"),
    ("except_as_anti_join", "select k from o except select k from e"),
    ("except_as_anti_join", "select k from o except select k from t intersect select k from sure"),
    # grouping sets
    ("grouping_sets_as_expand", "select k, g, count(*), sum(k) from o group by rollup (k, g)"),
    ("grouping_sets_as_expand", "select k, g, s, count(*), grouping(g), grouping_id() from o group by cube (k, g, s)"),
    ("grouping_sets_as_expand", "select k, g, grouping(k) + grouping(g) from o group by grouping sets ((k), (g), ())"),
    ("grouping_sets_as_expand", "select k, count(*) from o group by grouping sets ((k), (k), ())"),
    ("grouping_sets_as_expand", "select k, g, max(d), grouping_id(k, g) from o group by grouping sets ((k, g), (g))"),
    ("grouping_sets_as_expand", "select k, count(*), sum(v) from e group by rollup (k)"),
    ("grouping_sets_as_expand", "select count(*) from e group by grouping sets (())"),
    ("grouping_sets_as_expand", "select count(*) from e group by grouping sets ((), ())"),
    ("grouping_sets_as_expand", "select count(*), grouping_id() from o group by grouping sets ((), ())"),
    ("grouping_sets_as_expand", "select k, count(*), grouping(k) from o group by grouping sets ((k))"),
    ("grouping_sets_as_expand", "select k + 1 as j, count(distinct g) from o group by rollup (k + 1)"),
    ("grouping_sets_as_expand", "select k, sum(id) from o group by rollup (k) having grouping(k) = 1 or sum(id) > 3"),
    # windows
    (
        "split_windows",
        "select id, sum(k) over (partition by g), rank() over (partition by g order by id), count(*) over () from o",
    ),
    (
        "split_windows",
        "select id, max(k) over (partition by g), min(k) over (partition by s), max(k) over (partition by g order by id "
        "rows between 1 preceding and current row), sum(k) over (partition by g) from o",
    ),
    ("compute_window_expressions", "select id, sum(k + 1) over (partition by upper(s)) from o"),
    ("compute_window_expressions", "select id, lag(k * 2, 1, -1) over (order by -id, k) from o"),
    ("compute_window_expressions", "select id, ntile(2) over (partition by g + 1 order by id desc, k) from o"),
    ("compute_window_expressions", "select k, rank() over (partition by 1 order by sum(id) desc) from o group by k"),
    (
        "compute_window_expressions",
        "select id, sum(id) over (order by id + 1 range between 1 preceding and 1 following), count(*) over (partition "
        "by k % 2) from o",
    ),
    # distinct aggregates
    ("merge_percentiles", "select g, percentile(k, 0.5), percentile(k, array(0.1, 1)), median(k) from o group by g"),
    ("merge_percentiles", "select percentile(k, 0.25), count(k), percentile(k, array(0.75D)) from e"),
    ("merge_percentiles", "select median(k) filter (where id > 1), percentile(k, 1.0) filter (where id > 1) from o"),
    ("sort_collected_numbers", "select g, array_sort(collect_list(k)), size(array_sort(collect_set(id))) from o group by g"),
    ("sort_collected_numbers", "select aggregate(slice(array_sort(array_agg(k)), 2, 3), 0, (s, x) -> s + x) from e"),
    ("distinct_aggregates_as_group_by", "select g, count(distinct k) from o group by g"),
    ("distinct_aggregates_as_group_by", "select count(distinct k) from o"),
    ("distinct_aggregates_as_group_by", "select count(distinct k), sum(distinct k) from e"),
    ("distinct_aggregates_as_group_by", "select g, count(distinct k, s) from o group by g"),
    ("distinct_aggregates_as_group_by", "select g, sum(distinct k + 1), avg(distinct k + 1), max(k + 1) from o group by g"),
    ("distinct_aggregates_as_group_by", "select g, count(distinct d), sum(k), count(*), min(s) from o group by g"),
    ("distinct_aggregates_as_group_by", "select count(distinct k), count(*), count(v), max(v), sum(v) from e"),
    ("distinct_aggregates_as_group_by", "select count(distinct s), sum(cast(d as decimal(8, 3))) filter (where k < 3), sum(d) from o where id <> 4"),
    ("distinct_aggregates_as_group_by", "select k, count(distinct k) from o group by k"),
    ("drop_redundant_distinct", "select g, min(distinct k), count(*), max(distinct s) from o group by g"),
    # join and sort keys
    ("compute_join_keys", "select o.id, t.tid from o join t on o.k + 1 = t.k"),
    ("compute_join_keys", "select o.id, t.tid from o join t on substring(o.s, 1, 1) = substring(t.s, 1, 1) and o.k = t.k"),
    ("compute_join_keys", "select o.id, t.tid from o left join t on cast(o.k as string) = t.s"),
    ("compute_join_keys", "select o.id, t.tid from o full join t on o.k + 1 <=> t.k * 1 and o.id < t.tid"),
    ("compute_join_keys", "select * from o left semi join t on upper(t.s) = upper(o.s)"),
    ("compute_join_keys", "select * from o left anti join t on t.k - 1 = o.k"),
    ("compute_join_keys", "select o.id, u.k from o join t on o.k = t.k join sure u on substring(t.s, 1, 1) = cast(u.k as string)"),
    ("compute_join_keys", "select count(*) from o join t on o.d + 0 = t.k + 0"),
    # sorts
    ("remove_redundant_sort", "select g, sum(k) from (select * from o order by id) group by g"),
    ("remove_redundant_sort", "select count(*) from (select k from o order by id) a join (select k from t order by v) b on a.k = b.k"),
    ("remove_redundant_sort", "select distinct k from (select * from o order by d)"),
    ("remove_redundant_sort", "(select k from o order by id) union all (select k from t order by v)"),
    ("remove_redundant_sort", "select k from (select k from o where k > 0 order by id) where k < 4 order by k"),
    ("remove_redundant_sort", "select id, rank() over (partition by g order by id) from (select * from o order by k)"),
]  # fmt: skip

# The rule, and a query on which it must not fire.
NOT_REWRITTEN = [
    ("intersect_as_semi_join", "select k from o intersect all select k from t"),
    ("except_as_anti_join", "select k from o except all select k from t"),
    ("union_as_group_by", "select k from o union all select k from t"),
    ("flatten_unions", "select k from o union all (select d from o union all select k from sure)"),
    ("merge_percentiles", "select percentile(k, 0.5), percentile(d, 0.5), percentile(k, 0.5, 2) from o"),
    ("merge_percentiles", "select median(k) filter (where id > 1), percentile(k, 1.0) from o"),
    ("merge_percentiles", "select median(k), percentile(distinct k, 1.0) from o"),
    ("sort_collected_numbers", "select array_sort(collect_list(d)), array_sort(collect_list(s)) from o"),
    ("sort_collected_numbers", "select array_sort(transform(collect_list(k), x -> nullif(x, 1))) from o"),
    ("sort_collected_numbers", "select array_sort(collect_list(k), (x, y) -> y - x) from o"),
    ("distinct_aggregates_as_group_by", "select g, count(distinct k), avg(k) from o group by g"),
    ("distinct_aggregates_as_group_by", "select g, count(distinct k), count(distinct s) from o group by g"),
    ("distinct_aggregates_as_group_by", "select g, count(distinct k) filter (where id > 1) from o group by g"),
    ("distinct_aggregates_as_group_by", "select g, max(distinct k) from o group by g"),
    ("compute_join_keys", "select o.id from o join t on o.k + t.k = 3"),
    ("compute_join_keys", "select o.id from o join t on o.k + 1 < t.k"),
    ("compute_join_keys", "select o.id from o join t on o.k = t.k and o.g + 1 = 11"),
    ("remove_redundant_sort", "select sum(k) from (select * from o order by id limit 3)"),
    ("remove_redundant_sort", "select k from (select k, id from o order by id) where k > 1"),
    ("remove_redundant_sort", "select collect_list(k) from (select k from o order by id, k)"),
    ("split_windows", "select id, sum(k) over w, max(k) over w from o window w as (partition by g order by id)"),
    ("compute_window_expressions", "select id, ntile(1 + 1) over (partition by g order by id, k) from o"),
]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[Session]:
    with rule_differential.quick(spark):
        yield rule_differential.session(spark)


@pytest.mark.spark
@pytest.mark.parametrize("fires", [True, False])
def test_on_spark(session: Session, fires: bool) -> None:
    pairs = []
    for rule, query in REWRITTEN if fires else NOT_REWRITTEN:
        plan, fired = rule_differential.rewritten(session, query)
        assert (rule in fired) is fires, query
        pairs.append((query, plan))
    assert not rule_differential.differences(session, pairs)
