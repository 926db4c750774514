"""The columns that a name can refer to at a place in a query.

A scope holds the columns of a FROM clause, each with the alias of its rowset, and the scope of the query around it. Names
compare without case, as in Spark. The search goes outwards. A name found in an outer scope makes the query correlated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from unshuffle.catalog.schema import Column
from unshuffle.errors import NameProblem, Span, did_you_mean
from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Visible:
    """A column in scope: its name, and its qualifier, the alias before the dot. `only_qualified`: a column that USING merged
    with another, which only its qualified name refers to."""

    name: str
    qualifier: str | None
    column: Column
    only_qualified: bool = False


@dataclass(frozen=True, slots=True)
class ColumnMatch:
    """The column that a name refers to."""

    column: Column
    fields: tuple[str, ...]  # the names after the column's: fields of a struct
    outer: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns in scope, and the scope around this one."""

    entries: tuple[Visible, ...] = ()
    parent: Scope | None = None

    def __add__(self, other: Scope) -> Scope:
        return replace(self, entries=self.entries + other.entries)

    @staticmethod
    def of(columns: Iterable[Column], qualifier: str | None, parent: Scope | None = None) -> Scope:
        return Scope(tuple(Visible(c.name, qualifier, c) for c in columns), parent)

    def renamed(self, qualifier: str, names: Sequence[str] | None = None) -> Scope:
        """Under an alias: `(...) AS qualifier (names)`."""
        entries = [entry for entry in self.entries if not entry.only_qualified]
        return Scope(
            tuple(Visible(names[i] if names else e.name, qualifier, e.column) for i, e in enumerate(entries)),
            self.parent,
        )

    def star(self, qualifier: str | None = None) -> list[Visible]:
        if qualifier is None:
            return [entry for entry in self.entries if not entry.only_qualified]
        return [e for e in self.entries if e.qualifier and e.qualifier.lower() == qualifier.lower()]

    def has_qualifier(self, qualifier: str) -> bool:
        return any(e.qualifier and e.qualifier.lower() == qualifier.lower() for e in self.entries)

    def columns(self) -> frozenset[Column]:
        return frozenset(entry.column for entry in self.entries)

    def find(self, parts: Sequence[str], span: Span | None) -> ColumnMatch | None:
        """The column that `a`, `t.a` or `t.a.field` refers to, or None. An ambiguous name is an error."""
        scope: Scope | None = self
        while scope is not None:
            for qualified in (True, False):
                found = scope._matches(parts, qualified)
                distinct = {entry.column for entry in found}
                if len(distinct) > 1:
                    raise _ambiguous(parts, found, span)
                if found:
                    fields = tuple(parts[2:] if qualified else parts[1:])
                    return ColumnMatch(found[0].column, fields, outer=scope is not self)
            scope = scope.parent
        return None

    def _matches(self, parts: Sequence[str], qualified: bool) -> list[Visible]:
        lowered = [part.lower() for part in parts]
        if qualified:
            if len(parts) < 2:
                return []
            return [
                e
                for e in self.entries
                if e.qualifier and e.qualifier.lower() == lowered[0] and e.name.lower() == lowered[1]
            ]
        return [e for e in self.entries if e.name.lower() == lowered[0] and not e.only_qualified]

    def unknown(self, parts: Sequence[str], span: Span | None) -> NameProblem:
        """The error for a name that `find` does not find, with a similar name or the names in scope."""
        name = ".".join(parts)
        everything: list[Visible] = []
        scope: Scope | None = self
        while scope is not None:
            everything.extend(scope.entries)
            scope = scope.parent
        if len(parts) > 1 and any(e.qualifier and e.qualifier.lower() == parts[0].lower() for e in everything):
            near = [
                f"{e.qualifier}.{e.name}" for e in everything if e.qualifier and e.qualifier.lower() == parts[0].lower()
            ]
        else:
            near = [e.name for e in everything]
        available = list(dict.fromkeys(near))
        hint = did_you_mean(name if len(parts) > 1 and "." in "".join(available) else parts[-1], available)
        if hint is None and available:
            shown = ", ".join(available[:12]) + (", ..." if len(available) > 12 else "")
            hint = f"the columns here are: {shown}"
        return NameProblem(f"unknown column {name!r}", span, hint or "there is no FROM clause to take it from")


def _ambiguous(parts: Sequence[str], found: list[Visible], span: Span | None) -> NameProblem:
    choices = sorted({f"{e.qualifier}.{e.name}" if e.qualifier else e.name for e in found})
    hint = f"say which: {' or '.join(choices)}" if len(choices) > 1 else "give the two columns different names"
    return NameProblem(f"the column name {'.'.join(parts)!r} is ambiguous", span, hint)
