"""The name and the facts of each physical operator, in words.

Most operators are shown by the name of their class. `Rowset` is one use of a shared rowset, computed for this use alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.explain.phrases import numbers
from unshuffle.explain.phrases.layouts import LayoutText
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.plan import physical
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import PhysicalOperator, PhysicalPlan
from unshuffle.plan.stored_reads import needed_partitions
from unshuffle.properties import (
    FullMerge,
    HashFunction,
    InitialPartitioning,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    PrefixPartitioned,
    Repartitioning,
    Replicated,
    TargetedBroadcast,
    partitions_of,
)
from unshuffle.properties.layouts.exchange import ConcatMerge, SortConcatMerge, SortMerge, Topology

JOINS = (physical.HashJoin, physical.MergeJoin, physical.NestedLoopJoin)
Facts = list[tuple[str, str]]
Description = tuple[str, Facts]


def _stored_partitions(op: physical.FileScan) -> str:
    """How many of the stored partitions are read."""
    count = partitions_of((op.scan.stored or op.layout).partitioning)
    of = f"{len(needed_partitions(op.scan)):,} of " if _skips_buckets(op.scan) else ""
    return f"{of}{count:,} stored partitions"


def _declared_cost(op: physical.RunProcess | physical.RunReduce | physical.RunCombine) -> Facts:
    return [("declares", f"{numbers.seconds(op.seconds_per_row)} a row")] if op.seconds_per_row else []


def _has_partitions(op: physical.FileScan) -> bool:
    """Whether stored partitions are read, and not the pieces that Spark assigns of all files."""
    is_in_layout = isinstance(op.layout.partitioning, Partitioned | PrefixPartitioned)
    return is_in_layout or (op.scan.stream is not None and _skips_buckets(op.scan))


def _skips_buckets(scan: Scan) -> bool:
    is_hashed = scan.parts is not None and isinstance(scan.parts.layout.function, HashFunction)
    return is_hashed and scan.needed is not None


class OperatorText:
    """Describes the operators of one plan, with its column names."""

    def __init__(self, names: ColumnNames, layouts: LayoutText) -> None:
        self._names = names
        self._layouts = layouts

    def describe(self, operator: PhysicalOperator) -> Description:
        """The name of an operator, and its facts."""
        return _DESCRIBE[type(operator)](self, operator)

    def describe_node(self, plan: PhysicalPlan) -> Description:
        """The same, with the alternative by which the operator runs, if it has several."""
        name, facts = self.describe(plan.operator)
        return name, _with_alternative(plan, facts)

    def scan(self, op: physical.FileScan) -> Description:
        columns = self._names.listed(op.columns)
        stored = _stored_partitions(op)
        read = ""
        if op.bounded_by is not None and op.scan.bounds is not None:
            count = len(op.scan.bounds.parts if op.scan.needed is None else op.scan.needed)
            by = self._names.listed((op.bounded_by,))
            read = f"{count:,} row groups in place, by the bounds of {by}, each by {op.readers:.3g} tasks"
        elif op.readers is not None:
            read = f"{stored} in place, each by {op.readers:.3g} tasks"
        elif _has_partitions(op):
            read = stored
        share = "" if op.scan.read_share is None else f"{100 * op.scan.read_share:.3g} % of the bytes"
        pruned = "; ".join(
            f"{self._names.name(each.column)} = {self._names.name(each.by)}, to {100 * each.share:.3g} % of the rows"
            for each in op.prunings
        )
        return "Scan", [
            ("", op.scan.label),
            ("columns", columns),
            ("reads", ", ".join(filter(None, (read, share)))),
            ("pruned at run time by", pruned),
        ]

    def table(self, op: physical.TableRead) -> Description:
        return "Table", [("", ".".join(op.table.name)), ("columns", self._names.listed(op.columns))]

    def values(self, op: physical.Rows) -> Description:
        return "Values", [("columns", self._names.listed(op.columns))]

    def filter(self, op: physical.Filter) -> Description:
        return "Filter", [("", self._names.expression(op.predicate))]

    def project(self, op: physical.Project) -> Description:
        return "Project", [("", self._names.assignments(op.outputs))]

    def rowset(self, op: physical.Rename) -> Description:
        return "Rowset", [("", op.name), ("computed", "for this use")]

    def expand(self, op: physical.Expand) -> Description:
        number, repeated = ("number", self._names.name(op.expand.number)), op.expand.repeated
        if repeated is not None:
            return "Expand", [("copies", str(len(op.expand.sets))), ("if", self._names.expression(repeated)), number]
        sets = ", ".join(f"({self._names.listed(columns)})" for columns in op.expand.sets)
        return "Expand", [("", sets), number]

    def aggregate(self, op: physical.HashAggregate | physical.SortAggregate) -> Description:
        name = type(op).__name__ + ("" if op.phase == "complete" else f" ({op.phase})")
        if not op.aggregates:
            return name, [("distinct", self._names.listed(op.keys))]
        how = [("percentiles", "in sorted lists")] if isinstance(op, physical.SortAggregate) and op.listed else []
        return name, [("by", self._names.listed(op.keys)), *how, ("", self._names.assignments(op.aggregates))]

    def join(self, op: physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin) -> Description:
        condition = op.join.condition
        kind = "cross" if op.kind is JoinKind.INNER and condition is None else op.kind.value
        return type(op).__name__, [
            ("", kind),
            ("on", self._names.expression(condition) if condition is not None else ""),
        ]

    def concatenate(self, op: physical.Concatenate) -> Description:
        return "UnionAll", [*_pieces(op), ("columns", self._names.listed(op.columns))]

    def partitionwise_union(self, op: physical.PartitionwiseUnion) -> Description:
        return "PartitionwiseUnion", [*_pieces(op), ("columns", self._names.listed(op.columns))]

    def multiset_operation(self, op: physical.MultisetOperation) -> Description:
        return f"{op.operation.kind.value.capitalize()}All", [("columns", self._names.listed(op.columns))]

    def order_by(self, op: physical.OrderBy) -> Description:
        return "OrderBy", [("", self._layouts.keys(op.keys))]

    def limit(self, op: physical.Limit) -> Description:
        count = "" if op.count is None else str(op.count)
        return "Limit", [("", count), ("offset", str(op.offset or "")), ("in order of", self._layouts.keys(op.keys))]

    def partial_top_n(self, op: physical.PartialTopN) -> Description:
        return "PartialTopN", [("", f"{op.count} per partition"), ("in order of", self._layouts.keys(op.keys))]

    def window(self, op: physical.Windows) -> Description:
        return "Window", [
            ("by", self._names.listed(op.by)),
            ("in order of", self._layouts.keys(op.order)),
            ("", self._names.assignments(op.calls)),
        ]

    def process(self, op: physical.RunProcess) -> Description:
        columns = self._names.listed(op.columns)
        return "Process", [("using", str(op.process.user_class)), *_declared_cost(op), ("columns", columns)]

    def reduce(self, op: physical.RunReduce) -> Description:
        return "Reduce", [
            ("on", self._names.listed(op.reduce.keys)),
            ("presort", self._layouts.keys(op.presort)),
            ("combines", f"{len(op.reduce.parts)} inputs" if op.reduce.parts else ""),
            ("using", str(op.reduce.user_class)),
            *_declared_cost(op),
        ]

    def combine(self, op: physical.RunCombine) -> Description:
        keys = self._names.pairs(op.combine.left_keys, op.combine.right_keys)
        return "Combine", [("on", keys), ("using", str(op.combine.user_class)), *_declared_cost(op)]

    def fallback(self, op: physical.SparkFallback) -> Description:
        return "SparkFallback", [("because of", op.reason), ("columns", self._names.listed(op.columns))]

    def read_spool(self, op: physical.ReadSpool) -> Description:
        return "ReadSpool", [("", op.name)]

    def sort(self, op: physical.LocalSort) -> Description:
        return "Sort", [("", self._layouts.keys(op.keys))]

    def exchange(self, op: physical.Exchange) -> Description:
        how = op.how
        if isinstance(getattr(how, "scheme", None), Replicated):
            return "Broadcast", []
        if isinstance(getattr(how, "scheme", None), TargetedBroadcast):
            return "Exchange", [("", "targeted broadcast")]
        topology = "read in place" if op.readers is not None else _TOPOLOGY[type(how)]
        if isinstance(how, PartialMerge):
            topology = f"gather {len(how.groups):,} partitions into {max(how.groups) + 1:,}"
        boundaries = "chosen at run time" if op.samples else ""
        return "Exchange", [("", topology), ("merging", self._merge(how)), ("boundaries", boundaries)]

    def _merge(self, how: Topology) -> str:
        match getattr(how, "merge", None):
            case SortMerge(keys=keys):
                return f"in order of {self._layouts.keys(keys)}"
            case ConcatMerge():
                return "one partition after another"
            case SortConcatMerge(keys=keys):
                return f"one partition after another, in order of {self._layouts.keys(keys)}"
            case _:
                return ""


# Operators that keep the distribution of their input, whatever it is. Their alternatives say nothing to a reader.
_DISTRIBUTION_PRESERVING = (
    physical.Filter,
    physical.Project,
    physical.Rename,
    physical.Expand,
    physical.OrderBy,
    physical.Limit,
    physical.PartialTopN,
)


def _pieces(op: physical.Concatenate | physical.PartitionwiseUnion) -> Facts:
    return [("", "of child joins")] if op.whole is not None else []


def _with_alternative(plan: PhysicalPlan, facts: Facts) -> Facts:
    operator, runs = plan.operator, plan.alternative
    if not runs or isinstance(operator, (*_DISTRIBUTION_PRESERVING, physical.SparkFallback)):
        return facts
    if isinstance(operator, physical.HashJoin) and "broadcast" not in runs:
        runs += f", builds {('left', 'right')[operator.build]}"
    if isinstance(operator, JOINS):
        (_, kind), *others = facts
        return [("", f"{kind}, {runs}"), *others]
    return [("", runs), *facts]


_TOPOLOGY: dict[type, str] = {
    InitialPartitioning: "split",
    FullMerge: "gather",
    PartialPartitioning: "split each partition",
    PartialMerge: "gather partitions",
    Repartitioning: "repartition",
}

_DESCRIBE: Mapping[type, Callable[[OperatorText, Any], Description]] = physical.per_operator(
    "rendering",
    {
        physical.FileScan: OperatorText.scan,
        physical.TableRead: OperatorText.table,
        physical.Rows: OperatorText.values,
        physical.Filter: OperatorText.filter,
        physical.Project: OperatorText.project,
        physical.Rename: OperatorText.rowset,
        physical.Expand: OperatorText.expand,
        physical.HashAggregate: OperatorText.aggregate,
        physical.SortAggregate: OperatorText.aggregate,
        physical.HashJoin: OperatorText.join,
        physical.MergeJoin: OperatorText.join,
        physical.NestedLoopJoin: OperatorText.join,
        physical.Concatenate: OperatorText.concatenate,
        physical.PartitionwiseUnion: OperatorText.partitionwise_union,
        physical.MultisetOperation: OperatorText.multiset_operation,
        physical.OrderBy: OperatorText.order_by,
        physical.Limit: OperatorText.limit,
        physical.PartialTopN: OperatorText.partial_top_n,
        physical.Windows: OperatorText.window,
        physical.RunProcess: OperatorText.process,
        physical.RunReduce: OperatorText.reduce,
        physical.RunCombine: OperatorText.combine,
        physical.SparkFallback: OperatorText.fallback,
        physical.ReadSpool: OperatorText.read_spool,
        physical.LocalSort: OperatorText.sort,
        physical.Exchange: OperatorText.exchange,
    },
)
