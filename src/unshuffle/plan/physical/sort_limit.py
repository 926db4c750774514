"""ORDER BY, LIMIT, and the sort inside each partition."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Ref, SortKey
from unshuffle.plan.physical.base import InputFacts, InputLayouts, LayoutPreservingOperator
from unshuffle.properties import Alternative, AnyDistribution, Delivered, Required, SinglePartition, Sorted
from unshuffle.properties.matching import operator_requirements


@dataclass(frozen=True, slots=True)
class OrderBy(LayoutPreservingOperator):
    """ORDER BY: a total order, inside partitions and from one to the next. It only requires the order; exchanges and
    `LocalSort` establish it."""

    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    def alternatives(self) -> tuple[Alternative, ...]:
        return operator_requirements.sort(self.keys)


@dataclass(frozen=True, slots=True)
class Limit(LayoutPreservingOperator):
    """LIMIT of one partition, in the order of `keys` if there are any."""

    count: int | None
    offset: int
    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("serial", (Required(SinglePartition(), self.keys),)),)


@dataclass(frozen=True, slots=True)
class PartialTopN(LayoutPreservingOperator):
    """The first rows of each partition. The first rows of the whole input are among them."""

    count: int
    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    def alternatives(self) -> tuple[Alternative, ...]:
        return tuple(
            Alternative(each.name, (Required(each.children[0].partitioning, ()),))
            for each in operator_requirements.row_by_row()
        )

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        """The rows are kept in a heap, so the output is sorted whatever the order of the input."""
        return Delivered(inputs[0].partitioning, self.keys or inputs[0].local)

    @property
    def keeps_order(self) -> bool:
        return not self.keys


@dataclass(frozen=True, slots=True)
class LocalSort(LayoutPreservingOperator):
    """Sorts each partition. The sort is not stable, so rows with equal keys lose their earlier order."""

    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    @property
    def keeps_order(self) -> bool:
        return False

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("", (Required(AnyDistribution()),)),)

    def deliver(self, inputs: InputLayouts, facts: InputFacts) -> Delivered:
        return Delivered(inputs[0].partitioning, self.keys)


def sorted_keys(order: Sequence[SortKey]) -> tuple[Sorted, ...] | None:
    """An ORDER BY as an order on columns. None if a key is an expression."""
    keys = [Sorted(k.expression.column, k.descending, k.nulls_first) for k in order if isinstance(k.expression, Ref)]
    return tuple(keys) if len(keys) == len(order) else None
