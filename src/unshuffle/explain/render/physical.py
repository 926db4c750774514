"""A planned query as a tree of nodes: the physical plan.

There is one tree for each output, then one for each spool and one for each uncorrelated subquery. `OrderBy` does no work: it
requires an order, and the plan below delivers it.
"""

from __future__ import annotations

from unshuffle.explain.phrases.layouts import LayoutText
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.explain.render.logical import target_facts
from unshuffle.explain.render.node import DisplayNode, DisplayStage, Execution
from unshuffle.explain.render.physical_operators import OperatorText
from unshuffle.explain.stages import ExecutionGraph, is_boundary
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.logical import Plan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.search.spools import Spool


def physical_tree(optimized: PlannedQuery, renumbered: bool = False) -> tuple[DisplayNode, ...]:
    return PlanDrawing(optimized, renumbered).roots()


class PlanDrawing:
    """Draws the operators of one planned query, with its column names."""

    def __init__(self, optimized: PlannedQuery, renumbered: bool = False) -> None:
        self.optimized = optimized
        columns = (column for root in optimized.roots for node in root.walk() for column in node.columns)
        self._subqueries = {query.columns: number for number, (query, _) in enumerate(optimized.subqueries, 1)}
        self.names = ColumnNames(columns, self._subquery, renumbered)
        self.layouts = LayoutText(self.names)
        self.operators = OperatorText(self.names, self.layouts)
        self.graph = ExecutionGraph(optimized)

    def roots(self) -> tuple[DisplayNode, ...]:
        optimized = self.optimized
        return (
            *(
                DisplayNode("Output", target_facts(output, self.names), plan.columns, None, (self._root(plan),))
                for output, plan in optimized.outputs
            ),
            *(self._spool(spool) for spool in optimized.spools),
            *(
                DisplayNode("Subquery", (("", str(number)),), plan.columns, None, (self._root(plan),))
                for number, (_, plan) in enumerate(optimized.subqueries, 1)
            ),
        )

    def stages(self) -> tuple[DisplayStage, ...]:
        """The stages, with the names of their operators in the order in which rows pass them."""
        return tuple(
            DisplayStage(
                stage.number,
                stage.tasks,
                tuple(self.operators.describe(node.operator)[0] for node in reversed(stage.operators)),
                stage.reads,
            )
            for stage in self.graph.stages
        )

    def _spool(self, spool: Spool) -> DisplayNode:
        facts = [("", spool.name), ("read", f"{spool.uses} times")]
        if not spool.kept:
            facts.append(("", "from one reused exchange"))
        child = self._root(spool.plan)
        return DisplayNode("Spool", tuple(facts), spool.plan.columns, None, (child,), shared_as=spool.name)

    def _root(self, plan: PhysicalPlan) -> DisplayNode:
        return self._node(plan, self.graph.ending_in(plan))

    def _node(self, plan: PhysicalPlan, stage: int) -> DisplayNode:
        name, facts = self.operators.describe_node(plan)
        refers_to = plan.operator.name if isinstance(plan.operator, physical.ReadSpool) else None
        children = tuple(
            self._node(each, self.graph.ending_in(each) if is_boundary(each) else stage) for each in plan.inputs
        )
        shown = tuple((label, value) for label, value in facts if value)
        return DisplayNode(name, shown, plan.columns, None, children, None, refers_to, self._execution(plan, stage))

    def _execution(self, plan: PhysicalPlan, stage: int) -> Execution:
        layout = self.layouts.layout(plan.delivered)
        input_layout = self.layouts.layout(plan.inputs[0].delivered) if len(plan.inputs) == 1 else None
        return Execution(
            plan.alternative,
            layout,
            layout != input_layout,
            plan.size.rows,
            plan.size.bytes,
            plan.size.partitions,
            plan.own.seconds,
            plan.cost,
            stage,
        )

    def _subquery(self, plan: Plan) -> str:
        number = self._subqueries.get(plan.columns)
        return f"subquery {number}" if number is not None else "subquery"
