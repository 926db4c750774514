"""Conditions that a plan's own filters guarantee for its columns. Inferred predicates are tested in tests/plans/infer_predicates.txt."""

from __future__ import annotations

import pytest

from tests.support.binding import bind
from unshuffle.catalog.types import BOOLEAN
from unshuffle.normalize.predicates.implied_predicates import conditions_on, holds
from unshuffle.plan.expressions import Call, Ref
from unshuffle.plan.logical import Filter


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
