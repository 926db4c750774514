"""What a node claims must follow from what is derived of it, and what it claims of its files and exchanges must be so."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.properties import (
    Clustered,
    Covering,
    Covers,
    Delivered,
    Dependencies,
    Exactly,
    Exchange,
    FullMerge,
    LiesWithin,
    PartialMerge,
    Partitioned,
    Proof,
    Repartitioning,
    Replicated,
    Required,
    Scattered,
    Serial,
    Within,
    match,
    partitions_of,
)
from unshuffle.properties.delivered import formula
from unshuffle.properties.exchange import SortConcatMerge, SortMerge
from unshuffle.properties.functions import Unknown
from unshuffle.properties.layouts import connections
from unshuffle.properties.match_local import implied_local
from unshuffle.verify.refusal import refused


def check_claim(node: Physical, delivered: Delivered, facts: Dependencies) -> None:
    if not follows(delivered, node.delivered, facts):
        raise refused(node, f"claims to deliver {node.delivered}, but delivers {delivered}")
    count = partitions_of(node.delivered.partitioning)
    if count is not None and count != node.amount.partitions:
        raise refused(node, f"is costed for {node.amount.partitions} partitions and makes {count}")


def follows(delivered: Delivered, claimed: Delivered, facts: Dependencies) -> bool:
    """Is all that is claimed implied by what is delivered?"""
    if claimed == delivered:
        return True
    return implied_local(delivered.local, claimed.local, facts) and _layout_follows(delivered, claimed, facts)


def _layout_follows(delivered: Delivered, claimed: Delivered, facts: Dependencies) -> bool:
    have, said = delivered.partitioning, claimed.partitioning
    counts = partitions_of(have), partitions_of(said)
    if None not in counts and counts[0] != counts[1]:
        return False
    match said:
        case Serial():
            return isinstance(formula(have, facts), Serial)
        case Replicated():
            return isinstance(have, Replicated)
        case Covering():
            return isinstance(match(Delivered(have), Required(Covers(said)), facts), Proof)
        case Within():
            return isinstance(match(Delivered(have), Required(LiesWithin(said)), facts), Proof)
        case Scattered():
            return not isinstance(have, Replicated | Covering)
        case Partitioned(function=Unknown()):
            together = Clustered(frozenset(said.columns), nulls_meet=not said.nulls_apart)
            return isinstance(match(Delivered(have), Required(together), facts), Proof)
        case Partitioned():
            return isinstance(match(Delivered(have), Required(Exactly(said)), facts), Proof)


def check_leaf(node: Physical) -> None:
    """Files are laid out as they are stored; where nothing is said of that, they can be cut into pieces and no more."""
    operator = node.operator
    if not isinstance(operator, ops.FileScan):
        return
    stored = operator.scan.layout
    if operator.readers is not None:
        layout = operator.layout.partitioning
        plain = replace(operator, layout=stored or Delivered(Scattered()), readers=None)
        if not isinstance(layout, Partitioned) or plain.read_as(layout) != operator:
            raise refused(node, f"claims to read its files as {operator.layout}, which they cannot be read as")
    elif operator.layout.local or not isinstance(operator.layout.partitioning, Serial | Scattered):
        if stored is None:
            raise refused(node, f"claims that its files are laid out {operator.layout}, but nothing is known of that")
        if operator.layout != stored:
            raise refused(node, f"claims that its files are laid out {operator.layout}, but they are {stored}")


def check_exchange(node: Physical, operator: ops.Move, given: Delivered, facts: Dependencies) -> None:
    """A merge that takes the least row first needs streams that are in order. And partitions can be read where they lie, by
    some of the outputs only, if the old layout and the new are related."""
    how = operator.how
    merge = how.merge if isinstance(how, Repartitioning | FullMerge | PartialMerge) else None
    if isinstance(merge, SortMerge | SortConcatMerge) and not implied_local(given.local, merge.keys, facts):
        keys = ", ".join(map(str, merge.keys))
        raise refused(node, f"merges in the order {keys}, but its input delivers {given}")
    if operator.readers is not None and not _related(how, given, facts):
        raise refused(node, f"reads in place what its input, {given}, has elsewhere")


def _related(how: Exchange, given: Delivered, facts: Dependencies) -> bool:
    old, new = given.partitioning, how.scheme if isinstance(how, Repartitioning) else None
    if not isinstance(old, Partitioned) or not isinstance(new, Partitioned) or old.nulls_apart:
        return False
    same = all(facts.equal(one, other) for one, other in zip(old.columns, new.columns, strict=False))
    return same and connections(old.function, new.function) is not None
