"""Projections, and columns that only rename others."""

from __future__ import annotations

import pytest

from tests.support.binding import bind, context_for, expected, up
from tests.support.show import show
from tests.support.wellformed import problems
from unshuffle.normalize.projections.merge_projections import drop_identity_project, limit_below_project
from unshuffle.normalize.projections.remove_renames import drop_renames
from unshuffle.normalize.rules import MERGE_PROJECTIONS
from unshuffle.plan.logical import Plan

PROJECTS = [
    (
        "select a from (select a, b from (select a, b, c from t))",
        """
        project a
          t(a, b, c, s, x)
        """,
    ),
    (
        "select p + 1 as q from (select a + 1 as p from t)",
        """
        project q = (a + 1) + 1
          t(a, b, c, s, x)
        """,
    ),
    (
        "select p + p as q from (select a as p from t)",
        """
        project q = a + a
          t(a, b, c, s, x)
        """,
    ),
    (
        "select rand() + p as q from (select a + 1 as p from t)",
        """
        project q = rand() + (a + 1)
          t(a, b, c, s, x)
        """,
    ),
    # twice
    (
        "select p + p as q from (select a + 1 as p from t)",
        """
        project q = p + p
          project p = a + 1
            t(a, b, c, s, x)
        """,
    ),
    # for each element
    (
        "select transform(array(1, 2), y -> y + p) as q from (select a + 1 as p from t)",
        """
        project q = transform(array(1, 2), `y` -> (`y` + p))
          project p = a + 1
            t(a, b, c, s, x)
        """,
    ),
    (
        "select p as q, p as r from (select rand() as p from t)",
        """
        project q = p, r = p
          project p = rand()
            t(a, b, c, s, x)
        """,
    ),
    (
        "select p + 1 as q from (select rand() as p from t)",
        """
        project q = p + 1
          project p = rand()
            t(a, b, c, s, x)
        """,
    ),
    # read inside the subquery's plan
    (
        "select (select max(d) from u where e = p) as q from (select a as p from t)",
        """
        project q = project max(d) = max group by : max = max(d) filter e = p u(d, e, f, r)
          project p = a
            t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), PROJECTS)
def test_projects(query: str, plan: str) -> None:
    """Adjacent projections are merged, unless something would be computed twice or is not deterministic."""
    assert up(query, *MERGE_PROJECTIONS) == expected(plan)


IDENTITY = [
    (
        "select a, b from (select a, b from t)",
        """
        project a, b
          t(a, b, c, s, x)
        """,
    ),
    (
        "select b, a from (select a, b from t)",
        """
        project b, a
          project a, b
            t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), IDENTITY)
def test_identity(query: str, plan: str) -> None:
    """A projection that reorders columns is not the identity."""
    assert up(query, drop_identity_project) == expected(plan)


LIMITS = [
    (
        "select a from t order by b limit 2",
        """
        project a
          limit 2
            sort b ASC NULLS FIRST
              project a, b
                t(a, b, c, s, x)
        """,
    ),
    (
        "select rand() as q from t limit 2",
        """
        limit 2
          project q = rand()
            t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), LIMITS)
def test_limits(query: str, plan: str) -> None:
    """Limits move below deterministic projections."""
    assert up(query, limit_below_project) == expected(plan)


RENAMES = [
    # Adjacent joins and filters read originals; the root has its columns back.
    (
        "select z, e from (select a as z, b as y from t) join u on z = d where y > 1",
        """
        project z = a, e
          filter b > 1
            inner on a = d
              project a, b
                t(a, b, c, s, x)
              u(d, e, f, r)
        """,
    ),
    # Groups too.
    (
        "select z, count(*) as n, max(y) as m from (select a as z, b + 1 as y from t) group by z",
        """
        project z = a, n = count, m = max
          group by a: count = count(1), max = max(y)
            project a, y = b + 1
              t(a, b, c, s, x)
        """,
    ),
    # Windows and sorts.
    (
        "select z, row_number() over (partition by z order by y) as n from (select a as z, b as y from t) order by y",
        """
        project z = a, n = row_number
          sort b ASC NULLS FIRST
            project a, row_number, b
              window row_number = row_number() OVER (PARTITION BY a ORDER BY b ASC NULLS FIRST)
                project a, b
                  t(a, b, c, s, x)
        """,
    ),
    # Each use of a table has columns of its own.
    (
        "select p.z, q.z from (select a as z from t) p join (select a as z from t) q on p.z = q.z",
        """
        project z = a, z = a
          inner on a = a
            project a
              t(a, b, c, s, x)
            project a
              t(a, b, c, s, x)
        """,
    ),
    # Set operations see columns by position: a projection stays.
    (
        "select z from (select a as z from t) union all select y from (select d as y from u)",
        """
        union all -> z
          project z = a
            t(a, b, c, s, x)
          project y = d
            u(d, e, f, r)
        """,
    ),
    # Of several copies one is as good as another.
    (
        "select a as y, a as z, a from t where a = 1",
        """
        project y = a, z = a, a
          filter a = 1
            t(a, b, c, s, x)
        """,
    ),
    # In a join, too.
    (
        "select y + z as q from (select a as y, a as z from t) join u on y = d and z = e",
        """
        project q = a + a
          inner on (a = d) AND (a = e)
            project a
              t(a, b, c, s, x)
            u(d, e, f, r)
        """,
    ),
    # Not what a correlated subquery takes into its plan.
    (
        "select q from (select z as q from (select a as z from t) p where exists (select 1 from u where d = z))",
        """
        project q = z
          filter EXISTS (project 1 = 1 filter d = z u(d, e, f, r))
            project z = a
              t(a, b, c, s, x)
        """,
    ),
]


@pytest.mark.parametrize(("query", "shown"), RENAMES)
def test_renames(query: str, shown: str) -> None:
    plan: Plan = bind(query)
    context = context_for(plan)
    plain = drop_renames(plan, context)
    assert plain.columns == plan.columns
    assert not problems(plain)
    assert show(plain) == expected(shown)
    assert drop_renames(plain, context) is plain
