"""Removes old versions of a stream, and files that no remaining version names.

The newest versions are kept, as many as requested, and every version that was replaced less than some hours ago, since a
reader may still use it. Files that no version names are kept as long, since a writer may be about to publish them. Manifests
are removed first, the oldest first, and files after that, so that an interrupted vacuum leaves no version without a file.
"""

from __future__ import annotations

import time
from itertools import pairwise

from unshuffle.errors import UserError
from unshuffle.frozen import dataclass
from unshuffle.sstream.storage import Storage
from unshuffle.sstream.store import MANIFESTS, STAGING, manifest_name, open_manifest, read_manifest, versions


@dataclass(frozen=True, slots=True)
class Removed:
    versions: tuple[int, ...]
    files: tuple[str, ...]
    bytes: int  # of the files


def vacuum(
    storage: Storage, display_path: str, keep: int = 1, hours: float = 24.0, now: float | None = None
) -> Removed:
    if keep < 1 or not hours >= 0:
        raise UserError("vacuum keeps at least one version, and files for at least 0 hours")
    newest = open_manifest(storage, display_path).version
    before = (time.time() if now is None else now) - hours * 3600
    entries = storage.entries()
    modified = {entry.name: entry.modified for entry in entries}
    existing = [version for version in versions(storage) if version <= newest]
    old = []
    for version, successor in pairwise(existing):
        replaced = modified.get(manifest_name(successor))
        if version not in existing[-keep:] and replaced is not None and replaced <= before:
            old.append(version)
    # Versions published in the meantime are kept. Manifests to be removed are not read, as they may be damaged.
    kept = [version for version in versions(storage) if version not in old]
    named = {path for version in kept for path in _paths(storage, version)}
    named |= {manifest_name(version) for version in (*kept, *old)}
    unreferenced = [e for e in entries if e.name not in named and e.modified <= before and _is_ours(e.name)]
    for version in old:
        storage.remove(manifest_name(version))
    for entry in unreferenced:
        storage.remove(entry.name)
    return Removed(tuple(old), tuple(entry.name for entry in unreferenced), sum(entry.size for entry in unreferenced))


def _paths(storage: Storage, version: int) -> list[str]:
    """The files of a version; none if another vacuum has removed it since it was listed."""
    try:
        return [file.path for file in read_manifest(storage, version).files()]
    except FileNotFoundError:
        return []


def _is_ours(name: str) -> bool:
    """Is it a file of a partition, of an unfinished writer, or a hidden file left by `create`?"""
    folder, _, rest = name.partition("/")
    if folder == MANIFESTS:
        return rest.startswith(".")
    return folder == STAGING or folder.startswith("p=")
