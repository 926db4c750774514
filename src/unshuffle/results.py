"""What the public calls return: measurements, results of a run, comparisons, analyzed data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unshuffle.frozen import dataclass

if TYPE_CHECKING:
    from unshuffle.catalog.statistics.stored_statistics import StoredStatistics


@dataclass(frozen=True, slots=True)
class Measured:
    """The seconds of every run, and Spark's metrics of the last one."""

    seconds: tuple[float, ...]
    exchanges: int
    shuffle_bytes: int
    spill_bytes: int
    task_seconds: float
    rows: int
    peak_memory_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": [round(s, 3) for s in self.seconds],
            "exchanges": self.exchanges,
            "shuffle_bytes": self.shuffle_bytes,
            "spill_bytes": self.spill_bytes,
            "task_seconds": round(self.task_seconds, 3),
            "rows": self.rows,
            "peak_memory_bytes": self.peak_memory_bytes,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """One output of a run: its path (None for a query without a target), its row count and its first rows."""

    path: str | None
    columns: tuple[str, ...]
    rows: int
    first: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a script. `replanned` tells of plans that were given up while they ran, because an estimate was far off.
    Their seconds are part of what is measured; Spark's metrics are those of the plan that ended."""

    measured: Measured
    results: tuple[Result, ...]
    fallbacks: tuple[str, ...] = ()
    replanned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Plain Spark beside unshuffle on the same query."""

    baseline: Measured
    optimized: Measured
    optimize_ms: float
    same_rows: bool
    fallbacks: tuple[str, ...] = ()
    replanned: tuple[str, ...] = ()  # in the runs that were measured

    @property
    def speedup(self) -> float:
        return min(self.baseline.seconds) / min(self.optimized.seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            "baseline": self.baseline.as_json(),
            "optimized": {**self.optimized.as_json(), "optimize_ms": round(self.optimize_ms, 3)},
            "speedup": round(self.speedup, 3),
            "same_rows": self.same_rows,
            "replanned": list(self.replanned),
        }


@dataclass(frozen=True, slots=True)
class Analyzed:
    """Analyzed data: its path, its statistics, and the file they were stored in."""

    path: str
    stored_in: Path
    statistics: StoredStatistics
