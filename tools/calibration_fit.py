"""Non-negative least squares: the active-set method of Lawson and Hanson (Solving Least Squares Problems, 1974, chapter
23). Errors are relative to the measured times, so that a short job has the same weight as a long one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def fit(
    jobs: Sequence[Mapping[str, float]], seconds: Sequence[float], fixed: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The rates that best explain the times of the jobs, given how often each job uses each rate. Rates that no job
    uses are left out. `fixed` rates are given."""
    given = dict(fixed or {})
    names = [name for name in jobs[0] if name not in given and any(job[name] > 0 for job in jobs)]
    measured = np.array(seconds) - np.array([sum(job[name] * rate for name, rate in given.items()) for job in jobs])
    weights = 1 / np.array(seconds)
    matrix = np.array([[job[name] for name in names] for job in jobs]) * weights[:, None]
    scale = np.linalg.norm(matrix, axis=0)
    found = nonnegative(matrix / scale, measured * weights) / scale
    return {name: float(rate) for name, rate in zip(names, found, strict=True)}


def nonnegative(matrix: Array, target: Array, tolerance: float = 1e-12) -> Array:
    """The x >= 0 that minimizes |matrix x - target|."""
    count = matrix.shape[1]
    chosen = np.zeros(count, dtype=bool)
    x = np.zeros(count)
    for _ in range(10 * count):
        gradient = matrix.T @ (target - matrix @ x)
        gradient[chosen] = -np.inf
        best = int(np.argmax(gradient))
        if chosen.all() or gradient[best] <= tolerance:
            break
        chosen[best] = True
        while True:
            free = np.zeros(count)
            free[chosen] = np.linalg.lstsq(matrix[:, chosen], target, rcond=None)[0]
            if (free[chosen] > 0).all():
                x = free
                break
            # Moves towards the unconstrained solution until a rate becomes zero. That rate is then no longer free.
            falling = chosen & (free <= 0)
            step = float(np.min(x[falling] / (x[falling] - free[falling])))
            x = x + step * (free - x)
            chosen &= x > tolerance
            x[~chosen] = 0.0
    return x
