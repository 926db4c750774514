"""The k cheapest plans: the first is the optimizer's plan, all are different and valid, and none is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

import pytest

from tests.support.effort import cases
from tests.support.shops import Shops
from unshuffle.cost.machine import Machine
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import compact
from unshuffle.optimizer import Options, _begin, optimize, optimize_ranked
from unshuffle.plan.logical import Script
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Broadcast, Required
from unshuffle.properties.matching.match_local import implied_local
from unshuffle.search.child_requirements import child_requirements
from unshuffle.search.enforcers import ANYTHING
from unshuffle.search.memo import Group
from unshuffle.search.requirement_pushdown import simplified
from unshuffle.search.search import Search
from unshuffle.search.top_k.ranked_goals import PlanNumbers
from unshuffle.search.top_k.top_k_plans import TopKPlans
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads.described import Described, parse

EIGHT = Options(Target(Machine(cores=8)), accepts=lambda operator, inputs: True)
TABLES = """
t  rows=3000000
    a  bigint  distinct=1000
    b  bigint  distinct=50
u  rows=2000 key(x)
    x  bigint
    y  bigint  distinct=10
"""
TINY = [
    "select a from t",
    "select a, b from t where a > 5",
    "select a, count(*) as n from t group by a",
    "select a, collect_list(b) as l from t group by a",
    "select a, b from t order by a",
    "select a, b from t order by a limit 3",
    "select count(*) as n from t",
    "select distinct b from t",
    "select a, y from t join u on a = x",
    "select y, count(*) as n from t join u on a = x group by y",
]


@pytest.mark.parametrize("number", cases([1, 3, 4, 6, 11, 12, 13, 14, 16, 19, 22], quick=4))
def test_tpch(number: int, tpch_scripts: dict[int, Script]) -> None:
    script = tpch_scripts[number]
    plans = optimize_ranked(script, 6, EIGHT)
    best = optimize(script, EIGHT)
    assert compact(physical_tree(plans[0])) == compact(physical_tree(best))
    assert plans[0].cost == best.cost
    costs = [plan.cost for plan in plans]
    assert costs == sorted(costs)
    same = PlanNumbers()
    assert len({tuple(same.number(root) for root in plan.roots) for plan in plans}) == 6
    for plan in plans:
        verify(plan)


class Exhaustive:
    """All plans of all goals, in no order and without regard to cost."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._same = PlanNumbers()
        self._known: dict[tuple[str, int, Required], list[PhysicalPlan]] = {}

    def solved(self, group: Group, required: Required) -> list[PhysicalPlan]:
        return self._remembered("solved", group, required, self._ways)

    def natural(self, group: Group, required: Required) -> list[PhysicalPlan]:
        return self._remembered("natural", group, required, self._operators)

    def _remembered(self, kind: str, group: Group, required: Required, make: object) -> list[PhysicalPlan]:
        simple = simplified(required, group.facts, group.column_set)
        key = (kind, group.number, simple)
        if key not in self._known:
            found: dict[int, PhysicalPlan] = {}
            for plan in make(group, simple):  # type: ignore[operator]
                if plan.cost < float("inf"):
                    found.setdefault(self._same.number(plan), plan)
            self._known[key] = list(found.values())
        return self._known[key]

    def _ways(self, group: Group, required: Required) -> Iterator[PhysicalPlan]:
        yield from self.natural(group, required)
        if required.local and not isinstance(required.partitioning, Broadcast):
            yield from self._sorted(group, self.solved(group, Required(required.partitioning)), required)
        for each in self._search.builder.exchanges(group, required):
            wish = simplified(each.input, group.facts, group.column_set)
            in_place = list(self.natural(group, wish))
            if wish.local:
                in_place += self._sorted(group, self.natural(group, Required(wish.partitioning)), wish)
            for below in in_place:
                plan = self._search.builder.exchange_over(group, below, each, required)
                if plan is not None:
                    yield plan

    def _sorted(self, group: Group, plans: list[PhysicalPlan], required: Required) -> Iterator[PhysicalPlan]:
        for below in plans:
            if not implied_local(below.delivered.local, required.local, group.facts):
                plan = self._search.builder.sort_over(group, below, required)
                if plan is not None:
                    yield plan

    def _operators(self, group: Group, required: Required) -> Iterator[PhysicalPlan]:
        for each in group.implementations or ():
            for alternative, requests in child_requirements(self._search, group, each, required):
                below = [self.solved(child, wish) for child, wish in zip(each.inputs, requests, strict=True)]
                for inputs in product(*below):
                    plan = self._search.builder.operator_over(group, each, alternative, inputs, required)
                    if plan is not None:
                        yield plan


@pytest.mark.parametrize("query", TINY)
def test_no_plan_is_missing(query: str, tmp_path: Path) -> None:
    script = Described(tmp_path, parse(TABLES)).bind(query)
    run = _begin(script, EIGHT)
    run.best()
    (root,) = run.roots
    every = sorted(plan.cost for plan in Exhaustive(run.search).solved(root, ANYTHING))
    ranked = [cost for cost, _ in islice(TopKPlans(run.search).plans([root]), 300)]
    assert ranked == pytest.approx(every[:300], rel=1e-12)
    assert len(ranked) == min(300, len(every))


def test_two_roots_are_ranked_by_their_sum(tmp_path: Path) -> None:
    text = (
        "r = SELECT a, b FROM t; s = SELECT a, COUNT(*) AS n FROM t GROUP BY a;\n"
        'OUTPUT r TO "r.csv"; OUTPUT s TO "s.csv";'
    )
    script = Described(tmp_path, parse(TABLES)).bind(text, is_script=True)
    plans = optimize_ranked(script, 12, EIGHT)
    costs = [plan.cost for plan in plans]
    assert costs == sorted(costs)
    same = PlanNumbers()
    assert len({tuple(same.number(root) for root in plan.roots) for plan in plans}) == len(plans)
    for plan in plans:
        verify(plan)


STORED = [
    "select visitor, row_number() over (partition by shop order by visitor) as n from visits",
    "select visitor, count(distinct shop) as n from visits group by visitor order by n desc limit 10",
]


@pytest.mark.parametrize("query", STORED)
@pytest.mark.parametrize("into", [16, 1000])
def test_no_plan_of_stored_rows_is_cheaper_than_the_chosen_one(query: str, into: int, tmp_path: Path) -> None:
    """Rows in more partitions take longer to exchange and less to sort: the plan of the exchange alone does not decide."""
    shops = Shops(tmp_path)
    for stored in (["visitor"], ["city"]):
        script = shops.script(query, stored=stored, sorted_by=stored, into=into)
        best, *others = optimize_ranked(script, 3, Options(Target(Machine(cores=8))))
        assert all(other.cost >= best.cost * 0.999 for other in others), [best.cost, *(each.cost for each in others)]
