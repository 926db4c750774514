"""The n-grams of strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unshuffle import Processor


class NGramProcessor(Processor):
    def __init__(self, n: int) -> None:
        self.n = n

    def produces(self) -> Mapping[str, str]:
        return {"nGram": "string"}

    def process_row(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        text = row["text"] or ""
        for i in range(len(text) - self.n + 1):
            yield {"nGram": text[i : i + self.n]}
