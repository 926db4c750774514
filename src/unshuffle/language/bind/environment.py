"""What the binder asks of the Spark session: tables, functions, and the columns of queries that only Spark understands.

A session that unshuffle starts itself has no tables or functions of its own, so an environment over it answers the first
questions without starting it. Only `describe` needs a running Spark. A script over files whose every construct we understand
is bound without a JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unshuffle.catalog.schema import ColumnNumbers, DataType
from unshuffle.declarations import BoundScript, Declarations
from unshuffle.plan.logical import Plan, Scan, TableScan, UserFunction

Field = tuple[str, DataType, bool]  # name, type, nullable


class Environment(Protocol):
    def table(self, name: Sequence[str], numbers: ColumnNumbers, declarations: Declarations) -> BoundScript | None:
        """A table or view of the Spark session, with the constraints declared on what it reads, as a script of one output.
        None if there is no such table."""

    def declarable(self, name: Sequence[str], numbers: ColumnNumbers) -> Scan | TableScan | None:
        """The rowset that a declaration about a table is about: the files that it reads, or else the table by its name."""

    def function(self, name: str) -> UserFunction | None:
        """An aggregate registered with this session, or None."""

    def has_function(self, name: str) -> bool:
        """Whether the Spark session has a function of that name that we know nothing about."""

    def describe(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> list[Field]:
        """The columns that a query has over these inputs. Starts Spark if it is not running: the only part of binding that
        does. Raises a UserError if Spark cannot analyze the query."""
