"""Generates the data of the CPU-hours example: the log of a cluster's process starts and ends, in Parquet.

    OUT/started/Date=YYYY-MM-DD/part-0.parquet   event_time, process_guid, job_guid, machine, user_name, priority
    OUT/ended/Date=YYYY-MM-DD/part-0.parquet     event_time, process_guid, job_guid, user_group, exit_code

Real logs are untidy, and so are these: events are logged twice, some processes never end, a process may end on the day
after it started, some jobs have no user group, and not every group's name is ASCII. Times are milliseconds since 1970,
UTC. The same options always make the same files.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DAY = 24 * 3600 * 1000  # milliseconds
MACHINES = 400
USERS = 300
PROCESSES_PER_JOB = 25
NEVER_ENDS = 0.02
NO_GROUP = 0.03
GROUPS = (
    "ads", "billing", "crawl", "fraud", "images", "index", "maps", "news", "ops", "ranking", "search", "speech", "translate",
    "video", "weather", "café", "Größen", "données", "поиск", "データ基盤", "数据平台", "Ω-team",
)  # fmt: skip


def main() -> int:
    options = _options()
    out = Path(options.out)
    if out.exists():
        print(f"{out} is already there; remove it or name another folder", file=sys.stderr)
        return 2
    out.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary folder and renamed at the end, so that an existing folder is complete.
    unfinished = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        generate(unfinished, options.processes, options.days, options.duplicates, options.end_date, options.seed)
        unfinished.chmod(0o755)
        os.rename(unfinished, out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"{options.processes:,} processes over {options.days} days, up to {options.end_date}, are in {out}")
    return 0


def generate(out: Path, processes: int, days: int, duplicates: float, end_date: datetime.date, seed: int) -> None:
    """Writes the starts of one day at a time. Ends that fall on the next day are kept for it."""
    first = end_date - datetime.timedelta(days=days - 1)
    late: pa.Table | None = None
    per_day = np.random.default_rng((seed, 0)).multinomial(processes, np.full(days, 1 / days))
    for day, count in enumerate(per_day):
        rng = np.random.default_rng((seed, day + 1))
        date = first + datetime.timedelta(days=day)
        started, ended = _day(rng, date, int(count))
        _write(out / "started", date, _with_duplicates(rng, started, duplicates))
        ended = _with_duplicates(rng, ended, duplicates)
        next_day = np.asarray(ended["event_time"]) >= _midnight(date) + DAY
        _write(out / "ended", date, _join(late, ended.filter(pa.array(~next_day))))
        late = ended.filter(pa.array(next_day))
    if late is not None and late.num_rows:
        _write(out / "ended", end_date + datetime.timedelta(days=1), late)


def _day(rng: np.random.Generator, date: datetime.date, count: int) -> tuple[pa.Table, pa.Table]:
    """The processes that start on a day: their start events, and the end events of those that end."""
    start = _midnight(date) + rng.integers(0, DAY, count)
    seconds = np.minimum(rng.lognormal(mean=5, sigma=1.6, size=count), 20 * 3600)  # most take minutes, a few take hours
    guid = _guids(rng, count)

    jobs = max(1, count // PROCESSES_PER_JOB)
    job = rng.integers(0, jobs, count)
    job_guid = _guids(rng, jobs).take(pa.array(job))
    user = np.minimum(rng.zipf(1.3, jobs) - 1, USERS - 1)[job]
    group = (user % len(GROUPS)).astype(np.int64)
    no_group = (rng.random(jobs) < NO_GROUP)[job]

    started = pa.table(
        {
            "event_time": start,
            "process_guid": guid,
            "job_guid": job_guid,
            "machine": _numbered("machine", MACHINES).take(pa.array(rng.integers(0, MACHINES, count))),
            "user_name": _numbered("user", USERS).take(pa.array(user)),
            "priority": rng.integers(0, 10, count, dtype=np.int32),
        }
    )
    ended = pa.table(
        {
            "event_time": start + (seconds * 1000).astype(np.int64),
            "process_guid": guid,
            "job_guid": job_guid,
            "user_group": pa.array(GROUPS).take(pa.array(group, mask=no_group)),
            "exit_code": np.where(rng.random(count) < 0.95, 0, rng.integers(1, 128, count)).astype(np.int32),
        }
    )
    return started, ended.filter(pa.array(rng.random(count) >= NEVER_ENDS))


def _with_duplicates(rng: np.random.Generator, events: pa.Table, share: float) -> pa.Table:
    """Repeats some events, and sorts all by time, as in a log."""
    again = np.flatnonzero(rng.random(events.num_rows) < share)
    rows = np.concatenate([np.arange(events.num_rows), again])
    times = np.asarray(events["event_time"])[rows]
    return events.take(pa.array(rows[np.argsort(times, kind="stable")]))


def _guids(rng: np.random.Generator, count: int) -> pa.Array:
    """Random identifiers such as 0f8fad5b-d9cb-469f-a165-70867728950e, without a Python loop."""
    nibbles = rng.integers(0, 16, (count, 32), dtype=np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[nibbles]
    text = np.full((count, 36), ord("-"), dtype=np.uint8)
    text[:, [i for i in range(36) if i not in (8, 13, 18, 23)]] = digits
    offsets = np.arange(count + 1, dtype=np.int32) * 36
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def _numbered(word: str, count: int) -> pa.Array:
    return pa.array([f"{word}-{i:03d}" for i in range(count)])


def _midnight(date: datetime.date) -> int:
    return (date - datetime.date(1970, 1, 1)).days * DAY


def _join(first: pa.Table | None, second: pa.Table) -> pa.Table:
    return second if first is None else pa.concat_tables([first, second])


def _write(folder: Path, date: datetime.date, table: pa.Table) -> None:
    target = folder / f"Date={date}"
    target.mkdir(parents=True)
    # A dictionary does not help for unique identifiers, and takes time to try.
    names = [name for name in table.column_names if name not in ("event_time", "process_guid")]
    pq.write_table(table, target / "part-0.parquet", use_dictionary=names)


def _options() -> argparse.Namespace:
    def share(text: str) -> float:
        value = float(text)
        if not 0 <= value <= 1:
            raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
        return value

    def count(text: str) -> int:
        value = int(text)
        if value < 1:
            raise argparse.ArgumentTypeError(f"{text} is not a positive number")
        return value

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="the folder to make")
    parser.add_argument("--processes", type=count, default=20_000)
    parser.add_argument("--days", type=count, default=31, help="days with starts, up to the end date")
    parser.add_argument("--duplicates", type=share, default=0.15, help="the share of events that are logged twice")
    parser.add_argument("--end-date", type=datetime.date.fromisoformat, default=datetime.date.today())
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
