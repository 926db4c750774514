"""The plan as it would be: without some exchange or sort, with files stored otherwise, with a dependency not declared.

Only what stands above a change is derived again. Requirements that are no longer met are noted, not refused, and the
derivation goes on with what is really there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.schema import Dependency
from unshuffle.optimizer import Optimized
from unshuffle.properties import (
    Clustered,
    Delivered,
    Dependencies,
    ExchangeError,
    Joint,
    Proof,
    Required,
    Scattered,
    Sorted,
    Unaligned,
    Unmet,
    match,
    match_joint,
    project,
)
from unshuffle.properties.structure import columns_of
from unshuffle.properties.through import through_project
from unshuffle.verify import Derivation
from unshuffle.verify.outputs import asked_order, in_order
from unshuffle.verify.rederive import facts_after, read_back, untold

State = tuple[Delivered, Dependencies]


class Whole:
    """A plan with what was derived of it."""

    def __init__(self, optimized: Optimized, derivation: Derivation) -> None:
        self.optimized = optimized
        self.derivation = derivation
        self.spools = {spool.number: spool.plan for spool in optimized.spools}

    def nodes(self) -> Iterator[Physical]:
        """Every node once, outermost first."""
        seen: set[int] = set()
        for root in self.optimized.roots:
            for node in root.walk():
                if id(node) not in seen:
                    seen.add(id(node))
                    yield node

    def state(self, node: Physical) -> State:
        standing = self.derivation.of(node)
        return _as_stored(node) or standing.delivered, standing.facts


def _as_stored(node: Physical) -> Delivered | None:
    """Of files that are read in pieces because their layout serves nobody, the layout that might."""
    operator = node.operator
    if isinstance(operator, ops.FileScan) and isinstance(operator.layout.partitioning, Scattered):
        return operator.scan.layout
    return None


@dataclass(frozen=True, slots=True)
class Broken:
    """A requirement that would not be met: whose it is, what it asks, and what is missing."""

    node: Physical
    place: int | None  # the input that would be otherwise; None at the end of the plan
    required: Required | Joint
    given: Delivered
    missing: Unmet | Unaligned | str


class Imagined:
    def __init__(
        self,
        whole: Whole,
        removed: Iterable[Physical] = (),
        given: Mapping[Physical, State] | None = None,
        assuming: bool = False,
    ) -> None:
        """`given` says what else would hold of some nodes. With `assuming`, dependencies are assumed wherever one would
        meet a requirement."""
        self.broken: list[Broken] = []
        self.assumed: list[Dependency] = []
        self._whole = whole
        self._removed = frozenset(map(id, removed))
        self._given = {id(node): state for node, state in (given or {}).items()}
        self._assuming = assuming
        self._states: dict[int, State] = {}
        self._is_changed: dict[int, bool] = {}
        for output, plan in whole.optimized.outputs:
            self._end(plan, asked_order(output.plan))
        for spool in whole.optimized.spools:
            self._end(spool.plan, ())
        for _, plan in whole.optimized.subqueries:
            self._end(plan, ())

    def _end(self, plan: Physical, order: tuple[Sorted, ...]) -> None:
        if self._changed(plan):
            delivered, facts = self._state(plan)
            if not in_order(delivered, order, facts):
                missing = "the result would not be in order"
                self.broken.append(Broken(plan, None, Required(local=order), delivered, missing))

    def _changed(self, node: Physical) -> bool:
        found = self._is_changed.get(id(node))
        if found is None:
            below = list(node.inputs)
            if isinstance(node.operator, ops.ReadSpool):
                below.append(self._whole.spools[node.operator.spool])
            found = id(node) in self._removed or id(node) in self._given or any(map(self._changed, below))
            self._is_changed[id(node)] = found
        return found

    def _state(self, node: Physical) -> State:
        if not self._changed(node):
            return self._whole.state(node)
        found = self._states.get(id(node))
        if found is None:
            found = self._states[id(node)] = self._derived(node)
        return found

    def _derived(self, node: Physical) -> State:
        if id(node) in self._removed:
            return self._state(node.inputs[0])
        if id(node) in self._given:
            return self._given[id(node)]
        if isinstance(node.operator, ops.ReadSpool):
            return self._read(node.operator)
        standing = self._whole.derivation.of(node)
        below = [self._state(each) for each in node.inputs]
        wishes = standing.alternative.children
        facts = [self._met(node, place, wish, below[place]) for place, wish in enumerate(wishes)]
        given = [delivered for delivered, _ in below]
        if standing.alternative.joint is not None:
            together = match_joint(list(zip(given, facts, strict=True)), standing.alternative.joint)
            if isinstance(together, Unaligned):
                place = next(place for place, each in enumerate(node.inputs) if self._changed(each))
                self.broken.append(Broken(node, place, standing.alternative.joint, given[place], together))
        plan = read_back(node.operator, [each.columns for each in node.inputs])
        try:
            delivered = untold(node.operator, plan).deliver(given, facts)
        except ExchangeError as problem:
            self.broken.append(Broken(node, 0, Required(), given[0], str(problem)))
            delivered = Delivered(Scattered())
        same = all(known is self._whole.state(each)[1] for known, each in zip(facts, node.inputs, strict=True))
        return delivered, standing.facts if same else facts_after(plan, facts)

    def _read(self, operator: ops.ReadSpool) -> State:
        plan = self._whole.spools[operator.spool]
        delivered, facts = self._state(plan)
        names = dict(zip(operator.columns, plan.columns, strict=True))
        return through_project(delivered, facts, (), names), project(facts, renamed=names)

    def _met(self, node: Physical, place: int, wish: Required, below: State) -> Dependencies:
        """The facts of an input; with what must be assumed for it to meet the requirement."""
        delivered, facts = below
        missing = match(delivered, wish, facts)
        if isinstance(missing, Proof):
            return facts
        if self._assuming:
            extra = list(_would_do(wish, missing))
            more = with_dependencies(facts, extra)
            if extra and isinstance(match(delivered, wish, more), Proof):
                self.assumed.extend(extra)
                return more
        self.broken.append(Broken(node, place, wish, delivered, missing))
        return facts


def _would_do(wish: Required, missing: Unmet) -> Iterator[Dependency]:
    """Dependencies that would make up for what is missing."""
    undetermined = missing.partitioning.undetermined if missing.partitioning is not None else None
    if undetermined and isinstance(wish.partitioning, Clustered):
        yield Dependency(wish.partitioning.maximum, undetermined)
    if missing.order is not None and missing.order.held:
        yield Dependency(columns_of(missing.order.held), columns_of(missing.order.missing))


def with_dependencies(facts: Dependencies, more: Iterable[Dependency]) -> Dependencies:
    return Dependencies.of((*facts.functional, *more), facts.classes, facts.keys, facts.never_null, facts.lax)
