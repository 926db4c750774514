"""Declared keys and dependencies, believed only after they were checked on the data.

A fact that is not true makes a wrong answer, not a slow one. So what a script or a caller declares is checked before any
plan relies on it, in the cheapest way there is:

1. It follows from facts that `analyze` found in these very files.
2. It was checked before, and the files have not changed since (`catalog/stored_checks.py`).
3. pyarrow counts the rows of Parquet files (`catalog/declared.py`).
4. Spark counts the rows of everything else: other formats, a user's extractor, tables and views of the session.

What is checked is what was declared, of the rowset as its EXTRACT yields it: rules that later take columns away find only
facts that hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import pyarrow as pa

from unshuffle.algebra.expressions import Cast, Ref
from unshuffle.algebra.facts import facts_of_tree
from unshuffle.algebra.logical import Declared, Format, Project, Scan, TableScan
from unshuffle.catalog import files, values
from unshuffle.catalog.declared import Broken, Declaration, DeclaredDependency, DeclaredKey, counted, supported
from unshuffle.catalog.files import DataFile
from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.catalog.stored_checks import Check, Checks, checks_place, root_of
from unshuffle.catalog.stored_statistics import marks
from unshuffle.catalog.types import spark_name
from unshuffle.errors import DeclarationProblem, FileProblem, InternalError, NameProblem, Span, did_you_mean

How = Literal["data", "trust"]
Rowset = Scan | Project | TableScan  # a Project casts the columns of a Scan
Leaf = TypeVar("Leaf", Scan, TableScan)
Step = Callable[[str, str, int, int], None]  # the rowset, what is checked, how many rows are done, of how many


@dataclass(frozen=True, slots=True)
class Claim:
    """A declaration about a rowset, which holds nothing yet that rests on it."""

    label: str
    rowset: Rowset
    declaration: Declaration  # by the names of the rowset's columns
    span: Span | None = None


class Counting(Protocol):
    """What is asked of Spark."""

    def broken(self, claim: Claim) -> Broken | None:
        """Rows that contradict a claim."""

    def source(self, table: TableScan) -> tuple[str, tuple[str, ...]] | None:
        """What a table or view reads, if that is files as they are: its definition and the files."""


@dataclass(frozen=True, slots=True)
class _OfTable:
    """A declaration that was made of a table, for all queries that read it."""

    label: str
    paths: tuple[str, ...]  # of files; of a table that only Spark knows, none
    name: tuple[str, ...]
    declaration: Declaration
    trusted: bool


class Declarations:
    """The declarations of a session, and the checks that it made."""

    def __init__(
        self,
        catalog: str | Path | None = None,
        spark: Callable[[], Counting] | None = None,
        step: Step | None = None,
    ) -> None:
        self._catalog = catalog
        self._spark = spark
        self._step = step
        self._of_tables: list[_OfTable] = []
        self._checks: dict[str, Checks] = {}

    def declare(self, label: str, rowset: Scan | TableScan, declaration: Declaration, how: How) -> None:
        """Notes a declaration of a table for all queries to come, if it holds."""
        if how not in ("data", "trust"):
            raise DeclarationProblem(f"check={how!r} is neither 'data' nor 'trust'")
        declaration = _resolved(label, declaration, rowset.columns)
        paths, name = ((), rowset.name) if isinstance(rowset, TableScan) else (_paths(rowset), ())
        if how == "data":
            self.check(Claim(label, rowset, declaration))
        made = _OfTable(label, paths, name, declaration, how == "trust")
        self._of_tables = [*(each for each in self._of_tables if replace(each, trusted=made.trusted) != made), made]

    def applied(self, rowset: Leaf) -> tuple[Leaf, list[Declared]]:
        """A table with what was declared of it, or of a folder that its files are in; and what that is."""
        names = {column.name for column in rowset.columns}
        # A part of the files may lack a column that comes from a folder's name.
        fitting = [e for e in self._of_tables if _is_of(e, rowset) and names.issuperset(e.declaration.columns)]
        for each in fitting:
            if not each.trusted:
                self.check(Claim(each.label, rowset, each.declaration))
        declared = [Declared(each.label, str(each.declaration), not each.trusted) for each in fitting]
        return with_facts(rowset, (each.declaration for each in fitting)), declared

    def names(self, table: Sequence[str]) -> bool:
        """Was anything declared of a table by this name, rather than of files?"""
        return any(_is_named(each, table) for each in self._of_tables)

    # --- checks

    def check_all(self, claims: Sequence[Claim]) -> None:
        """Each claim beside those before it about the same rowset: with KEY (a), nothing need be counted for a -> b."""
        for place, claim in enumerate(claims):
            rowset = claim.rowset
            if isinstance(rowset, Scan):
                before = [each.declaration for each in claims[:place] if each.rowset is rowset]
                rowset = with_facts(rowset, before)
            self.check(replace(claim, rowset=rowset))

    def check(self, claim: Claim) -> None:
        """Raises what the user should know if the data contradicts a claim."""
        if _follows(replace(claim, rowset=self._without_trusted(claim.rowset))):
            return
        match claim.rowset:
            case TableScan():
                self._check_table(claim)
            case Scan() as scan:
                self._check_files(claim, scan)
            case Project(child=Scan() as scan):
                self._check_files(claim, scan)
            case _:
                raise InternalError(f"{claim.declaration} is of an operator, not of files")

    def _without_trusted(self, rowset: Rowset) -> Rowset:
        """What nobody checked is no reason to believe anything else."""
        if isinstance(rowset, Project):
            scan = rowset.child
            return replace(rowset, child=self._without_trusted(scan)) if isinstance(scan, Scan) else rowset
        trusted = [each.declaration for each in self._of_tables if each.trusted and _is_of(each, rowset)]
        keys = {frozenset(each.columns) for each in trusted if isinstance(each, DeclaredKey)}
        pairs = [each for each in trusted if isinstance(each, DeclaredDependency)]

        def unseen(known: Dependency) -> bool:
            left, right = ({column.name for column in side} for side in (known.determinant, known.dependent))
            return any(left == set(each.determinant) and right <= set(each.dependent) for each in pairs)

        return replace(
            rowset,
            keys=tuple(key for key in rowset.keys if frozenset(column.name for column in key) not in keys),
            dependencies=tuple(known for known in rowset.dependencies if not unseen(known)),
        )

    def _check_files(self, claim: Claim, scan: Scan) -> None:
        source = scan.files
        found = files.data_files(source.paths, source.base)
        reading = _reading(claim, scan)
        root = root_of(source.paths, source.base)
        checks = self._checks_of(root)
        plain = _in_order(claim.declaration)
        if checks.holds(plain, reading, found):
            return
        broken = self._counted(claim, scan, found)
        if broken is not None:
            raise _contradicted(claim, broken, source.paths)
        again = files.data_files(source.paths, source.base)
        if again != found:
            raise FileProblem(
                f"the files of {claim.label!r} were changed while {claim.declaration} was checked",
                claim.span,
                "try again",
            )
        # The code of a user's extractor may change, which no file of the data tells.
        checks.add(Check(plain, reading, marks(found, root)), store=isinstance(source.format, Format))

    def _counted(self, claim: Claim, scan: Scan, found: Sequence[DataFile]) -> Broken | None:
        stored = _stored_columns(claim)
        if stored is not None:
            try:
                return self._counted_here(claim, scan, found, stored)
            except (values.OnlySparkReads, pa.ArrowNotImplementedError):
                pass  # Spark may know a compression that Arrow does not
            except (OSError, pa.ArrowException) as error:
                first = (str(error).splitlines() or [type(error).__name__])[0]
                raise FileProblem(f"{scan.files.paths[0]!r} cannot be read: {first}", claim.span) from None
        return self._counting(claim).broken(claim)

    def _counted_here(
        self, claim: Claim, scan: Scan, found: Sequence[DataFile], stored: dict[str, Column]
    ) -> Broken | None:
        expected = scan.files.rows or 0
        partition = [name for name, _ in found[0].partition] if found else []
        columns = [(stored[name].name, stored[name].type) for name in claim.declaration.columns]
        done = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal done
            for file in found:
                for batch in values.batches(file, partition, columns):
                    yield batch
                    done += batch.num_rows
                    if self._step is not None:
                        self._step(claim.label, str(claim.declaration), min(done, expected), expected)

        try:
            return counted(claim.declaration, rows, expected)
        finally:
            if self._step is not None:
                self._step(claim.label, str(claim.declaration), expected, expected)

    def _check_table(self, claim: Claim) -> None:
        table = claim.rowset
        assert isinstance(table, TableScan)
        counting = self._counting(claim)
        source = counting.source(table)
        if source is None:
            raise DeclarationProblem(
                f"{claim.declaration} of {claim.label!r} cannot be relied on: its rows are not those of files, "
                "so a change of them would go unseen",
                claim.span,
                "declare it of a table or a view of whole files, or say check='trust' at your own risk",
            )
        definition, paths = source
        found = _marked(paths)
        root = ".".join(table.name).lower()
        checks = self._checks_of(root, stored=False)
        plain = _in_order(claim.declaration)
        if found is not None and checks.holds(plain, definition, found):
            return
        broken = counting.broken(claim)
        if broken is not None:
            raise _contradicted(claim, broken, ())
        if found is not None and _marked(paths) == found:
            checks.add(Check(plain, definition, marks(found, root)), store=False)

    def _counting(self, claim: Claim) -> Counting:
        if self._spark is None:
            raise DeclarationProblem(
                f"{claim.declaration} of {claim.label!r} can only be checked with Spark", claim.span
            )
        return self._spark()

    def _checks_of(self, root: str, stored: bool = True) -> Checks:
        if root not in self._checks:
            self._checks[root] = Checks(root, checks_place(root, self._catalog) if stored else None)
        return self._checks[root]


def with_facts(rowset: Leaf, declared: Iterable[Declaration]) -> Leaf:
    """A rowset with declarations beside the facts that were found in its data."""
    keys: list[Key] = []
    dependencies: list[Dependency] = []
    for declaration in declared:
        match declaration:
            case DeclaredKey(columns):
                keys.append(_set(rowset, columns))
            case DeclaredDependency(determinant, dependent):
                dependencies.append(Dependency(_set(rowset, determinant), _set(rowset, dependent)))
    if not keys and not dependencies:
        return rowset
    return replace(
        rowset,
        keys=tuple(dict.fromkeys((*keys, *rowset.keys))),
        dependencies=tuple(dict.fromkeys((*dependencies, *rowset.dependencies))),
    )


def _set(rowset: Rowset, names: Iterable[str]) -> frozenset[Column]:
    named = {column.name: column for column in rowset.columns}
    return frozenset(named[name] for name in names)


def _follows(claim: Claim) -> bool:
    """Is it true whatever the rows, or by facts that were found in them?"""
    facts = facts_of_tree(claim.rowset)
    match claim.declaration:
        case DeclaredKey(columns):
            return facts.unique(_set(claim.rowset, columns))
        case DeclaredDependency(determinant, dependent):
            return facts.determines(_set(claim.rowset, determinant), _set(claim.rowset, dependent))


def _resolved(label: str, declaration: Declaration, columns: Sequence[Column]) -> Declaration:
    """A declaration by the names that the columns have, which compare without case."""
    known = {column.name.lower(): column.name for column in columns}

    def named(names: Sequence[str], what: str) -> tuple[str, ...]:
        if not names:
            raise DeclarationProblem(f"{what} of {label!r} names no column")
        for name in names:
            if not isinstance(name, str) or name.lower() not in known:
                hint = did_you_mean(str(name), known.values()) or f"there are: {', '.join(known.values())}"
                raise NameProblem(f"{label!r} has no column {name!r}", hint=hint)
        return tuple(dict.fromkeys(known[name.lower()] for name in names))

    match declaration:
        case DeclaredKey(names):
            return DeclaredKey(named(names, "a key"))
        case DeclaredDependency(determinant, dependent):
            what = "a dependency"
            return DeclaredDependency(named(determinant, what), named(dependent, what))


def _in_order(declaration: Declaration) -> Declaration:
    """The one form of declarations that say the same."""
    match declaration:
        case DeclaredKey(columns):
            return DeclaredKey(tuple(sorted(columns)))
        case DeclaredDependency(determinant, dependent):
            return DeclaredDependency(tuple(sorted(determinant)), tuple(sorted(set(dependent) - set(determinant))))


def _paths(scan: Scan) -> tuple[str, ...]:
    """What a declaration is of: a stream in all its versions, or files."""
    return scan.files.paths if scan.stream is None else (scan.stream.path,)


def _is_of(declared: _OfTable, rowset: Scan | TableScan) -> bool:
    """Does a rowset read the table of a declaration, or a part of its files?"""
    if isinstance(rowset, TableScan):
        return _is_named(declared, rowset.name)
    whole = [files.absolute(path) for path in declared.paths]
    read = [files.absolute(path) for path in _paths(rowset)]
    return all(any(path == above or path.startswith(above + "/") for above in whole) for path in read)


def _is_named(declared: _OfTable, name: Sequence[str]) -> bool:
    return [part.lower() for part in declared.name] == [part.lower() for part in name]


def _marked(paths: Sequence[str]) -> list[DataFile] | None:
    """The files of a table; None where a change of them could not be told."""
    try:
        found = files.data_files([files.absolute(path) for path in paths])
    except (OSError, pa.ArrowException):
        return None
    return found if all(file.modified is not None for file in found) else None


# --- how values are read


def _stored_columns(claim: Claim) -> dict[str, Column] | None:
    """The files' columns that hold the values a claim speaks of; None where only Spark can read these values."""
    scan = claim.rowset.child if isinstance(claim.rowset, Project) else claim.rowset
    assert isinstance(scan, Scan)
    if not isinstance(scan.files.format, Format) or scan.files.format.name != "Parquet":
        return None
    outputs = claim.rowset.outputs if isinstance(claim.rowset, Project) else [(c, Ref(c)) for c in scan.columns]
    stored: dict[str, Column] = {}
    for column, expression in outputs:
        match expression:
            case Ref(column=source):
                stored[column.name] = source
            case Cast(operand=Ref(column=source), type=type) if _keeps_apart(source.type, type):
                stored[column.name] = source
    chosen = {name: stored[name] for name in claim.declaration.columns if name in stored}
    readable = len(chosen) == len(claim.declaration.columns) and all(supported(c.type) for c in chosen.values())
    return chosen if readable else None


def _keeps_apart(type: pa.DataType | None, into: pa.DataType) -> bool:
    """Are values of a type equal after this cast only if they were before?"""
    if type is None or not pa.types.is_integer(type):
        return bool(type == pa.float32() and into == pa.float64())
    return bool(pa.types.is_string(into) or (pa.types.is_integer(into) and into.bit_width >= type.bit_width))


def _reading(claim: Claim, scan: Scan) -> str:
    """How the bytes become the values: a column of Parquet stands for itself, one of another format is read with all."""
    parquet = isinstance(scan.files.format, Format) and scan.files.format.name == "Parquet"
    wanted = claim.declaration.columns
    read = (
        sorted((c for c in claim.rowset.columns if c.name in wanted), key=lambda c: c.name) if parquet else scan.columns
    )
    cast = f", from {_typed(scan.columns)}" if isinstance(claim.rowset, Project) else ""
    return f"{scan.files.format if not parquet else 'Parquet'}: {_typed(read)}{cast}"


def _typed(columns: Iterable[Column]) -> str:
    return ", ".join(f"{c.name} {spark_name(c.type) if c.type is not None else 'unknown'}" for c in columns)


def _contradicted(claim: Claim, broken: Broken, paths: Sequence[str]) -> DeclarationProblem:
    where = f" in {paths[0]!r}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "") if paths else ""
    return DeclarationProblem(
        f"{claim.declaration} of {claim.label!r} does not hold{where}: {broken}",
        claim.span,
        "mend the data, or take the declaration away: a plan that relies on it would give wrong rows",
    )
