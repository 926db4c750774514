"""What the binder asks of the world outside the text: tables, functions, and the schema of what only Spark understands.

`NoSpark` answers from nothing; the Spark side answers from a session that it starts only when it must. A script over files
whose every piece we understand never needs one, and so is bound without a JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unshuffle.algebra.logical import Plan, Scan, Script, TableScan
from unshuffle.catalog.schema import ColumnNumbers, DataType
from unshuffle.declared import Declarations
from unshuffle.language.functions import Function

Field = tuple[str, DataType, bool]  # name, type, nullable


class Environment(Protocol):
    def table(self, name: Sequence[str], numbers: ColumnNumbers, declarations: Declarations) -> Script | None:
        """A table or view of the Spark session with what was declared of what it reads, as a script of one output; None
        if there is no such table."""

    def declarable(self, name: Sequence[str], numbers: ColumnNumbers) -> Scan | TableScan | None:
        """What a declaration of such a table is of: the files it reads as they are, else the table by its name."""

    def function(self, name: str) -> Function | None:
        """A function that was registered with us, or None."""

    def has_function(self, name: str) -> bool:
        """Whether the Spark session knows a function of that name that we know nothing of."""

    def describe(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> list[Field]:
        """The columns a query would have over these inputs. Raises a UserError that says why it has none."""


class NoSpark:
    """An environment in which there is no Spark to ask."""

    def table(self, name: Sequence[str], numbers: ColumnNumbers, declarations: Declarations) -> Script | None:
        return None

    def declarable(self, name: Sequence[str], numbers: ColumnNumbers) -> Scan | TableScan | None:
        return None

    def function(self, name: str) -> Function | None:
        return None

    def has_function(self, name: str) -> bool:
        return False

    def describe(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> list[Field]:
        raise NotImplementedError("a query that only Spark understands cannot be described without Spark")
