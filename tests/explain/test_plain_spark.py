"""The exchanges that plain Spark would make: only those that it really makes count as avoided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unshuffle.cost.machine import Machine
from unshuffle.explain.why import reasons
from unshuffle.explain.why.plain_spark import PlainSpark
from unshuffle.optimizer import Options, optimize
from unshuffle.target import SessionSettings, Target
from workloads.described import Described, parse

TABLES = """
big  rows=200000000
    a  int  distinct=1000000
    b  int  distinct=100
    c  int  distinct=20
also rows=100000000
    a  int  distinct=1000000
    d  int  distinct=500
few  rows=300 key(d)
    d  int
    e  string
"""
SMALL = TABLES.replace("000000\n", "0\n")


def counted(folder: Path, query: str, tables: str = TABLES, broadcast: int = 10 << 20) -> tuple[int, int]:
    """The exchanges of plain Spark, and those of them that are avoided."""
    settings = replace(SessionSettings(), auto_broadcast_bytes=broadcast)
    planned = optimize(Described(folder, parse(tables)).bind(query), Options(Target(Machine(cores=2), settings)))
    avoided = sum(len(each.inputs) for each in reasons(planned).avoided if each.kind == "exchange")
    return PlainSpark(planned).exchanges(), avoided


@pytest.mark.parametrize(
    ("query", "exchanges"),
    [
        ("select a, b, count(*) from big group by a, b", 1),
        ("select a, count(*) from (select a, b, count(*) n from big group by a, b) group by a", 2),
        ("select a, b, count(*) from (select a, b, c, count(*) n from big group by a, b, c) group by a, b", 2),
        ("select b.a, c, d from big b join also o on b.a = o.a", 2),
        ("select b.a, count(*) from big b join also o on b.a = o.a group by b.a", 2),
        ("select o.a, b.b, count(*) from big b join also o on b.a = o.a group by o.a, b.b", 2),
        ("select b.a, e from big b join few on b.b = few.d", 1),
        ("select e, count(*) from big b join few on b.b = few.d group by e", 2),
        ("select b.a, row_number() over (partition by b.a order by b.b) from big b join also o on b.a = o.a", 2),
        ("select a from big b left semi join also o on b.a = o.a", 2),
        ("select b.a from big b join also o on b.a <=> o.a group by b.a", 3),
        ("select count(*) from big", 1),
    ],
)
def test_what_spark_exchanges(query: str, exchanges: int, tmp_path: Path) -> None:
    assert counted(tmp_path, query)[0] == exchanges


def test_no_broadcasts_without_a_threshold(tmp_path: Path) -> None:
    query = "select b.a, e from big b join few on b.b = few.d"
    assert counted(tmp_path, query, broadcast=-1)[0] == 2


def test_a_join_that_spark_broadcasts_avoids_one_exchange(tmp_path: Path) -> None:
    """Small tables are planned in one partition. Spark would broadcast one side of each join, not exchange both."""
    query = "select c, e, count(*) from big b join also o on b.a = o.a join few on o.d = few.d group by c, e"
    exchanges, avoided = counted(
        tmp_path, query, SMALL.replace("rows=2000000", "rows=2000").replace("rows=1000000", "rows=1000")
    )
    assert avoided <= exchanges == 3
