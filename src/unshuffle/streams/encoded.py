"""Manifests as JSON.

    {"format": "unshuffle stream", "format_version": 1, "checksum": "sha256:...", "manifest": {...}}

The checksum is of the manifest's one compact form, so that a file of which a part was lost or changed is known by it. What
is read is put together again by the same constructors that check a manifest when it is made; anything that does not fit is
a ValueError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from unshuffle.catalog.declared import DeclaredDependency, DeclaredKey
from unshuffle.catalog.stored_statistics import decoded_value, encoded_value
from unshuffle.catalog.types import from_spark_name, spark_name
from unshuffle.partitions import (
    Boundary,
    decoded_histogram,
    decoded_ranges,
    encoded_histogram,
    encoded_ranges,
)
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.functions import RangeKey
from unshuffle.streams.manifest import (
    Manifest,
    Reference,
    RowGroup,
    SortedName,
    StoredFile,
    StoredPartition,
    ranges_of,
)

FORMAT, FORMAT_VERSION = "unshuffle stream", 1

Json = Any


def to_bytes(manifest: Manifest) -> bytes:
    body = encode(manifest)
    whole = {"format": FORMAT, "format_version": FORMAT_VERSION, "checksum": _checksum(body), "manifest": body}
    return (json.dumps(whole, separators=(",", ":")) + "\n").encode()


def from_bytes(data: bytes) -> Manifest:
    """Raises a ValueError that says what is wrong with it."""
    try:
        whole = json.loads(data)
        if not isinstance(whole, dict) or whole.get("format") != FORMAT:
            raise ValueError("it is no manifest of a stream")
        if whole["format_version"] != FORMAT_VERSION:
            raise ValueError(
                f"it is of format version {whole['format_version']}, and this program knows {FORMAT_VERSION}"
            )
        if whole["checksum"] != _checksum(whole["manifest"]):
            raise ValueError("its checksum does not fit, so a part of it was changed")
        return decode(whole["manifest"])
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except (KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"a part is missing or of another form: {error!r}") from None


def _checksum(body: Json) -> str:
    compact = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(compact.encode()).hexdigest()}"


# --- writing


def encode(manifest: Manifest) -> dict[str, Json]:
    reference = manifest.reference
    return {
        "version": manifest.version,
        "writer": manifest.writer,
        "schema": [{"name": name, "type": spark_name(type)} for name, type in manifest.schema],
        "partitioning": {"clustered_by": _names(manifest.clustered_by), **_function(manifest.function)},
        "sorted_by": _names(manifest.sorted_by),
        "keys": [list(each.columns) for each in manifest.keys],
        "dependencies": [{"from": list(d.determinant), "to": list(d.dependent)} for d in manifest.dependencies],
        "reference": None if reference is None else {"path": reference.path, "version": reference.version},
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "partitions": [_partition(each) for each in manifest.partitions],
        "histogram": encoded_histogram(manifest.histogram),
    }


def _names(names: Sequence[SortedName]) -> list[Json]:
    return [{"name": each.name, "descending": each.descending, "nulls_first": each.nulls_first} for each in names]


def _function(function: HashFunction | RangeFunction) -> dict[str, Json]:
    if isinstance(function, RangeFunction):
        return {"range": encoded_ranges(ranges_of(function))}
    types = [spark_name(type) for type in function.types]
    return {"hash": {"types": types, "partitions": function.partitions, "family": function.family}}


def _partition(partition: StoredPartition) -> Json:
    return {"rows": partition.rows, "bytes": partition.bytes, "files": [_file(each) for each in partition.files]}


def _file(file: StoredFile) -> Json:
    return {
        "path": file.path,
        "rows": file.rows,
        "bytes": file.bytes,
        "footer": file.footer,
        "row_groups": [
            [group.offset, group.length, group.rows, _values(group.first), _values(group.last)] for group in file.groups
        ],
    }


def _values(values: Boundary) -> list[Json]:
    return [encoded_value(value) for value in values]


# --- reading


def decode(shown: Json) -> Manifest:
    partitioning = shown["partitioning"]
    reference = shown["reference"]
    return Manifest(
        shown["version"],
        shown["writer"],
        tuple((each["name"], from_spark_name(each["type"])) for each in shown["schema"]),
        _decoded_names(partitioning["clustered_by"]),
        _decoded_function(partitioning),
        _decoded_names(shown["sorted_by"]),
        tuple(StoredPartition(tuple(_decoded_file(file) for file in each["files"])) for each in shown["partitions"]),
        decoded_histogram(shown["histogram"]),
        tuple(DeclaredKey(tuple(each)) for each in shown["keys"]),
        tuple(DeclaredDependency(tuple(each["from"]), tuple(each["to"])) for each in shown["dependencies"]),
        None if reference is None else Reference(reference["path"], reference["version"]),
    )


def _decoded_names(shown: Json) -> tuple[SortedName, ...]:
    return tuple(SortedName(each["name"], each["descending"], each["nulls_first"]) for each in shown)


def _decoded_function(shown: Json) -> HashFunction | RangeFunction:
    if "range" in shown:
        ranges = decoded_ranges(shown["range"])
        keys = tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in ranges.keys)
        return RangeFunction(keys, ranges.boundaries)
    found = shown["hash"]
    return HashFunction(tuple(map(from_spark_name, found["types"])), found["partitions"], found["family"])


def _decoded_file(shown: Json) -> StoredFile:
    groups = tuple(
        RowGroup(offset, length, rows, _decoded_values(first), _decoded_values(last))
        for offset, length, rows, first, last in shown["row_groups"]
    )
    return StoredFile(shown["path"], shown["bytes"], shown["footer"], groups)


def _decoded_values(shown: Json) -> Boundary:
    return tuple(decoded_value(value) for value in shown)
