"""What it costs to write the pieces of an exchange (SIGMOD 2012, section 4).

    traditional    each task writes a file for each partition: a fixed time for every file
    index-based    each task sorts its rows by the number of their partition, and writes one file with an index of where
                   each partition begins: a time for every row, and little for every partition

Spark has both, its bypass-merge and its sort-based writer, and takes the first up to so many partitions
(`spark.shuffle.sort.bypassMergeThreshold`, fixed when its context starts). So which one writes follows from the number of
partitions, and a plan reaches the other only by another number. Where the two cost the same is the crossing of Figure 11:

    partitions * block = partitions * index_block + rows of a task * index_row

Both keep the order of rows inside a piece. That is the paper's equivalence, Stable-Sort_p(Sort_x(R)) = Sort_p,x(R): the sort
by number is a stable one, so what was sorted before it arrives in sorted runs, and is merged rather than sorted anew
(`CostModel.sorting`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from unshuffle.cost.machine import Machine

Writer = Literal["traditional", "index-based"]
WRITERS: tuple[Writer, ...] = ("traditional", "index-based")


@dataclass(frozen=True, slots=True)
class Writing:
    """Of so many rows from so many tasks, into so many partitions."""

    rows: float
    tasks: int
    partitions: int

    def writer(self, machine: Machine) -> Writer:
        return "traditional" if self.partitions <= machine.most_files else "index-based"

    def pieces(self, machine: Machine, writer: Writer) -> float:
        """Seconds of one core for all pieces, whatever is in them."""
        each = machine.block if writer == "traditional" else machine.index_block
        return max(1, self.tasks) * max(1, self.partitions) * each

    def sorting(self, machine: Machine, writer: Writer) -> float:
        """Seconds of one core to sort rows by the number of their partition."""
        return 0.0 if writer == "traditional" else self.rows * machine.index_row

    def seconds(self, machine: Machine, writer: Writer) -> float:
        return self.pieces(machine, writer) + self.sorting(machine, writer)

    def saved_by_other(self, machine: Machine) -> float:
        """Seconds of one core that the writer which Spark does not take would save."""
        used = self.writer(machine)
        other: Writer = "index-based" if used == "traditional" else "traditional"
        return self.seconds(machine, used) - self.seconds(machine, other)


def crossing(machine: Machine, rows_of_a_task: float) -> float:
    """The number of partitions from which on the index-based writer is the cheaper one."""
    gained = machine.block - machine.index_block
    return rows_of_a_task * machine.index_row / gained if gained > 0 else inf
