"""A few seconds of tools/stream_soak.py: two writers, readers and vacuums in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tools.stream_soak import content, problem_of, read, soaked, write_with_arrow
from unshuffle.sstream import open_stream


def test_readers_see_whole_versions_and_no_update_is_lost(tmp_path: Path) -> None:
    soak = soaked(str(tmp_path / "soak.ss"), seconds=3, readers=4, arrow=True, quiet=True)
    assert soak.problems == []
    assert soak.counts()["reads"] > 0
    assert soak.counts()["writes"] > 0


def test_wrong_versions_are_noticed(tmp_path: Path) -> None:
    path = str(tmp_path / "x.ss")
    write_with_arrow(path, content(1, 0, 0), None)
    stream, one, two = open_stream(path), content(1, 0, 0), content(2, 1, 0)
    assert problem_of(stream, read(stream)) is None
    for rows, problem in (
        (pa.concat_tables([one.slice(1), two.slice(0, 1)]), "has version [1, 2]"),
        (content(1, 5, 0), "has total [6]"),
        (one.slice(1), "rows, not"),
        (pa.concat_tables([one, one.slice(0, 1)]), "rows, not"),
        (pa.concat_tables([one.slice(1), content(1, 0, 7).slice(0, 1)]), "rows of the writers"),
    ):
        assert problem in str(problem_of(stream, rows))
