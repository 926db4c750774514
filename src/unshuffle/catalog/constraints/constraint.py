"""The constraints that a user can declare on a rowset. Columns are named as the rowset names them."""

from __future__ import annotations

from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """No two rows agree on these columns."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"KEY ({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class DeclaredDependency:
    """Rows that agree on the columns `determinant` agree on the columns `dependent`."""

    determinant: tuple[str, ...]
    dependent: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.determinant, *self.dependent)))

    def __str__(self) -> str:
        return f"DEPENDS ({', '.join(self.determinant)} -> {', '.join(self.dependent)})"


Constraint = DeclaredKey | DeclaredDependency


def canonical(constraint: Constraint) -> Constraint:
    """Constraints with the same meaning have the same canonical form."""
    match constraint:
        case DeclaredKey(columns):
            return DeclaredKey(tuple(sorted(columns)))
        case DeclaredDependency(determinant, dependent):
            return DeclaredDependency(tuple(sorted(determinant)), tuple(sorted(set(dependent) - set(determinant))))
