"""The two ways to write an exchange (SIGMOD 2012, section 4 and Figure 11): their costs, and which one Spark uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unshuffle.cost.machine import Machine
from unshuffle.cost.shuffle_writing import ShuffleWrite, crossover
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.render.reasons_json import exchanges_json
from unshuffle.explain.why import reasons
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.target import Target
from workloads.described import Described, parse

MACHINE = Machine(cores=8)


def test_file_costs_grow_with_the_partitions_and_index_costs_hardly() -> None:
    """Figure 11: from 250 partitions to 4,000."""
    few, many = ShuffleWrite(1e6, 1, 250), ShuffleWrite(1e6, 1, 4000)
    grown = {w: many.seconds(MACHINE, w) / few.seconds(MACHINE, w) for w in ("traditional", "index-based")}  # type: ignore[arg-type]
    assert grown["traditional"] == pytest.approx(16)
    assert grown["index-based"] < 5


@pytest.mark.parametrize("rows", [1e4, 1e6, 1e8])
def test_at_the_crossover_both_cost_the_same(rows: float) -> None:
    at = ShuffleWrite(rows, 1, max(1, round(crossover(MACHINE, rows))))
    if at.partitions > 10:
        assert at.seconds(MACHINE, "traditional") == pytest.approx(at.seconds(MACHINE, "index-based"), rel=0.1)
    more = replace(at, partitions=at.partitions * 4)
    assert more.seconds(MACHINE, "traditional") > more.seconds(MACHINE, "index-based")


@pytest.mark.parametrize(("partitions", "writer"), [(1, "traditional"), (200, "traditional"), (201, "index-based")])
def test_spark_writes_files_up_to_a_number_of_partitions(partitions: int, writer: str) -> None:
    assert ShuffleWrite(1e6, 8, partitions).writer(MACHINE) == writer
    assert ShuffleWrite(1e6, 8, partitions).writer(replace(MACHINE, most_files=0)) == "index-based"


def test_there_is_no_crossover_if_an_index_saves_nothing() -> None:
    assert crossover(replace(MACHINE, index_block=MACHINE.block), 1e6) == float("inf")


@pytest.fixture
def visits(tmp_path_factory: pytest.TempPathFactory) -> Described:
    return Described(
        tmp_path_factory.mktemp("visits"), parse("visits  rows=400000000\n    a bigint\n    note string width=100")
    )


def explained(found: PlannedQuery) -> tuple[dict[str, object], str]:
    why = ReasonText(PlanDrawing(found), reasons(found))
    (exchange,) = exchanges_json(why)
    return dict(exchange), why.text()


def test_explain_names_the_writer(visits: Described) -> None:
    script = visits.bind("select a, collect_list(note) as all from visits group by a", "query")
    many, _ = explained(optimize(script, Options(Target(MACHINE))))
    assert many["writer"] == "index-based"
    assert "partitions are more than 200 (spark.shuffle.sort.bypassMergeThreshold)" in str(many["writer_why"])
    few, text = explained(optimize(script, Options(Target(replace(MACHINE, partition_bytes=1e9)))))
    assert few["writer"] == "traditional"
    assert "partitions are at most 200" in str(few["writer_why"])
    assert "it writes" not in text  # an index would save almost nothing


def test_why_names_a_setting_that_would_save_much(visits: Described) -> None:
    """Files that take long to create, as on a disk with slow seeks."""
    script = visits.bind("select a, collect_list(note) as all from visits group by a", "query")
    slow = replace(MACHINE, block=0.001, most_files=100_000)
    exchange, text = explained(optimize(script, Options(Target(slow))))
    assert exchange["writer"] == "traditional"
    assert f"with spark.shuffle.sort.bypassMergeThreshold below {exchange['partitions']:,}" in text
