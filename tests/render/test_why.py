"""Reasons: what forced an exchange or a sort, what would make it go, what was avoided and how that is proven."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.described import with_scans

from unshuffle.algebra import operators as ops
from unshuffle.algebra.logical import Scan
from unshuffle.optimizer import Optimized, optimize
from unshuffle.properties import Delivered, Proof, asc, match, ranged
from unshuffle.properties.rules import first_bad_step
from unshuffle.render.physical import Drawing
from unshuffle.render.why import Telling
from unshuffle.verify import derive
from unshuffle.why import Determined, Kept, Stored, reasons

from .shops import EIGHT, Shops


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Shops:
    return Shops(tmp_path_factory.mktemp("shops"))


def told(optimized: Optimized) -> str:
    return Telling(Drawing(optimized), reasons(optimized)).text()


def moves(optimized: Optimized) -> list[Kept]:
    return [each for each in reasons(optimized).kept if isinstance(each.node.operator, ops.Move)]


BY_CITY = "select city, collect_list(shop) as all from visits group by city"
BY_SHOP = "select shop, collect_list(city) as all from visits group by shop"


def test_a_dependency_that_would_do(shops: Shops) -> None:
    """Stored on the shop, grouped by the city: a city has many shops, and if it had one, nothing would move."""
    plan = shops.plan(BY_CITY, stored=["shop"])
    (exchange,) = moves(plan)
    assert isinstance(exchange.remedy, Determined)
    text = told(plan)
    assert "needs rows with equal city in one partition; without it they are hash(shop) into 64" in text
    assert "if city determined shop, this exchange of " in text


def test_what_would_do_does(shops: Shops) -> None:
    """The dependency that --why names, once declared, makes the exchange go."""
    plan = shops.plan(BY_CITY, stored=["shop"])
    assert len(moves(plan)) == 1
    assert not moves(shops.plan(BY_CITY, stored=["shop"], depends=("city", "shop")))


def test_a_dependency_that_does(shops: Shops) -> None:
    """Stored on the city, grouped by the shop, which has one city: proven by rule 6."""
    plan = shops.plan(BY_SHOP, stored=["city"])
    assert not moves(plan)
    (avoided,) = reasons(plan).avoided
    assert avoided.what == "exchange"
    text = told(plan)
    assert "which needs rows with equal shop in one partition" in text
    assert "the rows are hash(city) into 64" in text
    assert (
        "{shop, city}g ⇒ {shop}g by rule 6: a determined column adds nothing to a grouping, since shop -> city" in text
    )


def test_a_dependency_that_would_keep_a_layout(shops: Shops) -> None:
    """The shop is dropped before the cities are brought together, and its layout with it."""
    inner = "select shop, city, visitor, collect_list(spent) as l from visits group by shop, city, visitor"
    plan = shops.plan(f"select city, collect_list(l) as n from ({inner}) group by city", stored=["shop"])
    (exchange,) = moves(plan)
    assert isinstance(exchange.remedy, Determined)
    assert "if city determined shop, this exchange of " in told(plan)


def test_a_proof_from_where_the_columns_still_are(shops: Shops) -> None:
    """The city is dropped after the first aggregate: of its layout nothing is left but that shops lie together."""
    inner = "select shop, visitor, max(city) as c, collect_list(city) as l from visits group by shop, visitor"
    plan = shops.plan(f"select shop, collect_list(l) as n from ({inner}) group by shop", stored=["city"])
    assert not moves(plan)
    assert "since shop -> city" in told(plan)


def test_a_stored_layout_that_would_do(shops: Shops) -> None:
    plan = shops.plan(BY_SHOP)
    (exchange,) = moves(plan)
    assert isinstance(exchange.remedy, Stored)
    assert "if visits were stored as hash(shop) into" in told(plan)
    assert not moves(shops.plan(BY_SHOP, stored=["shop"]))


def test_a_stored_order_that_would_do(shops: Shops) -> None:
    query = "select visitor, row_number() over (partition by shop order by visitor) as n from visits"
    plan = shops.plan(query, stored=["shop"])
    (sort,) = [each for each in reasons(plan).kept if isinstance(each.node.operator, ops.LocalSort)]
    assert isinstance(sort.remedy, Stored)
    assert "sorted shop↑ visitor↑, this sort of" in told(plan)
    sorted_plan = shops.plan(query, stored=["shop"], sorted_by=["shop", "visitor"])
    assert not reasons(sorted_plan).kept
    assert {each.what for each in reasons(sorted_plan).avoided} == {"exchange", "sort"}


def test_a_join_tells_both_sides(shops: Shops) -> None:
    plan = shops.plan("select name, spent from visits join visitors on visitor = id", stored=["visitor"])
    if not any(isinstance(node.operator, ops.HashJoin | ops.MergeJoin) for node in plan.outputs[0][1].walk()):
        pytest.skip("no join by partitions")
    text = told(plan)
    assert "all inputs laid out alike on" in text or "a copy of these rows in every task" in text


def test_a_copy_is_told_by_what_needs_it(shops: Shops) -> None:
    plan = shops.plan("select region, spent from visits join shops on shop = shop_id")
    (exchange,) = moves(plan)
    assert exchange.forced is not None
    assert isinstance(exchange.forced.node.operator, ops.HashJoin)
    assert "runs where its other input lies, and needs a copy of these rows in every task" in told(plan)


def test_one_exchange_for_two(shops: Shops) -> None:
    """What serves an aggregate and the one above it is forced by the lower and avoided for the upper."""
    query = "select shop, count(*) as n from (select shop, visitor, max(spent) as m from visits group by shop, visitor) group by shop"
    plan = shops.plan(query)
    avoided = [each for each in reasons(plan).avoided if each.what == "exchange"]
    assert [type(each.node.operator).__name__ for each in avoided]
    assert len(moves(plan)) == 1


@pytest.mark.parametrize("query", [BY_CITY, BY_SHOP, "select city, sum(spent) from visits group by city order by city"])
@pytest.mark.parametrize("stored", [[], ["shop"], ["city"]])
def test_proofs_are_proofs(query: str, stored: list[str], shops: Shops) -> None:
    """Every step of every proof that is told is one of its rule's, over facts derived from the leaves."""
    plan = shops.plan(query, stored=stored)
    known = derive(plan)
    for root in plan.roots:
        for node in root.walk():
            standing = known.of(node)
            for met, below in zip(standing.met, node.inputs, strict=True):
                given = known.of(below)
                assert first_bad_step(met.proof, given.facts) is None
                assert isinstance(match(given.delivered, met.required, given.facts), Proof)


def test_every_remedy_on_tpch_is_tried(tpch_data: Path) -> None:
    """A layout that is said to make an exchange go: stored so, the plan has fewer bytes to move."""
    from benchmarks import tpch

    from unshuffle.session import Session

    session = Session(tables=tpch_data)

    def enlarged(scan: Scan) -> Scan:
        rows, size = scan.files.rows or 1, scan.files.bytes or 1
        return replace(scan, files=replace(scan.files, rows=rows * 10_000, bytes=size * 10_000), statistics=None)

    tried = 0
    for number in (3, 4, 12, 13, 18, 21):
        script = with_scans(session._bind_what(tpch.queries()[number], None), enlarged)
        plan = optimize(script, EIGHT)
        for kept in moves(plan):
            if not isinstance(kept.remedy, Stored):
                continue
            remedy = kept.remedy

            def stored(scan: Scan, remedy: Stored = remedy) -> Scan:
                wanted = {c.id for c in remedy.scan.columns} <= {c.id for c in scan.columns}
                return replace(scan, layout=remedy.layout) if wanted else scan

            better = optimize(with_scans(script, stored), EIGHT)
            assert better.cost < plan.cost
            tried += 1
    assert tried


def test_rows_that_are_copied_to_where_matches_can_be(shops: Shops) -> None:
    """Visits lie by ranges of visitor and shop, and a visitor has no partition: visitors come to where theirs can be."""
    query = "select v.visitor, v.shop, v.spent, p.name from visits v join visitors p on v.visitor = p.id"

    def by_ranges(scan: Scan) -> Scan:
        if scan.label != "visits":
            return scan
        on = [next(c for c in scan.columns if c.name == name) for name in ("visitor", "shop")]
        cuts = [(100_000 * (i // 2), 7)[: 1 + i % 2] for i in range(2, 401)]
        return replace(scan, layout=Delivered(ranged([asc(c) for c in on], cuts), tuple(asc(c) for c in on)))

    plan = optimize(with_scans(shops.script(query), by_ranges), EIGHT)
    (exchange,) = moves(plan)
    text = told(plan)
    assert exchange.remedy is None
    assert "→ copied to those of 400 ranges that can have their id" in text
    assert (
        "HashJoin on visitor = id runs where its other input lies, and needs a copy of each of these rows in every"
        in text
    )
    assert "partition of its other input that can have matches: 1 of 400 on the average" in text
    assert "no exchange for HashJoin on visitor = id, which needs the rows of one input wherever the other can" in text
    assert "the rows are range(visitor↑, shop↑) into 400, sorted visitor↑ shop↑, and stay there" in text
