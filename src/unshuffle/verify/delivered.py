"""The layout that the search recorded on a node follows from the layout that is derived here."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    BroadcastTo,
    Clustered,
    Delivered,
    Dependencies,
    Exactly,
    ExactlyPrefix,
    FullMerge,
    PartialMerge,
    Partitioned,
    PrefixPartitioned,
    Proof,
    Repartitioning,
    Replicated,
    Required,
    Serial,
    TargetedBroadcast,
    Topology,
    UnknownPartitioning,
    match,
    partitions_of,
)
from unshuffle.properties.layouts.delivered import formula
from unshuffle.properties.layouts.exchange import SortConcatMerge, SortMerge
from unshuffle.properties.layouts.partition_functions import UnknownFunction
from unshuffle.properties.layouts.related_layouts import connections
from unshuffle.properties.matching.match_local import implied_local
from unshuffle.verify.invalid_plan import invalid_plan


def check_recorded(node: PhysicalPlan, delivered: Delivered, facts: Dependencies) -> None:
    if not implies(delivered, node.delivered, facts):
        raise invalid_plan(node, f"is recorded as delivering {node.delivered}, but delivers {delivered}")
    count = partitions_of(node.delivered.partitioning)
    if count is not None and count != node.size.partitions:
        raise invalid_plan(node, f"is costed for {node.size.partitions} partitions, but makes {count}")


def implies(delivered: Delivered, recorded: Delivered, facts: Dependencies) -> bool:
    """Does a delivered layout imply the recorded one?"""
    if recorded == delivered:
        return True
    return implied_local(delivered.local, recorded.local, facts) and _implies_partitioning(delivered, recorded, facts)


def _implies_partitioning(delivered: Delivered, recorded: Delivered, facts: Dependencies) -> bool:
    actual, required = delivered.partitioning, recorded.partitioning
    counts = partitions_of(actual), partitions_of(required)
    if None not in counts and counts[0] != counts[1]:
        return False
    match required:
        case Serial():
            return isinstance(formula(actual, facts), Serial)
        case Replicated():
            return isinstance(actual, Replicated)
        case TargetedBroadcast():
            return isinstance(match(Delivered(actual), Required(BroadcastTo(required)), facts), Proof)
        case PrefixPartitioned():
            return isinstance(match(Delivered(actual), Required(ExactlyPrefix(required)), facts), Proof)
        case UnknownPartitioning():
            return not isinstance(actual, Replicated | TargetedBroadcast)
        case Partitioned(function=UnknownFunction()):
            clustered = Clustered(frozenset(required.columns), nulls_meet=not required.nulls_anywhere)
            return isinstance(match(Delivered(actual), Required(clustered), facts), Proof)
        case Partitioned():
            return isinstance(match(Delivered(actual), Required(Exactly(required)), facts), Proof)


def check_scan(node: PhysicalPlan) -> None:
    """A scan delivers the stored layout of its files, a layout they can be read as in place, or no known layout."""
    operator = node.operator
    if not isinstance(operator, physical.FileScan):
        return
    stored = operator.scan.layout
    if operator.readers is not None:
        layout = operator.layout.partitioning
        as_stored = replace(operator, layout=stored or Delivered(UnknownPartitioning()), readers=None)
        if not isinstance(layout, Partitioned) or as_stored.read_as(layout) != operator:
            raise invalid_plan(node, f"reads its files as {operator.layout}, which is impossible")
    elif operator.layout.local or not isinstance(operator.layout.partitioning, Serial | UnknownPartitioning):
        if stored is None:
            raise invalid_plan(node, f"reads its files as {operator.layout}, but they have no stored layout")
        if operator.layout != stored:
            raise invalid_plan(node, f"reads its files as {operator.layout}, but they are stored as {stored}")


def check_exchange(node: PhysicalPlan, operator: physical.Exchange, delivered: Delivered, facts: Dependencies) -> None:
    """A sort merge needs sorted inputs. Partitions can be read in place only if the old and the new layout are related."""
    how = operator.how
    merge = how.merge if isinstance(how, Repartitioning | FullMerge | PartialMerge) else None
    if isinstance(merge, SortMerge | SortConcatMerge) and not implied_local(delivered.local, merge.keys, facts):
        keys = ", ".join(map(str, merge.keys))
        raise invalid_plan(node, f"merges in the order {keys}, but its input delivers {delivered}")
    if operator.readers is not None and not _are_related(how, delivered, facts):
        raise invalid_plan(node, f"reads its input in place, but {delivered} has the rows elsewhere")


def _are_related(how: Topology, delivered: Delivered, facts: Dependencies) -> bool:
    old, new = delivered.partitioning, how.scheme if isinstance(how, Repartitioning) else None
    if not isinstance(old, Partitioned) or not isinstance(new, Partitioned) or old.nulls_anywhere:
        return False
    same = all(facts.equal(one, other) for one, other in zip(old.columns, new.columns, strict=False))
    return same and connections(old.function, new.function) is not None
