"""Versions: readers keep theirs, one of two writers wins, and errors name the file."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.storing import VALUES, by, store, table_of, write_file
from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.errors import DeclarationProblem, FileProblem, StreamProblem
from unshuffle.partitions import KeyColumn, KeyOrder
from unshuffle.sstream import LayoutRequest, footer_statistics, open_stream, resolve_layout, storage_of
from unshuffle.sstream.check import check
from unshuffle.sstream.footer_statistics import statistics_of
from unshuffle.sstream.order import first_descent
from unshuffle.sstream.storage import LocalStorage
from unshuffle.sstream.store import versions
from unshuffle.sstream.version_writer import VersionWriter

ROWS = pa.table({"a": pa.array([5, 1, None, 3, 3, 2, 8, 1], pa.int64()), "b": list("hgfedcba")})
OTHER = pa.table({"a": pa.array([9, 9], pa.int64()), "b": ["x", "y"]})
HASHED = LayoutRequest(by("a"), by("a", "-b"), partitions=3, overwrite=True)
RANGED = LayoutRequest(by("a"), by("a"), boundaries=((2,), (4,)), overwrite=True)


def same_rows(stream_rows: list[tuple[object, ...]], rows: pa.Table) -> bool:
    return sorted(map(repr, stream_rows)) == sorted(map(repr, zip(*rows.to_pydict().values(), strict=True)))


@pytest.mark.parametrize("kind", list(VALUES))
@pytest.mark.parametrize("descending", ["", "-"])
@pytest.mark.parametrize("ranged", [False, True])
def test_rows_of_every_type_are_stored_and_checked(tmp_path: Path, kind: str, descending: str, ranged: bool) -> None:
    type, values = VALUES[kind]
    rows = pa.table({"k": pa.array(values * 3, type), "n": list(range(3 * len(values)))})
    order = KeyOrder([KeyColumn(type, bool(descending), not descending)])
    cuts = {order.row((value,)): (value,) for value in values if order.row((value,))}
    boundaries = tuple(cuts[place] for place in sorted(cuts))
    layout_request = LayoutRequest(
        by(f"{descending}k"), boundaries=boundaries if ranged else None, partitions=None if ranged else 4
    )
    stream = store(tmp_path / "x.ss", rows, layout_request, files=2, row_group=2)
    assert check(open_stream(stream.path)) == ()
    assert same_rows(table_of(stream), rows)
    assert dict(statistics_of(stream)).keys() == {"k", "n"}


@pytest.mark.parametrize("layout_request", [HASHED, RANGED])
def test_no_rows_and_one_partition(tmp_path: Path, layout_request: LayoutRequest) -> None:
    empty = store(tmp_path / "empty.ss", ROWS.slice(0, 0), layout_request)
    assert check(empty) == ()
    assert (empty.manifest.rows, empty.paths, len(statistics_of(empty))) == (0, (), 2)
    one = store(tmp_path / "one.ss", ROWS, LayoutRequest(by("a"), boundaries=()))
    assert check(one) == ()
    assert len(one.manifest.partitions) == 1


def test_a_reader_keeps_its_version(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    store(path, ROWS, HASHED)
    reader = open_stream(str(path))
    store(path, OTHER, HASHED)
    assert same_rows(table_of(reader), ROWS)
    assert same_rows(table_of(open_stream(str(path))), OTHER)
    assert same_rows(table_of(open_stream(str(path), 1)), ROWS)
    with pytest.raises(StreamProblem, match="no version 7"):
        open_stream(str(path), 7)


def test_an_existing_stream_is_replaced_only_with_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    store(path, ROWS, HASHED)
    with pytest.raises(FileProblem, match="exists already"):
        store(path, ROWS, LayoutRequest(by("a"), partitions=2))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    with pytest.raises(FileProblem, match="not a structured stream"):
        store(tmp_path / "data", ROWS, HASHED)
    with pytest.raises(FileProblem, match="not a structured stream"):
        store(tmp_path / "data" / "mine.txt", ROWS, HASHED)
    with pytest.raises(FileProblem, match="not a structured stream"):
        open_stream(str(tmp_path / "data"))


def test_of_two_writers_one_wins_and_the_other_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    store(path, ROWS, HASHED)
    meet = threading.Barrier(2)
    lost: list[StreamProblem] = []

    def write(rows: pa.Table) -> None:
        def step(operation: str, name: str) -> None:
            if operation == "link":
                meet.wait()

        try:
            store(path, rows, HASHED, step)
        except StreamProblem as problem:
            lost.append(problem)

    writers = [threading.Thread(target=write, args=(rows,)) for rows in (ROWS, OTHER)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(lost) == 1
    assert "another writer published version 2" in str(lost[0])
    assert versions(storage_of(str(path))) == [1, 2]
    newest = open_stream(str(path))
    assert check(newest) == ()
    named = {file.path for version in (1, 2) for file in open_stream(str(path), version).manifest.files()}
    assert {entry.name for entry in storage_of(str(path)).entries() if not entry.name.startswith("_stream/")} == named


def test_rows_computed_from_a_version_follow_that_version(tmp_path: Path) -> None:
    storage = storage_of(str(tmp_path / "x.ss"))
    store(tmp_path / "x.ss", ROWS, HASHED)
    store(tmp_path / "x.ss", OTHER, HASHED)
    VersionWriter(storage, "x.ss", overwrite=True, follows=2).discard()
    with pytest.raises(StreamProblem, match="now has version 2, and the rows are computed from version 1"):
        VersionWriter(storage, "x.ss", overwrite=True, follows=1)


def test_files_of_uncommitted_attempts_are_not_published(tmp_path: Path) -> None:
    """An executor that the driver has given up may write on after the others have finished."""
    storage = LocalStorage(str(tmp_path / "x.ss"))
    layout = resolve_layout(LayoutRequest(by("a"), partitions=1), [("a", pa.int64())], None)
    with VersionWriter(storage, "x.ss", overwrite=False) as writer:
        staging = Path(storage.path) / writer.staging
        for folder in ("_p=0", "_temporary/0/_temporary/attempt_2026_m_000000_0/_p=0"):
            (staging / folder).mkdir(parents=True)
            write_file(staging / folder / "part-00000.parquet", pa.table({"a": pa.array([1, 2], pa.int64())}))
        assert layout.function is not None
        assert writer.prepare(layout, layout.function).rows == 2
        stream = writer.publish()
    assert table_of(stream) == [(1,), (2,)]
    assert not (Path(storage.path) / "_new").exists()


def test_declarations_are_checked_on_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    with pytest.raises(DeclarationProblem, match="a = 1 in 2 rows"):
        store(path, ROWS, LayoutRequest(by("a"), partitions=2, keys=(DeclaredKey(("a",)),)))
    with pytest.raises(DeclarationProblem, match=r"DEPENDS \(a -> b\) does not hold"):
        store(path, ROWS, LayoutRequest(by("a"), partitions=2, dependencies=(DeclaredDependency(("a",), ("b",)),)))
    assert storage_of(str(path)).entries() == []
    good = store(path, ROWS, LayoutRequest(by("a"), partitions=2, keys=(DeclaredKey(("b",)),)))
    assert open_stream(good.path).manifest.keys == (DeclaredKey(("b",)),)


@given(st.sampled_from(list(VALUES)), st.booleans(), st.booleans(), st.data())
def test_column_order_agrees_with_row_order(
    kind: str, descending: bool, nulls_first: bool, data: st.DataObject
) -> None:
    type, values = VALUES[kind]
    rows = data.draw(st.lists(st.tuples(st.sampled_from(values), st.integers(0, 2)), max_size=6))
    keys = (KeyColumn(type, descending, nulls_first), KeyColumn(pa.int64()))
    columns = [pa.array([row[0] for row in rows], type), pa.array([row[1] for row in rows], pa.int64())]
    place = KeyOrder(keys).row
    expected = next((i for i in range(1, len(rows)) if place(rows[i - 1]) > place(rows[i])), None)
    assert first_descent(columns, keys) == expected


def test_statistics_of_versions_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Footers of wide files are large, and a session that lives long reads many versions."""
    footer_statistics._COMPUTED.clear()
    monkeypatch.setattr(footer_statistics, "_MOST_COMPUTED", 3)
    read: list[str] = []
    usual = footer_statistics.read_footer
    monkeypatch.setattr(footer_statistics, "read_footer", lambda path: read.append(path) or usual(path))
    streams = [store(tmp_path / "x.ss", ROWS, HASHED) for _ in range(5)]
    for stream in streams:
        assert statistics_of(stream) == statistics_of(stream)
    assert len(read) == sum(len(stream.paths) for stream in streams)
    assert len(footer_statistics._COMPUTED) == 3
    statistics_of(streams[-1])
    assert len(read) == sum(len(stream.paths) for stream in streams)
