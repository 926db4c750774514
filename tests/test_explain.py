"""`explain`: the contract of its JSON, and that every format says what the plan is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks import tpcds, tpch

from unshuffle.errors import UserError
from unshuffle.session import Session

SPOOLED = """
with totals as (select l_orderkey as o, sum(l_quantity) as q from lineitem group by l_orderkey)
select a.o, b.q from totals a join totals b on a.q = b.q where a.q > (select avg(q) from totals)
"""


@pytest.fixture(scope="module")
def session(tpch_data: Path) -> Session:
    return Session(tables=tpch_data)


def explained(session: Session, query: str, **options: Any) -> dict[str, Any]:
    found = json.loads(session.explain(query, format="json", **options))
    assert isinstance(found, dict)
    return found


def nodes(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(node for child in tree["children"] for node in nodes(child))]


@pytest.mark.parametrize("number", range(1, 23))
def test_the_contract(number: int, session: Session) -> None:
    found = explained(session, tpch.queries()[number])
    assert list(found)[:7] == ["plan", "cost", "optimize_ms", "exchanges", "avoided", "super_operators", "fallbacks"]
    assert found["cost"] > 0
    assert found["optimize_ms"] > 0
    for exchange in found["exchanges"]:
        assert list(exchange)[:7] == ["topology", "scheme", "merge", "columns", "partitions", "bytes", "why"]
        assert exchange["why"]
    for avoided in found["avoided"]:
        assert avoided["operator"]
        assert avoided["requirement"]
        assert avoided["proof"]
        assert all(isinstance(step, str) for step in avoided["proof"])
    assert found["trace"]["groups"] > 0
    assert found["plan"]["operator"] == "Script"
    moving = [node for node in nodes(found["plan"]) if node["operator"] in ("Exchange", "Broadcast")]
    assert len(moving) == len(found["exchanges"])
    for node in nodes(found["plan"]):
        if "layout" in node:
            assert node["total_cost"] >= node["cost"] >= 0


def test_text_has_the_tree_its_numbers_and_a_summary(session: Session) -> None:
    text = session.explain(tpch.queries()[3])
    head, *lines = text.splitlines()
    assert head.split() == ["rows", "size", "time", "plan"]
    assert any("└─ Limit  10  ·  in order of revenue↓, o_orderdate↑" in line for line in lines)
    assert "Estimated time" in text
    assert "--why tells" in text
    assert "What moves or sorts rows, and why" not in text
    assert "What plain Spark would have moved or sorted" in session.explain(tpch.queries()[3], why=True)


def test_names_not_numbers(session: Session) -> None:
    """A number stands beside a name only where two columns have that name."""
    text = session.explain("select l_orderkey, count(*) as n from lineitem group by l_orderkey")
    assert "#" not in text
    twice = session.explain(
        "select a.l_tax, b.l_discount from lineitem a join lineitem b on a.l_orderkey = b.l_orderkey"
    )
    assert "l_orderkey#" in twice
    assert "l_tax#" not in twice


def test_a_spool_is_drawn_once(session: Session) -> None:
    found = explained(session, SPOOLED)
    shown = [node["operator"] for node in nodes(found["plan"])]
    if "Spool" not in shown:
        pytest.skip("nothing is computed once")
    assert shown.count("Spool") == 1
    assert shown.count("ReadSpool") >= 2
    assert session.explain(SPOOLED, format="dot").count("style=dashed") >= 2


def test_subqueries_are_told_by_number(session: Session) -> None:
    text = session.explain(tpch.queries()[15])
    if "Subquery" in text:
        assert "subquery 1" in text


def test_graphs_and_pages(session: Session) -> None:
    query = tpch.queries()[5]
    dot = session.explain(query, format="dot")
    assert dot.startswith("digraph plan {")
    assert dot.count("->") == dot.count("label=") - 1  # one tree
    page = session.explain(query, format="html", why=True, all_plans=2)
    for part in ("<h2>Plan</h2>", "<h2>Why</h2>", "<h2>Other plans</h2>", "HashJoin"):
        assert part in page


def test_the_logical_plan_is_still_there(session: Session) -> None:
    query = "select l_orderkey from lineitem where l_quantity > 5"
    assert "Filter  l_quantity > 5" in session.explain(query, logical=True)
    assert explained(session, query, logical=True)["cost"] is None
    assert session.explain(query, logical=True, format="dot").startswith("digraph")
    assert "<h2>Plan</h2>" in session.explain(query, logical=True, format="html")


def test_some_of_the_cheapest(session: Session) -> None:
    query = "select l_orderkey, sum(l_quantity) as q from lineitem group by l_orderkey order by q"
    found = explained(session, query, all_plans=4)
    plans = found["plans"]
    assert [plan["rank"] for plan in plans] == [1, 2, 3, 4]
    costs = [plan["cost"] for plan in plans]
    assert costs == sorted(costs)
    assert costs[0] == found["cost"]
    assert plans[0]["plan"] == found["plan"]
    assert len({json.dumps(plan["plan"]) for plan in plans}) == 4
    text = session.explain(query, all_plans=4)
    assert "The 4 cheapest plans:" in text
    assert "  1. " in text


def test_plans_without_a_rule(session: Session, tpch_data: Path) -> None:
    query = """
        select o_custkey, count(*) n from orders where o_totalprice > 1000 group by o_custkey
        union all select o_custkey, max(o_orderkey) from orders group by o_custkey"""
    rule = "diamond_union"
    assert rule in {each["rule"] for each in explained(session, query)["super_operators"]}
    without = explained(Session(tables=tpch_data, without=[rule]), query)
    assert without["super_operators"] == []
    assert rule not in without["trace"]["rules"]
    with pytest.raises(UserError, match="no rule 'diamond_onion'") as raised:
        Session(without=["diamond_onion"])
    assert "did you mean 'diamond_union'" in str(raised.value)


def test_every_tpcds_query_is_explained(tpcds_data: Path) -> None:
    session = Session(tables=tpcds_data)
    for number in range(1, 100, 9):
        text = session.explain(tpcds.queries()[number], why=True)
        assert "plan" in text
        assert "None" not in text.replace("'None'", "")


def test_a_budget_that_was_hit_is_told(session: Session) -> None:
    text = session.explain(tpch.queries()[8])
    assert "Note: " in text


def test_what_only_spark_understands_is_a_fallback(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "t.parquet")
    session = Session(tables=tmp_path)
    query = "select a from t x where a > (select max(y.a) from t y where y.b < x.b)"
    found = explained(session, query)
    if found["fallbacks"]:
        assert found["fallbacks"][0]["reason"]
        assert "Left to Spark as written" in session.explain(query)
