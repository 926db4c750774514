"""Drawings of parts: bars where values are, in lanes, of a bounded number, with text that runs nothing."""

from __future__ import annotations

import datetime
import itertools
import re
import shutil
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.explain.test_hostile_text import ATTACKS, checked, rendered
from unshuffle.catalog.schema import Column
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.explain.render.html import Figure, page
from unshuffle.explain.render.part_axis import Axis
from unshuffle.explain.render.part_drawing import LEFT, PLOT, PartDrawing
from unshuffle.explain.render.part_lanes import MAX_BARS, MAX_LANES, lanes
from unshuffle.explain.render.part_style import picture
from unshuffle.explain.render.part_text import PartText
from unshuffle.explain.why import MatchedParts, PrunedParts, TablePart, TableReads
from unshuffle.partitions import EVERYTHING, Cut, KeyInterval, Ranges, closed_interval, interval_of_value
from unshuffle.plan import physical
from unshuffle.plan.expressions import Call, Literal, Ref
from unshuffle.plan.logical import Files, Format, Scan
from unshuffle.plan.part_bounds import ColumnBounds
from unshuffle.plan.predicate_intervals import NULLS
from unshuffle.printable import printable
from unshuffle.properties import Delivered, RangeKey, UnknownPartitioning
from unshuffle.session import Session

INT, DAY = pa.int64(), pa.date32()
SVG = "{http://www.w3.org/2000/svg}"
Bounds = Sequence[tuple[KeyInterval, ...]]


def values(*found: Any) -> Bounds:
    return [(interval_of_value((each,)),) for each in found]


def spans(*found: tuple[Any, Any]) -> Bounds:
    return [(closed_interval((low,), (high,)),) for low, high in found]


def table(
    bounds: Bounds,
    ranges: Ranges,
    column: Column | None = None,
    label: str = "orders",
    unread: Sequence[int] = (),
    name: str = "k={}/0.parquet",
    groups: Sequence[str] = (),
) -> TableReads:
    """A table with these parts, read as ranges of a column."""
    column = column or Column(1, "k", ranges.keys[0].type)
    scan = Scan(label, Files((label,), Format("Parquet")), (column,))
    tasks = {part: tuple(of) for part, of in ColumnBounds(column.type, bounds, [1] * len(bounds)).outputs(ranges, None)}
    parts = [
        TablePart(
            name.format(i), 10, 1000, each, i in tasks and i not in unread, () if i in unread else tasks.get(i, ()),
            groups[i % len(groups)] if groups else "",
        )
        for i, each in enumerate(bounds)
    ]  # fmt: skip
    return TableReads(physical.FileScan(scan, Delivered(UnknownPartitioning())), column, "row group", tuple(parts))


def matched(left: TableReads, right: TableReads, ranges: Ranges) -> tuple[MatchedParts, PartText]:
    join: Any = SimpleNamespace(operator=None)
    predicate = Call("<", (Ref(left.column), Literal(7, INT)), pa.bool_())
    found = MatchedParts(join, (left, right), (predicate, None), 1, ranges)
    return found, PartText(ColumnNames((left.column, right.column)), lambda node: "HashJoin on k = j")


def drawing(left: Bounds, right: Bounds, boundaries: Sequence[Any], type: Any = INT, **of_left: Any) -> str:
    ranges = Ranges((RangeKey(type),), tuple((each,) for each in boundaries))
    other = table(right, ranges, Column(2, "j", type), "shipments")
    found, text = matched(table(left, ranges, **of_left), other, ranges)
    return PartDrawing(text).matched(found)


class Bars:
    """The bars of a drawing, by the first line of their titles."""

    def __init__(self, svg: str) -> None:
        self.root = ElementTree.fromstring(svg)
        self.found: dict[str, list[tuple[str, float, float, float]]] = {}
        self.titles: dict[str, str] = {}
        for group in self.root.iter(f"{SVG}g"):
            title, box = group.findtext(f"{SVG}title") or "", group.find(f"{SVG}rect")
            assert box is not None
            x, y, width = (float(box.attrib[each]) for each in ("x", "y", "width"))
            name = title.splitlines()[0]
            self.titles[name] = title
            self.found.setdefault(name, []).append((box.attrib["class"], x, x + width, y))

    def __getitem__(self, name: str) -> tuple[str, float, float, float]:
        (found,) = self.found[name]
        return found

    @property
    def texts(self) -> list[str]:
        return ["".join(each.itertext()) for each in self.root.iter(f"{SVG}text")]


def place(share: float) -> float:
    return LEFT + share * PLOT


def test_bars_are_where_their_values_are() -> None:
    svg = drawing(spans((0, 49), (50, 99)), spans((0, 24), (20, 99)), [50])
    bars = Bars(svg)
    assert bars.root.attrib["role"] == "img"
    assert "HashJoin on k = j" in bars.root.attrib["aria-label"]
    (first, second) = sorted(bars.found["k=0/0.parquet"], key=lambda bar: bar[3])
    kind, left, right, above = first
    assert (kind, left) == ("one", place(0))
    assert right == pytest.approx(place(0.5), abs=1.5)
    kind, left, right, below = second
    assert (kind, left) == ("one", place(0))
    assert right == pytest.approx(place(0.25), abs=1.5)
    assert above < below
    (_, whole) = sorted(bars.found["k=1/0.parquet"], key=lambda bar: bar[3])
    assert whole[0] == "several"
    assert whole[1] == pytest.approx(place(0.2), abs=0.1)
    assert whole[2] == pytest.approx(place(1), abs=1.5)
    assert whole[3] != below  # it overlaps the other one
    task = bars["task 0: up to 50, 3 kB"]
    assert (task[1], task[2]) == (pytest.approx(place(0), abs=1), pytest.approx(place(0.5), abs=1))
    assert above < task[3] < below
    assert "k=1 ×2" in bars.texts
    assert "read by several tasks (×2: by two)" in bars.texts
    assert "not read" not in bars.texts


def test_titles_and_parts_that_are_not_read() -> None:
    bars = Bars(drawing(spans((0, 9), (10, 19), (20, 29)), spans((0, 29)), [10], unread=[1]))
    assert bars.titles["k=1/0.parquet"].splitlines() == [
        "k=1/0.parquet",
        "10 rows, 1 kB",
        "k: 10 to 19",
        "not read: no row can have k < 7L",
    ]
    assert bars["k=1/0.parquet"][0] == "unread"
    assert bars.titles["k=2/0.parquet"].splitlines()[3] == "read by task 1"
    assert "not read" in bars.texts
    assert "orders by k · reads 2 of 3 row groups · no other can have k < 7L" in bars.texts


def test_parts_that_are_too_close_are_one_bar_with_their_number() -> None:
    svg = drawing(values(*range(10_000)), values(*range(0, 10_000, 2)), [5000])
    bars = Bars(svg)
    assert sum(map(len, bars.found.values())) < 2 * MAX_BARS
    counts = [
        int(found[1].replace(",", "")) for name in bars.found if (found := re.match(r"([\d,]+) row groups,", name))
    ]
    assert sum(counts) == 15_000


@pytest.mark.parametrize("shape", ["values", "disjoint", "overlapping", "one place"])
def test_a_page_of_many_parts_is_small(shape: str) -> None:
    random = Random(1)

    def bounds() -> Bounds:
        match shape:
            case "values":
                return values(*range(10_000))
            case "disjoint":
                return spans(*((7 * i, 7 * i + 6) for i in range(10_000)))
            case "overlapping":
                starts = (random.randrange(100_000) for _ in range(10_000))
                return spans(*((start, start + random.randrange(40_000)) for start in starts))
        return spans(*((0, 9) for _ in range(10_000)))

    name = "year=2026/month=12/day=31/part-00000-" + "x" * 200 + "<&\"'>{}.parquet"
    svg = drawing(bounds(), bounds(), range(3, 10_000, 50), name=name)
    text = page("plan", [], figures=[Figure(svg, "")])
    assert len(text.encode()) < 500_000
    assert len(checked(text).text) > 0


def test_lanes() -> None:
    ranges = Ranges((RangeKey(INT),), ((10,),))
    few = table(spans((0, 9), (5, 14), (10, 19), (12, 30), (31, 40)), ranges)
    axis = Axis(RangeKey(INT), [each for part in few.parts for each in part.bounds], [])
    found = lanes(few, axis, 400)
    assert [bar.lane for bar in sorted(found.bars, key=lambda bar: bar.left)] == [0, 1, 0, 2, 0]
    for bounds in (spans(*((i, i + 50) for i in range(200))), values(*range(40), *range(40))):
        many = table(bounds, ranges)
        axis = Axis(RangeKey(INT), [each for part in many.parts for each in part.bounds], [])
        found = lanes(many, axis, 400)
        assert sum(len(bar.parts) for bar in found.bars) == len(many.parts)
        assert found.count <= MAX_LANES
        for lane in range(found.count):
            bars = sorted((bar.left, bar.right) for bar in found.bars if bar.lane == lane)
            assert all(one[1] <= other[0] + 0.5 for one, other in itertools.pairwise(bars))


def test_folders_of_other_columns_have_lanes_of_their_own() -> None:
    groups = ("region=asia", "region=europe")
    bars = Bars(drawing(values(1, 1, 2, 2, 3, 3), values(1, 2, 3), [2], name="{}", groups=groups))
    above = min(bar[3] for bar in bars.found["0"])
    assert {text for text in bars.texts if text.startswith("region")} == set(groups)
    for odd in ("1", "3", "5"):
        assert min(bar[3] for bar in bars.found[odd]) == min(bar[3] for bar in bars.found["1"]) != above


def test_only_the_surroundings_of_what_is_read_are_drawn() -> None:
    bars = Bars(
        drawing(values(*range(1000)), values(500, 501), [501], unread=[i for i in range(1000) if i not in (500, 501)])
    )
    assert bars["k=500/0.parquet"][2] - bars["k=500/0.parquet"][1] > PLOT / 10
    assert "orders by k · reads 2 of 1,000 row groups · 996 not drawn · no other can have k < 7L" in bars.texts


@pytest.mark.parametrize(
    ("type", "low", "middle", "high", "ticks"),
    [
        (INT, 0, 500, 999, ("0", "200", "800")),
        (DAY, datetime.date(2026, 1, 1), datetime.date(2026, 2, 14), datetime.date(2026, 3, 31), ("2026-02-01",)),
        (DAY, datetime.date(1990, 1, 1), datetime.date(2008, 1, 1), datetime.date(2025, 12, 31), ("2010-01-01",)),
        (
            pa.timestamp("us", tz="UTC"),
            datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
            datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
            datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC),
            ("2026-01-01 12:00", "2026-01-02"),
        ),
        (pa.decimal128(9, 2), Decimal("0.00"), Decimal("5.00"), Decimal("10.00"), ("2", "4")),
    ],
)  # fmt: skip
def test_values_have_distances(type: Any, low: Any, middle: Any, high: Any, ticks: Sequence[str]) -> None:
    axis = Axis(RangeKey(type), [closed_interval((low,), (high,))], [])
    assert axis.has_distances
    assert axis.at(Cut((low,))) == 0
    assert axis.at(Cut((middle,))) == pytest.approx(0.5, abs=0.02)
    assert axis.at(Cut((high,), after=True)) == 1
    shown = {text: place for place, text in axis.ticks()}
    assert set(ticks) <= set(shown)
    assert list(shown.values()) == sorted(shown.values())


def test_values_without_distances_are_in_order() -> None:
    texts = values("a", "ab", "é", "\U0001f600")
    axis = Axis(RangeKey(pa.string()), [each for (each,) in texts], [])
    places = [axis.at(Cut((text,))) for text in ("a", "ab", "é", "\U0001f600")]
    assert places == sorted(places)
    assert len(set(places)) == 4
    years = values(*(datetime.date(year, 1, 1) for year in (2000, 2001, 2002, 9999)))
    far = Axis(RangeKey(DAY), [each for (each,) in years], [])
    assert not far.has_distances
    gap = far.at(Cut((datetime.date(2001, 1, 1),))) - far.at(Cut((datetime.date(2000, 1, 1),)))
    assert gap == pytest.approx(2 / 7)


def test_nulls_unknown_bounds_and_empty_parts() -> None:
    nulls = [(NULLS,), (NULLS, closed_interval((1,), (5,))), (EVERYTHING,), ()]
    bars = Bars(drawing(nulls, spans((0, 9)), [4]))
    first = min(bars.found["k=0/0.parquet"], key=lambda bar: bar[1])
    assert first[2] < LEFT
    assert "NULL" in bars.texts
    assert bars.titles["k=1/0.parquet"].splitlines()[2] == "k: 1 to 5, and NULL"
    assert bars["k=2/0.parquet"][1:3] == (place(0), pytest.approx(place(1), abs=1.5))
    assert bars.titles["k=2/0.parquet"].splitlines()[2] == "k: any value"
    assert "k=3/0.parquet" not in bars.found
    assert Bars(drawing([], [], [4])).texts


def test_a_pruned_table_alone() -> None:
    ranges = Ranges((RangeKey(INT),), ())
    found = table(values(*range(10)), ranges, unread=range(5))
    text = PartText(ColumnNames((found.column,)), lambda node: "")
    bars = Bars(PartDrawing(text).pruned(PrunedParts(found, None)))
    assert [bars[f"k={i}/0.parquet"][0] for i in range(10)] == ["unread"] * 5 + ["one"] * 5
    assert "50 % of the bytes" in bars.root.attrib["aria-label"]


def test_a_picture_stands_alone() -> None:
    root = ElementTree.fromstring(picture(drawing(values(1, 2), values(1, 2), [2])))
    assert "prefers-color-scheme" in (root.findtext(f"{SVG}style") or "")
    for element in root.iter():
        for name, value in element.attrib.items():
            assert "http" not in value, (name, value)
            assert not name.endswith("href")


@pytest.mark.parametrize("attack", [*ATTACKS, "no characters: \ufffe \uffff"])
def test_every_text_of_a_drawing_is_escaped(attack: str) -> None:
    column, other = Column(1, f"a{attack}", pa.string()), Column(2, f"b{attack}", pa.string())
    ranges = Ranges((RangeKey(pa.string()),), (("m",),))
    one = table(values(attack, "z"), ranges, column, attack, [1], attack.replace("{", "") + "{}/0", (attack, "x"))
    found, text = matched(one, table(values(attack, "z"), ranges, other, attack), ranges)
    svg = PartDrawing(PartText(ColumnNames((column, other)), lambda node: attack)).matched(found)
    ElementTree.fromstring(svg)
    parsed = checked(page("plan", [], figures=[Figure(svg, attack)]))
    assert parsed.text.count(printable(attack)[:40]) >= 5
    ElementTree.fromstring(picture(PartDrawing(text).pruned(PrunedParts(one, None))))


def test_a_page_of_hostile_folders(tmp_path: Path) -> None:
    hostile = [each.replace("/", "%2F") for each in ATTACKS if "\x00" not in each]
    column = 'c<script>"'
    for value in hostile:
        folder = tmp_path / "t.parquet" / f"{column}={value}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1, 2]}), folder / "0.parquet")
    with Session(tables=tmp_path) as session:
        text = session.explain(f"select sum(n) as s from t where `{column}` > 'a'", format="html", why=True)
    parsed = checked(text)
    assert f"{column}={hostile[4]}" in parsed.text  # javascript:
    (svg,) = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    assert "not read" in Bars(svg).texts


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium here")
def test_a_real_browser_runs_nothing_of_a_drawing(tmp_path: Path) -> None:
    attacks = "".join(each for each in ATTACKS if "\x1b" not in each)
    svg = drawing(values(1, 2), values(1, 2), [2], label=attacks, name=attacks.replace("{", "") + "{}", unread=[1])
    unescaped = svg.replace("</svg>", f"<g>{attacks}</g></svg>")
    for name, found in (("escaped", svg), ("unescaped", unescaped)):
        file = tmp_path / f"{name}.html"
        file.write_text(page("plan", [], figures=[Figure(found, attacks)]), encoding="utf-8")
        assert "<title>plan</title>" in rendered(file)
