"""Enumerates every plan of a small query bottom-up, to compare the search with.

The search works top-down: a goal is a group with required properties. The enumeration has no goals. For every group of the
memo, after its inputs, it builds a table of *all* layouts that any plan of the group delivers, with the cheapest plan of
each:

    in place   each operator that implements an expression of the group, in each of its alternatives, over every combination
               of the inputs' plans that satisfies the alternative's requirements
    sorted     each of these, sorted inside its partitions on any permutation of the columns
    exchanged  each of these, through every exchange: to any hash of any columns into any number of partitions that occurs
               in the query, to every stored function and every range that an ORDER BY could use, gathered in all four
               ways, split, broadcast, or broadcast to the partitions that can have matches
    sorted     again

The number of partitions is a policy: an exchange makes the ideal number for its rows, or the nearest multiple of a number
that is stored below, or twice such a number (SIGMOD 2012, section 3.3.1). It makes another number only to be co-partitioned
with an input that has that number for its own sake, or whose inputs would, so such an input must follow (`UNMATCHED`). With
`chosen`, a plan of the search, exchanges of the same rowsets may also make the numbers of that plan.

What an operator above can do, and at what cost, depends on a plan only through the properties that it delivers. So one plan
per delivered property is enough, and the cheapest plan of the root is the cheapest of all.

Four prunings keep the tables small and lose no plan:

    a plan is dropped if another plan that costs no more has the same partitioning and an order that implies its own
    a plan is dropped if its cost and the lower bound for the rest of any plan around it exceed `limit`
    sorts use only columns that some operator above reads, in permutations that are as long as possible
    where an operator does not pass on its input's order, one plan per partitioning of the input is enough

The enumeration shares with the search what both must agree on, but none of its reasoning: the memo's logical alternatives,
the physical operators with their alternatives and delivered properties, property matching, facts, estimates and the cost
model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations, product
from math import inf
from typing import Any

from unshuffle.catalog.schema import Column, DataType
from unshuffle.cost.model import CostModel
from unshuffle.plan import physical
from unshuffle.plan.expressions import Call, Ref
from unshuffle.plan.logical import Filter, Join, Project, SetOperation
from unshuffle.plan.physical import PhysicalPlan, SizeEstimate
from unshuffle.plan.predicates import conjuncts
from unshuffle.properties import (
    Broadcast,
    BroadcastAligned,
    Clustered,
    ConcatMerge,
    Delivered,
    Dependencies,
    ExchangeError,
    FullMerge,
    Grouped,
    HashFunction,
    InitialPartitioning,
    Local,
    Partitioned,
    PartitionFunction,
    Partitioning,
    PrefixPartitioned,
    Proof,
    RandomMerge,
    RangeFunction,
    RangeOrdered,
    Repartitioning,
    Replicated,
    Required,
    SampledBoundaries,
    Serial,
    SortConcatMerge,
    Sorted,
    SortMerge,
    TargetedBroadcast,
    Topology,
    UnknownPartitioning,
    asc,
    exchange,
    match_joint,
    match_local,
    match_partitioning,
    partitions_of,
    ranged,
)
from unshuffle.properties.layouts.related_layouts import read_counts
from unshuffle.properties.layouts.structure import columns_of
from unshuffle.properties.matching.match_local import implied_local
from unshuffle.search.layouts.targeted_broadcast import copied_size
from unshuffle.search.memo import Group

WIDEST = 4  # every subset of so many columns is tried; an order has at most one more
SLACK = 1e-9
UNMATCHED = "unmatched"  # the family of a hash that must still be co-partitioned with another one


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A plan."""

    operator: Any
    inputs: tuple[Found, ...]
    delivered: Delivered
    size: SizeEstimate
    cost: float
    order: int  # the number of its order in its table
    alternative: str = ""

    def show(self, depth: int = 0) -> str:
        what = self.operator.how if isinstance(self.operator, physical.Exchange) else getattr(self.operator, "keys", "")
        line = (
            f"{'  ' * depth}{type(self.operator).__name__} {self.alternative} {what} {self.delivered} {self.cost:.6f}"
        )
        return "\n".join([line, *(each.show(depth + 1) for each in self.inputs)])


class Table:
    """The plans of a group: for each partitioning, the plans whose order no cheaper plan has."""

    def __init__(self, group: Group, limit: float) -> None:
        self.group = group
        self.limit = limit
        self.rows: dict[Partitioning, list[Found]] = {}
        # Orders are numbered, because they are compared far more often than they are made.
        self._numbers: dict[Local, int] = {}
        self._locals: list[Local] = []
        self._implied: dict[tuple[int, int], bool] = {}

    def number(self, local: Local) -> int:
        found = self._numbers.get(local)
        if found is None:
            found = self._numbers[local] = len(self._locals)
            self._locals.append(local)
        return found

    def implies(self, one: int, other: int) -> bool:
        found = self._implied.get((one, other))
        if found is None:
            found = one == other or implied_local(self._locals[one], self._locals[other], self.group.facts)
            self._implied[one, other] = found
        return found

    def improves(self, place: Partitioning, order: int, cost: float) -> bool:
        if cost > self.limit:
            return False
        known = self.rows.get(place, ())
        return not any(each.cost <= cost and self.implies(each.order, order) for each in known)

    def add(self, plan: Found) -> None:
        known = self.rows.setdefault(plan.delivered.partitioning, [])
        known[:] = [e for e in known if e.cost < plan.cost or not self.implies(plan.order, e.order)]
        known.append(plan)

    def __iter__(self) -> Iterator[Found]:
        for plans in self.rows.values():
            yield from plans


def cheapest(plans: Iterable[Found]) -> Found | None:
    return min(plans, key=lambda each: each.cost, default=None)


class Enumeration:
    """All plans of the groups that a root reaches, up to a cost limit."""

    def __init__(self, root: Group, model: CostModel, limit: float = inf, chosen: PhysicalPlan | None = None) -> None:
        self.root = root
        self.chosen = chosen
        self.model = model
        self.limit = limit * (1 + SLACK)
        self.groups = list(_bottom_up(root))
        self.names = _Names(self.groups)
        self.tables: dict[int, Table] = {}
        self.lower_bound, self.rest = self._lower_bounds()
        self.counts = self._counts()
        self.own_counts = self._own_counts()
        self.stored = self._stored()
        self.types = self._types()
        self.orders = self._orders()
        self.needed, self.aligned, self.copied = self._needed()
        self.targeted = self._targeted_broadcasts()
        self._sizes: dict[tuple[int, Partitioning], SizeEstimate] = {}
        self._met: dict[Any, bool] = {}
        self._least: dict[tuple[int, bool], float] = {}

    def best(self) -> Found | None:
        for group in self.groups:
            self.tables[group.number] = self._table(group)
        return cheapest(each for each in self.tables[self.root.number] if not _is_unmatched(each.delivered))

    @property
    def size(self) -> int:
        return sum(len(list(table)) for table in self.tables.values())

    # --- what occurs in the query

    def _lower_bounds(self) -> tuple[dict[int, float], dict[int, float]]:
        """A lower bound for each group, and a lower bound for the rest of any plan that contains the group."""
        least: dict[int, float] = {}
        floor: dict[int, float] = {}
        for group in self.groups:
            whole = SizeEstimate(group.rows, group.bytes, 1, 0.0, group.waits)
            costs = []
            for each in group.implementations:
                below = [SizeEstimate(child.rows, child.bytes, 1, 0.0, child.waits) for child in each.inputs]
                least[id(each)] = self.model.lower_bound(each.operator, below, whole)
                costs.append(least[id(each)] + sum(floor[child.number] for child in each.inputs))
            floor[group.number] = min(costs)
        rest = {group.number: inf for group in self.groups}
        rest[self.root.number] = 0.0
        for group in reversed(self.groups):
            for each in group.implementations:
                whole_plan = rest[group.number] + least[id(each)] + sum(floor[c.number] for c in each.inputs)
                for child in each.inputs:
                    rest[child.number] = min(rest[child.number], whole_plan - floor[child.number])
        return floor, rest

    def ideal(self, group: Group) -> int:
        return self.model.ideal_partitions(group.rows, group.bytes)

    def _counts(self) -> tuple[int, ...]:
        ideals = {self.ideal(group) for group in self.groups}
        stored = {layout.function.partitions for layout in self._stored_layouts()}
        multiples = {n for c in stored for ideal in ideals for n in (c * max(1, round(ideal / c)), c * 2)}
        return tuple(sorted(ideals | stored | multiples))

    def _own_counts(self) -> dict[int, frozenset[int]]:
        """The numbers of partitions that each group may have for its own sake."""
        stored: dict[int, frozenset[int]] = {}
        found: dict[int, frozenset[int]] = {}
        for group in self.groups:
            below = [stored[child.number] for each in group.implementations for child in each.inputs]
            stored[group.number] = frozenset[int]().union(*below, _stored_counts(group))
            ideal = self.ideal(group)
            multiples = {n for count in stored[group.number] for n in (count * max(1, round(ideal / count)), count * 2)}
            found[group.number] = frozenset((ideal, *multiples))
        for node in self.chosen.walk() if self.chosen is not None else ():
            if isinstance(node.operator, physical.Exchange) and node.size.partitions > 1:
                found[node.group] |= {node.size.partitions}
        return found

    def _stored_layouts(self) -> Iterator[Partitioned]:
        for group in self.groups:
            yield from _stored_layouts(group)

    def _stored(self) -> tuple[tuple[PartitionFunction, tuple[int, ...]], ...]:
        """Functions that a table is stored by, with the names of their columns."""
        found = {(each.function, tuple(map(self.names.of, each.columns))): None for each in self._stored_layouts()}
        return tuple(found)

    def _types(self) -> dict[int, set[DataType]]:
        """By name, the types in which some join or union compares."""
        found: dict[int, set[DataType]] = {}
        for group in self.groups:
            for each in group.implementations:
                for key in each.keys:
                    for column in key.columns:
                        found.setdefault(self.names.of(column), set()).add(key.type)
        return found

    def _orders(self) -> tuple[tuple[Sorted, ...], ...]:
        """Every part of an order of the result: keys may be constant, or determined by others."""
        found: dict[tuple[Sorted, ...], None] = {}
        for group in self.groups:
            for each in group.implementations:
                for alternative in each.alternatives:
                    for wish in alternative.children:
                        keys = (
                            wish.partitioning.keys
                            if isinstance(wish.partitioning, RangeOrdered)
                            else wish.local
                            if isinstance(each.operator, physical.Limit)
                            else ()
                        )
                        for length in range(len(keys)):
                            found.update(dict.fromkeys(combinations(keys, length + 1)))
        return tuple(found)

    def _needed(self) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]], frozenset[int]]:
        """The names that the operators above each group read, the names on which they need co-partitioned inputs,
        and the groups that some operator needs a broadcast of."""
        found: dict[int, frozenset[int]] = {group.number: frozenset() for group in self.groups}
        aligned = dict(found)
        copied: set[int] = set()
        for group in reversed(self.groups):
            for each in group.implementations:
                for alternative in each.alternatives:
                    for place, (child, wish) in enumerate(zip(each.inputs, alternative.children, strict=True)):
                        columns = set(columns_of(wish.local))
                        match wish.partitioning:
                            case Clustered(maximum=maximum):
                                columns |= maximum
                            case RangeOrdered(keys=keys):
                                columns |= {key.column for key in keys}
                            case Broadcast():
                                copied.add(child.number)
                            case _:
                                pass
                        keys = alternative.joint.keys if alternative.joint is not None else ()
                        alike = frozenset(self.names.of(key.columns[place]) for key in keys)
                        aligned[child.number] |= aligned[group.number] | alike
                        found[child.number] |= found[group.number] | alike | frozenset(map(self.names.of, columns))
        return found, aligned, frozenset(copied)

    def _targeted_broadcasts(self) -> dict[int, dict[TargetedBroadcast, None]]:
        """By group, every targeted broadcast to stored ranges by some of its join columns, in any order."""
        found: dict[int, dict[TargetedBroadcast, None]] = {group.number: {} for group in self.groups}
        functions = {f: None for group in self.groups for f in _stored_ranges(group)}
        for group in self.groups:
            for each in group.implementations:
                for joint in (a.joint for a in each.alternatives if isinstance(a.joint, BroadcastAligned)):
                    mine = dict.fromkeys(key.columns[joint.broadcast] for key in joint.keys)
                    for function in functions:
                        for count in range(1, function.arity):
                            for on in permutations(mine, count):
                                found[each.inputs[joint.broadcast].number][TargetedBroadcast(function, on)] = None
        return found

    def _directions(self, column: Column) -> list[Sorted]:
        """Ascending, and the direction that an order of the query requires."""
        name = self.names.of(column)
        found = {asc(column): None}
        for group in self.groups:
            for each in group.implementations:
                for alternative in each.alternatives:
                    for wish in alternative.children:
                        keys = [action for action in wish.local if isinstance(action, Sorted)]
                        found.update({key.on(column): None for key in keys if self.names.of(key.column) == name})
        return list(found)

    def _sorts(self, group: Group) -> list[tuple[Sorted, ...]]:
        """Sorts that no other one implies, and sorts by a single key, which are cheaper."""
        facts = group.facts
        useful = [c for c in group.columns if self.names.of(c) in self.needed[group.number]]
        useful = [c for c in useful if not facts.determines((), (c,))]
        useful = list({facts.representative(c): c for c in reversed(useful)}.values())
        ways = {column: self._directions(column) for column in useful}
        found: dict[tuple[Sorted, ...], None] = {(key,): None for column in useful for key in ways[column]}
        for order in permutations(useful, min(len(useful), WIDEST - 1 if len(useful) > WIDEST else WIDEST)):
            kept = [c for place, c in enumerate(order) if not facts.determines(order[:place], (c,))]
            found.update(dict.fromkeys(product(*(ways[c] for c in kept))))
        found.pop((), None)
        return list(found)

    def _schemes(self, group: Group) -> list[Partitioned]:
        """The layouts that an exchange of a group can make."""
        found: dict[Partitioned, None] = {}
        columns = list(group.columns)
        own = self.own_counts[group.number]
        if len(columns) > WIDEST:
            columns = [c for c in columns if self.names.of(c) in self.needed[group.number]]
        aligned = self.aligned[group.number]
        for on in _subsets(columns, self.names):
            own_types = tuple(c.type for c in on)
            for count in own:
                found[Partitioned(HashFunction(own_types, count), on)] = None
            if any(self.names.of(c) not in aligned for c in on):
                continue  # no input will be co-partitioned with this one
            for types in product(*({c.type, *self.types.get(self.names.of(c), ())} for c in on)):
                for count in self.counts:
                    function = HashFunction(types, count) if count in own else HashFunction(types, count, UNMATCHED)
                    found[Partitioned(function, on)] = None
        for function, names in self.stored:
            matching = [[c for c in group.columns if self.names.of(c) == name] for name in names]
            if isinstance(function, HashFunction) and function.partitions not in own:
                function = replace(function, family=UNMATCHED)
            for on in product(*matching):
                found[Partitioned(function, on)] = None
        for order in self.orders:
            matching = [[c for c in group.columns if self.names.of(c) == self.names.of(key.column)] for key in order]
            for on in product(*matching):
                keys = tuple(key.on(column) for key, column in zip(order, on, strict=True))
                for count in own:
                    sample = SampledBoundaries(f"{group.number}:{','.join(map(str, keys))}:{count}", count)
                    found[ranged(keys, sample)] = None
        return list(found)

    # --- costs

    def size_of(self, group: Group, place: Partitioning) -> SizeEstimate:
        key = (group.number, place)
        found = self._sizes.get(key)
        if found is None:
            found = self._sizes[key] = self._compute_size(group, place)
        return found

    def _compute_size(self, group: Group, place: Partitioning) -> SizeEstimate:
        rows, size = group.rows, group.bytes
        match place:
            case Serial():
                return SizeEstimate(rows, size, 1, 1.0, group.waits, group.guesses)
            case Replicated():
                return SizeEstimate(rows, size, 0, 1.0, group.waits, group.guesses)
            case UnknownPartitioning(partitions=count):
                count = count or self.ideal(group)
                return SizeEstimate(rows, size, count, 1 / count, group.waits, group.guesses)
            case TargetedBroadcast():
                return copied_size(group, place, group.estimate.largest_share(place.columns))
            case PrefixPartitioned():
                count = place.function.partitions
                return SizeEstimate(rows, size, count, 1 / count, group.waits, group.guesses)
            case Partitioned():
                count = place.function.partitions
                share = group.estimate.largest_share(place.columns)
                return SizeEstimate(rows, size, count, min(1.0, max(1 / count, share)), group.waits, group.guesses)

    def _build(
        self, table: Table, operator: Any, inputs: tuple[Found, ...], delivered: Delivered, own: float, name: str = ""
    ) -> None:
        """Adds a plan to the table if it is worth keeping. `own` is the cost of the operator itself."""
        cost = own + sum(each.cost for each in inputs)
        if cost > table.limit:
            return
        order = table.number(delivered.local)
        if table.improves(delivered.partitioning, order, cost):
            amount = self.size_of(table.group, delivered.partitioning)
            table.add(Found(operator, inputs, delivered, amount, cost, order, name))

    def _own(self, operator: Any, inputs: Iterable[Found], output: SizeEstimate) -> float:
        return self.model.cost(operator, [each.size for each in inputs], output).seconds

    # --- tables

    def _table(self, group: Group) -> Table:
        table = self._in_place(group, self.limit - self.rest[group.number])
        self._sort(table)
        self._exchange(table)
        self._sort(table)
        return table

    def _in_place(self, group: Group, limit: float) -> Table:
        table = Table(group, limit)
        for each in group.implementations:
            for alternative in each.alternatives:
                for inputs in self._inputs(each, alternative):
                    given = [p.delivered for p in inputs]
                    if alternative.joint is not None and self._has_served(each, given):
                        given = [Delivered(_plain(each.partitioning), each.local) for each in given]
                    delivered = each.operator.deliver(given, [g.facts for g in each.inputs])
                    if any(map(_is_unmatched, given)) and not _is_unmatched(delivered):
                        continue
                    own = self._own(each.operator, inputs, self.size_of(group, delivered.partitioning))
                    self._build(table, each.operator, inputs, delivered, own, alternative.name)
        return table

    def _has_served(self, each: Any, given: Sequence[Delivered]) -> bool:
        """Does an input have its number of partitions for its own sake, or for the sake of its inputs?"""
        count = partitions_of(given[0].partitioning)
        near = {group.number for child in each.inputs for group in (child, *_below(child))}
        return not all(map(_is_unmatched, given)) or any(count in self.own_counts[number] for number in near)

    def _inputs(self, each: Any, alternative: Any) -> Iterator[tuple[Found, ...]]:
        """Every combination of the inputs' plans over which the operator can run in this alternative."""
        by_place = [
            self._fitting(child, wish, each.operator.carried == place and each.operator.keeps_order)
            for place, (child, wish) in enumerate(zip(each.inputs, alternative.children, strict=True))
        ]
        if alternative.joint is None:
            for places in product(*(found.values() for found in by_place)):
                yield from product(*places)
            return
        facts = [child.facts for child in each.inputs]
        if isinstance(alternative.joint, BroadcastAligned):
            for places in product(*by_place):
                known = [(Delivered(place), one) for place, one in zip(places, facts, strict=True)]
                if isinstance(match_joint(known, alternative.joint), Proof):
                    yield from product(*(found[place] for found, place in zip(by_place, places, strict=True)))
            return
        by_function = [_by_function(found) for found in by_place]
        for function, first in by_function[0].items():
            for places in product(first, *(others.get(function, ()) for others in by_function[1:])):
                known = [(Delivered(_plain(place)), one) for place, one in zip(places, facts, strict=True)]
                if isinstance(match_joint(known, alternative.joint), Proof):
                    yield from product(*(found[place] for found, place in zip(by_place, places, strict=True)))

    def _fitting(self, child: Group, wish: Required, ordered: bool) -> dict[Partitioning, list[Found]]:
        """The plans of an input that satisfy a requirement. If their order is not needed, the cheapest of each
        layout."""
        found: dict[Partitioning, list[Found]] = {}
        for place, plans in self.tables[child.number].rows.items():
            if not self._is_met(child, place, wish.partitioning):
                continue
            fit = [each for each in plans if self._is_sorted(child, each.delivered.local, wish.local)]
            if fit:
                found[place] = fit if ordered else [min(fit, key=lambda each: each.cost)]
        return found

    def _is_met(self, group: Group, place: Partitioning, wish: Any) -> bool:
        key = (group.number, place, wish)
        found = self._met.get(key)
        if found is None:
            found = self._met[key] = isinstance(match_partitioning(place, wish, group.facts), Proof)
        return found

    def _is_sorted(self, group: Group, local: Local, wish: Local) -> bool:
        if not wish:
            return True
        key = (group.number, local, wish)
        found = self._met.get(key)
        if found is None:
            found = self._met[key] = isinstance(match_local(local, wish, group.facts), Proof)
        return found

    # --- enforcers

    def _sort(self, table: Table) -> None:
        orders = self._sorts(table.group)
        for place, plans in list(table.rows.items()):
            given = cheapest(plans)
            if given is None or isinstance(place, Replicated | TargetedBroadcast):
                continue
            for keys in orders:
                operator = physical.LocalSort(keys, table.group.columns)
                own = self._own(operator, (given,), given.size)
                if given.cost + own <= table.limit:
                    self._build(table, operator, (given,), Delivered(place, keys), own)

    def _exchange(self, table: Table) -> None:
        group = table.group
        schemes = self._schemes(group)
        for place, plans in [(place, list(plans)) for place, plans in table.rows.items()]:
            if isinstance(place, Replicated | TargetedBroadcast) or _is_unmatched(Delivered(place)):
                continue
            least = cheapest(plans)
            assert least is not None
            for scheme in self.targeted[group.number]:
                split = isinstance(place, Serial)
                how = InitialPartitioning(scheme) if split else Repartitioning(scheme, RandomMerge())
                self._exchanged(table, how, (least,))
            if group.number in self.copied:
                self._exchanged(table, Repartitioning(Replicated(), RandomMerge()), (least,))
            if isinstance(place, Serial):
                for scheme in (*schemes, *map(UnknownPartitioning, self.own_counts[group.number])):
                    self._exchanged(table, InitialPartitioning(scheme), plans)
                continue
            in_order = [(each, _sorted_prefix(each.delivered.local)) for each in plans]
            for scheme in schemes:
                self._exchanged(table, Repartitioning(scheme, RandomMerge()), plans)
                self._merged(table, [(Repartitioning(scheme, SortMerge(k)), each) for each, k in in_order if k])
            self._exchanged(table, FullMerge(RandomMerge()), (least,))
            self._exchanged(table, FullMerge(ConcatMerge()), plans)
            self._merged(table, [(FullMerge(SortMerge(keys)), each) for each, keys in in_order if keys])
            self._merged(table, [(FullMerge(SortConcatMerge(keys)), each) for each, keys in in_order if keys])

    def _exchanged(self, table: Table, how: Topology, plans: Sequence[Found]) -> None:
        """An exchange over plans of one layout."""
        self._merged(table, [(how, each) for each in plans])

    def _merged(self, table: Table, exchanges: Sequence[tuple[Topology, Found]]) -> None:
        """Exchanges over plans of one layout that differ only in the order that they merge in."""
        group = table.group
        if (
            not exchanges
            or min(given.cost for _, given in exchanges) + self._cheapest_exchange(group, exchanges[0][1]) > table.limit
        ):
            return
        first, given = exchanges[0]
        readers = _readers(first, given.delivered, group.facts)
        place = Serial() if isinstance(first, FullMerge) else first.scheme
        # Related layouts can be read in place, and sent like others. Spark knows no order of rows that are sent.
        for (how, given), in_place in product(exchanges, dict.fromkeys((readers, None))):
            exchange = physical.Exchange(how, group.columns, in_place)
            own = self._own(exchange, (given,), self.size_of(group, place)) + (
                group.recompute_seconds if exchange.samples else 0.0
            )
            if given.cost + own > table.limit:
                continue
            is_sent = readers is not None and in_place is None
            delivered = self._delivered(
                group, how, Delivered(given.delivered.partitioning) if is_sent else given.delivered
            )
            if delivered is not None:
                self._build(table, exchange, (given,), delivered, own)

    @staticmethod
    def _delivered(group: Group, how: Topology, given: Delivered) -> Delivered | None:
        try:
            delivered = exchange(how, given, group.facts)
        except ExchangeError:
            return None
        place = given.partitioning
        taken = isinstance(how, FullMerge) and not isinstance(how.merge, SortMerge)
        if taken and isinstance(place, Partitioned) and group.facts.determines((), place.columns):
            # All rows are in one stream, which keeps its order. The search does not look for that: a merge in
            # order costs no more.
            return Delivered(Serial())
        return delivered

    def _cheapest_exchange(self, group: Group, given: Found) -> float:
        in_place = isinstance(given.delivered.partitioning, Partitioned)
        found = self._least.get((group.number, in_place))
        if found is None:
            whole = SizeEstimate(group.rows, group.bytes, 1, 0.0, group.waits)
            how = Repartitioning(UnknownPartitioning(), RandomMerge()) if in_place else FullMerge(RandomMerge())
            exchanges = (
                physical.Exchange(how, group.columns, 1.0 if in_place else None),
                physical.Exchange(Repartitioning(Replicated(), RandomMerge()), group.columns),
            )
            found = min(self.model.lower_bound(exchange, [whole], whole) for exchange in exchanges)
            self._least[group.number, in_place] = found
        return found


def _bottom_up(root: Group) -> Iterator[Group]:
    seen: set[int] = set()

    def visit(group: Group) -> Iterator[Group]:
        if group.number in seen:
            return
        seen.add(group.number)
        for each in group.implementations or ():
            for child in each.inputs:
                yield from visit(child)
        yield group

    return visit(root)


def _below(group: Group) -> Iterator[Group]:
    for each in group.implementations or ():
        yield from each.inputs


def _by_function(found: dict[Partitioning, list[Found]]) -> dict[Any, list[Partitioning]]:
    functions: dict[Any, list[Partitioning]] = {}
    for place in found:
        # All layouts of one partition are equivalent for a join.
        plain = _plain(place)
        function = plain.function if isinstance(plain, Partitioned) else type(place)
        functions.setdefault(function, []).append(place)
    return functions


def _stored_layouts(group: Group) -> Iterator[Partitioned]:
    for each in group.implementations or ():
        layout = getattr(each.operator, "layout", None)
        if isinstance(layout, Delivered) and isinstance(layout.partitioning, Partitioned):
            yield layout.partitioning


def _stored_ranges(group: Group) -> Iterator[RangeFunction]:
    """Functions of ranges of several keys that files are stored by, even if not all keys are read."""
    for each in group.implementations or ():
        layout = getattr(each.operator, "layout", None)
        place = layout.partitioning if isinstance(layout, Delivered) else None
        if (
            isinstance(place, Partitioned | PrefixPartitioned)
            and isinstance(place.function, RangeFunction)
            and place.function.arity > 1
        ):
            yield place.function


def _stored_counts(group: Group) -> frozenset[int]:
    return frozenset(layout.function.partitions for layout in _stored_layouts(group))


def _is_unmatched(given: Delivered) -> bool:
    place = given.partitioning
    return isinstance(place, Partitioned) and getattr(place.function, "family", None) == UNMATCHED


def _plain(place: Partitioning) -> Partitioning:
    """A layout that is no longer to be matched: it is co-partitioned now."""
    if (
        isinstance(place, Partitioned)
        and isinstance(place.function, HashFunction)
        and place.function.family == UNMATCHED
    ):
        return Partitioned(replace(place.function, family="spark"), place.columns, place.nulls_anywhere)
    return place


def _readers(how: Topology, given: Delivered, facts: Dependencies) -> float | None:
    """How many outputs read each input partition in place, if not all need to."""
    old, new = given.partitioning, getattr(how, "scheme", None)
    if isinstance(old, Partitioned) and isinstance(new, Partitioned) and not old.nulls_anywhere:
        read = read_counts(old.function, new.function)
        alike = all(facts.equal(one, other) for one, other in zip(old.columns, new.columns, strict=False))
        if read is not None and alike:
            average = read.total / old.function.partitions
            return average if average < new.function.partitions else None
    return None


def _sorted_prefix(local: Local) -> tuple[Sorted, ...]:
    keys: list[Sorted] = []
    for action in local:
        if isinstance(action, Grouped):
            break
        keys.append(action)
    return tuple(keys)


def _subsets(columns: Sequence[Column], names: _Names) -> Iterator[tuple[Column, ...]]:
    """Every set of columns (of up to three if there are many), ordered by name; columns of one name in every order."""
    for size in range(1, 1 + (len(columns) if len(columns) <= WIDEST else WIDEST - 1)):
        for chosen in combinations(columns, size):
            by_name: dict[int, list[Column]] = {}
            for column in chosen:
                by_name.setdefault(names.of(column), []).append(column)
            for orders in product(*(permutations(by_name[name]) for name in sorted(by_name))):
                yield tuple(column for order in orders for column in order)


class _Names:
    """Columns that are equal somewhere in the query, or copies of each other, have one name."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._up: dict[Column, Column] = {}
        for group in groups:
            for expression in group.expressions:
                for one, other in _same(expression):
                    self._join(one, other)

    def of(self, column: Column) -> int:
        return self._root(column).id

    def _root(self, column: Column) -> Column:
        while column in self._up:
            column = self._up[column]
        return column

    def _join(self, one: Column, other: Column) -> None:
        first, second = sorted((self._root(one), self._root(other)), key=lambda c: c.id)
        if first != second:
            self._up[second] = first


def _same(expression: Any) -> Iterator[tuple[Column, Column]]:
    match expression:
        case Project(outputs=outputs):
            yield from ((made, each.column) for made, each in outputs if isinstance(each, Ref))
        case Join(condition=condition) | Filter(predicate=condition):
            for part in conjuncts(condition):
                match part:
                    case Call("=" | "<=>", (Ref(column=one), Ref(column=other))):
                        yield one, other
        case SetOperation(columns=columns, inputs=inputs):
            for each in inputs:
                yield from zip(columns, each.columns, strict=True)
