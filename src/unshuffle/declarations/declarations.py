"""The constraints that a session's user declared on tables and files, and their place in the walk of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Literal

from unshuffle.catalog import files
from unshuffle.catalog.constraints.constraint import AnyConstraint, DeclaredDependency, DeclaredKey, DeclaredPartitions
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.declarations.checking import CheckProgress, ConstraintChecker, ConstraintCounter
from unshuffle.declarations.declared_constraint import BoundScript, DeclaredConstraint, Leaf, Rowset, with_facts
from unshuffle.errors import DeclarationProblem, NameProblem, did_you_mean
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import columns_of
from unshuffle.plan.logical import Declared, Project, Scan, Script, TableScan

CheckMode = Literal["data", "trust"]


@dataclass(frozen=True, slots=True)
class _TableConstraint:
    """A constraint on a table, for all queries that read the table."""

    label: str
    paths: tuple[str, ...]  # of the table's files; empty for a table that only Spark knows
    name: tuple[str, ...]
    constraint: AnyConstraint
    is_trusted: bool

    def applies_to(self, rowset: Scan | TableScan) -> bool:
        """Whether a rowset reads the table, or some of its files."""
        if isinstance(rowset, TableScan):
            return self.is_on_table(rowset.name)
        folders = [files.absolute(path) for path in self.paths]
        read = [files.absolute(path) for path in _paths(rowset)]
        return all(any(path == folder or path.startswith(folder + "/") for folder in folders) for path in read)

    def suits(self, rowset: Scan | TableScan) -> bool:
        """Whether the rowset has the columns of the constraint. Conditions on parts also need parts, and the same types."""
        types = {column.name: column.type for column in rowset.columns}
        if not types.keys() >= set(self.constraint.columns):
            return False  # some of a table's files may lack a column that comes from a folder's name
        if not isinstance(self.constraint, DeclaredPartitions):
            return True
        bounds = rowset.bounds if isinstance(rowset, Scan) and has_parts(rowset) else None
        read = {c for part in self.constraint.parts if part.expression for c in columns_of(part.expression)}
        return (
            bounds is not None
            and all(types[column.name] == column.type for column in read)
            and any(map(bounds.has_files_of, self.constraint.parts))
        )

    def replaces(self, other: _TableConstraint) -> bool:
        """Whether the other constraint is the same, or conditions on the parts of the same table."""
        if isinstance(self.constraint, DeclaredPartitions) and isinstance(other.constraint, DeclaredPartitions):
            one, two = (set(map(files.absolute, each.paths)) for each in (self, other))
            return one == two
        return replace(other, is_trusted=self.is_trusted) == self

    def is_on_table(self, name: Sequence[str]) -> bool:
        return [part.lower() for part in self.name] == [part.lower() for part in name]


class Declarations:
    """The constraints that a session's user declared on tables. Binders attach them; `check` checks them."""

    def __init__(
        self,
        catalog: str | Path | None = None,
        counter: Callable[[], ConstraintCounter] | None = None,
        on_progress: CheckProgress | None = None,
    ) -> None:
        self._checker = ConstraintChecker(catalog, counter, on_progress)
        self._on_tables: list[_TableConstraint] = []  # replaced, never changed: queries of other threads read it
        self._lock = Lock()

    def declare(self, label: str, rowset: Scan | TableScan, constraint: AnyConstraint, mode: CheckMode) -> None:
        """Adds a constraint on a table for all later queries, after checking it."""
        if mode not in ("data", "trust"):
            raise DeclarationProblem(f"check={mode!r} is neither 'data' nor 'trust'")
        constraint = _resolved(label, constraint, rowset.columns)
        paths, name = ((), rowset.name) if isinstance(rowset, TableScan) else (_paths(rowset), ())
        if mode == "data":
            self._check(DeclaredConstraint(label, rowset, constraint))
        new = _TableConstraint(label, paths, name, constraint, mode == "trust")
        with self._lock:
            replaced = [new.replaces(each) for each in self._on_tables]
            # Declared again, it keeps its place: what `explain` lists does not depend on it.
            at = replaced.index(True) if True in replaced else len(replaced)
            self._on_tables = [*self._on_tables[:at], new, *self._on_tables[at + 1 :]]

    def attach(self, rowset: Leaf) -> tuple[Leaf, list[DeclaredConstraint]]:
        """The rowset with the facts declared on its table, or on a folder that contains its files; and the constraints
        that these facts rest on. Nothing is checked yet."""
        matching = [each for each in self._on_tables if each.applies_to(rowset) and each.suits(rowset)]
        constraints = [
            DeclaredConstraint(each.label, rowset, each.constraint, is_trusted=each.is_trusted) for each in matching
        ]
        return with_facts(rowset, (each.constraint for each in matching)), constraints

    @property
    def is_empty(self) -> bool:
        """Whether nothing was declared."""
        return not self._on_tables

    def is_declared_on(self, table: Sequence[str]) -> bool:
        """Whether a constraint was declared on a table of this name, rather than on files."""
        return any(each.is_on_table(table) for each in self._on_tables)

    def check(self, bound: BoundScript) -> Script:
        """The script, with a note on each of its constraints. Raises a DeclarationProblem if the data contradicts one."""
        constraints = bound.constraints
        for index, each in enumerate(constraints):
            if not each.is_trusted:
                self._check(_after(constraints[:index], each))
        notes = (Declared(each.label, str(each.constraint), not each.is_trusted) for each in constraints)
        return replace(bound.script, declared=tuple(dict.fromkeys(notes)))

    def _check(self, declared: DeclaredConstraint) -> None:
        if not replace(declared, rowset=self._without_trusted(declared.rowset)).follows_from_facts:
            self._checker.check(declared)

    def _without_trusted(self, rowset: Rowset) -> Rowset:
        """The rowset without trusted facts. Nobody checked these, so no other constraint may be derived from them."""
        if isinstance(rowset, Project):
            scan = rowset.child
            return replace(rowset, child=self._without_trusted(scan)) if isinstance(scan, Scan) else rowset
        trusted = [each.constraint for each in self._on_tables if each.is_trusted and each.applies_to(rowset)]
        keys = {frozenset(each.columns) for each in trusted if isinstance(each, DeclaredKey)}
        dependencies = [each for each in trusted if isinstance(each, DeclaredDependency)]

        def is_trusted(fact: Dependency) -> bool:
            left, right = ({column.name for column in side} for side in (fact.determinant, fact.dependent))
            return any(left == set(each.determinant) and right <= set(each.dependent) for each in dependencies)

        return replace(
            rowset,
            keys=tuple(key for key in rowset.keys if frozenset(column.name for column in key) not in keys),
            dependencies=tuple(fact for fact in rowset.dependencies if not is_trusted(fact)),
        )


def _after(earlier: Iterable[DeclaredConstraint], declared: DeclaredConstraint) -> DeclaredConstraint:
    """The constraint on a rowset with the facts that were checked before it: after KEY (a), a -> b needs no check."""
    rowset = declared.rowset
    if not isinstance(rowset, Scan):
        return declared
    checked = [each.constraint for each in earlier if each.rowset is rowset and not each.is_trusted]
    return replace(declared, rowset=with_facts(rowset, checked))


def _resolved(label: str, constraint: AnyConstraint, columns: Sequence[Column]) -> AnyConstraint:
    """The constraint in the spelling of the table's columns. Column names compare without case."""
    spelling = {column.name.lower(): column.name for column in columns}

    def resolved(names: Sequence[str], kind: str) -> tuple[str, ...]:
        if not names:
            raise DeclarationProblem(f"{kind} of {label!r} names no column")
        for name in names:
            if not isinstance(name, str) or name.lower() not in spelling:
                hint = did_you_mean(str(name), spelling.values()) or f"there are: {', '.join(spelling.values())}"
                raise NameProblem(f"{label!r} has no column {name!r}", hint=hint)
        return tuple(dict.fromkeys(spelling[name.lower()] for name in names))

    match constraint:
        case DeclaredKey(names):
            return DeclaredKey(resolved(names, "a key"))
        case DeclaredDependency(determinant, dependent):
            kind = "a dependency"
            return DeclaredDependency(resolved(determinant, kind), resolved(dependent, kind))
        case DeclaredPartitions():
            return constraint  # its expressions have the table's own columns


def has_parts(scan: Scan) -> bool:
    """Whether files and folders of a scan are parts that a condition can be declared on, and checked on by themselves."""
    return scan.bounds is not None and (scan.files.base is not None or not scan.bounds.folder_columns)


def _paths(scan: Scan) -> tuple[str, ...]:
    """The paths that a constraint on a scan's table is stored under. A stream has one path for all its versions."""
    return scan.files.paths if scan.stream is None else (scan.stream.path,)
