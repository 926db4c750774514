"""A plan under changed assumptions: without some exchange or sort, with files stored otherwise, or with a further dependency.

Only nodes above a change are derived again. A requirement that is no longer met is recorded, not raised, and the derivation
continues with the actual layouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from unshuffle.catalog.schema import Dependency
from unshuffle.frozen import dataclass
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Clustered,
    Delivered,
    Dependencies,
    ExchangeError,
    Joint,
    Proof,
    Required,
    Sorted,
    Unaligned,
    UnknownPartitioning,
    Unmet,
    match,
    match_joint,
    project,
)
from unshuffle.properties.layouts.propagate import through_project
from unshuffle.properties.layouts.structure import columns_of
from unshuffle.verify import Derivation
from unshuffle.verify.outputs import is_ordered, required_layout, required_order
from unshuffle.verify.rederive import facts_after, to_logical, without_search_results

State = tuple[Delivered, Dependencies]


class DerivedPlan:
    """A plan with its derivation."""

    def __init__(self, optimized: PlannedQuery, derivation: Derivation) -> None:
        self.optimized = optimized
        self.derivation = derivation
        self.spools = {spool.number: spool.plan for spool in optimized.spools}

    def nodes(self) -> Iterator[PhysicalPlan]:
        """Every node once, from the roots down."""
        seen: set[int] = set()
        for root in self.optimized.roots:
            for node in root.walk():
                if id(node) not in seen:
                    seen.add(id(node))
                    yield node

    def state(self, node: PhysicalPlan) -> State:
        derived = self.derivation.of(node)
        return _unused_stored_layout(node) or derived.delivered, derived.facts


def _unused_stored_layout(node: PhysicalPlan) -> Delivered | None:
    """The stored layout of files that the plan reads in pieces, because no operator needs the layout."""
    operator = node.operator
    if isinstance(operator, physical.FileScan) and isinstance(operator.layout.partitioning, UnknownPartitioning):
        return operator.scan.layout
    return None


@dataclass(frozen=True, slots=True)
class UnmetRequirement:
    """A requirement that would not be met, and what is missing."""

    node: PhysicalPlan
    input: int | None  # the input that changed; None for the order or the layout of a result
    required: Required | Joint
    delivered: Delivered
    missing: Unmet | Unaligned | str


class WhatIf:
    """The requirements that are `unmet` if some nodes are removed."""

    def __init__(
        self,
        plan: DerivedPlan,
        removed: Iterable[PhysicalPlan] = (),
        replaced: Mapping[PhysicalPlan, State] | None = None,
        assume_dependencies: bool = False,
    ) -> None:
        """`replaced` gives some nodes another layout and other facts. With `assume_dependencies`, a dependency is assumed
        wherever one would meet a requirement."""
        self.unmet: list[UnmetRequirement] = []
        self.assumed: list[Dependency] = []
        self._plan = plan
        self._removed = frozenset(map(id, removed))
        self._replaced = {id(node): state for node, state in (replaced or {}).items()}
        self._assume_dependencies = assume_dependencies
        self._states: dict[int, State] = {}
        self._is_changed: dict[int, bool] = {}
        for output, root in plan.optimized.outputs:
            if output.layout is None:
                self._check_root(root, required_order(output.plan))
            else:  # a stored layout has its own order, whatever the query says
                self._check_layout(root, output.layout)
        for spool in plan.optimized.spools:
            self._check_root(spool.plan, ())
        for _, root in plan.optimized.subqueries:
            self._check_root(root, ())

    def _check_root(self, root: PhysicalPlan, order: tuple[Sorted, ...]) -> None:
        if self._changed(root):
            delivered, facts = self._state(root)
            if not is_ordered(delivered, order, facts):
                missing = "the result would not be in order"
                self.unmet.append(UnmetRequirement(root, None, Required(local=order), delivered, missing))

    def _check_layout(self, root: PhysicalPlan, layout: Delivered) -> None:
        if self._changed(root):
            delivered, facts = self._state(root)
            required = required_layout(layout)
            missing = match(delivered, required, facts)
            if not isinstance(missing, Proof):
                self.unmet.append(UnmetRequirement(root, None, required, delivered, missing))

    def _changed(self, node: PhysicalPlan) -> bool:
        changed = self._is_changed.get(id(node))
        if changed is None:
            below = list(node.inputs)
            if isinstance(node.operator, physical.ReadSpool):
                below.append(self._plan.spools[node.operator.spool])
            changed = id(node) in self._removed or id(node) in self._replaced or any(map(self._changed, below))
            self._is_changed[id(node)] = changed
        return changed

    def _state(self, node: PhysicalPlan) -> State:
        if not self._changed(node):
            return self._plan.state(node)
        state = self._states.get(id(node))
        if state is None:
            state = self._states[id(node)] = self._derive(node)
        return state

    def _derive(self, node: PhysicalPlan) -> State:
        if id(node) in self._removed:
            return self._state(node.inputs[0])
        if id(node) in self._replaced:
            return self._replaced[id(node)]
        if isinstance(node.operator, physical.ReadSpool):
            return self._derive_spool_read(node.operator)
        derived = self._plan.derivation.of(node)
        inputs = [self._state(each) for each in node.inputs]
        required = derived.alternative.children
        facts = [self._check_input(node, i, each, inputs[i]) for i, each in enumerate(required)]
        layouts = [delivered for delivered, _ in inputs]
        joint = derived.alternative.joint
        if joint is not None:
            outcome = match_joint(list(zip(layouts, facts, strict=True)), joint)
            if isinstance(outcome, Unaligned):
                changed = next(i for i, each in enumerate(node.inputs) if self._changed(each))
                self.unmet.append(UnmetRequirement(node, changed, joint, layouts[changed], outcome))
        plan = to_logical(node.operator, [each.columns for each in node.inputs])
        try:
            delivered = without_search_results(node.operator, plan).deliver(layouts, facts)
        except ExchangeError as problem:
            self.unmet.append(UnmetRequirement(node, 0, Required(), layouts[0], str(problem)))
            delivered = Delivered(UnknownPartitioning())
        is_same = all(each is self._plan.state(below)[1] for each, below in zip(facts, node.inputs, strict=True))
        return delivered, derived.facts if is_same else facts_after(plan, facts)

    def _derive_spool_read(self, operator: physical.ReadSpool) -> State:
        spooled = self._plan.spools[operator.spool]
        delivered, facts = self._state(spooled)
        renamed = dict(zip(operator.columns, spooled.columns, strict=True))
        return through_project(delivered, facts, (), renamed), project(facts, renamed=renamed)

    def _check_input(self, node: PhysicalPlan, input: int, required: Required, state: State) -> Dependencies:
        """The facts of an input, with the dependencies that are assumed so that it meets the requirement."""
        delivered, facts = state
        missing = match(delivered, required, facts)
        if isinstance(missing, Proof):
            return facts
        if self._assume_dependencies:
            dependencies = list(_sufficient_dependencies(required, missing))
            extended = with_dependencies(facts, dependencies)
            if dependencies and isinstance(match(delivered, required, extended), Proof):
                self.assumed.extend(dependencies)
                return extended
        self.unmet.append(UnmetRequirement(node, input, required, delivered, missing))
        return facts


def _sufficient_dependencies(required: Required, missing: Unmet) -> Iterator[Dependency]:
    """Dependencies that would supply what is missing."""
    undetermined = missing.partitioning.undetermined if missing.partitioning is not None else None
    if undetermined and isinstance(required.partitioning, Clustered):
        yield Dependency(required.partitioning.maximum, undetermined)
    if missing.order is not None and missing.order.held:
        yield Dependency(columns_of(missing.order.held), columns_of(missing.order.missing))


def with_dependencies(facts: Dependencies, more: Iterable[Dependency]) -> Dependencies:
    return Dependencies.of((*facts.functional, *more), facts.classes, facts.keys, facts.never_null, facts.lax)
