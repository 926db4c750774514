"""A PySpark DataFrame as our logical plan, from the plan that Catalyst's analyzer made of it.

Names are resolved, types coerced and views expanded by then, so each operator of Catalyst's has one of ours. Columns go by
Catalyst's numbers (`ExprId`); a number is good only above the operator that yields it, so every operator read says which
of our columns its output's numbers are, in Catalyst's order.

Nothing is guessed. An operator of a class not listed here, or with a field or an expression that we cannot say, becomes a
`Foreign` operator over its inputs. Neighbours of that kind become one, so that what stood together stays together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from unshuffle.algebra.expressions import (
    Expression,
    Literal,
    Ref,
    WindowCall,
)
from unshuffle.algebra.logical import (
    Declared,
    Distinct,
    Filter,
    Foreign,
    Join,
    Limit,
    Output,
    Plan,
    Project,
    Reference,
    Script,
    SetKind,
    SetOperation,
    Shared,
    Sort,
    TableScan,
    Values,
    Window,
    outer_columns,
)
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.declared import Declarations, Leaf
from unshuffle.errors import UserError
from unshuffle.spark.catalyst_expressions import ExpressionReader, Scope, is_nullable
from unshuffle.spark.catalyst_groups import aggregate, deduplicate, expand
from unshuffle.spark.catalyst_relations import file_scan, name_of_relation
from unshuffle.spark.catalyst_tree import Node, NotUnderstood, Read, read_plan
from unshuffle.spark.columns import jvm
from unshuffle.spark.relations import OperatorCode
from unshuffle.spark.session import refuse_connect

_OPERATORS = "org.apache.spark.sql.catalyst.plans.logical."
_JOINS = {
    "Inner": JoinKind.INNER,
    "Cross": JoinKind.INNER,
    "LeftOuter": JoinKind.LEFT,
    "RightOuter": JoinKind.RIGHT,
    "FullOuter": JoinKind.FULL,
    "LeftSemi": JoinKind.SEMI,
    "LeftAnti": JoinKind.ANTI,
}


def logical_plan(
    frame: DataFrame,
    catalog: str | Path | None = None,
    declarations: Declarations | None = None,
    numbers: ColumnNumbers | None = None,
) -> Script:
    """What a DataFrame means, as a script of one output. `catalog` is a folder of stored statistics, `declarations` what
    is known of tables besides, and `numbers` those that columns get if the DataFrame is part of something larger."""
    if not type(frame).__module__.startswith("pyspark.sql"):
        raise UserError(f"a DataFrame of PySpark is needed, not {type(frame).__name__}")
    refuse_connect(frame.sparkSession, "reading a DataFrame")
    if frame.isStreaming:
        raise UserError("a streaming DataFrame cannot be optimized", hint="only DataFrames that end can be")
    spark = frame.sparkSession
    analyzed = _with_cached_data(spark, frame._jdf.queryExecution().analyzed())
    numbers = numbers or ColumnNumbers()
    reader = PlanReader(spark, catalog, declarations, numbers)
    try:
        plan = reader.read(read_plan(analyzed)).plan
    except _NeedsInlining:
        reader = PlanReader(spark, catalog, declarations, numbers, is_inlined=True)
        tree = read_plan(_inlined(spark, analyzed))
        try:
            plan = reader.read(tree).plan
        except _NeedsInlining:
            plan = reader.whole(tree, "common table expressions that cannot be inlined").plan
    except (Py4JError, RecursionError):
        reader = PlanReader(spark, catalog, declarations, numbers, is_inlined=True)
        plan = reader.whole(Node.of(analyzed), "a plan that cannot be read from Python").plan
    declared = tuple(dict.fromkeys(reader.declared))
    return Script((Output(_named(plan, frame.columns, reader.columns), None),), declared)


def _with_cached_data(spark: SparkSession, plan: Any) -> Any:
    """The plan over what the user has cached of it, as Spark itself would run it."""
    cache = spark._jsparkSession.sharedState().cacheManager()
    if cache.isEmpty():
        return plan
    try:
        return cache.useCachedData(plan, getattr(cache, "useCachedData$default$2")())
    except Py4JError:  # before Spark 4.3
        return cache.useCachedData(plan)


def _inlined(spark: SparkSession, plan: Any) -> Any:
    """The plan with every common table expression where it is used."""
    inline = jvm(spark).org.apache.spark.sql.catalyst.optimizer.InlineCTE
    try:
        return inline(True, False, False).apply(plan)
    except Py4JError:  # before Spark 4.3
        return inline(True, False).apply(plan)


def _named(plan: Plan, names: Sequence[str], numbers: ColumnNumbers) -> Plan:
    if [column.name for column in plan.columns] == list(names):
        return plan
    pairs = list(zip(plan.columns, names, strict=True))
    made = [column if column.name == name else numbers.like(column, name) for column, name in pairs]
    return Project(plan, tuple((new, Ref(old)) for new, old in zip(made, plan.columns, strict=True)))


class _NeedsInlining(Exception):
    """A foreign operator reads a common table expression, which will not be there when it is run by itself."""


@dataclass
class PlanReader:
    """Reads the plan of one DataFrame."""

    spark: SparkSession
    catalog: str | Path | None = None
    declarations: Declarations | None = None
    columns: ColumnNumbers = field(default_factory=ColumnNumbers)
    is_inlined: bool = False  # are there no common table expressions but recursive ones?
    declared: list[Declared] = field(default_factory=list)
    _outer: list[Scope] = field(default_factory=list)
    _shared: dict[int, Shared] = field(default_factory=dict)
    _done: dict[int, Read] = field(default_factory=dict)
    _kept: list[Node] = field(default_factory=list)  # an id is only good while what it names is alive

    def __post_init__(self) -> None:
        self.expressions = ExpressionReader(self.spark, self._subquery)

    def read(self, node: Node) -> Read:
        if id(node) not in self._done:
            # An operator that turns out not to be understood has its inputs read a second time.
            self._done[id(node)] = self._read(node)
        return self._done[id(node)]

    def _read(self, node: Node) -> Read:
        rule = _RULES.get(node.kind) if node.package == _OPERATORS else _LEAVES.get(node.kind)
        reason = f"{node.kind}, an operator of Spark's"
        if rule is not None:
            try:
                return rule(self, node)
            except NotUnderstood as problem:
                reason = str(problem)
        elif not node.children:
            return self._relation(node)
        elif node.kind == "UnionLoop":
            return self.whole(node, "a recursion")
        return self._foreign(node, reason)

    def _subquery(self, node: Node, scopes: Sequence[Scope]) -> Plan:
        outer, self._outer = self._outer, list(scopes)
        self._kept.append(node)
        try:
            return self.read(node).plan
        finally:
            self._outer = outer

    def expression(self, node: Node, scope: Scope) -> Expression:
        return self.expressions.read(node, [*self._outer, scope])

    def only(self, node: Node, *fields: str) -> None:
        """A field that we do not know may change what an operator does."""
        if unknown := sorted(node.fields.keys() - set(fields)):
            raise NotUnderstood(f"{node.kind} with {unknown[0]}")

    def child(self, node: Node) -> Read:
        (child,) = node.children
        return self.read(child)

    # --- leaves

    def _file_relation(self, node: Node) -> Read:
        output = node.expressions("output")
        columns = self.attributes(output)
        scan = file_scan(node.jvm, columns, self.catalog)
        if scan is None:
            return self._relation(node)
        return Read(self._with_declared(scan), tuple(each.id for each in output))

    def _view(self, node: Node) -> Read:
        """What it is of, unless something was declared of the view itself."""
        name = name_of_relation(node.jvm)
        if name is None or self.declarations is None or not self.declarations.names(name):
            return self.child(node)
        columns, numbers = self._output_of(node)
        return Read(self._with_declared(TableScan(name, columns, node.jvm)), numbers)

    def _with_declared(self, leaf: Leaf) -> Leaf:
        if self.declarations is None:
            return leaf
        known, declared = self.declarations.applied(leaf)
        self.declared += declared
        return known

    def _relation(self, node: Node, rows: int | None = None) -> Read:
        """A leaf that only Spark can read: rows in memory, a table of some other source."""
        if self._outer and node.mentions("OuterReference"):
            raise NotUnderstood(f"{node.kind} with columns of the query around it")
        columns, numbers = self._output_of(node)
        name = name_of_relation(node.jvm)
        if name is None:
            return Read(TableScan((_word(node.kind),), columns, node.jvm, rows), numbers)
        return Read(self._with_declared(TableScan(name, columns, node.jvm, rows)), numbers)

    def _local(self, node: Node) -> Read:
        return self._relation(node, node.jvm.data().length())

    def _range(self, node: Node) -> Read:
        start, end, step = (node.fields[name] for name in ("start", "end", "step"))
        read = self._relation(node, len(range(start, end, step)))
        assert isinstance(read.plan, TableScan)
        return replace(read, plan=replace(read.plan, keys=(frozenset(read.plan.columns),)))

    def _one_row(self, node: Node) -> Read:
        return Read(Values(((),), ()), ())

    def attributes(self, output: Sequence[Node]) -> tuple[Column, ...]:
        return tuple(self.columns.new(each.fields["name"], each.type, each.fields["nullable"]) for each in output)

    def _output_of(self, node: Node) -> tuple[tuple[Column, ...], tuple[int, ...]]:
        logical = jvm(self.spark).org.apache.spark.sql.catalyst.plans.logical
        # One call for all attributes: a projection of them, read as a tree.
        listed = read_plan(logical.Project(node.jvm.output(), logical.OneRowRelation())).expressions("projectList")
        return self.attributes(listed), tuple(each.id for each in listed)

    # --- one input

    def _transparent(self, node: Node) -> Read:
        return self.child(node)

    def _project(self, node: Node) -> Read:
        self.only(node, "projectList", "child")
        child = self.child(node)
        return self.projected(child, child.scope, node.expressions("projectList"))

    def projected(
        self,
        child: Read,
        scope: Scope,
        listed: Sequence[Node],
        change: Callable[[Expression], Expression] = lambda expression: expression,
    ) -> Read:
        outputs: list[tuple[Column, Expression]] = []
        numbers: list[int] = []
        taken: set[Column] = set()
        for each in listed:
            expression = change(self.expression(each, scope))
            name = each.fields["name"]
            if each.kind == "AttributeReference" and isinstance(expression, Ref) and expression.column.name == name:
                column = expression.column
            else:
                column = self.columns.new(name, expression.type, is_nullable(expression))
            if column in taken:
                column = self.columns.like(column)
            taken.add(column)
            outputs.append((column, expression))
            numbers.append(each.id)
        if [column for column, _ in outputs] == list(child.plan.columns):
            return Read(child.plan, tuple(numbers))
        return Read(Project(child.plan, tuple(outputs)), tuple(numbers))

    def _filter(self, node: Node) -> Read:
        self.only(node, "condition", "child")
        child = self.child(node)
        condition = node.expression("condition")
        assert condition is not None
        return Read(Filter(child.plan, self.expression(condition, child.scope)), child.numbers)

    def _sort(self, node: Node) -> Read:
        self.only(node, "order", "global", "child", "hint")
        if node.fields["global"] is not True:
            raise NotUnderstood("a sort within partitions")
        child = self.child(node)
        keys = self.expressions.sort_keys(node.expressions("order"), [*self._outer, child.scope])
        # A constant orders nothing, and a number would be read as the place of a column.
        keys = tuple(key for key in keys if not isinstance(key.expression, Literal))
        return Read(Sort(child.plan, keys) if keys else child.plan, child.numbers)

    def _limit(self, node: Node) -> Read:
        self.only(node, "limitExpr", "child")
        (local,) = node.children
        limit = self._count(node, "limitExpr")
        if local.kind != "LocalLimit" or self._count(local, "limitExpr") != limit:
            raise NotUnderstood("a limit without one for each partition")
        child = self.child(local)
        match child.plan:
            case Limit(inner, None, offset):
                return Read(Limit(inner, limit, offset), child.numbers)
            case _:
                return Read(Limit(child.plan, limit), child.numbers)

    def _offset(self, node: Node) -> Read:
        self.only(node, "offsetExpr", "child")
        child = self.child(node)
        return Read(Limit(child.plan, None, self._count(node, "offsetExpr")), child.numbers)

    def _count(self, node: Node, name: str) -> int:
        expression = node.expression(name)
        found = self.expression(expression, {}) if expression is not None else None
        if not isinstance(found, Literal) or type(found.value) is not int:
            raise NotUnderstood("a limit that is no number")
        return found.value

    def _distinct(self, node: Node) -> Read:
        child = self.child(node)
        return Read(Distinct(child.plan), child.numbers)

    def _window(self, node: Node) -> Read:
        self.only(node, "windowExpressions", "partitionSpec", "orderSpec", "child")
        child = self.child(node)
        calls: list[tuple[Column, WindowCall]] = []
        listed = node.expressions("windowExpressions")
        for each in listed:
            call = self.expression(each, child.scope)
            if not isinstance(call, WindowCall):
                raise NotUnderstood("a window function inside an expression")
            calls.append((self.columns.new(each.fields["name"], call.type, is_nullable(call)), call))
        return Read(Window(child.plan, tuple(calls)), (*child.numbers, *(each.id for each in listed)))

    # --- several inputs

    def _join(self, node: Node) -> Read:
        self.only(node, "left", "right", "joinType", "condition", "hint")
        kind = _JOINS.get(node.object("joinType"))
        if kind is None:
            raise NotUnderstood("a join of a kind that SQL does not have")
        left, right = map(self.read, node.children)
        condition = node.expression("condition")
        scope = {**right.scope, **left.scope}
        on = self.expression(condition, scope) if condition is not None else None
        one_side = kind in (JoinKind.SEMI, JoinKind.ANTI)
        return Read(
            Join(kind, left.plan, right.plan, on), left.numbers if one_side else (*left.numbers, *right.numbers)
        )

    def _union(self, node: Node) -> Read:
        self.only(node, "children", "byName", "allowMissingCol")
        if node.fields["byName"] or node.fields["allowMissingCol"]:
            raise NotUnderstood("a union by name")
        return self._set_operation(node, SetKind.UNION, True)

    def _intersect(self, node: Node) -> Read:
        return self._set_operation(node, SetKind.INTERSECT, bool(node.fields["isAll"]))

    def _except(self, node: Node) -> Read:
        return self._set_operation(node, SetKind.EXCEPT, bool(node.fields["isAll"]))

    def _set_operation(self, node: Node, kind: SetKind, all_rows: bool) -> Read:
        inputs = tuple(map(self.read, node.children))
        columns = []
        for place, first in enumerate(inputs[0].plan.columns):
            each = [one.plan.columns[place] for one in inputs]
            type = first.type if all(column.type == first.type for column in each) else None
            nullable = first.nullable if kind is SetKind.EXCEPT else any(column.nullable for column in each)
            columns.append(self.columns.new(first.name, type, nullable))
        plan = SetOperation(kind, all_rows, tuple(one.plan for one in inputs), tuple(columns))
        return Read(plan, inputs[0].numbers)

    # --- common table expressions

    def _with(self, node: Node) -> Read:
        self.only(node, "plan", "cteDefs")
        *definitions, query = node.children
        for each in definitions:
            if each.kind != "CTERelationDef":
                raise _NeedsInlining
            inside = self.child(each)
            if outer_columns(inside.plan):
                raise _NeedsInlining
            (alias,) = each.children
            name = (alias.fields.get("identifier") or {}).get("name") or "shared"
            self._shared[each.fields["id"]] = Shared(name, inside.plan)
        return self.read(query)

    def _reference(self, node: Node) -> Read:
        output = node.expressions("output")
        shared = self._shared.get(node.fields["cteId"])
        if shared is None or node.fields.get("recursive") or len(output) != len(shared.columns):
            raise _NeedsInlining
        columns = tuple(
            self.columns.new(each.fields["name"], old.type, old.nullable)
            for each, old in zip(output, shared.columns, strict=True)
        )
        return Read(Reference(shared, columns), tuple(each.id for each in output))

    # --- what we do not understand

    def whole(self, node: Node, reason: str) -> Read:
        """A part of a plan that Spark runs, with all that is below it."""
        if not self.is_inlined:
            raise _NeedsInlining
        columns, numbers = self._output_of(node)
        return Read(Foreign(_first_line(node.jvm), (), columns, reason, OperatorCode(node.jvm, ())), numbers)

    def _foreign(self, node: Node, reason: str) -> Read:
        if not self.is_inlined and (node.mentions("CTERelationRef") or node.kind == "WithCTE"):
            raise _NeedsInlining
        if self._outer and node.mentions("OuterReference"):
            raise NotUnderstood(reason)
        inputs: list[Plan] = []
        places: list[tuple[tuple[int, ...], tuple[Column, ...]]] = []
        for place, child in enumerate(node.children):
            read = self.read(child)
            if read.code is not None and isinstance(read.plan, Foreign):
                inputs += read.plan.children
                places += [((place, *path), columns) for path, columns in read.code.inputs]
                reason = f"{reason}; {read.plan.reason}" if reason not in read.plan.reason else read.plan.reason
            else:
                inputs.append(read.plan)
                scope = read.scope
                places.append(((place,), tuple(scope[number] for number in read.numbers)))
        if self._outer and any(map(outer_columns, inputs)):
            raise NotUnderstood(reason)
        columns, numbers = self._output_of(node)
        code = OperatorCode(node.jvm, tuple(places))
        named = tuple((f"input_{i}", plan) for i, plan in enumerate(inputs, 1))
        return Read(Foreign(_first_line(node.jvm), named, columns, reason, code), numbers, code)


_Rule = Callable[[PlanReader, Node], Read]
_RULES: dict[str, _Rule] = {
    "SubqueryAlias": PlanReader._transparent,
    "View": PlanReader._view,
    "ResolvedHint": PlanReader._transparent,  # how to run it, which is what we decide
    "OneRowRelation": PlanReader._one_row,
    "LocalRelation": PlanReader._local,
    "Range": PlanReader._range,
    "Project": PlanReader._project,
    "Filter": PlanReader._filter,
    "Sort": PlanReader._sort,
    "GlobalLimit": PlanReader._limit,
    "Offset": PlanReader._offset,
    "Distinct": PlanReader._distinct,
    "Deduplicate": deduplicate,
    "Aggregate": aggregate,
    "Expand": expand,
    "Window": PlanReader._window,
    "Join": PlanReader._join,
    "Union": PlanReader._union,
    "Intersect": PlanReader._intersect,
    "Except": PlanReader._except,
    "WithCTE": PlanReader._with,
    "CTERelationRef": PlanReader._reference,
}
_LEAVES: dict[str, _Rule] = {"LogicalRelation": PlanReader._file_relation}


def _word(kind: str) -> str:
    """`LogicalRDD` as a word that a reader of a plan may be shown."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", kind).lower()


def _first_line(operator: Any) -> str:
    text: str = operator.simpleString(25)
    return text.splitlines()[0] if text else ""
