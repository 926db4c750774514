"""A declared constraint on a rowset, and the script that a binder hands over together with its unchecked constraints."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from unshuffle.catalog.constraints.constraint import AnyConstraint, DeclaredDependency, DeclaredKey, DeclaredPartitions
from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.errors import Span
from unshuffle.frozen import dataclass
from unshuffle.plan.facts import facts_of_tree
from unshuffle.plan.logical import Project, Scan, Script, TableScan

Rowset = Scan | Project | TableScan  # a Project casts the columns of a Scan
Leaf = TypeVar("Leaf", Scan, TableScan)


@dataclass(frozen=True, slots=True)
class DeclaredConstraint:
    """A constraint on a rowset. The rowset carries no facts yet that follow from the constraint."""

    label: str
    rowset: Rowset
    constraint: AnyConstraint  # in the names of the rowset's columns
    span: Span | None = None
    is_trusted: bool = False  # the user asked for no check

    @property
    def follows_from_facts(self) -> bool:
        """Whether the constraint holds for any rows, or by the facts that the rowset carries."""
        facts = facts_of_tree(self.rowset)
        match self.constraint:
            case DeclaredKey(columns):
                return facts.unique(_columns_of(self.rowset, columns))
            case DeclaredDependency(determinant, dependent):
                return facts.determines(_columns_of(self.rowset, determinant), _columns_of(self.rowset, dependent))
            case DeclaredPartitions():
                return False


@dataclass(frozen=True, slots=True)
class BoundScript:
    """A script whose scans carry declared facts that nobody has checked. `Declarations.check` checks them, in this order,
    and returns the script for planning. The facts of a constraint may rest on the constraints before it."""

    script: Script
    constraints: tuple[DeclaredConstraint, ...] = ()


def with_facts(rowset: Leaf, constraints: Iterable[AnyConstraint]) -> Leaf:
    """The rowset with the keys, dependencies and bounds of some constraints in addition to its own."""
    keys: list[Key] = []
    dependencies: list[Dependency] = []
    for constraint in constraints:
        match constraint:
            case DeclaredKey(columns):
                keys.append(_columns_of(rowset, columns))
            case DeclaredDependency(determinant, dependent):
                dependencies.append(Dependency(_columns_of(rowset, determinant), _columns_of(rowset, dependent)))
            case DeclaredPartitions(parts) if isinstance(rowset, Scan) and rowset.bounds is not None:
                from unshuffle.plan.declared_buckets import with_declared_buckets  # few declare buckets

                rowset = with_declared_buckets(replace(rowset, bounds=rowset.bounds.narrowed(parts)), parts)
    if not keys and not dependencies:
        return rowset
    return replace(
        rowset,
        keys=tuple(dict.fromkeys((*keys, *rowset.keys))),
        dependencies=tuple(dict.fromkeys((*dependencies, *rowset.dependencies))),
    )


def _columns_of(rowset: Rowset, names: Iterable[str]) -> frozenset[Column]:
    by_name = {column.name: column for column in rowset.columns}
    return frozenset(by_name[name] for name in names)
