"""What a plan costs on a machine: the one table of constants.

Seconds, a row or a byte at a time on one core. `benchmarks/calibrate.py` measures them on a machine with Spark and prints
this table; the values here are what it found on two cores of a small virtual machine. What matters to a choice is their
ratios, which differ far less from machine to machine than they do themselves.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from unshuffle.errors import FileProblem, UserError, did_you_mean

# Names a file that `benchmarks/calibrate.py` wrote, or that someone wrote by hand for a cluster.
VARIABLE = "UNSHUFFLE_MACHINE"

ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Machine:
    cores: int = 8  # tasks that run at once

    # --- fixed costs
    stage: float = 0.02  # to begin a stage: adaptive planning, scheduling, the first task's set-up
    task: float = 0.002  # to start a task and take back its result
    block: float = 0.000_06  # to write and open one of the n x m pieces of a shuffle, each a file
    index_block: float = 0.000_015  # the same where the pieces of a task are in one file, with an index

    connection: float = 0.000_01  # for a task to open one of the pieces that it reads
    failure: float = 1e-5  # how likely a task fails at a connection that it reads from, and begins anew
    fan_in: int = 250  # connections beyond which findings are combined on the way (SIGMOD 2012, section 2.4.1)

    most_files: int = 200  # partitions that Spark writes a file each for: spark.shuffle.sort.bypassMergeThreshold

    # --- a row at a time, on one core
    scan_row: float = 35e-9
    stored_row: float = 30e-9  # beyond that, of partitions that Spark is told the layout of
    filter_row: float = 30e-9
    compute_row: float = 20e-9  # for each expression that is not a column
    pattern_row: float = 1200e-9  # for each LIKE with a wildcard between two texts
    decimal_row: float = 75e-9  # beyond that, if it is a decimal of more than 18 digits
    hash_group_row: float = 110e-9  # an aggregate's hash table: find the group among 65,536
    stream_group_row: float = 30e-9  # the same when groups come one after another
    call_row: float = 7e-9  # for each aggregate function
    object_row: float = 250e-9  # beyond that, if its state is an object that grows: a list, all values of a percentile
    counted_row: float = 190e-9  # beyond that, if it counts each value: a percentile that is not of a sorted list
    unfixed_row: float = 200e-9  # beyond that, if its state is a text or a struct
    new_group: float = 150e-9  # for each group that comes out of a hash table
    build_row: float = 200e-9  # a join's hash table
    probe_row: float = 65e-9
    unmatched_row: float = 250e-9  # beyond that, if the table must know in the end which of its rows met none
    merge_row: float = 50e-9  # a merge join, for each row of both sides
    joined_row: float = 35e-9  # each row that comes out of a join
    pair: float = 3.5e-9  # a nested-loop join, for each pair
    compare: float = 25e-9  # a sort: times rows, times log2 of the rows of a partition
    sort_row: float = 150e-9
    send_row: float = 150e-9  # an exchange: hash, serialize, write
    index_row: float = 13e-9  # beyond that, to sort rows by their partition: of pieces in one file with an index
    receive_row: float = 75e-9
    range_row: float = 80e-9  # beyond send_row: sampling and binary search
    window_row: float = 85e-9  # to collect the rows of a group
    window_call_row: float = 25e-9  # for each window function
    python_row: float = 800e-9  # into a Python worker and back

    # --- a byte at a time
    scan_byte: float = 1 / 700e6
    disk_byte: float = 1 / 500e6  # shuffle files and spills, written and read
    network_byte: float = 1 / 80e6  # a core's share, where 16 have 10 Gbit/s together
    memory_byte: float = 1 / 2e9

    # --- sizes
    partition_bytes: float = 64e6  # a partition that is neither too large to redo nor too small to start
    task_memory: float = 400e6  # what a task can hold before it spills
    broadcast_bytes: float = 512e6  # more is never copied to every task

    file_piece_bytes: float = 256e6  # that a task reads of files at most

    def file_pieces(self, bytes: float) -> int:
        """How many tasks read files of so many bytes: as many a core as it takes for none to read too much. Spark cuts no
        pieces of less than 4 MB if it need not."""
        piece = max(min(4e6, self.file_piece_bytes), bytes / self.cores / self._waves(bytes))
        return max(1, ceil(bytes / piece - ROUNDING))

    def most_of_files(self, bytes: float) -> float:
        """The most that a task may read, for Spark to cut files of so many bytes like that. It divides them by the cores
        itself, and counts something for each file."""
        waves = self._waves(bytes)
        return self.file_piece_bytes if waves == 1 else bytes / self.cores / waves

    def _waves(self, bytes: float) -> int:
        return max(1, ceil(bytes / self.cores / self.file_piece_bytes - ROUNDING))

    @property
    def few_rows(self) -> float:
        """As many rows as can be sorted, or hashed, on one core while a stage begins."""
        return self.stage / (self.sort_row + 16 * self.compare + self.build_row + self.probe_row)

    def ideal_partitions(self, rows: float, bytes: float) -> int:
        """As many as keep partitions near their ideal size: the cores, doubled until they are small enough. The steps
        are coarse on purpose, so that inputs of about one size get one number and need no exchange to meet."""
        count = max(2, self.cores)
        while bytes / count > self.partition_bytes and count < 65_536:
            count *= 2
        return count


def this_machine() -> Machine:
    """What UNSHUFFLE_MACHINE describes; without it, the usual rates on as many cores as there are here."""
    path = os.environ.get(VARIABLE)
    return machine_from(path) if path else Machine(cores=os.cpu_count() or 2)


def machine_from(path: str | Path) -> Machine:
    """The machine that a calibration file describes: a JSON object whose "machine" holds constants by name. Those that it
    does not name are the usual ones; cores that it does not name are those of this machine."""
    constants = _constants(Path(path))
    known = [each.name for each in fields(Machine)]
    for name, value in constants.items():
        if name not in known:
            hint = did_you_mean(name, known) or f"the constants are {', '.join(known)}"
            raise UserError(f"{path}: {name!r} is no constant of a machine", hint=hint)
        _check(path, name, value)
    return Machine(**{"cores": os.cpu_count() or 2, **constants})


def _constants(path: Path) -> dict[str, Any]:
    made_by = f"a calibration is what benchmarks/calibrate.py writes; {VARIABLE} may name one"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise FileProblem(f"the machine's description {str(path)!r} cannot be read: {why}", hint=made_by) from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileProblem(f"{path} is not JSON: {error}", hint=made_by) from error
    found = document.get("machine") if isinstance(document, dict) else None
    if not isinstance(found, dict):
        raise FileProblem(f'{path} has no object "machine" with the constants', hint=made_by)
    return found


def _check(path: str | Path, name: str, value: Any) -> None:
    least_count = {"cores": 1, "most_files": 0, "fan_in": 2}.get(name)
    if least_count is not None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least_count:
            raise UserError(f"{path}: {name} is {value!r}, and must be a whole number from {least_count}")
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    least = "more than 0" if name.endswith(("_bytes", "_memory")) else "0 or more"
    if not is_number or not isfinite(value) or value < 0 or (value == 0 and least == "more than 0"):
        raise UserError(f"{path}: {name} is {value!r}, and must be a number, {least}")
