"""EXISTS comes after the joins that leave few rows, and before those that do not. That the rows are the same whichever comes
first is tested with all rules (test_alternatives), and on Spark with generated queries."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.described import Described, parse

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.joins import JoinKind
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Optimized, Options, optimize
from unshuffle.verify import verify

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


def planned(tmp_path: Path, query: str) -> Optimized:
    bound = Described(tmp_path / "tables", parse(TABLES)).bind(query, "query", is_script=False)
    found = optimize(bound, Options(Machine(cores=8)))
    verify(found)
    return found


def kinds(optimized: Optimized) -> list[JoinKind]:
    """Of the joins, from the top along the large input."""

    def along(node: Physical) -> list[JoinKind]:
        below = [along(each) for each in node.inputs]
        mine = [node.operator.kind] if isinstance(node.operator, ops.HashJoin | ops.MergeJoin) else []
        return mine + max(below, key=len, default=[])

    return along(optimized.outputs[0][1])


@pytest.mark.parametrize(("asked", "kind"), [("exists", JoinKind.SEMI), ("not exists", JoinKind.ANTI)])
def test_after_a_join_that_leaves_few_rows(tmp_path: Path, asked: str, kind: JoinKind) -> None:
    query = f"select item, year from sales {FEW} where {asked} (select 1 from returns where returned = item)"
    found = planned(tmp_path, query)
    assert kinds(found) == [kind, JoinKind.INNER]
    assert [column.name for column in found.outputs[0][1].columns] == ["item", "year"]


def test_what_is_asked_about_need_not_come_out(tmp_path: Path) -> None:
    query = f"select year from sales {FEW} where exists (select 1 from returns where returned = item)"
    assert kinds(planned(tmp_path, query)) == [JoinKind.SEMI, JoinKind.INNER]


def test_of_several_joins_after_those_that_leave_few(tmp_path: Path) -> None:
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
def test_not_elsewhere(tmp_path: Path, query: str) -> None:
    assert "semi_join_above_join" not in planned(tmp_path, query).trace.rules


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    query = f"select item, year from sales {FEW} where exists (select 1 from returns where returned = item)"
    bound = Described(tmp_path / "tables", parse(TABLES)).bind(query, "query", is_script=False)
    options = Options(Machine(cores=8), disabled=frozenset(["semi_join_above_join"]))
    assert kinds(optimize(bound, options)) == [JoinKind.INNER, JoinKind.SEMI]
