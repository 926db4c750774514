"""A manifest that an enemy wrote is refused with one message, or read as what it says. It leads nowhere else."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.hostile_json import changed, is_same
from tests.support.storing import store
from unshuffle.catalog.json_files import MAX_BYTES
from unshuffle.errors import FileProblem, StreamProblem, UserError
from unshuffle.session import Session
from unshuffle.sstream import LayoutRequest, open_stream
from unshuffle.sstream.layout_request import sorted_names
from unshuffle.sstream.manifest_json import _checksum, encode
from unshuffle.sstream.storage import LocalStorage
from unshuffle.sstream.vacuum import vacuum

ROWS = pa.table({"a": list(range(20)), "b": [f"b{i % 3}" for i in range(20)]})


def _stored(folder: Path, ranged: bool = True) -> Path:
    path = folder / "t.ss"
    boundaries = ((7,), (14,)) if ranged else None
    request = LayoutRequest(
        clustered_by=sorted_names("a"), partitions=None if ranged else 3, boundaries=boundaries, overwrite=True
    )
    store(path, ROWS, request, files=2, row_group=3)
    return path


def _manifest(path: Path, version: int = 1) -> Path:
    return path / "_stream" / f"{version:07d}.json"


def _body(path: Path) -> Any:
    return json.loads(_manifest(path).read_bytes())["manifest"]


def _write(path: Path, body: Any, version: int = 1) -> None:
    """A manifest whose checksum is right."""
    whole = {"format": "unshuffle stream", "format_version": 1, "checksum": _checksum(body), "manifest": body}
    _manifest(path, version).write_text(json.dumps(whole))


def _explained(path: Path) -> str:
    with Session(tables=path.parent) as session:
        return session.explain("select b, count(*) as n from t where a > 3 group by b")


def _refused(path: Path, message: str = "") -> None:
    with pytest.raises(StreamProblem, match=message) as refused:
        open_stream(str(path))
    assert str(path) in str(refused.value)
    assert refused.value.hint
    assert len(str(refused.value)) < 1000


@pytest.fixture(scope="module")
def streams() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for ranged in (True, False):
            root = Path(folder) / str(ranged)
            root.mkdir()
            path = _stored(root, ranged)
            found.append((path, _body(path)))
        yield found


@given(st.data())
def test_a_changed_manifest_is_refused_or_read_as_it_is(streams: Any, data: st.DataObject) -> None:
    path, body = data.draw(st.sampled_from(streams), "stream")
    hostile = data.draw(changed(body), "manifest")
    _write(path, hostile)
    try:
        manifest = open_stream(str(path)).manifest
    except StreamProblem:
        return
    assert is_same(encode(manifest), hostile)
    with suppress(UserError):  # the manifest does not describe its files
        _explained(path)


NAMES = (
    "../../secret.parquet",
    "p=0/../../secret.parquet",
    "/etc/passwd",
    "file:///etc/passwd",
    "s3://bucket/x.parquet",
    "p=0//x.parquet",
    "p=0/*.parquet",
    "p=0/{a,b}.parquet",
    "p=0/.hidden.parquet",
    "p=0/a\\b.parquet",
    "p=0/a\nb.parquet",
    "p=0/a\x00.parquet",
    "p=٠/x.parquet",
    "p=0/",
    "",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_name_that_leads_elsewhere(tmp_path: Path, name: str) -> None:
    pq.write_table(ROWS, tmp_path / "secret.parquet")
    path = _stored(tmp_path)
    body = _body(path)
    body["partitions"][0]["files"][0]["path"] = name
    _write(path, body)
    _refused(path, "not the path of a file below the folder of the stream")
    with pytest.raises(StreamProblem):
        _explained(path)


def test_a_symbolic_link_is_no_file_of_a_stream(tmp_path: Path) -> None:
    path = _stored(tmp_path)
    file = path / _body(path)["partitions"][0]["files"][0]["path"]
    outside = tmp_path / "outside.parquet"
    file.rename(outside)
    file.symlink_to(outside)
    with pytest.raises(StreamProblem, match="is missing"):
        _explained(path)


def test_a_vacuum_removes_nothing_behind_a_link(tmp_path: Path) -> None:
    path, outside = _stored(tmp_path), tmp_path / "home"
    outside.mkdir()
    (outside / "precious.txt").write_text("mine")
    for name in ("p=7", "_new"):
        (path / name).symlink_to(outside)
    removed = vacuum(LocalStorage(str(path)), str(path), hours=0, now=2e10)
    assert removed.files == ()
    assert (outside / "precious.txt").read_text() == "mine"


def test_links_in_a_circle_do_not_hang(tmp_path: Path) -> None:
    path = _stored(tmp_path)
    for name in "xyz":
        (path / "p=0" / name).symlink_to(path)
    assert "Scan" in _explained(path)


def test_a_folder_of_manifests_elsewhere(tmp_path: Path) -> None:
    path = _stored(tmp_path)
    (path / "_stream").rename(tmp_path / "elsewhere")
    (path / "_stream").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileProblem, match="not a structured stream"):
        open_stream(str(path))


def test_streams_that_refer_to_each_other(tmp_path: Path) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        (tmp_path / name).mkdir()
        path = _stored(tmp_path / name)
        _write(path, {**_body(path), "reference": {"path": str(tmp_path / other / "t.ss"), "version": 1}})
    assert open_stream(str(tmp_path / "one" / "t.ss")).manifest.reference is not None
    assert "Scan" in _explained(tmp_path / "one" / "t.ss")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 200_000, "nested too deeply"),
        (b'{"format":' * 200_000, "nested too deeply"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"format": "unshuffle stream", "format": "unshuffle stream"}', "twice"),
        (b'{"format": "unshuffle stream", "format_version": NaN}', "NaN"),
        (b'{"format": "unshuffle stream", "format_version": 1e999}', "too large"),
        (b'{"format": "unshuffle stream", "format_version": ' + b"9" * 5000 + b"}", "."),
        (b'{"format": "unshuffle stream", "format_version": true}', "format_version"),
        (b'{"format": "unshuffle stream", "format_version": 1, "checksum": []}', "checksum"),
        (b'{"format": "\\ud800"}', "Unicode"),
        (b" " * (MAX_BYTES + 1), "more than 64 MB"),
        (b"", "not JSON"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_texts_that_are_no_manifest(tmp_path: Path, text: bytes, message: str) -> None:
    path = _stored(tmp_path)
    _manifest(path).write_bytes(text)
    _refused(path, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.update(version=2), "manifest of version 2"),
        (lambda body: body.update(version=True), "version"),
        (lambda body: body.update(rows=body["rows"] + 1), "rows"),
        (lambda body: body["partitions"][0]["files"][0].update(bytes=-1), "bytes"),
        (lambda body: body["partitions"].pop(), "partitions"),
        (lambda body: body["partitions"].reverse(), "not in the folder of partition"),
        (lambda body: body["partitioning"]["range"]["boundaries"].reverse(), "descend"),
        (lambda body: body["partitioning"]["range"]["boundaries"].__setitem__(0, ["7"]), "not of type"),
        (lambda body: body["partitioning"]["range"]["boundaries"].__setitem__(0, [2**63]), "not of type"),
        (lambda body: body["partitioning"].update(hash={"types": [], "partitions": 3, "family": "spark"}), "both"),
        (lambda body: body["histogram"]["buckets"].append([None]), "histogram"),
        (lambda body: body["histogram"]["buckets"][0].__setitem__(2, -1), "histogram"),
        (lambda body: body["schema"].append(body["schema"][0]), "twice"),
        (lambda body: body["partitions"][0]["files"].append(body["partitions"][0]["files"][0]), "rows"),
    ],
)
def test_parts_that_cannot_be(tmp_path: Path, change: Any, message: str) -> None:
    path = _stored(tmp_path)
    body = _body(path)
    change(body)
    _write(path, body)
    _refused(path, message)


def test_a_manifest_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    path = _stored(tmp_path)
    _manifest(path).unlink()
    os.mkfifo(_manifest(path))
    (path / "_stream" / "0000002.json").symlink_to("/dev/zero")
    with pytest.raises(FileProblem, match="not a structured stream"):
        open_stream(str(path))


@pytest.mark.parametrize("name", ["٠٠٠٠٠٠٢.json", "00000002.json", "0000000.json", f"{'9' * 200}.json"])
def test_names_of_manifests_that_lie(tmp_path: Path, name: str) -> None:
    path = _stored(tmp_path)
    (path / "_stream" / name).write_bytes(_manifest(path).read_bytes())
    assert open_stream(str(path)).version == 1
