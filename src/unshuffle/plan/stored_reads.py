"""Which row groups each task of a scan reads, if a table is read in its stored partitions.

The stored layout says which partition a row group is in (`sstream.logical_partitions`), and the bounds of columns say which
row groups the query needs (`plan.part_bounds`). A task reads those of its partitions that are needed:

    folders region=.../day=...    a condition on day leaves out folders in every region
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.catalog.files import without_scheme
from unshuffle.plan.logical import Scan
from unshuffle.properties import HashFunction, RangeFunction

if TYPE_CHECKING:
    from unshuffle.sstream.logical_partitions import FileSlice

    Slices = tuple[tuple[FileSlice, ...], ...]  # of each task


def stored_reads(scan: Scan, function: HashFunction | RangeFunction | None) -> Slices:
    """What the task of each partition of `function` reads (None: of each stored partition)."""
    from unshuffle.sstream.logical_partitions import logical_partitions  # only plans over stored partitions need it

    assert scan.parts is not None
    parts, slices = scan.parts, logical_partitions(scan.parts.layout, function, scan.within).slices
    if scan.bounds is None or scan.needed is None:
        return slices
    known = {part.path for part in scan.bounds.parts}
    needed: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number in scan.needed:
        part = scan.bounds.parts[number]
        needed[part.path].append((part.start, part.end))

    def is_needed(slice: FileSlice) -> bool:
        path, end = parts.path_of(slice.file), slice.start + slice.length
        return path not in known or any(low < end and slice.start < high for low, high in needed[path])

    return tuple(tuple(filter(is_needed, of_task)) for of_task in slices)


def with_share(scan: Scan) -> Scan:
    """The scan of which some row groups are needed, with the share of their bytes that is read. Estimates are of the rows of
    these row groups. The order that rows are stored in may leave out more of them."""
    if scan.within is None or scan.parts is None or scan.bounds is None:
        return replace(scan, share=1.0)
    kept = sum(slice.length for of_task in stored_reads(scan, None) for slice in of_task)
    return replace(scan, share=min(1.0, kept / max(1, scan.bounds.bytes_of(scan.needed))))


def needed_partitions(scan: Scan) -> list[int]:
    """The numbers of the stored partitions of which something is read."""
    return [number for number, slices in enumerate(stored_reads(scan, None)) if slices]


def needed_paths(scan: Scan) -> tuple[str, ...]:
    """The files of a structured stream that have row groups which the query needs."""
    if scan.bounds is None or scan.needed is None:
        return scan.files.paths
    needed = {scan.bounds.parts[number].path for number in scan.needed}
    return tuple(path for path in scan.files.paths if without_scheme(path) in needed)
