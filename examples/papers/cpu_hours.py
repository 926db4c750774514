"""Reads a cluster's log of events: one event a line, its fields separated by tabs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from unshuffle import Extractor

FIELDS = {
    "ProcessStarted": ("CurrentTimeStamp", "ProcessGUID", "MachineName", "UserName"),
    "ProcessEnded": ("CurrentTimeStamp", "ProcessGUID", "ExitCode", "UserGroupName"),
}


class EventExtractor(Extractor):
    """The events of one kind. An empty field is NULL."""

    def __init__(self, event: str) -> None:
        self.event = event

    def produces(self) -> Mapping[str, str]:
        return {name: "timestamp" if name == "CurrentTimeStamp" else "string" for name in FIELDS[self.event]}

    def extract_rows(self, file: BinaryIO, path: str) -> Iterator[dict[str, Any]]:
        for line in file:
            event, time, *others = line.decode().rstrip("\n").split("\t")
            if event == self.event:
                at = datetime.datetime.fromisoformat(time).replace(tzinfo=datetime.UTC)
                yield dict(zip(FIELDS[event], (at, *(other or None for other in others)), strict=True))
