"""Rowsets with several uses, and queries that only Spark understands."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.logical.node import ColumnPreserving

if TYPE_CHECKING:
    from unshuffle.plan.logical.optimizer_nodes import GroupRef
    from unshuffle.plan.logical.plan import Plan


@dataclass(frozen=True, slots=True)
class Foreign:
    """A query that Spark runs unchanged. It reads `inputs` under the names in its text. Nothing is known about its result,
    but that a `coalesce(1)` makes one partition, without a shuffle.

    If it comes from a DataFrame, `operator` is Spark's own operator, and `sql` is only its description."""

    sql: str
    inputs: tuple[tuple[str, Plan], ...]
    columns: tuple[Column, ...]
    reason: str
    operator: Any = field(default=None, compare=False, repr=False)
    is_serial: bool = False  # all rows are in one partition

    @property
    def children(self) -> tuple[Plan, ...]:
        return tuple(plan for _, plan in self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Shared(ColumnPreserving):
    """A rowset that is used more than once. Compared by identity: all uses refer to one node."""

    name: str
    child: Plan


@dataclass(frozen=True, slots=True)
class Reference:
    """One use of a shared rowset, under columns of its own, which correspond to the rowset's by position."""

    rowset: Shared | GroupRef  # a GroupRef in the memo
    columns: tuple[Column, ...]

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.rowset,)

    @property
    def shared(self) -> Shared:
        """The rowset of a Reference that is not in the memo."""
        assert isinstance(self.rowset, Shared)
        return self.rowset
