"""The settings under which a plan runs as it was made.

A plan that is ours from top to bottom is not planned anew whenever a stage has ended (docs/decisions/013), and what Spark
decides by a setting is decided by what is known of the plan (docs/decisions/014). What the user has set stays as it is, but
for what the plan could not run without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from unshuffle.algebra.expressions import is_fixed
from unshuffle.algebra.operators import FileScan, HashAggregate, Move
from unshuffle.algebra.physical import Physical
from unshuffle.optimizer import Optimized
from unshuffle.spark.session import temporarily

PIECES = "spark.sql.files.maxPartitionBytes"
SMALL_TABLE = "spark.sql.codegen.aggregate.map.twolevel.enabled"

# A partial aggregate looks for a row's group in a small table first, which holds so many
# (spark.sql.codegen.aggregate.fastHashMap.capacityBit), and then in the large one.
SMALL_TABLE_GROUPS = 65_536
# Seconds that a row gains whose group is in the small table, and that one loses whose group is not. To compare texts for
# nothing takes long. Measured with 10 million rows and 1,000 to a million groups.
GAINED = 50e-9
LOST = 20e-9
LOST_BY_TEXT = 250e-9


def as_made(spark: SparkSession, optimized: Optimized) -> AbstractContextManager[None]:
    conf = spark._jsparkSession.sessionState().conf()
    # What is copied to every task may wait for more than one stage, and is waited for as long as that takes.
    settings: dict[str, str | int | bool | None] = {
        "spark.sql.adaptive.enabled": False,
        "spark.sql.broadcastTimeout": -1,
    }
    # Under a join, Spark would make the number that is set of any fewer.
    fewest = _fewest_partitions(optimized)
    if fewest is not None and fewest < int(conf.numShufflePartitions()):
        settings["spark.sql.shuffle.partitions"] = fewest
    piece = _largest_piece(optimized)
    if piece > int(conf.filesMaxPartitionBytes()) and not conf.contains(PIECES):
        settings[PIECES] = piece
    if not conf.contains(SMALL_TABLE) and not gains_by_small_table(optimized):
        settings[SMALL_TABLE] = False
    return temporarily(spark, **settings)


def most_of_files(spark: SparkSession, planned: float, is_made: bool) -> float:
    """Bytes that a task will read of files at most, if so many are planned, in a plan that runs as it is made or that does
    not."""
    conf = spark._jsparkSession.sessionState().conf()
    is_users = not is_made or conf.contains(PIECES)
    return min(planned, float(conf.filesMaxPartitionBytes())) if is_users else planned


def gains_by_small_table(optimized: Optimized) -> bool:
    """Do a plan's partial aggregates together find their groups faster if they look into a small table first?"""
    lost = 0.0
    for node in _nodes(optimized):
        match node.operator:
            case HashAggregate(phase="partial" | "combining", keys=keys) if keys:
                groups = node.amount.rows * node.amount.largest
                share = min(1.0, SMALL_TABLE_GROUPS / max(1.0, groups))
                each = LOST if all(is_fixed(key.type) for key in keys) else LOST_BY_TEXT
                lost += node.inputs[0].amount.rows * ((1.0 - share) * each - share * GAINED)
            case _:
                pass
    return lost <= 0.0


def _fewest_partitions(optimized: Optimized) -> int | None:
    """Of the exchange that has the fewest, but those that gather all rows in one place; None if there is no other."""
    moves = (node for node in _nodes(optimized) if isinstance(node.operator, Move))
    return min((node.amount.partitions for node in moves if node.amount.partitions > 1), default=None)


def _largest_piece(optimized: Optimized) -> int:
    """Bytes that a task reads of files at most: what suits the files that are the largest. Spark gives every core its share
    of smaller ones, as we do."""
    scans = (node.operator.scan for node in _nodes(optimized) if isinstance(node.operator, FileScan))
    return int(optimized.machine.most_of_files(max((scan.files.bytes or 0.0 for scan in scans), default=0.0)))


def _nodes(optimized: Optimized) -> Iterator[Physical]:
    return (node for root in optimized.roots for node in root.walk())
