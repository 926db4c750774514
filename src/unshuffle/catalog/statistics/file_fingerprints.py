"""Fingerprints of data files, which tell whether facts about the files still hold. A file whose size and modification time
are unchanged counts as unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from unshuffle.catalog.files import DataFile, absolute
from unshuffle.catalog.json_files import MAX_COUNT, Json, as_list, count, member, no_duplicates, path
from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class FileFingerprint:
    """A data file as it was read. Its path is relative to the path of the data."""

    path: str
    size: int
    modified: int | None


def fingerprints(files: Iterable[DataFile], root: str) -> tuple[FileFingerprint, ...]:
    return tuple(FileFingerprint(_relative(file.path, root), file.size, file.modified) for file in files)


def fingerprints_to_json(files: Iterable[FileFingerprint]) -> list[dict[str, Any]]:
    return [{"path": file.path, "size": file.size, "modified": file.modified} for file in files]


def fingerprints_from_json(content: Json) -> tuple[FileFingerprint, ...]:
    """Raises a ValueError for anything malformed."""
    files = tuple(
        FileFingerprint(
            path(each, "path"),
            count(each, "size"),
            None if member(each, "modified") is None else count(each, "modified", -MAX_COUNT),
        )
        for each in as_list(content, "files")
    )
    no_duplicates((file.path for file in files), "the file")
    return files


def all_unchanged(earlier: Iterable[FileFingerprint], root: str, files: Iterable[DataFile]) -> bool:
    """Whether every one of these files was among the earlier ones, and has not changed since."""
    by_path = {fingerprint.path: fingerprint for fingerprint in earlier}

    def is_unchanged(file: DataFile) -> bool:
        before = by_path.get(_relative(file.path, root))
        return before is not None and before.size == file.size and before.modified == file.modified is not None

    return all(map(is_unchanged, files))


def _relative(path: str, root: str) -> str:
    """A path relative to the root, the file's name if it is the root, or the absolute path if it is outside the root."""
    path, root = absolute(path), absolute(root)
    return path[len(root) + 1 :] if path.startswith(root + "/") else os.path.basename(path) if path == root else path
