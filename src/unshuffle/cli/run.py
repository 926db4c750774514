"""`unshuffle run`: runs a script and writes its outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from unshuffle.cli import options
from unshuffle.cli.console import err, escape, new_table, out, print_notes
from unshuffle.cli.options import Commands, parse_params
from unshuffle.cli.progress import constraint_check_progress
from unshuffle.errors import UserError

if TYPE_CHECKING:
    from unshuffle.results import Measured, Result


def add_parser(commands: Commands) -> None:
    parser = options.add_command(commands, run)
    options.add_file(parser)
    options.add_tables(parser)
    options.add_param(parser)
    options.add_master(parser)
    options.add_catalog(parser)
    options.add_without(parser)
    parser.add_argument("--report", metavar="HTML", type=Path, help="Write a report page.")
    options.add_json(parser)


def run(
    file: Path,
    tables: list[str],
    param: list[str],
    master: str | None,
    catalog: Path | None,
    without: list[str],
    report: Path | None,
    as_json: bool,
) -> None:
    """Run a script and write its outputs. If anything fails, no output is written."""
    from unshuffle.session import Session

    params = parse_params(param)
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise UserError(f"the report cannot be written to {str(report)!r}", hint="name a file in an existing folder")
    with (
        constraint_check_progress() as step,
        Session(tables=tables, master=master, catalog=catalog, step=step, without=without) as session,
    ):
        result = session.run(file, params)
        if report is not None:
            report.write_text(session.report(file, params, result), encoding="utf-8")
        print_notes((*result.replanned, *result.fallbacks))
        if as_json:
            print(json.dumps({**result.measured.as_json(), "replanned": list(result.replanned)}))
            return
        for output in result.results:
            _print_output(output)
        err().print(f"[dim]{_summary(result.measured)}[/dim]")


def _print_output(output: Result) -> None:
    if output.path is not None:
        out().print(f"{escape(output.path)}  [dim]{output.rows:,} rows[/dim]")
    if output.first or output.path is None:
        table = new_table(*(escape(name) for name in output.columns))
        for row in output.first:
            table.add_row(*("[dim]NULL[/dim]" if value is None else escape(str(value)) for value in row))
        out().print(table)
    if output.rows > len(output.first) > 0:
        out().print(f"[dim]... {output.rows - len(output.first):,} more rows[/dim]")


def _summary(measured: Measured) -> str:
    from unshuffle.explain.phrases.numbers import size

    return (
        f"{measured.rows:,} rows in {measured.seconds[-1]:.1f} s, {measured.exchanges} exchanges, "
        f"{size(measured.shuffle_bytes)} shuffled"
    )
