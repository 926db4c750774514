"""`explain`: the fields of its JSON, and the content of every format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.effort import cases
from unshuffle.errors import UserError
from unshuffle.session import Session
from workloads import tpcds, tpch

SPOOLED = """
with totals as (select l_orderkey as o, sum(l_quantity) as q from lineitem group by l_orderkey)
select a.o, b.q from totals a join totals b on a.q = b.q where a.q > (select avg(q) from totals)
"""


@pytest.fixture(scope="module")
def session(tpch_data: Path) -> Session:
    return Session(tables=tpch_data)


def explained(session: Session, query: str, **options: Any) -> dict[str, Any]:
    explanation = json.loads(session.explain(query, format="json", **options))
    assert isinstance(explanation, dict)
    return explanation


def nodes(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(node for child in tree["children"] for node in nodes(child))]


@pytest.mark.parametrize("number", cases(range(1, 23), quick=8))
def test_json_fields(number: int, session: Session) -> None:
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
    assert head.split() == ["rows", "size", "time", "stage", "plan"]
    assert any("└─ Limit  10  ·  in order of revenue↓, o_orderdate↑" in line for line in lines)
    assert "Estimated time" in text
    assert "Use --why" in text
    assert "Exchanges and sorts of this plan" not in text
    assert "Exchanges and sorts of plain Spark that this plan avoids" in session.explain(tpch.queries()[3], why=True)


def test_columns_have_numbers_only_to_tell_them_apart(session: Session) -> None:
    """A column shows its number only if another column has the same name."""
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


def test_subqueries_are_numbered(session: Session) -> None:
    text = session.explain(tpch.queries()[15])
    if "Subquery" in text:
        assert "subquery 1" in text


def test_graphs_and_pages(session: Session) -> None:
    query = tpch.queries()[5]
    dot = session.explain(query, format="dot")
    assert dot.startswith("digraph plan {")
    assert dot.count("->") == len(re.findall(r"^  n\d+ \[label=", dot, re.MULTILINE)) - 1  # one tree
    page = session.explain(query, format="html", why=True, all_plans=2)
    for part in ("<h2>Plan</h2>", "<h2>Why</h2>", "<h2>Other plans</h2>", "HashJoin"):
        assert part in page


def test_the_logical_plan(session: Session) -> None:
    query = "select l_orderkey from lineitem where l_quantity > 5"
    assert "Filter  l_quantity > 5" in session.explain(query, logical=True)
    assert explained(session, query, logical=True)["cost"] is None
    assert session.explain(query, logical=True, format="dot").startswith("digraph")
    assert "<h2>Plan</h2>" in session.explain(query, logical=True, format="html")


def test_the_cheapest_plans(session: Session) -> None:
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
    for number in cases(range(1, 100, 9), quick=4):
        text = session.explain(tpcds.queries()[number], why=True)
        assert "plan" in text
        assert "None" not in text.replace("'None'", "")


def test_an_exhausted_search_budget_is_noted(session: Session) -> None:
    text = session.explain(tpch.queries()[8])
    assert "Note: " in text


def test_fallbacks_are_listed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "t.parquet")
    session = Session(tables=tmp_path)
    query = "select a from t x where a > (select max(y.a) from t y where y.b < x.b)"
    found = explained(session, query)
    if found["fallbacks"]:
        assert found["fallbacks"][0]["reason"]
        assert "Falls back to Spark" in session.explain(query)


DIAMOND = """
    select o_custkey, count(*) n from orders where o_totalprice > 1000 group by o_custkey
    union all select o_custkey, max(o_orderkey) from orders group by o_custkey"""


def test_stages_saved_by_a_super_operator(tpch_data: Path) -> None:
    """An application is listed once, although other operators are between those that it made."""
    found = explained(Session(tables=tpch_data), DIAMOND)
    assert [each["rule"] for each in found["super_operators"]] == ["diamond_union"]
    without = explained(Session(tables=tpch_data, without=["diamond_union"]), DIAMOND)
    assert found["stages_without_super_operators"] == len(without["stages"]) >= len(found["stages"])
    assert without["stages_without_super_operators"] is None
    text = Session(tables=tpch_data).explain(DIAMOND)
    stages = "1 stage" if len(found["stages"]) == 1 else f"{len(found['stages'])} stages"
    assert (
        f"Super-operators: diamond_union; the plan has {stages}, and would have {len(without['stages'])} without."
        in text
    )


@pytest.mark.parametrize("query", [tpch.queries()[3], SPOOLED])
def test_stages_are_the_same_in_every_format(query: str, session: Session) -> None:
    """Every operator is in one stage, an exchange ends its stage, and a stage reads the stages below its exchanges."""
    found = explained(session, query)
    stages = {stage["number"]: stage for stage in found["stages"]}
    assert list(stages) == list(range(1, len(stages) + 1))
    operators = [node for node in nodes(found["plan"]) if "stage" in node]
    assert sorted(node["stage"] for node in operators) == sorted(n for n in stages for _ in stages[n]["operators"])
    for node in operators:
        below = [child for child in node["children"] if child["operator"] in ("Exchange", "Broadcast")]
        assert {child["stage"] for child in below} <= set(stages[node["stage"]]["reads"])
        others = [child for child in node["children"] if child not in below]
        assert all(child["stage"] == node["stage"] for child in others)
        if node["operator"] in ("Exchange", "Broadcast"):
            assert stages[node["stage"]]["tasks"] == node["children"][0]["partitions"]
    assert all(read < number for number, stage in stages.items() for read in stage["reads"])
    text = session.explain(query)
    assert f"It runs in {len(stages)} stage" in text
    dot = session.explain(query, format="dot")
    assert dot.count("subgraph cluster_") == len(stages)
    page = session.explain(query, format="html")
    assert "<h2>Stages</h2>" in page
    assert page.count("<span class=fact>stage ") == len(operators)
