"""Numbers in a readable form."""

from __future__ import annotations

from math import inf

import pytest

from unshuffle.explain.phrases import numbers


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (0.4, "0"),
        (1, "1"),
        (999, "999"),
        (22_991, "22,991"),
        (220_412, "220,000"),
        (999_400, "999,000"),
        (999_600, "1 million"),
        (1_504_000, "1.5 million"),
        (172_900_000, "173 million"),
        (6.1e9, "6.1 billion"),
        (5e13, "50 trillion"),
        (inf, "many"),
    ],
)
def test_counts(number: float, shown: str) -> None:
    assert numbers.count(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(7, "7"), (654, "650"), (12_345, "12,000"), (13_944_321, "14 million"), (99_960, "100,000")]
)
def test_rough_counts(number: float, shown: str) -> None:
    assert numbers.rough(number) == shown


@pytest.mark.parametrize(
    ("bytes", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (2_140_000_000, "2.1 GB"), (999_700, "1 MB"), (3e17, "300 PB")],
)
def test_sizes(bytes: float, shown: str) -> None:
    assert numbers.size(bytes) == shown


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        (0, "0 s"),
        (3e-9, "1 µs"),
        (0.000_026, "26 µs"),
        (0.0131, "13.1 ms"),
        (0.97, "1 s"),
        (72.8, "72.8 s"),
        (7200, "7,200 s"),
    ],
)
def test_times(time: float, shown: str) -> None:
    assert numbers.seconds(time) == shown


def test_singular_and_plural() -> None:
    assert (numbers.rows(1), numbers.rows(2)) == ("1 row", "2 rows")
    assert (numbers.counted(1, "sort"), numbers.counted(0, "sort")) == ("1 sort", "no sorts")
