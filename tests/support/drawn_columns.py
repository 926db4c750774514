"""Columns of rows for property tests, drawn cheaply."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

_NULLS_FROM = 224  # of 256: one row in eight is NULL


@cache  # a strategy that is built once is validated once
def drawn_column(values: st.SearchStrategy[Any], min_size: int, max_size: int) -> st.SearchStrategy[list[Any]]:
    """Rows over a pool of values, and NULL. Drawing a pool and one byte per row is many times cheaper than drawing
    every row from the strategy, and it repeats values, as tests of statistics and constraints need."""
    pools = st.lists(values, min_size=1, max_size=max(1, max_size))
    return st.tuples(pools, st.binary(min_size=min_size, max_size=max_size)).map(_picked)


def _picked(drawn: tuple[list[Any], bytes]) -> list[Any]:
    pool, picks = drawn
    return [None if pick >= _NULLS_FROM else pool[pick % len(pool)] for pick in picks]
