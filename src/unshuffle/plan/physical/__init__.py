"""Physical operators, one file per family, and physical plans."""

from unshuffle.plan.physical.aggregate import AggregatePhase, HashAggregate, SortAggregate
from unshuffle.plan.physical.exchange import Exchange
from unshuffle.plan.physical.fallback import SparkFallback
from unshuffle.plan.physical.join import BROADCAST, DynamicPruning, HashJoin, MergeJoin, NestedLoopJoin, can_merge_join
from unshuffle.plan.physical.node import Cost, PhysicalOperator, PhysicalPlan, SizeEstimate
from unshuffle.plan.physical.registry import OPERATORS, per_operator
from unshuffle.plan.physical.rowwise import Expand, Filter, Project
from unshuffle.plan.physical.scan import FileScan, Rows, TableRead
from unshuffle.plan.physical.set_operations import Concatenate, MultisetOperation, PartitionwiseUnion
from unshuffle.plan.physical.shared import ReadSpool, Rename
from unshuffle.plan.physical.sort_limit import Limit, LocalSort, OrderBy, PartialTopN, sorted_keys
from unshuffle.plan.physical.udf import RunCombine, RunProcess, RunReduce
from unshuffle.plan.physical.window import Windows

__all__ = [
    "BROADCAST",
    "OPERATORS",
    "AggregatePhase",
    "Concatenate",
    "Cost",
    "DynamicPruning",
    "Exchange",
    "Expand",
    "FileScan",
    "Filter",
    "HashAggregate",
    "HashJoin",
    "Limit",
    "LocalSort",
    "MergeJoin",
    "MultisetOperation",
    "NestedLoopJoin",
    "OrderBy",
    "PartialTopN",
    "PartitionwiseUnion",
    "PhysicalOperator",
    "PhysicalPlan",
    "Project",
    "ReadSpool",
    "Rename",
    "Rows",
    "RunCombine",
    "RunProcess",
    "RunReduce",
    "SizeEstimate",
    "SortAggregate",
    "SparkFallback",
    "TableRead",
    "Windows",
    "can_merge_join",
    "per_operator",
    "sorted_keys",
]
