"""Writes the results of a benchmark: every number and the machine to `results/NAME.json`, the figures to
`results/NAME.png`.

A run of some parts of a benchmark (one suite, a few queries) keeps the earlier results of the other parts; each has its
date. Figures need matplotlib (the extra `bench`). A function that gets the results and `pyplot` draws them.
`tools/measured.py` makes the tables of README.md and docs/benchmarks.md from these files.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"

Draw = Callable[[Any, Any], Any]  # (the parts, pyplot) -> figure, or None if there is nothing to draw


def write(name: str, numbers: dict[str, Any], draw: Draw, parts: str, whole: bool = False, **versions: str) -> None:
    """Writes both files and prints their paths. `parts` is the key of the results that are drawn and that earlier runs
    may have measured: a dictionary, or a list of dictionaries with a name. Keys are as in JSON. A `whole` run keeps no
    earlier results. `versions` are recorded beside Python's."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        **versions,
        "processors": os.cpu_count(),
        "machine": platform.platform(),
    }
    written = RESULTS / f"{name}.json"
    numbers = json.loads(json.dumps(numbers))
    together = {
        **numbers,
        parts: _with_earlier(None if whole else _earlier(written, parts, machine), _dated(numbers[parts])),
    }
    written.write_text(json.dumps({"machine": machine, **together}, indent=1) + "\n")
    print(f"written: {written}{_drawn(draw, together[parts], written.with_suffix('.png'))}")


def _earlier(path: Path, parts: str, machine: dict[str, Any]) -> Any:
    """Earlier results on this machine, with the same versions."""
    if not path.exists():
        return None
    known = json.loads(path.read_text())
    return known.get(parts) if known.get("machine") == machine else None


def _dated(part: Any) -> Any:
    """Adds today's date to every measured query."""
    if isinstance(part, list):
        return [_dated(each) for each in part]
    if isinstance(part, dict) and "name" in part:
        return {**part, "day": datetime.date.today().isoformat()}
    return {key: _dated(each) for key, each in part.items()} if isinstance(part, dict) else part


def _with_earlier(old: Any, new: Any) -> Any:
    match old, new:
        case dict(), dict() if "name" not in new:
            return {**old, **{key: _with_earlier(old.get(key), each) for key, each in new.items()}}
        case list(), list() if all(isinstance(each, dict) and "name" in each for each in (*old, *new)):
            by_name = {each["name"]: each for each in (*old, *new)}
            return list(by_name.values())
        case _:
            return new


def _drawn(draw: Draw, parts: Any, path: Path) -> str:
    try:
        import matplotlib
    except ImportError:
        return "; for figures, pip install matplotlib"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = draw(parts, pyplot)
    if figure is None:
        return ""
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return f" and {path.name}"
