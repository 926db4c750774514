"""A DataFrame that reads exactly the files of one version of a structured stream, as a scan of that stream.

`Session.read_stream` returns such a DataFrame, and so does reading the files directly. The set of files decides, not their
folder: a stream has files of several versions, and a layout holds only for the files that its manifest names.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from unshuffle.errors import StreamProblem, UserError
from unshuffle.plan.logical import Scan
from unshuffle.plan.sstream_scan import stream_scan
from unshuffle.sstream.storage import storage_of
from unshuffle.sstream.store import Stream, open_stream, versions

_FILE = re.compile(r"(.+)/p=\d+/[^/]+")


def as_stream(scan: Scan, catalog: str | Path | None) -> Scan | None:
    """The scan with the layout and statistics of the manifest; None if the files are not a version of a stream."""
    where = scan.files
    stream = _version(where.paths)
    if stream is None or where.base is not None:
        return None
    if tuple((column.name, column.type) for column in scan.columns) != stream.manifest.schema:
        return None  # the user gave another schema
    try:
        label = stream.path.rstrip("/").rsplit("/", 1)[-1].removesuffix(".ss")
        found = stream_scan(stream, label, {column.name: column for column in scan.columns}, catalog=catalog)
    except StreamProblem:
        return None  # its files have changed: Spark reads them as plain files
    return replace(found, files=replace(found.files, relation=where.relation))


def _version(paths: tuple[str, ...]) -> Stream | None:
    local = [_plain(path) for path in paths]
    folders = {match[1] if (match := _FILE.fullmatch(path)) else None for path in local}
    folder = folders.pop() if len(folders) == 1 else None
    if folder is None:
        return None
    try:
        for version in reversed(versions(storage_of(folder))):
            stream = open_stream(folder, version)
            if sorted(map(_plain, stream.paths)) == sorted(local):
                return stream
    except (UserError, OSError):
        pass  # what cannot be read as a stream is read as plain files
    return None


def _plain(path: str) -> str:
    """A path as a stream writes it: a local path without the scheme that Spark adds."""
    return urlsplit(path).path if path.startswith("file:") else path
