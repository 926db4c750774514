"""A bound script as a tree of nodes: the logical plan.

A shared rowset is drawn in full where it is first used; later uses point back to it.
"""

from __future__ import annotations

from unshuffle.algebra.logical import (
    Combine,
    Distinct,
    Expand,
    Filter,
    FinalGroupBy,
    Foreign,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    Output,
    PartialGroupBy,
    PartialTop,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    Script,
    SetOperation,
    Shared,
    Sort,
    StreamTarget,
    TableScan,
    Target,
    Values,
    Window,
)
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Dependency
from unshuffle.render.names import Names
from unshuffle.render.node import Node


def tree(script: Script) -> tuple[Node, ...]:
    """One node an output."""
    drawing = _Drawing(script)
    return tuple(drawing.output(output) for output in script.outputs)


class _Drawing:
    def __init__(self, script: Script) -> None:
        columns = (column for node in script.operators() for column in node.columns)
        self.names = Names(columns, self._subquery)
        self._drawn: set[int] = set()
        self._subqueries: list[Plan] = []  # of the operator being described
        self._subquery_count = 0

    def _subquery(self, plan: Plan) -> str:
        self._subqueries.append(plan)
        return f"subquery {self._subquery_count + len(self._subqueries)}"

    def output(self, output: Output) -> Node:
        child = self.node(output.plan)
        return Node("Output", target_facts(output, self.names), tuple(output.plan.columns), None, (child,))

    def node(self, plan: Plan) -> Node:
        if isinstance(plan, Reference):
            return self._reference(plan)
        operator, facts, rows = self._describe(plan)
        subqueries, self._subqueries = self._subqueries, []
        numbers = range(self._subquery_count + 1, self._subquery_count + len(subqueries) + 1)
        self._subquery_count += len(subqueries)
        children = [self.node(child) for child in plan.children]
        for number, subquery in zip(numbers, subqueries, strict=True):
            below = (self.node(subquery),)
            children.append(Node("Subquery", (("", str(number)),), tuple(subquery.columns), None, below))
        return Node(operator, tuple((k, v) for k, v in facts if v), tuple(plan.columns), rows, tuple(children))

    def _reference(self, plan: Reference) -> Node:
        rowset = plan.rowset
        facts = (("rowset", rowset.name), ("as", self.names.listed(plan.columns)))
        if id(rowset) in self._drawn:
            return Node("Reference", facts, plan.columns, None, (), refers_to=rowset.name)
        self._drawn.add(id(rowset))
        child = self.node(rowset.child)
        return Node("Shared", (("rowset", rowset.name),), plan.columns, None, (child,), shared_as=rowset.name)

    def _describe(self, plan: Plan) -> tuple[str, list[tuple[str, str]], int | None]:
        match plan:
            case Scan():
                paths = plan.files.paths
                where = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
                facts = [
                    ("", plan.label),
                    ("from", where),
                    ("using", str(plan.files.format)),
                    *self._known(plan),
                ]
                return "Scan", facts, plan.files.rows
            case TableScan(name=name):
                return "Table", [("", ".".join(name)), *self._known(plan)], plan.rows
            case Values(rows=rows):
                return "Values", [("columns", self.names.listed(plan.columns))], len(rows)
            case Project(outputs=outputs):
                return "Project", [("", self.names.made(outputs))], None
            case Filter(predicate=predicate):
                return "Filter", [("", self.names.text(predicate))], None
            case GroupBy(keys=keys, aggregates=aggregates):
                return "GroupBy", [("", self.names.listed(keys)), ("aggregates", self.names.made(aggregates))], None
            case PartialGroupBy(keys=keys, states=states):
                return "PartialGroupBy", [("", self.names.listed(keys)), ("aggregates", self.names.made(states))], None
            case FinalGroupBy(keys=keys, aggregates=aggregates):
                return (
                    "FinalGroupBy",
                    [("", self.names.listed(keys)), ("aggregates", self.names.made(aggregates))],
                    None,
                )
            case PartialTop(count=count, order=order):
                return "PartialTop", [("", str(count)), ("by", self.names.order(order))], None
            case GroupingSets(sets=sets, aggregates=aggregates):
                shown = ", ".join(f"({self.names.listed(one)})" for one in sets)
                return "GroupingSets", [("", shown), ("aggregates", self.names.made(aggregates))], None
            case Expand(sets=sets, number=number):
                shown = ", ".join(f"({self.names.listed(one)})" for one in sets)
                return "Expand", [("", shown), ("number", self.names.name(number))], None
            case Distinct():
                return "Distinct", [], None
            case Window(calls=calls):
                return "Window", [("", self.names.made(calls))], None
            case Sort(order=order):
                return "Sort", [("", self.names.order(order))], None
            case Limit(count=count, offset=offset):
                return "Limit", [("", "" if count is None else str(count)), ("offset", str(offset or ""))], None
            case Join(kind=kind, condition=condition):
                word = "cross" if kind is JoinKind.INNER and condition is None else kind.value
                return "Join", [("", word), ("on", self.names.text(condition) if condition else "")], None
            case SetOperation(kind=kind):
                word = kind.value + (" all" if plan.all else "")
                return "SetOperation", [("", word), ("columns", self.names.listed(plan.columns))], None
            case Process():
                return "Process", [("using", str(plan.user_class)), *self._produced(plan)], None
            case Reduce():
                facts = [
                    ("on", self.names.listed(plan.keys)),
                    ("presort", self.names.order(plan.presort)),
                    ("using", str(plan.user_class)),
                ]
                return "Reduce", [*facts, *self._produced(plan)], None
            case Combine():
                pairs = zip(plan.left_keys, plan.right_keys, strict=True)
                on = " and ".join(f"{self.names.name(a)} = {self.names.name(b)}" for a, b in pairs)
                return "Combine", [("on", on), ("using", str(plan.user_class)), *self._produced(plan)], None
            case Foreign(sql=sql, reason=reason):
                said = "sql" if plan.operator is None else "operator"
                return "Foreign", [("because of", reason), (said, sql)], None
            case Shared(name=name) | Reference(rowset=Shared(name=name)):
                return "Shared", [("rowset", name)], None

    def _known(self, plan: Scan | TableScan) -> list[tuple[str, str]]:
        return [
            ("columns", self.names.listed(plan.columns)),
            ("keys", "; ".join(f"({self.names.set(key)})" for key in plan.keys)),
            ("depends", "; ".join(map(self._dependency, plan.dependencies))),
        ]

    def _dependency(self, dependency: Dependency) -> str:
        return f"{self.names.set(dependency.determinant)} -> {self.names.set(dependency.dependent)}"

    def _produced(self, plan: Process | Reduce | Combine) -> list[tuple[str, str]]:
        readonly = [out for out, _ in plan.readonly]
        return [("columns", self.names.listed(plan.columns)), ("readonly", self.names.listed(readonly))]


def target_facts(output: Output, names: Names) -> tuple[tuple[str, str], ...]:
    """Where an output goes, and how it is to be written."""
    match output.target:
        case None:
            facts: list[tuple[str, str]] = [("to", "the caller")]
        case Target(path, format, overwrite):
            facts = [("to", path), ("using", str(format))] + ([("overwrite", "yes")] if overwrite else [])
        case StreamTarget() as target:
            kind = "range" if target.range_partitioned else "hash"
            facts = [("to stream", target.path), ("clustered", f"{kind} by {names.order(target.clustered_by)}")]
            facts += [("sorted", names.order(target.sorted_by))] if target.sorted_by else []
            facts += [("into", str(target.partitions))] if target.partitions else []
            facts += [("reference", target.reference)] if target.reference else []
            looks = target.range_partitioned and not target.reference and output.layout is None
            facts += [("boundaries", "chosen at run time, by a second run")] if looks else []
    return tuple(facts)
