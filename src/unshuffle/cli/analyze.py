"""`unshuffle analyze`: collects and stores statistics of Parquet data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unshuffle.cli import options
from unshuffle.cli.console import err, escape, out, print_json
from unshuffle.cli.options import Commands
from unshuffle.cli.progress import analysis_progress

if TYPE_CHECKING:
    from unshuffle.results import Analyzed


def add_parser(commands: Commands) -> None:
    parser = options.add_command(commands, analyze)
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="A Parquet file or folder, a structured stream, or a folder of tables."
    )
    options.add_catalog(parser)
    options.add_json(parser)


def analyze(paths: list[str], catalog: Path | None, as_json: bool) -> None:
    """Collect statistics, keys and dependencies of Parquet data, and store them for later queries."""
    from unshuffle.session import Session

    with Session(catalog=catalog) as session, analysis_progress() as step:
        tables = session.analyze(*paths, step=step)
    if as_json:
        print_json([_table_json(table) for table in tables])
        return
    for table in tables:
        _print_table(table)


def _print_table(table: Analyzed) -> None:
    statistics = table.statistics
    how = "exact" if statistics.exact else "distinct values by a sketch, the rest on a sample"
    counts = f"{statistics.rows:,} rows, {len(statistics.columns)} columns, {how}"
    out().print(f"[bold]{escape(table.path)}[/bold]  [dim]{counts}[/dim]")
    for key in statistics.keys:
        out().print(f"  key {escape(', '.join(key))}")
    for left, right in statistics.dependencies:
        out().print(f"  {escape(', '.join(left) or '()')} -> {escape(', '.join(right))}")
    err().print(f"[dim]  stored in {escape(str(table.stored_in))}[/dim]")


def _table_json(table: Analyzed) -> dict[str, object]:
    statistics = table.statistics
    return {
        "path": table.path,
        "stored_in": str(table.stored_in),
        "rows": statistics.rows,
        "bytes": statistics.bytes,
        "exact": statistics.exact,
        "columns": {
            column.name: {"distinct": column.statistics.distinct, "null_fraction": column.statistics.null_fraction}
            for column in statistics.columns
        },
        "keys": [list(key) for key in statistics.keys],
        "dependencies": [{"from": list(left), "to": list(right)} for left, right in statistics.dependencies],
    }
