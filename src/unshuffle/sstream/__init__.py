"""Structured streams on disk: data that is stored partitioned and sorted, with a record of its layout (SIGMOD 2012, 2.5).

    manifest, manifest_json             the record of one version, and its JSON
    decoded_manifest                    what a manifest that was read from a file must satisfy
    storage, store                      the folder of a stream, and its versions
    layout_request, layout_defaults     the layout that a user requests, and what is chosen where the request leaves it open
    version_writer, file_description    writing the next version, and describing its files for the manifest
    logical_partitions                  which row groups a task reads, for the stored layout or a related one
    footer_statistics                   column statistics from the files' footers
    row_group_histogram                 the distribution of rows by the keys of row groups
    check, vacuum                       checking a version against its manifest, and removing old versions

Pure Python and Arrow. Spark writes and reads the files (`spark/io/sstream_writer.py`).
"""

from unshuffle.sstream.layout_request import LayoutRequest, ResolvedLayout, resolve_layout
from unshuffle.sstream.manifest import (
    Manifest,
    RowGroup,
    SortedName,
    StoredFile,
    StoredPartition,
    StreamReference,
    ranges_of,
)
from unshuffle.sstream.storage import storage_of
from unshuffle.sstream.store import Stream, open_stream

__all__ = [
    "LayoutRequest",
    "Manifest",
    "ResolvedLayout",
    "RowGroup",
    "SortedName",
    "StoredFile",
    "StoredPartition",
    "Stream",
    "StreamReference",
    "open_stream",
    "ranges_of",
    "resolve_layout",
    "storage_of",
]
