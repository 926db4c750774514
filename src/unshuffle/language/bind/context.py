"""What all statements of one script share while they are bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.catalog.tables import TableFolders
from unshuffle.declarations import Declarations, DeclaredConstraint
from unshuffle.frozen import dataclass
from unshuffle.language.bind.environment import Environment
from unshuffle.language.parse.parameters import Parameters
from unshuffle.plan.logical import UserClass

# The seconds that a user's class takes for a row, as far as it says so. Raises if it cannot be loaded or has another role.
CheckClass = Callable[[UserClass, str], float]


@dataclass(slots=True)
class BindingContext:
    parameters: Parameters
    tables: TableFolders
    environment: Environment
    check_class: CheckClass
    declarations: Declarations
    catalog: str | Path | None = None  # the folder of statistics, if it is not beside the data
    numbers: ColumnNumbers = field(default_factory=ColumnNumbers)
    inputs: list[str] = field(default_factory=list)  # the paths that the script reads
    table_constraints: list[DeclaredConstraint] = field(default_factory=list)  # declared on the session's tables
    extract_constraints: list[DeclaredConstraint] = field(default_factory=list)  # declared by EXTRACT
