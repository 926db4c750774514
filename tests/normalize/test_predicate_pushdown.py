"""Predicate pushdown through all operators but joins."""

from __future__ import annotations

import pytest

from tests.support.binding import bind, context_for, down, expected
from tests.support.random_plans import USER
from tests.support.show import show
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN, INT
from unshuffle.normalize.rules import PUSH_THROUGH_OTHERS
from unshuffle.normalize.traversal import descend
from unshuffle.plan.expressions import Call, Literal, Ref
from unshuffle.plan.logical import Expand, Filter, Plan, Process, Reduce

PROJECTIONS = [
    (
        "select a from (select a, b + 1 as p from t) where p > 2 and a = 1",
        """
        project a
          project a, p = b + 1
            filter ((b + 1) > 2) AND (a = 1)
              t(a, b, c, s, x)
        """,
    ),
    # rand() would be drawn for other rows
    (
        "select a from (select a, rand() as p from t) where a = 1",
        """
        project a
          filter a = 1
            project a, p = rand()
              t(a, b, c, s, x)
        """,
    ),
    (
        "select * from (select a, b from t where rand() < 0.5) where a = 1",
        """
        project a, b
          filter a = 1
            filter rand() < 0.5BD
              t(a, b, c, s, x)
        """,
    ),
    (
        "select * from (select a, b from t where b = 2) where a = 1 and rand() < 0.5",
        """
        filter rand() < 0.5BD
          project a, b
            filter (b = 2) AND (a = 1)
              t(a, b, c, s, x)
        """,
    ),
    # drawn twice
    (
        "select a from t where a = 1 and rand() < 0.5 and a = 1 and rand() < 0.5",
        """
        project a
          filter (a = 1) AND (rand() < 0.5BD) AND (rand() < 0.5BD)
            t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), PROJECTIONS)
def test_projections(query: str, plan: str) -> None:
    """Through a deterministic projection. Nothing moves past a filter that is not deterministic."""
    assert down(query, *PUSH_THROUGH_OTHERS) == expected(plan)


GROUPS = [
    (
        "select * from (select a, sum(b) as n from t group by a) where a > 1 and n > 2",
        """
        project a, n = sum
          filter sum > 2
            group by a: sum = sum(b)
              filter a > 1
                t(a, b, c, s, x)
        """,
    ),
    # the one row is there for no input too
    (
        "select n from (select sum(b) as n from t) where n > 2 and 1 = 2",
        """
        project n = sum
          filter (sum > 2) AND (1 = 2)
            group by : sum = sum(b)
              t(a, b, c, s, x)
        """,
    ),
    # 1 / x tells -0.0 from 0.0
    (
        "select * from (select x, count(*) as n from t group by x) where x > 0 and 1 / x > 0",
        """
        project x, n = count
          filter (1 / x) > 0
            group by x: count = count(1)
              filter x > 0
                t(a, b, c, s, x)
        """,
    ),
    (
        "select * from (select distinct a, b from t) where a = 1",
        """
        distinct
          project a, b
            filter a = 1
              t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), GROUPS)
def test_groups(query: str, plan: str) -> None:
    """Through a GROUP BY on its keys, unless it has none or the condition tells equal keys apart."""
    assert down(query, *PUSH_THROUGH_OTHERS) == expected(plan)


GROUPING_SETS = [
    (
        "select * from (select a, b, sum(c) as n from t group by rollup(a, b)) where a = 1 and n > 0",
        """
        project a, b, n = sum
          filter sum > 0
            grouping sets (a, b), (a): sum = sum(c)
              filter a = 1
                t(a, b, c, s, x)
        """,
    ),
    # true in the sets without a
    (
        "select * from (select a, b, sum(c) as n from t group by rollup(a, b)) where a is null",
        """
        project a, b, n = sum
          filter a IS NULL
            grouping sets (a, b), (a), (): sum = sum(c)
              t(a, b, c, s, x)
        """,
    ),
    (
        "select * from (select a, b, sum(c) as n from t group by grouping sets ((a, b), (a))) where a = 1 and coalesce(b, 0) = 0",
        """
        project a, b, n = sum
          filter coalesce(b, 0) = 0
            grouping sets (a, b), (a): sum = sum(c)
              filter a = 1
                t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), GROUPING_SETS)
def test_grouping_sets(query: str, plan: str) -> None:
    """Below grouping sets if every set has the columns. Sets without a remaining row are dropped."""
    assert down(query, *PUSH_THROUGH_OTHERS) == expected(plan)


WINDOWS = [
    (
        "select * from (select a, b, row_number() over (partition by a order by b) as n, sum(b) over (partition by a, b) as m from t) where a = 1 and b = 2 and n = 1",
        """
        project a, b, n = row_number, m = sum
          filter (b = 2) AND (row_number = 1)
            window row_number = row_number() OVER (PARTITION BY a ORDER BY b ASC NULLS FIRST), sum = sum(b) OVER (PARTITION BY a, b)
              filter a = 1
                t(a, b, c, s, x)
        """,
    ),
    (
        "select * from (select a, sum(b) over () as m from t) where a = 1",
        """
        project a, m = sum
          filter a = 1
            window sum = sum(b) OVER ()
              t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), WINDOWS)
def test_windows(query: str, plan: str) -> None:
    """Below windows that are all partitioned by the columns."""
    assert down(query, *PUSH_THROUGH_OTHERS) == expected(plan)


ORDERS = [
    (
        "select * from (select a, b from t order by b) where a = 1",
        """
        sort b ASC NULLS FIRST
          project a, b
            filter a = 1
              t(a, b, c, s, x)
        """,
    ),
    (
        "select * from (select a, b from t order by b limit 3) where a = 1",
        """
        filter a = 1
          limit 3
            sort b ASC NULLS FIRST
              project a, b
                t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), ORDERS)
def test_orders(query: str, plan: str) -> None:
    """Through a sort, never through a limit."""
    assert down(query, *PUSH_THROUGH_OTHERS) == expected(plan)


SET_OPERATIONS = [
    (
        "select * from (select a, b from t union all select d, f from u) where b > 1 and a = 2",
        """
        union all -> a, b
          project a, b
            filter (CAST(b AS bigint) > 1) AND (a = 2)
              t(a, b, c, s, x)
          project d, f
            filter (f > 1) AND (d = 2)
              u(d, e, f, r)
        """,
    ),
    (
        "select * from (select a from t except select d from u) where a > 1",
        """
        except -> a
          project a
            filter a > 1
              t(a, b, c, s, x)
          project d
            filter d > 1
              u(d, e, f, r)
        """,
    ),
    (
        "select * from (select a, b from t intersect select d, e from u) where a > 1 and rand() < 0.5",
        """
        filter rand() < 0.5BD
          intersect -> a, b
            project a, b
              filter a > 1
                t(a, b, c, s, x)
            project d, e
              filter d > 1
                u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), SET_OPERATIONS)
def test_set_operations(query: str, plan: str) -> None:
    """To each input, under its own names and in the type of the result."""
    assert down(query, *PUSH_THROUGH_OTHERS) == expected(plan)


SHARED_ROWSETS = [
    (
        "with s as (select a, b from t) select p.a from s p join s q on p.a = q.b where p.b > 1",
        """
        project a
          filter b > 1
            inner on a = b
              use of s(a, b)
                shared s
                  project a, b
                    t(a, b, c, s, x)
              use of s(a, b)
                shared s
                  project a, b
                    t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), SHARED_ROWSETS)
def test_shared_rowsets(query: str, plan: str) -> None:
    """Not into a rowset with other readers."""
    assert down(query, *PUSH_THROUGH_OTHERS) == expected(plan)


def pushed(plan: Plan) -> str:
    return show(descend(plan, PUSH_THROUGH_OTHERS, context_for(plan)))


def equals(column: Column, value: int) -> Call:
    return Call("=", (Ref(column), Literal(value, INT)), BOOLEAN)


def test_user_operators() -> None:
    """Below a processor on columns that it passes on; below a reducer only on its keys."""
    scan = bind("select * from t")
    a, b = scan.columns[:2]
    repeated_a, repeated_b, made = Column(101, "a", INT), Column(102, "b", INT), Column(103, "made", INT)
    readonly = ((repeated_a, a), (repeated_b, b))
    wanted = Call("and", (equals(repeated_a, 1), equals(repeated_b, 2), equals(made, 3)), BOOLEAN)
    process = Process(scan, USER, (repeated_a, repeated_b, made), readonly)
    assert pushed(Filter(process, wanted)) == expected(
        """
        filter made = 3
          process -> a, b, made
            filter (a = 1) AND (b = 2)
              t(a, b, c, s, x)
        """
    )
    reduce = Reduce(scan, (a,), (), USER, (repeated_a, repeated_b, made), readonly)
    assert pushed(Filter(reduce, wanted)) == expected(
        """
        filter (b = 2) AND (made = 3)
          reduce -> a, b, made
            filter a = 1
              t(a, b, c, s, x)
        """
    )


def test_expand() -> None:
    """A condition on a key that some set leaves out is copied below if it rejects NULL, and stays above."""
    scan = bind("select * from t")
    a, b, c = scan.columns[:3]
    keys = ((Column(101, "a'", INT), a), (Column(102, "b'", INT), b))
    expand = Expand(scan, keys, ((a, b), (a,)), Column(103, "set", INT))
    is_null = Call("isnull", (Ref(keys[1][0]),), BOOLEAN)
    assert pushed(
        Filter(expand, Call("and", (equals(keys[0][0], 1), equals(keys[1][0], 2), equals(c, 3)), BOOLEAN))
    ) == expected(
        """
        filter b' = 2
          expand (a, b), (a)
            filter (c = 3) AND (a = 1) AND (b = 2)
              t(a, b, c, s, x)
        """
    )
    assert pushed(Filter(expand, is_null)) == expected(
        """
        filter b' IS NULL
          expand (a, b), (a)
            t(a, b, c, s, x)
        """
    )
