"""Spark's `hash` function on Arrow columns: 32-bit MurmurHash3 with seed 42.

Each column is hashed with the hash of the columns before it as its seed. NULL keeps the seed. Integers up to 32 bits, dates
and booleans are hashed as an int, 64-bit integers and timestamps as a bigint, floating point by its bits (with -0.0 as 0.0
and a single NaN), text and binary by four-byte words. Unlike in standard MurmurHash3, each remaining byte is hashed as a
signed word of its own. A decimal of up to 18 digits is hashed as its unscaled bigint, a longer one as the big-endian bytes of
the unscaled number.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from unshuffle.catalog.statistics.column_statistics import normalized_floats

Words = npt.NDArray[np.uint32]
_SEED = 42
_LONG_DECIMAL = 18  # digits that a bigint holds


def partition_numbers(columns: Sequence[pa.Array], partitions: int) -> npt.NDArray[np.int64]:
    """pmod(hash(columns), partitions)"""
    rows = len(columns[0])
    hashes = np.full(rows, _SEED, dtype=np.uint32)
    for column in columns:
        null = column.is_null().to_numpy(zero_copy_only=False)
        hashes = np.where(null, hashes, _hash_column(column, hashes))
    return hashes.view(np.int32).astype(np.int64) % partitions


def _hash_column(column: pa.Array, seeds: Words) -> Words:
    """The hashes of NULLs are arbitrary; the caller replaces them."""
    t, type = pa.types, column.type
    if t.is_string(type) or t.is_binary(type):
        return _hash_bytes([value or b"" for value in column.cast(pa.binary()).to_pylist()], seeds)
    if t.is_decimal(type):
        return _hash_decimals(column, seeds)
    if t.is_floating(type):
        solid = normalized_floats(column).fill_null(0.0).to_numpy(zero_copy_only=False)
        is_short = type == pa.float32()
        return (_hash_ints if is_short else _hash_longs)(solid.view(np.int32 if is_short else np.int64), seeds)
    if t.is_date32(type):
        return _hash_ints(column.cast(pa.int32()).fill_null(0).to_numpy(), seeds)
    if t.is_timestamp(type) or type == pa.int64():
        return _hash_longs(column.cast(pa.int64()).fill_null(0).to_numpy(), seeds)
    return _hash_ints(column.cast(pa.int32()).fill_null(0).to_numpy(), seeds)


def _hash_ints(values: npt.NDArray[np.int32], seeds: Words) -> Words:
    return _finalize(_mix(seeds, values.astype(np.int32).view(np.uint32)), 4)


def _hash_longs(values: npt.NDArray[np.int64], seeds: Words) -> Words:
    bits = values.astype(np.int64).view(np.uint64)
    low, high = bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    return _finalize(_mix(_mix(seeds, low), high), 8)


def _hash_decimals(column: pa.Array, seeds: Words) -> Words:
    type = column.type
    wide = column.fill_null(pa.scalar(Decimal(0), type)) if column.null_count else column
    words = np.frombuffer(wide.buffers()[1], dtype=np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
    low, high = words[0::2], words[1::2]
    if type.precision <= _LONG_DECIMAL:
        return _hash_longs(low, seeds)
    numbers = (int(b) << 64 | int(a) & 0xFFFFFFFFFFFFFFFF for a, b in zip(low, high, strict=True))
    return _hash_bytes(
        [n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True) for n in numbers], seeds
    )


def _hash_bytes(values: Sequence[bytes], seeds: Words) -> Words:
    """All values at once, a word at a time. Values that are too short for a word keep their hash."""
    lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])) if len(values) else lengths
    data = np.frombuffer(b"".join(values) + b"\0\0\0\0", dtype=np.uint8)
    hashes = seeds.copy()
    for word in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * (word + 1))
        at = starts[rows] + 4 * word
        parts = (data[at + i].astype(np.uint32) << np.uint32(8 * i) for i in range(4))
        hashes[rows] = _mix(hashes[rows], np.bitwise_or.reduce(list(parts)))
    for i in range(3):
        rows = np.flatnonzero(lengths % 4 > i)
        tail = data[starts[rows] + lengths[rows] // 4 * 4 + i].view(np.int8).astype(np.int32)
        hashes[rows] = _mix(hashes[rows], tail.view(np.uint32))
    return _finalize(hashes, lengths.astype(np.uint32))


def _mix(hashes: Words, words: Words) -> Words:
    words = _rotate_left(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotate_left(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotate_left(words: Words, by: int) -> Words:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))


def _finalize(hashes: Words, length: Words | int) -> Words:
    hashes = hashes ^ np.asarray(length, dtype=np.uint32)
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))
