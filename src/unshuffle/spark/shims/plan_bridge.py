"""Physical plans of ours inside Spark's.

One thing cannot be expressed with DataFrames: an aggregate whose partial states are exchanged as we choose. Spark plans an
aggregate as two operators, and decides on the exchange between them when it prepares the plan. `shims.plan_steps` takes the
two from the plan before that (`sparkPlan`), puts our exchange between them, and makes the result a leaf of a logical plan:
what adaptive execution calls a query stage, a leaf with a physical plan of its own. Spark checks it as it does its own plans,
and would add an exchange if one were missing.

This module says what is done to the physical plan of a `Step`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unshuffle.frozen import dataclass

# The column with the number of the partition that a partial state comes from.
FRAGMENT = "_fragment"

PlanChange = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GatherExchange:
    """All rows into one partition."""


@dataclass(frozen=True, slots=True)
class HashExchange:
    columns: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class NumberExchange:
    """Each row into the partition whose number is in a column."""

    column: str
    partitions: int


@dataclass(frozen=True, slots=True)
class RangeExchange:
    """By ranges of some columns: name, descending, NULLs first."""

    keys: tuple[tuple[str, bool, bool], ...]
    partitions: int


SparkExchange = GatherExchange | HashExchange | NumberExchange | RangeExchange

# The same rows, by Spark's current physical plan: the optimizer no longer sees what is inside.
PLANNED: PlanChange = {"kind": "planned"}

# The same rows, with groups formed from sorted rows. For states that are Java objects, Spark would use a hash table, and sort
# the rest once the table has 128 groups, even if the rows are sorted already. (Spark has a setting for this, but other
# threads would see it change in the user's session.)
SORT_AGGREGATED: PlanChange = {"kind": "sort_aggregated"}

# A GROUP BY without its exchange: a group occurs once for each partition that has rows of it.
AGGREGATED_IN_EACH_PARTITION: PlanChange = {"kind": "aggregated_in_each_partition"}


def aggregated_in_two_phases(exchange: SparkExchange, fragments: Sequence[int] = ()) -> PlanChange:
    """A GROUP BY with this exchange between its partial and its final aggregate. The exchange is by grouping keys.

    Before that, the partial states are gathered into as many partitions as each of `fragments` says, one step after another,
    and combined there."""
    return {"kind": "aggregated_in_two_phases", "exchange": _exchange(exchange), "fragments": list(fragments)}


def repartitioned(exchange: SparkExchange) -> PlanChange:
    """The rows through an exchange by number or by ranges, which no hint expresses."""
    return {"kind": "repartitioned", "exchange": _exchange(exchange)}


def _exchange(exchange: SparkExchange) -> dict[str, Any]:
    match exchange:
        case GatherExchange():
            return {"kind": "gather", "columns": []}
        case NumberExchange(column, partitions):
            return {"kind": "number", "columns": [column], "partitions": partitions}
        case HashExchange(columns, partitions):
            return {"kind": "hash", "columns": list(columns), "partitions": partitions}
        case RangeExchange(keys, partitions):
            names, directions = [name for name, *_ in keys], [direction for _, *direction in keys]
            return {"kind": "range", "columns": names, "directions": directions, "partitions": partitions}
