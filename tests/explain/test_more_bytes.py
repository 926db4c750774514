"""`explain` says so if a plan moves more than the query would in the shape in which it was written, and what that saves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unshuffle.constants import COST
from unshuffle.explain import explain
from unshuffle.explain.why import reasons
from unshuffle.explore.rules import RULE_NAMES, SPARK_RULE_NAMES
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.verify import derive
from workloads.described import Described, parse

ROWS = (100_000, 100_000_000, 1_000_000, 10_000_000, 100_000, 100_000_000)


def chain(tables: int) -> tuple[str, str]:
    """Tables of very different sizes, each joined with the next by a foreign key."""
    described = [
        f"t{i}  rows={ROWS[i]} key(id)\n"
        f"    id bigint\n    next_id bigint distinct={ROWS[(i + 1) % 4]}\n    label string distinct=1000\n    amount double\n"
        for i in range(tables)
    ]
    names = ", ".join(f"t{i}" for i in range(tables))
    links = " and ".join(f"t{i}.next_id = t{i + 1}.id" for i in range(tables - 1))
    query = f"select t0.label, sum(t{tables - 1}.amount) as s from {names} where {links} group by t0.label"
    return "".join(described), query


def planned(folder: Path, tables: int) -> tuple[PlannedQuery, PlannedQuery]:
    described, query = chain(tables)
    script = Described(folder / "tables", parse(described)).bind(query, "query", is_script=False)
    return optimize(script), optimize(script, Options(disabled=RULE_NAMES - SPARK_RULE_NAMES))


def explained(ours: PlannedQuery, as_written: PlannedQuery, format: Any) -> str:
    return explain.physical("q", [ours], reasons(ours, derive(ours)), format, False, as_written=as_written)


def test_a_plan_that_moves_more_says_what_it_saves(tmp_path: Path) -> None:
    ours, as_written = planned(tmp_path, 6)
    assert ours.moved_bytes > COST.more_bytes_share * as_written.moved_bytes
    assert ours.cost < as_written.cost
    assert "In the shape in which the query was written, it would move" in explained(ours, as_written, "text")
    told = json.loads(explained(ours, as_written, "json"))["more_bytes"]
    assert told["bytes"] == sum(each["bytes"] for each in json.loads(explained(ours, as_written, "json"))["exchanges"])
    assert told["bytes_as_written"] < told["bytes"]
    assert told["seconds"] < told["seconds_as_written"]


def test_a_plan_that_does_not_move_more_needs_no_reason(tmp_path: Path) -> None:
    ours, as_written = planned(tmp_path, 3)
    assert "it would move" not in explained(ours, as_written, "text")
    assert json.loads(explained(ours, as_written, "json"))["more_bytes"] is None
