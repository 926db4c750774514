"""Distinct values estimated from a sample, compared with the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from unshuffle.catalog.statistics.sampled_distinct import sampled_domains

ROWS = 240_000


def written(folder: Path, numbers: np.ndarray, files: int = 1) -> list[str]:
    paths = []
    for place, part in enumerate(np.array_split(numbers, files)):
        path = folder / f"{place}.parquet"
        digits = pc.utf8_lpad(pa.array(part).cast(pa.string()), 12, "0")
        texts = pc.binary_join_element_wise("value ", digits, "")
        pq.write_table(pa.table({"s": texts}), path, row_group_size=20_000, use_dictionary=False)
        paths.append(str(path))
    return paths


def estimate(paths: list[str]) -> float | None:
    return sampled_domains(paths, pq.ParquetFile, ["s", "not there"]).get("s")


@pytest.mark.parametrize("files", [1, 30])
@pytest.mark.parametrize("domain", [20_000, 100_000, 1_000_000])
def test_randomly_drawn_values(tmp_path: Path, domain: int, files: int) -> None:
    numbers = np.random.default_rng(1).integers(0, domain, ROWS)
    assert estimate(written(tmp_path, numbers, files)) == pytest.approx(domain, rel=0.25)


def test_common_values_do_not_hide_rare_ones(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    numbers = np.where(random.random(ROWS) < 0.3, random.integers(0, 10, ROWS), random.integers(10, 100_000, ROWS))
    assert estimate(written(tmp_path, numbers)) == pytest.approx(100_000, rel=0.3)


def test_a_key(tmp_path: Path) -> None:
    assert estimate(written(tmp_path, np.random.default_rng(1).permutation(ROWS))) == float("inf")


def test_clustered_values_give_no_estimate(tmp_path: Path) -> None:
    assert estimate(written(tmp_path, np.arange(ROWS) // 6)) is None


def test_few_rows_give_no_estimate(tmp_path: Path) -> None:
    assert estimate(written(tmp_path, np.arange(100))) is None


def test_no_values(tmp_path: Path) -> None:
    path = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"s": pa.nulls(50_000, pa.string())}), path, row_group_size=10_000)
    assert estimate([str(path)]) is None


def test_a_damaged_file_gives_no_estimate(tmp_path: Path) -> None:
    (path,) = written(tmp_path, np.random.default_rng(1).integers(0, 100_000, ROWS))
    content = bytearray(Path(path).read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    Path(path).write_bytes(content)
    assert estimate([path]) is None
