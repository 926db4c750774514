"""Reads log files of key=value lines."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator
from typing import BinaryIO

from unshuffle.operators import Extractor, Row


class RequestLog(Extractor):
    """Lines such as  time=2025-06-01T08:00:00+00:00 level=info service=search took_ms=12 message="two words".

    A missing key is NULL. Other keys, empty lines and lines that begin with # are ignored.
    """

    def extract_rows(self, file: BinaryIO, path: str) -> Iterator[Row]:
        for number, line in enumerate(file, start=1):
            text = line.decode("utf-8").strip()
            if not text or text.startswith("#"):
                continue
            try:
                yield self._row(dict(part.split("=", 1) for part in shlex.split(text)))
            except ValueError as error:
                raise ValueError(f"{path}, line {number} is not of key=value pairs: {text!r}") from error

    def _row(self, pairs: dict[str, str]) -> Row:
        return {
            "time": datetime.datetime.fromisoformat(pairs["time"]) if "time" in pairs else None,
            "level": pairs.get("level"),
            "service": pairs.get("service"),
            "took_ms": int(pairs["took_ms"]) if "took_ms" in pairs else None,
            "message": pairs.get("message"),
        }
