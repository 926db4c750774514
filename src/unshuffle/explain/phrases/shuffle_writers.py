"""How an exchange writes its rows: one file per partition, or one file with an index (SIGMOD 2012, section 4)."""

from __future__ import annotations

from unshuffle.cost.machine import Machine
from unshuffle.cost.shuffle_writing import ShuffleWrite
from unshuffle.explain.phrases import numbers
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Replicated, TargetedBroadcast

SETTING = "spark.shuffle.sort.bypassMergeThreshold"
MIN_SAVING = 0.05  # a share of the exchange's time; smaller savings are not reported


def writing_of(node: PhysicalPlan) -> ShuffleWrite | None:
    """None for an exchange that writes nothing: a broadcast, or one that is read in place."""
    operator = node.operator
    if not isinstance(operator, physical.Exchange) or operator.readers is not None:
        return None
    if isinstance(getattr(operator.how, "scheme", None), Replicated):
        return None
    input_size = node.inputs[0].size
    rows = node.size.rows if isinstance(node.delivered.partitioning, TargetedBroadcast) else input_size.rows
    return ShuffleWrite(rows, input_size.partitions, node.size.partitions)


def writer_reason(writing: ShuffleWrite, machine: Machine) -> str:
    """Which writer Spark uses, and why."""
    count, limit = f"{writing.partitions:,}", f"{machine.most_files:,}"
    if writing.writer(machine) == "traditional":
        return f"one file per partition, because {count} partitions are at most {limit} ({SETTING})"
    return f"one file with an index, because {count} partitions are more than {limit} ({SETTING})"


def remedy(node: PhysicalPlan, machine: Machine) -> str | None:
    """What the other writer would save, if that is enough to report. The setting can only be changed when Spark starts."""
    writing = writing_of(node)
    if writing is None:
        return None
    saved = writing.saved_by_other(machine) / machine.cores
    if saved < MIN_SAVING * node.own.seconds:
        return None
    is_lower = writing.writer(machine) == "traditional"
    setting = f"{SETTING} {'below' if is_lower else 'of at least'} {writing.partitions:,}"
    return f"it writes {writer_reason(writing, machine)}; with {setting} it would take {numbers.seconds(saved)} less"
