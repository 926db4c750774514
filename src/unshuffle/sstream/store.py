"""The versions of a stream: listing them, opening one, and publishing the next.

    NAME.ss/
      _stream/0000007.json                  the manifest of version 7
      _new/2f9c.../                         files of a writer that is not finished
      p=3/part-2f9c...-00000.parquet        files of partition 3, of this version or of others

A version exists once its manifest does. The manifest is created atomically, after all of its files are in place. So readers
see the last version or the new one, and keep the one they opened, whatever happens to a writer. Of two writers that started
from the same version, one publishes the next; the other finds that number taken, and fails.
"""

from __future__ import annotations

import re

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.catalog.files import DataFile
from unshuffle.catalog.json_files import MAX_BYTES
from unshuffle.errors import FileProblem, StreamProblem, disk_problem, disk_problems
from unshuffle.frozen import dataclass
from unshuffle.sstream.manifest import Manifest, StoredFile
from unshuffle.sstream.manifest_json import from_bytes, to_bytes
from unshuffle.sstream.storage import Storage, storage_of

MANIFESTS, STAGING = "_stream", "_new"
_MANIFEST = re.compile(rf"{MANIFESTS}/([0-9]{{7,18}})\.json")
_OURS = re.compile(rf"({MANIFESTS}|{STAGING}|p=[0-9]+)/")
_ATTEMPTS = 5  # at opening the newest version, which a vacuum may remove after a newer one was published


@dataclass(frozen=True, slots=True)
class Stream:
    """One version of a stream. Later versions do not change it."""

    path: str
    manifest: Manifest

    @property
    def version(self) -> int:
        return self.manifest.version

    def path_of(self, file: StoredFile) -> str:
        return f"{self.path}/{file.path}"

    @property
    def paths(self) -> tuple[str, ...]:
        """All files, by partition, and in the sort order inside each partition."""
        return tuple(map(self.path_of, self.manifest.files()))


def manifest_name(version: int) -> str:
    return f"{MANIFESTS}/{version:07d}.json"


def versions(storage: Storage) -> list[int]:
    """The existing versions, the oldest first."""
    matches = (_MANIFEST.fullmatch(entry.name) for entry in storage.entries(MANIFESTS))
    numbers = (int(match[1]) for match in matches if match is not None and match[0] == manifest_name(int(match[1])))
    return sorted(number for number in numbers if number > 0)


def is_stream(path: str) -> bool:
    """Does a path have the folder of a structured stream's manifests?"""
    return files.exists(f"{path}/{MANIFESTS}")


def open_stream(path: str, version: int | None = None) -> Stream:
    """Opens the newest version of a stream, or another that still exists. Its data files are not read."""
    return open_manifest(storage_of(path), path, version)


def open_manifest(storage: Storage, display_path: str, version: int | None = None) -> Stream:
    for _ in range(_ATTEMPTS):
        existing = _versions(storage, display_path)
        if not existing:
            raise FileProblem(
                f"{display_path!r} is not a structured stream", hint="it has no manifest in a folder _stream"
            )
        if version is not None and version not in existing:
            raise StreamProblem(
                f"{display_path!r} has no version {version}", hint=f"it has: {', '.join(map(str, existing))}"
            )
        try:
            return Stream(storage.path, read_manifest(storage, version or existing[-1]))
        except FileNotFoundError:
            continue
    raise StreamProblem(f"the manifests of {display_path!r} change faster than they can be read", hint="try again")


def _versions(storage: Storage, display_path: str) -> list[int]:
    try:
        return versions(storage)
    except OSError as error:
        raise disk_problem(f"{display_path!r} cannot be read", error) from None
    except pa.ArrowException as error:
        raise FileProblem(f"{display_path!r} cannot be read: {str(error).splitlines()[0]}") from None


def read_manifest(storage: Storage, version: int) -> Manifest:
    name = manifest_name(version)
    try:
        manifest = from_bytes(storage.read(name))
        if manifest.version != version:
            raise ValueError(f"it is the manifest of version {manifest.version}")
    except ValueError as error:
        raise StreamProblem(
            f"the manifest {storage.path}/{name} is damaged: {error}",
            hint="restore it from a backup; if it is removed, the version before it is the newest",
        ) from None
    except FileNotFoundError:
        raise
    except OSError as error:
        raise disk_problem(f"the manifest {storage.path}/{name} cannot be read", error) from None
    return manifest


def modification_times(stream: Stream) -> dict[str, float]:
    """The modification time of each file of a version. Raises if a file is missing or has another size."""
    entries = {entry.name: entry for entry in storage_of(stream.path).entries()}
    for file in stream.manifest.files():
        entry = entries.get(file.path)
        if entry is None:
            raise file_mismatch(stream, file, "is missing")
        if entry.size != file.bytes:
            raise file_mismatch(stream, file, f"has {entry.size:,} bytes, but was written with {file.bytes:,}")
    return {file.path: entries[file.path].modified for file in stream.manifest.files()}


def data_files(stream: Stream) -> list[DataFile]:
    """The files of a version, and none of other versions."""
    modified = modification_times(stream)
    return [
        DataFile(stream.path_of(file), file.bytes, (), round(modified[file.path] * 1e9))
        for file in stream.manifest.files()
    ]


def newest_files(path: str) -> list[DataFile]:
    return data_files(open_stream(path))


def file_mismatch(stream: Stream, file: StoredFile, problem: str) -> StreamProblem:
    return StreamProblem(
        f"the file {stream.path_of(file)} {problem}",
        hint=f"version {stream.version} of the stream cannot be read; write it again, or restore the file from a backup",
    )


# --- the next version


def base_version(storage: Storage, display_path: str, overwrite: bool) -> int:
    """The version that the next one follows; 0 if there is none. Raises if the folder holds something else, or if
    it holds a stream and `overwrite` is false. Files of a writer that died before the first version do not count."""
    existing = _versions(storage, display_path)
    with disk_problems(f"{display_path!r} cannot be read"):
        is_other = not existing and (
            files.is_file(display_path) or any(not _OURS.match(entry.name) for entry in storage.entries())
        )
    if existing and not overwrite:
        raise FileProblem(
            f"the stream {display_path!r} exists already", hint="add OVERWRITE to make a new version of it"
        )
    if is_other:
        raise FileProblem(
            f"{display_path!r} exists already, and is not a structured stream", hint="write somewhere else"
        )
    return existing[-1] if existing else 0


def publish(storage: Storage, manifest: Manifest, display_path: str) -> Stream:
    """Publishes a version, if no other writer has published one in the meantime."""
    data = to_bytes(manifest)
    if len(data) > MAX_BYTES:
        raise StreamProblem(
            f"the manifest of {display_path!r} would have {len(data):,} bytes, more than {MAX_BYTES:,}",
            hint="nothing was written; write fewer partitions, or sort by shorter keys",
        )
    # A higher number also means another writer, even if a vacuum has removed our number again.
    if _versions(storage, display_path)[-1:] > [manifest.version - 1] or not storage.create(
        manifest_name(manifest.version), data
    ):
        raise StreamProblem(
            f"another writer published version {manifest.version} of {display_path!r} in the meantime",
            hint="nothing was written; run it again",
        )
    return Stream(storage.path, manifest)


def is_of_writer(storage: Storage, version: int, writer: str) -> bool:
    """Is there a manifest of this version, and is it this writer's? Raises if that cannot be told."""
    try:
        return read_manifest(storage, version).writer == writer
    except FileNotFoundError:
        return False


def withdraw(storage: Storage, version: int, writer: str) -> None:
    """Removes a version that a writer has published, because another output of its script failed. A newer version of
    somebody else stays, and then so does this one: it is in the past."""
    if is_of_writer(storage, version, writer) and versions(storage)[-1:] == [version]:
        storage.remove(manifest_name(version))
