"""What the benchmarks of partitions share: processor time of a call, and tables and figures of times by size."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Results = dict[str, list[dict[str, Any]]]  # by shape: a point for each size


def milliseconds(run: Callable[[], object], runs: int) -> float:
    """The best of some runs, without the waiting for other programs."""
    times = []
    for _ in range(runs):
        began = time.process_time_ns()
        run()
        times.append(time.process_time_ns() - began)
    return min(times) / 1e6


def show(results: Results, sizes: tuple[str, str], times: Mapping[str, str], goal: tuple[str, float]) -> None:
    """A table for each shape, and whether the largest size meets the goal: a time and its most milliseconds."""
    show_times(results, sizes, times)
    for points in results.values():
        last, (name, most) = points[-1], goal
        met = "met" if last[name] < most else "missed"
        count = last[sizes[0]]
        print(f"{times[name]} of {count:,} x {count:,}: {last[name]:.1f} ms, goal {most:g} ms: {met}")


def show_times(results: Results, sizes: tuple[str, str], times: Mapping[str, str]) -> None:
    """A table for each shape. `sizes` are two counts of a point, `times` its times with their titles."""
    from rich.console import Console
    from rich.table import Table

    for shape, points in results.items():
        table = Table(title=f"{shape}, milliseconds", title_justify="left")
        for heading in (*sizes, *times.values()):
            table.add_column(heading, justify="right")
        for point in points:
            shown = ("-" if point[name] is None else f"{point[name]:,.2f}" for name in times)
            table.add_row(*(f"{point[name]:,}" for name in sizes), *shown)
        Console().print(table)


def drawn(results: Results, size: str, times: Mapping[str, str], most: float, pyplot: Any) -> Any:
    """Times over sizes, a figure for each shape."""
    figure, axes = pyplot.subplots(1, len(results), figsize=(6 * len(results), 4.5), squeeze=False)
    for (shape, points), plot in zip(results.items(), axes[0], strict=True):
        for name, title in times.items():
            known = [(point[size], point[name]) for point in points if point[name] is not None]
            plot.plot([count for count, _ in known], [ms for _, ms in known], marker=".", label=title)
        plot.axhline(most, linestyle="--", color="grey", label="goal")
        plot.set(title=shape, xlabel=f"{size} on each side", ylabel="ms", xscale="log", yscale="log")
        plot.legend(fontsize="small")
    return figure
