"""Rows of generated tables in parts: one key that tells the parts apart, and columns of other types that follow it or not."""

from __future__ import annotations

import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("k", pa.int64()),
        ("n", pa.int32()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("m", pa.decimal128(20, 2)),
        ("s", pa.string()),
        ("f", pa.float64()),
    ]
)
DAY = datetime.date(2026, 1, 28)
TEXTS = ("", "a", "ab", "b", "é", "z'", "\U0001f600")
FLOATS = (0.0, -0.0, float("nan"), 1.5, None)


def row(random: Random, number: int, k: int | None) -> dict[str, Any]:
    return {
        "id": number,
        "k": k,
        "n": None if random.random() < 0.1 else random.randrange(-3, 30),
        "d": None if k is None else DAY + datetime.timedelta(days=k // 3),
        "t": None
        if k is None
        else datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=k // 2),
        "m": None if k is None else Decimal(k) / 4,
        "s": random.choice((*TEXTS, None)),
        "f": random.choice(FLOATS),
    }
