"""An environment without a Spark session, to bind queries without a JVM."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.declarations import BoundScript, Declarations
from unshuffle.language.bind.environment import Field
from unshuffle.plan.logical import Plan, Scan, TableScan, UserFunction


class NoSpark:
    def table(self, name: Sequence[str], numbers: ColumnNumbers, declarations: Declarations) -> BoundScript | None:
        return None

    def declarable(self, name: Sequence[str], numbers: ColumnNumbers) -> Scan | TableScan | None:
        return None

    def function(self, name: str) -> UserFunction | None:
        return None

    def has_function(self, name: str) -> bool:
        return False

    def describe(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> list[Field]:
        raise NotImplementedError("a query that only Spark understands cannot be described without Spark")
