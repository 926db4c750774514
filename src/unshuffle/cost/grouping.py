"""Groups: one row for each combination of values that the grouping columns have (GROUP BY, DISTINCT, grouping sets)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from unshuffle.algebra import logical
from unshuffle.algebra.expressions import AggregateCall
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import NOTHING_KNOWN_OF_COLUMN, ColumnStatistics, Histogram
from unshuffle.cost.derived import derived
from unshuffle.cost.estimates import Estimate, Relation, fresh
from unshuffle.properties.dependencies import Dependencies


def group_by(node: logical.GroupBy | logical.FinalGroupBy, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    given = inputs[0]
    groups = given.distinct(node.keys) if node.keys else 1.0
    columns = {key: grouped(key, given, groups) for key in node.keys}
    return _aggregated(node, given, groups, columns, node.aggregates, facts)


def _aggregated(
    node: Any,
    given: Estimate,
    groups: float,
    columns: dict[Column, ColumnStatistics],
    aggregates: Iterable[tuple[Column, AggregateCall]],
    facts: Dependencies,
) -> Estimate:
    for column, call in aggregates:
        known = _aggregate(call, given, groups)
        if known is not None:
            columns[column] = known
    return fresh(node.columns, groups, columns, given.guessed, facts)


def grouped(key: Column, given: Estimate, groups: float) -> ColumnStatistics:
    """A grouping column: each of its values is as common as there are groups with it, which is taken as even."""
    known = given.columns.get(key, NOTHING_KNOWN_OF_COLUMN)
    present = min(groups, given.distinct((key,)))
    histogram = known.histogram
    if histogram is not None:
        histogram = Histogram(histogram.bounds, histogram.distinct, histogram.distinct)
    nulls = min(1.0, 1.0 / present) if known.null_fraction > 0.0 and present > 0.0 else 0.0
    values = max(0.0, present - 1.0) if nulls else present
    return ColumnStatistics(values, nulls, known.low, known.high, known.width, (), histogram)


_COUNTS = frozenset(("count", "count_if", "approx_count_distinct", "regr_count"))
_MEANS = frozenset(("avg", "mean", "median", "percentile", "approx_percentile", "percentile_approx"))
_PICKS = frozenset(("min", "max", "first", "last", "any_value", "first_value", "last_value", "mode"))


def _aggregate(call: AggregateCall, given: Estimate, groups: float) -> ColumnStatistics | None:
    if call.function in _COUNTS:
        # Groups are seldom of one size, so nothing is said of the largest; twice the average are as many sizes.
        each = given.rows / groups if groups > 0.0 else 0.0
        return ColumnStatistics(min(groups, max(1.0, 2.0 * each)))
    if call.function in _MEANS and call.arguments:
        known = derived(call.arguments[0], given)
        return ColumnStatistics(max(1.0, groups), known.null_fraction, known.low, known.high)
    if call.function in _PICKS and call.arguments:
        known = derived(call.arguments[0], given)
        distinct = groups if known.distinct is None else min(groups, known.distinct)
        return ColumnStatistics(distinct, known.null_fraction, known.low, known.high, known.width)
    return ColumnStatistics(max(1.0, groups))


def grouping_sets(node: logical.GroupingSets, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    given = inputs[0]
    sizes = [given.distinct(keys) if keys else 1.0 for keys in node.sets]
    rows = sum(sizes)
    columns: dict[Column, ColumnStatistics] = {}
    for out, source in node.keys:
        within = sum(size for size, keys in zip(sizes, node.sets, strict=True) if source in keys)
        known = grouped(source, given, within)
        kept = (within / rows if rows > 0.0 else 1.0) * (1.0 - known.null_fraction)
        columns[out] = ColumnStatistics(known.distinct, 1.0 - kept, known.low, known.high, known.width)
    return _aggregated(node, given, rows, columns, node.aggregates, facts)


def expand(node: logical.Expand, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """Every row as often as there are grouping sets."""
    given = inputs[0]
    copies = max(1, len(node.sets))
    rows = given.rows * copies
    # The new columns are those of the groups that can be made of them: no more combinations than these.
    groups = sum(given.distinct(keys) if keys else 1.0 for keys in node.sets)
    relation = Relation(groups, facts)
    columns, origins = dict(given.columns), dict(given.origins)
    for out, source in node.keys:
        kept = sum(1 for keys in node.sets if source in keys) / copies
        known = given.columns.get(source, NOTHING_KNOWN_OF_COLUMN)
        common = tuple((value, share * kept) for value, share in known.common)
        columns[out] = ColumnStatistics(
            given.distinct((source,)),
            1.0 - (1.0 - known.null_fraction) * kept,
            known.low,
            known.high,
            known.width,
            common,
            known.histogram,
        )
        origins[out] = ((relation, out),)
    even = tuple((place, 1.0 / copies) for place in range(copies))
    columns[node.number] = ColumnStatistics(float(copies), 0.0, 0, copies - 1, common=even)
    origins[node.number] = ((relation, node.number),)
    return Estimate(rows, columns, given.guessed, facts, origins, {**given.remaining, relation: groups}, given.own)


def distinct(node: logical.Distinct, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    given = inputs[0]
    names = node.columns
    rows = given.distinct(names)
    if rows >= given.rows:
        return given.under(facts)
    return fresh(names, rows, {name: grouped(name, given, rows) for name in names}, given.guessed, facts)
