"""The list of physical operators, and the check that a table over them is complete.

| operator                            | runs                                                                            |
|-------------------------------------|---------------------------------------------------------------------------------|
| FileScan, TableRead, Rows           | the leaves                                                                      |
| Filter, Project, Expand             | the logical operators of the same name, one row at a time                       |
| HashAggregate, SortAggregate        | GroupBy, PartialGroupBy and FinalGroupBy, and the merging of partial states     |
| HashJoin, MergeJoin, NestedLoopJoin | Join                                                                            |
| Concatenate, PartitionwiseUnion     | UNION ALL of any inputs; of co-partitioned inputs, preserving the layout        |
| MultisetOperation                   | INTERSECT ALL, EXCEPT ALL                                                       |
| OrderBy, Limit, PartialTopN         | Sort (a requirement without work of its own), Limit, and the local part of one  |
| Windows                             | Window                                                                          |
| RunProcess, RunReduce, RunCombine   | user-defined operators                                                          |
| SparkFallback                       | whatever only Spark can run                                                     |
| Rename, ReadSpool                   | one use of a shared rowset: computed again, or read from its spool              |
| LocalSort, Exchange                 | the enforcers: a sort inside each partition, and an exchange                    |

Code that handles operators by type (cost, lowering, verification, rendering) keeps a table and passes it through
`per_operator`. A new operator is added to `OPERATORS`; then no such module imports before its table has the operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from unshuffle.errors import InternalError
from unshuffle.plan.physical.aggregate import HashAggregate, SortAggregate
from unshuffle.plan.physical.exchange import Exchange
from unshuffle.plan.physical.fallback import SparkFallback
from unshuffle.plan.physical.join import HashJoin, MergeJoin, NestedLoopJoin
from unshuffle.plan.physical.rowwise import Expand, Filter, Project
from unshuffle.plan.physical.scan import FileScan, Rows, TableRead
from unshuffle.plan.physical.set_operations import Concatenate, MultisetOperation, PartitionwiseUnion
from unshuffle.plan.physical.shared import ReadSpool, Rename
from unshuffle.plan.physical.sort_limit import Limit, LocalSort, OrderBy, PartialTopN
from unshuffle.plan.physical.udf import RunCombine, RunProcess, RunReduce
from unshuffle.plan.physical.window import Windows

OPERATORS: tuple[type, ...] = (
    FileScan,
    TableRead,
    Rows,
    Filter,
    Project,
    Expand,
    HashAggregate,
    SortAggregate,
    HashJoin,
    MergeJoin,
    NestedLoopJoin,
    Concatenate,
    PartitionwiseUnion,
    MultisetOperation,
    OrderBy,
    Limit,
    PartialTopN,
    Windows,
    RunProcess,
    RunReduce,
    RunCombine,
    SparkFallback,
    Rename,
    ReadSpool,
    LocalSort,
    Exchange,
)

Handler = TypeVar("Handler")


def per_operator(subject: str, table: Mapping[type, Handler]) -> Mapping[type, Handler]:
    """The table itself, if it has an entry for every physical operator and for nothing else."""
    missing = [each.__name__ for each in OPERATORS if each not in table]
    unknown = [each.__name__ for each in table if each not in OPERATORS]
    if missing:
        raise InternalError(f"the {subject} table has no entry for {', '.join(missing)}")
    if unknown:
        raise InternalError(f"the {subject} table has an entry for {', '.join(unknown)}, which is no physical operator")
    return table
