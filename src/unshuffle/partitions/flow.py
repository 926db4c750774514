"""What a partial repartitioning reads and how large its outputs are: the numbers a cost is made from.

An output reads whole files unless an index lets it skip, so an input that is divided among three outputs is read three
times. `read` counts that; `kept` is what passes the filters, each row once. The largest output is what a job waits for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unshuffle.partitions.connection import HashConnections, RangeConnections
from unshuffle.partitions.histograms import Histogram
from unshuffle.partitions.intervals import Cut


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows, or bytes, of each output: read from its inputs, and kept."""

    read: tuple[float, ...]
    kept: tuple[float, ...]

    @property
    def largest(self) -> float:
        return max(self.kept, default=0.0)

    @property
    def skew(self) -> float:
        """The largest output over the average one."""
        average = sum(self.kept) / len(self.kept) if self.kept else 0.0
        return self.largest / average if average else 1.0

    @property
    def again(self) -> float:
        """How often a row is read, on average: 1 where every input goes to one output."""
        return sum(self.read) / sum(self.kept) if sum(self.kept) else 1.0


def hash_flow(connections: HashConnections, rows: Sequence[float]) -> Flow:
    """A hash spreads each input evenly over the outputs it feeds."""
    if len(rows) != connections.inputs:
        raise ValueError(f"{len(rows)} sizes for {connections.inputs} inputs")
    step = connections.step
    of_class = [sum(rows[i::step]) for i in range(step)]
    fed = connections.outputs // step
    read = tuple(of_class[i % step] for i in range(connections.outputs))
    return Flow(read, tuple(size / fed for size in read))


def range_flow(connections: RangeConnections, inputs: Sequence[Histogram]) -> Flow:
    """One histogram an input; of a partition of which nothing more is known, its interval and its rows."""
    if len(inputs) != connections.inputs:
        raise ValueError(f"{len(inputs)} histograms for {connections.inputs} inputs")
    read, kept = [0.0] * connections.outputs, [0.0] * connections.outputs
    for number, histogram in enumerate(inputs):
        before = 0.0
        fed = connections.feeds(number)
        for output in fed:
            read[output] += histogram.rows
            below = histogram.rows if output == fed[-1] else _below(connections, histogram, output)
            kept[output] += max(0.0, below - before)
            before = max(before, below)
    return Flow(tuple(read), tuple(kept))


def _below(connections: RangeConnections, histogram: Histogram, output: int) -> float:
    """Rows under the upper end of an output. Of a value that the shared columns cannot divide, half."""
    boundary, shared = connections.to.boundaries[output], connections.shared
    if len(boundary) <= shared:
        return histogram.rows_below(Cut(boundary))
    value = boundary[:shared]
    return (histogram.rows_below(Cut(value)) + histogram.rows_below(Cut(value, after=True))) / 2
