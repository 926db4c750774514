"""Scans of stored data: Parquet files, tables in `--tables` folders, structured streams.

Only file names, Parquet footers and manifests are read. Footers are read once a script, however often a table is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.catalog.parquet_files import NotParquet, parquet_contents
from unshuffle.catalog.statistics.statistics_lookup import scan_facts
from unshuffle.catalog.statistics.table_look import look_at
from unshuffle.errors import FileProblem, Span, located
from unshuffle.frozen import dataclass
from unshuffle.language.bind.context import BindingContext
from unshuffle.plan.logical import Files, Format, Scan
from unshuffle.plan.part_bounds import with_bounds

if TYPE_CHECKING:
    from unshuffle.declarations import Leaf


_FILE_OF_STREAM = re.compile(r"(.+)/p=\d+/[^/]+")


def _refuse_streams(data_files: Sequence[files.DataFile], span: Span | None) -> None:
    """The folder of a structured stream has the files of old versions too: read as plain files, rows would be there twice."""
    for folder in dict.fromkeys(match[1] for file in data_files if (match := _FILE_OF_STREAM.fullmatch(file.path))):
        if files.exists(f"{folder}/_stream"):
            hint = f'read its newest version: SELECT ... FROM SSTREAM "{folder}"'
            raise FileProblem(f"{folder!r} is a structured stream, not a folder of Parquet files", span, hint)


@dataclass(slots=True)
class StoredData:
    """The stored data that one script reads."""

    context: BindingContext
    scans: dict[str, Scan] = field(default_factory=dict)

    def table(self, name: str, span: Span | None) -> Scan | None:
        """One more use of a table of a `--tables` folder, or None if there is no such table."""
        path = self.context.tables.find(name)
        if path is None:
            return None
        if path.suffix == ".ss":
            return self.stream(str(path), name, span)
        key = name.lower()
        if key not in self.scans:
            self.scans[key] = self.parquet(name, (str(path),), None, span)
        return self._with_new_columns(self.scans[key])

    def stream(self, path: str, label: str, span: Span | None) -> Scan:
        """One more use of a structured stream. All uses read the version that was the newest at the first."""
        from unshuffle.language.bind.statements.sstream import scan_of
        from unshuffle.sstream.store import open_stream

        key = files.absolute(path)
        if key not in self.scans:
            with located(span):
                scan = scan_of(open_stream(path), label, self.context.numbers, span, self.context.catalog)
            self.context.inputs.append(path)
            self.scans[key] = self._with_declared_constraints(scan)
        return self._with_new_columns(self.scans[key])

    def parquet(
        self, name: str, paths: tuple[str, ...], base: str | None, span: Span | None, is_read: bool = True
    ) -> Scan:
        """All columns of Parquet files as they are stored, with their statistics and constraints. Files that are declared and
        not read may be in any folder below the path."""
        # Spark skips empty files, though they are not Parquet.
        found = files.scanned_files(paths, base) if is_read else files.data_files(paths, base)
        data_files = [file for file in found if file.size]
        if not data_files:
            raise FileProblem(f"{', '.join(paths)} holds no files", span)
        _refuse_streams(data_files, span)
        try:
            contents = parquet_contents(data_files)
        except NotParquet as problem:
            hint = "is it another format? use e.g. Csv()"
            raise FileProblem(f"{problem} is not a Parquet file", span, hint) from None
        except (OSError, pa.ArrowException) as problem:
            raise FileProblem(f"{paths[0]!r} cannot be read: {str(problem).splitlines()[0]}", span) from None
        self.context.inputs.extend(paths)
        if base is None and contents.partition_columns and len(paths) == 1:
            base = paths[0]
        columns = tuple(self.context.numbers.new(n, t) for n, t in contents.columns)
        known = scan_facts(columns, paths, base, data_files, contents, self.context.catalog)
        where = Files(
            paths,
            Format("Parquet"),
            base,
            contents.rows,
            contents.bytes,
            stored=contents.columns,
            version=hash(tuple(data_files)),
        )
        look = look_at(data_files, contents)
        scan = Scan(name, where, columns, known.keys, known.dependencies, span, known.statistics, look=look)
        scan = with_bounds(scan, data_files, contents.partition_columns)
        if contents.partition_columns:
            from unshuffle.plan.stored_tables import in_folders, table_files

            scan = in_folders(scan, contents.partition_columns, table_files(data_files, contents)) or scan
        return self._with_declared_constraints(scan)

    def _with_new_columns(self, scan: Scan) -> Scan:
        # Each use of a table is a scan of its own: reading it twice leaves nothing to share.
        return scan.renamed({column: self.context.numbers.like(column) for column in scan.columns})

    def _with_declared_constraints(self, rowset: Leaf) -> Leaf:
        with_facts, constraints = self.context.declarations.attach(rowset)
        self.context.table_constraints += constraints
        return with_facts
