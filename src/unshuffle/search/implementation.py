"""A physical operator for an expression of a group, with groups as inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.partitions import KeyColumn, KeyInterval
from unshuffle.plan.physical import HashJoin, PhysicalOperator
from unshuffle.properties import Alternative, Clustered, Dependencies, JoinKey

if TYPE_CHECKING:
    from unshuffle.search.memo import Group


@dataclass(slots=True)
class Implementation:
    """A physical operator for an expression of a group. `keys` are the equalities of a join or union."""

    operator: PhysicalOperator
    inputs: tuple[Group, ...]
    expression: Any
    alternatives: tuple[Alternative, ...]
    keys: tuple[JoinKey, ...] = ()
    facts: Callable[[], Dependencies] | None = None  # of a join, before it drops columns
    stored_columns: frozenset[Column] = frozenset()
    alignments: dict[Any, Any] = field(default_factory=dict)  # a cache that all algorithms of one expression share
    own_lower_bound: float = 0.0  # on the operator's own cost
    lower_bounds: list[float] = field(default_factory=list)  # by shape, including everything below

    def wanted_key_sets(self, place: int) -> Iterator[frozenset[Column]]:
        """The column sets that the operator wants an input clustered on."""
        if self.keys:
            yield frozenset(key.columns[place] for key in self.keys)
            return
        for each in self.alternatives:
            wish = each.children[place].partitioning
            if isinstance(wish, Clustered):
                yield wish.maximum

    def share(self, place: int) -> float:
        """The least share of the cost of an input that is left once the operator prunes it."""
        pruning = self.operator.pruning if isinstance(self.operator, HashJoin) else None
        return pruning.share if pruning is not None and self.operator.carried == place else 1.0

    def source(self, place: int, column: Column) -> Column | None:
        """The column of an input that an output column copies, if the output can have that input's layout."""
        if self.facts is not None:
            return column if column in self.inputs[place].column_set else None
        if self.operator.carried != place:
            return None
        return self.operator.source(column)

    def prefix(self, place: int, column: Column) -> tuple[Column, int] | None:
        """The text column of an input that an output column is a prefix of, and the prefix's length."""
        return self.operator.prefix(column) if self.operator.carried == place and self.facts is None else None

    def selected(self, column: Column, key: KeyColumn) -> tuple[KeyInterval, ...] | None:
        """The values of an input column that rows are kept of; None if that may be any."""
        return self.operator.selected(column, key) if self.facts is None else None

    def origin(self, place: int, column: Column) -> Column | None:
        """The column of an input that an output column has values from."""
        inputs = getattr(self.operator, "inputs", None)  # of a union: the columns of each input, by position
        if inputs is not None:
            return dict(zip(self.operator.columns, inputs[place], strict=True)).get(column)
        return self.source(place, column)

    def output_name(self, column: Column) -> Column | None:
        """The name of an output column in the facts that relate output and inputs."""
        return column if self.facts is not None else self.operator.source(column)

    def source_in_facts(self, place: int, column: Column) -> Column | None:
        return column if self.facts is not None else self.source(place, column)

    def wide_facts(self) -> Callable[[int], Dependencies]:
        """By input, the facts that relate the output's columns with the input's."""
        if self.facts is not None:
            wide = self.facts()
            return lambda place: wide
        return lambda place: self.inputs[place].facts
