"""Manifests as JSON.

    {"format": "unshuffle stream", "format_version": 1, "checksum": "sha256:...", "manifest": {...}}

The checksum is computed over a canonical compact form, so a truncated or changed file is detected. Decoding uses the
constructors of `Manifest`, which check it. Any mismatch is a ValueError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.catalog.json_values import decoded_value, encoded_value
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.types import spark_name
from unshuffle.partitions import Boundary, histogram_from_json, histogram_to_json, ranges_from_json, ranges_to_json
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.layouts.partition_functions import RangeKey
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

Json = Any


def to_bytes(manifest: Manifest) -> bytes:
    body = encode(manifest)
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, "checksum": _checksum(body), "manifest": body}
    return (json.dumps(whole, separators=(",", ":")) + "\n").encode()


def from_bytes(data: bytes) -> Manifest:
    """Raises a ValueError that says what is wrong."""
    try:
        whole = json.loads(data)
        if not isinstance(whole, dict) or whole.get("format") != FORMAT:
            raise ValueError("it is not the manifest of a stream")
        if whole["format_version"] != FORMAT_VERSION:
            raise ValueError(
                f"it has format version {whole['format_version']}, but this program reads {FORMAT_VERSION}"
            )
        if whole["checksum"] != _checksum(whole["manifest"]):
            raise ValueError("its checksum does not match, so a part of it was changed")
        return decode(whole["manifest"])
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"a part is missing or malformed: {error!r}") from None


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
    partitioning = encoded["partitioning"]
    reference = encoded["reference"]
    return Manifest(
        encoded["version"],
        encoded["writer"],
        tuple((each["name"], from_spark_name(each["type"])) for each in encoded["schema"]),
        _decode_names(partitioning["clustered_by"]),
        _decode_function(partitioning),
        _decode_names(encoded["sorted_by"]),
        tuple(StoredPartition(tuple(_decode_file(file) for file in each["files"])) for each in encoded["partitions"]),
        histogram_from_json(encoded["histogram"]),
        tuple(DeclaredKey(tuple(each)) for each in encoded["keys"]),
        tuple(DeclaredDependency(tuple(each["from"]), tuple(each["to"])) for each in encoded["dependencies"]),
        None if reference is None else StreamReference(reference["path"], reference["version"]),
    )


def _decode_names(encoded: Json) -> tuple[SortedName, ...]:
    return tuple(SortedName(each["name"], each["descending"], each["nulls_first"]) for each in encoded)


def _decode_function(encoded: Json) -> HashFunction | RangeFunction:
    if "range" in encoded:
        ranges = ranges_from_json(encoded["range"])
        keys = tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in ranges.keys)
        return RangeFunction(keys, ranges.boundaries)
    function = encoded["hash"]
    return HashFunction(tuple(map(from_spark_name, function["types"])), function["partitions"], function["family"])


def _decode_file(encoded: Json) -> StoredFile:
    groups = tuple(
        RowGroup(offset, length, rows, _decode_values(first), _decode_values(last))
        for offset, length, rows, first, last in encoded["row_groups"]
    )
    return StoredFile(encoded["path"], encoded["bytes"], encoded["footer"], groups)


def _decode_values(encoded: Json) -> Boundary:
    return tuple(decoded_value(value) for value in encoded)
