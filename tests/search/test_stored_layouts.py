"""Plans over tables that are stored in partitions (SIGMOD 2012, section 3): stored layouts are read in place where
possible, and only the rest is exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, optimize
from unshuffle.partitions import Cut, KeyInterval, histogram_of_partitions
from unshuffle.plan import physical
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Delivered,
    HashFunction,
    Partitioned,
    PrefixPartitioned,
    RangeFunction,
    Repartitioning,
    TargetedBroadcast,
    asc,
    hashed,
    ranged,
)
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads.described import Described, parse, with_scans

Store = Callable[[Scan], Scan]
Plan = Callable[..., PhysicalPlan]

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
sites  rows=1000000
    domain string width=20 distinct=100000
    host string width=20 distinct=1000000
    owner string width=100 distinct=100000
few  rows=1000
    domain string width=20 distinct=1000
    owner string width=100 distinct=1000
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    def optimized(text: str, into: tuple[str, int] | None = None, cores: int = 100, **stores: Store) -> PhysicalPlan:
        bound = Described(tmp_path / "tables", parse(PAGES)).bind(text, "query")
        bound = with_scans(bound, lambda scan: stores[scan.label](scan) if scan.label in stores else scan)
        if into is not None:
            (output,) = bound.outputs
            column = next(c for c in output.plan.columns if c.name == into[0])
            layout = Delivered(hashed([column], into[1]), (asc(column),))
            bound = replace(bound, outputs=(replace(output, layout=layout),))
        chosen = optimize(bound, Options(Target(Machine(cores=cores))))
        verify(chosen)
        return chosen.outputs[0][1]

    return optimized


def in_ranges(names: str, *, count: int, offset: int = 0, rows: float = 1e8) -> Store:
    """Ranges of equal size on the columns, with boundaries in the middle of a domain."""

    def stored(scan: Scan) -> Scan:
        columns = [next(c for c in scan.columns if c.name == name) for name in names.split()]
        cuts = [(f"d{(i * 37 + offset):06}", "h5", "x")[: len(columns)] for i in range(1, count)]
        layout = ranged([asc(c) for c in columns], cuts)
        delivered = Delivered(layout, tuple(asc(c) for c in columns))
        ends = [Cut(("d000000",)), *map(Cut, cuts), Cut(("e",))]
        parts = [(KeyInterval(low, high), rows / count) for low, high in itertools.pairwise(ends)]
        assert isinstance(layout.function, RangeFunction)
        spread = histogram_of_partitions(layout.function.keys, parts)
        return replace(scan, layout=delivered, stored=delivered, spread=spread, spread_on=tuple(columns))

    return stored


def in_buckets(names: str, count: int) -> Store:
    def stored(scan: Scan) -> Scan:
        columns = [next(c for c in scan.columns if c.name == name) for name in names.split()]
        delivered = Delivered(hashed(columns, count), tuple(asc(c) for c in columns))
        return replace(scan, layout=delivered, stored=delivered)

    return stored


def scans(plan: PhysicalPlan) -> list[physical.FileScan]:
    return [node.operator for node in plan.walk() if isinstance(node.operator, physical.FileScan)]


def exchanges(plan: PhysicalPlan) -> list[physical.Exchange]:
    return [node.operator for node in plan.walk() if isinstance(node.operator, physical.Exchange)]


def sorts(plan: PhysicalPlan) -> list[physical.LocalSort]:
    return [node.operator for node in plan.walk() if isinstance(node.operator, physical.LocalSort)]


def on(scan: physical.FileScan) -> str:
    layout = scan.layout.partitioning
    return " ".join(c.name for c in layout.columns) if isinstance(layout, Partitioned) else ""


def test_ranges_on_more_columns_are_read_as_ranges_on_the_first(plan: Plan) -> None:
    found = plan(
        "select domain, host, percentile(v, 0.5) from pages group by domain, host",
        pages=in_ranges("domain host dir", count=200),
    )
    (scan,) = scans(found)
    assert not exchanges(found)
    assert on(scan) == "domain host"
    assert scan.readers is not None


def test_ranges_read_as_others_keep_their_order(plan: Plan) -> None:
    found = plan(
        "select domain, host, max(dir) from pages group by domain, host", pages=in_ranges("domain host dir", count=200)
    )
    assert not exchanges(found)
    assert not sorts(found)
    assert any(isinstance(node.operator, physical.SortAggregate) for node in found.walk())


def test_ranges_that_satisfy_the_requirement_are_read_as_stored(plan: Plan) -> None:
    found = plan("select domain, max(v) from pages group by domain", pages=in_ranges("domain", count=200))
    (scan,) = scans(found)
    assert not exchanges(found)
    assert scan.readers is None


@pytest.mark.parametrize("key", ["left(domain, 5)", "substring(domain, 1, 5)", "left(left(domain, 9), 5)"])
@pytest.mark.parametrize("columns", ["domain", "domain host dir"])
def test_ranges_of_a_text_are_read_as_ranges_of_its_first_characters(plan: Plan, columns: str, key: str) -> None:
    found = plan(
        f"select {key} as d, percentile(v, 0.5) from pages where v > 5 group by 1",
        cores=18,
        pages=in_ranges(columns, count=200),
    )
    (scan,) = scans(found)
    assert not exchanges(found)
    assert on(scan) == "domain"
    function = scan.layout.partitioning.function
    assert function.partitions > 10
    assert all(len(boundary[0]) <= 5 for boundary in function.boundaries)


def test_the_first_characters_of_a_later_column(plan: Plan) -> None:
    found = plan(
        "select domain, left(host, 1) as h, percentile(v, 0.5) from pages group by domain, left(host, 1)",
        pages=in_ranges("domain host dir", count=200),
    )
    assert not exchanges(found)


@pytest.mark.parametrize("key", ["right(domain, 5)", "substring(domain, 2, 5)", "left(dir, 5)"])
def test_other_substrings_need_an_exchange(plan: Plan, key: str) -> None:
    found = plan(
        f"select {key} as d, percentile(v, 0.5) from pages group by 1", pages=in_ranges("domain host dir", count=200)
    )
    assert exchanges(found)


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
        parts = [(KeyInterval(*pair), size) for pair, size in zip(itertools.pairwise(ends), sizes, strict=True)]
        spread = histogram_of_partitions(layout.function.keys, parts)
        return replace(scan, layout=delivered, stored=delivered, spread=spread, spread_on=(column,))

    return stored


def test_skewed_ranges_are_read_as_finer_ones(plan: Plan) -> None:
    """On the same columns, with other boundaries (section 3.3.4)."""
    found = plan(
        "select v, percentile(length(dir), 0.5) from pages group by v", cores=20, pages=unevenly("v", count=40)
    )
    (scan,) = scans(found)
    assert not exchanges(found)
    assert scan.readers is not None
    (leaf,) = [node for node in found.walk() if isinstance(node.operator, physical.FileScan)]
    assert leaf.size.largest < 0.2


def test_two_streams_with_other_boundaries_are_joined_in_place(plan: Plan) -> None:
    found = plan(
        "select p.domain, p.host, p.v, m.v as w from pages p join more m on p.domain = m.domain and p.host = m.host",
        pages=in_ranges("domain host dir", count=200),
        more=in_ranges("domain host dir", count=200, offset=11),
    )
    left, right = scans(found)
    assert not exchanges(found)
    assert not sorts(found)
    assert left.layout.partitioning.function == right.layout.partitioning.function


def test_joins_in_place_have_hash_tables_that_fit_the_cache(plan: Plan) -> None:
    """Starting more tasks than there are cores costs less than look-ups outside the cache."""
    text = "SELECT p.v FROM pages AS p JOIN {} AS m ON p.domain = m.domain AND p.v = m.v"
    stored = {name: in_ranges("domain", count=400) for name in ("pages", "more")}
    large = plan(text.format("more"), cores=2, **stored)
    (join,) = [node for node in large.walk() if isinstance(node.operator, physical.HashJoin)]
    assert not exchanges(large)
    assert join.size.partitions > 100


def test_a_union_of_streams_is_grouped_in_place(plan: Plan) -> None:
    found = plan(
        """select domain, host, percentile(v, 0.5) from
        (select * from pages union all select * from more) group by domain, host""",
        pages=in_ranges("domain host dir", count=200),
        more=in_ranges("domain host dir", count=100, offset=11),
    )
    assert not exchanges(found)
    functions = {scan.layout.partitioning.function for scan in scans(found)}
    assert len(functions) == 1


@pytest.mark.parametrize(
    ("count", "where", "is_listed"),
    [(200, "", True), (200, "where dir > 'x'", True), (10, "", False), (None, "", False)],
    ids=["small ranges", "some rows of small ranges", "large ranges", "ranges without counts"],
)
def test_percentile_lists_need_groups_that_are_known_to_be_small(
    plan: Plan, count: int | None, where: str, is_listed: bool
) -> None:
    """A list holds every value of a group, while Spark's percentile counts equal values once. A list must fit into a
    task."""
    query = f"select domain, host, percentile(v, 0.5), median(v + 1) from pages {where} group by domain, host"
    stores = {} if count is None else {"pages": in_ranges("domain host dir", count=count)}
    found = plan(query, **stores)
    streamed = [each.operator for each in found.walk() if isinstance(each.operator, physical.SortAggregate)]
    assert any(each.listed for each in streamed) is is_listed


def test_no_percentile_lists_above_a_join(plan: Plan) -> None:
    """The size of the groups is unknown there."""
    found = plan(
        """select p.domain, p.host, percentile(p.v + m.v, 0.5) from pages p join more m
        on p.domain = m.domain and p.host = m.host group by p.domain, p.host""",
        pages=in_ranges("domain host", count=200),
        more=in_ranges("domain host", count=200),
    )
    streamed = [each.operator for each in found.walk() if isinstance(each.operator, physical.SortAggregate)]
    assert streamed
    assert not any(each.listed for each in streamed)


def test_buckets_of_two_numbers_are_joined_at_their_common_divisor(plan: Plan) -> None:
    found = plan(
        "select p.domain, p.v, m.v as w from pages p join more m on p.domain = m.domain",
        cores=10,
        pages=in_buckets("domain", 100),
        more=in_buckets("domain", 40),
    )
    assert not exchanges(found)
    counts = {scan.layout.partitioning.function.partitions for scan in scans(found)}
    assert len(counts) == 1
    assert counts <= {20, 100, 200, 40}


def test_coprime_buckets_are_exchanged(plan: Plan) -> None:
    found = plan(
        "select p.domain, p.v, m.v as w from pages p join more m on p.domain = m.domain",
        pages=in_buckets("domain", 101),
        more=in_buckets("domain", 97),
    )
    assert exchanges(found)
    assert all(isinstance(m.how.scheme.function, HashFunction) for m in exchanges(found))


def test_buckets_are_split_for_a_join_and_merged_for_the_output(plan: Plan) -> None:
    found = plan(
        """select p.domain, percentile(p.v + m.v, 0.5) as middle from pages p join more m on p.domain = m.domain
        group by p.domain""",
        into=("domain", 50),
        cores=20,
        pages=in_buckets("domain", 100),
        more=in_buckets("domain", 200),
    )
    assert all(move.readers is not None for move in exchanges(found))
    layout = found.delivered.partitioning
    assert isinstance(layout, Partitioned)
    assert layout.function.partitions == 50


def test_rows_are_sent_where_reading_them_in_place_would_keep_cores_idle(plan: Plan) -> None:
    """Into 50 partitions in place, 50 tasks would also join and group what 200 cores can."""
    found = plan(
        """select p.domain, percentile(p.v + m.v, 0.5) as middle from pages p join more m on p.domain = m.domain
        group by p.domain""",
        into=("domain", 50),
        cores=200,
        pages=in_buckets("domain", 100),
        more=in_buckets("domain", 200),
    )
    (sent,) = exchanges(found)
    assert sent.readers is None
    assert isinstance(sent.how, Repartitioning)
    counts = [
        node.size.partitions
        for node in found.walk()
        if isinstance(node.operator, physical.MergeJoin | physical.SortAggregate)
    ]
    assert counts == [200, 200]
    assert [scan.readers for scan in scans(found)].count(2.0) == 1


def test_unique_rows_in_the_same_layout_are_joined_in_place(plan: Plan) -> None:
    """Unique rows are clustered under any layout. The stored layout that both inputs have is still the best."""

    def stored(scan: Scan) -> Scan:
        found = in_ranges("domain host", count=200)(scan)
        columns = [next(c for c in scan.columns if c.name == name) for name in ("domain", "host")]
        return replace(found, keys=(frozenset(columns),), spread=None)

    text = "select p.domain, p.host, p.v, m.v as w from pages p join more m on p.domain = m.domain and p.host = m.host"
    assert not exchanges(plan(text, pages=stored, more=stored))


# --- targeted broadcasts


def targeted(plan: PhysicalPlan) -> list[PhysicalPlan]:
    return [node for node in plan.walk() if node.alternative.startswith("targeted")]


OWNED = "select p.domain, p.host, p.v, s.owner from pages p {} join sites s on p.domain = s.domain"


def test_a_small_input_goes_to_the_ranges_that_can_have_matches(plan: Plan) -> None:
    found = plan(OWNED.format(""), pages=in_ranges("domain host", count=200))
    (join,) = targeted(found)
    (move,) = exchanges(found)
    pages, _ = scans(found)
    assert on(pages) == "domain host"
    assert pages.readers is None
    assert isinstance(move.how.scheme, TargetedBroadcast)
    assert [column.name for column in move.how.scheme.columns] == ["domain"]
    assert move.how.scheme.function == pages.layout.partitioning.function
    # Each of the 199 boundaries is in the middle of a domain, whose rows are copied once more: of 100,000 domains.
    copies = join.inputs[1].size.rows / join.inputs[1].inputs[0].size.rows
    assert copies == pytest.approx(1 + 199 / 100000)
    assert found.delivered == pages.layout, "the large input keeps its layout and order"


def test_a_value_that_fills_many_ranges_is_copied_to_all_of_them(plan: Plan) -> None:
    def one_domain(scan: Scan) -> Scan:
        columns = [next(c for c in scan.columns if c.name == name) for name in ("domain", "host")]
        cuts = [("d1", f"h{i:06}") for i in range(1, 200)]
        layout = Delivered(ranged([asc(c) for c in columns], cuts), tuple(asc(c) for c in columns))
        return replace(scan, layout=layout, stored=layout)

    (join,) = targeted(plan(OWNED.format(""), pages=one_domain))
    assert join.inputs[1].size.rows == pytest.approx(1e6 * (1 + 199 / 100000))
    few = "select p.domain, p.host, p.v, s.owner from pages p join (select domain, max(owner) as owner from sites"
    few += " where domain in ('d1', 'd2') group by domain) s on p.domain = s.domain"
    assert not targeted(plan(few, pages=one_domain)), (
        "for two rows, one of them in 200 partitions, a broadcast is as good"
    )


@pytest.mark.parametrize(("kind", "build"), [("left", 1), ("left semi", 1), ("left anti", 1), ("", 1)])
def test_targeted_broadcasts_for_joins_that_preserve_the_large_input(plan: Plan, kind: str, build: int) -> None:
    text = OWNED.format(kind)
    if "semi" in kind or "anti" in kind:
        text = f"select p.domain, p.host, p.v from pages p {kind} join sites s on p.domain = s.domain"
    (join,) = targeted(plan(text, pages=in_ranges("domain host", count=200)))
    assert join.alternative == "targeted broadcast right"
    assert join.operator.build == build


def test_targeted_broadcasts_of_the_left_input(plan: Plan) -> None:
    text = "select p.domain, p.host, p.v, s.owner from sites s right join pages p on p.domain = s.domain"
    (join,) = targeted(plan(text, pages=in_ranges("domain host", count=200)))
    assert join.alternative == "targeted broadcast left"


@pytest.mark.parametrize("kind", ["right", "full"])
def test_no_targeted_broadcast_for_joins_that_preserve_the_small_input(plan: Plan, kind: str) -> None:
    assert not targeted(plan(OWNED.format(kind), pages=in_ranges("domain host", count=200)))


def test_few_rows_are_broadcast(plan: Plan) -> None:
    text = "select p.domain, p.host, p.v, s.owner from pages p join few s on p.domain = s.domain"
    found = plan(text, pages=in_ranges("domain host", count=200))
    assert [node.alternative for node in found.walk() if node.alternative] == ["broadcast right"]


def test_a_join_on_all_range_columns_co_partitions(plan: Plan) -> None:
    text = "select p.domain, p.host, p.v, s.owner from pages p join sites s on p.domain = s.domain and p.host = s.host"
    found = plan(text, pages=in_ranges("domain host", count=200))
    assert [node.alternative for node in found.walk() if node.alternative] == ["pair-wise"]
    assert not any(isinstance(move.how.scheme, TargetedBroadcast) for move in exchanges(found))


def test_no_targeted_broadcast_on_a_column_that_is_not_the_first(plan: Plan) -> None:
    text = "select p.domain, p.host, p.v, s.owner from pages p join sites s on p.host = s.host"
    assert not targeted(plan(text, pages=in_ranges("domain host", count=200)))


def test_no_targeted_broadcast_on_a_cast_column(plan: Plan) -> None:
    text = "select p.domain, p.host, p.v, s.owner from pages p join sites s on cast(p.domain as bigint) = s.domain"
    assert not targeted(plan(text, pages=in_ranges("domain host", count=200)))


def test_operators_above_use_the_layout_of_the_large_input(plan: Plan) -> None:
    found = plan(
        """select p.domain, p.host, percentile(p.v, 0.5), max(s.owner) from pages p join sites s on p.domain = s.domain
        where p.v > 5 group by p.domain, p.host""",
        pages=in_ranges("domain host", count=200),
    )
    assert targeted(found)
    assert [type(move.how.scheme) for move in exchanges(found)] == [TargetedBroadcast]


def test_unread_range_columns_do_not_prevent_a_targeted_broadcast(plan: Plan) -> None:
    """The ranges of `domain` alone are enough for a targeted broadcast, and for nothing else."""
    text = "select p.domain, p.v, s.owner from pages p join sites s on p.domain = s.domain where p.v > 7"
    found = plan(text, pages=in_ranges("domain host", count=200))
    (join,) = targeted(found)
    pages, _ = scans(found)
    assert isinstance(pages.layout.partitioning, PrefixPartitioned)
    assert [column.name for column in pages.columns] == ["domain", "v"]
    assert [type(move.how.scheme) for move in exchanges(found)] == [TargetedBroadcast]
    assert join.inputs[1].delivered.partitioning.function == pages.layout.partitioning.function
    grouped = plan("select domain, max(v) from pages group by domain", pages=in_ranges("domain host", count=200))
    assert all(not isinstance(node.delivered.partitioning, PrefixPartitioned) for node in grouped.walk())
