"""Where the results of a benchmark go: `results/NAME.json` gets every number and the machine, `results/NAME.png` the figures.

A run of some parts of a benchmark (one suite, a few queries) leaves the others as they were measured before; each says on
which day that was. Figures are drawn where matplotlib is installed (the extra `bench`), by a function that is given what
there is to draw and its `pyplot`. `tools/measured.py` makes the table of README.md of these files.
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

Draw = Callable[[Any, Any], Any]  # the parts, pyplot -> figure, or None if there is nothing to draw


def write(name: str, numbers: dict[str, Any], draw: Draw, parts: str, whole: bool = False, **versions: str) -> None:
    """Write both files and say where they are. `parts` is the key of what is drawn, and of what earlier runs may have
    measured as well: a dictionary, or a list of dictionaries with a name. Both have the keys that JSON has. Of a `whole` run
    nothing else is kept. `versions` of what else was measured stand beside Python's."""
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
    """What was measured on this machine before, with the same versions."""
    if not path.exists():
        return None
    known = json.loads(path.read_text())
    return known.get(parts) if known.get("machine") == machine else None


def _dated(part: Any) -> Any:
    """Every query that was measured has its day."""
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
