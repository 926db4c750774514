"""Costs that no plan is under: what branch-and-bound cuts by.

A floor is found without a search, from the bottom up: what an operator costs at the least, and the floors of its inputs. It
depends on what is required as far as that says whether there has to be an exchange somewhere below. Rows that lie in one
stream are only spread by an exchange, those that lie anyhow are only placed by their values by one, and an operator has the
shape of one of its inputs. When a goal is solved, what its plan costs is a floor for all that ask for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Protocol

from unshuffle.algebra.operators import AsWritten, Move
from unshuffle.algebra.physical import Amount, PhysicalOperator
from unshuffle.properties import (
    Anyhow,
    Clustered,
    Covers,
    EveryPartition,
    FullMerge,
    OnePartition,
    Partitioned,
    RandomMerge,
    RangeOrdered,
    Repartitioning,
    Replicated,
    Required,
    Scattered,
    Serial,
    Within,
)

if TYPE_CHECKING:
    from unshuffle.search.implementation import Implementation
    from unshuffle.search.memo import Group


class Shape(IntEnum):
    """What a requirement, or a layout, says of where rows lie, before it names columns."""

    ANYHOW = 0
    SERIAL = 1
    SPREAD = 2  # in partitions, anyhow
    PLACED = 3  # in partitions, by their values
    COPIED = 4  # all of them in every partition, or in several


class Least(Protocol):
    def least(self, operator: PhysicalOperator, inputs: Sequence[Amount], output: Amount) -> float: ...


# How many partitions an exchange makes is a rule of thumb: another number, tried for the sake of an operator above, may turn
# out a little cheaper than the cheapest plan that was found.
ROUGHLY = 0.98
_GATHER = FullMerge(RandomMerge())
_COPY = Repartitioning(Replicated(), RandomMerge())
_READ_IN_PLACE = Repartitioning(Scattered(), RandomMerge())


def shape_required(required: Required) -> Shape:
    match required.partitioning:
        case OnePartition():
            return Shape.SERIAL
        case EveryPartition() | Covers():
            return Shape.COPIED
        case Anyhow(parallel=True):
            return Shape.SPREAD
        case Anyhow() | Clustered(parallel=False) | RangeOrdered(parallel=False):
            return Shape.ANYHOW
        case _:
            return Shape.PLACED


def find_floors(group: Group, model: Least, whole: Callable[[Group], Amount]) -> None:
    """The floors of a group whose inputs have theirs."""
    itself = whole(group)
    # A stored layout may be read in place, for less than any other exchange.
    moves = (Move(_READ_IN_PLACE, (), 1.0) if group.stored else Move(_GATHER, ()), Move(_COPY, ()))
    group.least_move = min(model.least(each, [itself], itself) for each in moves)
    if any(not each.inputs for each in group.implementations or ()) and group.stored:
        group.least_move = 0.0  # no exchange at all: files are read by other tasks
    for each in group.implementations or ():
        each.least = model.least(each.operator, [whole(child) for child in each.inputs], itself)
        each.floors = [each.least + below for below in _below(each)]
    has = [min((each.floors[shape] for each in group.implementations or ()), default=0.0) for shape in Shape]
    group.floors = [min(floor, has[Shape.ANYHOW] + group.least_move) for floor in has]


def raise_floors(group: Group, required: Required, cost: float) -> None:
    """A goal is solved: nothing that asks for more costs less."""
    if not required.local and required.largest == 1.0 and isinstance(required.partitioning, Anyhow | OnePartition):
        for shape in _AT_LEAST[shape_required(required)]:
            group.floors[shape] = max(group.floors[shape], ROUGHLY * cost)


_AT_LEAST = {
    Shape.ANYHOW: tuple(Shape),
    Shape.SERIAL: (Shape.SERIAL,),
    Shape.SPREAD: (Shape.SPREAD, Shape.PLACED),
}


def _below(each: Implementation) -> Iterator[float]:
    if not each.inputs:
        has = _shapes_made(each)
        yield from (0.0 if shape in has else inf for shape in Shape)
        return
    anyhow = sum(child.floors[Shape.ANYHOW] for child in each.inputs)
    for shape in Shape:
        if isinstance(each.operator, AsWritten):
            yield anyhow
        else:
            yield anyhow + min(child.floors[shape] - child.floors[Shape.ANYHOW] for child in each.inputs)


def _shapes_made(leaf: Implementation) -> tuple[Shape, ...]:
    match leaf.operator.deliver([], []).partitioning:
        case Serial():
            return (Shape.ANYHOW, Shape.SERIAL)
        case Scattered():
            return (Shape.ANYHOW, Shape.SPREAD)
        case Within() | Partitioned():
            return (Shape.ANYHOW, Shape.SPREAD, Shape.PLACED)
        case _:
            return tuple(Shape)
