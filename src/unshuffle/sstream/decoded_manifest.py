"""What a manifest that was read from a file must satisfy, beyond the types of its fields.

A writer never writes anything else, but others may. A manifest that passes may still be wrong about the rows; `check` finds
that. It cannot name a file outside the folder of its stream, and planning with it cannot fail.
"""

from __future__ import annotations

import re

from unshuffle.catalog.json_files import MAX_COUNT, no_duplicates, shown
from unshuffle.partitions import KeyOrder
from unshuffle.partitions.intervals import Place
from unshuffle.sstream.manifest import Manifest, StoredFile, StoredPartition

# The folder of a partition and a name in it: never a path that leads out of the stream, nor a pattern of several files.
_NAME = r"[^/\\:*?\[\]{}\x00-\x1f\x7f]"
_PATH = re.compile(rf"p=[0-9]+/(?![._]){_NAME}+")


def check_decoded(manifest: Manifest) -> None:
    """Raises a ValueError that says what is wrong."""
    no_duplicates((name for name, _ in manifest.schema), "the column")
    for by in (manifest.clustered_by, manifest.sorted_by):
        no_duplicates((each.name for each in by), "the sort column")
    if tuple(manifest.histogram.keys) != manifest.clustering_keys:
        raise ValueError("the histogram is not of the columns that the stream is clustered by")
    if manifest.rows > MAX_COUNT or manifest.bytes > MAX_COUNT:
        raise ValueError("the numbers of its rows and bytes are too large")
    no_duplicates((file.path for file in manifest.files()), "the file")
    order = KeyOrder(manifest.sort_keys)
    for number, partition in enumerate(manifest.partitions):
        for file in partition.files:
            _check_file(file, number)
        _check_order(partition, order)


def _check_file(file: StoredFile, number: int) -> None:
    if not _PATH.fullmatch(file.path):
        raise ValueError(f"{shown(file.path)} is not the path of a file below the folder of the stream")
    if not file.path.startswith(f"p={number}/"):
        raise ValueError(f"{shown(file.path)} is not in the folder of partition {number}")
    end = 0
    for group in file.groups:
        if group.offset < end:
            raise ValueError(f"the row groups of {file.path} overlap")
        end = group.offset + group.length
    if end > file.bytes:
        raise ValueError(f"{file.path} has {file.bytes:,} bytes, but its row groups end at {end:,}")


def _check_order(partition: StoredPartition, order: KeyOrder) -> None:
    """Readers rely on the order of row groups when they leave out those that cannot have rows of an interval."""
    reached: Place = ()
    for file in partition.files:
        for group in file.groups:
            for end in (group.first, group.last):
                place = order.row(end)
                if place < reached:
                    raise ValueError(f"the row groups of {file.path} are not in order")
                reached = place
