"""The exchanges and sorts of a plan: the requirement that forced each, and an unknown fact that would make it unnecessary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.cost.model import CostModel
from unshuffle.explain.why.fewer_columns import exchanges_on_fewer_columns
from unshuffle.explain.why.layout_origin import descend
from unshuffle.explain.why.what_if import DerivedPlan, UnmetRequirement, WhatIf, with_dependencies
from unshuffle.frozen import dataclass
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Clustered,
    CoPartitioned,
    Delivered,
    InitialPartitioning,
    Partitioned,
    PrefixPartitioned,
    Repartitioning,
    Required,
    Serial,
    Sorted,
    UnknownPartitioning,
)
from unshuffle.properties.layouts.partition_functions import UnknownFunction


@dataclass(frozen=True, slots=True)
class DependencyRemedy:
    """The enforcer is unnecessary if these dependencies hold. `partitioned_on` are the columns that the exchanges of a join
    below must then partition on instead of theirs."""

    dependencies: tuple[Dependency, ...]
    partitioned_on: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class StorageRemedy:
    """The enforcer is unnecessary if these files are stored in this layout. `removed` are all nodes that would go."""

    scan: physical.FileScan
    layout: Delivered
    removed: tuple[PhysicalPlan, ...]


Remedy = DependencyRemedy | StorageRemedy


@dataclass(frozen=True, slots=True)
class KeptEnforcer:
    """An exchange or a sort, the requirement that is unmet without it, and a remedy if one is found."""

    node: PhysicalPlan
    forced_by: UnmetRequirement | None  # None: no requirement, but the plan is cheaper with it
    remedy: Remedy | None


def kept_enforcers(plan: DerivedPlan) -> Iterator[KeptEnforcer]:
    for node in plan.nodes():
        if isinstance(node.operator, physical.Exchange | physical.LocalSort):
            forced_by = _first_unmet(WhatIf(plan, [node]).unmet)
            yield KeptEnforcer(node, forced_by, _remedy(plan, node, forced_by) if forced_by is not None else None)


def _first_unmet(unmet: Sequence[UnmetRequirement]) -> UnmetRequirement | None:
    """The first requirement, from the leaves up. If its node also requires co-partitioned inputs, that says more."""
    if not unmet:
        return None
    joint = [each for each in unmet if each.node is unmet[0].node and isinstance(each.required, CoPartitioned)]
    return (joint or unmet)[0]


def _remedy(plan: DerivedPlan, node: PhysicalPlan, forced_by: UnmetRequirement) -> Remedy | None:
    what_if = WhatIf(plan, [node], assume_dependencies=True)
    if what_if.assumed and not what_if.unmet:
        return DependencyRemedy(tuple(dict.fromkeys(what_if.assumed)))
    for below, dependency in _dependencies_below(plan, node, forced_by):
        delivered, facts = plan.state(below)
        state = (delivered, with_dependencies(facts, [dependency]))
        if not WhatIf(plan, [node], {below: state}).unmet:
            return DependencyRemedy((dependency,))
    if isinstance(forced_by.required, Required) and isinstance(forced_by.required.partitioning, Clustered):
        for fewer in exchanges_on_fewer_columns(plan, node, forced_by.required.partitioning):
            if not WhatIf(plan, [node], fewer.states).unmet:
                on = tuple(fewer.dependency.dependent)
                return DependencyRemedy((fewer.dependency,), on)
    for remedy, scan in _stored_layouts(plan, node):
        if not WhatIf(plan, remedy.removed, {scan: (remedy.layout, plan.state(scan)[1])}).unmet:
            return remedy
    return None


def _dependencies_below(
    plan: DerivedPlan, node: PhysicalPlan, forced_by: UnmetRequirement
) -> Iterator[tuple[PhysicalPlan, Dependency]]:
    """Dependencies that would preserve a layout below the enforcer whose columns are dropped on the way up: the required
    columns would have to determine the dropped ones."""
    required = forced_by.required.partitioning if isinstance(forced_by.required, Required) else None
    if not isinstance(required, Clustered) or forced_by.input is None:
        return
    start = forced_by.node.inputs[forced_by.input]
    is_below_enforcer = False
    for below, columns in descend(plan, start, sorted(required.maximum, key=lambda c: c.id), through=node):
        partitioning = plan.state(below)[0].partitioning
        is_known = isinstance(partitioning, Partitioned) and not isinstance(partitioning.function, UnknownFunction)
        if is_below_enforcer and isinstance(partitioning, Partitioned) and is_known:
            dropped = frozenset(partitioning.columns) - frozenset(columns)
            if dropped:
                yield below, Dependency(frozenset(columns), dropped)
            return
        is_below_enforcer = is_below_enforcer or below is node


def _stored_layouts(plan: DerivedPlan, node: PhysicalPlan) -> Iterator[tuple[StorageRemedy, PhysicalPlan]]:
    """The layout that the enforcer makes, as a layout of the files that its rows come from."""
    below = node.inputs[0]
    operator = node.operator
    removed: tuple[PhysicalPlan, ...] = (node,)
    source, keys = below, tuple[Sorted, ...]()
    scheme: Partitioned | None = None
    if isinstance(operator, physical.LocalSort):
        keys = operator.keys
        if isinstance(below.operator, physical.Exchange):
            removed, source = (node, below), below.inputs[0]
            scheme = _exchange_scheme(below.operator)
    else:
        scheme = _exchange_scheme(operator)
    has_exchange = len(removed) == 2 or not isinstance(operator, physical.LocalSort)
    if has_exchange and scheme is None:
        return
    partition_columns = scheme.columns if scheme is not None else ()
    *_, (scan, columns) = descend(plan, source, (*partition_columns, *(key.column for key in keys)))
    if not isinstance(scan.operator, physical.FileScan):
        return
    split = len(partition_columns)
    local = tuple(key.on(column) for key, column in zip(keys, columns[split:], strict=True))
    stored = Partitioned(scheme.function, tuple(columns[:split])) if scheme is not None else _unsorted(plan, scan)
    if stored is not None and not (isinstance(stored, Partitioned) and _costs_more(plan, scan, removed)):
        yield StorageRemedy(scan.operator, Delivered(stored, local), removed), scan


def _costs_more(plan: DerivedPlan, scan: PhysicalPlan, removed: Sequence[PhysicalPlan]) -> bool:
    """Spark reads rows one at a time, not in batches, if their layout is claimed to it. If the enforcers move few rows,
    that costs more than they do."""
    machine = plan.optimized.target.machine
    reading = CostModel(machine).elapsed(scan.size.rows * machine.stored_row, scan.size)
    return sum(each.own.seconds for each in removed) <= reading


def _exchange_scheme(operator: object) -> Partitioned | None:
    how = operator.how if isinstance(operator, physical.Exchange) else None
    scheme = how.scheme if isinstance(how, InitialPartitioning | Repartitioning) else None
    return scheme if isinstance(scheme, Partitioned) else None


def _unsorted(
    plan: DerivedPlan, scan: PhysicalPlan
) -> Serial | UnknownPartitioning | PrefixPartitioned | Partitioned | None:
    partitioning = plan.state(scan)[0].partitioning
    return (
        partitioning
        if isinstance(partitioning, Serial | UnknownPartitioning | PrefixPartitioned | Partitioned)
        else None
    )
