"""`unshuffle compare`: runs plain Spark beside unshuffle."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from unshuffle.cli import options
from unshuffle.cli.console import fail, new_table, out, print_notes
from unshuffle.cli.options import Commands, parse_params, positive
from unshuffle.cli.progress import constraint_check_progress

if TYPE_CHECKING:
    from rich.table import Table

    from unshuffle.results import Comparison, Measured

DIFFERENT_ROWS = 1


def add_parser(commands: Commands) -> None:
    parser = options.add_command(commands, compare)
    options.add_file(parser)
    options.add_tables(parser)
    options.add_param(parser)
    parser.add_argument(
        "--runs", metavar="N", type=positive, default=3, help="How often each side runs, in turn. Default: 3."
    )
    options.add_master(parser)
    options.add_catalog(parser)
    options.add_without(parser)
    options.add_json(parser)


def compare(
    file: Path,
    tables: list[str],
    param: list[str],
    runs: int,
    master: str | None,
    catalog: Path | None,
    without: list[str],
    as_json: bool,
) -> None:
    """Run plain Spark beside unshuffle, in turn, and check that both give the same rows. Nothing is written."""
    from unshuffle.session import Session

    params = parse_params(param)
    with (
        constraint_check_progress() as step,
        Session(tables=tables, master=master, catalog=catalog, step=step, without=without) as session,
    ):
        result = session.compare(file, params, runs)
    print_notes((*result.replanned, *result.fallbacks))
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        out().print(_comparison_table(result))
    if not result.same_rows:
        fail("the two sides gave different rows", DIFFERENT_ROWS)


def _comparison_table(result: Comparison) -> Table:
    from unshuffle.explain.phrases.numbers import size

    table = new_table("", "plain Spark", "unshuffle")
    measures: dict[str, Callable[[Measured], str]] = {
        "best seconds": lambda m: f"{min(m.seconds):.2f}",
        "exchanges": lambda m: str(m.exchanges),
        "shuffled": lambda m: size(m.shuffle_bytes),
        "spilled": lambda m: size(m.spill_bytes),
        "task seconds": lambda m: f"{m.task_seconds:.2f}",
        "peak task memory": lambda m: size(m.peak_memory_bytes),
        "rows": lambda m: f"{m.rows:,}",
    }
    for label, measure in measures.items():
        table.add_row(label, measure(result.baseline), measure(result.optimized))
    table.add_row("speed-up", "", f"{result.speedup:.2f}x")
    table.add_row("same rows", "", "yes" if result.same_rows else "NO")
    return table
