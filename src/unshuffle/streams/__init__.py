"""Structured streams on disk: data that is stored partitioned and sorted, and says so (SIGMOD 2012, section 2.5).

    manifest, encoded   what is recorded of a version, and its JSON
    places, store       the folder of a stream, its versions, the one that readers take
    wanted, writing     how rows are to be stored, and the making of the next version
    described, check    what a manifest says of files, found by reading them, and whether it is true
    vacuum              taking away what no kept version names

Pure Python and Arrow. Spark writes the files and reads them (`spark/streams.py`).
"""

from unshuffle.streams.check import Fault, check
from unshuffle.streams.manifest import (
    Manifest,
    Reference,
    RowGroup,
    SortedName,
    StoredFile,
    StoredPartition,
    ranges_of,
)
from unshuffle.streams.places import place_of
from unshuffle.streams.store import Stream, open_stream
from unshuffle.streams.vacuum import Removed, vacuum
from unshuffle.streams.wanted import Settled, Wanted, settle

__all__ = [
    "Fault",
    "Manifest",
    "Reference",
    "Removed",
    "RowGroup",
    "Settled",
    "SortedName",
    "StoredFile",
    "StoredPartition",
    "Stream",
    "Wanted",
    "check",
    "open_stream",
    "place_of",
    "ranges_of",
    "settle",
    "vacuum",
]
