"""Manifests survive a round trip through JSON, and anything else is rejected."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.storing import VALUES
from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.partitions import KeyOrder, Ranges, histogram_of_rows
from unshuffle.properties import HashFunction
from unshuffle.sstream import Manifest, RowGroup, SortedName, StoredFile, StoredPartition, StreamReference
from unshuffle.sstream.layout_request import range_function
from unshuffle.sstream.manifest import typed_keys
from unshuffle.sstream.manifest_json import decode, encode, from_bytes, to_bytes


@st.composite
def names_and_values(draw: st.DrawFn) -> tuple[tuple[str, pa.DataType, SortedName], list[Any]]:
    type, values = VALUES[draw(st.sampled_from(list(VALUES)))]
    name = draw(st.text('abé😀 `"', min_size=1, max_size=3))
    descending, nulls_first = draw(st.booleans()), draw(st.booleans())
    return (name, type, SortedName(name, descending, nulls_first)), values


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    drawn = draw(st.lists(names_and_values(), min_size=1, max_size=3, unique_by=lambda each: each[0][0]))
    schema = tuple((name, type) for (name, type, _), _ in drawn)
    clustered_by = tuple(each for (_, _, each), _ in drawn)
    keys = typed_keys(schema, clustered_by)
    rows = draw(st.lists(st.tuples(*(st.sampled_from(values) for _, values in drawn)), min_size=1, max_size=8))
    if draw(st.booleans()):
        function = HashFunction(tuple(type for _, type in schema), draw(st.integers(1, 4)))
    else:
        cuts = [row[: draw(st.integers(1, len(row)))] for row in rows]
        function = range_function(Ranges(keys, tuple(sorted(cuts, key=KeyOrder(keys).row))))
    rows.sort(key=KeyOrder(keys).row)
    groups = RowGroup(4, 100, len(rows), rows[0], rows[-1]), RowGroup(104, 100, 1, rows[-1], rows[-1])
    file = StoredFile("p=0/part-é.parquet", 1000, 2**32 - 1, groups)
    partitions = (StoredPartition((file,)), *(StoredPartition(),) * (function.partitions - 1))
    first = schema[0][0]
    return Manifest(
        draw(st.integers(1, 10**7)),
        "writer",
        schema,
        clustered_by,
        function,
        clustered_by,
        partitions,
        histogram_of_rows(keys, rows, 4),
        (DeclaredKey((first,)),),
        (DeclaredDependency((first,), (schema[-1][0],)),),
        draw(st.sampled_from([None, StreamReference("s3://bücket/x.ss", 3)])),
    )


@given(manifests())
def test_round_trip_through_json(manifest: Manifest) -> None:
    decoded = from_bytes(to_bytes(manifest))
    assert encode(decoded) == encode(manifest)
    if not any(
        isinstance(v, float) and math.isnan(v) for group in manifest.groups() for v in (*group.first, *group.last)
    ):
        assert list(decoded.groups()) == list(manifest.groups())
    assert decoded.schema == manifest.schema
    assert decoded.clustered_by == manifest.clustered_by
    assert str(decoded.function) == str(manifest.function)


@given(manifests(), st.data())
def test_a_changed_byte_is_detected(manifest: Manifest, data: st.DataObject) -> None:
    whole = to_bytes(manifest)
    at = data.draw(st.integers(0, len(whole) - 2))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[at]))
    with pytest.raises(ValueError, match=r".+"):
        from_bytes(whole[:at] + bytes([other]) + whole[at + 1 :])


@given(manifests(), st.floats(0, 0.999))
def test_a_truncated_manifest_is_detected(manifest: Manifest, share: float) -> None:
    whole = to_bytes(manifest)
    with pytest.raises(ValueError, match=r".+"):
        from_bytes(whole[: int(share * len(whole))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "not the manifest of a stream"),
        ('{"format": "another"}', "not the manifest of a stream"),
        ('{"format": "unshuffle stream", "format_version": 99}', "format version 99"),
        ('{"format": "unshuffle stream", "format_version": 1, "manifest": {}}', "missing"),
        ("\xff", "not JSON"),
    ],
)
def test_other_texts_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_bytes(text.encode())


def test_contradictory_manifests_are_rejected() -> None:
    body = encode(_small())
    for wrong in (
        {**body, "schema": [{"name": "b", "type": "bigint"}]},
        {**body, "schema": [{"name": "a", "type": "string"}]},
        {**body, "sorted_by": []},
        {**body, "partitions": []},
    ):
        with pytest.raises(ValueError, match=r".+"):
            decode(json.loads(json.dumps(wrong)))


def _small() -> Manifest:
    schema = (("a", pa.int64()),)
    by = (SortedName("a"),)
    partitions = (StoredPartition(), StoredPartition())
    return Manifest(
        1,
        "w",
        schema,
        by,
        HashFunction((pa.int64(),), 2),
        by,
        partitions,
        histogram_of_rows(typed_keys(schema, by), []),
    )
