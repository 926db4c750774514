"""Estimates of grouping operators (GROUP BY, DISTINCT, grouping sets): one row for each combination of key values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from unshuffle.cardinality.expression_statistics import expression_statistics
from unshuffle.cardinality.group_values import counts, means, sums
from unshuffle.cardinality.relation_estimate import Estimate, Relation, base_estimate
from unshuffle.cardinality.sampled import with_groups
from unshuffle.cardinality.selectivity import restriction
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN, ColumnStatistics, EquiDepthHistogram
from unshuffle.plan import logical
from unshuffle.plan.expressions import AggregateCall
from unshuffle.properties.facts.dependencies import Dependencies


def group_by(node: logical.GroupBy | logical.FinalGroupBy, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    input = inputs[0]
    groups = input.groups(node.keys) if node.keys else 1.0
    columns = {key: grouped(key, input, groups) for key in node.keys}
    estimate = _aggregated(node, input, groups, columns, node.aggregates, facts)
    return with_groups(estimate, node.keys, input)


def _aggregated(
    node: Any,
    input: Estimate,
    groups: float,
    columns: dict[Column, ColumnStatistics],
    aggregates: Iterable[tuple[Column, AggregateCall]],
    facts: Dependencies,
) -> Estimate:
    for column, call in aggregates:
        is_wanted = input.sample is None or column in input.sample.wanted
        known = (distributed(call, input, groups) if is_wanted else None) or _aggregate(call, input, groups)
        if known is not None:
            columns[column] = known
    guesses = input.guesses if groups > 1.0 else 0
    return base_estimate(node.columns, groups, columns, input.guessed, facts, guesses=guesses)


def grouped(key: Column, input: Estimate, groups: float) -> ColumnStatistics:
    """The statistics of a grouping column. Its values are assumed to be uniform over the groups."""
    known = input.columns.get(key, UNKNOWN_COLUMN)
    present = min(groups, input.distinct((key,)))
    histogram = known.histogram
    if histogram is not None:
        histogram = EquiDepthHistogram(histogram.bounds, histogram.distinct, histogram.distinct)
    nulls = min(1.0, 1.0 / present) if known.null_fraction > 0.0 and present > 0.0 else 0.0
    values = max(0.0, present - 1.0) if nulls else present
    return ColumnStatistics(values, nulls, known.low, known.high, known.width, (), histogram)


def distributed(call: AggregateCall, input: Estimate, groups: float) -> ColumnStatistics | None:
    """The statistics of an aggregate whose distribution over the groups is known; None for any other."""
    if call.distinct or call.where is not None or len(call.arguments) > 1 or not input.rows:
        return None
    match call.function, call.arguments:
        case "count", (argument,):
            nulls = expression_statistics(argument, input).null_fraction
            return counts(input.rows * (1.0 - nulls), groups) if nulls < 1.0 else None
        case "count", ():
            return counts(input.rows, groups)
        case "sum", (argument,):
            return sums(argument, input, groups)
        case "avg", (argument,):
            return means(argument, input, groups)
        case _:
            return None


def _aggregate(call: AggregateCall, input: Estimate, groups: float) -> ColumnStatistics | None:
    result = call.facts.result
    if result == "count":
        # Groups seldom have the same size, so there is no maximum. The sizes are assumed to be up to twice the average.
        each = input.rows / groups if groups > 0.0 else 0.0
        return ColumnStatistics(min(groups, max(1.0, 2.0 * each)))
    if result == "mean" and call.arguments:
        known = expression_statistics(call.arguments[0], input)
        return ColumnStatistics(max(1.0, groups), known.null_fraction, known.low, known.high)
    if result == "value" and call.arguments:
        known = expression_statistics(call.arguments[0], input)
        distinct = groups if known.distinct is None else min(groups, known.distinct)
        return ColumnStatistics(distinct, known.null_fraction, known.low, known.high, known.width)
    return ColumnStatistics(max(1.0, groups))


def grouping_sets(node: logical.GroupingSets, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    input = inputs[0]
    sizes = [input.groups(keys) if keys else 1.0 for keys in node.sets]
    rows = sum(sizes)
    columns: dict[Column, ColumnStatistics] = {}
    for out, source in node.keys:
        within = sum(size for size, keys in zip(sizes, node.sets, strict=True) if source in keys)
        known = grouped(source, input, within)
        kept = (within / rows if rows > 0.0 else 1.0) * (1.0 - known.null_fraction)
        columns[out] = ColumnStatistics(known.distinct, 1.0 - kept, known.low, known.high, known.width)
    return _aggregated(node, input, rows, columns, node.aggregates, facts)


def expand(node: logical.Expand, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """Every row once for each grouping set, or only some rows."""
    input = inputs[0]
    copies = max(1, len(node.sets))
    if node.repeated is not None:
        return _some_repeated(node, input, copies, facts)
    rows = input.rows * copies
    # The new columns have no more combinations than the groups that they form.
    groups = sum(input.groups(keys) if keys else 1.0 for keys in node.sets)
    relation = Relation(groups, facts)
    columns, origins = dict(input.columns), dict(input.origins)
    for out, source in node.keys:
        kept = sum(1 for keys in node.sets if source in keys) / copies
        known = input.columns.get(source, UNKNOWN_COLUMN)
        common = tuple((value, share * kept) for value, share in known.common)
        columns[out] = ColumnStatistics(
            input.distinct((source,)),
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
    remaining = {**input.remaining, relation: groups}
    return Estimate(rows, columns, input.guessed, facts, origins, remaining, input.own, input.guesses)


def _some_repeated(node: logical.Expand, input: Estimate, copies: int, facts: Dependencies) -> Estimate:
    """Each row once, and once more for each further copy where the condition holds."""
    assert node.repeated is not None
    repeated = input.rows * restriction((node.repeated,), input).fraction * (copies - 1)
    rows = input.rows + repeated
    first = input.rows / rows if rows > 0.0 else 1.0
    number = ColumnStatistics(float(copies), 0.0, 0, copies - 1, common=((0, first),))
    relation = Relation(rows, facts)
    origins = {**input.origins, node.number: ((relation, node.number),)}
    columns = {**input.columns, node.number: number}
    remaining = {**input.remaining, relation: rows}
    return Estimate(rows, columns, input.guessed, facts, origins, remaining, input.own, input.guesses)


def distinct(node: logical.Distinct, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    input = inputs[0]
    names = node.columns
    rows = input.groups(names)
    if rows >= input.rows:
        return input.with_facts(facts)
    columns = {name: grouped(name, input, rows) for name in names}
    estimate = base_estimate(names, rows, columns, input.guessed, facts, guesses=input.guesses)
    return with_groups(estimate, names, input)
