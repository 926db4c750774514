"""Versions of a stream: which there are, the one to read, and the making of the next.

    NAME.ss/
      _stream/0000007.json                  the manifest of version 7
      _new/2f9c.../                         what a writer has not finished
      p=3/part-2f9c...-00000.parquet        files of partition 3, of this version or of others

A version is there if its manifest is, and a manifest is made in one step, when all of its files are in place. So readers see
the last version or the new one and keep the one they began with, whatever happens to a writer; and of two writers that
began with the same version one makes the next, and the other finds its number taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.errors import FileProblem, StreamProblem
from unshuffle.streams.encoded import from_bytes, to_bytes
from unshuffle.streams.manifest import Manifest, StoredFile
from unshuffle.streams.places import Place, place_of

MANIFESTS, UNFINISHED = "_stream", "_new"
_MANIFEST = re.compile(rf"{MANIFESTS}/(\d{{7,}})\.json")
_OURS = re.compile(rf"({MANIFESTS}|{UNFINISHED}|p=\d+)/")
_TRIES = 5  # at a version that is removed while we look: each time a newer one was there


@dataclass(frozen=True, slots=True)
class Stream:
    """One version of a stream, which a reader keeps whatever is written later."""

    path: str
    manifest: Manifest

    @property
    def version(self) -> int:
        return self.manifest.version

    def path_of(self, file: StoredFile) -> str:
        return f"{self.path}/{file.path}"

    @property
    def paths(self) -> tuple[str, ...]:
        """All files, those of a partition in the order of its rows."""
        return tuple(map(self.path_of, self.manifest.files()))

    def partition_of(self, path: str) -> int:
        """The partition that a file's folder says it is of."""
        return int(path[len(self.path) :].lstrip("/").split("/")[0].removeprefix("p="))


def manifest_name(version: int) -> str:
    return f"{MANIFESTS}/{version:07d}.json"


def versions(place: Place) -> list[int]:
    """The versions that are there, the oldest first."""
    found = (_MANIFEST.fullmatch(entry.name) for entry in place.entries(MANIFESTS))
    return sorted(int(match[1]) for match in found if match is not None)


def open_stream(path: str, version: int | None = None) -> Stream:
    """The newest version of a stream, or another that is still there. Its files are not looked at."""
    return open_manifest(place_of(path), path, version)


def open_manifest(place: Place, shown: str, version: int | None = None) -> Stream:
    for _ in range(_TRIES):
        there = _versions(place, shown)
        if not there:
            raise FileProblem(f"{shown!r} is not a structured stream", hint="it has no manifest in a folder _stream")
        if version is not None and version not in there:
            raise StreamProblem(f"{shown!r} has no version {version}", hint=f"there are: {', '.join(map(str, there))}")
        try:
            return Stream(place.path, read_manifest(place, version or there[-1]))
        except FileNotFoundError:
            continue
    raise StreamProblem(f"the manifests of {shown!r} change faster than they can be read", hint="try again")


def _versions(place: Place, shown: str) -> list[int]:
    try:
        return versions(place)
    except (OSError, pa.ArrowException) as error:
        raise FileProblem(f"{shown!r} cannot be read: {str(error).splitlines()[0]}") from None


def read_manifest(place: Place, version: int) -> Manifest:
    name = manifest_name(version)
    try:
        manifest = from_bytes(place.read(name))
        if manifest.version != version:
            raise ValueError(f"it is that of version {manifest.version}")
    except ValueError as error:
        raise StreamProblem(
            f"the manifest {place.path}/{name} is damaged: {error}",
            hint="put it back from a copy; without it, the version before is the newest",
        ) from None
    except (IsADirectoryError, PermissionError) as error:
        raise StreamProblem(f"the manifest {place.path}/{name} cannot be read: {error.strerror}") from None
    return manifest


def file_marks(stream: Stream) -> dict[str, float]:
    """When each file of a version was changed last. They must be there, and of the size that they had."""
    entries = {entry.name: entry for entry in place_of(stream.path).entries()}
    for file in stream.manifest.files():
        found = entries.get(file.path)
        if found is None:
            raise disagrees(stream, file, "is missing")
        if found.size != file.bytes:
            raise disagrees(stream, file, f"has {found.size:,} bytes, and was written with {file.bytes:,}")
    return {file.path: entries[file.path].modified for file in stream.manifest.files()}


def disagrees(stream: Stream, file: StoredFile, how: str) -> StreamProblem:
    return StreamProblem(
        f"the file {stream.path_of(file)} {how}",
        hint=f"version {stream.version} of the stream cannot be read; write it again, or put the file back from a copy",
    )


# --- the next version


def base_version(place: Place, shown: str, overwrite: bool) -> int:
    """The version that a new one follows: 0 if there is none. What is no stream is left alone, and what is one is not
    replaced without being asked to. What a writer left that died on the first version is nothing."""
    there = _versions(place, shown)
    if there and not overwrite:
        raise FileProblem(f"the stream {shown!r} exists already", hint="add OVERWRITE to make a new version of it")
    if not there and (files.is_file(shown) or any(not _OURS.match(entry.name) for entry in place.entries())):
        raise FileProblem(f"{shown!r} exists already, and is not a structured stream", hint="write somewhere else")
    return there[-1] if there else 0


def publish(place: Place, manifest: Manifest, shown: str) -> Stream:
    """Makes a version what readers see, if no other writer has made one since."""
    # A number above ours is taken even if ours was removed again.
    if _versions(place, shown)[-1:] > [manifest.version - 1] or not place.create(
        manifest_name(manifest.version), to_bytes(manifest)
    ):
        raise StreamProblem(
            f"another writer made version {manifest.version} of {shown!r} while this one was at work",
            hint="nothing of this write was kept; run it again",
        )
    return Stream(place.path, manifest)
