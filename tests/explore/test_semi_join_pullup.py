"""EXISTS comes after the joins that leave few rows, and before those that do not. That the rows are the same whichever comes
first is tested with all rules (test_alternatives), and on Spark with generated queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads.described import Described, parse

TABLES = """
sales  rows=100000000
    item bigint distinct=1000000
    sold_on bigint distinct=10000
    store bigint distinct=100
returns  rows=50000000
    returned bigint distinct=1000000
days  rows=10000 key(day)
    day bigint
    year bigint distinct=30
stores  rows=100 key(number)
    number bigint
    name string width=20 distinct=100
"""
FEW = "join days on sold_on = day and year = 2002"
ALL = "join stores on store = number"


def planned(tmp_path: Path, query: str) -> PlannedQuery:
    bound = Described(tmp_path / "tables", parse(TABLES)).bind(query, "query", is_script=False)
    found = optimize(bound, Options(Target(Machine(cores=8))))
    verify(found)
    return found


def kinds(optimized: PlannedQuery) -> list[JoinKind]:
    """The kinds of the joins, from the root along the large input."""

    def along(node: PhysicalPlan) -> list[JoinKind]:
        below = [along(each) for each in node.inputs]
        mine = [node.operator.kind] if isinstance(node.operator, physical.HashJoin | physical.MergeJoin) else []
        return mine + max(below, key=len, default=[])

    return along(optimized.outputs[0][1])


@pytest.mark.parametrize(("asked", "kind"), [("exists", JoinKind.SEMI), ("not exists", JoinKind.ANTI)])
def test_after_a_join_that_leaves_few_rows(tmp_path: Path, asked: str, kind: JoinKind) -> None:
    query = f"select item, year from sales {FEW} where {asked} (select 1 from returns where returned = item)"
    found = planned(tmp_path, query)
    assert kinds(found) == [kind, JoinKind.INNER]
    assert [column.name for column in found.outputs[0][1].columns] == ["item", "year"]


def test_the_condition_may_read_columns_that_are_not_in_the_result(tmp_path: Path) -> None:
    query = f"select year from sales {FEW} where exists (select 1 from returns where returned = item)"
    assert kinds(planned(tmp_path, query)) == [JoinKind.SEMI, JoinKind.INNER]


def test_after_only_those_joins_that_leave_few_rows(tmp_path: Path) -> None:
    query = f"select name from sales {FEW} {ALL} where exists (select 1 from returns where returned = item)"
    assert kinds(planned(tmp_path, query)).index(JoinKind.SEMI) < 2


NEAR_MISSES = [
    f"select item, name from sales {ALL} where exists (select 1 from returns where returned = item)",
    "select item, year from (select * from sales where exists (select 1 from returns where returned = item)) "
    "right join (select * from days where year = 2002) on sold_on = day",
    f"select item, year from sales {FEW} and rand() < sold_on "
    "where exists (select 1 from returns where returned = item)",
    # Few rows from the start, as there are days.
    "select day, name from days join stores on day = number and name = 'here' "
    "where exists (select 1 from returns where returned = year)",
]


@pytest.mark.parametrize("query", NEAR_MISSES)
def test_rule_does_not_fire(tmp_path: Path, query: str) -> None:
    assert "semi_join_above_join" not in planned(tmp_path, query).trace.rules


def test_rule_can_be_disabled(tmp_path: Path) -> None:
    query = f"select item, year from sales {FEW} where exists (select 1 from returns where returned = item)"
    bound = Described(tmp_path / "tables", parse(TABLES)).bind(query, "query", is_script=False)
    options = Options(Target(Machine(cores=8)), disabled=frozenset(["semi_join_above_join"]))
    assert kinds(optimize(bound, options)) == [JoinKind.INNER, JoinKind.SEMI]
