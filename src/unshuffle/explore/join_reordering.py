"""Join orders: commuting and associating, over connected sub-graphs.

A `MultiJoin` of n inputs is split in two in every way that leaves both sides connected. The sides are MultiJoins again, and
the memo recognizes a side that several splits share. This covers all bushy orders without cross products, each subset of
inputs once. If that would be too many splits (`PAIRS`), dynamic programming over the same subsets first ranks the splits by
the bytes they touch, and only the best few of each subset are tried. Beyond `join_dynamic_inputs` inputs the order is chosen
greedily, the smallest join first. The search then makes the physical choices for the orders that remain.

Commuting is not a rule of its own: the search tries either input of a hash join as the build side, and a merge join is
symmetric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Expression, Ref, columns_of
from unshuffle.plan.logical import Join, MultiJoin, Plan
from unshuffle.plan.multi_join import gathered
from unshuffle.plan.predicates import conjunction
from unshuffle.plan.rebuild import map_inputs
from unshuffle.search.memo import Memo, input_groups

PAIRS = (THRESHOLDS.join_splits_min, THRESHOLDS.join_splits_max)
BEAMS = (3, 2, 1)  # splits of a subset that are tried if there are too many: the first number that stays within PAIRS


def gather_joins(plan: Plan) -> Plan:
    """Every tree of inner joins as one MultiJoin, from the root down."""
    if isinstance(plan, Join) and plan.kind is JoinKind.INNER:
        found = gathered(plan)
        if found is not None:
            inputs = tuple(gather_joins(each) for each in found.inputs)
            return MultiJoin(inputs, found.classes, found.conditions, found.columns)
    return map_inputs(plan, gather_joins)


def order_joins(plan: Any, memo: Memo) -> Iterator[Plan]:
    """Inner joins are associative and commutative: a join of many inputs is a join of two joins of fewer inputs, in every
    split that leaves both sides connected.

    Unsound for outer, semi- and anti-joins, which are therefore inputs of a MultiJoin and never part of it."""
    if not isinstance(plan, MultiJoin):
        return
    graph = _graph(plan)
    if graph.size > THRESHOLDS.join_dynamic_inputs:
        memo.trace.note(f"the order of {graph.size} joined inputs was chosen greedily, the smallest join first")
        yield _tree(plan, graph, _greedy_order(graph, _SubsetSizes(plan, graph)), graph.everything)
        return
    splits = _all_splits(graph)
    beam = plan.beam
    pairs = _worth_trying(plan)
    if beam is None and sum(map(len, splits.values())) > pairs:
        memo.trace.note(f"only those orders of {graph.size} joined inputs were tried that touch the fewest bytes")
        ranked = _rank_splits(graph, splits, _SubsetSizes(plan, graph))
        beam = next((each for each in BEAMS if _tried_splits(ranked, graph.everything, each) <= pairs), BEAMS[-1])
    tried = splits[graph.everything]
    if beam is not None:
        tried = _rank_splits(graph, splits, _SubsetSizes(plan, graph))[graph.everything][:beam]
    for one, other in tried:
        left, right = (_side(plan, graph, side, beam) for side in (one, other))
        yield Join(JoinKind.INNER, left, right, _condition(plan, graph, one, other, left, right), plan.columns)


def _worth_trying(plan: MultiJoin) -> float:
    """How many splits to try: planning must not take longer than a worse plan would take to run."""
    least, most = PAIRS
    return min(most, max(least, sum(each.bytes for each in input_groups(plan)) / THRESHOLDS.join_split_bytes))


# --- the graph of a join


@dataclass(frozen=True, slots=True)
class _Graph:
    """A set of inputs is a bit mask. `edges[i]` are the inputs that a condition or a class connects with input i."""

    size: int
    edges: tuple[int, ...]
    classes: tuple[int, ...]  # the inputs that each class touches
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
    """Parts of the graph that no condition connects need a cross product, so they become neighbours."""
    unseen = (1 << len(edges)) - 1
    parts = []
    while unseen:
        part = _reachable(unseen & -unseen, edges)
        parts.append(part)
        unseen &= ~part
    for one, other in pairwise(parts):
        a, b = (one & -one).bit_length() - 1, (other & -other).bit_length() - 1
        edges[a] |= 1 << b
        edges[b] |= 1 << a


def _reachable(inputs: int, edges: Sequence[int]) -> int:
    while True:
        more = inputs
        for place, neighbours in enumerate(edges):
            if inputs >> place & 1:
                more |= neighbours
        if more == inputs:
            return inputs
        inputs = more


Splits = dict[int, list[tuple[int, int]]]


def _all_splits(graph: _Graph) -> Splits:
    """For every connected subset of two or more inputs, the splits into two connected sides."""
    connected = lru_cache(maxsize=None)(graph.connected)
    return {
        inputs: [(one, other) for one, other in _two_sides(inputs) if connected(one) and connected(other)]
        for inputs in range(1, 1 << graph.size)
        if inputs & (inputs - 1) and connected(inputs)
    }


def _two_sides(inputs: int) -> Iterator[tuple[int, int]]:
    """Every way to split a set in two, the side with its first member first."""
    first = inputs & -inputs
    rest = part = inputs & ~first
    while part:
        part = (part - 1) & rest
        yield part | first, inputs & ~(part | first)


# --- choosing an order before the search


class _SubsetSizes:
    """Estimated rows of a subset: the product of its inputs, reduced by a factor for each class and condition inside it."""

    def __init__(self, plan: MultiJoin, graph: _Graph) -> None:
        inputs = input_groups(plan)
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
        self._cached: dict[int, float] = {}

    def bytes(self, inputs: int) -> float:
        return self.of(inputs) * sum(width for place, width in enumerate(self._widths) if inputs >> place & 1)

    def touched(self, one: int, other: int) -> float:
        """Bytes that a join touches: both inputs are exchanged, unless one is small enough to broadcast; and the result."""
        sides = sorted((self.bytes(one), self.bytes(other)))
        read = 0.2 * sum(sides) if sides[0] < THRESHOLDS.join_broadcast_bytes else sum(sides)
        of_joins = one.bit_count() > 1 and other.bit_count() > 1
        return read + self.bytes(one | other) + (THRESHOLDS.join_wait_bytes if of_joins else 0.0)

    def of(self, inputs: int) -> float:
        found = self._cached.get(inputs)
        if found is None:
            found = self._cached[inputs] = self._compute(inputs)
        return found

    def _compute(self, inputs: int) -> float:
        divisors: dict[int, float] = {}
        for values in self._values:
            # All but the fewest distinct values: the values of the smallest input are assumed to occur in the others.
            shared = sorted((distinct, place) for place, distinct in values.items() if inputs >> place & 1)
            for distinct, place in shared[1:]:
                divisors[place] = divisors.get(place, 1.0) * distinct
        size = 1.0
        for place, rows in enumerate(self._rows):
            if inputs >> place & 1:
                # The columns of an input have at most as many combinations of values as it has rows.
                size *= rows / min(rows, divisors.get(place, 1.0))
        for mask in self._conditions:
            if mask & inputs == mask:
                size /= 3.0
        return max(size, 1.0)


def _rank_splits(graph: _Graph, every: Splits, sizes: _SubsetSizes) -> Splits:
    """The splits of each subset, the one whose joins touch the fewest bytes first."""
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


def _tried_splits(ranked: Splits, top: int, beam: int) -> int:
    """How many splits are tried in all if each subset tries the best `beam` of its own."""
    seen: set[int] = set()
    waiting, count = [top], 0
    while waiting:
        inputs = waiting.pop()
        if inputs in ranked and inputs not in seen:
            seen.add(inputs)
            for sides in ranked[inputs][:beam]:
                count += 1
                waiting.extend(sides)
    return count


def _greedy_order(graph: _Graph, sizes: _SubsetSizes) -> Splits:
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


# --- the joins of a split


def _side(plan: MultiJoin, graph: _Graph, side: int, beam: int | None = None) -> Any:
    """The join of some of the inputs, with the classes and conditions among them and the columns that are needed above."""
    places = [place for place in range(graph.size) if side >> place & 1]
    if len(places) == 1:
        return plan.inputs[places[0]]
    inputs = tuple(plan.inputs[place] for place in places)
    inside = tuple(each for each, mask in zip(plan.conditions, graph.conditions, strict=True) if mask & side == mask)
    have = frozenset(column for each in inputs for column in each.columns)
    classes = tuple(kept for each in plan.classes if len(kept := tuple(c for c in each if c in have)) > 1)
    return MultiJoin(inputs, classes, inside, _needed(plan, have, inside), beam)


def _tree(plan: MultiJoin, graph: _Graph, splits: Splits, inputs: int) -> Any:
    """The tree of joins for a chosen order."""
    whole = _side(plan, graph, inputs)
    if inputs not in splits:
        return whole
    one, other = splits[inputs][0]
    left, right = (_tree(plan, graph, splits, side) for side in (one, other))
    columns = plan.columns if inputs == graph.everything else whole.columns
    return Join(JoinKind.INNER, left, right, _condition(plan, graph, one, other, left, right), columns)


def _needed(plan: MultiJoin, have: frozenset[Column], inside: Sequence[Expression]) -> tuple[Column, ...]:
    """The columns of a side that are needed above it: those of the result, those of later conditions, and one column of
    each class that also has columns elsewhere."""
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
    """The join condition of two sides: one equality for each class that both have, and the conditions that need both."""
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
