"""What is known of the layout of a shared rowset by those who read it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from unshuffle.catalog.schema import Column
from unshuffle.plan import physical
from unshuffle.properties import (
    Clustered,
    Delivered,
    Dependencies,
    Partitioned,
    Proof,
    RangeFunction,
    RangeKey,
    Required,
    SampledBoundaries,
    match,
)

A = Column(1, "a", pa.int64())


@pytest.mark.parametrize(
    ("boundaries", "is_known"), [(((10,), (20,)), True), (SampledBoundaries("s", 3), False)], ids=["known", "sampled"]
)
def test_ranges_that_are_sampled_co_partition_nothing(boundaries: Any, is_known: bool) -> None:
    """Rows that are equal in the column are together all the same."""
    layout = Delivered(Partitioned(RangeFunction((RangeKey(A.type),), boundaries), (A,)))
    read = physical.ReadSpool("shared", 1, (A,), layout).deliver((), ())
    assert isinstance(read.partitioning, Partitioned)
    assert (read.partitioning.function == layout.partitioning.function) == is_known  # type: ignore[union-attr]
    assert isinstance(match(read, Required(Clustered(frozenset((A,)))), Dependencies()), Proof)
