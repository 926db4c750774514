"""Checks a declared constraint on the data, unless a stored result says that it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.catalog.constraints.check_results import CheckResult, CheckResults, check_results_path, common_root
from unshuffle.catalog.constraints.constraint import DeclaredPartitions, canonical
from unshuffle.catalog.constraints.counterexamples import Counterexamples, find_counterexamples
from unshuffle.catalog.files import DataFile
from unshuffle.catalog.parquet_values import OnlySparkReads, read_batches
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.file_fingerprints import fingerprints
from unshuffle.declarations.declared_constraint import DeclaredConstraint
from unshuffle.declarations.stored_columns import reading, stored_columns
from unshuffle.errors import DeclarationProblem, FileProblem, InternalError
from unshuffle.plan.logical import Format, Project, Scan, TableScan

CheckProgress = Callable[[str, str, int, int], None]  # the rowset, the constraint, rows read so far, rows in all


class ConstraintCounter(Protocol):
    """Checks constraints on rows that only Spark can read."""

    def counterexamples(self, declared: DeclaredConstraint) -> Counterexamples | None:
        """Rows that contradict a constraint."""

    def source(self, table: TableScan) -> tuple[str, tuple[str, ...]] | None:
        """The definition and the files of a table or view that reads whole files; None for any other."""


class ConstraintChecker:
    """Checks constraints and remembers those that hold."""

    def __init__(
        self,
        catalog: str | Path | None = None,
        counter: Callable[[], ConstraintCounter] | None = None,
        on_progress: CheckProgress | None = None,
    ) -> None:
        self._catalog = catalog
        self._counter = counter
        self._on_progress = on_progress
        self._results: dict[str, CheckResults] = {}

    def check(self, declared: DeclaredConstraint) -> None:
        """Raises a DeclarationProblem if the data contradicts the constraint."""
        match declared.rowset:
            case TableScan() as table:
                self._check_table(declared, table)
            case Scan() as scan:
                self._check_files(declared, scan)
            case Project(child=Scan() as scan):
                self._check_files(declared, scan)
            case _:
                raise InternalError(f"{declared.constraint} is declared on an operator, not on files")

    def _check_files(self, declared: DeclaredConstraint, scan: Scan) -> None:
        source = scan.files
        listed = _files_to_read(declared, scan)
        how_read = reading(declared, scan)
        root = common_root(source.paths, source.base)
        results = self._results_for(root)
        constraint = canonical(declared.constraint)
        if results.holds(constraint, how_read, listed):
            return
        counterexamples = self._counterexamples_in_files(declared, scan, listed)
        if counterexamples is not None:
            raise _contradicted(declared, counterexamples, source.paths)
        if _files_to_read(declared, scan) != listed:
            raise FileProblem(
                f"the files of {declared.label!r} changed while {declared.constraint} was checked",
                declared.span,
                "try again",
            )
        # The code of a user's extractor can change without any change to the data, so its results are not stored.
        results.add(
            CheckResult(constraint, how_read, fingerprints(listed, root)), store=isinstance(source.format, Format)
        )

    def _counterexamples_in_files(
        self, declared: DeclaredConstraint, scan: Scan, listed: Sequence[DataFile]
    ) -> Counterexamples | None:
        if isinstance(declared.constraint, DeclaredPartitions):
            return self._spark_counter(declared).counterexamples(declared)  # only Spark evaluates expressions
        columns = stored_columns(declared)
        if columns is not None:
            try:
                return self._counterexamples_by_arrow(declared, scan, listed, columns)
            except (OnlySparkReads, pa.ArrowNotImplementedError):
                pass  # e.g. a compression that Arrow does not support
            except (OSError, pa.ArrowException) as error:
                first = (str(error).splitlines() or [type(error).__name__])[0]
                raise FileProblem(f"{scan.files.paths[0]!r} cannot be read: {first}", declared.span) from None
        return self._spark_counter(declared).counterexamples(declared)

    def _counterexamples_by_arrow(
        self, declared: DeclaredConstraint, scan: Scan, listed: Sequence[DataFile], stored: dict[str, Column]
    ) -> Counterexamples | None:
        total = scan.files.rows or 0
        partition = [name for name, _ in listed[0].partition] if listed else []
        constraint = declared.constraint
        assert not isinstance(constraint, DeclaredPartitions)
        columns = [(stored[name].name, stored[name].type) for name in constraint.columns]
        done = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal done
            for file in listed:
                for batch in read_batches(file, partition, columns):
                    yield batch
                    done += batch.num_rows
                    self._report(declared, min(done, total), total)

        try:
            return find_counterexamples(constraint, rows, total)
        finally:
            self._report(declared, total, total)

    def _report(self, declared: DeclaredConstraint, done: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(declared.label, str(declared.constraint), done, total)

    def _check_table(self, declared: DeclaredConstraint, table: TableScan) -> None:
        counter = self._spark_counter(declared)
        source = counter.source(table)
        if source is None:
            raise DeclarationProblem(
                f"{declared.constraint} of {declared.label!r} cannot be relied on: the table does not read whole files, "
                "so later changes to its rows could not be detected",
                declared.span,
                "declare it on a table or view of whole files, or pass check='trust' at your own risk",
            )
        definition, paths = source
        listed = _listed(paths)
        root = ".".join(table.name).lower()
        results = self._results_for(root, stored=False)
        constraint = canonical(declared.constraint)
        if listed is not None and results.holds(constraint, definition, listed):
            return
        counterexamples = counter.counterexamples(declared)
        if counterexamples is not None:
            raise _contradicted(declared, counterexamples, ())
        if listed is not None and _listed(paths) == listed:
            results.add(CheckResult(constraint, definition, fingerprints(listed, root)), store=False)

    def _spark_counter(self, declared: DeclaredConstraint) -> ConstraintCounter:
        if self._counter is None:
            raise DeclarationProblem(
                f"{declared.constraint} of {declared.label!r} can only be checked with Spark", declared.span
            )
        return self._counter()

    def _results_for(self, root: str, stored: bool = True) -> CheckResults:
        if root not in self._results:
            new = CheckResults(root, check_results_path(root, self._catalog) if stored else None)
            self._results.setdefault(root, new)  # another thread may have been faster
        return self._results[root]


def _files_to_read(declared: DeclaredConstraint, scan: Scan) -> list[DataFile]:
    """The files whose rows the constraint is about."""
    listed = files.data_files(scan.files.paths, scan.files.base)
    if not isinstance(declared.constraint, DeclaredPartitions):
        return listed
    paths = [files.absolute(file.path) for file in listed]
    parts = declared.constraint.parts
    return [file for file, path in zip(listed, paths, strict=True) if any(part.covers(path) for part in parts)]


def _listed(paths: Sequence[str]) -> list[DataFile] | None:
    """The files of a table; None if a change to them could not be detected."""
    try:
        listed = files.data_files([files.absolute(path) for path in paths])
    except (OSError, pa.ArrowException):
        return None
    return listed if all(file.modified is not None for file in listed) else None


def _contradicted(
    declared: DeclaredConstraint, counterexamples: Counterexamples, paths: Sequence[str]
) -> DeclarationProblem:
    what = "PARTITIONED BY" if isinstance(declared.constraint, DeclaredPartitions) else str(declared.constraint)
    where = f" in {paths[0]!r}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "") if paths else ""
    return DeclarationProblem(
        f"{what} of {declared.label!r} does not hold{where}: {counterexamples}",
        declared.span,
        "fix the data or remove the declaration: a plan that relies on it would return wrong rows",
    )
