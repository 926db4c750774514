"""Which input partitions feed which output partitions, and which rows of them (SIGMOD 2012, sections 3.1.1 and 3.2.2).

A connection map answers for each output what it reads: a list of inputs, each whole or through a filter. A filter is
there only if the input may hold rows of other outputs, and asks no more than the input leaves open.

Hashes. Row r is in input h(r) mod n and belongs in output h(r) mod m. A number that is j modulo n and i modulo m exists
exactly if i = j modulo gcd(n, m).

    100 -> 200   gcd 100   output i reads input i mod 100, keeping h mod 200 = i       each input splits, nothing merges
    200 ->  50   gcd  50   output i reads i, i + 50, i + 100, i + 150, all whole       inputs merge, nothing is filtered
     45 ->  90   gcd  45   as 100 -> 200, which is why 90 may serve better than 100    (45 -> 100: gcd 5, 900 connections)
      7 ->  10   gcd   1   every output reads every input: a full repartitioning       `full`

Ranges. An input feeds the outputs that its interval meets. Outputs do not overlap and ascend, so those are neighbours,
found by two binary searches; inputs may be in any order, overlap, and leave gaps, as the spans of files do. A filter has
the one end that the input's own interval does not already keep.

Keys that differ. Ranges on (a, b) and on (a, c) share a. Only what cuts on a alone can tell is known of such an input: its
interval is widened to whole values of a before it is held against the outputs. With no shared column every output reads
every input.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import gcd
from typing import NamedTuple, Protocol

from unshuffle.partitions.intervals import (
    END,
    START,
    Interval,
    Order,
    Place,
    Ranges,
    widened_high,
    widened_low,
)
from unshuffle.partitions.values import SortedKey, kind


@dataclass(frozen=True, slots=True)
class Residue:
    """The rows whose hash modulo `modulus` is `remainder`."""

    modulus: int
    remainder: int

    def __str__(self) -> str:
        return f"hash mod {self.modulus} = {self.remainder}"


Filter = Interval | Residue
AT_END: Place = Order(()).place(END)
NOTHING: tuple[Place, Place] = ((), ())


class Read(NamedTuple):
    """An input partition, and which of its rows to keep; None keeps all."""

    input: int
    filter: Filter | None

    def __str__(self) -> str:
        return f"{self.input}" if self.filter is None else f"{self.input} where {self.filter}"


class Connections(Protocol):
    """What both kinds of map answer."""

    @property
    def inputs(self) -> int: ...
    @property
    def outputs(self) -> int: ...
    @property
    def total(self) -> int:
        """How many pairs of an input and an output are connected."""
        ...

    @property
    def most(self) -> int:
        """How many inputs an output reads at most."""
        ...

    @property
    def full(self) -> bool:
        """Does every output read every input, those aside that hold nothing? Then nothing is partial about it."""
        ...

    def reads(self, output: int) -> list[Read]:
        """What an output partition is made of."""
        ...

    def feeds(self, input: int) -> Sequence[int]:
        """The outputs that an input has rows for."""
        ...


# ------------------------------------------------------------------------------------------------------------- hashes


@dataclass(frozen=True, slots=True)
class HashConnections:
    """From h mod `inputs` to h mod `outputs`, the same hash of the same columns. Nothing is listed before it is asked."""

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
        """Does an output need part of an input? Not if outputs divide inputs: h mod n then tells h mod m."""
        return self.inputs % self.outputs != 0

    def reads(self, output: int) -> list[Read]:
        kept = Residue(self.outputs, output) if self.filtered else None
        return [Read(input, kept) for input in range(output % self.step, self.inputs, self.step)]

    def feeds(self, input: int) -> range:
        return range(input % self.step, self.outputs, self.step)

    def __str__(self) -> str:
        how = "full" if self.full else "partial"
        return f"{self.inputs} -> {self.outputs}: {self.total} connections, {self.most} an output, {how}"


def near_counts(inputs: int, wanted: int, slack: float = 0.5) -> list[int]:
    """Numbers of hash partitions near the wanted one that make a cheaper map (section 3.3.1: 45 partitions to about 100
    are better made 90): by how many inputs an output then reads, each better than those nearer to the wanted."""
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
    """From intervals to ranges. `runs[j]` are the outputs that input j meets, counted among those not empty."""

    to: Ranges
    shared: int  # leading columns that inputs and outputs have in common
    occupied: tuple[int, ...]  # outputs that some row can be in
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
        """How many inputs each output reads, without listing them."""
        steps = [0] * (len(self.occupied) + 1)
        for first, last in self.runs:
            steps[first] += 1
            steps[last] -= 1
        found = [0] * self.outputs
        for output, count in zip(self.occupied, accumulate(steps[:-1]), strict=True):
            found[output] = count
        return found

    def reads(self, output: int) -> list[Read]:
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
                found.append(Read(input, own if end > high else Interval(own.low, END)))
            else:
                found.append(Read(input, Interval(START, own.high) if end > high else None))
        return found

    def all_reads(self) -> list[list[Read]]:
        return [self.reads(output) for output in range(self.outputs)]

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
    inputs: Ranges | Iterable[Interval], keys: Sequence[SortedKey], outputs: Ranges, shared: int | None = None
) -> RangeConnections:
    """The map from inputs whose intervals are on `keys` to ranges on `outputs.keys`. `shared` is how many leading columns
    the two have in common; left out, the shorter key is a beginning of the longer. Shared columns must be ordered alike."""
    common = min(len(keys), len(outputs.keys)) if shared is None else shared
    if not 0 <= common <= min(len(keys), len(outputs.keys)):
        raise ValueError(f"keys of {len(keys)} and {len(outputs.keys)} columns cannot share {common}")
    if any(not _alike(a, b) for a, b in zip(keys[:common], outputs.keys[:common], strict=True)):
        raise ValueError("shared columns must be of one kind of type, and ordered alike")
    # An empty interval stays empty: widened, it would seem to hold a whole value.
    ends = tuple(
        (widened_low(low, common), widened_high(high, common)) if low < high else NOTHING
        for low, high in _places(inputs, keys)
    )
    opens, closes = ((), *outputs.places), (*outputs.places, AT_END)
    occupied = tuple(i for i in range(len(outputs)) if opens[i] < closes[i])
    # A cut on the shared columns never lies inside one of their values, so the outputs need no widening.
    starts, stops = [opens[i] for i in occupied], [closes[i] for i in occupied]
    runs = tuple([(bisect_right(stops, low), bisect_left(starts, high)) if high else (0, 0) for low, high in ends])
    return RangeConnections(outputs, common, occupied, runs, ends)


def _alike(one: SortedKey, other: SortedKey) -> bool:
    same = one.descending == other.descending and one.nulls_first == other.nulls_first
    return same and kind(one.type) == kind(other.type) is not None


def _places(inputs: Ranges | Iterable[Interval], keys: Sequence[SortedKey]) -> Iterator[tuple[Place, Place]]:
    if isinstance(inputs, Ranges):
        yield from zip(((), *inputs.places), (*inputs.places, AT_END), strict=True)
    else:
        place = Order(keys).place
        for each in inputs:
            yield place(each.low), place(each.high)
