"""The two ways to write an exchange (SIGMOD 2012, section 4 and Figure 11): what each costs, and which one Spark takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.described import Described, parse

from unshuffle.cost.machine import Machine
from unshuffle.cost.shuffle_writing import Writing, crossing
from unshuffle.optimizer import Optimized, Options, optimize
from unshuffle.render.physical import Drawing
from unshuffle.render.why import Telling
from unshuffle.why import reasons

MACHINE = Machine(cores=8)


def test_files_cost_more_the_more_partitions_there_are_and_an_index_hardly() -> None:
    """Figure 11: from 250 partitions to 4,000."""
    few, many = Writing(1e6, 1, 250), Writing(1e6, 1, 4000)
    grown = {w: many.seconds(MACHINE, w) / few.seconds(MACHINE, w) for w in ("traditional", "index-based")}  # type: ignore[arg-type]
    assert grown["traditional"] == pytest.approx(16)
    assert grown["index-based"] < 5


@pytest.mark.parametrize("rows", [1e4, 1e6, 1e8])
def test_at_the_crossing_both_cost_the_same(rows: float) -> None:
    at = Writing(rows, 1, max(1, round(crossing(MACHINE, rows))))
    if at.partitions > 10:
        assert at.seconds(MACHINE, "traditional") == pytest.approx(at.seconds(MACHINE, "index-based"), rel=0.1)
    more = replace(at, partitions=at.partitions * 4)
    assert more.seconds(MACHINE, "traditional") > more.seconds(MACHINE, "index-based")


@pytest.mark.parametrize(("partitions", "writer"), [(1, "traditional"), (200, "traditional"), (201, "index-based")])
def test_spark_takes_files_up_to_a_number_of_partitions(partitions: int, writer: str) -> None:
    assert Writing(1e6, 8, partitions).writer(MACHINE) == writer
    assert Writing(1e6, 8, partitions).writer(replace(MACHINE, most_files=0)) == "index-based"


def test_where_files_do_not_pay_no_index_does_better() -> None:
    assert crossing(replace(MACHINE, index_block=MACHINE.block), 1e6) == float("inf")


@pytest.fixture
def visits(tmp_path_factory: pytest.TempPathFactory) -> Described:
    return Described(
        tmp_path_factory.mktemp("visits"), parse("visits  rows=400000000\n    a bigint\n    note string width=100")
    )


def told(found: Optimized) -> tuple[dict[str, object], str]:
    telling = Telling(Drawing(found), reasons(found))
    (exchange,) = telling.exchanges()
    return dict(exchange), telling.text()


def test_the_writer_is_told(visits: Described) -> None:
    script = visits.bind("select a, collect_list(note) as all from visits group by a", "query")
    many, _ = told(optimize(script, Options(MACHINE)))
    assert many["writer"] == "index-based"
    assert "partitions being more than 200 (spark.shuffle.sort.bypassMergeThreshold)" in str(many["writer_why"])
    few, text = told(optimize(script, Options(replace(MACHINE, partition_bytes=1e9))))
    assert few["writer"] == "traditional"
    assert "being at most 200" in str(few["writer_why"])
    assert "it is written to" not in text  # an index would save next to nothing


def test_a_setting_that_would_save_much_is_told(visits: Described) -> None:
    """Files that take long to make, as on a disk that is slow to seek."""
    script = visits.bind("select a, collect_list(note) as all from visits group by a", "query")
    slow = replace(MACHINE, block=0.001, most_files=100_000)
    exchange, text = told(optimize(script, Options(slow)))
    assert exchange["writer"] == "traditional"
    assert f"with spark.shuffle.sort.bypassMergeThreshold below {exchange['partitions']:,}" in text
