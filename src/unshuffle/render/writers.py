"""How an exchange writes what it sends: a file for each partition, or one file with an index (SIGMOD 2012, section 4)."""

from __future__ import annotations

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.cost.machine import Machine
from unshuffle.cost.shuffle_writing import Writing
from unshuffle.properties import Covering, Replicated
from unshuffle.render import numbers

SETTING = "spark.shuffle.sort.bypassMergeThreshold"
WORTH_TELLING = 0.05  # of the exchange's time


def writing_of(node: Physical) -> Writing | None:
    """None of what writes nothing: a copy, and what is read in place."""
    operator = node.operator
    if not isinstance(operator, ops.Move) or operator.readers is not None:
        return None
    if isinstance(getattr(operator.how, "scheme", None), Replicated):
        return None
    given = node.inputs[0].amount
    rows = node.amount.rows if isinstance(node.delivered.partitioning, Covering) else given.rows
    return Writing(rows, given.partitions, node.amount.partitions)


def why_so(writing: Writing, machine: Machine) -> str:
    """Which writer Spark takes, and why."""
    if writing.writer(machine) == "traditional":
        return f"a file for each partition, {writing.partitions:,} being at most {machine.most_files:,} ({SETTING})"
    return (
        f"one file with an index, {writing.partitions:,} partitions being more than {machine.most_files:,} ({SETTING})"
    )


def remedy(node: Physical, machine: Machine) -> str | None:
    """What the other writer would save, where that is worth a word. Only whoever starts the context can choose it."""
    writing = writing_of(node)
    if writing is None:
        return None
    saved = writing.saved_by_other(machine) / machine.cores
    if saved < WORTH_TELLING * node.own.seconds:
        return None
    lower = writing.writer(machine) == "traditional"
    setting = f"{SETTING} {'below' if lower else 'of at least'} {writing.partitions:,}"
    return f"it is written to {why_so(writing, machine)}; with {setting}, {numbers.seconds(saved)} less"
