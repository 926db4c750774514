"""What a query is planned for: the machine, the settings in force, and who runs the plan.

A target is resolved once, before planning, and by the same rules for `explain`, `sql`, `optimize`, `run` and `compare`, so
that what is explained is what runs. There are two kinds:

    managed      unshuffle runs the plan itself (`run`, `compare`, `stream write`): shared rowsets may be persisted, and the
                 plan runs in a session of its own (docs/decisions/015)
    DataFrame    the user runs it (`sql`, `optimize`): nothing is persisted (docs/decisions/027)

Either runs under settings that are chosen with the plan (docs/decisions/013 and 014).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from unshuffle.constants import COST
from unshuffle.cost.machine import Machine, this_machine
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import is_fixed
from unshuffle.plan.physical import Exchange, FileScan, HashAggregate, PhysicalPlan

ADAPTIVE = "spark.sql.adaptive.enabled"
BROADCAST_TIMEOUT = "spark.sql.broadcastTimeout"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
MAX_PARTITION_BYTES = "spark.sql.files.maxPartitionBytes"
TWO_LEVEL_MAP = "spark.sql.codegen.aggregate.map.twolevel.enabled"
BYPASS_MERGE_THRESHOLD = "spark.shuffle.sort.bypassMergeThreshold"

Setting = str | int | bool
Settings = Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of a Spark session that planning depends on. `set_by_user` names the ones the user set explicitly."""

    shuffle_partitions: int = 200
    max_partition_bytes: int = 128 << 20
    bypass_merge_threshold: int | None = None
    prunes_dynamically: bool = True  # folders, at run time
    set_by_user: frozenset[str] = frozenset()
    auto_broadcast_bytes: int = 10 << 20  # up to which plain Spark broadcasts an input of a join


@dataclass(frozen=True, slots=True)
class Target:
    machine: Machine = field(default_factory=this_machine)
    settings: SessionSettings = SessionSettings()
    is_managed: bool = True


def resolve(machine: Machine, cores: int, settings: SessionSettings, is_managed: bool) -> Target:
    """The target in a session with these cores and settings. How files are cut into partitions is the user's choice where
    the user set it."""
    piece = machine.file_piece_bytes
    if MAX_PARTITION_BYTES in settings.set_by_user:
        piece = min(piece, float(settings.max_partition_bytes))
    threshold = settings.bypass_merge_threshold
    most_files = machine.most_files if threshold is None else threshold
    machine = replace(machine, cores=cores, most_files=most_files, file_piece_bytes=piece)
    return Target(machine, settings, is_managed)


def local_cores(master: str) -> int | None:
    """The cores of a local master, and None for a cluster, which only Spark can ask."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master)
    if found is None:
        return None
    if found[1] is None:
        return 1
    if found[1] != "*":
        return int(found[1])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def embedded_shuffle_partitions(cores: int) -> int:
    """`spark.sql.shuffle.partitions` of the embedded session."""
    return 2 * cores


def execution_settings(roots: Iterable[PhysicalPlan], target: Target) -> dict[str, Setting]:
    """The settings that a plan runs under, beyond those of the user's session. Optional ones yield to the user's."""
    plans = [node for root in roots for node in root.walk()]
    # A broadcast may wait for more than one stage, and is waited for as long as that takes.
    chosen: dict[str, Setting] = {ADAPTIVE: False, BROADCAST_TIMEOUT: -1}
    # Under a join, Spark would raise any smaller number of partitions to this setting.
    fewest = _fewest_partitions(plans)
    if fewest is not None and fewest < target.settings.shuffle_partitions:
        chosen[SHUFFLE_PARTITIONS] = fewest
    piece = _max_partition_bytes(plans, target.machine)
    if piece > target.settings.max_partition_bytes and MAX_PARTITION_BYTES not in target.settings.set_by_user:
        chosen[MAX_PARTITION_BYTES] = piece
    if TWO_LEVEL_MAP not in target.settings.set_by_user and not gains_by_two_level_map(plans):
        chosen[TWO_LEVEL_MAP] = False
    return chosen


def gains_by_two_level_map(plans: Iterable[PhysicalPlan]) -> bool:
    """Whether the partial aggregates of a plan together gain by looking up groups in the small map first."""
    return sum(_lost_by_two_level_map(node) for node in plans) <= 0.0


def _lost_by_two_level_map(node: PhysicalPlan) -> float:
    match node.operator:
        case HashAggregate(phase="partial" | "combining", keys=keys) if keys:
            groups = node.size.rows * node.size.largest
            hits = min(1.0, COST.fast_hash_map_groups / max(1.0, groups))
            is_fixed_width = all(is_fixed(key.type) for key in keys)
            miss = COST.fast_hash_map_miss if is_fixed_width else COST.fast_hash_map_text_miss
            return node.inputs[0].size.rows * ((1.0 - hits) * miss - hits * COST.fast_hash_map_hit)
        case _:
            return 0.0


def _fewest_partitions(plans: Iterable[PhysicalPlan]) -> int | None:
    """The smallest partition count of an exchange, gathering into one partition excepted."""
    counts = (node.size.partitions for node in plans if isinstance(node.operator, Exchange))
    return min((count for count in counts if count > 1), default=None)


def _max_partition_bytes(plans: Iterable[PhysicalPlan], machine: Machine) -> int:
    """What suits the largest input. Spark divides smaller ones among the cores by itself."""
    return int(machine.most_of_files(max(_scanned_bytes(plans), default=0.0)))


def _scanned_bytes(plans: Iterable[PhysicalPlan]) -> Iterator[float]:
    return (node.operator.scan.files.bytes or 0.0 for node in plans if isinstance(node.operator, FileScan))
