"""Exploration: every rule that offers alternatives to the search, in the order in which it is tried on an expression.

An exploration rule is a generator `(plan, memo) -> Iterator[Plan]`. Each plan that it yields has the same rows as the
expression it was given, and competes with it on cost: disabling a rule may cost speed, never correctness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from unshuffle.errors import InternalError
from unshuffle.explore.aggregation import (
    aggregate_above_join,
    aggregate_below_join,
    distinct_above_join,
    partial_aggregate_below_join,
    semi_join_as_join,
    split_aggregate,
)
from unshuffle.explore.child_joins import union_of_child_joins
from unshuffle.explore.heavy_values import split_heavy_values, undivided_rows
from unshuffle.explore.join_reordering import order_joins
from unshuffle.explore.partial_top_n import split_limit
from unshuffle.explore.picked_rows import pick_from_rows, rows_with_extremes
from unshuffle.explore.semi_join_pullup import semi_join_above_join
from unshuffle.explore.super_operators.diamond_join import diamond_join, diamond_of_totals
from unshuffle.explore.super_operators.diamond_union import diamond_union
from unshuffle.explore.super_operators.exists_in_group import exists_in_group
from unshuffle.explore.super_operators.first_row import first_row_and_join
from unshuffle.explore.super_operators.join_back import extreme_rows, join_with_own_aggregates, min_and_join
from unshuffle.explore.super_operators.several_outputs import several_outputs
from unshuffle.explore.super_operators.two_granularities import two_granularities
from unshuffle.explore.super_operators.union_then_group import union_then_group
from unshuffle.explore.window_to_join import window_as_join

SUPER_OPERATORS = (
    diamond_union,
    diamond_join,
    diamond_of_totals,
    min_and_join,
    join_with_own_aggregates,
    extreme_rows,
    two_granularities,
    union_then_group,
    exists_in_group,
    first_row_and_join,
)

EXPLORATION = (
    order_joins,
    union_of_child_joins,
    split_heavy_values,
    semi_join_above_join,
    split_aggregate,
    aggregate_below_join,
    aggregate_above_join,
    partial_aggregate_below_join,
    semi_join_as_join,
    distinct_above_join,
    split_limit,
    window_as_join,
    pick_from_rows,
    *SUPER_OPERATORS,
)

# Looks at all outputs of a script together rather than at one expression. The optimizer calls it once.
OUTPUT_RULES = (several_outputs,)

# How many rows the joins of some rules have, which know more about them than their conditions say.
JOIN_ESTIMATES: dict[Callable[..., Any] | None, Callable[..., Any]] = {
    pick_from_rows: rows_with_extremes,
    split_heavy_values: undivided_rows,
}


def _names(rules: Iterable[Callable[..., Any]]) -> frozenset[str]:
    """The names by which users disable the rules. Two rules of one name could not be told apart."""
    counts = Counter(rule.__name__ for rule in rules)
    repeated = [name for name, count in counts.items() if count > 1]
    undocumented = [rule.__name__ for rule in rules if not rule.__doc__]
    if repeated or undocumented:
        raise InternalError(f"exploration rules of the same name: {repeated}, without a docstring: {undocumented}")
    return frozenset(counts)


RULE_NAMES = _names((*EXPLORATION, *OUTPUT_RULES))
# Alternatives that plain Spark has too. Without the others, a plan has the shape in which the query was written.
SPARK_RULE_NAMES = _names((split_aggregate, split_limit))
SUPER_OPERATOR_NAMES = _names((*SUPER_OPERATORS, *OUTPUT_RULES))
