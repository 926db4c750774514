"""What plain Spark would have shuffled or sorted, and this plan does not: the requirement and its proof.

Spark puts an exchange under every aggregate, join, window and ORDER BY whose keys the input is not literally partitioned
on, and a sort under every merge join, window and ORDER BY whose input is not literally sorted so. Where such a requirement
is met here with no exchange or sort that is there for its sake, there is a reason, and it is a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.properties import (
    Anyhow,
    Clustered,
    Delivered,
    EveryPartition,
    Joint,
    OnePartition,
    Partitioned,
    Proof,
    Required,
    RequiredPartitioning,
    match,
)
from unshuffle.properties.functions import Unknown
from unshuffle.properties.proof import HOLDS
from unshuffle.verify import Standing
from unshuffle.why.imagine import Whole
from unshuffle.why.kept import Kept
from unshuffle.why.tracing import descend


@dataclass(frozen=True, slots=True)
class Avoided:
    """A requirement that is met as rows lie. `given` are the layouts of the inputs it is about."""

    what: Literal["exchange", "sort"]
    node: Physical
    places: tuple[int, ...]
    required: Required | Joint
    given: tuple[Delivered, ...]
    proof: Proof


def avoided(whole: Whole, stays: Sequence[Kept]) -> Iterator[Avoided]:
    """`stays` are the exchanges and sorts of the plan, each with the requirement that it is there for."""
    forced = {
        (isinstance(each.node.operator, ops.LocalSort), id(each.forced.node), each.forced.place)
        for each in stays
        if each.forced is not None
    }
    for node in whole.nodes():
        standing = whole.derivation.of(node)
        places = range(len(node.inputs))
        if _spark_would_exchange(node):
            free = [place for place in places if (False, id(node), place) not in forced and not _moved(node, place)]
            yield from _exchanges(whole, standing, free)
        if _spark_would_sort(node):
            free = [place for place in places if (True, id(node), place) not in forced and not _sorted(node, place)]
            yield from _sorts(whole, standing, free)


def _spark_would_exchange(node: Physical) -> bool:
    match node.operator:
        case ops.HashAggregate(phase=phase, keys=keys) | ops.StreamAggregate(phase=phase, keys=keys):
            return phase in ("complete", "final") and bool(keys)
        case ops.HashJoin() | ops.MergeJoin():
            return True
        case ops.Windows(by=by):
            return bool(by)
        case ops.RunReduce() | ops.RunCombine() | ops.MultisetOperation() | ops.InOrder():
            return True
        case _:
            return False


def _spark_would_sort(node: Physical) -> bool:
    """Its hash aggregates need no order; a merge join, a window, a grouped pass over rows and ORDER BY do."""
    return isinstance(node.operator, ops.MergeJoin | ops.Windows | ops.RunReduce | ops.RunCombine | ops.InOrder)


def _exchanges(whole: Whole, standing: Standing, free: Sequence[int]) -> Iterator[Avoided]:
    node, joint = standing.node, standing.alternative.joint
    if joint is not None:
        if free and standing.joint is not None:
            given = tuple(whole.state(below)[0] for below in node.inputs)
            yield Avoided("exchange", node, tuple(free), joint, given, standing.joint)
        return
    wishes = {place: standing.met[place].required.partitioning for place in free}
    if all(isinstance(wish, OnePartition) for wish in wishes.values()):
        # A sort that is there needs one partition, and has it.
        if free and not isinstance(node.operator, ops.InOrder):
            given = tuple(whole.state(node.inputs[place])[0] for place in free)
            yield Avoided("exchange", node, tuple(free), Required(OnePartition()), given, HOLDS)
        return
    for place, wish in wishes.items():
        if isinstance(wish, Anyhow | EveryPartition):
            continue
        steps = tuple(step for step in standing.met[place].proof.steps if not isinstance(step.before, tuple))
        lies, proof = _from_its_origin(whole, node.inputs[place], wish, Proof(steps))
        yield Avoided("exchange", node, (place,), Required(wish), (lies,), proof)


def _from_its_origin(whole: Whole, node: Physical, wish: RequiredPartitioning, proof: Proof) -> tuple[Delivered, Proof]:
    """Where the columns of a layout were dropped on the way, nothing is left of it but that rows lie together: the reason
    is then found further down, where the columns still are."""
    given = whole.state(node)[0]
    if not isinstance(wish, Clustered) or not _is_unknown(given):
        return given, proof
    for below, columns in descend(whole, node, sorted(wish.maximum, key=lambda c: c.id)):
        lies, facts = whole.state(below)
        if isinstance(lies.partitioning, Partitioned) and not _is_unknown(lies):
            found = match(lies, Required(Clustered(frozenset(columns))), facts)
            return (lies, found) if isinstance(found, Proof) else (given, proof)
    return given, proof


def _is_unknown(given: Delivered) -> bool:
    return isinstance(given.partitioning, Partitioned) and isinstance(given.partitioning.function, Unknown)


def _sorts(whole: Whole, standing: Standing, free: Sequence[int]) -> Iterator[Avoided]:
    for place in free:
        met, below = standing.met[place], standing.node.inputs[place]
        if not met.required.local:
            continue
        steps = tuple(step for step in met.proof.steps if isinstance(step.before, tuple))
        wish = Required(local=met.required.local)
        given = (whole.state(below)[0],)
        yield Avoided("sort", standing.node, (place,), wish, given, Proof(steps))


def _moved(node: Physical, place: int) -> bool:
    """Is there an exchange right below, but for a sort over it?"""
    below = node.inputs[place]
    while isinstance(below.operator, ops.LocalSort):
        below = below.inputs[0]
    return isinstance(below.operator, ops.Move)


def _sorted(node: Physical, place: int) -> bool:
    """Is there a sort right below, but for an exchange over it? A heap of first rows is one."""
    below = node.inputs[place]
    while isinstance(below.operator, ops.Move):
        below = below.inputs[0]
    return isinstance(below.operator, ops.LocalSort | ops.PartialFirstRows)
