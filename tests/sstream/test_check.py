"""Every false statement of a manifest is found, with the file and the row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.storing import by, store, write_file
from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.errors import InternalError, StreamProblem
from unshuffle.sstream import LayoutRequest, Manifest, StoredPartition, Stream, resolve_layout
from unshuffle.sstream.check import check
from unshuffle.sstream.manifest import StoredFile
from unshuffle.sstream.storage import LocalStorage
from unshuffle.sstream.version_writer import VersionWriter

ROWS = pa.table({"a": pa.array([None, 1, 1, 2, 3, 4, 5, 6]), "b": [0, 1, 2, 2, 3, 4, 5, 6], "c": list("xxyzzzzz")})


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    request = LayoutRequest(by("a"), by("a", "b"), boundaries=((2,), (5,)))
    return store(tmp_path / "x.ss", ROWS, request, files=2, row_group=2)


def faults(stream: Stream, **changes: object) -> list[str]:
    return [str(each) for each in check(replace(stream, manifest=replace(stream.manifest, **changes)))]


def with_file(manifest: Manifest, change: StoredFile, at: tuple[int, int] = (0, 0)) -> tuple[StoredPartition, ...]:
    partitions = [list(partition.files) for partition in manifest.partitions]
    partitions[at[0]][at[1]] = change
    return tuple(StoredPartition(tuple(files)) for files in partitions)


def test_a_correct_manifest(stream: Stream) -> None:
    assert faults(stream) == []


def test_a_row_in_the_wrong_partition(stream: Stream) -> None:
    moved = (stream.manifest.partitions[1], stream.manifest.partitions[0], stream.manifest.partitions[2])
    first = stream.manifest.partitions[1].files[0].path
    assert f"{first}, row 0: the row with a bigint = 2 belongs in partition 1, not 0" in faults(
        stream, partitions=moved
    )


def test_a_row_out_of_order(stream: Stream) -> None:
    found = faults(stream, sorted_by=by("a", "-b"))
    assert any("row 0: (1, 2) comes after (1, 1), which is not in the order of a, b desc" in each for each in found)


def test_files_out_of_order(stream: Stream) -> None:
    one, two = stream.manifest.partitions[1].files
    partitions = (stream.manifest.partitions[0], StoredPartition((two, one)), stream.manifest.partitions[2])
    assert any(
        each.startswith(f"{one.path}, row 0: (2, 2) comes after") for each in faults(stream, partitions=partitions)
    )


def test_keys_and_size_of_a_row_group(stream: Stream) -> None:
    file = stream.manifest.partitions[0].files[0]
    group = file.groups[0]
    for wrong, said in (
        (replace(group, first=(7, 7)), "row 0: the first key of the row group is (NULL, 0), not (7, 7)"),
        (replace(group, last=(None, None)), "row 1: the last key of the row group is (1, 1), not (NULL, NULL)"),
        (replace(group, rows=5), "the row group has 2 rows, not 5"),
    ):
        partitions = with_file(stream.manifest, replace(file, groups=(wrong, *file.groups[1:])))
        assert any(said in each for each in faults(stream, partitions=partitions)), said
    more = with_file(stream.manifest, replace(file, groups=(*file.groups, group)))
    assert any("row groups, not" in each for each in faults(stream, partitions=more))


def test_the_histogram(stream: Stream) -> None:
    assert faults(stream, histogram=stream.manifest.histogram.scaled(2)) == [
        "the histogram counts 16 rows, but there are 8"
    ]


def test_keys_and_dependencies(stream: Stream) -> None:
    assert faults(stream, keys=(DeclaredKey(("a",)),)) == ["KEY (a) does not hold: a = 1 in 2 rows"]
    (said,) = faults(stream, dependencies=(DeclaredDependency(("b",), ("c",)),))
    assert said.startswith("DEPENDS (b -> c) does not hold: b = 2 with c = ")


def test_columns_and_footers(stream: Stream) -> None:
    file = stream.manifest.partitions[0].files[0]
    write_file(Path(stream.path_of(file)), pa.table({"a": [1], "b": [1]}))
    changed = with_file(stream.manifest, replace(file, bytes=Path(stream.path_of(file)).stat().st_size))
    found = faults(stream, partitions=changed)
    assert any("the footer has changed since it was written" in each for each in found)
    assert any("the file has the columns a, b" in each for each in found)
    assert any("the file has 1 rows, not 2" in each for each in found)


def test_rows_that_were_partitioned_elsewhere_are_verified(tmp_path: Path) -> None:
    layout = resolve_layout(LayoutRequest(by("a"), partitions=2), [("a", pa.int64())], None)
    assert layout.function is not None
    storage = LocalStorage(str(tmp_path / "x.ss"))
    for rows, problem, said in (
        ([1, 2, 3, 4], InternalError, "belongs in partition"),
        ([4, 1], StreamProblem, "is not sorted by a"),
    ):
        with VersionWriter(storage, "x.ss", False) as writer:
            folder = Path(storage.path) / writer.staging / "_p=0"
            folder.mkdir(parents=True)
            write_file(folder / "part.parquet", pa.table({"a": rows}))
            with pytest.raises(problem, match=said):
                writer.prepare(layout, layout.function, verify=True)
    assert storage.entries() == []
