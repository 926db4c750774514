"""Progress bars on standard error. They are shown only on a terminal, and vanish when the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unshuffle.cli.console import err, escape

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Step = Callable[[str, str, int, int], None]


@contextmanager
def analysis_progress() -> Iterator[Step]:
    """One bar for each table that is analyzed."""
    with _bars("{task.description}") as progress:
        tasks: dict[str, TaskID] = {}

        def step(table: str, activity: str, done: int, total: int) -> None:
            if table not in tasks:
                tasks[table] = progress.add_task("", total=total)
            progress.update(tasks[table], completed=done, description=escape(f"{Path(table).name}  {activity}"))

        yield step


@contextmanager
def constraint_check_progress() -> Iterator[Step]:
    """One bar for each check of a declaration. It stops when the check is done, because Spark may draw bars next."""
    running: dict[str, tuple[Progress, TaskID]] = {}

    def step(rowset: str, declaration: str, done: int, total: int) -> None:
        label = f"checking {declaration} of {rowset}"
        if label not in running and done < total:
            progress = _bars("{task.description}")
            progress.start()
            running[label] = progress, progress.add_task(escape(label), total=total)
        if label in running:
            progress, task = running[label]
            progress.update(task, completed=done)
            if done >= total:
                running.pop(label)[0].stop()

    try:
        yield step
    finally:
        for progress, _ in running.values():
            progress.stop()


@contextmanager
def row_progress(label: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """One bar for a pass over `total` rows."""
    with _bars(label) as progress:
        task = progress.add_task("", total=total)
        yield lambda done, _: progress.update(task, completed=done)


def _bars(label: str) -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(label), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=err(), transient=True, disable=not err().is_terminal)
