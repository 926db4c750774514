"""When the boundaries of ranges are chosen (SIGMOD 2012, section 3.2.1 and Figure 7): at plan time from statistics, or at
run time from a sample. The optimizer takes the cheaper way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from unshuffle.catalog.statistics.table_statistics import EquiDepthHistogram
from unshuffle.cost.machine import Machine
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.render.reasons_json import exchanges_json
from unshuffle.explain.why import reasons
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan import physical
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import RangeFunction, SampledBoundaries
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads.described import Described, parse, with_scans

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

    def plan(self, query: str, day: tuple[float, ...] | None = None) -> PlannedQuery:
        """`day` has the share of the rows in each 64th of the days."""

        def counted(scan: Scan) -> Scan:
            assert scan.statistics is not None
            assert day is not None
            bounds = tuple(range(0, 6401, 6400 // BUCKETS))
            histogram = EquiDepthHistogram(bounds, day, (100.0,) * BUCKETS)
            columns = [
                (c, replace(k, histogram=histogram) if c.name == "day" else k) for c, k in scan.statistics.columns
            ]
            return replace(scan, statistics=replace(scan.statistics, columns=tuple(columns)))

        script = self._described.bind(query, "query")
        found = optimize(with_scans(script, counted) if day is not None else script, Options(Target(Machine(cores=32))))
        verify(found)
        return found


EVEN = (1.0,) * BUCKETS
STEEP = (10_000.0, *(1.0,) * (BUCKETS - 1))


@pytest.fixture
def visits(tmp_path: Path) -> Visits:
    return Visits(tmp_path)


def exchange(found: PlannedQuery) -> PhysicalPlan:
    (node,) = [n for n in found.outputs[0][1].walk() if isinstance(n.operator, physical.Exchange)]
    return node


def boundaries(found: PlannedQuery) -> object:
    function = exchange(found).operator.how.scheme.function  # type: ignore[attr-defined]
    assert isinstance(function, RangeFunction)
    return function.boundaries


def explained_exchange(found: PlannedQuery) -> dict[str, object]:
    (exchange,) = exchanges_json(ReasonText(PlanDrawing(found), reasons(found)))
    return dict(exchange)


ORDERED = "select day, note from visits order by day"


def test_a_histogram_saves_a_pass(visits: Visits) -> None:
    known, unknown = visits.plan(ORDERED, EVEN), visits.plan(ORDERED)
    assert not isinstance(boundaries(known), SampledBoundaries)
    assert isinstance(boundaries(unknown), SampledBoundaries)
    assert exchange(unknown).own.recompute > 0
    assert known.cost == pytest.approx(unknown.cost - exchange(unknown).own.recompute, rel=0.05)


def test_ranges_are_even_for_skewed_values(visits: Visits) -> None:
    """Nearly all rows are in the first hundred days, and the histogram divides these days too."""
    found = exchange(visits.plan(ORDERED, STEEP))
    assert found.size.largest * found.size.partitions < 1.5


def test_conditions_on_other_columns_make_boundaries_uncertain(visits: Visits) -> None:
    """Most visits of three in ten shops might be on neighbouring days. (With fewer shops there are too few rows to
    matter.)"""
    query = "select day, note from visits where shop < 15000 order by day"
    found = boundaries(visits.plan(query, EVEN))
    assert isinstance(found, SampledBoundaries)
    assert found.planned_skew is not None
    assert found.planned_skew > 1.5


def test_conditions_on_the_column_itself_keep_boundaries_certain(visits: Visits) -> None:
    found = visits.plan("select day, note from visits where day < 3200 order by day", EVEN)
    bounds = boundaries(found)
    assert not isinstance(bounds, SampledBoundaries)
    assert max(bound for (bound,) in bounds) < 3200  # type: ignore[attr-defined]


def test_why_gives_the_reasons(visits: Visits) -> None:
    known, unknown = explained_exchange(visits.plan(ORDERED, EVEN)), explained_exchange(visits.plan(ORDERED))
    doubtful = explained_exchange(visits.plan("select day, note from visits where shop < 15000 order by day", EVEN))
    assert (known["boundaries"], unknown["boundaries"], doubtful["boundaries"]) == ("plan time", "run time", "run time")
    assert "boundaries are chosen at plan time: the largest range has about" in str(known["boundaries_why"])
    assert "because no statistics show the distribution of day" in str(unknown["boundaries_why"])
    assert "the largest range might have" in str(doubtful["boundaries_why"])
    assert known["again_seconds"] == 0
    assert float(str(unknown["again_seconds"])) > 0


def test_ranges_are_chosen_only_for_an_order(visits: Visits) -> None:
    """A hash co-locates equal days without a sample and without boundaries."""
    found = visits.plan("select day, collect_list(note) as notes from visits group by day")
    assert explained_exchange(found)["boundaries"] is None
