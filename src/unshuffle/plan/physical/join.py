"""Joins: hash, merge and nested-loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan import logical
from unshuffle.plan.expressions import Expression, is_fixed
from unshuffle.plan.facts import joined
from unshuffle.plan.physical.base import InputFacts, InputLayouts, Operator
from unshuffle.properties import (
    Alternative,
    Delivered,
    Dependencies,
    Grouped,
    JoinKey,
    Partitioned,
    Partitioning,
    Replicated,
    TargetedBroadcast,
    interchangeable,
)
from unshuffle.properties.layouts.propagate import after_pairwise_join, order_after_join, through_project
from unshuffle.properties.matching import operator_requirements

BROADCAST = ("broadcast left", "broadcast right")  # the names of the alternatives that copy input 0 or 1


@dataclass(frozen=True, slots=True)
class JoinOperator(Operator):
    """The common part: the logical join that runs (over memo groups), its equality keys, and the rest of its condition."""

    join: logical.Join
    keys: tuple[JoinKey, ...]
    rest: Expression | None
    # The facts of the join before it drops columns: computed on demand, and shared by all operators of one join.
    wide: list[Dependencies] = field(default_factory=list, repr=False, compare=False, hash=False)

    @property
    def kind(self) -> JoinKind:
        return self.join.kind

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.join.columns

    @property
    def has_text_key(self) -> bool:
        return any(key.type is not None and not is_fixed(key.type) for key in self.keys)

    def source(self, column: Column) -> Column | None:
        return column

    def _deliver(self, streamed: int, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        """The layout after the join, with the order of the streamed input as far as the join kind preserves it."""
        local = order_after_join(self.kind, inputs[streamed].local, streamed_left=streamed == 0)
        return self._without_dropped(Delivered(_layout_after(self.kind, inputs), local), facts)

    def _without_dropped(self, made: Delivered, facts: InputFacts) -> Delivered:
        """The layout in terms of the columns that the join keeps."""
        if self.join.kept is None:
            return made
        keep = frozenset(self.join.kept)
        layout = made.partitioning
        named = [action.columns if isinstance(action, Grouped) else (action.column,) for action in made.local]
        if all(c in keep for each in named for c in each) and (
            not isinstance(layout, Partitioned) or all(c in keep for c in layout.columns)
        ):
            return made
        if not self.wide:
            self.wide.append(joined(self.join, facts))
        return through_project(made, self.wide[0], self.join.kept)


@dataclass(frozen=True, slots=True)
class DynamicPruning:
    """Spark reads only folders whose value of `column` occurs in column `by` of the other input: this share of the rows."""

    column: Column
    by: Column
    share: float


@dataclass(frozen=True, slots=True)
class HashJoin(JoinOperator):
    """Builds a hash table of the `build` input and streams the other one past it. With `pruning`, Spark broadcasts that input
    and prunes the folders of the other one by it at run time.

    `null_aware` is NOT IN: a comparison with NULL is unknown, so a NULL on either side may match anything. Every partition
    must then see all rows of the build input, and the inputs cannot be partitioned by key."""

    build: Literal[0, 1] = 1
    null_aware: bool = False
    pruning: DynamicPruning | None = None
    # Of each input, the share of the keys among which those of consecutive rows are: small if they are in the order of a key.
    reach: tuple[float, float] = (1.0, 1.0)

    @property
    def carried(self) -> int | None:
        return 1 - self.build

    @property
    def keeps_order(self) -> bool:
        return not (self.kind.extends_left if self.carried == 0 else self.kind.extends_right)

    @property
    def has_integer_key(self) -> bool:
        """Does Spark look rows up by one integer? It packs integers of up to 8 bytes into one."""
        types = [key.type for key in self.keys]
        return (
            bool(types)
            and all(type is not None and pa.types.is_integer(type) for type in types)
            and sum(type.bit_width for type in types if type is not None) <= 64
            and not any(key.null_safe for key in self.keys)
        )

    def alternatives(self) -> tuple[Alternative, ...]:
        copied = BROADCAST[self.build]
        every = operator_requirements.hash_join(self.kind, self.keys)
        is_broadcast = self.null_aware or self.pruning is not None  # Spark broadcasts between single partitions too
        names = ("serial", copied) if is_broadcast else ("serial", "pair-wise", copied, f"targeted {copied}")
        return tuple(each for each in every if each.name in names)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return self._deliver(1 - self.build, inputs, facts)


@dataclass(frozen=True, slots=True)
class MergeJoin(JoinOperator):
    """Merges two inputs that are sorted on the keys, in the order `by`."""

    by: tuple[operator_requirements.MergeKey, ...] = ()

    @property
    def carried(self) -> int | None:
        return 1 if self.kind is JoinKind.RIGHT else 0

    @property
    def keeps_order(self) -> bool:
        return self.kind is not JoinKind.FULL

    def alternatives(self) -> tuple[Alternative, ...]:
        # With a broadcast input, a hash join does the same for less: its input need not be sorted.
        every = operator_requirements.merge_join(self.kind, self.by)
        return tuple(each for each in every if not each.name.startswith("broadcast"))

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return self._deliver(1 if self.kind is JoinKind.RIGHT else 0, inputs, facts)


@dataclass(frozen=True, slots=True)
class NestedLoopJoin(JoinOperator):
    """Compares every pair of rows, for joins without an equality. The inner input is read once per outer row."""

    inner: Literal[0, 1] = 1

    @property
    def carried(self) -> int | None:
        return 1 - self.inner

    @property
    def keeps_order(self) -> bool:
        return not (self.kind.extends_left if self.carried == 0 else self.kind.extends_right)

    def alternatives(self) -> tuple[Alternative, ...]:
        names = ("serial", BROADCAST[self.inner])
        return tuple(each for each in operator_requirements.nested_loop_join(self.kind) if each.name in names)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return self._deliver(1 - self.inner, inputs, facts)


def _layout_after(kind: JoinKind, inputs: InputLayouts) -> Partitioning:
    """A broadcast input, to all partitions or to some, has no influence: the layout is that of the other input."""
    left, right = (each.partitioning for each in inputs)
    if isinstance(left, Replicated | TargetedBroadcast):
        return right
    if isinstance(right, Replicated | TargetedBroadcast):
        return left
    return after_pairwise_join(kind, left, right)[0]


def can_merge_join(keys: Sequence[JoinKey]) -> bool:
    """Does each key's type have an order, and does sorting either input by it agree with the join's comparison?"""
    return all(interchangeable(column.type, key.type) for key in keys for column in key.columns)
