"""What it costs to write the blocks of a shuffle (SIGMOD 2012, section 4).

    traditional    each task writes a file per partition: a fixed time per file
    index-based    each task sorts its rows by partition number and writes one file, with an index of where each partition
                   begins: a time per row, and little per partition

Spark has both, its bypass-merge and its sort-based writer. It uses the first up to a number of partitions
(`spark.shuffle.sort.bypassMergeThreshold`, fixed when its context starts). So the number of partitions decides which one
writes, and a plan gets the other only by another number. They cost the same at the crossover of Figure 11:

    partitions * block = partitions * index_block + rows per task * index_row

Both keep the order of rows inside a block. That is the paper's equivalence, Stable-Sort_p(Sort_x(R)) = Sort_p,x(R): the sort
by partition number is stable, so rows that were sorted before arrive in sorted runs, which makes the next sort cheaper
(`CostModel.sorting`).
"""

from __future__ import annotations

from math import inf
from typing import Literal

from unshuffle.cost.machine import Machine
from unshuffle.frozen import dataclass

ShuffleWriter = Literal["traditional", "index-based"]
SHUFFLE_WRITERS: tuple[ShuffleWriter, ...] = ("traditional", "index-based")


@dataclass(frozen=True, slots=True)
class ShuffleWrite:
    """The rows that `tasks` write into `partitions`."""

    rows: float
    tasks: int
    partitions: int

    def writer(self, machine: Machine) -> ShuffleWriter:
        """The writer that Spark uses."""
        return "traditional" if self.partitions <= machine.most_files else "index-based"

    def blocks(self, machine: Machine, writer: ShuffleWriter) -> float:
        """Seconds of one core for all blocks, whatever their size."""
        each = machine.block if writer == "traditional" else machine.index_block
        return max(1, self.tasks) * max(1, self.partitions) * each

    def sorting(self, machine: Machine, writer: ShuffleWriter) -> float:
        """Seconds of one core to sort rows by partition number."""
        return 0.0 if writer == "traditional" else self.rows * machine.index_row

    def seconds(self, machine: Machine, writer: ShuffleWriter) -> float:
        return self.blocks(machine, writer) + self.sorting(machine, writer)

    def saved_by_other(self, machine: Machine) -> float:
        """Seconds of one core that the other writer would save."""
        used = self.writer(machine)
        other: ShuffleWriter = "index-based" if used == "traditional" else "traditional"
        return self.seconds(machine, used) - self.seconds(machine, other)


def crossover(machine: Machine, rows_per_task: float) -> float:
    """The number of partitions above which the index-based writer is cheaper."""
    saved = machine.block - machine.index_block
    return rows_per_task * machine.index_row / saved if saved > 0 else inf
