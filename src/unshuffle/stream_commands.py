"""`unshuffle stream ...`: structured streams written, looked at, checked and tidied from the command line."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from unshuffle.errors import UserError
from unshuffle.properties import HashFunction
from unshuffle.render.numbers import counted, size
from unshuffle.session import Session
from unshuffle.streams import Manifest, Stream, open_stream, place_of, ranges_of
from unshuffle.streams import check as check_stream
from unshuffle.streams import vacuum as vacuum_stream
from unshuffle.streams.encoded import encode
from unshuffle.streams.store import versions
from unshuffle.streams.vacuum import KEPT_HOURS, KEPT_VERSIONS

app = typer.Typer(no_args_is_help=True, help="Structured streams: data that is stored partitioned and sorted.")
_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)

SHOWN_PARTITIONS = 20
BROKEN = 1

Name = Annotated[str, typer.Argument(metavar="PATH", help="The stream: a folder NAME.ss, or its URI.")]
Version = Annotated[int | None, typer.Option("--version", metavar="N", help="Another version than the newest.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
Columns = list[str] | None


@app.command()
def write(
    path: Name,
    source: Annotated[str, typer.Argument(help="Parquet files, a table, or a .sql or .scope file of one query.")],
    clustered_by: Annotated[
        Columns, typer.Option("--clustered-by", metavar="COLS", help="The columns that rows are put together by: a,b")
    ] = None,
    sorted_by: Annotated[
        Columns,
        typer.Option("--sorted-by", metavar="COLS", help='The order in a partition: "a,b desc". Default: the former.'),
    ] = None,
    ranged: Annotated[bool, typer.Option("--range/--hash", help="Partitions of ranges, or of hashes.")] = False,
    into: Annotated[int | None, typer.Option("--into", metavar="N", help="How many. Default: by size.")] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", metavar="PATH", help="Partition as this other stream is.")
    ] = None,
    key: Annotated[Columns, typer.Option("--key", metavar="COLS", help="No two rows agree on these: a,b")] = None,
    depends: Annotated[Columns, typer.Option("--depends", metavar="A->B", help='A dependency: "a,b -> c"')] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Make a new version of a stream that exists.")] = False,
    tables: Annotated[Columns, typer.Option("--tables", metavar="DIR", help="Tables that the query may name.")] = None,
    param: Annotated[Columns, typer.Option("--param", metavar="NAME=VALUE", help="A parameter of the script.")] = None,
    master: Annotated[str | None, typer.Option("--master", metavar="M", help="Spark master.")] = None,
) -> None:
    """Store rows as a structured stream."""
    with Session(tables=tables or (), master=master) as session:
        stream = session.write_stream(
            source,
            path,
            clustered_by=_names(clustered_by),
            sorted_by=_names(sorted_by),
            ranged=ranged,
            partitions=into,
            reference=reference,
            keys=[_names([each]) for each in key or ()],
            dependencies=[_dependency(each) for each in depends or ()],
            overwrite=overwrite,
            params=dict(map(_param, param or ())),
        )
    _out.print(f"[bold]{escape(path)}[/bold]  [dim]{_summary(stream)}[/dim]")


@app.command()
def inspect(path: Name, version: Version = None, as_json: AsJson = False) -> None:
    """Show what the manifest of a stream says."""
    stream = open_stream(path, version)
    manifest = stream.manifest
    there = versions(place_of(path))
    if as_json:
        shown = {"path": stream.path, "versions": there, **encode(manifest)}
        print(json.dumps(shown, indent=1, ensure_ascii=False))
        return
    _out.print(f"[bold]{escape(path)}[/bold]  [dim]{_summary(stream)}; versions: {', '.join(map(str, there))}[/dim]")
    for label, text in _facts(manifest):
        _out.print(f"  {label}  {escape(text)}")
    table = Table("partition", "rows", "size", "files", "row groups", "range", show_edge=False, header_style="bold")
    for number, partition in list(enumerate(manifest.partitions))[:SHOWN_PARTITIONS]:
        groups = sum(len(file.groups) for file in partition.files)
        cells = (f"{partition.rows:,}", size(partition.bytes), str(len(partition.files)), str(groups))
        table.add_row(str(number), *cells, escape(_begins(manifest, number)))
    _out.print(table)
    if len(manifest.partitions) > SHOWN_PARTITIONS:
        _out.print(f"[dim]... {len(manifest.partitions) - SHOWN_PARTITIONS:,} more partitions[/dim]")


@app.command()
def check(path: Name, version: Version = None, as_json: AsJson = False) -> None:
    """Look at every row whether what the manifest of a stream says is true."""
    stream = open_stream(path, version)
    columns = (TextColumn("checking rows"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as progress:
        bar = progress.add_task("", total=stream.manifest.rows)
        faults = check_stream(stream, lambda done, _: progress.update(bar, completed=done))
    if as_json:
        found = [{"message": each.message, "file": each.file, "row": each.row} for each in faults]
        shown = {"path": stream.path, "version": stream.version, "rows": stream.manifest.rows}
        print(json.dumps({**shown, "ok": not faults, "faults": found}, indent=1, ensure_ascii=False))
    elif faults:
        for each in faults:
            _err.print(f"[bold red]error:[/bold red] {escape(str(each))}")
    else:
        _out.print(f"[bold]{escape(path)}[/bold]  [dim]{_summary(stream)}[/dim]\n  all that it says is true")
    if faults:
        raise typer.Exit(BROKEN)


@app.command()
def vacuum(
    path: Name,
    keep: Annotated[int, typer.Option("--keep", metavar="N", help="How many versions to keep.")] = KEPT_VERSIONS,
    older_than: Annotated[
        float,
        typer.Option(
            "--older-than",
            metavar="HOURS",
            help="Keep what was replaced or written since: who reads or writes it may still be at work.",
        ),
    ] = KEPT_HOURS,
) -> None:
    """Remove versions that are not kept, and files that no kept version names."""
    removed = vacuum_stream(place_of(path), path, keep, older_than)
    for version in removed.versions:
        _out.print(f"removed version {version}")
    for name in removed.files:
        _out.print(f"removed {escape(name)}")
    what = f"{counted(len(removed.versions), 'version')}, {counted(len(removed.files), 'file')}"
    _err.print(f"[dim]{what}, {size(removed.bytes)}[/dim]")


# --- in words


def _summary(stream: Stream) -> str:
    manifest = stream.manifest
    partitions = counted(len(manifest.partitions), "partition")
    return f"version {stream.version}, {manifest.rows:,} rows, {size(manifest.bytes)}, {partitions}"


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    kind = "hash" if isinstance(manifest.function, HashFunction) else "range"
    facts = [
        ("clustered by", f"{', '.join(map(str, manifest.clustered_by))}  ({kind})"),
        ("sorted by   ", ", ".join(map(str, manifest.sorted_by))),
    ]
    facts += [("declared    ", str(each)) for each in manifest.declarations]
    if manifest.reference is not None:
        facts.append(("like        ", f"{manifest.reference.path}, version {manifest.reference.version}"))
    return facts


def _begins(manifest: Manifest, number: int) -> str:
    if isinstance(manifest.function, HashFunction):
        return ""
    return str(ranges_of(manifest.function).interval(number))


def _names(given: Columns) -> list[str]:
    return [name.strip() for each in given or () for name in each.split(",") if name.strip()]


def _dependency(text: str) -> tuple[list[str], list[str]]:
    left, arrow, right = text.partition("->")
    if not arrow or not _names([left]) or not _names([right]):
        raise UserError(f"--depends {text!r} is not of the form a,b -> c")
    return _names([left]), _names([right])


def _param(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--param {text!r} is not NAME=VALUE")
    return name.strip(), value
