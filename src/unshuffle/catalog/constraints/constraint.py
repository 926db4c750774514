"""The constraints that a user can declare on a rowset. Columns are named as the rowset names them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from unshuffle.frozen import dataclass

if TYPE_CHECKING:
    from unshuffle.plan.expressions import Expression

_PARTS_SHOWN = 3


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


@dataclass(frozen=True, slots=True)
class PartCondition:
    """A condition that is true for all rows in the file at a path, or in the files below it. The path is absolute. The text
    is that of the expression, which a stored condition does not have."""

    path: str
    text: str
    expression: Expression | None = field(default=None, compare=False, repr=False)

    def covers(self, path: str) -> bool:
        """Whether the file at an absolute path is in the part."""
        return path == self.path or path.startswith(self.path + "/")

    def __str__(self) -> str:
        return f'"{self.path}" WHERE {self.text}'


@dataclass(frozen=True, slots=True)
class DeclaredPartitions:
    """Conditions on parts of a table. `columns` are those that the conditions read."""

    parts: tuple[PartCondition, ...]
    columns: tuple[str, ...]

    def __str__(self) -> str:
        more = f", and {len(self.parts) - _PARTS_SHOWN} more" if len(self.parts) > _PARTS_SHOWN else ""
        return f"PARTITIONED BY ({', '.join(map(str, self.parts[:_PARTS_SHOWN]))}{more})"


Constraint = DeclaredKey | DeclaredDependency
AnyConstraint = Constraint | DeclaredPartitions


def canonical(constraint: AnyConstraint) -> AnyConstraint:
    """Constraints with the same meaning have the same canonical form."""
    match constraint:
        case DeclaredKey(columns):
            return DeclaredKey(tuple(sorted(columns)))
        case DeclaredDependency(determinant, dependent):
            return DeclaredDependency(tuple(sorted(determinant)), tuple(sorted(set(dependent) - set(determinant))))
        case DeclaredPartitions(parts, columns):
            return DeclaredPartitions(tuple(sorted(parts, key=str)), tuple(sorted(columns)))
