"""Making the next version of a stream from files that were written aside.

    with Writing(place, "pages.ss", overwrite=True) as writing:
        ...                                   # put files into writing.staging, partition k's in a folder that ends in =k
        version = writing.prepare(settled, function)  # files are put in place, described, and what is declared is checked
        version.publish()                     # it is there now

Whatever was not published is removed on the way out. If the writer is killed before, its files stay where they are, and no
version names them; `vacuum` removes them some day.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from types import TracebackType
from typing import Literal

from unshuffle.catalog.declared import Declaration
from unshuffle.errors import DeclarationProblem, InternalError, StreamProblem, TypeProblem, UnshuffleError
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.streams.check import check, declared_of
from unshuffle.streams.described import Unreadable, describe
from unshuffle.streams.manifest import Manifest, StoredPartition
from unshuffle.streams.places import Place
from unshuffle.streams.store import UNFINISHED, Stream, base_version, manifest_name, publish, read_manifest
from unshuffle.streams.wanted import Settled


class Writing:
    """One attempt at a new version. It follows the one that was the newest when the attempt began."""

    def __init__(self, place: Place, shown: str, overwrite: bool) -> None:
        self._place, self._shown = place, shown
        self._base = base_version(place, shown, overwrite)
        self.writer = uuid.uuid4().hex
        self._moved: list[str] = []
        self._manifest: Manifest | None = None
        self._published = False

    @property
    def staging(self) -> str:
        """Where files are put first, below the folder of the stream."""
        return f"{UNFINISHED}/{self.writer}"

    def prepare(self, settled: Settled, function: HashFunction | RangeFunction, verify: bool = False) -> Manifest:
        """Puts the files in place, and finds out what the manifest says of them. `verify` has every row looked at, whether
        it is in its partition: for rows that someone else laid out."""
        partitions = self._take(function.partitions)
        try:
            stored, histogram = describe(
                self._place.path, partitions, settled.schema, settled.clustered_by, settled.sorted_by
            )
            self._check_declared(settled, stored)
        except Unreadable as problem:
            raise StreamProblem(f"a file that was just written to {self._shown!r} {problem}") from None
        except (ValueError, OverflowError) as error:
            # Text that is not UTF-8, or a day that Python's calendar does not have.
            raise TypeProblem(
                f"a value that {self._shown!r} is to be laid out by cannot be recorded: {error}"
            ) from None
        self._manifest = Manifest(
            self._base + 1,
            self.writer,
            settled.schema,
            settled.clustered_by,
            function,
            settled.sorted_by,
            stored,
            histogram,
            settled.keys,
            settled.dependencies,
            settled.reference,
        )
        faults = check(Stream(self._place.path, self._manifest)) if verify else ()
        if faults:
            raise InternalError(f"rows for {self._shown!r} are not laid out as claimed: {faults[0]}")
        return self._manifest

    def _take(self, count: int) -> list[dict[str, int]]:
        """Moves files to the folders of their partitions, under names that no other write gives."""
        partitions: list[dict[str, int]] = [{} for _ in range(count)]
        for entry in self._place.entries(self.staging):
            folder, _, name = entry.name[len(self.staging) + 1 :].rpartition("/")
            if name.startswith((".", "_")) or not name.endswith(".parquet"):
                continue
            number = int(folder.rpartition("=")[2])
            goal = f"p={number}/part-{self.writer}-{len(partitions[number]):05d}.parquet"
            self._moved.append(goal)
            self._place.move(entry.name, goal)
            partitions[number][goal] = entry.size
        self._place.remove(self.staging)
        return partitions

    def _check_declared(self, settled: Settled, stored: tuple[StoredPartition, ...]) -> None:
        paths = [f"{self._place.path}/{file.path}" for partition in stored for file in partition.files]
        rows = sum(partition.rows for partition in stored)
        declarations: tuple[Declaration, ...] = (*settled.keys, *settled.dependencies)
        for declaration in declarations:
            broken = declared_of(paths, declaration, dict(settled.schema), rows)
            if broken is not None:
                raise DeclarationProblem(
                    f"{broken}; nothing was written to {self._shown!r}",
                    hint="mend the data, or take the declaration away",
                )

    def publish(self) -> Stream:
        """Makes the version that was prepared what readers see."""
        assert self._manifest is not None
        stream = publish(self._place, self._manifest, self._shown)
        self._published = True
        return stream

    def withdraw(self) -> None:
        """Takes a version back that was just published, with another output of the same script having failed."""
        if self._published and self._manifest is not None:
            self._place.remove(manifest_name(self._manifest.version))
            self._published = False

    def discard(self) -> None:
        """Removes what was written and not published."""
        if self._published or self._is_there():
            return
        # What cannot be removed is named by no version; the error that led here matters more.
        with suppress(OSError, UnshuffleError):
            for name in (*self._moved, self.staging):
                self._place.remove(name)

    def _is_there(self) -> bool:
        """Whether the version was published, though we were stopped before we were told. In doubt, it was."""
        if self._manifest is None:
            return False
        try:
            return read_manifest(self._place, self._manifest.version).writer == self.writer
        except FileNotFoundError:
            return False
        except (OSError, UnshuffleError):
            return True

    def __enter__(self) -> Writing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        self.discard()
        return False
