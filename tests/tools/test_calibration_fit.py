"""The calibration fit recovers the rates behind measured times, and no rate is negative."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.calibration_fit import fit, nonnegative


@given(seed=st.integers(0, 10_000), columns=st.integers(1, 6))
def test_the_rates_are_recovered(seed: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"rate{i}" for i in range(columns)]
    rates = dict(zip(names, rng.choice([0.0, 1e-9, 5e-8, 1e-3], columns), strict=True))
    rates["rate0"] = 1e-6
    jobs = [dict(zip(names, 10 ** rng.uniform(0, 4, columns), strict=True)) for _ in range(3 * columns)]
    found = fit(jobs, [sum(job[n] * rates[n] for n in names) for job in jobs])
    for job in jobs:
        assert sum(job[n] * found[n] for n in names) == pytest.approx(sum(job[n] * rates[n] for n in names), rel=1e-6)


@given(seed=st.integers(0, 10_000))
def test_no_rate_is_negative_and_none_can_be_improved(seed: int) -> None:
    """The conditions of Karush, Kuhn and Tucker: increasing a zero rate, or changing another one, does not reduce the
    error."""
    rng = np.random.default_rng(seed)
    matrix, target = rng.normal(size=(12, 5)), rng.normal(size=12)
    x = nonnegative(matrix, target)
    gradient = matrix.T @ (target - matrix @ x)
    assert (x >= 0).all()
    assert (gradient <= 1e-9).all()
    assert np.abs(gradient[x > 0]).max(initial=0.0) < 1e-9


def test_a_rate_that_no_job_uses_is_left_out() -> None:
    assert fit([{"a": 1.0, "b": 0.0}, {"a": 2.0, "b": 0.0}], [3.0, 6.0]) == {"a": pytest.approx(3.0)}
