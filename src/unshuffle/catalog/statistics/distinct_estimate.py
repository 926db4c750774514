"""The number of distinct values in all rows, from a random sample of them."""

from __future__ import annotations

from math import expm1, log1p

from unshuffle.constants import LOOKS


def in_all_rows(distinct: int, once: int, twice: int, rows: int, population: float) -> float | None:
    """The number of values in all rows, from how many occur in a sample, and how many of these once and twice (Chao 1984).
    The rows are assumed to be drawn from as many values as that. None if too few values occur twice to tell."""
    if once == 0:
        return float(distinct)
    if rows < LOOKS.min_rows or (twice < LOOKS.min_repeated and once > distinct * LOOKS.rare_share):
        return None
    domain = distinct + once * (once - 1) / (2.0 * (twice + 1))
    return float(max(distinct, values_drawn(population, domain)))


def values_drawn(rows: float, domain: float) -> float:
    """The expected number of distinct values in rows drawn at random from a domain (Cardenas 1975)."""
    return domain if domain <= 1.0 else min(rows, -domain * expm1(rows * log1p(-1.0 / domain)))
