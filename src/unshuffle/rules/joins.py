"""Join orders: commuting and associating, over connected sub-graphs.

A `MultiJoin` of n inputs is split in two in every way that leaves both halves connected, and the halves are MultiJoins
again; the memo sees that two splits share a half. So all bushy orders without cross products are considered, each sub-set
of inputs once. Where that would be too many (`PAIRS`), dynamic programming over the same sub-sets first ranks the splits by
the bytes that they would touch, and only the best few of each sub-set are tried. Beyond `DYNAMIC` inputs the order is
chosen greedily, the smallest join first. Physical choices are searched for whatever orders are left.

Commuting is not a rule of its own: hash joins are tried with either input built, and a merge join is symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa

from unshuffle.algebra.expressions import Call, Expression, Ref, columns_of
from unshuffle.algebra.logical import Join, Plan
from unshuffle.algebra.multijoin import MultiJoin, gathered
from unshuffle.algebra.predicates import conjunction
from unshuffle.algebra.sharing import map_plans
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.search.memo import Group, Memo

PAIRS = (8, 60)  # splits that are worth trying in all physical ways: at least, and at most
PAIR_BYTES = 8e6  # what inputs must hold to be worth another split, which takes milliseconds to try
BEAMS = (3, 2, 1)  # splits of a sub-set that are tried when there are more, the first that keeps within PAIRS
COPIED = 30e6  # bytes of an input that is better copied than partitioned
WAITED = 5e6  # bytes that could be touched while a join waits for another join, where inputs come at once
DYNAMIC = 10  # inputs for which all sub-sets are looked at


def gather_joins(plan: Plan) -> Plan:
    """Every tree of inner joins, from the top down, as one MultiJoin."""
    if isinstance(plan, Join) and plan.kind is JoinKind.INNER:
        found = gathered(plan)
        if found is not None:
            inputs = tuple(gather_joins(each) for each in found.inputs)
            return cast(Plan, MultiJoin(inputs, found.classes, found.conditions, found.columns))
    return map_plans(plan, gather_joins)


def order_joins(plan: Any, memo: Memo) -> Iterator[Plan]:
    """A join of many inputs is a join of two joins of fewer, in every connected way."""
    if not isinstance(plan, MultiJoin):
        return
    graph = _graph(plan)
    if graph.size > DYNAMIC:
        memo.trace.note(f"the order of {graph.size} joined inputs was chosen greedily, the smallest join first")
        yield _tree(plan, graph, _greedily(graph, _Sizes(plan, graph)), graph.everything)
        return
    splits = _all_splits(graph)
    beam = plan.beam
    pairs = _worth_trying(plan)
    if beam is None and sum(map(len, splits.values())) > pairs:
        memo.trace.note(f"of the orders of {graph.size} joined inputs those were tried that touch the fewest bytes")
        ranked = _ranked(graph, splits, _Sizes(plan, graph))
        beam = next((each for each in BEAMS if _reached(ranked, graph.everything, each) <= pairs), BEAMS[-1])
    tried = splits[graph.everything]
    if beam is not None:
        tried = _ranked(graph, splits, _Sizes(plan, graph))[graph.everything][:beam]
    for one, other in tried:
        left, right = (_half(plan, graph, side, beam) for side in (one, other))
        yield Join(JoinKind.INNER, left, right, _condition(plan, graph, one, other, left, right), plan.columns)


def _worth_trying(plan: MultiJoin) -> float:
    """How many splits: no query should take longer to plan than a worse plan takes to run."""
    least, most = PAIRS
    return min(most, max(least, sum(each.bytes for each in cast("tuple[Group, ...]", plan.inputs)) / PAIR_BYTES))


# --- the graph of a join


@dataclass(frozen=True, slots=True)
class _Graph:
    """Inputs are bits. `edges[i]` are the inputs that a condition or class connects with input i."""

    size: int
    edges: tuple[int, ...]
    classes: tuple[int, ...]  # which inputs each class touches
    conditions: tuple[int, ...]

    @property
    def everything(self) -> int:
        return (1 << self.size) - 1

    def neighbours(self, inputs: int) -> int:
        found = 0
        for place in range(self.size):
            if inputs >> place & 1:
                found |= self.edges[place]
        return found & ~inputs

    def connected(self, inputs: int) -> bool:
        reached = inputs & -inputs
        while True:
            more = reached | (self.neighbours(reached) & inputs)
            if more == reached:
                return reached == inputs
            reached = more


def _graph(plan: MultiJoin) -> _Graph:
    places = {column: place for place, each in enumerate(plan.inputs) for column in each.columns}

    def touched(columns: Sequence[Column] | frozenset[Column]) -> int:
        found = 0
        for column in columns:
            if column in places:
                found |= 1 << places[column]
        return found

    classes = tuple(touched(each) for each in plan.classes)
    conditions = tuple(touched(columns_of(each)) for each in plan.conditions)
    edges = [0] * len(plan.inputs)
    for mask in (*classes, *conditions):
        for place in range(len(plan.inputs)):
            if mask >> place & 1:
                edges[place] |= mask & ~(1 << place)
    _connect_components(edges)
    return _Graph(len(plan.inputs), tuple(edges), classes, conditions)


def _connect_components(edges: list[int]) -> None:
    """Where nothing connects two parts of the graph, a cross product must: the parts become neighbours."""
    unseen = (1 << len(edges)) - 1
    parts = []
    while unseen:
        part = unseen & -unseen
        while True:
            more = part
            for place in range(len(edges)):
                if part >> place & 1:
                    more |= edges[place]
            if more == part:
                break
            part = more
        parts.append(part)
        unseen &= ~part
    for one, other in pairwise(parts):
        a, b = (one & -one).bit_length() - 1, (other & -other).bit_length() - 1
        edges[a] |= 1 << b
        edges[b] |= 1 << a


Splits = dict[int, list[tuple[int, int]]]


def _all_splits(graph: _Graph) -> Splits:
    """For every connected sub-set, the ways to split it into two connected halves; the half with its first input first."""
    connected = lru_cache(maxsize=None)(graph.connected)
    splits: Splits = {}
    for inputs in range(1, 1 << graph.size):
        if inputs & (inputs - 1) and connected(inputs):
            first = inputs & -inputs
            rest = inputs & ~first
            found = []
            part = rest
            while True:
                part = (part - 1) & rest
                half = part | first
                other = inputs & ~half
                if connected(half) and connected(other):
                    found.append((half, other))
                if part == 0:
                    break
            splits[inputs] = found
    return splits


# --- an order chosen beforehand


class _Sizes:
    """Rows of a sub-set: the product of its inputs, less a factor for each class and condition inside it."""

    def __init__(self, plan: MultiJoin, graph: _Graph) -> None:
        inputs = cast("tuple[Group, ...]", plan.inputs)
        self._conditions = graph.conditions
        self._rows = [max(1.0, each.rows) for each in inputs]
        self._values = [
            {
                place: max(1.0, float(each.estimate.distinct((column,))))
                for place, each in enumerate(inputs)
                for column in members
                if column in each.column_set
            }
            for members in plan.classes
        ]
        self._widths = [each.bytes / each.rows if each.rows else 8.0 for each in inputs]
        self._known: dict[int, float] = {}

    def bytes(self, inputs: int) -> float:
        return self.of(inputs) * sum(width for place, width in enumerate(self._widths) if inputs >> place & 1)

    def touched(self, one: int, other: int) -> float:
        """Both inputs are sent, unless one is small enough to be copied, and the result is passed on."""
        sides = sorted((self.bytes(one), self.bytes(other)))
        read = 0.2 * sum(sides) if sides[0] < COPIED else sum(sides)
        of_joins = one.bit_count() > 1 and other.bit_count() > 1
        return read + self.bytes(one | other) + (WAITED if of_joins else 0.0)

    def of(self, inputs: int) -> float:
        found = self._known.get(inputs)
        if found is None:
            found = self._known[inputs] = self._compute(inputs)
        return found

    def _compute(self, inputs: int) -> float:
        divisors: dict[int, float] = {}
        for values in self._values:
            # All but the fewest: every value of the smallest side is found in the others.
            shared = sorted((distinct, place) for place, distinct in values.items() if inputs >> place & 1)
            for distinct, place in shared[1:]:
                divisors[place] = divisors.get(place, 1.0) * distinct
        size = 1.0
        for place, rows in enumerate(self._rows):
            if inputs >> place & 1:
                # Columns of one input have no more combinations than it has rows.
                size *= rows / min(rows, divisors.get(place, 1.0))
        for mask in self._conditions:
            if mask & inputs == mask:
                size /= 3.0
        return max(size, 1.0)


def _ranked(graph: _Graph, every: Splits, sizes: _Sizes) -> Splits:
    """The splits of each sub-set, the one whose joins touch the fewest bytes first."""
    least: dict[int, float] = {1 << place: 0.0 for place in range(graph.size)}
    ranked: Splits = {}
    for inputs in sorted(every, key=lambda mask: (mask.bit_count(), mask)):
        costs = [
            (least[one] + least[other] + sizes.touched(one, other), place)
            for place, (one, other) in enumerate(every[inputs])
        ]
        costs.sort()
        least[inputs] = costs[0][0]
        ranked[inputs] = [every[inputs][place] for _, place in costs]
    return ranked


def _reached(ranked: Splits, top: int, beam: int) -> int:
    """How many splits are tried if each sub-set has so many."""
    seen: set[int] = set()
    waiting, count = [top], 0
    while waiting:
        inputs = waiting.pop()
        if inputs in ranked and inputs not in seen:
            seen.add(inputs)
            for halves in ranked[inputs][:beam]:
                count += 1
                waiting.extend(halves)
    return count


def _greedily(graph: _Graph, sizes: _Sizes) -> Splits:
    parts = [1 << place for place in range(graph.size)]
    splits: Splits = {}
    while len(parts) > 1:
        pairs = [
            (sizes.of(one | other), one, other)
            for place, one in enumerate(parts)
            for other in parts[place + 1 :]
            if graph.neighbours(one) & other
        ]
        _, one, other = min(pairs)
        splits[one | other] = [(one, other)]
        parts = [each for each in parts if each not in (one, other)] + [one | other]
    return splits


# --- halves


def _half(plan: MultiJoin, graph: _Graph, side: int, beam: int | None = None) -> Any:
    """The join of some of the inputs: what it is about, and the columns that go on from it."""
    places = [place for place in range(graph.size) if side >> place & 1]
    if len(places) == 1:
        return plan.inputs[places[0]]
    inputs = tuple(plan.inputs[place] for place in places)
    inside = tuple(each for each, mask in zip(plan.conditions, graph.conditions, strict=True) if mask & side == mask)
    have = frozenset(column for each in inputs for column in each.columns)
    classes = tuple(kept for each in plan.classes if len(kept := tuple(c for c in each if c in have)) > 1)
    return MultiJoin(inputs, classes, inside, _needed(plan, have, inside), beam)


def _tree(plan: MultiJoin, graph: _Graph, splits: Splits, inputs: int) -> Any:
    """The joins of a chosen order."""
    half = _half(plan, graph, inputs)
    if inputs not in splits:
        return half
    one, other = splits[inputs][0]
    left, right = (_tree(plan, graph, splits, side) for side in (one, other))
    columns = plan.columns if inputs == graph.everything else half.columns
    return Join(JoinKind.INNER, left, right, _condition(plan, graph, one, other, left, right), columns)


def _needed(plan: MultiJoin, have: frozenset[Column], inside: Sequence[Expression]) -> tuple[Column, ...]:
    """The columns of a half that go on: those of the result, those of conditions to come, and of each class that goes
    on one column."""
    wanted = set(plan.columns)
    for each in plan.conditions:
        if each not in inside:
            wanted |= columns_of(each)
    for members in plan.classes:
        mine = [column for column in members if column in have]
        if mine and len(mine) < len(members) and not any(column in wanted for column in mine):
            wanted.add(mine[0])
    return tuple(column for each in plan.inputs for column in each.columns if column in have and column in wanted)


def _condition(plan: MultiJoin, graph: _Graph, one: int, other: int, left: Any, right: Any) -> Expression | None:
    """What joins the two halves: of each class that both have, one equality; and the conditions that now can be told."""
    left_columns, right_columns = frozenset(left.columns), frozenset(right.columns)
    parts: list[Expression] = []
    for members in plan.classes:
        a = next((c for c in members if c in left_columns), None)
        b = next((c for c in members if c in right_columns), None)
        if a is not None and b is not None:
            parts.append(Call("=", (Ref(a), Ref(b)), pa.bool_()))
    both = one | other
    for each, mask in zip(plan.conditions, graph.conditions, strict=True):
        if mask & both == mask and mask & one != mask and mask & other != mask:
            parts.append(each)
    return conjunction(parts)


RULES = (order_joins,)
