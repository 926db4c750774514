"""An optimized script as a tree of nodes: which operator runs where, what it computes, and how its rows lie.

Operators are named for what a reader knows them by. Two of them do no work and read so: `OrderBy` asks for an order that is
there by then, and `Rowset` is one use of a shared rowset that is computed for this use alone. A rowset that is computed once
is a tree of its own, `Spool`, after the outputs; so is a subquery that stands alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unshuffle.algebra import operators as ops
from unshuffle.algebra.logical import Plan
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.catalog.joins import JoinKind
from unshuffle.optimizer import Optimized, Spool
from unshuffle.properties import (
    Covering,
    FullMerge,
    InitialPartitioning,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    Repartitioning,
    Replicated,
    Within,
    partitions_of,
)
from unshuffle.properties.exchange import ConcatMerge, Exchange, SortConcatMerge, SortMerge
from unshuffle.render.layouts import Layouts
from unshuffle.render.names import Names
from unshuffle.render.node import Flow, Node
from unshuffle.render.tree import target_facts

Facts = list[tuple[str, str]]
Described = tuple[str, Facts]


def physical_tree(optimized: Optimized, renumbered: bool = False) -> tuple[Node, ...]:
    """One node an output, then one a spool and one a subquery."""
    return Drawing(optimized, renumbered).roots()


class Drawing:
    """Draws the operators of one optimized script, with its names."""

    def __init__(self, optimized: Optimized, renumbered: bool = False) -> None:
        self.optimized = optimized
        columns = (column for root in optimized.roots for node in root.walk() for column in node.columns)
        self._subqueries = {asked.columns: number for number, (asked, _) in enumerate(optimized.subqueries, 1)}
        self.names = Names(columns, self._subquery, renumbered)
        self.words = Layouts(self.names)

    def roots(self) -> tuple[Node, ...]:
        optimized = self.optimized
        return (
            *(
                Node("Output", target_facts(output, self.names), plan.columns, None, (self.node(plan),))
                for output, plan in optimized.outputs
            ),
            *(self._spool(spool) for spool in optimized.spools),
            *(
                Node("Subquery", (("", str(number)),), plan.columns, None, (self.node(plan),))
                for number, (_, plan) in enumerate(optimized.subqueries, 1)
            ),
        )

    def _spool(self, spool: Spool) -> Node:
        facts = [("", spool.name), ("read", f"{spool.uses} times")]
        if not spool.kept:
            facts.append(("", "from one exchange"))
        return Node("Spool", tuple(facts), spool.plan.columns, None, (self.node(spool.plan),), shared_as=spool.name)

    def node(self, plan: Physical) -> Node:
        operator, facts = self.described(plan.operator)
        facts = _with_way(plan, facts)
        refers_to = plan.operator.name if isinstance(plan.operator, ops.ReadSpool) else None
        children = tuple(map(self.node, plan.inputs))
        shown = tuple((name, value) for name, value in facts if value)
        return Node(operator, shown, plan.columns, None, children, None, refers_to, self._flow(plan))

    def _flow(self, plan: Physical) -> Flow:
        layout = self.words.layout(plan.delivered)
        before = self.words.layout(plan.inputs[0].delivered) if len(plan.inputs) == 1 else None
        amount = plan.amount
        return Flow(
            plan.alternative,
            layout,
            layout != before,
            amount.rows,
            amount.bytes,
            amount.partitions,
            plan.own.seconds,
            plan.cost,
        )

    def _subquery(self, plan: Plan) -> str:
        number = self._subqueries.get(plan.columns)
        return f"subquery {number}" if number is not None else "subquery"

    def described(self, operator: PhysicalOperator) -> Described:
        """An operator's name and what it computes with."""
        describe = _DESCRIBE.get(type(operator))
        if describe is None:
            return type(operator).__name__, [("columns", self.names.listed(operator.columns))]
        return describe(self, operator)

    # --- the operators

    def scan(self, op: ops.FileScan) -> Described:
        columns = self.names.listed(op.columns)
        stored = partitions_of(op.scan.stored.partitioning) if op.scan.stored is not None else None
        read = ""
        if op.readers is not None:
            read = f"{stored:,} stored partitions in place, each by {op.readers:.3g} tasks"
        elif isinstance(op.layout.partitioning, Partitioned | Within):
            read = f"{stored or partitions_of(op.layout.partitioning):,} stored partitions as they lie"
        share = "" if op.scan.within is None else f"{100 * op.scan.share:.3g} % of the bytes"
        return "Scan", [("", op.scan.label), ("columns", columns), ("reads", ", ".join(filter(None, (read, share))))]

    def table(self, op: ops.TableRead) -> Described:
        return "Table", [("", ".".join(op.table.name)), ("columns", self.names.listed(op.columns))]

    def values(self, op: ops.Rows) -> Described:
        return "Values", [("columns", self.names.listed(op.columns))]

    def filter(self, op: ops.Select) -> Described:
        return "Filter", [("", self.names.text(op.predicate))]

    def project(self, op: ops.Compute) -> Described:
        return "Project", [("", self.names.made(op.outputs))]

    def rowset(self, op: ops.Rename) -> Described:
        return "Rowset", [("", op.name), ("computed", "for this use")]

    def expand(self, op: ops.Enlarge) -> Described:
        sets = ", ".join(f"({self.names.listed(one)})" for one in op.expand.sets)
        return "Expand", [("", sets), ("number", self.names.name(op.expand.number))]

    def aggregate(self, op: ops.HashAggregate | ops.StreamAggregate) -> Described:
        name = type(op).__name__ + ("" if op.phase == "complete" else f" ({op.phase})")
        if not op.aggregates:
            return name, [("distinct", self.names.listed(op.keys))]
        how = [("percentiles", "in sorted lists")] if isinstance(op, ops.StreamAggregate) and op.listed else []
        return name, [("by", self.names.listed(op.keys)), *how, ("", self.names.made(op.aggregates))]

    def join(self, op: ops.HashJoin | ops.MergeJoin | ops.LoopJoin) -> Described:
        condition = op.join.condition
        kind = "cross" if op.kind is JoinKind.INNER and condition is None else op.kind.value
        return type(op).__name__, [("", kind), ("on", self.names.text(condition) if condition is not None else "")]

    def union(self, op: ops.Concatenate | ops.ConcatenatePartitions) -> Described:
        return "UnionAll", [("columns", self.names.listed(op.columns))]

    def multiset(self, op: ops.MultisetOperation) -> Described:
        return f"{op.operation.kind.value.capitalize()}All", [("columns", self.names.listed(op.columns))]

    def in_order(self, op: ops.InOrder) -> Described:
        return "OrderBy", [("", self.words.keys(op.keys))]

    def limit(self, op: ops.FirstRows) -> Described:
        count = "" if op.count is None else str(op.count)
        return "Limit", [("", count), ("offset", str(op.offset or "")), ("in order of", self.words.keys(op.keys))]

    def partial_limit(self, op: ops.PartialFirstRows) -> Described:
        facts = [("", f"{op.count} of each partition"), ("in order of", self.words.keys(op.keys))]
        return "Top" if op.keys else "First", facts

    def window(self, op: ops.Windows) -> Described:
        return "Window", [
            ("by", self.names.listed(op.by)),
            ("in order of", self.words.keys(op.order)),
            ("", self.names.made(op.calls)),
        ]

    def process(self, op: ops.RunProcess) -> Described:
        return "Process", [("using", str(op.process.user_class)), ("columns", self.names.listed(op.columns))]

    def reduce(self, op: ops.RunReduce) -> Described:
        return "Reduce", [
            ("on", self.names.listed(op.reduce.keys)),
            ("presort", self.words.keys(op.presort)),
            ("using", str(op.reduce.user_class)),
        ]

    def combine(self, op: ops.RunCombine) -> Described:
        pairs = zip(op.combine.left_keys, op.combine.right_keys, strict=True)
        on = " and ".join(f"{self.names.name(a)} = {self.names.name(b)}" for a, b in pairs)
        return "Combine", [("on", on), ("using", str(op.combine.user_class))]

    def as_written(self, op: ops.AsWritten) -> Described:
        return "Spark", [("left as written", op.reason), ("columns", self.names.listed(op.columns))]

    def read_spool(self, op: ops.ReadSpool) -> Described:
        return "ReadSpool", [("", op.name)]

    def sort(self, op: ops.LocalSort) -> Described:
        return "Sort", [("", self.words.keys(op.keys))]

    def exchange(self, op: ops.Move) -> Described:
        how = op.how
        if isinstance(getattr(how, "scheme", None), Replicated):
            return "Broadcast", []
        if isinstance(getattr(how, "scheme", None), Covering):
            return "Exchange", [("", "copy to where matches can be")]
        way = "read in place" if op.readers is not None else _TOPOLOGY[type(how)]
        if isinstance(how, PartialMerge):
            way = f"gather {len(how.groups):,} partitions in {max(how.groups) + 1:,}"
        boundaries = "chosen at run time" if op.samples else ""
        return "Exchange", [("", way), ("merging", self._merge(how)), ("boundaries", boundaries)]

    def _merge(self, how: Exchange) -> str:
        match getattr(how, "merge", None):
            case SortMerge(keys=keys):
                return f"in order of {self.words.keys(keys)}"
            case ConcatMerge():
                return "one partition after another"
            case SortConcatMerge(keys=keys):
                return f"one partition after another, in order of {self.words.keys(keys)}"
            case _:
                return ""


# Operators that look at a row at a time, or do nothing: where their input is, they run.
_ANYWHERE = (ops.Select, ops.Compute, ops.Rename, ops.Enlarge, ops.InOrder, ops.FirstRows, ops.PartialFirstRows)


def _with_way(plan: Physical, facts: Facts) -> Facts:
    """What an operator computes, with the way it runs where there are several."""
    operator, way = plan.operator, plan.alternative
    if not way or isinstance(operator, (*_ANYWHERE, ops.AsWritten)):
        return facts
    if isinstance(operator, ops.HashJoin) and "broadcast" not in way:
        way += f", builds {('left', 'right')[operator.build]}"
    if facts and not facts[0][0] and isinstance(operator, _JOINS):
        return [("", f"{facts[0][1]}, {way}"), *facts[1:]]
    return [("", way), *facts]


_JOINS = (ops.HashJoin, ops.MergeJoin, ops.LoopJoin)
_TOPOLOGY: dict[type, str] = {
    InitialPartitioning: "split",
    FullMerge: "gather",
    PartialPartitioning: "split each partition",
    PartialMerge: "gather partitions",
    Repartitioning: "repartition",
}

_DESCRIBE: dict[type, Callable[[Drawing, Any], Described]] = {
    ops.FileScan: Drawing.scan,
    ops.TableRead: Drawing.table,
    ops.Rows: Drawing.values,
    ops.Select: Drawing.filter,
    ops.Compute: Drawing.project,
    ops.Rename: Drawing.rowset,
    ops.Enlarge: Drawing.expand,
    ops.HashAggregate: Drawing.aggregate,
    ops.StreamAggregate: Drawing.aggregate,
    ops.HashJoin: Drawing.join,
    ops.MergeJoin: Drawing.join,
    ops.LoopJoin: Drawing.join,
    ops.Concatenate: Drawing.union,
    ops.ConcatenatePartitions: Drawing.union,
    ops.MultisetOperation: Drawing.multiset,
    ops.InOrder: Drawing.in_order,
    ops.FirstRows: Drawing.limit,
    ops.PartialFirstRows: Drawing.partial_limit,
    ops.Windows: Drawing.window,
    ops.RunProcess: Drawing.process,
    ops.RunReduce: Drawing.reduce,
    ops.RunCombine: Drawing.combine,
    ops.AsWritten: Drawing.as_written,
    ops.ReadSpool: Drawing.read_spool,
    ops.LocalSort: Drawing.sort,
    ops.Move: Drawing.exchange,
}
