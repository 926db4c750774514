"""Estimates from rows that were looked at, where statistics alone would have to assume.

    a filter    is evaluated: its rows are counted, whatever its conditions and however correlated their columns are
    a join      of a sample with all rows of the other side is computed
    statistics  of columns are counted anew where all rows were looked at and few remain

If too few rows of a sample remain, they are counted once more, and from there on estimates rest on statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.cardinality.relation_estimate import Estimate, Relation
from unshuffle.cardinality.samples import BaseSample, Sample
from unshuffle.cardinality.selectivity import Restriction, restriction
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.column_statistics import count_values
from unshuffle.catalog.statistics.table_look import TableLook
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN, ColumnStatistics
from unshuffle.catalog.statistics.value_codes import is_whole
from unshuffle.constants import LOOKS
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, columns_of, operands
from unshuffle.plan.logical import (
    Distinct,
    Expand,
    Filter,
    GroupBy,
    GroupingSets,
    Join,
    Plan,
    Project,
    Reference,
    Scan,
    Script,
    SetOperation,
    Window,
    expressions_of,
)
from unshuffle.properties.facts.dependencies import Dependencies

_MIN_ROWS = 0.5  # of a condition that no row satisfied: files may change, and half a row costs nothing


def columns_looked_at(script: Script) -> frozenset[Column]:
    """The columns that conditions and keys read. Nothing else about a column matters for the number of rows. None of a query
    over so few rows that every plan is fast."""
    scans = [node for node in script.operators() if isinstance(node, Scan)]
    # Of a structured stream the rows are known, though they are not looked at.
    rows = (scan.files.rows or 0 if scan.look is None else scan.look.population for scan in scans)
    if sum(rows) < LOOKS.worth_rows:
        return frozenset()
    found: set[Column] = set()
    nodes = list(script.operators())
    for node in nodes:
        found |= _read_by(node)
    for _ in range(2):  # a rowset may come before the second of its references
        for node in nodes:
            match node:
                case Project(outputs=outputs):
                    for column, expression in outputs:
                        if column in found:
                            found |= columns_of(expression)
                case Reference(rowset=rowset, columns=columns):
                    found.update(
                        source for column, source in zip(columns, rowset.columns, strict=True) if column in found
                    )
                case _:
                    pass
    return frozenset(found)


def _read_by(node: Plan) -> set[Column]:
    """The columns that the conditions and keys of an operator read."""
    match node:
        case Filter() | Join():
            return {column for expression in expressions_of(node) for column in columns_of(expression)}
        case GroupBy(keys=keys):
            return set(keys)
        case GroupingSets(keys=pairs) | Expand(keys=pairs):
            return {source for _, source in pairs}
        case Distinct() | SetOperation():
            return {column for child in node.children for column in child.columns}
        case Window(calls=calls):
            parts = (part for _, call in calls for part in (*call.partition, *operands(call.call)))
            return {column for part in parts for column in columns_of(part)}
        case _:
            return set()


def looked_at(scan: Scan, estimate: Estimate, wanted: frozenset[Column]) -> Estimate:
    """The estimate of a scan with the rows of the table that were looked at. Statistics matter of the wanted columns."""
    look = scan.look
    if look is None or not wanted:
        return estimate
    sample = BaseSample(look, scan.columns, wanted)
    if not sample.rows:
        return estimate
    known = dict(estimate.columns)
    for column in scan.columns:
        if column not in wanted:
            continue
        seen = look.statistics(column.name)
        if seen is not None and sample.values(column) is not None:
            known[column] = _better(known.get(column, UNKNOWN_COLUMN), seen, look, estimate.rows)
    guessed = estimate.guessed and any(column not in known for column in scan.columns)
    (before,) = estimate.remaining
    relation = replace(before, sample=sample)
    return replace(
        estimate,
        columns=known,
        guessed=guessed,
        sample=sample,
        origins={column: ((relation, column),) for column in estimate.origins},
        remaining={relation: estimate.rows},
    )


def _better(known: ColumnStatistics, seen: ColumnStatistics, look: TableLook, rows: float) -> ColumnStatistics:
    """Footers know the ends of a column and its NULLs, a sample the values between them."""
    if known.histogram is not None or known.lists_all_values:
        return known  # the table was analyzed, or these are the values of folders
    if look.is_complete:
        return replace(seen, overlap=known.overlap)
    distinct = seen.distinct
    if known.distinct is not None:
        distinct = known.distinct if distinct is None or seen.is_sampled else min(distinct, known.distinct)
    return replace(
        known,
        distinct=None if distinct is None else min(distinct, rows),
        low=seen.low if known.low is None else known.low,
        high=seen.high if known.high is None else known.high,
        width=seen.width if known.width is None else known.width,
        common=seen.common,
        histogram=seen.histogram,
    )


def with_common_values(known: ColumnStatistics, column: Column, sample: Sample | None) -> ColumnStatistics:
    """The statistics of a computed column, with its values that are common in the rows that were looked at: if it is a join
    key, they may fill a partition each."""
    if sample is None or sample.rows > LOOKS.sampled_rows or known.common or column not in sample.wanted:
        return known
    values = sample.values(column)
    if values is None or values.type != column.type or pa.types.is_nested(values.type):
        return known
    counted = count_values(values, LOOKS.sampled_rows)[0]
    common = tuple(pair for pair in counted.common if pair[1] * sample.rows >= LOOKS.min_rows)
    return replace(known, null_fraction=counted.null_fraction, common=common) if common else known


def rows_of(sample: Sample, otherwise: float) -> float:
    """The rows of a relation of which a sample remains; `otherwise` is what statistics say."""
    if sample.rows:
        return sample.estimated
    return _MIN_ROWS if sample.is_complete else min(otherwise, sample.weight)


def filtered(conditions: Sequence[Expression], input: Estimate, effect: Restriction, facts: Dependencies) -> Estimate:
    """The estimate of the rows that satisfy all conditions, given their effect by statistics."""
    sample, others = _satisfying(conditions, input.sample)
    if sample is None or len(others) == len(conditions):
        return effect.applied_to(input, facts)
    rest = restriction(others, input).fraction if others else 1.0
    rows = min(input.rows, rows_of(sample, input.rows * effect.fraction / max(rest, 1e-9))) * rest
    effect.fraction = rows / input.rows if input.rows > 0.0 else 0.0
    effect.guessed = effect.guessed and bool(others)
    effect.guesses = len(others)
    estimate = effect.applied_to(input, facts)
    if not sample.tells_enough:
        return estimate
    if others:
        return replace(estimate, sample=sample.reduced(rest))
    assert input.sample is not None
    if sample.rows == input.sample.rows:  # the same rows, whose values are known already
        return replace(estimate, rows=rows, sample=input.sample)
    return counted_anew(replace(estimate, rows=rows, sample=sample))


def only_value(estimate: Estimate, plan: Plan) -> Literal | None:
    """The value of a query of one row and one column, if all its rows were looked at."""
    sample = estimate.sample
    if sample is None or not sample.is_complete or sample.rows != 1 or len(plan.columns) != 1:
        return None
    values = sample.values(plan.columns[0])
    if values is None or pa.types.is_decimal(values.type):
        return None
    try:
        return Literal(values[0].as_py(), values.type)
    except (ValueError, OverflowError):
        return None  # Python has no such date


def _satisfying(conditions: Iterable[Expression], sample: Sample | None) -> tuple[Sample | None, list[Expression]]:
    """The rows of a sample that satisfy the conditions that can be evaluated, and the other conditions."""
    others = []
    for condition in conditions:
        kept = sample.filtered(condition) if sample is not None else None
        if kept is None:
            others.append(condition)
        else:
            sample = kept
    return sample, others


def satisfying_all(conditions: Iterable[Expression], sample: Sample) -> Sample | None:
    """The rows of a sample that satisfy all conditions; None if one cannot be evaluated."""
    kept, others = _satisfying(conditions, sample)
    return None if others else kept


def within_keys(side: Estimate, key: Column, other: ColumnStatistics) -> Estimate:
    """The rows of a side, all of which were looked at, whose keys are between the ends of the other side's: only they can
    have a match. A calendar of two hundred years has five years of sales."""
    sample, low, high = side.sample, other.low, other.high
    if sample is None or not sample.is_complete or low is None or high is None or key.type is None:
        return side
    cached = sample.narrowed.get((key, low, high))
    if cached is not None and cached[0] is side:
        found: Estimate = cached[1]
        return found
    condition = Call("between", (Ref(key), Literal(low, key.type), Literal(high, key.type)), pa.bool_())
    kept = sample.filtered(condition) if is_whole(key.type) else None
    narrow = side
    if kept is not None and 0 < kept.rows < LOOKS.narrowed_share * sample.rows:
        own = restriction((condition,), side).applied_to(side, side.facts)
        narrow = counted_anew(replace(own, rows=kept.estimated, sample=kept))
    sample.narrowed[key, low, high] = (side, narrow)
    return narrow


def counted_anew(estimate: Estimate) -> Estimate:
    """An estimate all of whose rows were looked at, as a relation of its own: its statistics describe exactly its rows."""
    sample = estimate.sample
    if sample is None or not sample.is_complete or sample.rows > LOOKS.profiled_rows:
        return estimate
    relation = Relation(estimate.rows, estimate.facts, *_stored_order(estimate), sample)
    columns = dict(estimate.columns)
    for column in estimate.origins:
        values = sample.values(column) if column in sample.wanted else None
        if values is not None:
            columns[column] = count_values(values, LOOKS.sampled_rows)[0]
        elif column in columns:
            columns[column] = _at_most(columns[column], estimate.rows)
    return replace(
        estimate,
        columns=columns,
        origins={column: ((relation, column),) for column in estimate.origins},
        remaining={relation: estimate.rows},
        own={},
    )


def with_groups(estimate: Estimate, keys: Sequence[Column], input: Estimate) -> Estimate:
    """The estimate of groups with a row of each group that was looked at, and the statistics of the keys in these."""
    if input.sample is None or not keys:
        return estimate
    sample = input.sample.groups(keys, estimate.rows)
    if sample is None or not sample.tells_enough:
        return estimate
    columns = dict(estimate.columns)
    for key in keys:
        values = sample.values(key) if sample.rows <= LOOKS.profiled_rows and key in sample.wanted else None
        if values is not None:
            counted = count_values(values, LOOKS.sampled_rows)[0]
            known = columns.get(key)
            distinct = counted.distinct if known is None or sample.is_complete else known.distinct
            columns[key] = replace(counted, distinct=distinct)
    (before,) = estimate.remaining
    relation = replace(before, sample=sample)  # it knows which combinations of some keys there are
    return replace(
        estimate,
        columns=columns,
        sample=sample,
        origins={column: ((relation, column),) for column in estimate.origins},
        remaining={relation: estimate.rows},
    )


def _stored_order(estimate: Estimate) -> tuple[tuple[tuple[Column, ...], ...], dict[Column, float]]:
    """The order of the rows, if they are those of one table."""
    if len(estimate.remaining) != 1:
        return (), {}
    (relation,) = estimate.remaining
    return relation.order_dependencies, dict(relation.overlaps)


def _at_most(known: ColumnStatistics, rows: float) -> ColumnStatistics:
    return known if known.distinct is None or known.distinct <= rows else replace(known, distinct=max(1.0, rows))
