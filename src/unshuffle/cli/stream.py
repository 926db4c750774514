"""`unshuffle stream`: writes, inspects, checks and vacuums structured streams."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from unshuffle.cli import options
from unshuffle.cli.console import err, escape, new_table, out, print_error, print_json
from unshuffle.cli.options import Commands, parse_params, print_help
from unshuffle.cli.progress import row_progress
from unshuffle.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from unshuffle.sstream import Manifest, Stream

SHOWN_PARTITIONS = 20
FAULTS_FOUND = 1
KEPT_VERSIONS = 1
KEPT_HOURS = 24.0


def add_parser(commands: Commands) -> None:
    description = "Structured streams: data that is stored partitioned and sorted."
    parser = commands.add_parser("stream", help=description, description=description)
    parser.set_defaults(command=lambda: print_help(parser))
    of_streams = parser.add_subparsers(metavar="COMMAND")
    _add_write(of_streams)
    for command in (inspect, check):
        command_parser = options.add_command(of_streams, command)
        _add_path(command_parser)
        command_parser.add_argument("--version", metavar="N", type=int, help="A version other than the newest.")
        options.add_json(command_parser)
    _add_vacuum(of_streams)


def _add_path(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="The stream: a folder NAME.ss, or its URI.")


def _add_write(commands: Commands) -> None:
    parser = options.add_command(commands, write)
    _add_path(parser)
    parser.add_argument(
        "source", metavar="SOURCE", help="Parquet files, a table, or a .sql or .scope file of one query."
    )
    options.add_repeatable(parser, "--clustered-by", "COLS", "The partitioning columns: a,b.")
    options.add_repeatable(
        parser,
        "--sorted-by",
        "COLS",
        'The sort order in each partition: "a,b desc". Default: the partitioning columns.',
    )
    partitioning = parser.add_mutually_exclusive_group()
    partitioning.add_argument("--range", dest="ranged", action="store_true", help="Partition by range.")
    partitioning.add_argument("--hash", dest="ranged", action="store_false", help="Partition by hash, the default.")
    parser.set_defaults(ranged=False)
    parser.add_argument("--into", metavar="N", type=int, help="The number of partitions. Default: by size.")
    parser.add_argument("--reference", metavar="PATH", help="Partition like this other stream.")
    options.add_repeatable(parser, "--key", "COLS", "A key, checked on the rows: a,b.")
    options.add_repeatable(parser, "--depends", "A->B", 'A dependency, checked on the rows: "a,b -> c".')
    parser.add_argument("--overwrite", action="store_true", help="Write a new version of an existing stream.")
    options.add_tables(parser)
    options.add_param(parser)
    options.add_master(parser)


def _add_vacuum(commands: Commands) -> None:
    parser = options.add_command(commands, vacuum)
    _add_path(parser)
    parser.add_argument(
        "--keep",
        metavar="N",
        type=int,
        default=KEPT_VERSIONS,
        help=f"How many versions to keep. Default: {KEPT_VERSIONS}.",
    )
    parser.add_argument(
        "--older-than",
        metavar="HOURS",
        type=float,
        default=KEPT_HOURS,
        help="Also keep versions replaced and files written in the last HOURS: a reader or writer may use them. "
        f"Default: {KEPT_HOURS}.",
    )


def write(
    path: str,
    source: str,
    clustered_by: list[str],
    sorted_by: list[str],
    ranged: bool,
    into: int | None,
    reference: str | None,
    key: list[str],
    depends: list[str],
    overwrite: bool,
    tables: list[str],
    param: list[str],
    master: str | None,
) -> None:
    """Store rows as a structured stream."""
    from unshuffle.session import Session

    with Session(tables=tables, master=master) as session:
        stream = session.write_stream(
            source,
            path,
            clustered_by=_column_names(clustered_by),
            sorted_by=_column_names(sorted_by),
            ranged=ranged,
            partitions=into,
            reference=reference,
            keys=[_column_names([each]) for each in key],
            dependencies=[_parse_dependency(each) for each in depends],
            overwrite=overwrite,
            params=parse_params(param),
        )
    out().print(_headline(path, stream))


def inspect(path: str, version: int | None, as_json: bool) -> None:
    """Show the manifest of a stream."""
    from unshuffle.sstream import open_stream, storage_of
    from unshuffle.sstream.manifest_json import encode
    from unshuffle.sstream.store import versions

    stream = open_stream(path, version)
    manifest = stream.manifest
    existing = versions(storage_of(path))
    if as_json:
        print_json({"path": stream.path, "versions": existing, **encode(manifest)})
        return
    out().print(f"{_headline(path, stream)}[dim]; versions: {', '.join(map(str, existing))}[/dim]")
    for label, text in _layout_lines(manifest):
        out().print(f"  {label}  {escape(text)}")
    out().print(_partition_table(manifest))
    if len(manifest.partitions) > SHOWN_PARTITIONS:
        out().print(f"[dim]... {len(manifest.partitions) - SHOWN_PARTITIONS:,} more partitions[/dim]")


def check(path: str, version: int | None, as_json: bool) -> None:
    """Read every row of a stream and check that its manifest is correct."""
    from unshuffle.sstream import open_stream
    from unshuffle.sstream.check import check

    stream = open_stream(path, version)
    with row_progress("checking rows", stream.manifest.rows) as step:
        faults = check(stream, step)
    if as_json:
        fault_list = [{"message": fault.message, "file": fault.file, "row": fault.row} for fault in faults]
        header = {"path": stream.path, "version": stream.version, "rows": stream.manifest.rows}
        print_json({**header, "ok": not faults, "faults": fault_list})
    elif faults:
        for fault in faults:
            print_error(str(fault))
    else:
        out().print(f"{_headline(path, stream)}\n  the manifest is correct")
    if faults:
        sys.exit(FAULTS_FOUND)


def vacuum(path: str, keep: int, older_than: float) -> None:
    """Remove old versions, and files that no remaining version names."""
    from unshuffle.explain.phrases.numbers import counted, size
    from unshuffle.sstream import storage_of
    from unshuffle.sstream.vacuum import vacuum

    removed = vacuum(storage_of(path), path, keep, older_than)
    for version in removed.versions:
        out().print(f"removed version {version}")
    for name in removed.files:
        out().print(f"removed {escape(name)}")
    counts = f"{counted(len(removed.versions), 'version')}, {counted(len(removed.files), 'file')}"
    err().print(f"[dim]{counts}, {size(removed.bytes)}[/dim]")


# --- what is printed


def _headline(path: str, stream: Stream) -> str:
    from unshuffle.explain.phrases.numbers import counted, size

    manifest = stream.manifest
    partitions = counted(len(manifest.partitions), "partition")
    summary = f"version {stream.version}, {manifest.rows:,} rows, {size(manifest.bytes)}, {partitions}"
    return f"[bold]{escape(path)}[/bold]  [dim]{summary}[/dim]"


def _layout_lines(manifest: Manifest) -> list[tuple[str, str]]:
    from unshuffle.properties import HashFunction

    kind = "hash" if isinstance(manifest.function, HashFunction) else "range"
    lines = [
        ("clustered by", f"{', '.join(map(str, manifest.clustered_by))}  ({kind})"),
        ("sorted by   ", ", ".join(map(str, manifest.sorted_by))),
    ]
    lines += [("declared    ", str(each)) for each in manifest.declarations]
    if manifest.reference is not None:
        lines.append(("like        ", f"{manifest.reference.path}, version {manifest.reference.version}"))
    return lines


def _partition_table(manifest: Manifest) -> Table:
    from unshuffle.explain.phrases.numbers import size

    table = new_table("partition", "rows", "size", "files", "row groups", "range")
    for number, partition in enumerate(manifest.partitions[:SHOWN_PARTITIONS]):
        groups = sum(len(file.groups) for file in partition.files)
        cells = (f"{partition.rows:,}", size(partition.bytes), str(len(partition.files)), str(groups))
        table.add_row(str(number), *cells, escape(_range_text(manifest, number)))
    return table


def _range_text(manifest: Manifest, number: int) -> str:
    from unshuffle.properties import HashFunction
    from unshuffle.sstream import ranges_of

    if isinstance(manifest.function, HashFunction):
        return ""
    return str(ranges_of(manifest.function).interval(number))


# --- what is typed


def _column_names(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _parse_dependency(text: str) -> tuple[list[str], list[str]]:
    left, arrow, right = text.partition("->")
    if not arrow or not _column_names([left]) or not _column_names([right]):
        raise UserError(f"--depends {text!r} is not of the form a,b -> c")
    return _column_names([left]), _column_names([right])
