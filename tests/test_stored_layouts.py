"""Plans over rows that are stored in partitions (SIGMOD 2012, section 3): what is there is read as it is needed, and only
what cannot be had so is moved."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.described import Described, parse, with_scans

from unshuffle.algebra import operators as ops
from unshuffle.algebra.logical import Scan
from unshuffle.algebra.physical import Physical
from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, optimize
from unshuffle.partitions import Cut, Interval, of_partitions
from unshuffle.properties import Delivered, HashFunction, Partitioned, RangeFunction, asc, hashed, ranged
from unshuffle.verify import verify

Store = Callable[[Scan], Scan]
Plan = Callable[..., Physical]

PAGES = """
pages  rows=100000000
    domain string width=20 distinct=100000
    host string width=20 distinct=1000000
    dir string width=20 distinct=10000000
    v bigint distinct=1000000
more  rows=100000000
    domain string width=20 distinct=100000
    host string width=20 distinct=1000000
    dir string width=20 distinct=10000000
    v bigint distinct=1000000
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    def optimized(text: str, into: tuple[str, int] | None = None, cores: int = 100, **stores: Store) -> Physical:
        bound = Described(tmp_path / "tables", parse(PAGES)).bind(text, "query")
        bound = with_scans(bound, lambda scan: stores[scan.label](scan) if scan.label in stores else scan)
        if into is not None:
            (output,) = bound.outputs
            column = next(c for c in output.plan.columns if c.name == into[0])
            layout = Delivered(hashed([column], into[1]), (asc(column),))
            bound = replace(bound, outputs=(replace(output, layout=layout),))
        chosen = optimize(bound, Options(machine=Machine(cores=cores)))
        verify(chosen)
        return chosen.outputs[0][1]

    return optimized


def in_ranges(names: str, *, count: int, offset: int = 0, rows: float = 1e8) -> Store:
    """Ranges on the columns, of equal size, cut in the middle of a domain."""

    def stored(scan: Scan) -> Scan:
        columns = [next(c for c in scan.columns if c.name == name) for name in names.split()]
        cuts = [(f"d{(i * 37 + offset):06}", "h5", "x")[: len(columns)] for i in range(1, count)]
        layout = ranged([asc(c) for c in columns], cuts)
        delivered = Delivered(layout, tuple(asc(c) for c in columns))
        ends = [Cut(("d000000",)), *map(Cut, cuts), Cut(("e",))]
        parts = [(Interval(low, high), rows / count) for low, high in itertools.pairwise(ends)]
        assert isinstance(layout.function, RangeFunction)
        spread = of_partitions(layout.function.keys, parts)
        return replace(scan, layout=delivered, stored=delivered, spread=spread, spread_on=tuple(columns))

    return stored


def in_buckets(names: str, count: int) -> Store:
    def stored(scan: Scan) -> Scan:
        columns = [next(c for c in scan.columns if c.name == name) for name in names.split()]
        delivered = Delivered(hashed(columns, count), tuple(asc(c) for c in columns))
        return replace(scan, layout=delivered, stored=delivered)

    return stored


def scans(plan: Physical) -> list[ops.FileScan]:
    return [node.operator for node in plan.walk() if isinstance(node.operator, ops.FileScan)]


def moves(plan: Physical) -> list[ops.Move]:
    return [node.operator for node in plan.walk() if isinstance(node.operator, ops.Move)]


def sorts(plan: Physical) -> list[ops.LocalSort]:
    return [node.operator for node in plan.walk() if isinstance(node.operator, ops.LocalSort)]


def on(scan: ops.FileScan) -> str:
    layout = scan.layout.partitioning
    return " ".join(c.name for c in layout.columns) if isinstance(layout, Partitioned) else ""


def test_ranges_on_more_columns_are_read_as_ranges_on_the_first(plan: Plan) -> None:
    found = plan(
        "select domain, host, percentile(v, 0.5) from pages group by domain, host",
        pages=in_ranges("domain host dir", count=200),
    )
    (scan,) = scans(found)
    assert not moves(found)
    assert on(scan) == "domain host"
    assert scan.readers is not None


def test_their_order_is_kept(plan: Plan) -> None:
    found = plan(
        "select domain, host, max(dir) from pages group by domain, host", pages=in_ranges("domain host dir", count=200)
    )
    assert not moves(found)
    assert not sorts(found)
    assert any(isinstance(node.operator, ops.StreamAggregate) for node in found.walk())


def test_ranges_that_serve_are_read_as_they_lie(plan: Plan) -> None:
    found = plan("select domain, max(v) from pages group by domain", pages=in_ranges("domain", count=200))
    (scan,) = scans(found)
    assert not moves(found)
    assert scan.readers is None


@pytest.mark.parametrize("key", ["left(domain, 5)", "substring(domain, 1, 5)", "left(left(domain, 9), 5)"])
@pytest.mark.parametrize("columns", ["domain", "domain host dir"])
def test_ranges_of_a_text_are_read_as_ranges_of_its_first_characters(plan: Plan, columns: str, key: str) -> None:
    found = plan(
        f"select {key} as d, percentile(v, 0.5) from pages where v > 5 group by 1",
        cores=20,
        pages=in_ranges(columns, count=200),
    )
    (scan,) = scans(found)
    assert not moves(found)
    assert on(scan) == "domain"
    function = scan.layout.partitioning.function
    assert function.partitions > 10
    assert all(len(boundary[0]) <= 5 for boundary in function.boundaries)


def test_the_first_characters_of_a_later_column(plan: Plan) -> None:
    found = plan(
        "select domain, left(host, 1) as h, percentile(v, 0.5) from pages group by domain, left(host, 1)",
        pages=in_ranges("domain host dir", count=200),
    )
    assert not moves(found)


@pytest.mark.parametrize("key", ["right(domain, 5)", "substring(domain, 2, 5)", "left(dir, 5)"])
def test_other_characters_lie_anywhere(plan: Plan, key: str) -> None:
    found = plan(
        f"select {key} as d, percentile(v, 0.5) from pages group by 1", pages=in_ranges("domain host dir", count=200)
    )
    assert moves(found)


def unevenly(name: str, *, count: int, rows: float = 1e8) -> Store:
    """Ranges of which the first has most of the rows, spread over many values."""

    def stored(scan: Scan) -> Scan:
        column = next(c for c in scan.columns if c.name == name)
        cuts = [(900_000 + i * 1000,) for i in range(1, count)]
        layout = ranged([asc(column)], cuts)
        delivered = Delivered(layout, (asc(column),))
        ends = [Cut((0,)), *map(Cut, cuts), Cut((1_000_000,))]
        sizes = [0.9 * rows, *[0.1 * rows / (count - 1)] * (count - 1)]
        assert isinstance(layout.function, RangeFunction)
        parts = [(Interval(*pair), size) for pair, size in zip(itertools.pairwise(ends), sizes, strict=True)]
        spread = of_partitions(layout.function.keys, parts)
        return replace(scan, layout=delivered, stored=delivered, spread=spread, spread_on=(column,))

    return stored


def test_ranges_that_are_uneven_are_read_as_finer_ones(plan: Plan) -> None:
    """On the same columns, with other boundaries (section 3.3.4)."""
    found = plan(
        "select v, percentile(length(dir), 0.5) from pages group by v", cores=20, pages=unevenly("v", count=40)
    )
    (scan,) = scans(found)
    assert not moves(found)
    assert scan.readers is not None
    (leaf,) = [node for node in found.walk() if isinstance(node.operator, ops.FileScan)]
    assert leaf.amount.largest < 0.2


def test_two_streams_with_other_boundaries_are_joined_in_place(plan: Plan) -> None:
    found = plan(
        "select p.domain, p.host, p.v, m.v as w from pages p join more m on p.domain = m.domain and p.host = m.host",
        pages=in_ranges("domain host dir", count=200),
        more=in_ranges("domain host dir", count=200, offset=11),
    )
    left, right = scans(found)
    assert not moves(found)
    assert not sorts(found)
    assert left.layout.partitioning.function == right.layout.partitioning.function


def test_a_union_of_streams_is_grouped_in_place(plan: Plan) -> None:
    found = plan(
        """select domain, host, percentile(v, 0.5) from
        (select * from pages union all select * from more) group by domain, host""",
        pages=in_ranges("domain host dir", count=200),
        more=in_ranges("domain host dir", count=100, offset=11),
    )
    assert not moves(found)
    functions = {scan.layout.partitioning.function for scan in scans(found)}
    assert len(functions) == 1


def test_buckets_of_two_numbers_meet_at_their_common_divisor(plan: Plan) -> None:
    found = plan(
        "select p.domain, p.v, m.v as w from pages p join more m on p.domain = m.domain",
        cores=10,
        pages=in_buckets("domain", 100),
        more=in_buckets("domain", 40),
    )
    assert not moves(found)
    counts = {scan.layout.partitioning.function.partitions for scan in scans(found)}
    assert len(counts) == 1
    assert counts <= {20, 100, 200, 40}


def test_coprime_buckets_are_moved(plan: Plan) -> None:
    found = plan(
        "select p.domain, p.v, m.v as w from pages p join more m on p.domain = m.domain",
        pages=in_buckets("domain", 101),
        more=in_buckets("domain", 97),
    )
    assert moves(found)
    assert all(isinstance(m.how.scheme.function, HashFunction) for m in moves(found))


def test_buckets_are_split_for_a_join_and_merged_for_what_is_written(plan: Plan) -> None:
    found = plan(
        """select p.domain, percentile(p.v + m.v, 0.5) as middle from pages p join more m on p.domain = m.domain
        group by p.domain""",
        into=("domain", 50),
        cores=20,
        pages=in_buckets("domain", 100),
        more=in_buckets("domain", 200),
    )
    assert all(move.readers is not None for move in moves(found))
    layout = found.delivered.partitioning
    assert isinstance(layout, Partitioned)
    assert layout.function.partitions == 50
