"""What all statements of one script share while they are bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.catalog.tables import TableFolders
from unshuffle.declarations import Declarations, DeclaredConstraint
from unshuffle.frozen import dataclass
from unshuffle.language.bind.environment import Environment
from unshuffle.language.bind.user_modules import UserModules
from unshuffle.language.parse.parameters import Parameters
from unshuffle.language.parse.preprocess import Macro
from unshuffle.plan.logical import UserClass


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """What a user's class says of itself: the types of the columns that it makes, by name, and its seconds for a row."""

    produces: Mapping[str, str] = field(default_factory=dict)
    seconds_per_row: float = 0.0


# What a user's class says. Raises if it cannot be loaded or has another role.
CheckClass = Callable[[UserClass, str], ClassFacts]


def unchecked(user_class: UserClass, role: str) -> ClassFacts:
    """For texts whose classes are not to be loaded."""
    return ClassFacts()


@dataclass(slots=True)
class BindingContext:
    parameters: Parameters
    tables: TableFolders
    environment: Environment
    check_class: CheckClass
    declarations: Declarations
    modules: UserModules = field(default_factory=lambda: UserModules(None, ()))
    macros: Mapping[str, Macro] = field(default_factory=dict)
    catalog: str | Path | None = None  # the folder of statistics, if it is not beside the data
    numbers: ColumnNumbers = field(default_factory=ColumnNumbers)
    inputs: list[str] = field(default_factory=list)  # the paths that the script reads
    table_constraints: list[DeclaredConstraint] = field(default_factory=list)  # declared on the session's tables
    extract_constraints: list[DeclaredConstraint] = field(default_factory=list)  # declared by EXTRACT
