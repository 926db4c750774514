"""Matching misses nothing: a small version of `tools/completeness.py`, which covers three columns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.completeness import COLUMNS, Count, survey_global, survey_local


@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.parametrize("survey", [survey_local, survey_global], ids=["local", "global"])
def test_two_columns_every_true_implication_is_proven_and_no_false_one(
    survey: Callable[..., Count], with_nulls: bool
) -> None:
    count = survey(COLUMNS[:2], 1, with_nulls)
    assert count.missed == ()
    assert count.unsound == 0
    assert count.proven == count.true > 0


def test_three_columns_with_one_fact() -> None:
    count = survey_global(COLUMNS, 1, False)
    assert count.missed == ()
    assert count.unsound == 0
