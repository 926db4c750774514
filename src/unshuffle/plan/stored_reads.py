"""Which row groups each task of a scan reads, if a table is read in its stored partitions.

The stored layout says which partition a row group is in (`sstream.logical_partitions`), and the bounds of columns say which
row groups the query needs (`plan.part_bounds`). A task reads those of its partitions that are needed:

    folders region=.../day=...    a condition on day leaves out folders in every region
"""

from __future__ import annotations

from collections import defaultdict

from unshuffle.plan.logical import Scan
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.sstream.logical_partitions import FileSlice, logical_partitions

Slices = tuple[tuple[FileSlice, ...], ...]  # of each task


def stored_reads(scan: Scan, function: HashFunction | RangeFunction | None) -> Slices:
    """What the task of each partition of `function` reads (None: of each stored partition)."""
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
