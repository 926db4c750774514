"""A DataFrame that reads exactly the files of one version of a structured stream, as a scan of that stream.

`Session.read_stream` gives such a DataFrame, and so does reading the files by hand. Which files are read decides, not where
they lie: a stream has files of several versions, and a layout holds of the files that its manifest names and of no others.
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import urlsplit

from unshuffle.algebra.logical import Scan
from unshuffle.algebra.stored import stream_scan
from unshuffle.errors import StreamProblem, UserError
from unshuffle.streams.places import place_of
from unshuffle.streams.store import Stream, open_stream, versions

_FILE = re.compile(r"(.+)/p=\d+/[^/]+")


def as_stream(scan: Scan) -> Scan | None:
    """The same rows and columns with what the manifest says of them; None for what is no version of a stream."""
    where = scan.files
    stream = _version(where.paths)
    if stream is None or where.base is not None:
        return None
    if tuple((column.name, column.type) for column in scan.columns) != stream.manifest.schema:
        return None  # read with a schema of the user's
    try:
        found = stream_scan(stream, scan.label, {column.name: column for column in scan.columns})
    except StreamProblem:
        return None  # its files are not what they were: Spark reads them as they are
    return replace(found, files=replace(found.files, relation=where.relation))


def _version(paths: tuple[str, ...]) -> Stream | None:
    local = [_plain(path) for path in paths]
    folders = {match[1] if (match := _FILE.fullmatch(path)) else None for path in local}
    folder = folders.pop() if len(folders) == 1 else None
    if folder is None:
        return None
    try:
        for version in reversed(versions(place_of(folder))):
            stream = open_stream(folder, version)
            if sorted(map(_plain, stream.paths)) == sorted(local):
                return stream
    except (UserError, OSError):
        pass  # what cannot be read as a stream is read as the files it is
    return None


def _plain(path: str) -> str:
    """A path as the stream's own: of a local file, without the scheme that Spark adds."""
    return urlsplit(path).path if path.startswith("file:") else path
