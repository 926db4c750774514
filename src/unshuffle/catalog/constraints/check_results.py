"""Constraints that were checked and hold, stored as JSON so that unchanged files are never checked twice.

    data                    stored beside it as
    a folder FOLDER         FOLDER/_unshuffle/_checks.json
    a file DIR/NAME         DIR/_NAME.checks.json

or in the catalog folder, where statistics are stored too. A result names the files that were read, with their sizes and
modification times, and how they were read: the same bytes read as another type are other values. It is valid for these files
and for any subset of them, because what all rows satisfy is also true of some of the rows. Where nothing can be written,
only the session remembers its results.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from unshuffle.catalog.constraints.constraint import (
    AnyConstraint,
    DeclaredDependency,
    DeclaredKey,
    DeclaredPartitions,
    PartCondition,
)
from unshuffle.catalog.files import DataFile, absolute, is_uri
from unshuffle.catalog.json_files import Json, check_format, count, items, path, text, texts
from unshuffle.catalog.statistics.file_fingerprints import (
    FileFingerprint,
    all_unchanged,
    fingerprints_from_json,
    fingerprints_to_json,
)
from unshuffle.catalog.statistics.persistence import is_usable, load_json, statistics_path, write_atomically
from unshuffle.errors import FileProblem
from unshuffle.frozen import dataclass

_FORMAT = "unshuffle checks"
_VERSION = 1
_MAX_RESULTS = 64


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A constraint that holds for some files when they are read in a certain way."""

    constraint: AnyConstraint
    reading: str
    files: tuple[FileFingerprint, ...]


class CheckResults:
    """All results for the data at a path: the stored ones and those of this session."""

    def __init__(self, root: str, store: Path | None) -> None:
        self._root = root
        self._store = store
        self._in_session: tuple[CheckResult, ...] = ()
        self._lock = Lock()

    def holds(self, constraint: AnyConstraint, reading: str, files: Sequence[DataFile]) -> bool:
        return any(
            result.constraint == constraint
            and result.reading == reading
            and all_unchanged(result.files, self._root, files)
            for result in (*self._in_session, *self._stored())
        )

    def add(self, result: CheckResult, store: bool = True) -> None:
        """Puts the newest result first and drops an older one of the same constraint."""
        with self._lock:
            self._in_session = _added(result, self._in_session)
            if not store or self._store is None or any(file.modified is None for file in result.files):
                return
            # The data may be read-only; then nothing is stored.
            with suppress(FileProblem, ValueError):
                write_atomically(self._store, _encoded(self._root, _added(result, self._stored())))

    def _stored(self) -> tuple[CheckResult, ...]:
        if self._store is None or not is_usable(self._store):
            return ()
        return load_json(self._store, _decoded, "checks", "remove the file; the checks are then repeated") or ()


def check_results_path(root: str, catalog: str | Path | None) -> Path | None:
    """Where the results for the data at a path are stored: next to its statistics."""
    beside = statistics_path(root, catalog)
    if beside is None:
        return None
    if catalog is not None:
        return beside.with_suffix(".checks.json")
    return beside.with_name(f"{beside.name.removesuffix('statistics.json')}checks.json")


def common_root(paths: Sequence[str], base: str | None) -> str:
    """The one path that stands for what a scan reads: its own path, or the common parent folder."""
    if base is not None:
        return absolute(base)
    if len(paths) == 1:
        return absolute(paths[0])
    folders = [os.path.dirname(absolute(path)) for path in paths]
    # Paths outside the root are stored as absolute paths, so any folder will do where there is no common parent.
    return folders[0] if any(map(is_uri, folders)) else os.path.commonpath(folders)


def _added(result: CheckResult, others: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    rest = (each for each in others if (each.constraint, each.reading) != (result.constraint, result.reading))
    return (result, *rest)[:_MAX_RESULTS]


def _encoded(root: str, results: Sequence[CheckResult]) -> dict[str, Any]:
    """Most results are of the same files, so each set of files is written once."""
    sets = list(dict.fromkeys(result.files for result in results))
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "path": root,
        "checks": [
            {**_encoded_constraint(result.constraint), "read": result.reading, "files": sets.index(result.files)}
            for result in results
        ],
        "files": [fingerprints_to_json(each) for each in sets],
    }


def _encoded_constraint(constraint: AnyConstraint) -> dict[str, Any]:
    match constraint:
        case DeclaredKey(columns):
            return {"key": list(columns)}
        case DeclaredDependency(determinant, dependent):
            return {"from": list(determinant), "to": list(dependent)}
        case DeclaredPartitions(parts, columns):
            return {"parts": [{"path": p.path, "where": p.text} for p in parts], "columns": list(columns)}


def _decoded(content: Json) -> tuple[CheckResult, ...]:
    check_format(content, _FORMAT, _VERSION)
    path(content, "path")
    sets = [fingerprints_from_json(each) for each in items(content, "files")]
    return tuple(_decoded_result(each, sets) for each in items(content, "checks", _MAX_RESULTS))


def _decoded_result(content: Json, sets: Sequence[tuple[FileFingerprint, ...]]) -> CheckResult:
    files = sets[count(content, "files", 0, len(sets) - 1)]
    return CheckResult(_decoded_constraint(content), text(content, "read"), files)


def _decoded_constraint(content: Json) -> AnyConstraint:
    if "key" in content:
        return DeclaredKey(texts(content, "key"))
    if "parts" in content:
        parts = tuple(PartCondition(path(each, "path"), text(each, "where")) for each in items(content, "parts"))
        return DeclaredPartitions(parts, texts(content, "columns"))
    return DeclaredDependency(texts(content, "from"), texts(content, "to"))
