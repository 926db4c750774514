"""Where the results of a benchmark go: `results/NAME.json` gets every number and the machine, `results/NAME.png` the figures.

Figures are drawn where matplotlib is installed (the extra `bench`), by a function that is given its `pyplot`.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"

Draw = Callable[[Any], Any]  # pyplot -> figure, or None if there is nothing to draw


def write(name: str, numbers: dict[str, Any], draw: Draw, **versions: str) -> None:
    """Write both files and say where they are. `versions` of what else was measured stand beside Python's."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    machine = {
        "python": platform.python_version(),
        **versions,
        "processors": os.cpu_count(),
        "machine": platform.platform(),
    }
    written = RESULTS / f"{name}.json"
    written.write_text(json.dumps({"machine": machine, **numbers}, indent=1) + "\n")
    print(f"written: {written}{_drawn(draw, written.with_suffix('.png'))}")


def _drawn(draw: Draw, path: Path) -> str:
    try:
        import matplotlib
    except ImportError:
        return "; for figures, pip install matplotlib"
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = draw(pyplot)
    if figure is None:
        return ""
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return f" and {path.name}"
