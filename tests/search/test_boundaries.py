"""When the boundaries of ranges are chosen (SIGMOD 2012, section 3.2.1 and Figure 7): from what was counted, when the plan is
made, or from the rows, when it runs. The cheaper way is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.described import Described, parse, with_scans

from unshuffle.algebra import operators as ops
from unshuffle.algebra.logical import Scan
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.statistics import Histogram
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Optimized, Options, optimize
from unshuffle.properties import RangeFunction, Sampled
from unshuffle.render.physical import Drawing
from unshuffle.render.why import Telling
from unshuffle.verify import verify
from unshuffle.why import reasons

VISITS = """
visits  rows=4000000
    day    int     distinct=6400 low=0 high=6400
    shop   bigint  distinct=50000 low=1 high=50000
    note   string  width=200
"""
BUCKETS = 64


class Visits:
    def __init__(self, folder: Path) -> None:
        self._described = Described(folder, parse(VISITS))

    def plan(self, query: str, day: tuple[float, ...] | None = None) -> Optimized:
        """`day` is how many of the rows each 64th of the days has."""

        def counted(scan: Scan) -> Scan:
            assert scan.statistics is not None
            assert day is not None
            bounds = tuple(range(0, 6401, 6400 // BUCKETS))
            histogram = Histogram(bounds, day, (100.0,) * BUCKETS)
            columns = [
                (c, replace(k, histogram=histogram) if c.name == "day" else k) for c, k in scan.statistics.columns
            ]
            return replace(scan, statistics=replace(scan.statistics, columns=tuple(columns)))

        script = self._described.bind(query, "query")
        found = optimize(with_scans(script, counted) if day is not None else script, Options(Machine(cores=32)))
        verify(found)
        return found


EVEN = (1.0,) * BUCKETS
STEEP = (10_000.0, *(1.0,) * (BUCKETS - 1))


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    return Visits(tmp_path)


def exchange(found: Optimized) -> Physical:
    (node,) = [n for n in found.outputs[0][1].walk() if isinstance(n.operator, ops.Move)]
    return node


def boundaries(found: Optimized) -> object:
    function = exchange(found).operator.how.scheme.function  # type: ignore[attr-defined]
    assert isinstance(function, RangeFunction)
    return function.boundaries


def told(found: Optimized) -> dict[str, object]:
    (exchange,) = Telling(Drawing(found), reasons(found)).exchanges()
    return dict(exchange)


ORDERED = "select day, note from visits order by day"


def test_counted_values_save_a_pass(visits: Visits) -> None:
    known, unknown = visits.plan(ORDERED, EVEN), visits.plan(ORDERED)
    assert not isinstance(boundaries(known), Sampled)
    assert isinstance(boundaries(unknown), Sampled)
    assert exchange(unknown).own.again > 0
    assert known.cost == pytest.approx(unknown.cost - exchange(unknown).own.again, rel=0.05)


def test_they_are_even_where_values_are_not(visits: Visits) -> None:
    """Nearly all rows have the first hundred days: a histogram of days divides even those."""
    found = exchange(visits.plan(ORDERED, STEEP))
    assert found.amount.largest * found.amount.partitions < 1.5


def test_conditions_on_other_columns_make_them_doubtful(visits: Visits) -> None:
    """Of three shops in ten, most visits might be on neighbouring days. (Of a few shops they are too few to matter.)"""
    query = "select day, note from visits where shop < 15000 order by day"
    found = boundaries(visits.plan(query, EVEN))
    assert isinstance(found, Sampled)
    assert found.instead is not None
    assert found.instead > 1.5


def test_conditions_on_the_column_itself_do_not(visits: Visits) -> None:
    found = visits.plan("select day, note from visits where day < 3200 order by day", EVEN)
    bounds = boundaries(found)
    assert not isinstance(bounds, Sampled)
    assert max(bound for (bound,) in bounds) < 3200  # type: ignore[attr-defined]


def test_reasons_are_told(visits: Visits) -> None:
    known, unknown = told(visits.plan(ORDERED, EVEN)), told(visits.plan(ORDERED))
    doubtful = told(visits.plan("select day, note from visits where shop < 15000 order by day", EVEN))
    assert (known["boundaries"], unknown["boundaries"], doubtful["boundaries"]) == ("plan time", "run time", "run time")
    assert "chosen now, by what is known" in str(known["boundaries_why"])
    assert "because nothing tells how day is spread" in str(unknown["boundaries_why"])
    assert "the largest range might have" in str(doubtful["boundaries_why"])
    assert known["again_seconds"] == 0
    assert float(str(unknown["again_seconds"])) > 0


def test_ranges_are_chosen_only_for_an_order(visits: Visits) -> None:
    """To bring equal days together a hash needs no look at the rows, and no boundaries."""
    found = visits.plan("select day, collect_list(note) as notes from visits group by day")
    assert told(found)["boundaries"] is None
