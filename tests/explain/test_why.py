"""Reasons: what forced an exchange or a sort, what would make it unnecessary, what was avoided, and the proofs."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.effort import cases
from tests.support.shops import EIGHT, TABLES, Shops
from unshuffle.cost.machine import Machine
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.why import DependencyRemedy, KeptEnforcer, StorageRemedy, reasons
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan import physical
from unshuffle.plan.logical import Scan
from unshuffle.properties import Delivered, Proof, asc, match, ranged
from unshuffle.properties.matching.inference_rules import first_bad_step
from unshuffle.target import Target
from unshuffle.verify import derive
from workloads.described import Described, parse, with_scans


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Shops:
    return Shops(tmp_path_factory.mktemp("shops"))


def why(optimized: PlannedQuery) -> str:
    return ReasonText(PlanDrawing(optimized), reasons(optimized)).text()


def exchanges(optimized: PlannedQuery) -> list[KeptEnforcer]:
    return [each for each in reasons(optimized).kept if isinstance(each.node.operator, physical.Exchange)]


BY_CITY = "select city, collect_list(shop) as all from visits group by city"
BY_SHOP = "select shop, collect_list(city) as all from visits group by shop"


def test_a_dependency_as_a_remedy(shops: Shops) -> None:
    """Stored by shop, grouped by city: a city has many shops. If it had one, no exchange would be needed."""
    plan = shops.plan(BY_CITY, stored=["shop"])
    (exchange,) = exchanges(plan)
    assert isinstance(exchange.remedy, DependencyRemedy)
    text = why(plan)
    assert "needs rows with equal city in one partition; without the exchange, the layout is hash(shop) into 64" in text
    assert "if city determined shop, this exchange of " in text


def test_a_remedy_removes_the_exchange(shops: Shops) -> None:
    """Declaring the dependency that --why names removes the exchange."""
    plan = shops.plan(BY_CITY, stored=["shop"])
    assert len(exchanges(plan)) == 1
    assert not exchanges(shops.plan(BY_CITY, stored=["shop"], depends=("city", "shop")))


def test_a_declared_dependency_avoids_an_exchange(shops: Shops) -> None:
    """Stored by city, grouped by shop, which has one city: proven by rule 6."""
    plan = shops.plan(BY_SHOP, stored=["city"])
    assert not exchanges(plan)
    (avoided,) = reasons(plan).avoided
    assert avoided.kind == "exchange"
    text = why(plan)
    assert "which needs rows with equal shop in one partition" in text
    assert "the layout is hash(city) into 64" in text
    assert (
        "{shop, city}g ⇒ {shop}g by rule 6: a determined column adds nothing to a grouping, since shop -> city" in text
    )


def test_a_dependency_that_would_preserve_a_layout(shops: Shops) -> None:
    """The shop is dropped below the grouping by city, and its layout with it."""
    inner = "select shop, city, visitor, collect_list(spent) as l from visits group by shop, city, visitor"
    plan = shops.plan(f"select city, collect_list(l) as n from ({inner}) group by city", stored=["shop"])
    (exchange,) = exchanges(plan)
    assert isinstance(exchange.remedy, DependencyRemedy)
    assert "if city determined shop, this exchange of " in why(plan)


def test_a_proof_from_below_a_projection(shops: Shops) -> None:
    """The city is dropped after the first aggregate. All that remains of its layout is that shops are co-located."""
    inner = "select shop, visitor, max(city) as c, collect_list(city) as l from visits group by shop, visitor"
    plan = shops.plan(f"select shop, collect_list(l) as n from ({inner}) group by shop", stored=["city"])
    assert not exchanges(plan)
    assert "since shop -> city" in why(plan)


JOINED = """
R rows=10000000000
    a int distinct=1000000
    b int distinct=1000
    c int distinct=2000000
    p int distinct=100
S rows=10000000000
    a int distinct=1000000
    b int distinct=1000
    d int distinct=500
    p int distinct=100
"""
INTRODUCTION = """
select R.c, S.d, count(*) from R, S where R.a = S.a and R.b = S.b and R.p < 5 and S.p < 7 group by R.c, S.d"""


def planned_joined(folder: Path, tables: str, query: str = INTRODUCTION) -> PlannedQuery:
    return optimize(Described(folder, parse(tables)).bind(query), Options(Target(Machine(cores=500))))


def test_a_dependency_below_a_join_as_a_remedy(tmp_path: Path) -> None:
    """The query of the paper's introduction: c -> a spares the exchange of the join's result, if both sides are partitioned
    on a alone. Nothing that is named is more than that needs, and declaring it removes the exchange."""
    plan = planned_joined(tmp_path / "without", JOINED)
    remedies = [each.remedy for each in exchanges(plan)]
    (remedy,) = [each for each in remedies if isinstance(each, DependencyRemedy)]
    ((determinant, dependent),) = [(each.determinant, each.dependent) for each in remedy.dependencies]
    assert [column.name for column in determinant] == ["c"]
    assert [column.name for column in dependent] == ["a"]
    text = why(plan)
    assert re.search(r"if c determined a#\d+, this exchange of [\d.]+ GB would not be needed", text)
    assert re.search(r"the exchanges of the join below it could partition on a#\d+ alone", text)
    assert len(exchanges(plan)) == 3
    declared = planned_joined(
        tmp_path / "with", JOINED.replace("R rows=10000000000", "R rows=10000000000 depends(c -> a)")
    )
    assert len(exchanges(declared)) == 2


def test_no_dependency_across_an_outer_join_is_a_remedy(tmp_path: Path) -> None:
    """In rows without a match, c is NULL and the rows of S are anywhere."""
    query = INTRODUCTION.replace("from R, S where", "from S left join R on").replace("and S.p < 7", "")
    plan = planned_joined(tmp_path, JOINED, query)
    grouped = [each for each in exchanges(plan) if "by c, d" in str(why(plan))]
    assert grouped
    for each in exchanges(plan):
        if isinstance(each.remedy, DependencyRemedy):
            assert [c.name for d in each.remedy.dependencies for c in d.determinant] != ["c"]


def test_a_proof_by_a_dependency_shows_it(tmp_path: Path) -> None:
    """The join drops the column that it is partitioned on; the proof begins where the column still is."""
    plan = planned_joined(tmp_path, JOINED.replace("R rows=10000000000", "R rows=10000000000 depends(c -> a)"))
    text = why(plan)
    assert re.search(r"the layout is hash\(a#\d+\) into \d+", text)
    assert re.search(r"⇒ \{c\}g by rule 6: a determined column adds nothing to a grouping, since c -> a#\d+", text)
    assert "{c}g ⇒ {c, d}g by rule 2" in text
    for avoided in reasons(plan).avoided:
        for one, following in itertools.pairwise(avoided.proof.steps):
            assert one.after == following.before


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        (
            "HASH CLUSTERED BY visitor INTO 64",
            "the output must be stored as hash(visitor) into 64; without the exchange",
        ),
        ("HASH CLUSTERED BY visitor SORTED BY shop INTO 64", "the output must be stored sorted shop↑"),
    ],
)
def test_the_layout_of_a_stored_output_is_a_reason(tmp_path: Path, layout: str, reason: str) -> None:
    text = f'r = SELECT visitor, shop FROM visits; OUTPUT r TO SSTREAM "{tmp_path}/r.ss" {layout};'
    script = Described(tmp_path / "tables", parse(TABLES)).bind(text, "s.scope", is_script=True)
    plan = optimize(script, EIGHT)
    assert reason in why(plan)
    assert "no operator requires it" not in why(plan)


def test_a_stored_layout_as_a_remedy(shops: Shops) -> None:
    plan = shops.plan(BY_SHOP)
    (exchange,) = exchanges(plan)
    assert isinstance(exchange.remedy, StorageRemedy)
    assert "if visits were stored as hash(shop) into" in why(plan)
    assert not exchanges(shops.plan(BY_SHOP, stored=["shop"]))


def test_a_stored_order_as_a_remedy(shops: Shops) -> None:
    query = "select visitor, row_number() over (partition by shop order by visitor) as n from visits"
    plan = shops.plan(query, stored=["shop"])
    (sort,) = [each for each in reasons(plan).kept if isinstance(each.node.operator, physical.LocalSort)]
    assert isinstance(sort.remedy, StorageRemedy)
    assert "sorted shop↑ visitor↑, this sort of" in why(plan)
    sorted_plan = shops.plan(query, stored=["shop"], sorted_by=["shop", "visitor"])
    assert not reasons(sorted_plan).kept
    assert {each.kind for each in reasons(sorted_plan).avoided} == {"exchange", "sort"}


def test_a_join_names_both_sides(shops: Shops) -> None:
    plan = shops.plan("select name, spent from visits join visitors on visitor = id", stored=["visitor"])
    if not any(isinstance(node.operator, physical.HashJoin | physical.MergeJoin) for node in plan.outputs[0][1].walk()):
        pytest.skip("no pair-wise join")
    text = why(plan)
    assert "all inputs co-partitioned on" in text or "a copy of these rows in every task" in text


def test_a_broadcast_names_the_join_that_needs_it(shops: Shops) -> None:
    plan = shops.plan("select region, spent from visits join shops on shop = shop_id")
    (exchange,) = exchanges(plan)
    assert exchange.forced_by is not None
    assert isinstance(exchange.forced_by.node.operator, physical.HashJoin)
    assert "keeps the layout of its other input, and needs a copy of these rows in every task" in why(plan)


def test_one_exchange_for_two(shops: Shops) -> None:
    """An exchange that serves an aggregate and the one above it is forced by the lower and avoided for the upper."""
    query = "select shop, count(*) as n from (select shop, visitor, max(spent) as m from visits group by shop, visitor) group by shop"
    plan = shops.plan(query)
    avoided = [each for each in reasons(plan).avoided if each.kind == "exchange"]
    assert [type(each.node.operator).__name__ for each in avoided]
    assert len(exchanges(plan)) == 1


@pytest.mark.parametrize("query", [BY_CITY, BY_SHOP, "select city, sum(spent) from visits group by city order by city"])
@pytest.mark.parametrize("stored", [[], ["shop"], ["city"]])
def test_every_proof_step_holds(query: str, stored: list[str], shops: Shops) -> None:
    """Every step of every proof follows from its rule, over facts derived from the leaves."""
    plan = shops.plan(query, stored=stored)
    derivation = derive(plan)
    for root in plan.roots:
        for node in root.walk():
            for satisfied, below in zip(derivation.of(node).satisfied, node.inputs, strict=True):
                input = derivation.of(below)
                assert first_bad_step(satisfied.proof, input.facts) is None
                assert isinstance(match(input.delivered, satisfied.required, input.facts), Proof)


def test_storage_remedies_on_tpch_lower_the_cost(tpch_data: Path) -> None:
    """Storing a table in the layout that a remedy names makes the plan cheaper."""
    from unshuffle.session import Session
    from workloads import tpch

    session = Session(tables=tpch_data)

    def enlarged(scan: Scan) -> Scan:
        rows, size = scan.files.rows or 1, scan.files.bytes or 1
        return replace(scan, files=replace(scan.files, rows=rows * 10_000, bytes=size * 10_000), statistics=None)

    tried = 0
    for number in cases((3, 4, 12, 13, 18, 21), quick=3):
        script = with_scans(session.pipeline.bind(tpch.queries()[number]), enlarged)
        plan = optimize(script, EIGHT)
        for kept in exchanges(plan):
            if not isinstance(kept.remedy, StorageRemedy):
                continue
            remedy = kept.remedy

            def stored(scan: Scan, remedy: StorageRemedy = remedy) -> Scan:
                is_same = {c.id for c in remedy.scan.columns} <= {c.id for c in scan.columns}
                return replace(scan, layout=remedy.layout) if is_same else scan

            better = optimize(with_scans(script, stored), EIGHT)
            assert better.cost < plan.cost
            tried += 1
    assert tried


def test_a_targeted_broadcast(shops: Shops) -> None:
    """Visits are in ranges of visitor and shop, so a visitor's rows may be in several: visitors are copied to those."""
    query = "select v.visitor, v.shop, v.spent, p.name from visits v join visitors p on v.visitor = p.id"

    def by_ranges(scan: Scan) -> Scan:
        if scan.label != "visits":
            return scan
        on = [next(c for c in scan.columns if c.name == name) for name in ("visitor", "shop")]
        cuts = [(100_000 * (i // 2), 7)[: 1 + i % 2] for i in range(2, 401)]
        return replace(scan, layout=Delivered(ranged([asc(c) for c in on], cuts), tuple(asc(c) for c in on)))

    plan = optimize(with_scans(shops.script(query), by_ranges), EIGHT)
    (exchange,) = exchanges(plan)
    text = why(plan)
    assert exchange.remedy is None
    assert "→ targeted broadcast by id to 400 ranges" in text
    assert (
        "HashJoin on visitor = id keeps the layout of its other input, and needs a copy of each of these rows in every"
        in text
    )
    assert "partition of its other input that can have matches: in 1 of 400 on average" in text
    assert (
        "no exchange for HashJoin on visitor = id, which needs the rows of one input in every partition where" in text
    )
    assert "the layout is range(visitor↑, shop↑) into 400, sorted visitor↑ shop↑, and is kept" in text
