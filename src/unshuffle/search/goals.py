"""Goals: a group with the properties required of it, and the best plan found so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unshuffle.constants import SEARCH
from unshuffle.frozen import dataclass
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Clustered, RangeOrdered, Required
from unshuffle.search.lower_bounds import Shape, StartsTasks, least_startup, shape_required
from unshuffle.search.requirement_pushdown import simplified
from unshuffle.search.trace import Trace

if TYPE_CHECKING:
    from unshuffle.search.memo import Group


@dataclass(slots=True)
class Goal:
    required: Required  # simplified
    shape: Shape
    best: PhysicalPlan | None = None
    exhausted: float = -1.0  # without a best plan: no plan costs less than this

    @property
    def lower_bound(self) -> float:
        """No plan of this goal, or of a stricter one, costs less."""
        return self.best.cost if self.best is not None else self.exhausted

    def next_limit(self, limit: float) -> float:
        """The limit of a search that is asked for plans below `limit`: after a search that failed, a much higher one."""
        return max(limit, SEARCH.raised_limit * self.exhausted)

    def settle(self, best: PhysicalPlan | None, searched: float, limit: float) -> PhysicalPlan | None:
        """Records the outcome of a search for plans that cost less than `searched`. Returns the plan if it costs less than
        `limit`."""
        self.best = best
        if best is None:
            self.exhausted = max(searched, 0.0)
            return None
        return best if best.cost < limit else None


Goals = dict[Required, Goal]


def goal_for(goals: Goals, group: Group, required: Required, trace: Trace) -> Goal:
    """The goal of a requirement. Requirements that simplify to the same one share a goal."""
    goal = goals.get(required)
    if goal is None:
        simple = simplified(required, group.facts, group.column_set)
        goal = goals.get(simple)
        if goal is None:
            goal = goals[simple] = Goal(simple, shape_required(simple))
            trace.opened(group.number, simple)
        goals[required] = goal
    return goal


def unsorted(required: Required) -> Required:
    """The requirement without its order."""
    return Required(required.partitioning, (), required.largest)


def unsorted_lower_bound(goals: Goals, required: Required) -> float:
    """A lower bound from the same goal without an order, if that was opened."""
    weaker = goals.get(unsorted(required)) if required.local else None
    return weaker.lower_bound if weaker is not None else 0.0


def lower_bound(group: Group, required: Required, model: StartsTasks) -> float:
    """A lower bound on the cost of a requirement, without a search."""
    return max(_known_lower_bound(group, required), least_startup(required, model))


def _known_lower_bound(group: Group, required: Required) -> float:
    goal: Goal | None = group.goals.get(required)
    if goal is not None:
        return max(group.lower_bounds[goal.shape], goal.lower_bound)
    # Before it is simplified, such a requirement may be weaker than its shape says.
    may_be_weaker = isinstance(required.partitioning, Clustered | RangeOrdered)
    return group.lower_bounds[Shape.ANY if may_be_weaker else shape_required(required)]
