"""Predicates and joins: the side a condition moves to, outer joins that are inner joins, and cross joins."""

from __future__ import annotations

import pytest

from tests.support.binding import down, expected, up
from unshuffle.normalize.rules import ELIMINATE_CROSS_JOINS, PUSH_PREDICATES, PUSH_SEMI_JOINS

SIDES = [
    (
        "select * from t join u on a = d and b > 1 and e > 2 and a + d > 3 where c > 4 and f > 5 and c <> f",
        """
        inner on (a = d) AND ((a + d) > 3) AND (c <> f)
          filter (b > 1) AND (c > 4)
            t(a, b, c, s, x)
          filter (e > 2) AND (f > 5)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left join u on a = d and b > 1 and e > 2 where c > 4 and coalesce(f, 0) = 0",
        """
        filter coalesce(f, 0) = 0
          left outer on (a = d) AND (b > 1)
            filter c > 4
              t(a, b, c, s, x)
            filter e > 2
              u(d, e, f, r)
        """,
    ),
    (
        "select * from t right join u on a = d and b > 1 and e > 2 where f > 4 and c is null",
        """
        filter c IS NULL
          right outer on (a = d) AND (e > 2)
            filter b > 1
              t(a, b, c, s, x)
            filter f > 4
              u(d, e, f, r)
        """,
    ),
    (
        "select * from t full join u on a = d and b > 1 where b is null and e is null",
        """
        filter (b IS NULL) AND (e IS NULL)
          full outer on (a = d) AND (b > 1)
            t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left semi join u on a = d and b > 1 and e > 2 where c > 4",
        """
        left semi on a = d
          filter (c > 4) AND (b > 1)
            t(a, b, c, s, x)
          filter e > 2
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left anti join u on a = d and b > 1 and e > 2 where c > 4",
        """
        left anti on (a = d) AND (b > 1)
          filter c > 4
            t(a, b, c, s, x)
          filter e > 2
            u(d, e, f, r)
        """,
    ),
    # what is drawn stays where it is
    (
        "select * from t left join u on a = d and rand() < 0.5 where rand() > 0.2 and b = 1",
        """
        filter rand() > 0.2BD
          left outer on (a = d) AND (rand() < 0.5BD)
            filter b = 1
              t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), SIDES)
def test_sides(query: str, plan: str) -> None:
    """Where a condition moves, by the kind of the join and where it is written."""
    assert down(query, *PUSH_PREDICATES) == expected(plan)


COMMA_JOINS = [
    (
        "select a from t, u, k where a = d and e = id and b = 1 and n = 'x'",
        """
        project a
          inner on e = id
            inner on a = d
              filter b = 1
                t(a, b, c, s, x)
              u(d, e, f, r)
            filter n = 'x'
              k(id, v, w, n)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), COMMA_JOINS)
def test_comma_joins(query: str, plan: str) -> None:
    """Conditions of the WHERE connect the inputs of a comma join."""
    assert down(query, *PUSH_PREDICATES) == expected(plan)


OUTER_JOINS = [
    (
        "select * from t left join u on a = d where e > 1",
        """
        inner on a = d
          t(a, b, c, s, x)
          filter e > 1
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t full join u on a = d where e > 1",
        """
        right outer on a = d
          t(a, b, c, s, x)
          filter e > 1
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t full join u on a = d where b > 1",
        """
        left outer on a = d
          filter b > 1
            t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
    (
        "select * from t full join u on a = d where e > 1 and b > 1",
        """
        inner on a = d
          filter b > 1
            t(a, b, c, s, x)
          filter e > 1
            u(d, e, f, r)
        """,
    ),
    # by the join above
    (
        "select * from (select a, e from t left join u on a = d) join k on e = id",
        """
        inner on e = id
          project a, e
            inner on a = d
              t(a, b, c, s, x)
              u(d, e, f, r)
          k(id, v, w, n)
        """,
    ),
    # as the right side of one
    (
        "select * from k left join (select a, e from t left join u on a = d) on e = id",
        """
        left outer on e = id
          k(id, v, w, n)
          project a, e
            inner on a = d
              t(a, b, c, s, x)
              u(d, e, f, r)
        """,
    ),
    (
        "select count(*) from t left join u on a = d group by e having e > 1",
        """
        project count(1) = count
          group by e: count = count(1)
            inner on a = d
              t(a, b, c, s, x)
              filter e > 1
                u(d, e, f, r)
        """,
    ),
    (
        "select * from (select a, e from t left join u on a = d union all select id, v from k) where e = 1",
        """
        union all -> a, e
          project a, e
            inner on a = d
              t(a, b, c, s, x)
              filter e = 1
                u(d, e, f, r)
          project id, v
            filter v = 1
              k(id, v, w, n)
        """,
    ),
    # only the rows without a match
    (
        "select b, e from t left join u on a = d and e > 1 where d is null and c = 1",
        """
        project b, e
          project a, b, c, s, x, d = CAST(NULL AS int), e = CAST(NULL AS int), f = CAST(NULL AS bigint), r = CAST(NULL AS string)
            left anti on a = d
              filter c = 1
                t(a, b, c, s, x)
              filter e > 1
                u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), OUTER_JOINS)
def test_outer_joins(query: str, plan: str) -> None:
    """An outer join whose NULL-extended rows are rejected above is an inner join."""
    assert down(query, *PUSH_PREDICATES) == expected(plan)


OUTER_JOINS_THAT_STAY = [
    (
        "select * from t left join u on a = d where e > 1 or b > 1",
        """
        filter (e > 1) OR (b > 1)
          left outer on a = d
            t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left join u on a = d where e is null",
        """
        filter e IS NULL
          left outer on a = d
            t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left join u on a = d where coalesce(e, 1) = 1",
        """
        filter coalesce(e, 1) = 1
          left outer on a = d
            t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from k right join (select a, e from t left join u on a = d) on e = id",
        """
        right outer on e = id
          k(id, v, w, n)
          project a, e
            left outer on a = d
              t(a, b, c, s, x)
              u(d, e, f, r)
        """,
    ),
    (
        "select * from k left anti join (select a, e from t left join u on a = d) on id = a",
        """
        left anti on id = a
          k(id, v, w, n)
          project a, e
            left outer on a = d
              t(a, b, c, s, x)
              u(d, e, f, r)
        """,
    ),
    (
        "select * from (select a, e from t left join u on a = d order by a limit 2) where e = 1",
        """
        filter e = 1
          limit 2
            sort a ASC NULLS FIRST
              project a, e
                left outer on a = d
                  t(a, b, c, s, x)
                  u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), OUTER_JOINS_THAT_STAY)
def test_outer_joins_that_stay(query: str, plan: str) -> None:
    """Not if a NULL may pass, if the rows are preserved above, or if a limit counts them."""
    assert down(query, *PUSH_PREDICATES) == expected(plan)


PRODUCTS = [
    (
        "select * from t join u join k on a = id and d = v",
        """
        inner on d = v -> a, b, c, s, x, d, e, f, r, id, v, w, n
          inner on a = id
            t(a, b, c, s, x)
            k(id, v, w, n)
          u(d, e, f, r)
        """,
    ),
    (
        "select * from t join (u left join k on d = id) join (select v as y from k) z on a = y and e = y",
        """
        inner on e = y -> a, b, c, s, x, d, e, f, r, id, v, w, n, y
          inner on a = y
            t(a, b, c, s, x)
            project y = v
              k(id, v, w, n)
          left outer on d = id
            u(d, e, f, r)
            k(id, v, w, n)
        """,
    ),
    (
        "select * from t join u join k on a + d = id join (select v as y from k) z on y = a and y = d",
        """
        inner on (a + d) = id -> a, b, c, s, x, d, e, f, r, id, v, w, n, y
          inner on y = d
            inner on y = a
              t(a, b, c, s, x)
              project y = v
                k(id, v, w, n)
            u(d, e, f, r)
          k(id, v, w, n)
        """,
    ),
    # asked for
    (
        "select * from t join u",
        """
        inner on TRUE
          t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
    # would be drawn for other pairs
    (
        "select * from t join u join k on a = id and d = v and rand() < 0.5",
        """
        inner on (a = id) AND (d = v) AND (rand() < 0.5BD)
          inner on TRUE
            t(a, b, c, s, x)
            u(d, e, f, r)
          k(id, v, w, n)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), PRODUCTS)
def test_cross_joins(query: str, plan: str) -> None:
    """Inner joins in an order in which each has a condition, if there is one."""
    assert down(query, *ELIMINATE_CROSS_JOINS) == expected(plan)


SEMI_JOINS = [
    (
        "select * from (t join u on a = d) left semi join k on e = id",
        """
        inner on a = d
          t(a, b, c, s, x)
          left semi on e = id
            u(d, e, f, r)
            k(id, v, w, n)
        """,
    ),
    (
        "select * from (t left join u on a = d) left anti join k on b = id",
        """
        left outer on a = d
          left anti on b = id
            t(a, b, c, s, x)
            k(id, v, w, n)
          u(d, e, f, r)
        """,
    ),
    (
        "select * from (select a, e as z from t join u on a = d) p left semi join k on z = id",
        """
        project a, z = e
          inner on a = d
            t(a, b, c, s, x)
            left semi on e = id
              u(d, e, f, r)
              k(id, v, w, n)
        """,
    ),
    (
        "select * from (t left join u on a = d) left semi join k on e = id",
        """
        left semi on e = id
          left outer on a = d
            t(a, b, c, s, x)
            u(d, e, f, r)
          k(id, v, w, n)
        """,
    ),
    # asks about both
    (
        "select * from (t join u on a = d) left semi join k on e = id and b = v",
        """
        left semi on (e = id) AND (b = v)
          inner on a = d
            t(a, b, c, s, x)
            u(d, e, f, r)
          k(id, v, w, n)
        """,
    ),
    # would join on an expression
    (
        "select * from (select a, e + 1 as z from t join u on a = d) p left semi join k on z = id",
        """
        left semi on z = id
          project a, z = e + 1
            inner on a = d
              t(a, b, c, s, x)
              u(d, e, f, r)
          k(id, v, w, n)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), SEMI_JOINS)
def test_semi_joins(query: str, plan: str) -> None:
    """Semi- and anti-joins move to the input that they read, unless it is NULL-extended."""
    assert up(query, *PUSH_SEMI_JOINS) == expected(plan)
