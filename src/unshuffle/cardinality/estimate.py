"""Estimates an operator's rows and the statistics of its columns.

`estimate` sees one operator, the estimates of its inputs and the facts of its result. The estimate belongs to a group of the
memo, that is, to all plans with the same result. It is computed for every group, so it shares as much as possible with the
estimates of the inputs. Estimates guide plans and never change results, so an operator without a rule here is assumed to
return its input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from unshuffle.cardinality.expression_statistics import expression_statistics
from unshuffle.cardinality.grouping import distinct, distributed, expand, group_by, grouped, grouping_sets
from unshuffle.cardinality.joins import join
from unshuffle.cardinality.part_statistics import statistics_of_parts
from unshuffle.cardinality.relation_estimate import (
    Estimate,
    Origin,
    Relation,
    base_estimate,
    distinct_after,
    remaining_rows,
)
from unshuffle.cardinality.sampled import filtered, with_common_values
from unshuffle.cardinality.samples import united
from unshuffle.cardinality.selectivity import restriction
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN, ColumnStatistics, default_width
from unshuffle.constants import ASSUMED
from unshuffle.plan import logical
from unshuffle.plan.expressions import AggregateCall, Expression, Literal, Ref, WindowCall, columns_of
from unshuffle.plan.functions.windows import RANKINGS
from unshuffle.plan.predicates import conjuncts
from unshuffle.properties import Partitioned, PrefixPartitioned, RangeFunction, Sorted
from unshuffle.properties.facts.dependencies import Dependencies

__all__ = ("Estimate", "distinct_after", "estimate")


def estimate(node: logical.Plan, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """The estimate of an operator's result, which has these facts."""
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, inputs, facts)
    if len(inputs) == 1:
        return _same(node, inputs, facts)
    return _unknown(node.columns, max((each.rows for each in inputs), default=ASSUMED.table_rows), facts)


# --- leaves


def _scan(node: logical.Scan, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    statistics = node.statistics
    if statistics is not None:
        statistics = statistics_of_parts(node, statistics)
        columns = dict(statistics.columns)
        rows, guessed = float(statistics.rows), any(column not in columns for column in node.columns)
    else:
        columns, guessed = {}, True
        if node.files.rows is not None:
            rows = float(node.files.rows)
        elif node.files.bytes is not None:
            rows = max(1.0, node.files.bytes / max(1.0, sum(default_width(c.type) for c in node.columns)))
        else:
            rows = ASSUMED.table_rows
    for key in node.keys:
        if len(key) == 1:
            (column,) = key
            columns[column] = _with_distinct(columns.get(column, UNKNOWN_COLUMN), rows)
    order_dependencies = statistics.order_dependencies if statistics is not None else ()
    # The size of files bounds their rows well enough.
    guesses = 1 if statistics is None and node.files.rows is None and node.files.bytes is None else 0
    return base_estimate(node.columns, rows, columns, guessed, facts, order_dependencies, _overlaps(node), guesses)


def _overlaps(scan: logical.Scan) -> dict[Column, float]:
    """The `ColumnStatistics.overlap` of the columns that rows are stored in the order of."""
    known = scan.statistics.columns if scan.statistics is not None else ()
    overlaps = {column: each.overlap for column, each in known if each.overlap < 1.0}
    stored = scan.stored or scan.layout
    if stored is not None:
        layout = stored.partitioning
        if isinstance(layout, Partitioned | PrefixPartitioned) and isinstance(layout.function, RangeFunction):
            overlaps[layout.columns[0]] = 1.0 / layout.function.partitions
        if stored.local and isinstance(stored.local[0], Sorted):
            overlaps[stored.local[0].column] = 0.0
    return overlaps


def _with_distinct(known: ColumnStatistics, distinct: float) -> ColumnStatistics:
    if known.distinct == distinct:
        return known
    return ColumnStatistics(
        distinct, known.null_fraction, known.low, known.high, known.width, known.common, known.histogram
    )


def _unknown(names: Iterable[Column], rows: float, facts: Dependencies) -> Estimate:
    return base_estimate(names, rows, {}, True, facts, guesses=1)


def _table_scan(node: logical.TableScan, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    if node.rows is not None:
        return base_estimate(node.columns, float(node.rows), {}, False, facts)
    return _unknown(node.columns, ASSUMED.table_rows, facts)


def _values(node: logical.Values, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    rows = float(len(node.rows))
    columns: dict[Column, ColumnStatistics] = {}
    for place, column in enumerate(node.columns):
        written = [row[place] for row in node.rows]
        if all(isinstance(value, Literal) for value in written):
            columns[column] = _exact([value.value for value in written if isinstance(value, Literal)])
    return base_estimate(node.columns, rows, columns, False, facts)


def _exact(values: Sequence[Any]) -> ColumnStatistics:
    """The exact statistics of literal values."""
    present = [value for value in values if value is not None]
    counts: dict[Any, int] = {}
    for value in present:
        counts[value] = counts.get(value, 0) + 1
    try:
        low, high = min(present, default=None), max(present, default=None)
    except TypeError:
        low = high = None
    width = (
        sum(map(len, present)) / len(present) if present and all(isinstance(v, str | bytes) for v in present) else None
    )
    common = sorted(((value, count / len(values)) for value, count in counts.items()), key=lambda pair: -pair[1])
    nulls = 1.0 - len(present) / len(values) if values else 0.0
    return ColumnStatistics(float(len(counts)), nulls, low, high, width, tuple(common[:100]))


# --- one input


def _same(node: Any, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    return inputs[0].with_facts(facts)


def _filter(node: logical.Filter, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    conditions = conjuncts(node.predicate)
    return filtered(conditions, inputs[0], restriction(conditions, inputs[0]), facts)


def _project(node: logical.Project, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    input = inputs[0]
    if all(type(expression) is Ref and expression.column == column for column, expression in node.outputs):
        return _same(node, inputs, facts)
    columns: dict[Column, ColumnStatistics] = {}
    origins: dict[Column, tuple[Origin, ...]] = {}
    remaining = input.remaining
    guessed = input.guessed
    sample = input.sample.projected(dict(node.outputs)) if input.sample is not None else None
    for column, expression in node.outputs:
        if type(expression) is Ref:
            known = input.columns.get(expression.column)
            origins[column] = input.origins.get(expression.column, ())
        else:
            known = with_common_values(expression_statistics(expression, input), column, sample)
            origin = _origin_of(expression, column, input)
            origins[column] = (origin,)
            if origin[0] not in remaining:
                remaining = {**remaining, origin[0]: input.rows}
        if known is not None and known is not UNKNOWN_COLUMN:
            columns[column] = known
        else:
            guessed = True
    return Estimate(input.rows, columns, guessed, facts, origins, remaining, input.own, input.guesses, sample)


def _origin_of(expression: Expression, column: Column, input: Estimate) -> Origin:
    """An expression over one relation's columns belongs to that relation, any other expression to a new relation."""
    relations = {relation for part in columns_of(expression) for relation in input.relations(part)[:1]}
    return (relations.pop() if len(relations) == 1 else Relation(input.rows, input.facts), column)


def _window(node: logical.Window, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    input = inputs[0]
    columns = dict(input.columns)
    origins = dict(input.origins)
    relation = Relation(input.rows, facts)
    for column, call in node.calls:
        origins[column] = ((relation, column),)
        columns[column] = _windowed(call, input)
    remaining = {**input.remaining, relation: input.rows}
    return Estimate(
        input.rows, columns, input.guessed, facts, origins, remaining, input.own, input.guesses, input.sample
    )


def _windowed(call: WindowCall, input: Estimate) -> ColumnStatistics:
    by = [part.column for part in call.partition if isinstance(part, Ref)]
    groups = max(1.0, input.groups(by)) if by else 1.0
    each = max(1.0, input.rows / groups)
    if call.call.function in RANKINGS:
        return ColumnStatistics(each, 0.0, 1, ceil(each))
    if call.call.function == "ntile":
        return ColumnStatistics(min(each, 10.0))
    if not isinstance(call.call, AggregateCall) or call.order:
        return ColumnStatistics(max(1.0, input.rows))
    return distributed(call.call, input, groups) or ColumnStatistics(groups)


def _limit(node: logical.Limit, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    input = inputs[0]
    rows = max(0.0, input.rows - node.offset)
    if node.count is not None:
        rows = min(rows, float(node.count))
    kept = rows / input.rows if input.rows > 0.0 else 1.0
    remaining = remaining_rows(input.remaining, input.rows, kept, {})
    guesses = 0 if node.count is not None and rows == node.count else input.guesses
    return Estimate(rows, input.columns, input.guessed, facts, input.origins, remaining, input.own, guesses)


# --- several inputs


def _set_operation(node: logical.SetOperation, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    guessed, guesses = any(each.guessed for each in inputs), max(each.guesses for each in inputs)
    sources = [plan.columns for plan in node.inputs]
    if node.kind is logical.SetKind.UNION:
        rows = sum(each.rows for each in inputs)
        columns = {}
        for place, column in enumerate(node.columns):
            known = _united([(each, names[place]) for each, names in zip(inputs, sources, strict=True)], rows)
            if known is not None:
                columns[column] = known
        sample = united([each.sample for each in inputs], sources, node.columns)
        whole = replace(base_estimate(node.columns, rows, columns, guessed, facts, guesses=guesses), sample=sample)
        if node.all:
            return whole
        rows = whole.groups(node.columns)
        return base_estimate(node.columns, rows, columns, guessed, facts, guesses=guesses)
    left, right = inputs
    ours, theirs = left.groups(sources[0]), right.groups(sources[1])
    both = min(ours, theirs) * ASSUMED.intersection
    if node.kind is logical.SetKind.INTERSECT:
        rows = min(left.rows, right.rows) * ASSUMED.intersection if node.all else both
    else:
        rows = max(left.rows - right.rows, left.rows * ASSUMED.intersection) if node.all else max(0.0, ours - both)
    pairs = zip(node.columns, sources[0], strict=True)
    columns = {column: grouped(source, left, rows) for column, source in pairs if source in left.columns}
    return base_estimate(node.columns, rows, columns, True, facts, guesses=guesses + 1)


def _united(sources: Sequence[tuple[Estimate, Column]], rows: float) -> ColumnStatistics | None:
    """One column of a union. The values of columns that nearly identify a row add up; columns with few values share them."""
    distinct, most, nulls, wide, kept = 0.0, 0.0, 0.0, 0.0, 0.0
    lows, highs = [], []
    for each, column in sources:
        known = each.columns.get(column)
        if known is None or known.distinct is None:
            return None
        present = min(known.distinct, each.distinct((column,)))
        share = present / each.rows if each.rows > 0.0 else 1.0
        most = max(most, present)
        distinct += present * share
        nulls += known.null_fraction * each.rows
        wide += (known.width or 0.0) * each.rows
        kept += each.rows if known.width is not None else 0.0
        lows.append(known.low)
        highs.append(known.high)
    try:
        low = min(lows) if None not in lows else None
        high = max(highs) if None not in highs else None
    except TypeError:
        low = high = None
    width = wide / kept if kept > 0.0 else None
    return ColumnStatistics(min(rows, max(most, distinct)), nulls / rows if rows > 0.0 else 0.0, low, high, width)


# --- user-defined operators: see `constants` for the assumptions


def _process(node: logical.Process, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    return _user_defined(node.columns, inputs[0].rows, node.readonly, inputs, facts)


def _reduce(node: logical.Reduce, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    return _user_defined(node.columns, inputs[0].groups(node.keys), node.readonly, inputs, facts)


def _combine(node: logical.Combine, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    left, right = inputs
    rows = max(left.distinct(node.left_keys), right.distinct(node.right_keys))
    return _user_defined(node.columns, rows, node.readonly, inputs, facts)


def _user_defined(
    names: Sequence[Column],
    rows: float,
    readonly: Sequence[tuple[Column, Column]],
    inputs: Sequence[Estimate],
    facts: Dependencies,
) -> Estimate:
    columns: dict[Column, ColumnStatistics] = {}
    for out, source in readonly:
        for each in inputs:
            if source in each.origins and source in each.columns:
                columns[out] = _with_distinct(each.columns[source], min(rows, each.distinct((source,))))
    guesses = 1 + max(each.guesses for each in inputs)
    return base_estimate(names, rows, columns, True, facts, guesses=guesses)


# --- foreign operators and sharing


def _foreign(node: logical.Foreign, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    return _unknown(node.columns, max((each.rows for each in inputs), default=ASSUMED.table_rows), facts)


def _reference(node: logical.Reference, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    """The same rows again. Two uses of a rowset are independent, so each has relations of its own."""
    input = inputs[0]
    if node.columns == node.rowset.columns:
        return _same(node, inputs, facts)
    copies = {relation: replace(relation) for relation in input.remaining}
    columns: dict[Column, ColumnStatistics] = {}
    origins: dict[Column, tuple[Origin, ...]] = {}
    for column, source in zip(node.columns, node.rowset.columns, strict=True):
        if source in input.columns:
            columns[column] = input.columns[source]
        origins[column] = tuple((copies[relation], name) for relation, name in input.origins.get(source, ()))
    remaining = {copies[relation]: count for relation, count in input.remaining.items()}
    own = {(copies[relation], name): share for (relation, name), share in input.own.items()}
    pairs = dict(zip(node.columns, node.rowset.columns, strict=True))
    sample = input.sample.renamed(pairs) if input.sample is not None else None
    return Estimate(input.rows, columns, input.guessed, facts, origins, remaining, own, input.guesses, sample)


_RULES: dict[type, Callable[[Any, Sequence[Estimate], Dependencies], Estimate]] = {
    logical.Scan: _scan,
    logical.TableScan: _table_scan,
    logical.Values: _values,
    logical.Project: _project,
    logical.Filter: _filter,
    logical.GroupBy: group_by,
    logical.GroupingSets: grouping_sets,
    logical.FinalGroupBy: group_by,
    logical.Expand: expand,
    logical.Distinct: distinct,
    logical.Window: _window,
    logical.Sort: _same,
    logical.Limit: _limit,
    logical.Join: join,
    logical.SetOperation: _set_operation,
    logical.Process: _process,
    logical.Reduce: _reduce,
    logical.Combine: _combine,
    logical.Foreign: _foreign,
    logical.Shared: _same,
    logical.Reference: _reference,
}
