"""The parts of a file with which row groups are read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.catalog.row_groups import RowGroupPlace, parts_of_file, place_of


def test_each_part_has_the_middle_of_its_own_row_group(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"a": list(range(1000)), "b": ["x" * (i % 50) for i in range(1000)]}), path, row_group_size=90
    )
    footer = pq.read_metadata(path)
    places = [place_of(footer.row_group(i)) for i in range(footer.num_row_groups)]
    parts = parts_of_file(places, path.stat().st_size)
    for number, place in enumerate(places):
        assert [start <= place.middle < end for start, end in parts].index(True) == number
    assert parts[0][0] == 0
    assert parts[-1][1] == path.stat().st_size
    assert all(one[1] == other[0] for one, other in pairwise(parts))


@given(st.lists(st.tuples(st.integers(4, 1000), st.integers(1, 100)), min_size=1, max_size=8, unique_by=lambda p: p[0]))
def test_parts_of_any_order_divide_the_file(spans: list[tuple[int, int]]) -> None:
    places = [RowGroupPlace(offset, length, 1) for offset, length in spans]
    parts = sorted(parts_of_file(places, 2000))
    assert parts[0][0] == 0
    assert parts[-1][1] == 2000
    assert all(one[1] == other[0] for one, other in pairwise(parts))
