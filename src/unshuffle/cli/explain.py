"""`unshuffle explain`: shows a plan without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from unshuffle.cli import options
from unshuffle.cli.options import Commands, parse_params, positive
from unshuffle.cli.progress import constraint_check_progress


def add_parser(commands: Commands) -> None:
    parser = options.add_command(commands, explain)
    options.add_file(parser)
    options.add_tables(parser)
    options.add_param(parser)
    options.add_master(parser)
    options.add_catalog(parser)
    parser.add_argument(
        "--format", choices=("text", "json", "dot", "html"), default="text", help="How to show the plan."
    )
    parser.add_argument(
        "--why", action="store_true", help="Also say what forced each exchange and sort, and prove each one avoided."
    )
    parser.add_argument(
        "--all-plans", metavar="N", type=positive, default=1, help="Compare the N cheapest plans. Default: 1."
    )
    options.add_without(parser)
    parser.add_argument("--logical", action="store_true", help="Show the bound query, before it is optimized.")


def explain(
    file: Path,
    tables: list[str],
    param: list[str],
    master: str | None,
    catalog: Path | None,
    format: Literal["text", "json", "dot", "html"],
    why: bool,
    all_plans: int,
    without: list[str],
    logical: bool,
) -> None:
    """Show the optimized plan of a script or query without running it."""
    from unshuffle.session import Session

    params = parse_params(param)
    with (
        constraint_check_progress() as step,
        Session(tables=tables, master=master, catalog=catalog, step=step, without=without) as session,
    ):
        print(session.explain(file, params, format=format, why=why, all_plans=all_plans, logical=logical))
