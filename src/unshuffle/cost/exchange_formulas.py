"""What exchanges cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unshuffle.cost.shuffle_writing import ShuffleWrite
from unshuffle.plan import physical
from unshuffle.plan.physical import Cost, SizeEstimate
from unshuffle.properties import (
    FullMerge,
    InitialPartitioning,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    RangeFunction,
    Repartitioning,
    Replicated,
    SortMerge,
    TargetedBroadcast,
)

if TYPE_CHECKING:
    from unshuffle.cost.model import CostModel


def exchange(model: CostModel, op: physical.Exchange, inputs: Sequence[SizeEstimate], output: SizeEstimate) -> Cost:
    given = inputs[0]
    match op.how:
        case Repartitioning(scheme=Replicated()):
            return _broadcast(model, given)
        case PartialPartitioning():
            return _read_in_place(model, 1.0, op, given, output)
        case Repartitioning() if op.readers is not None:
            return _read_in_place(model, op.readers, op, given, output)
        case Repartitioning(scheme=TargetedBroadcast()) | InitialPartitioning(scheme=TargetedBroadcast()):
            return _targeted_broadcast(model, given, output)
        case _:
            return _shuffle(model, op, given, output)


def _broadcast(model: CostModel, given: SizeEstimate) -> Cost:
    if given.bytes * model.risk(given) > model.machine.broadcast_bytes:
        return Cost(float("inf"))
    return model.broadcast(given)


def _shuffle(model: CostModel, op: physical.Exchange, given: SizeEstimate, output: SizeEstimate) -> Cost:
    m = model.machine
    scheme = op.how.scheme if isinstance(op.how, Repartitioning | InitialPartitioning) else None
    is_ranged = isinstance(scheme, Partitioned) and isinstance(scheme.function, RangeFunction)
    sending = given.rows * (m.send_row + (m.range_row if is_ranged else 0.0))
    receiving = given.rows * m.receive_row
    merge = op.how.merge if isinstance(op.how, Repartitioning | FullMerge | PartialMerge) else None
    if isinstance(merge, SortMerge):
        receiving += given.rows * model.sorting(merge.keys, given.partitions)
    # Partitions that are gathered whole are one block each, and are read once.
    is_whole = isinstance(op.how, PartialMerge)
    write = ShuffleWrite(given.rows, given.partitions, 1 if is_whole else output.partitions)
    connections = max(1.0, given.partitions / max(1, output.partitions) if is_whole else given.partitions)
    writer = model.shuffle_writer(write)
    reading = model.elapsed(receiving, output)
    cpu = model.elapsed(sending + write.sorting(m, writer), given) + reading
    disk = model.elapsed(given.bytes * m.disk_byte, given)
    network = model.elapsed(given.bytes * m.network_byte, output)
    startup = model.start_stage(output.partitions) + write.blocks(m, writer) / m.cores
    startup += model.connecting(connections, output.partitions, reading + network)
    return Cost(cpu + disk + network + startup, cpu=cpu, disk=disk, network=network, startup=startup)


def _targeted_broadcast(model: CostModel, given: SizeEstimate, output: SizeEstimate) -> Cost:
    """A shuffle of rows that are first copied, once for each partition they go to. The first and the last of these are found
    by binary search."""
    m = model.machine
    write = ShuffleWrite(output.rows, given.partitions, output.partitions)
    writer = model.shuffle_writer(write)
    sending = given.rows * 2 * m.range_row + output.rows * (m.compute_row + m.send_row)
    cpu = model.elapsed(sending + write.sorting(m, writer), given)
    cpu += model.elapsed(output.rows * m.receive_row, output)
    disk = model.elapsed(output.bytes * m.disk_byte, given)
    network = model.elapsed(output.bytes * m.network_byte, output)
    startup = model.start_stage(output.partitions) + write.blocks(m, writer) / m.cores
    return Cost(cpu + disk + network + startup, cpu=cpu, disk=disk, network=network, startup=startup)


def _read_in_place(
    model: CostModel, readers: float, op: physical.Exchange, given: SizeEstimate, output: SizeEstimate
) -> Cost:
    """Tasks read the partitions they need in place: every reader looks at each row, but nothing is written or sent."""
    m = model.machine
    work = given.rows * m.receive_row * max(1.0, readers)
    merge = op.how.merge if isinstance(op.how, Repartitioning) else None
    if isinstance(merge, SortMerge):
        work += given.rows * model.sorting(merge.keys, given.partitions)
    cpu = model.elapsed(work, output)
    startup = model.start_tasks(output.partitions)  # in the stage of the exchange's consumer
    return Cost(cpu + startup, cpu=cpu, startup=startup)
