"""Catalyst's logical operators as ours.

Attributes have Catalyst's ids (`ExprId`). An id is valid only above the operator that produces it, so every operator that is
read lists the ids of its output columns, in Catalyst's order.

Nothing is guessed. An operator of an unlisted class, or with a field or expression that we cannot express, becomes a
`Foreign` operator over its inputs. Adjacent foreign operators become one, so that Spark optimizes them together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.declarations import Declarations, DeclaredConstraint, Leaf
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Expression
from unshuffle.plan.logical import Foreign, Plan, SetKind, Shared, outer_columns
from unshuffle.spark.reader.catalyst_tree import AttributeScope, CatalystNode, ReadPlan, Untranslatable, read_plan
from unshuffle.spark.reader.expressions.expression_reader import ExpressionReader
from unshuffle.spark.reader.operators import grouping, leaves, one_input, several_inputs
from unshuffle.spark.reader.relations import OperatorCode
from unshuffle.spark.shims.catalyst import output_as_projection
from unshuffle.spark.shims.file_relation import FileRelations
from unshuffle.spark.shims.plan_tree import PlanTree

_OPERATORS = "org.apache.spark.sql.catalyst.plans.logical."


class NeedsInlining(Exception):
    """A foreign operator reads a common table expression, which is not available where the operator runs by itself."""


@dataclass
class PlanReader:
    """Reads the plan of one DataFrame."""

    spark: SparkSession
    catalog: str | Path | None = None
    declarations: Declarations | None = None
    columns: ColumnNumbers = field(default_factory=ColumnNumbers)
    is_inlined: bool = False  # all common table expressions are inlined, except recursive ones
    constraints: list[DeclaredConstraint] = field(default_factory=list)
    shared: dict[int, Shared] = field(default_factory=dict)  # common table expressions by Catalyst's ids
    _outer: list[AttributeScope] = field(default_factory=list)
    _done: dict[int, ReadPlan] = field(default_factory=dict)
    _relations: dict[PlanTree, FileRelations] = field(default_factory=dict)
    _subqueries: list[CatalystNode] = field(default_factory=list)  # an id is unique only while its object is alive

    def __post_init__(self) -> None:
        self.expressions = ExpressionReader(self.spark, self._subquery)

    def read(self, node: CatalystNode) -> ReadPlan:
        if id(node) not in self._done:
            # The inputs of an operator that turns out to be foreign are read a second time.
            self._done[id(node)] = self._read(node)
        return self._done[id(node)]

    def _read(self, node: CatalystNode) -> ReadPlan:
        rule = RULES.get(node.kind) if node.package == _OPERATORS else OTHER_RULES.get(node.kind)
        reason = f"{node.kind}, an operator of Spark's"
        if node.kind == "Sample" or node.has_random_seed:
            # The seed is combined with the number of a partition: other partitions would draw other rows.
            return self.left_to_spark(node, "random numbers by a seed, which depend on how rows are partitioned")
        if node.kind in _REDISTRIBUTES:
            node.children = tuple(map(_without_repartition, node.children))
        if rule is not None:
            try:
                return rule(self, node)
            except Untranslatable as problem:
                reason = str(problem)
        elif not node.children:
            return leaves.relation(self, node)
        elif node.kind == "UnionLoop":
            return self.left_to_spark(node, "a recursion")
        return self._foreign(node, reason)

    def _subquery(self, node: CatalystNode, scopes: Sequence[AttributeScope]) -> Plan:
        outer, self._outer = self._outer, list(scopes)
        self._subqueries.append(node)
        try:
            return self.read(node).plan
        finally:
            self._outer = outer

    # --- what the reading of operators uses

    def child(self, node: CatalystNode) -> ReadPlan:
        (child,) = node.children
        return self.read(child)

    def expression(self, node: CatalystNode, scope: AttributeScope) -> Expression:
        return self.expressions.read(node, self.scopes(scope))

    def scopes(self, scope: AttributeScope) -> list[AttributeScope]:
        """The scopes of the queries around, and that of an operator."""
        return [*self._outer, scope]

    def has_outer_reference(self, node: CatalystNode) -> bool:
        return bool(self._outer) and node.mentions("OuterReference")

    def attributes(self, output: Sequence[CatalystNode]) -> tuple[Column, ...]:
        return tuple(self.columns.new(each.fields["name"], each.type, each.fields["nullable"]) for each in output)

    def output_of(self, node: CatalystNode) -> tuple[tuple[Column, ...], tuple[int, ...]]:
        """New columns for the attributes of an operator, and their ids."""
        # All attributes at once: a projection to them, read as a tree.
        projection = PlanTree.of_plan(self.spark, output_as_projection(self.spark, node.jvm))
        output = read_plan(projection).expressions("projectList")
        return self.attributes(output), tuple(each.expr_id for each in output)

    def file_relations(self, tree: PlanTree) -> FileRelations:
        """What Spark knows of the files of a plan, asked for once."""
        if tree not in self._relations:
            self._relations[tree] = FileRelations(tree)
        return self._relations[tree]

    def with_declared(self, leaf: Leaf) -> Leaf:
        """A leaf with the constraints that are declared on it."""
        if self.declarations is None:
            return leaf
        with_facts, constraints = self.declarations.attach(leaf)
        self.constraints += constraints
        return with_facts

    # --- operators that Spark runs

    def left_to_spark(self, node: CatalystNode, reason: str) -> ReadPlan:
        """A part of a plan that Spark runs, with everything below it."""
        if not self.is_inlined:
            raise NeedsInlining
        columns, expr_ids = self.output_of(node)
        return ReadPlan(Foreign(_first_line(node.jvm), (), columns, reason, OperatorCode(node.jvm, ())), expr_ids)

    def _foreign(self, node: CatalystNode, reason: str) -> ReadPlan:
        """An operator that Spark runs over inputs of ours."""
        if not self.is_inlined and (node.mentions("CTERelationRef") or node.kind == "WithCTE"):
            raise NeedsInlining
        if self.has_outer_reference(node):
            raise Untranslatable(reason)
        inputs: list[Plan] = []
        positions: list[tuple[tuple[int, ...], tuple[Column, ...]]] = []
        for position, child in enumerate(node.children):
            read = self.read(child)
            if read.code is not None and isinstance(read.plan, Foreign):
                inputs += read.plan.children
                positions += [((position, *path), columns) for path, columns in read.code.inputs]
                reason = f"{reason}; {read.plan.reason}" if reason not in read.plan.reason else read.plan.reason
            else:
                inputs.append(read.plan)
                scope = read.scope
                positions.append(((position,), tuple(scope[expr_id] for expr_id in read.expr_ids)))
        if self._outer and any(map(outer_columns, inputs)):
            raise Untranslatable(reason)
        columns, expr_ids = self.output_of(node)
        code = OperatorCode(node.jvm, tuple(positions))
        named = tuple((f"input_{i}", plan) for i, plan in enumerate(inputs, 1))
        is_serial = node.kind == "Repartition" and node.fields.get("numPartitions") == 1
        return ReadPlan(Foreign(_first_line(node.jvm), named, columns, reason, code, is_serial), expr_ids, code)


def _with_cte(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    node.allow_only("plan", "cteDefs")
    *definitions, query = node.children
    for each in definitions:
        if each.kind != "CTERelationDef":
            raise NeedsInlining
        definition = reader.child(each).plan
        if outer_columns(definition):
            raise NeedsInlining
        (alias,) = each.children
        name = (alias.fields.get("identifier") or {}).get("name") or "shared"
        reader.shared[each.fields["id"]] = Shared(name, definition)
    return reader.read(query)


def _cte_reference(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    output = node.expressions("output")
    shared = reader.shared.get(node.fields["cteId"])
    if shared is None or node.fields.get("recursive") or len(output) != len(shared.columns):
        raise NeedsInlining
    return several_inputs.reference(reader, shared, output)


# Operators that need a distribution of their own, whatever that of their inputs is.
_REDISTRIBUTES = {"Aggregate", "Distinct", "Deduplicate", "Join", "Intersect", "Except", "Window"}
_REPARTITIONS = {"Repartition", "RepartitionByExpression", "RebalancePartitions"}


def _without_repartition(node: CatalystNode) -> CatalystNode:
    """The input of such an operator. A shuffle there is a hint how to run it, which is what we decide. (`coalesce` does not
    shuffle: it keeps the order of rows, which an aggregate may show. A shuffle below a user's function spreads its work.)"""
    while node.kind in _REPARTITIONS and node.fields.get("shuffle", True):
        (node,) = node.children
    is_cheap = not any(map(node.mentions, ("PythonUDF", "ScalaUDF")))
    if node.kind in ("Project", "Filter", "SubqueryAlias") and len(node.children) == 1 and is_cheap:
        node.children = (_without_repartition(node.children[0]),)
    return node


Rule = Callable[[PlanReader, CatalystNode], ReadPlan]
RULES: dict[str, Rule] = {
    "SubqueryAlias": PlanReader.child,
    "View": leaves.view,
    "ResolvedHint": PlanReader.child,  # a hint how to run it, which is what we decide
    "OneRowRelation": leaves.one_row,
    "LocalRelation": leaves.local,
    "Range": leaves.range_,
    "Project": one_input.project,
    "Filter": one_input.filter_,
    "Sort": one_input.sort,
    "GlobalLimit": one_input.limit,
    "Offset": one_input.offset,
    "Distinct": one_input.distinct,
    "Deduplicate": grouping.deduplicate,
    "Aggregate": grouping.aggregate,
    "Expand": grouping.expand,
    "Window": one_input.window,
    "Join": several_inputs.join,
    "Union": several_inputs.union,
    "Intersect": lambda reader, node: several_inputs.set_operation(reader, node, SetKind.INTERSECT),
    "Except": lambda reader, node: several_inputs.set_operation(reader, node, SetKind.EXCEPT),
    "WithCTE": _with_cte,
    "CTERelationRef": _cte_reference,
}
# Operators that Spark keeps in other packages.
OTHER_RULES: dict[str, Rule] = {
    "LogicalRelation": leaves.file_relation,
    "PipeOperator": PlanReader.child,  # marks a step of pipe syntax
}


def _first_line(operator: Any) -> str:
    text: str = operator.simpleString(25)
    return text.splitlines()[0] if text else ""
