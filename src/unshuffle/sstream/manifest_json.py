"""Manifests as JSON.

    {"format": "unshuffle stream", "format_version": 1, "checksum": "sha256:...", "manifest": {...}}

The checksum is computed over a canonical compact form, so a truncated or changed file is detected. It protects against
accidents only: who changes a manifest on purpose can compute it too. Decoding checks the type of every field. The
constructors of `Manifest` and `check_decoded` check that the fields agree. Any mismatch is a ValueError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.catalog.json_files import (
    Json,
    as_count,
    as_list,
    as_texts,
    checked_size,
    count,
    flag,
    items,
    member,
    parse,
    path,
    reading,
    shown,
    text,
    texts,
)
from unshuffle.catalog.json_values import decoded_value, encoded_value
from unshuffle.catalog.schema import DataType
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.types import spark_name
from unshuffle.partitions import Boundary, histogram_from_json, histogram_to_json, ranges_from_json, ranges_to_json
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey
from unshuffle.sstream.decoded_manifest import check_decoded
from unshuffle.sstream.manifest import (
    Manifest,
    RowGroup,
    SortedName,
    StoredFile,
    StoredPartition,
    StreamReference,
    ranges_of,
)

FORMAT, FORMAT_VERSION = "unshuffle stream", 1
HASH_FAMILY = "spark"
MAX_CRC = 2**32 - 1


def to_bytes(manifest: Manifest) -> bytes:
    body = encode(manifest)
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, "checksum": _checksum(body), "manifest": body}
    return (json.dumps(whole, separators=(",", ":")) + "\n").encode()


def from_bytes(data: bytes) -> Manifest:
    """Raises a ValueError that says what is wrong."""
    return reading("the manifest", lambda: _decode_whole(parse(checked_size(data))))


def _decode_whole(whole: Json) -> Manifest:
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ValueError("it is not the manifest of a stream")
    version = count(whole, "format_version")
    if version != FORMAT_VERSION:
        raise ValueError(f"it has format version {version}, but this program reads {FORMAT_VERSION}")
    if text(whole, "checksum") != _checksum(member(whole, "manifest")):
        raise ValueError("its checksum does not match, so a part of it was changed")
    return decode(whole["manifest"])


def _checksum(body: Json) -> str:
    compact = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(compact.encode()).hexdigest()}"


# --- encoding


def encode(manifest: Manifest) -> dict[str, Json]:
    reference = manifest.reference
    return {
        "version": manifest.version,
        "writer": manifest.writer,
        "schema": [{"name": name, "type": spark_name(type)} for name, type in manifest.schema],
        "partitioning": {"clustered_by": _encode_names(manifest.clustered_by), **_encode_function(manifest.function)},
        "sorted_by": _encode_names(manifest.sorted_by),
        "keys": [list(each.columns) for each in manifest.keys],
        "dependencies": [{"from": list(d.determinant), "to": list(d.dependent)} for d in manifest.dependencies],
        "reference": None if reference is None else {"path": reference.path, "version": reference.version},
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "partitions": [_encode_partition(each) for each in manifest.partitions],
        "histogram": histogram_to_json(manifest.histogram),
    }


def _encode_names(names: Sequence[SortedName]) -> list[Json]:
    return [{"name": each.name, "descending": each.descending, "nulls_first": each.nulls_first} for each in names]


def _encode_function(function: HashFunction | RangeFunction) -> dict[str, Json]:
    if isinstance(function, RangeFunction):
        return {"range": ranges_to_json(ranges_of(function))}
    types = [spark_name(type) for type in function.types]
    return {"hash": {"types": types, "partitions": function.partitions, "family": function.family}}


def _encode_partition(partition: StoredPartition) -> Json:
    return {"rows": partition.rows, "bytes": partition.bytes, "files": [_encode_file(each) for each in partition.files]}


def _encode_file(file: StoredFile) -> Json:
    return {
        "path": file.path,
        "rows": file.rows,
        "bytes": file.bytes,
        "footer": file.footer,
        "row_groups": [
            [group.offset, group.length, group.rows, _encode_values(group.first), _encode_values(group.last)]
            for group in file.groups
        ],
    }


def _encode_values(values: Boundary) -> list[Json]:
    return [encoded_value(value) for value in values]


# --- decoding


def decode(encoded: Json) -> Manifest:
    schema = tuple((text(each, "name"), from_spark_name(text(each, "type"))) for each in items(encoded, "schema"))
    partitioning = member(encoded, "partitioning")
    sorted_by = _decode_names(partitioning, "clustered_by"), _decode_names(encoded, "sorted_by")
    types = dict(schema)
    sort_types = [types.get(each.name) for each in sorted_by[1]]
    manifest = Manifest(
        count(encoded, "version", 1),
        text(encoded, "writer"),
        schema,
        sorted_by[0],
        _decode_function(partitioning),
        sorted_by[1],
        tuple(_decode_partition(each, sort_types) for each in items(encoded, "partitions")),
        histogram_from_json(member(encoded, "histogram")),
        tuple(DeclaredKey(as_texts(each, "a key")) for each in items(encoded, "keys")),
        tuple(DeclaredDependency(texts(each, "from"), texts(each, "to")) for each in items(encoded, "dependencies")),
        _decode_reference(member(encoded, "reference")),
    )
    _check_sums(encoded, manifest.rows, manifest.bytes)
    check_decoded(manifest)
    return manifest


def _check_sums(encoded: Json, rows: int, bytes: int) -> None:
    """Sums are stored for readers of the JSON. They are not read, so they must be right."""
    for name, total in (("rows", rows), ("bytes", bytes)):
        if count(encoded, name) != total:
            raise ValueError(f"{name!r} is {encoded[name]:,}, but its parts have {total:,}")


def _decode_names(encoded: Json, name: str) -> tuple[SortedName, ...]:
    return tuple(
        SortedName(text(each, "name"), flag(each, "descending"), flag(each, "nulls_first"))
        for each in items(encoded, name)
    )


def _decode_function(encoded: Json) -> HashFunction | RangeFunction:
    if "range" in encoded:
        if "hash" in encoded:
            raise ValueError("it is partitioned by hash or by ranges, not by both")
        ranges = ranges_from_json(encoded["range"])
        keys = tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in ranges.keys)
        return RangeFunction(keys, ranges.boundaries)
    function = member(encoded, "hash")
    if text(function, "family") != HASH_FAMILY:
        raise ValueError(f"the hash function is of the family {shown(function['family'])}, not {HASH_FAMILY!r}")
    return HashFunction(tuple(map(from_spark_name, texts(function, "types"))), count(function, "partitions", 1))


def _decode_reference(encoded: Json) -> StreamReference | None:
    """References are shown, and never followed."""
    return None if encoded is None else StreamReference(path(encoded, "path"), count(encoded, "version", 1))


def _decode_partition(encoded: Json, sort_types: Sequence[DataType]) -> StoredPartition:
    partition = StoredPartition(tuple(_decode_file(file, sort_types) for file in items(encoded, "files")))
    _check_sums(encoded, partition.rows, partition.bytes)
    return partition


def _decode_file(encoded: Json, sort_types: Sequence[DataType]) -> StoredFile:
    groups = tuple(_decode_group(each, sort_types) for each in items(encoded, "row_groups"))
    size, footer = count(encoded, "bytes"), count(encoded, "footer", 0, MAX_CRC)
    file = StoredFile(text(encoded, "path"), size, footer, groups)
    _check_sums(encoded, file.rows, file.bytes)
    return file


def _decode_group(encoded: Json, sort_types: Sequence[DataType]) -> RowGroup:
    offset, length, rows, first, last = as_list(encoded, "a row group")
    return RowGroup(
        as_count(offset, "the offset of a row group"),
        as_count(length, "the length of a row group"),
        as_count(rows, "the rows of a row group"),
        _decode_values(first, sort_types),
        _decode_values(last, sort_types),
    )


def _decode_values(encoded: Json, types: Sequence[DataType]) -> Boundary:
    values = as_list(encoded, "a key")
    if len(values) != len(types):
        raise ValueError("a row group begins and ends with a value for each column it is sorted by")
    return tuple(decoded_value(value, type) for value, type in zip(values, types, strict=True))
