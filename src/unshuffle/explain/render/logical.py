"""A bound script as a tree of nodes: the logical plan.

A shared rowset is drawn in full at its first use. Later uses refer to that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.errors import InternalError
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.explain.render.node import DisplayNode
from unshuffle.plan import logical
from unshuffle.plan.logical import FileTarget, Output, Plan, Reference, Script, StreamTarget
from unshuffle.properties import partitions_of

Facts = list[tuple[str, str]]


def tree(script: Script) -> tuple[DisplayNode, ...]:
    """One node for each output."""
    drawing = _Drawing(script)
    return tuple(drawing.output(output) for output in script.outputs)


class _Drawing:
    """Draws the operators of one script, and numbers its subqueries."""

    def __init__(self, script: Script) -> None:
        columns = (column for node in script.operators() for column in node.columns)
        self._names = ColumnNames(columns, self._subquery)
        self._operators = _OperatorText(self._names)
        self._drawn: set[int] = set()
        self._subqueries: list[Plan] = []  # of the operator that is being described
        self._subquery_count = 0

    def _subquery(self, plan: Plan) -> str:
        self._subqueries.append(plan)
        return f"subquery {self._subquery_count + len(self._subqueries)}"

    def output(self, output: Output) -> DisplayNode:
        child = self.node(output.plan)
        return DisplayNode("Output", target_facts(output, self._names), tuple(output.plan.columns), None, (child,))

    def node(self, plan: Plan) -> DisplayNode:
        if isinstance(plan, Reference):
            return self._reference(plan)
        facts = _FACTS[type(plan)](self._operators, plan)
        subqueries, self._subqueries = self._subqueries, []
        numbers = range(self._subquery_count + 1, self._subquery_count + len(subqueries) + 1)
        self._subquery_count += len(subqueries)
        children = [self.node(child) for child in plan.children]
        for number, subquery in zip(numbers, subqueries, strict=True):
            below = (self.node(subquery),)
            children.append(DisplayNode("Subquery", (("", str(number)),), tuple(subquery.columns), None, below))
        name = _DISPLAY_NAMES.get(type(plan), type(plan).__name__)
        shown = tuple((label, value) for label, value in facts if value)
        return DisplayNode(name, shown, tuple(plan.columns), _row_count(plan), tuple(children))

    def _reference(self, plan: Reference) -> DisplayNode:
        rowset = plan.shared
        facts = (("rowset", rowset.name), ("as", self._names.listed(plan.columns)))
        if id(rowset) in self._drawn:
            return DisplayNode("Reference", facts, plan.columns, None, (), refers_to=rowset.name)
        self._drawn.add(id(rowset))
        child = self.node(rowset.child)
        return DisplayNode("Shared", (("rowset", rowset.name),), plan.columns, None, (child,), shared_as=rowset.name)


def _row_count(plan: Plan) -> int | None:
    """The rows of a leaf, if they are known."""
    match plan:
        case logical.Scan():
            return plan.files.rows
        case logical.TableScan():
            return plan.rows
        case logical.Values(rows=rows):
            return len(rows)
        case _:
            return None


class _OperatorText:
    """The facts of each logical operator, in words."""

    def __init__(self, names: ColumnNames) -> None:
        self._names = names

    def scan(self, op: logical.Scan) -> Facts:
        paths = op.files.paths
        shown = f"{paths[0]} and {len(paths) - 1} more" if len(paths) > 1 else "".join(paths) or "no files"
        return [("", op.label), ("from", shown), ("using", str(op.files.format)), *self._constraints(op)]

    def table(self, op: logical.TableScan) -> Facts:
        return [("", ".".join(op.name)), *self._constraints(op)]

    def values(self, op: logical.Values) -> Facts:
        return [("columns", self._names.listed(op.columns))]

    def project(self, op: logical.Project) -> Facts:
        return [("", self._names.assignments(op.outputs))]

    def filter(self, op: logical.Filter) -> Facts:
        return [("", self._names.expression(op.predicate))]

    def group_by(self, op: logical.GroupBy | logical.FinalGroupBy) -> Facts:
        return [("", self._names.listed(op.keys)), ("aggregates", self._names.assignments(op.aggregates))]

    def partial_group_by(self, op: logical.PartialGroupBy) -> Facts:
        return [("", self._names.listed(op.keys)), ("aggregates", self._names.assignments(op.states))]

    def grouping_sets(self, op: logical.GroupingSets) -> Facts:
        return [("", self._sets(op.sets)), ("aggregates", self._names.assignments(op.aggregates))]

    def expand(self, op: logical.Expand) -> Facts:
        return [("", self._sets(op.sets)), ("number", self._names.name(op.number))]

    def distinct(self, op: logical.Distinct) -> Facts:
        return []

    def window(self, op: logical.Window) -> Facts:
        return [("", self._names.assignments(op.calls))]

    def sort(self, op: logical.Sort) -> Facts:
        return [("", self._names.order(op.order))]

    def limit(self, op: logical.Limit) -> Facts:
        return [("", "" if op.count is None else str(op.count)), ("offset", str(op.offset or ""))]

    def partial_top_n(self, op: logical.PartialTopN) -> Facts:
        return [("", str(op.count)), ("by", self._names.order(op.order))]

    def join(self, op: logical.Join) -> Facts:
        kind = "cross" if op.kind is JoinKind.INNER and op.condition is None else op.kind.value
        return [("", kind), ("on", self._names.expression(op.condition) if op.condition else "")]

    def set_operation(self, op: logical.SetOperation) -> Facts:
        return [("", op.kind.value + (" all" if op.all else "")), ("columns", self._names.listed(op.columns))]

    def process(self, op: logical.Process) -> Facts:
        return [("using", str(op.user_class)), *self._produced(op)]

    def reduce(self, op: logical.Reduce) -> Facts:
        return [
            ("on", self._names.listed(op.keys)),
            ("presort", self._names.order(op.presort)),
            ("combines", f"{len(op.parts)} inputs" if op.parts else ""),
            ("using", str(op.user_class)),
            *self._produced(op),
        ]

    def combine(self, op: logical.Combine) -> Facts:
        keys = self._names.pairs(op.left_keys, op.right_keys)
        return [("on", keys), ("using", str(op.user_class)), *self._produced(op)]

    def foreign(self, op: logical.Foreign) -> Facts:
        return [("because of", op.reason), ("sql" if op.operator is None else "operator", op.sql)]

    def shared(self, op: logical.Shared) -> Facts:
        return [("rowset", op.name)]

    # --- parts of several operators

    def _sets(self, sets: Sequence[Sequence[Column]]) -> str:
        return ", ".join(f"({self._names.listed(columns)})" for columns in sets)

    def _constraints(self, op: logical.Scan | logical.TableScan) -> Facts:
        return [
            ("columns", self._names.listed(op.columns)),
            ("keys", "; ".join(f"({self._names.set(key)})" for key in op.keys)),
            ("depends", "; ".join(map(self._dependency, op.dependencies))),
        ]

    def _dependency(self, dependency: Dependency) -> str:
        return f"{self._names.set(dependency.determinant)} -> {self._names.set(dependency.dependent)}"

    def _produced(self, op: logical.Process | logical.Reduce | logical.Combine) -> Facts:
        readonly = [output for output, _ in op.readonly]
        return [("columns", self._names.listed(op.columns)), ("readonly", self._names.listed(readonly))]


_DISPLAY_NAMES: dict[type, str] = {logical.TableScan: "Table"}  # others are shown by the name of their class

_FACTS: dict[type, Callable[[_OperatorText, Any], Facts]] = {
    logical.Scan: _OperatorText.scan,
    logical.TableScan: _OperatorText.table,
    logical.Values: _OperatorText.values,
    logical.Project: _OperatorText.project,
    logical.Filter: _OperatorText.filter,
    logical.GroupBy: _OperatorText.group_by,
    logical.PartialGroupBy: _OperatorText.partial_group_by,
    logical.FinalGroupBy: _OperatorText.group_by,
    logical.GroupingSets: _OperatorText.grouping_sets,
    logical.Expand: _OperatorText.expand,
    logical.Distinct: _OperatorText.distinct,
    logical.Window: _OperatorText.window,
    logical.Sort: _OperatorText.sort,
    logical.Limit: _OperatorText.limit,
    logical.PartialTopN: _OperatorText.partial_top_n,
    logical.Join: _OperatorText.join,
    logical.SetOperation: _OperatorText.set_operation,
    logical.Process: _OperatorText.process,
    logical.Reduce: _OperatorText.reduce,
    logical.Combine: _OperatorText.combine,
    logical.Foreign: _OperatorText.foreign,
    logical.Shared: _OperatorText.shared,
}
# References are drawn by `_Drawing`. The others occur only inside the optimizer.
_WITHOUT_FACTS = {logical.Reference, logical.GroupRef, logical.MultiJoin, logical.MultiOutput}

if mismatched := set(get_args(Plan)) ^ (_FACTS.keys() | _WITHOUT_FACTS):
    names = ", ".join(sorted(each.__name__ for each in mismatched))
    raise InternalError(f"the table of logical operators to draw does not match the operators: {names}")


_BY_A_SECOND_RUN = "chosen at run time, by a second run"


def target_facts(output: Output, names: ColumnNames) -> tuple[tuple[str, str], ...]:
    """The target of an output, and its format or layout."""
    match output.target:
        case None:
            return (("to", "the caller"),)
        case FileTarget(path, format, overwrite):
            facts = [("to", path), ("using", str(format)), ("overwrite", "yes" if overwrite else "")]
        case StreamTarget() as target:
            kind = "range" if target.range_partitioned else "hash"
            is_open = not target.reference and output.layout is None
            count = partitions_of(output.layout.partitioning) if output.layout is not None else target.partitions
            facts = [
                ("to stream", target.path),
                ("clustered", f"{kind} by {names.order(target.clustered_by)}"),
                ("sorted", names.order(target.sorted_by)),
                ("into", str(count or "")),
                ("reference", target.reference or ""),
                ("boundaries", _BY_A_SECOND_RUN if is_open and target.range_partitioned else ""),
                ("partitions", _BY_A_SECOND_RUN if is_open and not target.range_partitioned and not count else ""),
            ]
    return tuple((label, value) for label, value in facts if value)
