"""Redundant operators and joins."""

from __future__ import annotations

import pytest

from tests.support.binding import bind, context_for, expected, up
from tests.support.show import show
from unshuffle.normalize.joins.eliminate_joins import drop_distinct_below_semi_join, drop_repeated_equalities
from unshuffle.normalize.redundant_operators import (
    decide_filter,
    distinct_of_unique,
    drop_limit,
    group_by_of_unique,
    shorten_sort,
    simplify_reflexive,
)
from unshuffle.normalize.rules import EMPTY_INPUTS, normalize


def normalized(query: str) -> str:
    plan = bind(query)
    return show(normalize(plan, context_for(plan)))


GROUPS = [
    (
        "select id, v, count(*), count(v), sum(v), min(n), max(v) filter (where w > 1), avg(v) from k group by id, v",
        """
        project id, v, count(1) = count, count(v) = count, sum(v) = sum, min(n) = min, max(v) FILTER (WHERE (w > 1)) = max, avg(v) = avg
          project id, v, count = 1L, count = CASE WHEN (v IS NOT NULL) THEN 1L ELSE 0L END, sum = CAST(v AS bigint), min = n, max = CASE WHEN (w > 1) THEN v END, avg = CAST(v AS double)
            k(id, v, w, n)
        """,
    ),
    (
        "select a, b, max(n) from (select a, b, count(*) as n from t group by a, b) group by a, b",
        """
        project a, b, max(n) = max
          project a, b, max = n
            project a, b, n = count
              group by a, b: count = count(1)
                t(a, b, c, s, x)
        """,
    ),
    (
        "select distinct id, n from k",
        """
        project id, n
          k(id, v, w, n)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), GROUPS)
def test_groups(query: str, plan: str) -> None:
    """Grouping by a key is a projection."""
    assert up(query, group_by_of_unique, distinct_of_unique) == expected(plan)


GROUPS_THAT_STAY = [
    (
        "select id, collect_list(v) from k group by id",
        """
        project id, collect_list(v) = collect_list
          group by id: collect_list = collect_list(v)
            k(id, v, w, n)
        """,
    ),
    (
        "select v, count(*) from k group by v",
        """
        project v, count(1) = count
          group by v: count = count(1)
            k(id, v, w, n)
        """,
    ),
    (
        "select count(*) from k",
        """
        project count(1) = count
          group by : count = count(1)
            k(id, v, w, n)
        """,
    ),
    (
        "select distinct v, w from k",
        """
        distinct
          project v, w
            k(id, v, w, n)
        """,
    ),
    # GROUP BY makes 0.0 of -0.0
    (
        "select x, max(n) from (select x, count(*) as n from t group by x) group by x",
        """
        project x, max(n) = max
          group by x: max = max(n)
            project x, n = count
              group by x: count = count(1)
                t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), GROUPS_THAT_STAY)
def test_groups_that_stay(query: str, plan: str) -> None:
    """Not without a key, without an exact expression for each aggregate, or with floating-point keys."""
    assert up(query, group_by_of_unique, distinct_of_unique) == expected(plan)


ORDERS = [
    (
        "select id, v, w, n from k order by v, w, id, n",
        """
        sort v ASC NULLS FIRST, id ASC NULLS FIRST
          k(id, v, w, n)
        """,
    ),
    (
        "select id, v, w from k order by w, v",
        """
        sort w ASC NULLS FIRST, v ASC NULLS FIRST
          project id, v, w
            k(id, v, w, n)
        """,
    ),
    (
        "select a, b from t where a = 1 order by a, b, a desc",
        """
        sort b ASC NULLS FIRST
          project a, b
            filter a = 1
              t(a, b, c, s, x)
        """,
    ),
    (
        "select count(*) as n from t order by n",
        """
        project n = count
          group by : count = count(1)
            t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), ORDERS)
def test_orders(query: str, plan: str) -> None:
    """Sort columns that earlier ones determine are dropped, and so is the sort of one row."""
    assert up(query, shorten_sort) == expected(plan)


LIMITS = [
    (
        "select count(*) from t limit 5",
        """
        project count(1) = count
          group by : count = count(1)
            t(a, b, c, s, x)
        """,
    ),
    # may skip the row
    (
        "select count(*) from t limit 5 offset 1",
        """
        limit 5 offset 1
          project count(1) = count
            group by : count = count(1)
              t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t limit 0",
        """
        nothing(a)
        """,
    ),
    (
        "select * from (select a from t limit 5) limit 3",
        """
        limit 3
          project a
            t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), LIMITS)
def test_limits(query: str, plan: str) -> None:
    """Limits of at most one row, of no rows, and of a limit."""
    assert up(query, drop_limit) == expected(plan)


CONDITIONS = [
    (
        "select a from t where 1 = 1 and a = 2",
        """
        project a
          filter a = 2
            t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where false or 2 > 1",
        """
        project a
          t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where a = 1 and a = 2",
        """
        project a
          nothing(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where a is null and a > 1",
        """
        project a
          nothing(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where a = null",
        """
        project a
          nothing(a, b, c, s, x)
        """,
    ),
    (
        "select n from (select count(*) as n, max(a) as m from t) where n is not null and m is not null",
        """
        project n
          filter m IS NOT NULL
            project n = count, m = max
              group by : count = count(1), max = max(a)
                t(a, b, c, s, x)
        """,
    ),
    (
        "select n from (select count(*) as n from t) where n is null",
        """
        nothing(n)
        """,
    ),
    (
        "select * from (select a, 1 as one from t) where one = 1",
        """
        project a, one = 1
          t(a, b, c, s, x)
        """,
    ),
    (
        "select * from (select a, 1 as one from t) where one = 2",
        """
        nothing(a, one)
        """,
    ),
    (
        "select a from t where a = a and c <=> c and s >= s",
        """
        project a
          filter (a IS NOT NULL) AND TRUE AND (s IS NOT NULL)
            t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where a < a",
        """
        project a
          nothing(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), CONDITIONS)
def test_conditions(query: str, plan: str) -> None:
    """Conditions that literals or facts decide."""
    assert up(query, simplify_reflexive, decide_filter) == expected(plan)


CONDITIONS_THAT_STAY = [
    (
        "select a from t where x = 1.0D and x = 2.0D",
        """
        project a
          filter (x = CAST(1.0BD AS double)) AND (x = CAST(2.0BD AS double))
            t(a, b, c, s, x)
        """,
    ),
    # NULL as well, but not asked
    (
        "select a from t where not (a = null)",
        """
        project a
          filter NOT (a = NULL)
            t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where rand() = rand()",
        """
        project a
          filter rand() = rand()
            t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where a is not null",
        """
        project a
          filter a IS NOT NULL
            t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), CONDITIONS_THAT_STAY)
def test_conditions_that_stay(query: str, plan: str) -> None:
    """Not if Python and Spark may compare differently, if NULLs matter, or if it is not deterministic."""
    assert up(query, simplify_reflexive, decide_filter) == expected(plan)


NOTHING = [
    (
        "select a, sum(b) from (select * from t where false) group by a order by a limit 1",
        """
        nothing(a, sum(b))
        """,
    ),
    (
        "select count(*) from (select * from t where false)",
        """
        project count(1) = count
          group by : count = count(1)
            nothing(a, b, c, s, x)
        """,
    ),
    (
        "select a, d from (select * from t where false) join u on a = d",
        """
        nothing(a, d)
        """,
    ),
    (
        "select a, d from (select * from t where false) left join u on a = d",
        """
        nothing(a, d)
        """,
    ),
    (
        "select a, d from t left join (select * from u where false) on a = d",
        """
        project a, d
          project a, b, c, s, x, d = CAST(NULL AS int), e = CAST(NULL AS int), f = CAST(NULL AS bigint), r = CAST(NULL AS string)
            t(a, b, c, s, x)
        """,
    ),
    (
        "select a, d from t full join (select * from u where false) on a = d",
        """
        project a, d
          project a, b, c, s, x, d = CAST(NULL AS int), e = CAST(NULL AS int), f = CAST(NULL AS bigint), r = CAST(NULL AS string)
            t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t left semi join (select * from u where false) on a = d",
        """
        nothing(a)
        """,
    ),
    (
        "select a from t left anti join (select * from u where false) on a = d",
        """
        project a
          project a, b, c, s, x
            t(a, b, c, s, x)
        """,
    ),
    (
        "select a from t where false union all select d from u",
        """
        project a = d
          project d
            u(d, e, f, r)
        """,
    ),
    (
        "select a from t where false union all select f from u union all select d from u",
        """
        union all -> a
          nothing(a)
          project f
            u(d, e, f, r)
          project d
            u(d, e, f, r)
        """,
    ),
    (
        "select a from t where false union all select d from u where false",
        """
        nothing(a)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), NOTHING)
def test_empty_inputs(query: str, plan: str) -> None:
    """Operators over empty inputs are empty, except a GROUP BY without keys and the preserved side of an outer join."""
    assert up(query, decide_filter, *EMPTY_INPUTS) == expected(plan)


SEMI_JOINS = [
    (
        "select * from t left semi join (select distinct d from u) q on a = d",
        """
        left semi on a = d
          t(a, b, c, s, x)
          project d
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left anti join (select d from u group by d) q on a = d",
        """
        left anti on a = d
          t(a, b, c, s, x)
          project d
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left anti join (select d, count(*) as n from u group by d) q on a = d and b = n",
        """
        left anti on (a = d) AND (b = n)
          t(a, b, c, s, x)
          project d, n = count
            group by d: count = count(1)
              u(d, e, f, r)
        """,
    ),
    (
        "select * from t left semi join (select count(*) as n from u) q on true",
        """
        left semi on TRUE
          t(a, b, c, s, x)
          project n = count
            group by : count = count(1)
              u(d, e, f, r)
        """,
    ),
    (
        "select * from t join u on a = d and d = a and b = e",
        """
        inner on (a = d) AND (b = e)
          t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), SEMI_JOINS)
def test_semi_joins(query: str, plan: str) -> None:
    """DISTINCT on the right of a semi-join and repeated equalities are dropped."""
    assert up(query, drop_distinct_below_semi_join, drop_repeated_equalities) == expected(plan)


OUTER_JOINS = [
    (
        "select t.b from t left join k on a = id",
        """
        t(b)
        """,
    ),
    (
        "select t.b from k right join t on a = id and t.c > w",
        """
        t(b)
        """,
    ),
    (
        "select t.b from t left join (select d, count(*) from u group by d) q on a = d",
        """
        t(b)
        """,
    ),
    (
        "select distinct t.b from t left join k on a = v",
        """
        group by b
          t(b)
        """,
    ),
    (
        "select t.b, max(c) from t left join k on a = v group by t.b",
        """
        project b, max(c) = max
          group by b: max = max(c)
            t(b, c)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), OUTER_JOINS)
def test_outer_joins(query: str, plan: str) -> None:
    """An outer join of which one side is read, if no row has two matches or duplicates do not matter."""
    assert normalized(query) == expected(plan)


OUTER_JOINS_THAT_STAY = [
    # rows may have several matches
    (
        "select t.b from t left join k on a = v",
        """
        left outer on a = v -> b
          t(a, b)
          k(v)
        """,
    ),
    (
        "select t.b, sum(c) from t left join k on a = v group by t.b",
        """
        project b, sum(c) = sum
          group by b: sum = sum(c)
            left outer on a = v -> b, c
              t(a, b, c)
              k(v)
        """,
    ),
    # '1' and '01' are both 1
    (
        "select t.b from t left join k on s = id",
        """
        left outer on s = id -> b
          t(b, s)
          k(id)
        """,
    ),
    (
        "select t.b from t full join k on a = id",
        """
        full outer on a = id -> b
          t(a, b)
          k(id)
        """,
    ),
    # nothing says that each row has a match
    (
        "select t.b from t join k on a = id",
        """
        inner on a = id -> b
          t(a, b)
          k(id)
        """,
    ),
    (
        "select t.b, w from t left join k on a = id",
        """
        left outer on a = id -> b, w
          t(a, b)
          k(id, w)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), OUTER_JOINS_THAT_STAY)
def test_outer_joins_that_stay(query: str, plan: str) -> None:
    assert normalized(query) == expected(plan)
