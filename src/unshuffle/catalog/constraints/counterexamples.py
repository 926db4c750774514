"""Finds rows that contradict a declared key or dependency.

Rows agree as GROUP BY compares them: NULL with NULL, -0.0 with 0.0, NaN with NaN. A table can be larger than memory, so each
row is reduced to a 64-bit hash. Rows that agree have equal hashes, hence

    KEY (a)          holds if no hash of a repeats.
    DEPENDS (a -> b) holds if every hash of a occurs with one hash of b. (Two values of b with the same hash would hide a
                     difference. That happens for one pair of values in 2^64, and never for two integers.)

A hash that repeats is only a suspect: a second pass over the data compares the values themselves, so a reported
counterexample is never a hash collision. Data with more than `MAX_HASHES` rows is read in several passes, each of which
considers its own share of the hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.catalog.constraints.constraint import Constraint, DeclaredDependency, DeclaredKey
from unshuffle.catalog.constraints.row_hashes import Hashes, row_hashes
from unshuffle.catalog.statistics.column_statistics import normalized_floats
from unshuffle.frozen import dataclass

MAX_HASHES = 1 << 25  # in memory at a time; 8 bytes each, and the same again while they are sorted
MAX_COUNTEREXAMPLES = 3
_MIN_MERGE = 1 << 20  # pairs that are collected, at least, before they are sorted
_SUSPECTS_PER_PASS = 1 << 16
_MAX_VALUE_LENGTH = 40

Rows = Callable[[], Iterable[pa.RecordBatch]]  # every call reads the rows from the beginning


@dataclass(frozen=True, slots=True)
class Counterexamples:
    """Some of the rows that contradict a constraint, each described in words."""

    rows: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join(self.rows)


def find_counterexamples(
    constraint: Constraint, rows: Rows, expected_rows: int, max_hashes: int = MAX_HASHES
) -> Counterexamples | None:
    """None if the constraint holds. `expected_rows` is an estimate that decides how many passes a key needs."""
    suspects_by_pass: Iterable[Hashes]
    match constraint:
        case DeclaredKey(columns):
            passes = max(1, -(-expected_rows // max_hashes))
            suspects_by_pass = (_repeated(rows, columns, _Share(number, passes)) for number in range(passes))
        case DeclaredDependency(determinant, dependent):
            suspects_by_pass = _differing(rows, determinant, dependent, max_hashes)
    for suspects in suspects_by_pass:
        for start in range(0, len(suspects), _SUSPECTS_PER_PASS):
            examples = _among_suspects(constraint, rows, suspects[start : start + _SUSPECTS_PER_PASS])
            if examples is not None:
                return examples
    return None


def is_comparable(type: pa.DataType | None) -> bool:
    """Whether values of this type can be compared without Spark as GROUP BY compares them."""
    return type is not None and not pa.types.is_nested(type)


# --- suspects: hashes that may contradict the constraint


@dataclass(frozen=True, slots=True)
class _Share:
    """The hashes that one of several passes considers."""

    number: int = 0
    passes: int = 1

    def mask(self, hashes: Hashes) -> npt.NDArray[np.bool_] | slice:
        return slice(None) if self.passes == 1 else hashes % np.uint64(self.passes) == self.number

    def split(self) -> tuple[_Share, _Share]:
        return _Share(self.number, 2 * self.passes), _Share(self.number + self.passes, 2 * self.passes)


def _repeated(rows: Rows, columns: Sequence[str], share: _Share) -> Hashes:
    """The hashes of a share that occur more than once."""
    batches: list[Hashes] = []
    for batch in rows():
        hashes = row_hashes(batch, columns)
        batches.append(hashes[share.mask(hashes)])
    if not batches:
        return np.empty(0, dtype=np.uint64)
    hashes = np.concatenate(batches)
    batches.clear()  # the batches and their concatenation need not be in memory together while it is sorted
    hashes.sort()
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def _differing(rows: Rows, determinant: Sequence[str], dependent: Sequence[str], max_hashes: int) -> Iterator[Hashes]:
    """Hashes of the determinant that occur with several hashes of the dependent columns. The number of distinct hashes is
    not known in advance: a share that turns out too large is split in two and read again."""
    shares = [_Share()]
    while shares:
        share = shares.pop()
        suspects = _differing_in(rows, determinant, dependent, share, max_hashes // 2)
        if suspects is None:
            shares += reversed(share.split())
        else:
            yield suspects


def _differing_in(
    rows: Rows, determinant: Sequence[str], dependent: Sequence[str], share: _Share, max_pairs: int
) -> Hashes | None:
    """None if the share has more than `max_pairs` distinct pairs of hashes."""
    pairs = _HashPairs()
    for batch in rows():
        left, right = row_hashes(batch, determinant), row_hashes(batch, dependent)
        mask = share.mask(left)
        pairs.add(left[mask], right[mask])
        if len(pairs.left) > max_pairs:
            return None
    return pairs.differing()


class _HashPairs:
    """Pairs of hashes, one for each distinct left hash, and the left hashes that occurred with several right hashes.

    New pairs are merged in whenever there are as many of them as distinct ones, so that sorting takes O(n log n) in all."""

    def __init__(self) -> None:
        self.left: Hashes = np.empty(0, dtype=np.uint64)
        self.right: Hashes = np.empty(0, dtype=np.uint64)
        self._suspects: Hashes = np.empty(0, dtype=np.uint64)
        self._pending: list[tuple[Hashes, Hashes]] = []
        self._pending_rows = 0

    def add(self, left: Hashes, right: Hashes) -> None:
        self._pending.append((left, right))
        self._pending_rows += len(left)
        if self._pending_rows > max(_MIN_MERGE, len(self.left)):
            self._merge()

    def differing(self) -> Hashes:
        self._merge()
        return self._suspects

    def _merge(self) -> None:
        left = np.concatenate([self.left, *(pair[0] for pair in self._pending)])
        right = np.concatenate([self.right, *(pair[1] for pair in self._pending)])
        self._pending, self._pending_rows = [], 0
        order = np.argsort(left)
        left, right = left[order], right[order]
        same = left[1:] == left[:-1]
        # Within a run of equal left hashes, if any two right hashes differ, then so do two neighbours.
        differ = left[1:][same & (right[1:] != right[:-1])]
        is_first = np.concatenate(([True], ~same)) if len(left) else np.empty(0, dtype=bool)
        if len(differ):
            self._suspects = np.union1d(self._suspects, differ)
        self.left, self.right = left[is_first], right[is_first]


# --- the values behind the suspects


def _among_suspects(constraint: Constraint, rows: Rows, suspects: Hashes) -> Counterexamples | None:
    match constraint:
        case DeclaredKey(columns):
            return _repeated_values(rows, columns, suspects)
        case DeclaredDependency(determinant, dependent):
            return _differing_values(rows, determinant, dependent, suspects)


def _repeated_values(rows: Rows, columns: Sequence[str], suspects: Hashes) -> Counterexamples | None:
    """The first values that repeat, in row order, with their number of rows."""
    counts: dict[tuple[str, ...], int] = {}
    for batch in rows():
        hashes = row_hashes(batch, columns)
        positions = np.flatnonzero(np.isin(hashes, suspects))
        for _, values, count in _distinct_rows(batch, columns, positions, hashes):
            counts[values] = counts.get(values, 0) + count
    repeated = [(values, count) for values, count in counts.items() if count > 1][:MAX_COUNTEREXAMPLES]
    return Counterexamples(tuple(repeated_text(columns, *each) for each in repeated)) if repeated else None


def _differing_values(
    rows: Rows, determinant: Sequence[str], dependent: Sequence[str], suspects: Hashes
) -> Counterexamples | None:
    """The first determinant values with two different dependent values, and those two."""
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    examples: list[str] = []
    for batch in rows():
        hashes = row_hashes(batch, determinant)
        positions = np.flatnonzero(np.isin(hashes, suspects))
        reported: set[int] = set()
        for hash, values, _ in _distinct_rows(batch, (*determinant, *dependent), positions, hashes):
            left, right = values[: len(determinant)], values[len(determinant) :]
            if hash not in reported and first.setdefault(left, right) != right:
                examples.append(differing_text(determinant, left, dependent, first[left], right))
                reported.add(hash)
                if len(examples) == MAX_COUNTEREXAMPLES:
                    return Counterexamples(tuple(examples))
        # A hash is reported once. All rows that follow may have it, and need not be decoded.
        suspects = np.setdiff1d(suspects, np.array(sorted(reported), dtype=np.uint64))
    return Counterexamples(tuple(examples)) if examples else None


def _distinct_rows(
    batch: pa.RecordBatch, columns: Sequence[str], positions: npt.NDArray[np.intp], hashes: Hashes
) -> Iterator[tuple[int, tuple[str, ...], int]]:
    """The distinct rows among those at some positions: hash, values and count. Values are texts; different values of a
    type have different texts."""
    if not len(positions):
        return
    # The user's column names may collide with ours, so the columns get new names.
    values = {
        f"v{i}": normalized_floats(batch.column(name).take(pa.array(positions))) for i, name in enumerate(columns)
    }
    grouped = pa.table({"h": hashes[positions], **values}).group_by(["h", *values], use_threads=False)
    groups = grouped.aggregate([([], "count_all")])
    for row in range(groups.num_rows):
        texts = tuple(value_text(groups[name][row]) for name in values)
        yield groups["h"][row].as_py(), texts, groups["count_all"][row].as_py()


# --- counterexamples in words


def repeated_text(columns: Sequence[str], values: Sequence[str], count: int) -> str:
    return f"{_equalities(columns, values)} in {count:,} rows"


def differing_text(
    determinant: Sequence[str],
    values: Sequence[str],
    dependent: Sequence[str],
    one: Sequence[str],
    other: Sequence[str],
) -> str:
    """Two rows' values of the dependent columns in which they differ."""
    pairs = [each for each in zip(dependent, one, other, strict=True) if each[1] != each[2]]
    two = ", ".join(f"{name} = {_short(a)} and {name} = {_short(b)}" for name, a, b in pairs)
    return f"{_equalities(determinant, values)} with {two}"


def value_text(scalar: pa.Scalar) -> str:
    """A value approximately as SQL writes it."""
    if not scalar.is_valid:
        return "NULL"
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):
        # The text is not UTF-8, or the date is outside Python's calendar.
        is_text = pa.types.is_string(scalar.type)
        return repr(scalar.as_buffer().to_pybytes()) if is_text else str(scalar.value)
    return repr(value) if isinstance(value, str | bytes) else str(value)


def _equalities(columns: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{name} = {_short(value)}" for name, value in zip(columns, values, strict=True))


def _short(value: str) -> str:
    return value if len(value) <= _MAX_VALUE_LENGTH else f"{value[: _MAX_VALUE_LENGTH - 3]}..."
