"""Whether a declared key or dependency holds, counted by Spark: for rows that only Spark can read.

GROUP BY says which rows agree, so NULL, -0.0 and NaN are compared as everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from unshuffle.algebra.logical import Output, Script, TableScan
from unshuffle.algebra.sql import quote
from unshuffle.catalog.declared import SHOWN, Broken, DeclaredDependency, DeclaredKey, differs, repeats
from unshuffle.catalog.schema import Column
from unshuffle.declared import Claim
from unshuffle.errors import UnshuffleError
from unshuffle.spark import relations
from unshuffle.spark.failures import explain_failure
from unshuffle.spark.progress import progress
from unshuffle.spark.session import is_connect
from unshuffle.spark.straight import translation
from unshuffle.spark.user_operators import spans_of

# A table or view made of these reads files as they are, whatever the time of day and the other tables.
_PLAIN_OPERATORS = {"SubqueryAlias", "View", "Project", "LogicalRelation"}
_PLAIN_EXPRESSIONS = {"AttributeReference", "Alias", "Cast", "UpCast"}


class Counting:
    """Answers from a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def broken(self, claim: Claim) -> Broken | None:
        try:
            with translation(self._spark) as straight:
                frame = straight.frame(claim.rowset)
            with progress(self._spark, f"checking {claim.declaration} of {claim.label}"):
                return self._broken(frame, claim)
        except UnshuffleError:
            raise
        except Exception as error:
            raise explain_failure(error, spans_of(Script((Output(claim.rowset, None),)))) from error

    def _broken(self, frame: DataFrame, claim: Claim) -> Broken | None:
        named = {column.name: column for column in claim.rowset.columns}
        match claim.declaration:
            case DeclaredKey(columns):
                found = self._found(frame, [named[name] for name in columns], None)
                return Broken(tuple(repeats(columns, _texts(row[:-1]), row[-1]) for row in found)) if found else None
            case DeclaredDependency(determinant, dependent):
                found = self._found(frame, [named[n] for n in determinant], [named[n] for n in dependent])
                shown = tuple(
                    differs(determinant, _texts(row[:-2]), dependent, _texts(row[-2]), _texts(row[-1])) for row in found
                )
                return Broken(shown) if shown else None

    def _found(self, frame: DataFrame, by: Sequence[Column], dependent: Sequence[Column] | None) -> list[Row]:
        """Values with the number of their rows, or with two rows' values of the dependent columns."""
        keys = ", ".join(map(_name, by))
        if dependent is None:
            rows, last = frame, "count(1)"
        else:
            rows = frame.select(*dict.fromkeys(column.spark_name for column in (*by, *dependent))).distinct()
            values = f"struct({', '.join(map(_name, dependent))})"
            least, greatest = ("min", "max") if _sortable(dependent) else ("first", "last")
            last = f"{least}({values}), {greatest}({values})"
        order = f"ORDER BY {keys}" if _sortable(by) else ""
        query = f"SELECT {keys}, {last} FROM {{rows}} GROUP BY {keys} HAVING count(1) > 1 {order} LIMIT {SHOWN}"
        return self._spark.sql(query, rows=rows).collect()

    def source(self, table: TableScan) -> tuple[str, tuple[str, ...]] | None:
        """The definition and the files of a table or view that reads files as they are, else None."""
        try:
            if is_connect(self._spark):
                return None  # no plan to look into
            frame = relations.table(self._spark, table)
            if not _plain(frame._jdf.queryExecution().analyzed()):
                return None
            paths = tuple(sorted(frame.inputFiles()))
        except PySparkException as error:
            raise explain_failure(error, {}) from None
        return f"{frame.schema.simpleString()} {frame.semanticHash()}", paths


def _plain(plan: Any) -> bool:
    kind = plan.getClass().getSimpleName()
    if kind not in _PLAIN_OPERATORS:
        return False
    if kind == "LogicalRelation":
        return bool(plan.relation().getClass().getSimpleName() == "HadoopFsRelation")
    if kind == "Project" and not all(map(_plain_expression, _each(plan.projectList()))):
        return False
    return all(map(_plain, _each(plan.children())))


def _plain_expression(expression: Any) -> bool:
    plain = expression.getClass().getSimpleName() in _PLAIN_EXPRESSIONS
    return plain and all(map(_plain_expression, _each(expression.children())))


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _name(column: Column) -> str:
    return quote(column.spark_name)


def _sortable(columns: Sequence[Column]) -> bool:
    """Maps have no order, and nested types may hold some."""
    return all(column.type is not None and not pa.types.is_nested(column.type) for column in columns)


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple("NULL" if value is None else repr(value) if isinstance(value, str) else str(value) for value in values)
