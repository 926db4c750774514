"""The execution graph of a plan: stages, and the number of tasks of each (SIGMOD 2012, Figure 1(c) and (d)).

A stage is a group of operators that one task runs after another on one partition, a super-vertex of the paper. It ends where
rows are exchanged: at a shuffle or a broadcast, which its last operator writes and the next stage reads. An exchange that is
read in place moves nothing and ends no stage. A rowset that is computed once is a stage that all of its readers read.

    stage 3   8 tasks    HashJoin
    stage 2   8 tasks       Exchange   Filter   Scan users
    stage 1   24 tasks      Exchange   HashAggregate   Scan visits
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from unshuffle.frozen import dataclass
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan


@dataclass(frozen=True, slots=True)
class Stage:
    """Operators that run in the same tasks, the last one first. `reads` are the numbers of the stages whose rows it reads."""

    number: int
    tasks: int
    operators: tuple[PhysicalPlan, ...]
    reads: tuple[int, ...]


class ExecutionGraph:
    """The stages of a plan. A stage has a higher number than the stages that it reads."""

    def __init__(self, optimized: PlannedQuery) -> None:
        self.stages: list[Stage] = []
        self._ending_in: dict[int, int] = {}  # the number of a stage, by the id of its last operator
        self._spools: Mapping[int, PhysicalPlan] = {spool.number: spool.plan for spool in optimized.spools}
        for spool in optimized.spools:
            self._stage_of(spool.plan)
        for _, plan in optimized.subqueries:
            self._stage_of(plan)
        for _, plan in optimized.outputs:
            self._stage_of(plan)

    def ending_in(self, node: PhysicalPlan) -> int:
        """The number of the stage whose last operator this is. An operator of several plans runs in a stage of each."""
        return self._ending_in[id(node)]

    def _stage_of(self, top: PhysicalPlan) -> int:
        """Numbers the stages below one and the stage itself."""
        if id(top) in self._ending_in:
            return self._ending_in[id(top)]
        walk = _Walk(self._spools)
        walk.visit(top)
        reads = tuple(dict.fromkeys(self._stage_of(each) for each in walk.boundaries))
        number = len(self.stages) + 1
        self.stages.append(Stage(number, _tasks(top), tuple(walk.operators), reads))
        self._ending_in[id(top)] = number
        return number


@dataclass(frozen=True, slots=True)
class _Walk:
    """The operators of one stage, and the last operators of the stages below it."""

    spools: Mapping[int, PhysicalPlan]
    operators: list[PhysicalPlan] = field(default_factory=list)
    boundaries: list[PhysicalPlan] = field(default_factory=list)

    def visit(self, node: PhysicalPlan) -> None:
        self.operators.append(node)
        if isinstance(node.operator, physical.ReadSpool):
            self.boundaries.append(self.spools[node.operator.spool])
        for each in node.inputs:
            if is_boundary(each):
                self.boundaries.append(each)
            else:
                self.visit(each)


def is_boundary(node: PhysicalPlan) -> bool:
    """Does the operator end a stage?"""
    return isinstance(node.operator, physical.Exchange) and node.operator.readers is None


def _tasks(top: PhysicalPlan) -> int:
    """The last operator of a stage runs once for each partition that it reads, if it exchanges rows, or makes, if not."""
    return (top.inputs[0] if is_boundary(top) else top).size.partitions
