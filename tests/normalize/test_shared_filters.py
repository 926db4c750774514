"""A shared rowset is filtered by what all of its uses keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.normalize.predicates.shared_filters import filter_shared_rowsets
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize_script
from unshuffle.plan.logical import Filter, Scan, Script, walk
from unshuffle.plan.sql import to_sql
from workloads.described import Described, parse

TABLES = """
sales  rows=1000000
    day     bigint  distinct=1000
    item    bigint  distinct=1000
    amount  double
days  rows=1000 key(day)
    day     bigint  distinct=1000
    month   bigint  distinct=12
    year    bigint  distinct=10
"""
MONTHLY = """with monthly as (
    select item, month, year, sum(amount) as amount from sales join days on sales.day = days.day group by item, month, year
) """


def normalized(folder: Path, query: str) -> tuple[Script, Rewriting]:
    script = Described(folder / "tables", parse(TABLES)).bind(MONTHLY + query, "query", is_script=False)
    context = Rewriting(ColumnNumbers(1 + max(c.id for node in script.operators() for c in node.columns)))
    return normalize_script(script, context), context


def filters_of(script: Script, table: str) -> set[str]:
    """The filters directly above the scans of a table."""
    found = set()
    for output in script.outputs:
        for node in walk(output.plan):
            if isinstance(node, Filter) and isinstance(node.child, Scan) and node.child.label == table:
                found.add(to_sql(node.predicate, lambda column: column.name, str))
    return found


PAIR = "select a.item, b.amount - a.amount as more from monthly a join monthly b on a.item = b.item "


def test_what_no_use_keeps_is_dropped_at_the_scan(tmp_path: Path) -> None:
    script, context = normalized(tmp_path, PAIR + "where a.month = 1 and b.month = 2")
    assert context.fired[filter_shared_rowsets.__name__]
    assert filters_of(script, "days") == {"((month = 1) OR (month = 2))"}


def test_conditions_on_each_column_are_put_together(tmp_path: Path) -> None:
    query = PAIR + "where a.month = 1 and a.year = 2001 and b.month = 2 and b.year = 2002 and b.amount > 0"
    script, _ = normalized(tmp_path, query)
    (condition,) = filters_of(script, "days")
    assert "((month = 1) OR (month = 2))" in condition
    assert "((year = 2001) OR (year = 2002))" in condition


@pytest.mark.parametrize(
    "query",
    [
        PAIR + "where a.month = 1",  # b needs all months
        PAIR + "where a.month = 1 and b.year = 2001",
        PAIR + "where a.month = 1 or b.month = 2",
        "select a.item from monthly a where a.month = 1 and a.amount > (select avg(amount) from monthly)",
        "select a.item from monthly a where a.month = 1 union all select b.item from (select * from monthly limit 5) b "
        "where b.month = 2",
        PAIR + "where rand() < 0.5 and a.month = 1",
    ],
)
def test_a_use_that_keeps_all_rows_keeps_them(tmp_path: Path, query: str) -> None:
    script, _ = normalized(tmp_path, query)
    assert not any("month" in condition and "OR" in condition for condition in filters_of(script, "days"))
    assert any(isinstance(node, Scan) and node.label == "days" for o in script.outputs for node in walk(o.plan))
