"""Column pruning: formats, user-defined operators and facts about dropped columns. Queries are in tests/plans/column_pruning.txt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.binding import bind, context_for
from tests.support.random_plans import USER
from unshuffle.catalog.schema import Dependency
from unshuffle.normalize.projections.column_pruning import prune_columns
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Foreign, Format, Plan, Process, Project, Scan


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
