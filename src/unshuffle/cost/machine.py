"""The machine that a plan is costed for.

The default constants were measured on two cores of a small virtual machine. A choice between plans depends on their ratios,
which differ far less from machine to machine than the constants themselves. `benchmarks/calibrate.py` measures them on
another machine and writes a file that `UNSHUFFLE_MACHINE` may name.
"""

from __future__ import annotations

import json
import os
from dataclasses import field, fields
from math import ceil
from pathlib import Path
from typing import Any

from unshuffle.catalog.json_files import MAX_COUNT, shown
from unshuffle.constants import COST, MachineConstants
from unshuffle.errors import FileProblem, UserError, did_you_mean
from unshuffle.frozen import dataclass

# Names a calibration file, written by `benchmarks/calibrate.py` or by hand.
VARIABLE = "UNSHUFFLE_MACHINE"


@dataclass(frozen=True, slots=True)
class Machine(MachineConstants):
    """The constants of `unshuffle.constants` for one machine, and its cores."""

    cores: int = field(default=8, kw_only=True)  # tasks that run at once

    def file_pieces(self, bytes: float) -> int:
        """The number of tasks that read files of this size: whole waves on all cores, so that none reads too much."""
        piece = max(min(COST.min_file_piece, self.file_piece_bytes), bytes / self.cores / self._waves(bytes))
        return max(1, ceil(bytes / piece - COST.piece_rounding))

    def most_of_files(self, bytes: float) -> float:
        """The `maxPartitionBytes` under which Spark cuts files of this size into `file_pieces`. Spark itself divides them by
        the cores, and adds a cost for each file."""
        waves = self._waves(bytes)
        return self.file_piece_bytes if waves == 1 else bytes / self.cores / waves

    def _waves(self, bytes: float) -> int:
        return max(1, ceil(bytes / self.cores / self.file_piece_bytes - COST.piece_rounding))

    @property
    def few_rows(self) -> float:
        """The rows that one core sorts and hashes while a stage starts. A sort of so few rows has about 16 levels."""
        return self.stage / (self.sort_row + 16 * self.compare + self.build_row + self.probe_row)

    def ideal_partitions(self, rows: float, bytes: float, user_seconds: float = 0.0) -> int:
        """The number of cores, doubled until partitions are near their ideal size, and user code, which takes this many
        seconds for all rows, does not take too long for one partition (SIGMOD 2012, section 3.3.1). The steps are coarse on
        purpose: inputs of similar size get the same number, and need no exchange to be co-partitioned."""
        count = max(2, self.cores)
        parts = max(bytes / self.partition_bytes, user_seconds / self.task_seconds)
        while parts > count and count < COST.max_partitions:
            count *= 2
        return count


def this_machine() -> Machine:
    """The machine that UNSHUFFLE_MACHINE describes; without it, the default constants and the cores of this machine."""
    path = os.environ.get(VARIABLE)
    return machine_from(path) if path else Machine(cores=os.cpu_count() or 2)


def machine_from(path: str | Path) -> Machine:
    """The machine that a calibration file describes: a JSON object whose "machine" has constants by name. The others have
    their defaults, and the default for cores is the number of this machine."""
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
        if not isinstance(value, int) or isinstance(value, bool) or not least_count <= value <= MAX_COUNT:
            raise UserError(f"{path}: {name} is {shown(value)}, and must be a whole number from {least_count}")
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    least = "more than 0" if name.endswith(("_bytes", "_memory")) else "0 or more"
    if not is_number or not 0 <= value <= MAX_COUNT or (value == 0 and least == "more than 0"):
        raise UserError(f"{path}: {name} is {shown(value)}, and must be a number, {least}")
