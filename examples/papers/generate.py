"""Generates small data for the scripts of the papers. The same folder always gets the same data.

python examples/papers/generate.py examples/papers/data
"""

from __future__ import annotations

import datetime
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle import Session

LAST_DAY = datetime.date(2025, 6, 30)
GROUPS = ("ads", "maps", "Größen", "数据平台", "")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    with Session() as session:
        generate(Path(sys.argv[1]), session)
    return 0


def generate(folder: Path, session: Session) -> None:
    folder.mkdir(parents=True)
    _events(folder)
    _tables(folder)
    _streams(folder, session)


def _events(folder: Path) -> None:
    """Two logs, a file a day. Some events are there twice, some processes never end, and some have no group."""
    chance = random.Random(1)
    for days_ago in range(4):
        day = LAST_DAY - datetime.timedelta(days_ago)
        started, ended = [], []
        for i in range(200):
            guid = f"{day:%d}-{i:04}"
            start = datetime.datetime.combine(day, datetime.time(0)) + datetime.timedelta(
                seconds=chance.random() * 80_000
            )
            end = start + datetime.timedelta(milliseconds=chance.randrange(1, 5_000_000))
            started += [f"ProcessStarted\t{start}\t{guid}\tm{i % 7}\tu{i % 5}\n"] * chance.choice((1, 1, 2))
            if chance.random() < 0.95:
                ended += [f"ProcessEnded\t{end}\t{guid}\t0\t{GROUPS[i % 5]}\n"] * chance.choice((1, 1, 3))
        for name, lines in (("ProcessStartedEvents", started), ("ProcessEndedEvents", ended)):
            path = folder / name / f"Date={day}"
            path.mkdir(parents=True)
            (path / "events.log").write_text("".join(lines), encoding="utf-8")


def _tables(folder: Path) -> None:
    chance = random.Random(2)
    size = 2_000
    columns = {"a": [i % 50 for i in range(size)], "b": [i % 7 for i in range(size)], "c": range(size)}
    pq.write_table(
        pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}), folder / "R.parquet"
    )
    d = [chance.choice((None, 1, 2, 3)) for _ in range(size)]
    table = {"a": [chance.randrange(50) for _ in d], "b": [chance.choice((None, 0, 1, 6)) for _ in d], "d": d}
    pq.write_table(
        pa.table({name: pa.array(values, pa.int64()) for name, values in table.items()}), folder / "S.parquet"
    )
    log: dict[str, Sequence[Any]] = {
        "TS": [1_000_000 + i for i in chance.sample(range(size * 10), size)],
        "EventName": [chance.choice(("Open", "Move", "Delete", "Sync", None)) for _ in d],
        "EventId": [chance.choice((None, *range(20))) for _ in d],
        "ActivityId": [chance.randrange(9) for _ in d],
        "MachineName": [f"m{chance.randrange(9)}" for _ in d],
        "MailboxGuid": [chance.choice((None, *(f"box{i}" for i in range(60)))) for _ in d],
    }
    pq.write_table(pa.table(log), folder / "log.parquet")


def _streams(folder: Path, session: Session) -> None:
    chance = random.Random(3)
    rows = {
        "a": [chance.choice((None, *range(40))) for _ in range(2_000)],
        "b": [chance.random() for _ in range(2_000)],
    }
    _store(session, folder, "input", pa.table(rows), clustered_by="a", sorted_by="a", partitions=8)
    words = [chance.choice((None, "", "scope", "structured", "größere", "streams of streams")) for _ in range(300)]
    _store(session, folder, "strings", pa.table({"text": words}), clustered_by="text", partitions=3)
    for i, name in enumerate(("WebPages", "T1", "T2", "T3", "T4")):
        layout = ["domain", "host", "directory"]
        _store(session, folder, name, _pages(i), clustered_by=layout, sorted_by=layout, ranged=True, partitions=4 + i)


def _pages(seed: int) -> pa.Table:
    """Pages of few domains, each input with other ones more often."""
    chance = random.Random(10 + seed)
    domains = [f"com.site{min(chance.randrange(1, 12), chance.randrange(1, 12 + seed))}" for _ in range(1_500)]
    return pa.table(
        {
            "domain": domains,
            "host": [chance.choice(("www", "mail", "maps", None)) for _ in domains],
            "directory": [f"d{chance.randrange(30)}/" for _ in domains],
            "col1": pa.array([chance.choice((None, *range(9))) for _ in domains], pa.int64()),
            "col2": [chance.choice(("x", "y", "ü", None)) for _ in domains],
        }
    )


def _store(session: Session, folder: Path, name: str, table: pa.Table, **layout: Any) -> None:
    pq.write_table(table, folder / f"{name}.parquet")
    session.write_stream(folder / f"{name}.parquet", folder / f"{name}.ss", **layout)


if __name__ == "__main__":
    sys.exit(main())
