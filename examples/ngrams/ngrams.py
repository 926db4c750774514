"""Splits text into n-grams of words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unshuffle.operators import Processor, Row


class NGram(Processor):
    """Every sequence of `n` words of a line, in lower case. A line with fewer words has none."""

    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"n is {n}, but an n-gram has at least one word")
        self.n = n

    def process_row(self, row: Row) -> Iterator[Row]:
        words = re.findall(r"\w+", (row["line"] or "").lower())
        for i in range(len(words) - self.n + 1):
            yield {"gram": " ".join(words[i : i + self.n])}
