"""Which input partitions feed which output partitions, and which rows of them (SIGMOD 2012, sections 3.1.1 and 3.2.2).

A connection map lists the inputs that each output reads, each whole or through a filter. There is a filter only if the input
may have rows of other outputs, and the filter tests no more than necessary.

Hashes. Row r is in input h(r) mod n and belongs to output h(r) mod m. A number that is j modulo n and i modulo m exists if
and only if i = j modulo gcd(n, m).

    100 -> 200   gcd 100   output i reads input i mod 100, keeping h mod 200 = i       each input is split, none merged
    200 ->  50   gcd  50   output i reads i, i + 50, i + 100, i + 150, all whole       inputs are merged, none filtered
     45 ->  90   gcd  45   as 100 -> 200, so 90 may be better than 100                  (45 -> 100: gcd 5, 900 connections)
      7 ->  10   gcd   1   every output reads every input: a full repartitioning       `full`

Ranges. An input feeds the outputs that its interval overlaps. Outputs ascend and are disjoint, so these are neighbours, which
are found as in the partition index. Inputs may be in any order, overlap and leave gaps, as files do. A filter has only the
end that the interval of the input does not already imply.

Different keys. Ranges on (a, b) and on (a, c) share a. The interval of such an input is widened to whole values of a before
it is compared with the outputs. If no column is shared, every output reads every input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import accumulate
from math import gcd
from typing import NamedTuple

from unshuffle.frozen import dataclass
from unshuffle.partitions.intervals import END, START, KeyInterval, KeyOrder, Place, Ranges, widened_high, widened_low
from unshuffle.partitions.partition_index import neighbours
from unshuffle.partitions.values import SortedKey, kind


@dataclass(frozen=True, slots=True)
class Residue:
    """The rows whose hash modulo `modulus` is `remainder`."""

    modulus: int
    remainder: int

    def __str__(self) -> str:
        return f"hash mod {self.modulus} = {self.remainder}"


RowFilter = KeyInterval | Residue
AT_END: Place = KeyOrder(()).place(END)
NOTHING: tuple[Place, Place] = ((), ())


class PartitionRead(NamedTuple):
    """An input partition and the filter on its rows; None reads all of them."""

    input: int
    filter: RowFilter | None

    def __str__(self) -> str:
        return f"{self.input}" if self.filter is None else f"{self.input} where {self.filter}"


# ------------------------------------------------------------------------------------------------------------- hashes


@dataclass(frozen=True, slots=True)
class HashConnections:
    """The map from h mod `inputs` to h mod `outputs`, for the same hash of the same columns."""

    inputs: int
    outputs: int

    def __post_init__(self) -> None:
        if self.inputs < 1 or self.outputs < 1:
            raise ValueError("a hash needs at least one partition")

    @property
    def step(self) -> int:
        return gcd(self.inputs, self.outputs)

    @property
    def most(self) -> int:
        return self.inputs // self.step

    @property
    def total(self) -> int:
        return self.most * self.outputs

    @property
    def full(self) -> bool:
        return self.step == 1

    @property
    def filtered(self) -> bool:
        """Whether outputs read parts of inputs. They read whole ones if m divides n: h mod n then determines h mod m."""
        return self.inputs % self.outputs != 0

    def reads(self, output: int) -> list[PartitionRead]:
        kept = Residue(self.outputs, output) if self.filtered else None
        return [PartitionRead(input, kept) for input in range(output % self.step, self.inputs, self.step)]

    def feeds(self, input: int) -> range:
        return range(input % self.step, self.outputs, self.step)

    def __str__(self) -> str:
        how = "full" if self.full else "partial"
        return f"{self.inputs} -> {self.outputs}: {self.total} connections, {self.most} an output, {how}"


def cheaper_partition_counts(inputs: int, wanted: int, slack: float = 0.5) -> list[int]:
    """Partition counts near the wanted one that make a cheaper map (section 3.3.1: from 45 partitions, 90 may be better than
    100). Each makes outputs read fewer inputs than all counts that are nearer to the wanted one."""
    low, high = max(1, round(wanted / (1 + slack))), round(wanted * (1 + slack))
    nearest = sorted(range(low, high + 1), key=lambda count: (abs(count - wanted), -count))
    best, kept = inputs // gcd(inputs, wanted) + 1, []
    for count in nearest:
        if (reads := inputs // gcd(inputs, count)) < best:
            best = reads
            kept.append(count)
    return kept


# ------------------------------------------------------------------------------------------------------------- ranges


@dataclass(frozen=True, slots=True)
class RangeConnections:
    """The map from intervals to ranges. `runs[j]` are the outputs that input j overlaps, as positions in `occupied`."""

    to: Ranges
    shared: int  # leading columns that inputs and outputs have in common
    occupied: tuple[int, ...]  # outputs that can have rows
    runs: tuple[tuple[int, int], ...]
    _ends: tuple[tuple[Place, Place], ...] = field(repr=False)  # of each input, widened
    _by_output: dict[int, list[int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def inputs(self) -> int:
        return len(self.runs)

    @property
    def outputs(self) -> int:
        return len(self.to)

    @property
    def total(self) -> int:
        return sum(last - first for first, last in self.runs)

    @property
    def most(self) -> int:
        return max(self.counts(), default=0)

    @property
    def full(self) -> bool:
        return all(last - first == len(self.occupied) for first, last in self.runs if first < last)

    def counts(self) -> list[int]:
        """How many inputs each output reads, without enumerating them."""
        steps = [0] * (len(self.occupied) + 1)
        for first, last in self.runs:
            steps[first] += 1
            steps[last] -= 1
        found = [0] * self.outputs
        for output, count in zip(self.occupied, accumulate(steps[:-1]), strict=True):
            found[output] = count
        return found

    def reads(self, output: int) -> list[PartitionRead]:
        if not self._by_output:
            self._by_output.update(_turned(self.runs, self.occupied))
        if output not in self._by_output:
            return []
        places, own = self.to.places, self.to.interval(output)
        low = places[output - 1] if output else ()
        high = places[output] if output < len(places) else AT_END
        found = []
        for input in self._by_output[output]:
            start, end = self._ends[input]
            if start < low:
                found.append(PartitionRead(input, own if end > high else KeyInterval(own.low, END)))
            else:
                found.append(PartitionRead(input, KeyInterval(START, own.high) if end > high else None))
        return found

    def feeds(self, input: int) -> Sequence[int]:
        first, last = self.runs[input]
        return self.occupied[first:last]

    def __str__(self) -> str:
        how = "full" if self.full else "partial"
        return f"{self.inputs} -> {self.outputs}: {self.total} connections, at most {self.most} an output, {how}"


def _turned(runs: Sequence[tuple[int, int]], occupied: Sequence[int]) -> dict[int, list[int]]:
    """The inputs of each output, from the outputs of each input."""
    found: list[list[int]] = [[] for _ in occupied]
    for input, (first, last) in enumerate(runs):
        for at in range(first, last):
            found[at].append(input)
    return dict(zip(occupied, found, strict=True))


def connect(
    inputs: Ranges | Iterable[KeyInterval], keys: Sequence[SortedKey], outputs: Ranges, shared: int | None = None
) -> RangeConnections:
    """The map from inputs with intervals on `keys` to ranges on `outputs.keys`. `shared` is the number of leading columns
    that the two have in common; by default one key is a prefix of the other. Shared columns must have the same order."""
    common = min(len(keys), len(outputs.keys)) if shared is None else shared
    if not 0 <= common <= min(len(keys), len(outputs.keys)):
        raise ValueError(f"keys of {len(keys)} and {len(outputs.keys)} columns cannot share {common}")
    if any(not are_alike(a, b) for a, b in zip(keys[:common], outputs.keys[:common], strict=True)):
        raise ValueError("shared columns must have comparable types and the same order")
    # An empty interval stays empty: widened, it would contain a whole value.
    ends = tuple(
        (widened_low(low, common), widened_high(high, common)) if low < high else NOTHING
        for low, high in _places(inputs, keys)
    )
    opens, closes = ((), *outputs.places), (*outputs.places, AT_END)
    occupied = tuple(i for i in range(len(outputs)) if opens[i] < closes[i])
    # A cut on the shared columns is never inside one of their values, so the outputs need no widening.
    starts, stops = [opens[i] for i in occupied], [closes[i] for i in occupied]
    runs = tuple([neighbours(starts, stops, low, high) if high else (0, 0) for low, high in ends])
    return RangeConnections(outputs, common, occupied, runs, ends)


def are_alike(one: SortedKey, other: SortedKey) -> bool:
    """Whether two keys have comparable types and the same order."""
    same = one.descending == other.descending and one.nulls_first == other.nulls_first
    return same and kind(one.type) == kind(other.type) is not None


def _places(inputs: Ranges | Iterable[KeyInterval], keys: Sequence[SortedKey]) -> Iterator[tuple[Place, Place]]:
    if isinstance(inputs, Ranges):
        yield from zip(((), *inputs.places), (*inputs.places, AT_END), strict=True)
    else:
        place = KeyOrder(keys).place
        for each in inputs:
            yield place(each.low), place(each.high)
