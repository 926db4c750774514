"""Taking away what no kept version of a stream names.

Kept are the newest versions, as many as asked for, and every other that was the newest less than some time ago: whoever
reads it may have begun then. Files that no version names are kept as long, for a writer may be about to name them. First the
manifests go, the oldest first, and then the files: whatever happens in between, no version is left that lacks a file.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise

from unshuffle.errors import UserError
from unshuffle.streams.places import Place
from unshuffle.streams.store import MANIFESTS, UNFINISHED, manifest_name, open_manifest, read_manifest, versions

KEPT_VERSIONS = 1
KEPT_HOURS = 24.0


@dataclass(frozen=True, slots=True)
class Removed:
    versions: tuple[int, ...]
    files: tuple[str, ...]
    bytes: int  # of the files


def vacuum(
    place: Place, shown: str, keep: int = KEPT_VERSIONS, hours: float = KEPT_HOURS, now: float | None = None
) -> Removed:
    if keep < 1 or not hours >= 0:
        raise UserError("vacuum keeps at least one version, and files for no less than 0 hours")
    newest = open_manifest(place, shown).version
    before = (time.time() if now is None else now) - hours * 3600
    entries = place.entries()
    made = {entry.name: entry.modified for entry in entries}
    there = [version for version in versions(place) if version <= newest]
    old = []
    for version, successor in pairwise(there):
        replaced = made.get(manifest_name(successor))
        if version not in there[-keep:] and replaced is not None and replaced <= before:
            old.append(version)
    # Versions made since we looked are kept whole; those that are removed need not be readable.
    kept = [version for version in versions(place) if version not in old]
    named = {file.path for version in kept for file in read_manifest(place, version).files()}
    named |= {manifest_name(version) for version in (*kept, *old)}
    loose = [e for e in entries if e.name not in named and e.modified <= before and _is_ours(e.name)]
    for version in old:
        place.remove(manifest_name(version))
    for entry in loose:
        place.remove(entry.name)
    return Removed(tuple(old), tuple(entry.name for entry in loose), sum(entry.size for entry in loose))


def _is_ours(name: str) -> bool:
    """Files of partitions, of writers that did not finish, and manifests that were written aside."""
    folder, _, rest = name.partition("/")
    if folder == MANIFESTS:
        return rest.startswith(".")
    return folder == UNFINISHED or folder.startswith("p=")
