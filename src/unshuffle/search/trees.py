"""Aggregation trees: findings are combined on the way to where they are finished (SIGMOD 2012, section 2.4.1).

A task that reads from very many partitions opens a piece of each, is likelier to fail, and loses more when it does; and where
all findings go to one place, it works alone. Beyond so many connections (`Machine.fan_in`), findings may first be gathered in
fragments, whole partitions at a time, and combined there: findings of findings, for as many levels as it takes.

    1,000 x partial  ->  4 fragments of 250 partitions, combined  ->  final

Where a fragment's rows come from is all that is said of it: nothing is known of the values in it. What the final half needs
is brought about by the exchange above, into one partition or by keys. It is one of the plans that compete for that goal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from unshuffle.algebra.operators import HashAggregate, Move
from unshuffle.algebra.physical import Amount, Physical
from unshuffle.properties import Delivered, FullMerge, PartialMerge, Partitioned, RandomMerge, Repartitioning, Scattered
from unshuffle.search.enforcers import Enforcement

if TYPE_CHECKING:
    from unshuffle.search.memo import Group
    from unshuffle.search.optimize import Search


def trees(search: Search, group: Group, plan: Physical, above: Enforcement) -> Iterator[Physical]:
    """What the exchange `above` may stand on instead of a partial aggregate whose partitions are too many for it: its
    findings, combined until they lie in few enough."""
    if _reads_all(above) and isinstance(plan.operator, HashAggregate) and plan.operator.phase == "partial":
        yield from _levels(search, group, plan, plan.operator)


def _reads_all(above: Enforcement) -> bool:
    """Does each of its outputs read from all inputs? An exchange that looks at rows first would combine them twice."""
    match above.how:
        case FullMerge(merge=RandomMerge()):
            return True
        case Repartitioning(scheme=Partitioned() as scheme, merge=RandomMerge()):
            return not Move(above.how, scheme.columns).samples
        case _:
            return False


def _levels(search: Search, group: Group, plan: Physical, partial: HashAggregate) -> Iterator[Physical]:
    for number in search.model.fragments(plan.amount.partitions):
        combined = _combined(search, group, plan, partial, number)
        if combined is None:
            continue
        if search.model.fragments(number):
            yield from _levels(search, group, combined, partial)
        else:
            yield combined


def _combined(search: Search, group: Group, plan: Physical, partial: HashAggregate, number: int) -> Physical | None:
    """One level: partition i goes to fragment i mod `number`, and what was found of a key is there once."""
    combining = HashAggregate(partial.keys, partial.aggregates, "combining")
    if not search.accepts(combining, (plan,)):
        return None
    places = tuple(i % number for i in range(plan.amount.partitions))
    move = Move(PartialMerge(places, RandomMerge()), group.columns)
    delivered = Delivered(Scattered(number))
    gathered = search.build(group, move, (plan,), delivered)
    return search.build(
        group, combining, (gathered,), delivered, "partitioned", _merged(group, partial, gathered.amount)
    )


def _merged(group: Group, partial: HashAggregate, given: Amount) -> Amount:
    """A fragment has each group once at most, and no more groups than rows."""
    below: Any = group.expressions[0].children[0]
    groups = float(below.estimate.distinct(partial.keys)) if partial.keys else 1.0
    kept = min(1.0, groups * given.partitions / given.rows) if given.rows > 0.0 else 1.0
    return Amount(given.rows * kept, given.bytes * kept, given.partitions, given.largest, given.waits)
