"""Passes over joins that are written twice, and over what windows computed: the rows are those of the query as it was bound, run in
plain Python on random small tables."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.explore.test_near_misses import fired, forced
from tests.support.binding import bind
from tests.support.evaluation import result

ON = ("t.b = u.d", "u.d = t.b", "t.b = u.d and t.c = u.e", "t.b <=> u.d")
ASKED = ("", " where t.c > 1", " where u.e < 2", " where t.c > 1 and u.e > 0", " where t.c < u.e")
KINDS = ("join", "left join", "right join", "full join", "left semi join", "left anti join")
DRAW = random.Random(22)


def written_twice() -> str:
    """Both sides group one join, under other conditions."""
    on = DRAW.choice(ON)
    one = f"select t.a, count(*) n, max(u.e) m from t join u on {on}{DRAW.choice(ASKED)} group by t.a"
    other = f"select t.a, count(*) n, min(t.c) m from t join u on {on}{DRAW.choice(ASKED)} group by t.a"
    if DRAW.random() < 0.4:
        return f"{one} union all {other}"
    kind = DRAW.choice(KINDS)
    shown = "l.a, l.n, l.m" if kind in KINDS[4:] else "l.a, l.n, r.a as b, r.m"
    return f"select {shown} from ({one}) l {kind} ({other}) r on l.a {DRAW.choice(('=', '<=>'))} r.a"


def first_few() -> str:
    """The first rows of each group, joined with an aggregate of the group. Ties are in an order of all columns."""
    asked = DRAW.choice(("", "", " where c > 0"))
    kind = DRAW.choice(("join", "left join", "left semi join", "left anti join"))
    shown = "l.a, l.b" if kind in KINDS[4:] else "l.a, l.b, r.m"
    return f"""
        select {shown} from (select * from (select a, b, c, row_number() over (partition by a order by b, c) k from t{asked})
            where k <= {DRAW.choice((1, 2, 3))}) l
        {kind} (select a, {DRAW.choice(("count(*)", "max(c)", "sum(b)"))} m from t{asked} group by a) r
        on l.a {DRAW.choice(("=", "<=>"))} r.a{DRAW.choice(("", " and r.m > 1"))}"""


def table(columns: str) -> list[dict[str, Any]]:
    value = (None, 0, 1, 2, 3)
    return [{name: DRAW.choice(value) for name in columns} for _ in range(DRAW.choice((0, 1, 4, 8)))]


@pytest.mark.parametrize("shape", [written_twice, first_few], ids=lambda shape: shape.__name__)
def test_rows_are_those_of_the_query(shape: Any) -> None:
    rewritten = 0
    for _ in range(40):
        query = shape()
        rewritten += bool(fired(query))
        plan, other = bind(query), forced(query)
        for _ in range(15):
            data = {"t": table("abcsx"), "u": table("defr")}
            assert result(other, data) == result(plan, data), f"{query}\n{data}"
    assert rewritten > 25
