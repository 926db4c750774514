"""Rows of a relation that were looked at, and what filters, projections and joins leave of them.

A sample is a list of rows whose values are computed when they are asked for. All rows of a small table are its sample, and
whatever is counted in them is exact. A row of a large table's sample stands for many rows, its `weight`.

    sales (1 in 144 rows)  x  days (all)      a sample of the join: each sampled sale with its day, if that remains
                                              its rows, times 144, are the estimate

So several conditions on one table, conditions on several tables that are correlated, and keys whose ranges differ need no
assumption. Two tables of which only some rows were looked at have no sample of their join: its rows would have to meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.cardinality.evaluation import NotEvaluated, evaluated, is_true
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.distinct_estimate import in_all_rows, values_drawn
from unshuffle.catalog.statistics.table_look import TableLook
from unshuffle.catalog.statistics.value_codes import codes_of, integers, is_whole
from unshuffle.constants import LOOKS
from unshuffle.plan.expressions import Expression, Ref

Positions = npt.NDArray[np.int64]
_MAX_DIRECT = 2_000_000  # codes that are looked up in a table of all codes


class Sample:
    """Rows that were looked at. Each stands for `weight` rows of the relation; `is_complete` says that these are all. Of the
    `wanted` columns, statistics matter: those that conditions and keys of the query read."""

    def __init__(self, rows: int, weight: float, is_complete: bool, wanted: frozenset[Column]) -> None:
        self.rows, self.weight, self.is_complete, self.wanted = rows, weight, is_complete, wanted
        self._values: dict[Column, pa.Array | None] = {}
        # Estimates of the rows with keys in a range, by the estimate they come from.
        self.narrowed: dict[tuple[Column, Any, Any], tuple[Any, Any]] = {}
        self._codes: dict[Column, Positions | None] = {}
        self._distinct: dict[tuple[Column, ...], float | None] = {}
        self._covered: dict[tuple[Column, ...], bool] = {}

    @property
    def estimated(self) -> float:
        """The rows of the relation."""
        return self.rows * self.weight

    @property
    def tells_enough(self) -> bool:
        return self.is_complete or self.rows >= LOOKS.min_rows

    def values(self, column: Column) -> pa.Array | None:
        """The column's value in each row; None if unknown."""
        if column not in self._values:
            self._values[column] = self._compute(column)
        return self._values[column]

    def _compute(self, column: Column) -> pa.Array | None:
        raise NotImplementedError

    def codes(self, column: Column) -> Positions | None:
        """For each row a number that is the same for equal values, 0 for NULL; None if they are unknown."""
        if column not in self._codes:
            self._codes[column] = self._encode(column)
        return self._codes[column]

    def _encode(self, column: Column) -> Positions | None:
        values = self.values(column)
        return None if values is None else codes_of(values)

    def filtered(self, condition: Expression) -> Sample | None:
        """The rows for which a condition is true; None if it cannot be evaluated."""
        try:
            mask = is_true(condition, self.values, self.rows)
        except NotEvaluated:
            return None
        return _Rows(self, np.flatnonzero(mask.to_numpy(zero_copy_only=False)))

    def projected(self, outputs: Mapping[Column, Expression]) -> Sample:
        return _Projected(self, outputs)

    def renamed(self, sources: Mapping[Column, Column]) -> Sample:
        """The same rows under other columns, each with the one that it copies."""
        return _Projected(self, {new: Ref(old) for new, old in sources.items()})

    def distinct(self, columns: Sequence[Column]) -> float | None:
        """The number of combinations of these columns in the relation, NULL counted as a value. None if the rows do not
        tell."""
        key = tuple(columns)
        if key not in self._distinct:
            self._distinct[key] = self._count_distinct(key)
        return self._distinct[key]

    def covers(self, columns: Sequence[Column]) -> bool:
        """Whether most rows have combinations that occur more than once, so that hardly any is missing."""
        return self.is_complete or self._covered.get(tuple(columns), False)

    def groups(self, columns: Sequence[Column], total: float) -> Sample | None:
        """A row of each combination, of which there are so many in all. Where the combinations in a sample are many times
        fewer than its rows, hardly any is missing."""
        codes = self._combined(columns)
        if codes is None:
            return None
        _, first = np.unique(codes, return_index=True)
        found = _Rows(self, np.sort(first))
        if not self.is_complete:
            found.is_complete = found.rows * LOOKS.repeated_groups <= self.rows and total <= 1.02 * found.rows
            found.weight = 1.0 if found.is_complete else max(1.0, total / max(1, found.rows))
        return found

    def reduced(self, share: float) -> Sample:
        """The same rows, of which only a share remains, and it is unknown which."""
        found = _Rows(self, np.arange(self.rows))
        found.weight, found.is_complete = self.weight * share, False
        return found

    def _count_distinct(self, columns: Sequence[Column]) -> float | None:
        codes = self._combined(columns)
        if codes is None:
            return None
        counts = np.unique(codes, return_counts=True)[1]
        if self.is_complete:
            return float(len(counts))
        if self.weight < 1.0:  # fewer rows remain than were looked at
            return values_drawn(self.estimated, float(len(counts)))
        once, twice = int((counts == 1).sum()), int((counts == 2).sum())
        self._covered[tuple(columns)] = once <= (1.0 - LOOKS.covered_share) * self.rows
        return in_all_rows(len(counts), once, twice, self.rows, self.estimated)

    def _combined(self, columns: Sequence[Column]) -> Positions | None:
        """For each row a number that is the same for equal combinations."""
        codes: Positions | None = None
        for column in columns:
            own = self.codes(column)
            if own is None:
                return None
            if codes is None:
                codes = own
                continue
            size = int(own.max(initial=0)) + 1
            if float(codes.max(initial=0) + 1) * size > 2**62:
                codes = np.unique(codes, return_inverse=True)[1]
            codes = codes * size + own
        return codes


class BaseSample(Sample):
    """The rows of a table that were looked at."""

    def __init__(self, look: TableLook, columns: Iterable[Column], wanted: frozenset[Column]) -> None:
        rows = look.rows
        super().__init__(rows, look.population / rows if rows else 1.0, look.is_complete, wanted)
        self._look, self._columns = look, frozenset(columns)

    def _compute(self, column: Column) -> pa.Array | None:
        values = self._look.column(column.name) if column in self._columns else None
        return values if values is not None and len(values) == self.rows and values.type == column.type else None

    def _encode(self, column: Column) -> Positions | None:
        return None if self.values(column) is None else self._look.codes(column.name)

    def _count_distinct(self, columns: Sequence[Column]) -> float | None:
        """Footers say more of a single column, and a sample of some row groups less of one whose values are clustered."""
        return super()._count_distinct(columns) if len(columns) > 1 or self.is_complete else None


class _Rows(Sample):
    """Some rows of a sample."""

    def __init__(self, whole: Sample, positions: Positions) -> None:
        super().__init__(len(positions), whole.weight, whole.is_complete, whole.wanted)
        self._whole, self._positions = whole, positions

    def _compute(self, column: Column) -> pa.Array | None:
        values = self._whole.values(column)
        return None if values is None else values.take(self._taken)

    def _encode(self, column: Column) -> Positions | None:
        codes = self._whole.codes(column)
        return None if codes is None else codes[self._positions]

    @cached_property
    def _taken(self) -> pa.Array:
        return pa.array(self._positions)


class _Projected(Sample):
    def __init__(self, source: Sample, outputs: Mapping[Column, Expression]) -> None:
        super().__init__(source.rows, source.weight, source.is_complete, source.wanted)
        self._source, self._outputs = source, outputs

    def _compute(self, column: Column) -> pa.Array | None:
        expression = self._outputs.get(column)
        if expression is None:
            return None
        if isinstance(expression, Ref):
            return self._source.values(expression.column)
        try:
            values = evaluated(expression, self._source.values)
        except NotEvaluated:
            return None
        return pa.repeat(values, self.rows) if isinstance(values, pa.Scalar) else values

    def _encode(self, column: Column) -> Positions | None:
        expression = self._outputs.get(column)
        return self._source.codes(expression.column) if isinstance(expression, Ref) else super()._encode(column)


class _Joined(Sample):
    """Pairs of rows. Position -1 is no row: its columns are NULL."""

    def __init__(self, sides: Sequence[tuple[Sample, Positions]]) -> None:
        samples = [sample for sample, _ in sides]
        weight = max((each.weight for each in samples if not each.is_complete), default=1.0)
        super().__init__(len(sides[0][1]), weight, all(each.is_complete for each in samples), samples[0].wanted)
        self._sides = sides
        self._taken: dict[int, pa.Array] = {}

    def _compute(self, column: Column) -> pa.Array | None:
        for place, (sample, positions) in enumerate(self._sides):
            values = sample.values(column)
            if values is not None:
                if place not in self._taken:
                    missing = positions < 0
                    self._taken[place] = pa.array(positions, mask=missing if missing.any() else None)
                return values.take(self._taken[place])
        return None

    def _encode(self, column: Column) -> Positions | None:
        for sample, positions in self._sides:
            codes = sample.codes(column)
            if codes is not None:
                return np.where(positions < 0, 0, codes[positions]) if len(codes) else np.zeros_like(positions)
        return None


class _United(Sample):
    """The rows of several samples of one weight, whose columns correspond by position."""

    def __init__(self, parts: Sequence[Sample], sources: Sequence[Sequence[Column]], columns: Sequence[Column]) -> None:
        weight = max(each.weight for each in parts)
        super().__init__(
            sum(each.rows for each in parts), weight, all(each.is_complete for each in parts), parts[0].wanted
        )
        self._parts, self._sources = parts, sources
        self._places = {column: place for place, column in enumerate(columns)}

    def _compute(self, column: Column) -> pa.Array | None:
        place = self._places.get(column)
        if place is None:
            return None
        values = [part.values(names[place]) for part, names in zip(self._parts, self._sources, strict=True)]
        try:
            united = [each.cast(column.type) for each in values if each is not None]
            return pa.concat_arrays(united) if len(united) == len(values) else None
        except (pa.ArrowException, TypeError, AttributeError):
            return None


def united(
    samples: Sequence[Sample | None], sources: Sequence[Sequence[Column]], columns: Sequence[Column]
) -> Sample | None:
    """The sample of a UNION ALL: of each input as many rows as its share of all rows; None if an input has no sample."""
    known = [each for each in samples if each is not None]
    if len(known) < len(samples):
        return None
    weight = max(1.0, *(each.weight for each in known))
    return _United([_thinned(each, weight) for each in known], sources, columns)


def _thinned(sample: Sample, weight: float) -> Sample:
    """Fewer rows of a sample, each of which stands for more."""
    count = round(sample.rows * sample.weight / weight)
    if count >= sample.rows:
        return sample
    return _Rows(sample, np.linspace(0, sample.rows, count, endpoint=False).astype(np.int64))


class SampledJoin:
    """The matches of two samples by equal columns: for each left row, the rows of the right that match."""

    def __init__(self, left: Sample, right: Sample, counts: Positions, starts: Positions, order: Positions) -> None:
        self.left, self.right = left, right
        self._counts, self._starts, self._order = counts, starts, order

    def of_kind(self, kind: JoinKind) -> Sample | None:
        """The sample of a join; None if the samples do not tell its rows."""
        counts = self._counts
        match kind:
            case JoinKind.INNER:
                return self._pairs(counts, counts)
            case JoinKind.LEFT if self.right.is_complete:
                return self._pairs(counts, np.maximum(counts, 1))
            case JoinKind.SEMI if self.right.is_complete:
                return _Rows(self.left, np.flatnonzero(counts > 0))
            case JoinKind.ANTI if self.right.is_complete:
                return _Rows(self.left, np.flatnonzero(counts == 0))
            case _:
                return None

    @property
    def left_matched(self) -> float | None:
        """The share of left rows with a match; None if they do not tell."""
        if not self.right.is_complete or self.left.rows < LOOKS.min_rows:
            return None
        return float(np.count_nonzero(self._counts)) / self.left.rows

    @property
    def right_matched(self) -> float | None:
        if not self.left.is_complete or not self.right.rows:
            return None
        if self.right.rows < LOOKS.min_rows and not self.right.is_complete:
            return None
        reached = np.unique(self._starts[self._counts > 0])
        counts = np.zeros(self.right.rows + 1, dtype=np.int64)
        counts[self._starts] = self._counts  # rows with one start match the same rows
        return float(counts[reached].sum()) / self.right.rows

    def _pairs(self, counts: Positions, rows: Positions) -> Sample | None:
        total = int(rows.sum())
        if total > LOOKS.joined_rows:
            return None
        left = np.repeat(np.arange(len(rows)), rows)
        offsets = np.arange(total) - np.repeat(np.cumsum(rows) - rows, rows)
        right = np.full(total, -1, dtype=np.int64)
        matched = np.repeat(counts > 0, rows)
        right[matched] = self._order[np.repeat(self._starts, rows)[matched] + offsets[matched]]
        return _Joined([(self.left, left), (self.right, right)])


def sampled_join(left: Sample, right: Sample, pairs: Sequence[Any]) -> SampledJoin | None:
    """The matches of two samples, not both of only some rows; None if a key has no values."""
    if not pairs or not (left.is_complete or right.is_complete):
        return None
    left_codes: Positions = np.zeros(left.rows, dtype=np.int64)
    right_codes: Positions = np.zeros(right.rows, dtype=np.int64)
    size = 1
    for pair in pairs:
        ours, theirs = left.values(pair.left), right.values(pair.right)
        try:
            found = _common_codes(ours, theirs, pair.null_safe) if ours is not None and theirs is not None else None
        except (pa.ArrowException, ValueError, TypeError):
            found = None
        if found is None:
            return None
        one, other, values = found
        if size * values > 2**62:
            return None
        left_codes = np.where((left_codes < 0) | (one < 0), -1, left_codes * values + one)
        right_codes = np.where((right_codes < 0) | (other < 0), -1, right_codes * values + other)
        size *= values
    if size > _MAX_DIRECT:
        known, right_codes = np.unique(right_codes, return_inverse=True)
        place = np.minimum(np.searchsorted(known, left_codes), max(0, len(known) - 1))
        is_known = (left_codes >= 0) & (known[place] == left_codes) if len(known) else np.zeros(left.rows, dtype=bool)
        left_codes = np.where(is_known, place, -1)
        if len(known) and known[0] < 0:
            right_codes = np.where(right_codes == 0, -1, right_codes)
        size = max(1, len(known))
    return _matched(left, right, left_codes, right_codes, size)


def _matched(left: Sample, right: Sample, left_codes: Positions, right_codes: Positions, size: int) -> SampledJoin:
    is_present = right_codes >= 0
    present = right_codes[is_present]
    per_code = np.bincount(present, minlength=size)
    if per_code.max(initial=0) <= 1:  # a key: each code has its row
        order = np.arange(len(right_codes))
        starts = np.zeros(size, dtype=np.int64)
        starts[present] = order[is_present]
    else:
        order = np.argsort(right_codes, kind="stable")[len(right_codes) - len(present) :]
        starts = np.cumsum(per_code) - per_code
    is_code = left_codes >= 0
    safe = np.where(is_code, left_codes, 0)
    return SampledJoin(left, right, np.where(is_code, per_code[safe], 0), starts[safe], order)


def _common_codes(left: pa.Array, right: pa.Array, null_safe: bool) -> tuple[Positions, Positions, int] | None:
    """Numbers that are the same for equal values of both sides, -1 for what matches nothing, and how many there can be."""
    if is_whole(left.type) and is_whole(right.type):
        one, other = integers(left), integers(right)
        present = other[right.is_valid().to_numpy(zero_copy_only=False)] if right.null_count else other
        low, high = (int(present.min()), int(present.max())) if len(present) else (0, 0)
        size = high - low + 1
        one, other = one - low, other - low
        outside = (one < 0) | (one >= size)
        one, other = np.where(outside, -1, one), other
    else:
        import pyarrow.compute as pc

        if left.type != right.type:
            left = left.cast(right.type)
        encoded = right.dictionary_encode()
        other = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        found = pc.index_in(left, value_set=encoded.dictionary)
        one = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        size = max(1, len(encoded.dictionary))
    for codes, values in ((one, left), (other, right)):
        if values.null_count:
            codes[values.is_null().to_numpy(zero_copy_only=False)] = size if null_safe else -1
    return one, other, size + 1 if null_safe else size
