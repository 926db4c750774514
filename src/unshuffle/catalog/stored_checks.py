"""Declarations that were found to hold, kept as JSON so that no row is counted twice.

    data                    beside it
    a folder FOLDER         FOLDER/_unshuffle/checks.json
    a file DIR/NAME         DIR/_NAME.checks.json

or in the catalog folder, as statistics are. A check names the files it read, with their sizes and times of change, and how
they were read: the same bytes read as another type are other values. It stands for these files and for any part of them,
for what holds of all rows holds of some. Where nothing can be written, checks are remembered by the session alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from unshuffle.catalog.declared import Declaration, DeclaredDependency, DeclaredKey
from unshuffle.catalog.files import DataFile, absolute, is_uri
from unshuffle.catalog.stored_statistics import FileMark, all_unchanged, place_for, write_whole
from unshuffle.errors import FileProblem

_FORMAT = "unshuffle checks"
_VERSION = 1
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Check:
    """A declaration that holds of some files, when they are read so."""

    declaration: Declaration
    reading: str
    files: tuple[FileMark, ...]


class Checks:
    """All checks that are known of the data at a path, those that were stored and those of this session."""

    def __init__(self, root: str, place: Path | None) -> None:
        self._root = root
        self._place = place
        self._remembered: tuple[Check, ...] = ()

    def holds(self, declaration: Declaration, reading: str, files: Sequence[DataFile]) -> bool:
        return any(
            check.declaration == declaration
            and check.reading == reading
            and all_unchanged(check.files, self._root, files)
            for check in (*self._remembered, *self._stored())
        )

    def add(self, check: Check, store: bool = True) -> None:
        """The newest first, in the place of an older one of the same declaration."""
        self._remembered = _with(check, self._remembered)
        if store and self._place is not None and all(file.modified is not None for file in check.files):
            # Beside data that may only be read, nothing is kept.
            with suppress(FileProblem, ValueError):
                write_whole(self._place, _encoded(self._root, _with(check, self._stored())))

    def _stored(self) -> tuple[Check, ...]:
        if self._place is None:
            return ()
        try:
            found = self._place.stat()
        except OSError:
            return ()
        return _loaded(self._place, found.st_mtime_ns, found.st_size, found.st_ino)


def checks_place(root: str, catalog: str | Path | None) -> Path | None:
    """Where checks of the data at a path are kept: beside its statistics."""
    place = place_for(root, catalog)
    if place is None:
        return None
    if catalog is not None:
        return place.with_suffix(".checks.json")
    return place.with_name(place.name.removesuffix("statistics.json") + "checks.json")


def root_of(paths: Sequence[str], base: str | None) -> str:
    """The one path that stands for what a scan reads: its own, or the folder above all of them."""
    if base is not None:
        return absolute(base)
    if len(paths) == 1:
        return absolute(paths[0])
    folders = [os.path.dirname(absolute(path)) for path in paths]
    # Paths outside the root are marked whole, so that any folder will do where there is none above all.
    return folders[0] if any(map(is_uri, folders)) else os.path.commonpath(folders)


def _with(check: Check, others: Sequence[Check]) -> tuple[Check, ...]:
    kept = (each for each in others if (each.declaration, each.reading) != (check.declaration, check.reading))
    return (check, *kept)[:_KEPT]


@lru_cache(maxsize=64)
def _loaded(place: Path, *_: int) -> tuple[Check, ...]:
    """A file that is damaged or of another version holds nothing: its checks are made again."""
    try:
        return _decoded(json.loads(place.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return ()


def _encoded(root: str, checks: Sequence[Check]) -> dict[str, Any]:
    """Most checks are of the same files, which are named once."""
    sets = list(dict.fromkeys(check.files for check in checks))
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "path": root,
        "checks": [
            {**_declaration(check.declaration), "read": check.reading, "files": sets.index(check.files)}
            for check in checks
        ],
        "files": [[{"path": f.path, "size": f.size, "modified": f.modified} for f in each] for each in sets],
    }


def _declaration(declaration: Declaration) -> dict[str, Any]:
    match declaration:
        case DeclaredKey(columns):
            return {"key": list(columns)}
        case DeclaredDependency(determinant, dependent):
            return {"from": list(determinant), "to": list(dependent)}


def _decoded(shown: dict[str, Any]) -> tuple[Check, ...]:
    if shown["format"] != _FORMAT or shown["version"] != _VERSION:
        return ()
    sets = [tuple(FileMark(f["path"], f["size"], f["modified"]) for f in each) for each in shown["files"]]
    return tuple(Check(_declared(each), each["read"], sets[each["files"]]) for each in shown["checks"])


def _declared(each: dict[str, Any]) -> Declaration:
    if "key" in each:
        return DeclaredKey(tuple(each["key"]))
    return DeclaredDependency(tuple(each["from"]), tuple(each["to"]))
