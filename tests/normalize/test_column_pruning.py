"""Column pruning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.binding import bind, context_for, expected
from tests.support.random_plans import USER
from tests.support.show import show
from tests.support.wellformed import problems, rowsets
from unshuffle.catalog.schema import Dependency
from unshuffle.normalize.projections.column_pruning import prune_columns
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Foreign, Format, Plan, Process, Project, Scan


def pruned(query: str) -> str:
    plan = bind(query)
    narrow = prune_columns(plan, context_for(plan))
    assert narrow.columns == plan.columns
    assert not problems(narrow)
    assert all(count == 1 for count in rowsets(narrow).values())
    assert prune_columns(narrow, context_for(plan)) is narrow
    return show(narrow)


RELATIONAL = [
    # what only the filter reads goes no further
    (
        "select a from t where b = 1",
        """
        project a
          filter b = 1
            t(a, b)
        """,
    ),
    (
        "select t.b, u.e from t join u on a = d",
        """
        project b, e
          inner on a = d -> b, e
            t(a, b)
            u(d, e)
        """,
    ),
    (
        "select t.b from t left semi join u on a = d and c < e",
        """
        project b
          left semi on (a = d) AND (c < e) -> b
            t(a, b, c)
            u(d, e)
        """,
    ),
    (
        "select a from (select a, sum(b) as m, sum(c) as n from t group by a) where n > 0",
        """
        project a
          filter n > 0
            project a, n = sum
              group by a: sum = sum(c)
                t(a, c)
        """,
    ),
    # rows without columns are counted by one
    (
        "select count(*) from t",
        """
        project count(1) = count
          group by : count = count(1)
            t(a)
        """,
    ),
    (
        "select count(*) from (select a, count(*) as m from t group by a)",
        """
        project count(1) = count
          group by : count = count(1)
            project a
              group by a
                t(a)
        """,
    ),
    (
        "select a from (select a, row_number() over (order by b) as n, sum(c) over (partition by b) as m from t) where n < 3",
        """
        project a
          filter n < 3
            project a, n = row_number
              window row_number = row_number() OVER (ORDER BY b ASC NULLS FIRST)
                t(a, b)
        """,
    ),
    (
        "select a from (select a, row_number() over (order by b) as n from t)",
        """
        project a
          project a
            t(a)
        """,
    ),
    (
        "select a from (select a, b, c from t order by b)",
        """
        project a
          sort b ASC NULLS FIRST
            project a, b
              t(a, b)
        """,
    ),
    (
        "select n from (select a, b, count(*) as n, sum(c) as m from t group by rollup(a, b))",
        """
        project n
          project n = count
            grouping sets (a, b), (a), (): count = count(1)
              t(a, b)
        """,
    ),
    (
        "select y from (values (1, 2), (3, 4)) as v(x, y)",
        """
        project y = col2
          values(col2) 2 rows
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), RELATIONAL)
def test_relational(query: str, plan: str) -> None:
    """Scans, projections, filters, joins and groupings drop columns that nobody reads."""
    assert pruned(query) == expected(plan)


SETS = [
    (
        "select a from (select a, b, c from t union all select d, e, f from u)",
        """
        project a
          union all -> a
            project a
              t(a)
            project d
              u(d)
        """,
    ),
    (
        "select a from (select a, b from t union select d, e from u)",
        """
        project a
          union -> a, b
            project a, b
              t(a, b)
            project d, e
              u(d, e)
        """,
    ),
    (
        "select a from (select a, b from t except all select d, e from u)",
        """
        project a
          except all -> a, b
            project a, b
              t(a, b)
            project d, e
              u(d, e)
        """,
    ),
    (
        "select a from (select distinct a, b from t)",
        """
        project a
          distinct
            project a, b
              t(a, b)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), SETS)
def test_sets(query: str, plan: str) -> None:
    """UNION ALL prunes all inputs alike. DISTINCT and the other set operations need every column."""
    assert pruned(query) == expected(plan)


SHARED = [
    (
        "with s as (select a, b, c, x from t) select p.a from s p join s q on p.a = q.b",
        """
        project a
          inner on a = b -> a
            project a
              use of s(a, b)
                shared s
                  project a, b
                    t(a, b)
            project b
              use of s(a, b)
                shared s
                  project a, b
                    t(a, b)
        """,
    ),
    (
        "with s as (select a, b, c, x from t) select p.a from s p where p.c > (select max(q.b) from s q)",
        """
        project a
          filter c > (project max(b) = max group by : max = max(b) project b use of s(a, b, c) shared s project a, b, c t(a, b, c))
            use of s(a, b, c)
              shared s
                project a, b, c
                  t(a, b, c)
        """,
    ),
]


@pytest.mark.parametrize(("query", "plan"), SHARED)
def test_shared(query: str, plan: str) -> None:
    """A shared rowset keeps the columns that any reader needs, also inside subqueries."""
    assert pruned(query) == expected(plan)


def scan_of(query: str) -> Scan:
    plan = bind(query)
    assert isinstance(plan, Scan)
    return plan


def only(plan: Plan, *names: str) -> Project:
    return Project(plan, tuple((column, Ref(column)) for column in plan.columns if column.name in names))


def test_columns_of_user_code_stay() -> None:
    scan = scan_of("select * from t")
    plan = Process(scan, USER, (replace(scan.columns[0], id=100),))
    assert prune_columns(plan, context_for(plan)) is plan
    foreign = Foreign("select 1", (("t", scan),), (replace(scan.columns[0], id=100),), "a test")
    assert prune_columns(foreign, context_for(foreign)) is foreign


@pytest.mark.parametrize(
    ("format", "narrows"),
    [
        (Format("Parquet"), True),
        (Format("Json"), True),
        (Format("Csv", (("header", True),)), True),
        (Format("Csv"), False),
        (Format("Text"), False),
        (USER, False),
    ],
)
def test_scans_skip_columns_only_in_formats_with_names(format: Format, narrows: bool) -> None:
    scan = scan_of("select * from t")
    scan = replace(scan, files=replace(scan.files, format=format))
    plan = only(scan, "a")
    narrow = prune_columns(plan, context_for(plan))
    assert isinstance(narrow, Project)
    assert [column.name for column in narrow.child.columns] == (["a"] if narrows else ["a", "b", "c", "s", "x"])


def test_facts_through_a_dropped_column_are_kept() -> None:
    """The key id determines v, and v determines w. Without v, id still determines w, and what determined id is a key."""
    scan = scan_of("select * from k")
    id, _, w, n = scan.columns
    scan = replace(scan, dependencies=(*scan.dependencies, Dependency(frozenset((n,)), frozenset((id,)))))
    plan = only(scan, "w", "n")
    narrow = prune_columns(plan, context_for(plan))
    assert isinstance(narrow, Project)
    assert isinstance(narrow.child, Scan)
    assert narrow.child.keys == (frozenset((n,)),)
    facts = context_for(plan).facts(narrow.child)
    assert facts.determines((n,), (w,))
    assert facts.mentioned <= {w, n}


def test_disabled() -> None:
    plan = bind("select a from t")
    assert prune_columns(plan, context_for(plan, ["prune_columns"])) is plan
