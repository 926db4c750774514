"""The values of a small table's key, looked up in a large table: row groups and partitions without them are not read."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.storing import by, store
from unshuffle import Session
from unshuffle.normalize.predicates.known_keys import condition_on_keys
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan.expressions import Call, Literal, Ref
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import FileScan, Filter
from unshuffle.sstream import LayoutRequest

ROWS = 40_000
GROUP = 500  # rows


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    numbers = [i * 7919 % ROWS for i in range(ROWS)]
    rows = pa.table({"a": numbers, "t": [f"t{i:05}" for i in numbers], "b": [i % 50 for i in range(ROWS)]})
    cuts = tuple((i * ROWS // 4,) for i in range(1, 4))
    store(folder / "ranged.ss", rows, LayoutRequest(by("a"), boundaries=cuts), row_group=GROUP)
    store(folder / "texts.ss", rows, LayoutRequest(by("t"), partitions=4), row_group=GROUP)
    store(folder / "hashed.ss", rows, LayoutRequest(by("a"), partitions=8), row_group=GROUP)
    store(folder / "elsewhere.ss", rows, LayoutRequest(by("b"), partitions=8), row_group=GROUP)
    keys = [i * 4_000 + 7 for i in range(10)]
    small = {
        "k": pa.array([*keys, None, 7], pa.int32()),
        "kt": [*(f"t{key:05}" for key in keys), None, "none"],
        "g": [*range(10), 3, 3],
        "d": [datetime.date(2024, 1, day) for day in range(1, 13)],
        "f": [float(i) for i in range(12)],
    }
    pq.write_table(pa.table(small), folder / "small.parquet")
    pq.write_table(pa.table({"k": list(range(0, ROWS, 100))}), folder / "many.parquet")
    return folder


def plan(tables: Path, query: str) -> PlannedQuery:
    with Session(tables=tables) as session:
        return optimize(session.pipeline.bind(query), Options())


def rows_read(optimized: PlannedQuery, label: str) -> int:
    """The rows of the row groups that the plan needs of a table."""
    nodes = [node.operator for root in optimized.roots for node in root.walk()]
    (scan,) = [each.scan for each in nodes if isinstance(each, FileScan) and each.scan.label == label]
    assert scan.bounds is not None
    return sum(scan.bounds.rows if scan.needed is None else (scan.bounds.rows[part] for part in scan.needed))


@pytest.mark.parametrize(
    ("query", "table", "groups"),
    [
        ("select * from ranged join small on a = k", "ranged", 10),
        ("select * from ranged join small on a = k where g = 4", "ranged", 1),
        ("select * from ranged join small on a = k where g in (4, 5) and g > 4", "ranged", 1),
        ("select * from ranged join small on a = k where d between date'2024-01-02' and date'2024-01-03'", "ranged", 2),
        ("select * from ranged join small on a = k where kt < 't05000'", "ranged", 2),
        ("select * from ranged where a in (select k from small where g = 4)", "ranged", 1),
        ("select * from small left join ranged on a = k and b > 3 where g = 4", "ranged", 1),
        ("select * from hashed join small on a = k where g in (4, 5)", "hashed", 2),
        ("select * from texts join small on t = kt where g in (4, 5)", "texts", 2),
        # Other conditions leave values in, and never out.
        ("select * from ranged join small on a = k where f = 4.0", "ranged", 10),
        ("select * from ranged join small on a = k where g % 2 = 0", "ranged", 10),
    ],
)
def test_a_join_reads_the_row_groups_of_the_keys(tables: Path, query: str, table: str, groups: int) -> None:
    optimized = plan(tables, query)
    assert 0 < rows_read(optimized, table) <= groups * GROUP


@pytest.mark.parametrize(
    ("query", "table"),
    [
        ("select * from ranged left join small on a = k", "ranged"),  # all rows of the left side are in the result
        ("select * from ranged where a not in (select k from small where k is not null)", "ranged"),
        ("select * from ranged join small on a <=> k", "ranged"),
        ("select * from elsewhere join small on a = k", "elsewhere"),  # the row groups have all values
    ],
)
def test_other_joins_read_all_rows(tables: Path, query: str, table: str) -> None:
    assert rows_read(plan(tables, query), table) == ROWS


def test_many_keys_are_not_listed(tables: Path) -> None:
    assert rows_read(plan(tables, "select * from ranged join many on a = k"), "ranged") == ROWS


def test_the_small_side_is_not_filtered_by_its_own_keys(tables: Path) -> None:
    optimized = plan(tables, "select * from ranged join small on a = k where g = 4")
    nodes = [node for root in optimized.roots for node in root.walk()]
    filters = [node.operator.predicate for node in nodes if isinstance(node.operator, Filter)]
    assert sum(isinstance(each, Call) and each.function == "in" for each in filters) <= 1


def scan_of(folder: Path, name: str) -> Scan:
    with Session(tables=folder) as session:
        (scan,) = [
            node for node in session.pipeline.bind(f"select * from {name}").operators() if isinstance(node, Scan)
        ]
    return scan


def test_files_that_readers_may_take_differently_have_no_known_keys(tmp_path: Path) -> None:
    """Spark reads a column by its name in any case, and a column that a file lacks as NULL."""
    for number, column in enumerate(("k", "K")):
        folder = tmp_path / "t.parquet"
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({column: [number]}), folder / f"{number}.parquet")
    scan = scan_of(tmp_path, "t")
    assert condition_on_keys(scan.columns[0], scan.columns[0], scan, []) is None


values = st.none() | st.integers(-2, 3)
comparisons = st.tuples(
    st.sampled_from(["=", "<", "<=", ">", ">=", "in", "isnull"]), st.lists(st.integers(-2, 3), min_size=1)
)


@given(st.lists(st.tuples(values, values), min_size=1, max_size=12), st.lists(comparisons, max_size=2))
@settings(deadline=None, max_examples=40)
def test_the_list_has_every_key_of_a_row_that_satisfies_the_conditions(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], conditions: list[tuple[str, list[int]]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    pq.write_table(
        pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "g": pa.array([g for _, g in rows], pa.int64())}),
        folder / "t.parquet",
    )
    scan = scan_of(folder, "t")
    k, g = scan.columns
    written = [
        Call(op, (Ref(g), *(Literal(each, pa.int64()) for each in (found if op == "in" else found[:1]))), pa.bool_())
        if op != "isnull"
        else Call(op, (Ref(g),), pa.bool_())
        for op, found in conditions
    ]
    listed = condition_on_keys(k, k, scan, written)
    expected = {key for key, of in rows if key is not None and all(is_met(op, of, found) for op, found in conditions)}
    if listed is None:
        assert not expected
    else:
        assert isinstance(listed, Call)
        found_keys = {each.value for each in listed.arguments[1:] if isinstance(each, Literal)}
        assert found_keys >= expected
        if len(conditions) < 2:
            assert found_keys == expected


def is_met(op: str, value: int | None, found: list[int]) -> bool:
    if op == "isnull":
        return value is None
    if value is None:
        return False
    first = found[0]
    return {
        "=": value == first,
        "<": value < first,
        "<=": value <= first,
        ">": value > first,
        ">=": value >= first,
        "in": value in found,
    }[op]
