"""A bound script as a tree of plain nodes, which every output format draws in its own way.

A shared rowset is drawn in full where it is first used; later uses point back to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from unshuffle.algebra.expressions import Expression, Ref, SortKey
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
from unshuffle.algebra.sql import order_words, to_sql
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column


@dataclass(frozen=True, slots=True)
class Node:
    """An operator as it is shown. `facts` are its properties by name, in the order to show them."""

    operator: str
    facts: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: int | None
    children: tuple[Node, ...]
    shared_as: str | None = None  # the name under which later nodes point back to this one
    refers_to: str | None = None


def tree(script: Script) -> tuple[Node, ...]:
    """One node an output."""
    drawing = _Drawing(script)
    return tuple(drawing.output(output) for output in script.outputs)


class _Drawing:
    def __init__(self, script: Script) -> None:
        identities = {column for node in script.operators() for column in node.columns}
        self._same_name = Counter(column.name.lower() for column in identities)
        self._drawn: set[int] = set()
        self._subqueries: list[Plan] = []  # of the operator being described
        self._subquery_count = 0

    def name(self, column: Column) -> str:
        """A column by its name, with its number where another column of the plan has the same name."""
        return column.name if self._same_name[column.name.lower()] <= 1 else str(column)

    def names(self, columns: Sequence[Column]) -> str:
        return ", ".join(map(self.name, columns))

    def text(self, expression: Expression) -> str:
        text = to_sql(expression, self.name, self._subquery)
        # The outermost parentheses say nothing when the expression stands alone.
        return text[1:-1] if text.startswith("(") and _closes_last(text) else text

    def _subquery(self, plan: Plan) -> str:
        self._subqueries.append(plan)
        return f"subquery {self._subquery_count + len(self._subqueries)}"

    def order(self, keys: Sequence[SortKey]) -> str:
        def words(key: SortKey) -> str:
            usual = key.nulls_first != key.descending
            return ("DESC" if key.descending else "") if usual else order_words(key)

        return ", ".join(f"{self.text(k.expression)} {words(k)}".strip() for k in keys)

    def made(self, outputs: Sequence[tuple[Column, Expression]]) -> str:
        parts = []
        for column, expression in outputs:
            passed = isinstance(expression, Ref) and expression.column == column
            parts.append(self.name(column) if passed else f"{self.name(column)} = {self.text(expression)}")
        return ", ".join(parts)

    def output(self, output: Output) -> Node:
        child = self.node(output.plan)
        match output.target:
            case None:
                facts: list[tuple[str, str]] = [("to", "the caller")]
            case Target(path, format, overwrite):
                facts = [("to", path), ("using", str(format))] + ([("overwrite", "yes")] if overwrite else [])
            case StreamTarget() as target:
                kind = "range" if target.range_partitioned else "hash"
                facts = [("to stream", target.path), ("clustered", f"{kind} by {self.order(target.clustered_by)}")]
                facts += [("sorted", self.order(target.sorted_by))] if target.sorted_by else []
                facts += [("into", str(target.partitions))] if target.partitions else []
                facts += [("reference", target.reference)] if target.reference else []
        return Node("Output", tuple(facts), tuple(output.plan.columns), None, (child,))

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
        facts = (("rowset", rowset.name), ("as", self.names(plan.columns)))
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
                    ("columns", self.names(plan.columns)),
                    ("keys", "; ".join(f"({self._set(key)})" for key in plan.keys)),
                    (
                        "depends",
                        "; ".join(f"{self._set(d.determinant)} -> {self._set(d.dependent)}" for d in plan.dependencies),
                    ),
                ]
                return "Scan", facts, plan.files.rows
            case TableScan(name=name):
                return "Table", [("", ".".join(name)), ("columns", self.names(plan.columns))], None
            case Values(rows=rows):
                return "Values", [("columns", self.names(plan.columns))], len(rows)
            case Project(outputs=outputs):
                return "Project", [("", self.made(outputs))], None
            case Filter(predicate=predicate):
                return "Filter", [("", self.text(predicate))], None
            case GroupBy(keys=keys, aggregates=aggregates):
                return "GroupBy", [("", self.names(keys)), ("aggregates", self.made(aggregates))], None
            case PartialGroupBy(keys=keys, states=states):
                return "PartialGroupBy", [("", self.names(keys)), ("aggregates", self.made(states))], None
            case FinalGroupBy(keys=keys, aggregates=aggregates):
                return "FinalGroupBy", [("", self.names(keys)), ("aggregates", self.made(aggregates))], None
            case PartialTop(count=count, order=order):
                return "PartialTop", [("", str(count)), ("by", self.order(order))], None
            case GroupingSets(sets=sets, aggregates=aggregates):
                shown = ", ".join(f"({self.names(one)})" for one in sets)
                return "GroupingSets", [("", shown), ("aggregates", self.made(aggregates))], None
            case Expand(sets=sets, number=number):
                shown = ", ".join(f"({self.names(one)})" for one in sets)
                return "Expand", [("", shown), ("number", self.name(number))], None
            case Distinct():
                return "Distinct", [], None
            case Window(calls=calls):
                return "Window", [("", self.made(calls))], None
            case Sort(order=order):
                return "Sort", [("", self.order(order))], None
            case Limit(count=count, offset=offset):
                return "Limit", [("", "" if count is None else str(count)), ("offset", str(offset or ""))], None
            case Join(kind=kind, condition=condition):
                word = "cross" if kind is JoinKind.INNER and condition is None else kind.value
                return "Join", [("", word), ("on", self.text(condition) if condition else "")], None
            case SetOperation(kind=kind):
                word = kind.value + (" all" if plan.all else "")
                return "SetOperation", [("", word), ("columns", self.names(plan.columns))], None
            case Process():
                return "Process", [("using", str(plan.user_class)), *self._produced(plan)], None
            case Reduce():
                facts = [
                    ("on", self.names(plan.keys)),
                    ("presort", self.order(plan.presort)),
                    ("using", str(plan.user_class)),
                ]
                return "Reduce", [*facts, *self._produced(plan)], None
            case Combine():
                pairs = zip(plan.left_keys, plan.right_keys, strict=True)
                on = " and ".join(f"{self.name(a)} = {self.name(b)}" for a, b in pairs)
                return "Combine", [("on", on), ("using", str(plan.user_class)), *self._produced(plan)], None
            case Foreign(sql=sql, reason=reason):
                return "Foreign", [("because of", reason), ("sql", sql)], None
            case Shared(name=name) | Reference(rowset=Shared(name=name)):
                return "Shared", [("rowset", name)], None

    def _produced(self, plan: Process | Reduce | Combine) -> list[tuple[str, str]]:
        return [("columns", self.names(plan.columns)), ("readonly", self.names([out for out, _ in plan.readonly]))]

    def _set(self, columns: frozenset[Column]) -> str:
        return self.names(sorted(columns, key=lambda c: c.id))


def _closes_last(text: str) -> bool:
    """Whether the parenthesis that opens the text is closed by its last character. Quotes are skipped."""
    depth, quote_mark = 0, ""
    for i, c in enumerate(text):
        if quote_mark:
            if c == quote_mark and text[i - 1] != "\\":
                quote_mark = ""
        elif c in "'`":
            quote_mark = c
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
            if depth == 0:
                return i == len(text) - 1
    return False
