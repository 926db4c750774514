"""Whether a declared key or dependency holds of the rows, found by counting them.

Rows agree as GROUP BY has it: NULL with NULL, -0.0 with 0.0, NaN with NaN. A table can be larger than memory, so each
row is reduced to a hash of 64 bits. Rows that agree have equal hashes, hence

    KEY (a)          if no hash of a repeats, no value does.
    DEPENDS (a -> b) if every hash of a comes with one hash of b, rows that agree on a agree on b. (Two values of b with
                     one hash would hide a difference: once in 2^64 pairs of values; two whole numbers never.)

Where a hash repeats, the data is read again, and the values themselves are compared: what is reported as broken is
broken. What is more than `HASHES` is read in several passes, each looking at its share of the hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.catalog.profile import one_form

HASHES = 1 << 25  # in memory at a time, of 8 bytes, and as much again while they are sorted
_PUT_TOGETHER = 1 << 20  # pairs that wait at least before they are sorted
_SUSPECTS = 1 << 16  # hashes that are looked up at a time
SHOWN = 3
_LONGEST = 40

Hashes = npt.NDArray[np.uint64]
Rows = Callable[[], Iterable[pa.RecordBatch]]  # the rows from the beginning, every time it is called


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """No two rows agree on these columns."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"KEY ({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class DeclaredDependency:
    """Rows that agree on the columns `determinant` agree on the columns `dependent`."""

    determinant: tuple[str, ...]
    dependent: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.determinant, *self.dependent)))

    def __str__(self) -> str:
        return f"DEPENDS ({', '.join(self.determinant)} -> {', '.join(self.dependent)})"


Declaration = DeclaredKey | DeclaredDependency


@dataclass(frozen=True, slots=True)
class Broken:
    """Some of the rows that contradict a declaration, in words."""

    rows: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join(self.rows)


def counted(declaration: Declaration, rows: Rows, expected: int, hashes: int = HASHES) -> Broken | None:
    """None if the declaration holds of the rows. About so many are expected, and so many hashes fit into memory."""
    shares: Iterable[Hashes]
    match declaration:
        case DeclaredKey(columns):
            passes = max(1, -(-expected // hashes))
            shares = (_repeated(rows, columns, _Share(number, passes)) for number in range(passes))
        case DeclaredDependency(determinant, dependent):
            shares = _differing(rows, determinant, dependent, hashes)
    for suspects in shares:
        for start in range(0, len(suspects), _SUSPECTS):
            broken = _looked_up(declaration, rows, suspects[start : start + _SUSPECTS])
            if broken is not None:
                return broken
    return None


def supported(type: pa.DataType | None) -> bool:
    """Can values of this type be compared here as GROUP BY compares them?"""
    return type is not None and not pa.types.is_nested(type)


# --- hashes that are suspect


@dataclass(frozen=True, slots=True)
class _Share:
    """The hashes that one of some passes looks at."""

    number: int = 0
    passes: int = 1

    def of(self, hashes: Hashes) -> npt.NDArray[np.bool_] | slice:
        return slice(None) if self.passes == 1 else hashes % np.uint64(self.passes) == self.number

    def halves(self) -> tuple[_Share, _Share]:
        return _Share(self.number, 2 * self.passes), _Share(self.number + self.passes, 2 * self.passes)


def _repeated(rows: Rows, columns: Sequence[str], share: _Share) -> Hashes:
    found: list[Hashes] = []
    for batch in rows():
        hashes = _hashes(batch, columns)
        found.append(hashes[share.of(hashes)])
    if not found:
        return np.empty(0, dtype=np.uint64)
    every = np.concatenate(found)
    found.clear()
    every.sort()
    return np.unique(every[1:][every[1:] == every[:-1]])


def _differing(rows: Rows, determinant: Sequence[str], dependent: Sequence[str], hashes: int) -> Iterator[Hashes]:
    """Hashes of the determinant that come with several of the dependent columns. How many different ones there are is seen
    on the way: a share that turns out too large is read again as two."""
    shares = [_Share()]
    while shares:
        share = shares.pop()
        suspects = _differing_in(rows, determinant, dependent, share, hashes // 2)
        if suspects is None:
            shares += reversed(share.halves())
        else:
            yield suspects


def _differing_in(
    rows: Rows, determinant: Sequence[str], dependent: Sequence[str], share: _Share, most: int
) -> Hashes | None:
    """None if there are more than `most` pairs. Pairs are put together whenever as many wait as are known."""
    pairs = _Pairs()
    for batch in rows():
        left, right = _hashes(batch, determinant), _hashes(batch, dependent)
        chosen = share.of(left)
        pairs.add(left[chosen], right[chosen])
        if len(pairs.left) > most:
            return None
    return pairs.differing()


class _Pairs:
    """Pairs of hashes, one for each first, and the firsts that came with several seconds."""

    def __init__(self) -> None:
        self.left: Hashes = np.empty(0, dtype=np.uint64)
        self.right: Hashes = np.empty(0, dtype=np.uint64)
        self._suspect: Hashes = np.empty(0, dtype=np.uint64)
        self._waiting: list[tuple[Hashes, Hashes]] = []
        self._waits = 0

    def add(self, left: Hashes, right: Hashes) -> None:
        self._waiting.append((left, right))
        self._waits += len(left)
        if self._waits > max(_PUT_TOGETHER, len(self.left)):
            self._put_together()

    def differing(self) -> Hashes:
        self._put_together()
        return self._suspect

    def _put_together(self) -> None:
        left = np.concatenate([self.left, *(pair[0] for pair in self._waiting)])
        right = np.concatenate([self.right, *(pair[1] for pair in self._waiting)])
        self._waiting, self._waits = [], 0
        order = np.argsort(left)
        left, right = left[order], right[order]
        same = left[1:] == left[:-1]
        # Among equal neighbours on the left, any two that differ on the right show in some pair of neighbours.
        differ = left[1:][same & (right[1:] != right[:-1])]
        new = np.concatenate(([True], ~same)) if len(left) else np.empty(0, dtype=bool)
        if len(differ):
            self._suspect = np.union1d(self._suspect, differ)
        self.left, self.right = left[new], right[new]


# --- the values behind them


def _looked_up(declaration: Declaration, rows: Rows, suspects: Hashes) -> Broken | None:
    match declaration:
        case DeclaredKey(columns):
            return _repeats(rows, columns, suspects)
        case DeclaredDependency(determinant, dependent):
            return _differences(rows, determinant, dependent, suspects)


def _repeats(rows: Rows, columns: Sequence[str], suspects: Hashes) -> Broken | None:
    """The first values that repeat, in the order of the rows, with how often they do."""
    counts: dict[tuple[str, ...], int] = {}
    for batch in rows():
        hashes = _hashes(batch, columns)
        places = np.flatnonzero(np.isin(hashes, suspects))
        for _, values, count in _distinct_rows(batch, columns, places, hashes):
            counts[values] = counts.get(values, 0) + count
    repeated = [(values, count) for values, count in counts.items() if count > 1][:SHOWN]
    return Broken(tuple(repeats(columns, *each) for each in repeated)) if repeated else None


def _differences(rows: Rows, determinant: Sequence[str], dependent: Sequence[str], suspects: Hashes) -> Broken | None:
    """The first values of the determinant that come with two of the dependent columns, and these two."""
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    shown: list[str] = []
    for batch in rows():
        hashes = _hashes(batch, determinant)
        places = np.flatnonzero(np.isin(hashes, suspects))
        settled: set[int] = set()
        for hash, values, _ in _distinct_rows(batch, (*determinant, *dependent), places, hashes):
            left, right = values[: len(determinant)], values[len(determinant) :]
            if hash not in settled and first.setdefault(left, right) != right:
                shown.append(differs(determinant, left, dependent, first[left], right))
                settled.add(hash)
                if len(shown) == SHOWN:
                    return Broken(tuple(shown))
        # What is known to differ is not looked at again: it may be all of the rows that follow.
        suspects = np.setdiff1d(suspects, np.array(sorted(settled), dtype=np.uint64))
    return Broken(tuple(shown)) if shown else None


def _distinct_rows(
    batch: pa.RecordBatch, columns: Sequence[str], places: npt.NDArray[np.intp], hashes: Hashes
) -> Iterator[tuple[int, tuple[str, ...], int]]:
    """The rows at some places, those that agree as one: hash, values and count. Values are texts, different ones of a
    type having different texts."""
    if not len(places):
        return
    # Under names of our own: a user's may be anything.
    made = {f"v{i}": one_form(batch.column(name).take(pa.array(places))) for i, name in enumerate(columns)}
    grouped = pa.table({"h": hashes[places], **made}).group_by(["h", *made], use_threads=False)
    counted = grouped.aggregate([([], "count_all")])
    for row in range(counted.num_rows):
        values = tuple(text(counted[name][row]) for name in made)
        yield counted["h"][row].as_py(), values, counted["count_all"][row].as_py()


# --- in words


def repeats(columns: Sequence[str], values: Sequence[str], count: int) -> str:
    return f"{_named(columns, values)} in {count:,} rows"


def differs(
    determinant: Sequence[str],
    values: Sequence[str],
    dependent: Sequence[str],
    one: Sequence[str],
    other: Sequence[str],
) -> str:
    """Two rows' values of the dependent columns, of those in which they differ."""
    pairs = [each for each in zip(dependent, one, other, strict=True) if each[1] != each[2]]
    two = ", ".join(f"{name} = {_short(a)} and {name} = {_short(b)}" for name, a, b in pairs)
    return f"{_named(determinant, values)} with {two}"


def text(scalar: pa.Scalar) -> str:
    """A value as SQL writes it, or nearly so."""
    if not scalar.is_valid:
        return "NULL"
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):
        # A text that is not UTF-8, or a day that Python's calendar does not have.
        is_text = pa.types.is_string(scalar.type)
        return repr(scalar.as_buffer().to_pybytes()) if is_text else str(scalar.value)
    return repr(value) if isinstance(value, str | bytes) else str(value)


def _named(columns: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{name} = {_short(value)}" for name, value in zip(columns, values, strict=True))


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 3]}..."


# --- hashes


def _hashes(batch: pa.RecordBatch, columns: Sequence[str]) -> Hashes:
    """A hash of some columns of each row."""
    hashes = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in columns:
        hashes = _mixed(hashes * _ODD + _of_values(batch.column(name)))
    return hashes


_ODD = np.uint64(0x9E3779B97F4A7C15)
_OF_NULL = np.uint64(0xD1B54A32D192ED03)


def _of_values(values: pa.Array) -> Hashes:
    """Equal values, equal hashes; different whole numbers, days and instants, different ones."""
    solid = values if not values.null_count else values.drop_null()
    if not values.null_count:
        return _of_solid(solid)
    hashes = np.full(len(values), _OF_NULL, dtype=np.uint64)
    hashes[values.is_valid().to_numpy(zero_copy_only=False)] = _of_solid(solid)
    return hashes


def _of_solid(values: pa.Array) -> Hashes:
    type = values.type
    if pa.types.is_null(type) or not len(values):
        return np.zeros(len(values), dtype=np.uint64)
    if pa.types.is_string(type) or pa.types.is_binary(type):
        return _of_texts(values.cast(pa.binary()))
    if pa.types.is_decimal128(type):
        start = values.offset * 2
        halves = np.frombuffer(values.buffers()[1], dtype=np.uint64)[start : start + 2 * len(values)].reshape(-1, 2)
        return _mixed(_mixed(halves[:, 0]) * _ODD + halves[:, 1])
    if pa.types.is_floating(type):
        return _mixed(one_form(values).cast(pa.float64()).to_numpy(zero_copy_only=False).view(np.uint64))
    if pa.types.is_temporal(type):
        values = values.cast(pa.int32() if pa.types.is_date32(type) else pa.int64())
    return _mixed(values.cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))


def _of_texts(values: pa.Array) -> Hashes:
    from pandas.util import hash_array  # type: ignore[import-untyped]  # a slow import

    encoded = values.dictionary_encode()
    hashed = hash_array(encoded.dictionary.to_numpy(zero_copy_only=False), categorize=False)
    hashes: Hashes = np.asarray(hashed, dtype=np.uint64)[encoded.indices.to_numpy()]
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    """Spreads bits over all 64; one to one (the finalizer of SplitMix64: Steele, Lea and Flood, OOPSLA 2014)."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
