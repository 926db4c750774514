"""The `unshuffle` command. Results go to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unshuffle.errors import NotOptimizedWarning, UnshuffleError, UserError
from unshuffle.session import Analyzed, Comparison, Measured, Result, Session
from unshuffle.stream_commands import app as stream_app

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(stream_app, name="stream")
_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

File = Annotated[Path, typer.Argument(help="A .scope script or a .sql file.", show_default=False)]
Tables = Annotated[
    list[str] | None,
    typer.Option("--tables", metavar="DIR", help="Offer every DIR/NAME.parquet and DIR/NAME.ss as table NAME."),
]
Param = Annotated[
    list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Set a parameter that the script declares.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
Catalog = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="DIR", help="Where statistics are kept. Default: beside the data they are of."),
]
Without = Annotated[
    list[str] | None, typer.Option("--without", metavar="RULE", help="Plan without a rule; see `explain`. Repeatable.")
]
Master = Annotated[str | None, typer.Option("--master", metavar="M", help="Spark master. Default: this machine.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"unshuffle {version('unshuffle')}, pyspark {version('pyspark')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show versions and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Run, explain and compare SCOPE scripts and Spark SQL queries."""


@app.command()
def run(
    file: File,
    tables: Tables = None,
    param: Param = None,
    master: Master = None,
    catalog: Catalog = None,
    without: Without = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="HTML", help="Write a report page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a script and write its outputs: all of them, or, if anything fails, none."""
    params = _params(param)
    if report is not None and (report.is_dir() or not report.parent.is_dir()):
        raise UserError(
            f"the report cannot be written to {str(report)!r}", hint="name a file in a folder that is there"
        )
    with (
        _checks_shown() as step,
        Session(tables=tables or (), master=master, catalog=catalog, step=step, without=without or ()) as session,
    ):
        result = session.run(file, params)
        if report is not None:
            report.write_text(session.report(file, params, result), encoding="utf-8")
        _show_fallbacks(result.fallbacks)
        if as_json:
            print(json.dumps(result.measured.as_json()))
            return
        for one in result.results:
            _show(one)
        _err.print(_summary(result.measured))


@app.command()
def explain(
    file: File,
    tables: Tables = None,
    param: Param = None,
    catalog: Catalog = None,
    format: Annotated[
        Literal["text", "json", "dot", "html"], typer.Option("--format", help="How to show the plan.")
    ] = "text",
    why: Annotated[
        bool, typer.Option("--why", help="Also say what forced each exchange and sort, and prove each one avoided.")
    ] = False,
    all_plans: Annotated[
        int, typer.Option("--all-plans", metavar="N", min=1, help="Compare the N cheapest plans.")
    ] = 1,
    without: Without = None,
    logical: Annotated[bool, typer.Option("--logical", help="Show the query as it was bound, not optimized.")] = False,
) -> None:
    """Show the optimized plan of a script or query without running it."""
    with (
        _checks_shown() as step,
        Session(tables=tables or (), catalog=catalog, step=step, without=without or ()) as session,
    ):
        print(session.explain(file, _params(param), format=format, why=why, all_plans=all_plans, logical=logical))


@app.command()
def compare(
    file: File,
    tables: Tables = None,
    param: Param = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="How often each side runs, in turn.")] = 3,
    master: Master = None,
    catalog: Catalog = None,
    without: Without = None,
    as_json: AsJson = False,
) -> None:
    """Run plain Spark beside unshuffle, in turn, and check that both give the same rows. Nothing is written."""
    with (
        _checks_shown() as step,
        Session(tables=tables or (), master=master, catalog=catalog, step=step, without=without or ()) as session,
    ):
        result = session.compare(file, _params(param), runs)
    _show_fallbacks(result.fallbacks)
    if as_json:
        print(json.dumps(result.as_json()))
    else:
        _out.print(_comparison(result))
    if not result.same_rows:
        _fail("the two sides gave different rows", 1)


@app.command()
def analyze(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="A Parquet file or folder, or a folder of tables.")
    ],
    catalog: Catalog = None,
    as_json: AsJson = False,
) -> None:
    """Find out statistics, keys and dependencies of Parquet data, and store them for later queries."""
    with Session(catalog=catalog) as session, _analysis_shown() as step:
        done = session.analyze(*paths, step=step)
    if as_json:
        print(json.dumps([_analyzed_json(each) for each in done], indent=1, ensure_ascii=False))
        return
    for each in done:
        found = each.statistics
        how = "exact" if found.exact else "distinct values by a sketch, the rest on a sample"
        _out.print(
            f"[bold]{escape(each.path)}[/bold]  [dim]{found.rows:,} rows, {len(found.columns)} columns, {how}[/dim]"
        )
        for key in found.keys:
            _out.print(f"  key {escape(', '.join(key))}")
        for left, right in found.dependencies:
            _out.print(f"  {escape(', '.join(left) or '()')} -> {escape(', '.join(right))}")
        _err.print(f"[dim]  stored in {escape(str(each.stored_in))}[/dim]")


def _analyzed_json(each: Analyzed) -> dict[str, object]:
    found = each.statistics
    return {
        "path": each.path,
        "stored_in": str(each.stored_in),
        "rows": found.rows,
        "bytes": found.bytes,
        "exact": found.exact,
        "columns": {
            column.name: {"distinct": column.statistics.distinct, "null_fraction": column.statistics.null_fraction}
            for column in found.columns
        },
        "keys": [list(key) for key in found.keys],
        "dependencies": [{"from": list(left), "to": list(right)} for left, right in found.dependencies],
    }


@contextmanager
def _analysis_shown() -> Iterator[Callable[[str, str, int, int], None]]:
    """A bar on standard error, if that is a terminal."""
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=_err, transient=True
    ) as progress:
        bars: dict[str, TaskID] = {}

        def step(table: str, what: str, done: int, total: int) -> None:
            if table not in bars:
                bars[table] = progress.add_task("", total=total)
            progress.update(bars[table], completed=done, description=escape(f"{Path(table).name}  {what}"))

        yield step


@contextmanager
def _checks_shown() -> Iterator[Callable[[str, str, int, int], None]]:
    """A bar for each check that takes time, gone when the check is done: other bars may follow."""
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    bars: dict[str, tuple[Progress, TaskID]] = {}

    def step(rowset: str, declaration: str, done: int, total: int) -> None:
        label = f"checking {declaration} of {rowset}"
        if label not in bars and done < total:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            bar = Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal)
            bar.start()
            bars[label] = bar, bar.add_task(escape(label), total=total)
        if label in bars:
            bar, task = bars[label]
            bar.update(task, completed=done)
            if done >= total:
                bars.pop(label)[0].stop()

    try:
        yield step
    finally:
        for bar, _ in bars.values():
            bar.stop()


def _params(given: list[str] | None) -> dict[str, object]:
    params: dict[str, object] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--param {one!r} is not NAME=VALUE")
        if name.strip() in params:
            raise UserError(f"--param {name.strip()!r} is given twice")
        params[name.strip()] = value
    return params


def _show(result: Result) -> None:
    if result.path is not None:
        _out.print(f"{escape(result.path)}  [dim]{result.rows:,} rows[/dim]")
    if result.first or result.path is None:
        table = Table(*(escape(name) for name in result.columns), show_edge=False, header_style="bold")
        for row in result.first:
            table.add_row(*("[dim]NULL[/dim]" if value is None else escape(str(value)) for value in row))
        _out.print(table)
    if result.rows > len(result.first) > 0:
        _out.print(f"[dim]... {result.rows - len(result.first):,} more rows[/dim]")


def _summary(measured: Measured) -> str:
    return (
        f"[dim]{measured.rows:,} rows in {measured.seconds[-1]:.1f} s, {measured.exchanges} exchanges, "
        f"{_bytes(measured.shuffle_bytes)} shuffled[/dim]"
    )


def _show_fallbacks(fallbacks: Sequence[str]) -> None:
    for each in fallbacks:
        _err.print(f"Note: {each}", style="dim", markup=False, highlight=False)


def _comparison(result: Comparison) -> Table:
    table = Table("", "plain Spark", "unshuffle", show_edge=False, header_style="bold")
    rows: list[tuple[str, str, str]] = []
    lines: list[tuple[str, Callable[[Measured], str]]] = [
        ("best seconds", lambda m: f"{min(m.seconds):.2f}"),
        ("exchanges", lambda m: str(m.exchanges)),
        ("shuffled", lambda m: _bytes(m.shuffle_bytes)),
        ("spilled", lambda m: _bytes(m.spill_bytes)),
        ("task seconds", lambda m: f"{m.task_seconds:.2f}"),
        ("memory of a task", lambda m: _bytes(m.peak_memory_bytes)),
        ("rows", lambda m: f"{m.rows:,}"),
    ]
    for label, of in lines:
        rows.append((label, of(result.baseline), of(result.optimized)))
    rows.append(("speed-up", "", f"{result.speedup:.2f}x"))
    rows.append(("same rows", "", "yes" if result.same_rows else "NO"))
    for row in rows:
        table.add_row(*row)
    return table


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _fail(message: str, code: int) -> NoReturn:
    _err.print(f"[bold red]error:[/bold red] {escape(message)}")
    sys.exit(code)


def main() -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotOptimizedWarning)  # commands tell it in a note
            app()
    except UnshuffleError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted; nothing was written", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
