"""A physical operator for an expression of a group, over groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unshuffle.algebra.physical import PhysicalOperator
from unshuffle.catalog.schema import Column
from unshuffle.properties import Alternative, Clustered, Dependencies, JoinKey

if TYPE_CHECKING:
    from unshuffle.search.memo import Group


@dataclass(slots=True)
class Implementation:
    """A physical operator for an expression of a group. `keys` are the equalities of a join or union, if it has some."""

    operator: PhysicalOperator
    inputs: tuple[Group, ...]
    expression: Any
    alternatives: tuple[Alternative, ...]
    keys: tuple[JoinKey, ...] = ()
    facts: Callable[[], Dependencies] | None = None  # of a join before it drops columns
    stored_columns: frozenset[Column] = frozenset()
    aligned: dict[Any, Any] = field(default_factory=dict)  # shared by all algorithms of one expression
    least: float = 0.0  # what the operator itself costs at the least
    floors: list[float] = field(default_factory=list)  # the same with all that is below it, for each shape

    def wants(self, place: int) -> Iterator[frozenset[Column]]:
        if self.keys:
            yield frozenset(key.columns[place] for key in self.keys)
            return
        for each in self.alternatives:
            wish = each.children[place].partitioning
            if isinstance(wish, Clustered):
                yield wish.maximum

    def source(self, place: int, column: Column) -> Column | None:
        """The column of an input that an output column repeats, if that input's layout can come out."""
        if self.facts is not None:
            return column if column in self.inputs[place].column_set else None
        if self.operator.carried != place:
            return None
        return self.operator.source(column)

    def prefix(self, place: int, column: Column) -> tuple[Column, int] | None:
        """The column of an input that an output column has the first characters of, and how many."""
        return self.operator.prefix(column) if self.operator.carried == place and self.facts is None else None

    def origin(self, place: int, column: Column) -> Column | None:
        """The column of an input that an output column has its values from."""
        inputs = getattr(
            self.operator, "inputs", None
        )  # of a union: the columns of each input, in the order of its own
        if inputs is not None:
            return dict(zip(self.operator.columns, inputs[place], strict=True)).get(column)
        return self.source(place, column)

    def output_name(self, column: Column) -> Column | None:
        """What an output column is called in the facts that relate output and inputs."""
        return column if self.facts is not None else self.operator.source(column)

    def source_in_facts(self, place: int, column: Column) -> Column | None:
        return column if self.facts is not None else self.source(place, column)

    def wide_facts(self) -> Callable[[int], Dependencies]:
        """The facts that relate the output's columns with those of an input."""
        if self.facts is not None:
            wide = self.facts()
            return lambda place: wide
        return lambda place: self.inputs[place].facts
