"""The cost of a physical operator: CPU, disk, network, the largest partition, and what it takes to start tasks.

A cost is elapsed seconds. Work is done by `min(partitions, cores)` tasks at once, but no operator ends before its largest
partition does (SIGMOD 2012, section 3.3):

    elapsed(work) = work * max(1 / min(partitions, cores), share of the largest partition)

Serial, parallel and mixed plans compete by this alone: a serial plan pays its whole work in a row and saves the exchange
and the start of many tasks. One function an operator, in the table at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import ceil, log2
from typing import Any

import pyarrow as pa

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall, Expression, Ref, is_fixed
from unshuffle.algebra.physical import Amount, Cost, PhysicalOperator
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.schema import Column, DataType
from unshuffle.cost.machine import Machine
from unshuffle.cost.patterns import slow_patterns
from unshuffle.cost.shuffle_writing import WRITERS, Writer, Writing
from unshuffle.properties import (
    Covering,
    FullMerge,
    InitialPartitioning,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    RangeFunction,
    Repartitioning,
    Replicated,
    Sorted,
    SortMerge,
    Within,
    asc,
)

# What another condition of a filter costs of the first.
FURTHER_CONDITION = 0.1
# How many times as much it takes to update a wide decimal in a hash table.
HASHED_DECIMAL = 3.0
# How many groups Spark keeps in a hash table in one task, if states are objects, before it sorts the rows that are left
# (spark.sql.objectHashAggregate.sortBased.fallbackThreshold).
HASHED_OBJECTS = 128
# Aggregates whose state says how often each value came.
COUNT_VALUES = frozenset(("median", "mode", "percentile", "percentile_cont", "percentile_disc"))
# What the start of a job costs that runs beside others.
BESIDE = 0.3
# And of one that waits for others, if it has several tasks: they end, a table is made of what they found, and is sent.
WAITING = 2.5
# A radix sort takes about as long as so many levels of comparisons.
RADIX_LEVELS = 5.0
# How many times as much it takes to compare rows by a text. Spark compares the first 8 bytes, which lie side by side; where
# they are the same it looks into both rows, wherever these are.
COMPARED_TEXT = 1.6

Amounts = Sequence[Amount]
Rule = Callable[["CostModel", Any, Amounts, Amount], Cost]


class CostModel:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._slow: dict[int, tuple[Expression, int]] = {}

    def ideal_partitions(self, rows: float, bytes: float) -> int:
        return self.machine.ideal_partitions(rows, bytes)

    def cost(self, operator: PhysicalOperator, inputs: Amounts, output: Amount) -> Cost:
        return _RULES[type(operator)](self, operator, inputs, output)

    def least(self, operator: PhysicalOperator, inputs: Amounts, output: Amount) -> float:
        """However the same rows and bytes are laid out, the operator costs no less: for branch-and-bound.

        It is the operator's own rule, asked on a machine that spreads work evenly over all cores whatever the layout
        (`_Even`) and of one partition, which is the least to start and to connect. Rules only have to be monotone in
        the number of partitions and in the share of the largest."""
        even = _Even(self.machine)
        return _RULES[type(operator)](even, operator, [_anyhow(each) for each in inputs], _anyhow(output)).seconds

    def fragments(self, partitions: int) -> tuple[int, ...]:
        """In how many fragments findings that lie in so many partitions may be combined before they go on: as few as keep a
        task from more connections than it should have, or as many as all cores have work with. None where they are few."""
        m = self.machine
        if partitions <= m.fan_in:
            return ()
        least = ceil(partitions / m.fan_in)
        all_cores = min(m.cores, m.fan_in, partitions // 2)
        return (least, all_cores) if least < all_cores else (least,)

    def lies_well(self, amount: Amount) -> bool:
        """Would smaller partitions make no work on these rows faster? Not if every core can have its share of them, and a
        task can hold a partition."""
        largest = amount.largest
        return largest * self.machine.cores <= 1.0 and amount.bytes * largest <= self.machine.task_memory

    def keep(self, amount: Amount) -> float:
        """Seconds to keep a rowset for those who read it later."""
        return self.elapsed(amount.bytes * self.machine.disk_byte + amount.rows * self.machine.send_row, amount)

    # --- helpers for the rules

    def writer(self, writing: Writing) -> Writer:
        return writing.writer(self.machine)

    def elapsed(self, work: float, amount: Amount) -> float:
        tasks = min(amount.partitions, self.machine.cores) or 1
        return work * max(1 / tasks, amount.largest)

    def cpu(self, work: float, amount: Amount) -> Cost:
        seconds = self.elapsed(work, amount)
        return Cost(seconds, cpu=seconds)

    def start(self, partitions: int) -> float:
        return self.machine.stage + self.waves(partitions)

    def waves(self, partitions: int) -> float:
        return self.machine.task * max(1.0, partitions / self.machine.cores)

    def connecting(self, connections: float, partitions: int, reading: float) -> float:
        """Seconds for the tasks of so many partitions to open the pieces they read, so many each, and what failures are to be
        expected to cost: the more connections, the likelier is one, and it loses what the task has done by then (SIGMOD 2012,
        section 2.4.1). That is half of its work on the average, and it is taken to work as long again on what it reads."""
        m = self.machine
        opening = m.connection * connections * max(1.0, partitions / m.cores)
        return opening + min(1.0, m.failure * connections) * reading

    def copying(self, build: Amount) -> float:
        """Seconds for Spark to bring one stream to the task of another: in a job of its own, as it copies any other rows."""
        return self.copy(build).seconds if build.partitions == 1 and not build.copies else 0.0

    def copy(self, given: Amount) -> Cost:
        """Collected in one place and sent to every machine."""
        m = self.machine
        cpu = self.elapsed(given.rows * m.send_row, given) + given.rows * m.receive_row
        network = 2 * given.bytes * m.network_byte
        startup = self.job(given)
        return Cost(cpu + network + startup, cpu=cpu, network=network, startup=startup)

    def job(self, copied: Amount) -> float:
        """Seconds to begin a job that copies rows. Jobs that wait for no other run beside each other."""
        if not copied.waits:
            return self.start(1) * BESIDE
        return self.start(1) * (1.0 if copied.partitions == 1 else WAITING)

    def sorting(self, keys: Sequence[Sorted], runs: float) -> float:
        """Seconds a row to sort what comes in so many sorted runs; a row a run if it comes in no order.

        Spark does not merge what it reads from a shuffle, it sorts it; but TimSort takes runs as it finds them, so that
        the work goes with the logarithm of their number. A single key of a fixed width is sorted by its digits."""
        levels = log2(max(2.0, runs))
        if len(keys) == 1 and _has_digits(keys[0].column.type):
            levels = min(levels, RADIX_LEVELS)
        elif not all(is_fixed(key.column.type) for key in keys):
            levels *= COMPARED_TEXT
        return self.machine.sort_row + self.machine.compare * levels

    def calls(self, aggregates: Sequence[tuple[Column, AggregateCall]], listed: Collection[Column] = ()) -> float:
        """Seconds a row to update aggregates."""
        objects = sum(call.keeps_object for _, call in aggregates)
        unfixed = sum(call.keeps_unfixed for _, call in aggregates)
        counted = sum(call.function in COUNT_VALUES and column not in listed for column, call in aggregates)
        each = self.machine.call_row * len(aggregates) + self.machine.counted_row * counted
        each += self.machine.object_row * objects + self.machine.unfixed_row * unfixed
        return each + self.decimals([call for _, call in aggregates])

    def decimals(self, made: Sequence[Any]) -> float:
        """Seconds a row beyond what other types take, for decimals that do not fit into 64 bits."""
        wide: int = sum(isinstance(each.type, pa.Decimal128Type) and each.type.precision > 18 for each in made)
        return self.machine.decimal_row * wide

    def patterns(self, expression: Expression) -> float:
        """Seconds a row to match texts with the patterns of an expression."""
        found = self._slow.get(id(expression))
        if found is None:
            # The expression is kept with its number: an id is only good while what it names is alive.
            found = self._slow[id(expression)] = (expression, slow_patterns(expression))
        return self.machine.pattern_row * found[1]

    def spilled(self, bytes: float, amount: Amount) -> float:
        """Seconds of disk for what a task cannot hold, written once and read once."""
        largest = bytes * amount.largest
        if largest <= self.machine.task_memory:
            return 0.0
        return self.elapsed(2 * bytes * self.machine.disk_byte, amount)


class _Even(CostModel):
    """The best that could be: all cores always have as much to do."""

    def elapsed(self, work: float, amount: Amount) -> float:
        return work / self.machine.cores

    def copying(self, build: Amount) -> float:
        return 0.0

    def writer(self, writing: Writing) -> Writer:
        """With another number of partitions Spark would take the other."""
        return min(WRITERS, key=lambda writer: writing.seconds(self.machine, writer))


def _has_digits(type: DataType) -> bool:
    return type is not None and (pa.types.is_primitive(type) or pa.types.is_boolean(type))


def _anyhow(amount: Amount) -> Amount:
    return Amount(amount.rows, amount.bytes, 1, 0.0, amount.waits)


def _scan(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    readers = getattr(op, "readers", None)
    # Of stored partitions that others read as well, a task looks at each row to see whether it is its own. And of those
    # that Spark is told how they lie, it takes one row after another.
    again, more = (1.0, 0.0) if readers is None else (max(1.0, readers), m.filter_row)
    if isinstance(op, ops.FileScan):
        again *= op.scan.share
        more += m.stored_row if isinstance(op.layout.partitioning, Partitioned | Within) else 0.0
    cpu = model.elapsed(output.rows * again * (m.scan_row + more), output)
    disk = model.elapsed(output.bytes * again * m.scan_byte, output)
    startup = model.waves(output.partitions)  # the stage that it is in begins for the sake of an exchange
    return Cost(cpu + disk + startup, cpu=cpu, disk=disk, startup=startup)


def _rows(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    return model.cpu(output.rows * model.machine.filter_row, output)


def _select(model: CostModel, op: ops.Select, inputs: Amounts, output: Amount) -> Cost:
    # Most rows that fail do so at the first condition, and to look at a row at all costs more than to compare.
    further = FURTHER_CONDITION * (len(conjuncts(op.predicate)) - 1)
    each = model.machine.filter_row * (1.0 + max(0.0, further)) + model.patterns(op.predicate)
    return model.cpu(inputs[0].rows * each, inputs[0])


def _compute(model: CostModel, op: ops.Compute, inputs: Amounts, output: Amount) -> Cost:
    made = [expression for _, expression in op.outputs if not isinstance(expression, Ref)]
    each = model.machine.compute_row * len(made) + model.decimals(made) + sum(map(model.patterns, made))
    return model.cpu(output.rows * each, output)


def _nothing(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    return Cost()


def _enlarge(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    return model.cpu(output.rows * model.machine.compute_row, output)


# A hash table of more bytes than this does not stay near the processor, and is further away with every doubling. Measured
# with a million groups: a row takes 220 ns to find its own by a number, and 460 ns by a text of 32 characters.
NEAR = 4e6
FURTHER = 0.27
LINE = 64.0  # bytes that come from memory at a time
GROUP_BYTES = 32.0  # that the table takes beside keys and states


def _distance(output: Amount, share: float) -> float:
    """How far the groups of a core that has this share of them are to find, 2 ** 16 small ones being 1."""
    groups = output.rows * share
    width = min(4.0 * LINE, output.bytes / output.rows + GROUP_BYTES) if output.rows > 0.0 else GROUP_BYTES
    steps = max(0.0, log2(max(1.0, groups * width) / NEAR))
    return log2(1.0 + groups) / 16 + FURTHER * steps * width / LINE


def _hash_aggregate(model: CostModel, op: ops.HashAggregate, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    found = m.hash_group_row * _distance(output, max(inputs[0].largest, 1.0 / m.cores))
    # The table keeps a wide decimal as bytes: it is made anew for every row.
    again = (HASHED_DECIMAL - 1.0) * model.decimals([call for _, call in op.aggregates])
    kept = output.bytes
    if op.keys and any(call.keeps_object for _, call in op.aggregates):
        kept = inputs[0].bytes  # lists and the like hold what they were made of
        if output.rows * inputs[0].largest > HASHED_OBJECTS:
            found += model.sorting([asc(key) for key in op.keys], inputs[0].rows * inputs[0].largest)
    work = inputs[0].rows * (found + model.calls(op.aggregates) + again) + output.rows * m.new_group
    cpu = model.elapsed(work, inputs[0])
    disk = model.spilled(kept, inputs[0])
    return Cost(cpu + disk, cpu=cpu, disk=disk)


def _stream_aggregate(model: CostModel, op: ops.StreamAggregate, inputs: Amounts, output: Amount) -> Cost:
    each = model.machine.stream_group_row + model.calls(op.aggregates, op.listed)
    return model.cpu(inputs[0].rows * each, inputs[0])


def _hash_join(model: CostModel, op: ops.HashJoin, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    build, probe = inputs[op.build], inputs[1 - op.build]
    # A copied input is built once on every machine, by one task; a partitioned one in all partitions at once.
    # Its bytes are written, and then read in no order.
    filling = build.rows * m.build_row + 2.0 * build.bytes * m.memory_byte
    building = filling if build.copies else model.elapsed(filling, build)
    looked_up = m.probe_row + (0.0 if op.keeps_order else m.unmatched_row)
    probing = model.elapsed(probe.rows * looked_up + output.rows * m.joined_row, probe)
    disk = 0.0 if build.copies else 4 * model.spilled(build.bytes, build)
    startup = model.copying(build)
    return Cost(building + probing + disk + startup, cpu=building + probing, disk=disk, startup=startup)


def _merge_join(model: CostModel, op: ops.MergeJoin, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    # Each input is as skewed as it is: a small one that lies in one place does not slow down the large one beside it.
    seconds = sum(model.elapsed(each.rows * m.merge_row, each) for each in inputs)
    seconds += model.elapsed(output.rows * m.joined_row, output)
    # Of two streams Spark sends each on where it takes them to be large, as it does any result of a join.
    startup = sum(map(model.copying, inputs))
    return Cost(seconds + startup, cpu=seconds, startup=startup)


def _loop_join(model: CostModel, op: ops.LoopJoin, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    outer = inputs[1 - op.inner]
    work = inputs[0].rows * inputs[1].rows * m.pair + output.rows * m.joined_row
    return model.cpu(work, outer)


def _first_rows(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    return model.cpu(min(inputs[0].rows, output.rows) * model.machine.filter_row, output)


def _partial_first_rows(model: CostModel, op: ops.PartialFirstRows, inputs: Amounts, output: Amount) -> Cost:
    """A heap: most rows are compared once and dropped."""
    if not op.keys:
        return _first_rows(model, op, inputs, output)
    rows, m = inputs[0].rows, model.machine
    return model.cpu(rows * m.compare * 2 + output.rows * m.compare * log2(max(2.0, op.count)), inputs[0])


def _windows(model: CostModel, op: ops.Windows, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    return model.cpu(inputs[0].rows * (m.window_row + m.window_call_row * len(op.calls)), inputs[0])


def _python(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    seconds = sum(model.elapsed(each.rows * model.machine.python_row, each) for each in (*inputs, output))
    return Cost(seconds, cpu=seconds)


def _multiset(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    seconds = sum(model.elapsed(each.rows * model.machine.hash_group_row, each) for each in inputs)
    return Cost(seconds, cpu=seconds)


def _as_written(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    """Nobody knows: as much as an exchange and an aggregate of everything that goes in."""
    m = model.machine
    rows = sum(each.rows for each in inputs) + output.rows
    bytes_ = sum(each.bytes for each in inputs)
    work = rows * (m.send_row + m.receive_row + m.hash_group_row) + bytes_ * (m.disk_byte + m.network_byte)
    seconds = work / m.cores + model.start(output.partitions)
    return Cost(seconds, cpu=seconds)


def _read_spool(model: CostModel, op: Any, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    disk = model.elapsed(output.bytes * m.memory_byte + output.rows * m.filter_row, output)
    startup = model.start(output.partitions)
    return Cost(disk + startup, disk=disk, startup=startup)


def _local_sort(model: CostModel, op: ops.LocalSort, inputs: Amounts, output: Amount) -> Cost:
    cpu = model.elapsed(output.rows * model.sorting(op.keys, output.rows * output.largest), output)
    disk = model.spilled(output.bytes, output)
    return Cost(cpu + disk, cpu=cpu, disk=disk)


def _move(model: CostModel, op: ops.Move, inputs: Amounts, output: Amount) -> Cost:
    m = model.machine
    given = inputs[0]
    match op.how:
        case Repartitioning(scheme=Replicated()):
            return _broadcast(model, given)
        case PartialPartitioning():
            return _read_in_place(model, 1.0, op, given, output)
        case Repartitioning() if op.readers is not None:
            return _read_in_place(model, op.readers, op, given, output)
        case _:
            pass
    scheme = op.how.scheme if isinstance(op.how, Repartitioning | InitialPartitioning) else None
    if isinstance(scheme, Covering):
        return _copy_to_some(model, given, output)
    ranged = isinstance(scheme, Partitioned) and isinstance(scheme.function, RangeFunction)
    sending = given.rows * (m.send_row + (m.range_row if ranged else 0.0))
    receiving = given.rows * m.receive_row
    merge = op.how.merge if isinstance(op.how, Repartitioning | FullMerge | PartialMerge) else None
    if isinstance(merge, SortMerge):
        receiving += given.rows * model.sorting(merge.keys, given.partitions)
    # Of partitions that go whole to one place or another, a task writes one piece, and is read from once.
    is_whole = isinstance(op.how, PartialMerge)
    writing = Writing(given.rows, given.partitions, 1 if is_whole else output.partitions)
    connections = max(1.0, given.partitions / max(1, output.partitions) if is_whole else given.partitions)
    writer = model.writer(writing)
    reading = model.elapsed(receiving, output)
    cpu = model.elapsed(sending + writing.sorting(m, writer), given) + reading
    disk = model.elapsed(given.bytes * m.disk_byte, given)
    network = model.elapsed(given.bytes * m.network_byte, output)
    startup = model.start(output.partitions) + writing.pieces(m, writer) / m.cores
    startup += model.connecting(connections, output.partitions, reading + network)
    return Cost(cpu + disk + network + startup, cpu=cpu, disk=disk, network=network, startup=startup)


def _copy_to_some(model: CostModel, given: Amount, output: Amount) -> Cost:
    """An exchange of rows that are repeated first, for each partition that they go to. Of those the first and the last are
    looked for."""
    m = model.machine
    writing = Writing(output.rows, given.partitions, output.partitions)
    writer = model.writer(writing)
    sending = given.rows * 2 * m.range_row + output.rows * (m.compute_row + m.send_row)
    cpu = model.elapsed(sending + writing.sorting(m, writer), given) + model.elapsed(
        output.rows * m.receive_row, output
    )
    disk = model.elapsed(output.bytes * m.disk_byte, given)
    network = model.elapsed(output.bytes * m.network_byte, output)
    startup = model.start(output.partitions) + writing.pieces(m, writer) / m.cores
    return Cost(cpu + disk + network + startup, cpu=cpu, disk=disk, network=network, startup=startup)


def _read_in_place(model: CostModel, readers: float, op: ops.Move, given: Amount, output: Amount) -> Cost:
    """Partitions are read by the tasks that need them, where they lie: each row is looked at by every reader, but
    nothing is written or sent."""
    m = model.machine
    work = given.rows * m.receive_row * max(1.0, readers)
    merge = op.how.merge if isinstance(op.how, Repartitioning) else None
    if isinstance(merge, SortMerge):
        work += given.rows * model.sorting(merge.keys, given.partitions)
    cpu = model.elapsed(work, output)
    startup = model.waves(output.partitions)  # its tasks are those of the stage that it is in
    return Cost(cpu + startup, cpu=cpu, startup=startup)


def _broadcast(model: CostModel, given: Amount) -> Cost:
    return Cost(float("inf")) if given.bytes > model.machine.broadcast_bytes else model.copy(given)


_RULES: dict[type, Rule] = {
    ops.FileScan: _scan,
    ops.TableRead: _scan,
    ops.Rows: _rows,
    ops.Select: _select,
    ops.Compute: _compute,
    ops.Rename: _nothing,
    ops.Enlarge: _enlarge,
    ops.HashAggregate: _hash_aggregate,
    ops.StreamAggregate: _stream_aggregate,
    ops.HashJoin: _hash_join,
    ops.MergeJoin: _merge_join,
    ops.LoopJoin: _loop_join,
    ops.Concatenate: _nothing,
    ops.ConcatenatePartitions: _nothing,
    ops.MultisetOperation: _multiset,
    ops.InOrder: _nothing,
    ops.FirstRows: _first_rows,
    ops.PartialFirstRows: _partial_first_rows,
    ops.Windows: _windows,
    ops.RunProcess: _python,
    ops.RunReduce: _python,
    ops.RunCombine: _python,
    ops.AsWritten: _as_written,
    ops.ReadSpool: _read_spool,
    ops.LocalSort: _local_sort,
    ops.Move: _move,
}
