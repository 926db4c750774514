"""Inferred predicates."""

from __future__ import annotations

import pytest

from tests.support.binding import bind, expected, up
from unshuffle.catalog.types import BOOLEAN
from unshuffle.normalize.predicates.implied_predicates import conditions_on, holds
from unshuffle.normalize.predicates.infer_predicates import (
    factor_disjunctions,
    infer_across_join,
    infer_from_disjunctions,
)
from unshuffle.plan.expressions import Call, Ref
from unshuffle.plan.logical import Filter

ACROSS_JOINS = [
    (
        "select * from (select * from t where a = 5) p join u on a = d",
        """
        inner on a = d
          filter a = 5
            t(a, b, c, s, x)
          filter d = 5
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t join (select * from u where d < 10 and d in (1, 2) and e = 1) q on a = d",
        """
        inner on a = d
          filter (a < 10) AND (a IN (1, 2))
            t(a, b, c, s, x)
          filter (d < 10) AND (d IN (1, 2)) AND (e = 1)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from (select * from t where a between 1 and 5) p left join u on a = d",
        """
        left outer on a = d
          filter a BETWEEN 1 AND 5
            t(a, b, c, s, x)
          filter d BETWEEN 1 AND 5
            u(d, e, f, r)
        """,
    ),
    (
        "select * from (select * from t where a < 5) p left anti join u on a = d",
        """
        left anti on a = d
          filter a < 5
            t(a, b, c, s, x)
          filter d < 5
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left semi join (select * from u where d < 5) q on a = d",
        """
        left semi on a = d
          filter a < 5
            t(a, b, c, s, x)
          filter d < 5
            u(d, e, f, r)
        """,
    ),
    # int and bigint; of the constant nothing more is said
    (
        "select * from (select * from t where a = 5) p join (select * from u where f < 9) q on a = f",
        """
        inner on a = f
          filter a = 5
            t(a, b, c, s, x)
          filter (f < 9) AND (f = 5)
            u(d, e, f, r)
        """,
    ),
    # and on to the next
    (
        "select * from (select * from t where a = 5) p join u on a = d join k on d = id",
        """
        inner on d = id
          inner on a = d
            filter a = 5
              t(a, b, c, s, x)
            filter d = 5
              u(d, e, f, r)
          filter id = 5
            k(id, v, w, n)
        """,
    ),
    (
        "select * from (select * from t where a <> 5) p join u on a <=> d",
        """
        inner on a <=> d
          filter a <> 5
            t(a, b, c, s, x)
          filter d <> 5
            u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), ACROSS_JOINS)
def test_across_joins(query: str, plan: str) -> None:
    """A condition on a join key also holds for the other key, if the join drops rows without a match."""
    assert up(query, infer_across_join) == expected(plan)


NOT_ACROSS_JOINS = [
    (
        "select * from (select a as z, b from t where a = 5) p join (select d as y, e from u where d = 5) q on z = y",
        """
        inner on z = y
          project z = a, b
            filter a = 5
              t(a, b, c, s, x)
          project y = d, e
            filter d = 5
              u(d, e, f, r)
        """,
    ),
    (
        "select * from t left join (select * from u where d < 5) q on a = d",
        """
        left outer on a = d
          t(a, b, c, s, x)
          filter d < 5
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left anti join (select * from u where d < 5) q on a = d",
        """
        left anti on a = d
          t(a, b, c, s, x)
          filter d < 5
            u(d, e, f, r)
        """,
    ),
    (
        "select * from (select * from t where a < 5) p full join u on a = d",
        """
        full outer on a = d
          filter a < 5
            t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
    (
        "select * from (select * from t where s = '1') p join u on s = f",
        """
        inner on s = f
          filter s = '1'
            t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
    # 5.5 is compared with int and bigint at two types
    (
        "select * from (select * from t where a < 5.5) p join u on a = f",
        """
        inner on a = f
          filter a < 5.5BD
            t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
    # not a comparison; said by = already
    (
        "select * from (select * from t where abs(a) = 1 and a is not null) p join u on a = d",
        """
        inner on a = d
          filter (abs(a) = 1) AND (a IS NOT NULL)
            t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), NOT_ACROSS_JOINS)
def test_not_across_joins(query: str, plan: str) -> None:
    """Not if it holds already, for a preserved side, or between types that are compared under a cast."""
    assert up(query, infer_across_join) == expected(plan)


FACTORS = [
    (
        "select * from t, u where (a = d and b = 1) or (a = d and e = 2)",
        """
        filter (a = d) AND ((b = 1) OR (e = 2))
          inner
            t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t where (a = 1 and b = 1) or a = 1",
        """
        filter a = 1
          t(a, b, c, s, x)
        """,
    ),
    # nothing in common
    (
        "select * from t where (a = 1 and b = 1) or (a = 2 and b = 2)",
        """
        filter ((a = 1) AND (b = 1)) OR ((a = 2) AND (b = 2))
          t(a, b, c, s, x)
        """,
    ),
    # drawn twice
    (
        "select * from t where (rand() > 0.5 and b = 1) or (rand() > 0.5 and b = 2)",
        """
        filter ((rand() > 0.5BD) AND (b = 1)) OR ((rand() > 0.5BD) AND (b = 2))
          t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), FACTORS)
def test_factors(query: str, plan: str) -> None:
    """Conjuncts that all alternatives of an OR have in common are factored out."""
    assert up(query, factor_disjunctions) == expected(plan)


DISJUNCTIONS = [
    (
        "select * from t join u on (b = 1 and e = 2) or (b = 2 and e = 1)",
        """
        inner on ((b = 1) AND (e = 2)) OR ((b = 2) AND (e = 1))
          filter (b = 1) OR (b = 2)
            t(a, b, c, s, x)
          filter (e = 2) OR (e = 1)
            u(d, e, f, r)
        """,
    ),
    # nothing of e if b is 2
    (
        "select * from t join u on (b = 1 and e = 2) or (b = 2)",
        """
        inner on ((b = 1) AND (e = 2)) OR (b = 2)
          filter (b = 1) OR (b = 2)
            t(a, b, c, s, x)
          u(d, e, f, r)
        """,
    ),
    (
        "select * from t join u on a = d and ((b = 1 and c = 3 and e = 2) or (b = 1 and c = 4 and e = 1))",
        """
        inner on (a = d) AND (((b = 1) AND (c = 3) AND (e = 2)) OR ((b = 1) AND (c = 4) AND (e = 1)))
          filter (b = 1) AND ((c = 3) OR (c = 4))
            t(a, b, c, s, x)
          filter (e = 2) OR (e = 1)
            u(d, e, f, r)
        """,
    ),
    # rows of t come out all the same
    (
        "select * from t left join u on a = d and ((b = 1 and e = 2) or (b = 2 and e = 1))",
        """
        left outer on (a = d) AND (((b = 1) AND (e = 2)) OR ((b = 2) AND (e = 1)))
          t(a, b, c, s, x)
          filter (e = 2) OR (e = 1)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t left join u on a = d where (b = 1 and e = 2) or (b = 2 and e is null)",
        """
        filter ((b = 1) AND (e = 2)) OR ((b = 2) AND (e IS NULL))
          left outer on a = d
            filter (b = 1) OR (b = 2)
              t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
    (
        "select * from t full join u on a = d where (b = 1 and e = 2) or (b = 2 and e is null)",
        """
        filter ((b = 1) AND (e = 2)) OR ((b = 2) AND (e IS NULL))
          full outer on a = d
            t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), DISJUNCTIONS)
def test_disjunctions(query: str, plan: str) -> None:
    """What an OR implies for one side of a join."""
    assert up(query, infer_from_disjunctions) == expected(plan)


@pytest.mark.parametrize(
    "query",
    [
        "select a from t where a = 1",
        "select z from (select a as z from t where a = 1)",
        "select a from (select a from t where a = 1 union all select d from u where d = 1)",
        "select a from (select * from t where a = 1) left join u on b = e",
        "select a from (select a, count(*) from t where a = 1 group by a)",
        "select a from (select a, row_number() over (partition by a order by b) as n from t where a = 1) where n = 1",
        "select a from (select * from t where a = 1) order by b limit 3",
    ],
)
def test_a_pushed_condition_holds_above(query: str) -> None:
    plan = bind(query)
    column = plan.columns[0]
    (found,) = dict.fromkeys(conditions_on(plan, column))
    assert holds(plan, found)
    assert not holds(plan, Call("isnull", (Ref(column),), BOOLEAN))


@pytest.mark.parametrize(
    "query",
    [
        "select e from t left join (select * from u where e = 1) on a = d",
        "select a from (select a from t where a = 1 union all select d from u)",
        "select z from (select a + 1 as z from t where a = 1)",
    ],
)
def test_a_condition_below_does_not_hold_above(query: str) -> None:
    plan = bind(query)
    assert not isinstance(plan, Filter)
    assert not list(conditions_on(plan, plan.columns[0]))
