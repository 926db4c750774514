"""Writes the next version of a stream, from files in a staging folder.

    with VersionWriter(storage, "pages.ss", overwrite=True) as writer:
        ...                                # write files to writer.staging, those of partition k to a folder NAME=k
        writer.prepare(layout, function)   # moves files to their partitions, describes them, checks declarations
        writer.publish()                   # now readers see the version

On exit, files that were not published are removed. Files of a writer that is killed remain, but no version names them, and
`vacuum` removes them later.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from types import TracebackType
from typing import Literal

from unshuffle.catalog.constraints.constraint import Constraint
from unshuffle.errors import DeclarationProblem, InternalError, StreamProblem, TypeProblem, UnshuffleError
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.sstream.check import check, find_violation
from unshuffle.sstream.file_description import UnreadableFile, describe
from unshuffle.sstream.layout_request import ResolvedLayout
from unshuffle.sstream.manifest import Manifest, StoredPartition
from unshuffle.sstream.storage import Storage
from unshuffle.sstream.store import STAGING, Stream, base_version, manifest_name, publish, read_manifest


class VersionWriter:
    """One attempt to write a new version. It follows the version that is the newest when the attempt begins."""

    def __init__(self, storage: Storage, display_path: str, overwrite: bool, follows: int | None = None) -> None:
        """`follows` is the version that the rows are computed from. It must still be the newest."""
        self._storage, self._display_path = storage, display_path
        self._base = base_version(storage, display_path, overwrite)
        if follows is not None and follows != self._base:
            raise StreamProblem(
                f"{display_path!r} now has version {self._base}, and the rows are computed from version {follows}",
                hint="nothing was written; run it again",
            )
        self.writer = uuid.uuid4().hex
        self._moved: list[str] = []
        self._manifest: Manifest | None = None
        self._published = False

    @property
    def staging(self) -> str:
        """The staging folder, below the folder of the stream."""
        return f"{STAGING}/{self.writer}"

    def prepare(self, layout: ResolvedLayout, function: HashFunction | RangeFunction, verify: bool = False) -> Manifest:
        """Moves the files to their partitions and makes the manifest. `verify` also checks that every row is in its
        partition, for rows that were partitioned elsewhere."""
        partitions = self._move_files(function.partitions)
        try:
            stored, histogram = describe(
                self._storage.path, partitions, layout.schema, layout.clustered_by, layout.sorted_by
            )
            self._check_declarations(layout, stored)
        except UnreadableFile as problem:
            raise StreamProblem(f"a file that was just written to {self._display_path!r} {problem}") from None
        except (ValueError, OverflowError) as error:
            # Text that is not UTF-8, or a date outside Python's calendar.
            raise TypeProblem(
                f"a partitioning or sort value of {self._display_path!r} cannot be stored in the manifest: {error}"
            ) from None
        self._manifest = Manifest(
            self._base + 1,
            self.writer,
            layout.schema,
            layout.clustered_by,
            function,
            layout.sorted_by,
            stored,
            histogram,
            layout.keys,
            layout.dependencies,
            layout.reference,
        )
        faults = check(Stream(self._storage.path, self._manifest)) if verify else ()
        if faults:
            raise InternalError(f"rows for {self._display_path!r} are not laid out as planned: {faults[0]}")
        return self._manifest

    def _move_files(self, count: int) -> list[dict[str, int]]:
        """Moves files to the folders of their partitions, under unique names."""
        partitions: list[dict[str, int]] = [{} for _ in range(count)]
        for entry in self._storage.entries(self.staging):
            folder, _, name = entry.name[len(self.staging) + 1 :].rpartition("/")
            # Deeper folders are of attempts of tasks that were not committed, and may still be writing.
            if "/" in folder or name.startswith((".", "_")) or not name.endswith(".parquet"):
                continue
            number = int(folder.rpartition("=")[2])
            target = f"p={number}/part-{self.writer}-{len(partitions[number]):05d}.parquet"
            self._moved.append(target)
            self._storage.move(entry.name, target)
            partitions[number][target] = entry.size
        self._storage.remove(self.staging)
        return partitions

    def _check_declarations(self, layout: ResolvedLayout, stored: tuple[StoredPartition, ...]) -> None:
        paths = [f"{self._storage.path}/{file.path}" for partition in stored for file in partition.files]
        rows = sum(partition.rows for partition in stored)
        declarations: tuple[Constraint, ...] = (*layout.keys, *layout.dependencies)
        for declaration in declarations:
            violation = find_violation(paths, declaration, dict(layout.schema), rows)
            if violation is not None:
                raise DeclarationProblem(
                    f"{violation}; nothing was written to {self._display_path!r}",
                    hint="fix the data or remove the declaration",
                )

    def publish(self) -> Stream:
        """Publishes the prepared version."""
        assert self._manifest is not None
        stream = publish(self._storage, self._manifest, self._display_path)
        self._published = True
        return stream

    def withdraw(self) -> None:
        """Removes a version that was just published, because another output of the same script failed."""
        if self._published and self._manifest is not None:
            self._storage.remove(manifest_name(self._manifest.version))
            self._published = False

    def discard(self) -> None:
        """Removes files that were written and not published."""
        if self._published or self._was_published():
            return
        # Leftover files do no harm, and an error here would hide the one that led here.
        with suppress(OSError, UnshuffleError):
            for name in (*self._moved, self.staging):
                self._storage.remove(name)

    def _was_published(self) -> bool:
        """Was the version published although `publish` did not return? In doubt, yes."""
        if self._manifest is None:
            return False
        try:
            return read_manifest(self._storage, self._manifest.version).writer == self.writer
        except FileNotFoundError:
            return False
        except (OSError, UnshuffleError):
            return True

    def __enter__(self) -> VersionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.discard()
        return False
