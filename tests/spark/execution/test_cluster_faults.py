"""What tools/cluster_faults.py would notice. The program itself takes minutes, and faults strike while real processes run."""

from __future__ import annotations

from pathlib import Path

from tests.support.faults.shapes import different, miscounted, stream_problems, unexpected, visits
from tests.support.storing import by, store
from unshuffle.sstream import LayoutRequest


def test_wrong_rows_files_and_counts_are_noticed(tmp_path: Path) -> None:
    rows = visits(20)
    expected = list(zip(*rows.to_pydict().values(), strict=True))
    path = tmp_path / "x.ss"
    store(path, rows, LayoutRequest(by("user"), partitions=2))
    assert stream_problems(path, expected) == []
    assert unexpected(tmp_path, {"x.ss"}) == []
    assert different(expected, expected[::-1], is_sorted=True)
    assert miscounted([20, 21], expected, expected)
    assert stream_problems(path, [*expected, expected[0]])
    (path / "p=0" / "part-of-another-attempt.parquet").touch()
    assert stream_problems(path, expected) == ["p=0/part-of-another-attempt.parquet is left over"]
    (tmp_path / "_temporary").mkdir()
    assert unexpected(tmp_path, {"x.ss"})
