"""Estimates the number of distinct values of a text column without a usable dictionary, from repeated values in a sample.

In n rows drawn from a domain of N values, about n^2 / 2N values occur twice (the birthday problem). So a sample of a few ten
thousand rows distinguishes domains of millions: 40,000 rows show some 800 repeated values if there are 1 million, some 130 if
there are 6 million, and none if the column is a key. Values that occur more often are left out of the sum (Chao 1984), so a
few common values do not hide the many others.

    rows        [ block ]......[ block ]......[ block ]      some rows of evenly spaced row groups

In files that are sorted or written day by day, neighbouring rows often have the same values. Then values repeat within a
block and not across blocks, and the sample gives no estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet

BLOCKS = 12  # row groups that are sampled
BLOCK_ROWS = 4000  # sampled rows of each
STRIDE = 2  # one of this many rows is sampled
MIN_TABLE_ROWS = 1_000_000  # smaller tables are planned well enough without a sample

Open = Callable[[str], pa.parquet.ParquetFile]


def sampled_domains(paths: Sequence[str], open_file: Open, columns: Sequence[str]) -> dict[str, float]:
    """The size of the domain of each column, infinite if no value repeats in the sample. Columns for which the sample gives
    no estimate are left out."""
    blocks: dict[str, list[list[bytes]]] = {column: [] for column in columns}
    step = max(1, len(paths) // BLOCKS)
    per_file = max(1, BLOCKS // len(paths[::step]))
    try:
        for path in paths[::step][:BLOCKS]:
            with open_file(path) as file:
                groups = range(file.metadata.num_row_groups)
                for group in groups[:: max(1, len(groups) // per_file)][:per_file]:
                    for column, values in _block(file, group, columns):
                        blocks[column].append(values)
    except (OSError, pa.ArrowException):
        return {}  # The sample is optional. Whatever reads the rows will report the damaged file.
    domains = ((column, _domain(values)) for column, values in blocks.items())
    return {column: domain for column, domain in domains if domain is not None}


def _block(file: pa.parquet.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[tuple[str, list[bytes]]]:
    present = [column for column in columns if column in file.schema_arrow.names]
    if present:
        batch = next(file.iter_batches(BLOCK_ROWS * STRIDE, [group], present, use_threads=False), None)
        if batch is not None:
            for column in present:
                values = batch.column(column).cast(pa.large_binary()).to_pylist()[::STRIDE]
                yield column, [value for value in values if value is not None]


def _domain(blocks: Sequence[Sequence[bytes]]) -> float | None:
    rows = sum(map(len, blocks))
    if rows < BLOCK_ROWS or len(blocks) < 2:
        return None
    counts = Counter(value for block in blocks for value in block)
    frequencies = Counter(counts.values())
    once, twice = frequencies[1], frequencies[2]
    repeated = len(counts) - once
    if not repeated:
        return float("inf")
    within_block = sum(1 for block in blocks for value, count in Counter(block).items() if 1 < count == counts[value])
    # If rows were drawn at random, this many values would repeat within one block only.
    expected = repeated * sum(len(block) * (len(block) - 1) for block in blocks) / (rows * (rows - 1))
    if within_block > 3.0 * expected + 10.0:
        return None
    return len(counts) + once * (once - 1) / (2.0 * (twice + 1))
