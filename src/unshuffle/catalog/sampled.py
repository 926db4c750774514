"""How many values a text column has that no dictionary tells of: from how often values come again in a sample.

Of n rows drawn from a domain of N values, about n^2 / 2N come twice (the birthday problem). So a few ten thousand rows tell
domains of millions apart: 40,000 rows of 1 million values show some 800 of them, of 6 million some 130, of a key none. Values
that come more often are left out of the sum (Chao 1984), so a few common ones do not hide the many.

    rows        [ piece ]......[ piece ]......[ piece ]      some rows of evenly spread row groups

Rows that lie together often hold the same values, in files that are sorted or written day by day. Then values come again
inside a piece that would not between pieces, and nothing is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet

PIECES = 12  # row groups that are looked into
ROWS = 4000  # of each
APART = 2  # of so many rows that are read one is taken
FEWEST_ROWS = 1_000_000  # a table with fewer is planned well enough without

Open = Callable[[str], pa.parquet.ParquetFile]


def sampled_domains(paths: Sequence[str], open_file: Open, columns: Sequence[str]) -> dict[str, float]:
    """Of each of these columns, the values that its rows are drawn from; infinite where none came again. Without those that
    a sample tells nothing of."""
    pieces: dict[str, list[list[bytes]]] = {column: [] for column in columns}
    step = max(1, len(paths) // PIECES)
    each = max(1, PIECES // len(paths[::step]))
    try:
        for path in paths[::step][:PIECES]:
            with open_file(path) as file:
                groups = range(file.metadata.num_row_groups)
                for group in groups[:: max(1, len(groups) // each)][:each]:
                    for column, values in _piece(file, group, columns):
                        pieces[column].append(values)
    except (OSError, pa.ArrowException):
        return {}  # it is a help, never a need: whoever reads the rows will tell what is wrong with the file
    domains = ((column, _domain(found)) for column, found in pieces.items())
    return {column: domain for column, domain in domains if domain is not None}


def _piece(file: pa.parquet.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[tuple[str, list[bytes]]]:
    have = [column for column in columns if column in file.schema_arrow.names]
    if have:
        batch = next(file.iter_batches(ROWS * APART, [group], have, use_threads=False), None)
        if batch is not None:
            for column in have:
                values = batch.column(column).cast(pa.large_binary()).to_pylist()[::APART]
                yield column, [value for value in values if value is not None]


def _domain(pieces: Sequence[Sequence[bytes]]) -> float | None:
    rows = sum(map(len, pieces))
    if rows < ROWS or len(pieces) < 2:
        return None
    counts = Counter(value for piece in pieces for value in piece)
    once = sum(1 for count in counts.values() if count == 1)
    twice = sum(1 for count in counts.values() if count == 2)
    again = sum(1 for count in counts.values() if count > 1)
    if not again:
        return float("inf")
    inside = sum(1 for piece in pieces for value, count in Counter(piece).items() if 1 < count == counts[value])
    # Were rows drawn anyhow, this many would come again only in the piece that they came in first.
    even = again * sum(len(piece) * (len(piece) - 1) for piece in pieces) / (rows * (rows - 1))
    if inside > 3.0 * even + 10.0:
        return None
    return len(counts) + once * (once - 1) / (2.0 * (twice + 1))
