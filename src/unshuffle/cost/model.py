"""The cost of a physical operator: CPU, disk, network, the largest partition, and starting tasks.

A cost is elapsed seconds. `min(partitions, cores)` tasks work at once, but no operator ends before its largest partition
does (SIGMOD 2012, section 3.3):

    elapsed(work) = work * max(1 / min(partitions, cores), share of the largest partition)

Serial, parallel and mixed plans compete by this alone: a serial plan does all work in one task, and saves the exchange and
the start of many tasks. `cost.formulas` has one function per operator.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil, inf, log2
from typing import Any

import pyarrow as pa

from unshuffle.cardinality.like_patterns import slow_patterns
from unshuffle.catalog.schema import Column, DataType
from unshuffle.constants import COST, SEARCH
from unshuffle.cost.formulas import FORMULAS
from unshuffle.cost.machine import Machine
from unshuffle.cost.shuffle_writing import SHUFFLE_WRITERS, ShuffleWrite, ShuffleWriter
from unshuffle.plan.expressions import AggregateCall, Expression, is_fixed
from unshuffle.plan.physical import Cost, PhysicalOperator, SizeEstimate
from unshuffle.properties import Sorted


class CostModel:
    """`guess_risk` is how many times more something risky costs for each guess that its rows rest on."""

    def __init__(self, machine: Machine, guess_risk: float = COST.guess_risk) -> None:
        self.machine = machine
        self._guess_risk = guess_risk
        self._slow_patterns: dict[int, tuple[Expression, int]] = {}

    # --- for the search

    def ideal_partitions(self, rows: float, bytes: float, user_seconds: float = 0.0) -> int:
        return self.machine.ideal_partitions(rows, bytes, user_seconds)

    def cost(self, operator: PhysicalOperator, inputs: Sequence[SizeEstimate], output: SizeEstimate) -> Cost:
        return FORMULAS[type(operator)](self, operator, inputs, output)

    def lower_bound(self, operator: PhysicalOperator, inputs: Sequence[SizeEstimate], output: SizeEstimate) -> float:
        """The operator costs no less under any layout of the same rows and bytes, for branch-and-bound.

        It is the operator's own formula for a machine that spreads work evenly over all cores whatever the layout
        (`_BalancedModel`), and for one partition, which is the cheapest to start and to connect. Formulas must be monotone in
        the number of partitions and in the share of the largest."""
        model = _BalancedModel(self.machine, self._guess_risk)
        return FORMULAS[type(operator)](model, operator, [_in_one(each) for each in inputs], _in_one(output)).seconds

    def fragments(self, partitions: int) -> tuple[int, ...]:
        """The numbers of fragments in which to merge partial states of this many partitions: the fewest that keep each task
        within `fan_in` connections, and as many as keep all cores busy. None if a task can read all partitions."""
        m = self.machine
        if partitions <= m.fan_in:
            return ()
        fewest = ceil(partitions / m.fan_in)
        all_cores = min(m.cores, m.fan_in, partitions // 2)
        return (fewest, all_cores) if fewest < all_cores else (fewest,)

    def has_small_partitions(self, size: SizeEstimate) -> bool:
        """Can every core have about its share of the rows, and a task hold a partition? Then smaller ones would not help.
        Ranges are hardly ever quite even."""
        largest = size.largest
        return largest * self.machine.cores <= SEARCH.even_share and size.bytes * largest <= self.machine.task_memory

    def spool_seconds(self, size: SizeEstimate) -> float:
        """Seconds to persist a rowset."""
        return self.elapsed(size.bytes * self.machine.disk_byte + size.rows * self.machine.send_row, size)

    # --- for the formulas: time

    def elapsed(self, work: float, size: SizeEstimate) -> float:
        tasks = min(size.partitions, self.machine.cores) or 1
        return work * max(1 / tasks, size.largest) * (self.risk(size) if size.partitions == 1 else 1.0)

    def risk(self, size: SizeEstimate) -> float:
        """How much more than it is estimated to cost a choice counts that would be far worse with more rows: work in one
        task, and broadcasts. So of two plans that cost about the same, the one that rests on no guess wins."""
        return self._guess_risk ** min(size.guesses, COST.most_guesses)

    def cpu(self, work: float, size: SizeEstimate) -> Cost:
        seconds = self.elapsed(work, size)
        return Cost(seconds, cpu=seconds)

    def start_stage(self, partitions: int) -> float:
        return self.machine.stage + self.start_tasks(partitions)

    def start_tasks(self, partitions: int) -> float:
        return self.machine.task * max(1.0, partitions / self.machine.cores)

    def start_broadcast(self, given: SizeEstimate) -> float:
        """Seconds to start the job of a broadcast. Jobs that wait for no other run concurrently."""
        if not given.waits:
            return self.start_stage(1) * COST.concurrent_job_start
        return self.start_stage(1) * (1.0 if given.partitions == 1 else COST.broadcast_wait)

    # --- for the formulas: exchanges and spills

    def shuffle_writer(self, write: ShuffleWrite) -> ShuffleWriter:
        return write.writer(self.machine)

    def connecting(self, connections: float, partitions: int, reading: float) -> float:
        """Seconds for the tasks of `partitions` to open `connections` blocks each, and the expected cost of failures: each
        connection may fail, and the task starts again (SIGMOD 2012, section 2.4.1). It loses half of its work on average,
        and its work is assumed to take twice as long as its reading."""
        m = self.machine
        opening = m.connection * connections * max(1.0, partitions / m.cores)
        return opening + min(1.0, m.failure * connections) * reading

    def broadcast(self, given: SizeEstimate) -> Cost:
        """Rows are collected in one place and sent to every machine."""
        m = self.machine
        cpu = self.elapsed(given.rows * m.send_row, given) + given.rows * m.receive_row * self.risk(given)
        network = 2 * given.bytes * m.network_byte * self.risk(given)
        startup = self.start_broadcast(given)
        return Cost(cpu + network + startup, cpu=cpu, network=network, startup=startup)

    def bring_together(self, build: SizeEstimate, most_bytes: float = inf) -> float:
        """Seconds to bring a serial input to the task of another serial input, which Spark does by a broadcast."""
        if build.partitions != 1 or build.copies:
            return 0.0
        return self.broadcast(build).seconds if build.bytes * self.risk(build) <= most_bytes else inf

    def spilled(self, bytes: float, size: SizeEstimate) -> float:
        """Seconds of disk for what a task cannot hold: it is written once and read once."""
        if bytes * size.largest <= self.machine.task_memory:
            return 0.0
        return self.elapsed(2 * bytes * self.machine.disk_byte, size)

    def missing(self, table: float) -> float:
        """The share of the look-ups in a hash table of this size that miss the cache, if they come in no order."""
        return max(0.0, 1.0 - self.machine.cache_bytes / table) if table > 0.0 else 0.0

    # --- for the formulas: seconds per row

    def sorting(self, keys: Sequence[Sorted], runs: float) -> float:
        """Seconds per row to sort rows that come in sorted runs; unsorted rows are runs of one row.

        Spark does not merge what it reads from a shuffle, it sorts it. But TimSort uses the runs that it finds, so the work
        grows with the logarithm of their number. A single key of fixed width is radix-sorted."""
        levels = log2(max(2.0, runs))
        if len(keys) == 1 and _can_radix_sort(keys[0].column.type):
            levels = min(levels, COST.radix_sort_levels)
        elif not all(is_fixed(key.column.type) for key in keys):
            levels *= COST.text_comparison
        return self.machine.sort_row + self.machine.compare * levels

    def updating(self, aggregates: Sequence[tuple[Column, AggregateCall]], listed: Collection[Column] = ()) -> float:
        """Seconds per row to update aggregates. Percentiles in `listed` are looked up in sorted lists."""
        objects = sum(call.keeps_object for _, call in aggregates)
        unfixed = sum(call.keeps_unfixed for _, call in aggregates)
        counted = sum(call.facts.state == "counts" and column not in listed for column, call in aggregates)
        seconds = self.machine.call_row * len(aggregates) + self.machine.counted_row * counted
        seconds += self.machine.object_row * objects + self.machine.unfixed_row * unfixed
        return seconds + self.wide_decimals([call for _, call in aggregates])

    def wide_decimals(self, expressions: Sequence[Any]) -> float:
        """Seconds per row, beyond other types, for decimals that do not fit into 64 bits."""
        wide: int = sum(isinstance(each.type, pa.Decimal128Type) and each.type.precision > 18 for each in expressions)
        return self.machine.decimal_row * wide

    def patterns(self, expression: Expression) -> float:
        """Seconds per row to match strings with the slow patterns of an expression."""
        known = self._slow_patterns.get(id(expression))
        if known is None:
            # The expression is kept with its count: an id is only good while its object is alive.
            known = self._slow_patterns[id(expression)] = (expression, slow_patterns(expression))
        return self.machine.pattern_row * known[1]


class _BalancedModel(CostModel):
    """All cores always have the same work."""

    def elapsed(self, work: float, size: SizeEstimate) -> float:
        return work / self.machine.cores

    def bring_together(self, build: SizeEstimate, most_bytes: float = inf) -> float:
        return 0.0

    def shuffle_writer(self, write: ShuffleWrite) -> ShuffleWriter:
        """The cheaper one: with another number of partitions, Spark would use the other."""
        return min(SHUFFLE_WRITERS, key=lambda writer: write.seconds(self.machine, writer))


def _can_radix_sort(type: DataType) -> bool:
    return type is not None and (pa.types.is_primitive(type) or pa.types.is_boolean(type))


def _in_one(size: SizeEstimate) -> SizeEstimate:
    return SizeEstimate(size.rows, size.bytes, 1, 0.0, size.waits)
