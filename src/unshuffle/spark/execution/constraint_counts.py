"""Checks declared constraints with Spark: conditions, and keys and dependencies of rows that only Spark can read.

GROUP BY decides which rows agree, so NULL, -0.0 and NaN are compared as everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey, DeclaredPartitions, PartCondition
from unshuffle.catalog.constraints.counterexamples import (
    MAX_COUNTEREXAMPLES,
    Counterexamples,
    differing_text,
    repeated_text,
)
from unshuffle.catalog.files import absolute, data_files
from unshuffle.catalog.schema import Column
from unshuffle.declarations import DeclaredConstraint
from unshuffle.errors import InternalError, JobProblem, UnshuffleError
from unshuffle.plan.expressions import Call, Literal, Ref, columns_of
from unshuffle.plan.logical import Files, Filter, Output, Plan, Project, Scan, Script, TableScan
from unshuffle.plan.movable_conditions import substitute
from unshuffle.plan.sql import quote
from unshuffle.spark.execution.failures import explain_failure
from unshuffle.spark.execution.progress import progress
from unshuffle.spark.lowering.baseline import Baseline, baseline
from unshuffle.spark.reader import relations
from unshuffle.spark.session import is_connect
from unshuffle.spark.shims.catalyst import analyzed_plan
from unshuffle.spark.shims.gateway import items_of
from unshuffle.spark.udf.user_operators import spans_of

# A table or view made of these reads files as they are, whatever the time of day and the other tables.
_PLAIN_OPERATORS = {"SubqueryAlias", "View", "Project", "LogicalRelation"}
_PLAIN_EXPRESSIONS = {"AttributeReference", "Alias", "Cast", "UpCast"}


class SparkConstraintCounter:
    """Checks constraints in a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def counterexamples(self, declared: DeclaredConstraint) -> Counterexamples | None:
        try:
            with (
                baseline(self._spark) as plain,
                progress(self._spark, f"checking {declared.constraint} of {declared.label}"),
            ):
                return self._counterexamples(plain, declared)
        except UnshuffleError:
            raise
        except Exception as error:
            problem = explain_failure(error, spans_of(Script((Output(declared.rowset, None),))))
            if isinstance(problem, JobProblem):
                told = f"{declared.constraint} of {declared.label!r} cannot be checked: {problem.message}"
                problem = JobProblem(told, declared.span, problem.hint)
            raise problem from error

    def _counterexamples(self, plain: Baseline, declared: DeclaredConstraint) -> Counterexamples | None:
        named = {column.name: column for column in declared.rowset.columns}
        match declared.constraint:
            case DeclaredKey(columns):
                rows = _repeated(plain, declared.rowset, [named[name] for name in columns], None)
                examples = tuple(repeated_text(columns, _texts(row[:-1]), row[-1]) for row in rows)
            case DeclaredDependency(determinant, dependent):
                sides = ([named[name] for name in names] for names in (determinant, dependent))
                rows = _repeated(plain, declared.rowset, *sides)
                examples = tuple(
                    differing_text(determinant, _texts(row[:-2]), dependent, _texts(row[-2]), _texts(row[-1]))
                    for row in rows
                )
            case DeclaredPartitions(parts, columns):
                contradicting = list(_contradicting(declared, parts))
                names = ", ".join(_name(named[name]) for name in columns)
                queries = [f"(SELECT {at}, {names} FROM ({plain.sql(plan)}) LIMIT 1)" for at, plan in contradicting]
                rows = plain.query(f"{' UNION ALL '.join(queries)} LIMIT 1").collect() if queries else []
                examples = tuple(_false_text(parts[row[0]], columns, _texts(row[1:])) for row in rows)
        return Counterexamples(examples) if examples else None

    def source(self, table: TableScan) -> tuple[str, tuple[str, ...]] | None:
        """The definition and the files of a table or view that reads files as they are, else None."""
        try:
            if is_connect(self._spark):
                return None  # no plan to look into
            frame = relations.table(self._spark, table)
            if not _plain(analyzed_plan(frame)):
                return None
            paths = tuple(sorted(frame.inputFiles()))
        except PySparkException as error:
            raise explain_failure(error, {}) from None
        return f"{frame.schema.simpleString()} {frame.semanticHash()}", paths


def _contradicting(declared: DeclaredConstraint, parts: Sequence[PartCondition]) -> Iterator[tuple[int, Plan]]:
    """For each part with files, its place and the rows for which its condition is not true."""
    rowset = declared.rowset
    scan = rowset.child if isinstance(rowset, Project) else rowset
    if not isinstance(scan, Scan):
        raise InternalError(f"{declared.constraint} is declared on an operator, not on files")
    listed = [(file.path, absolute(file.path)) for file in data_files(scan.files.paths, scan.files.base)]
    named = {column.name: Ref(column) for column in rowset.columns}
    for at, part in enumerate(parts):
        paths = tuple(path for path, place in listed if part.covers(place))
        if not paths or part.expression is None:
            continue
        read = Scan(scan.label, Files(paths, scan.files.format, scan.files.base), scan.columns)
        condition = substitute(part.expression, {c: named[c.name] for c in columns_of(part.expression)})
        is_true = Call("coalesce", (condition, Literal(False, pa.bool_())), pa.bool_())
        rows = replace(rowset, child=read) if isinstance(rowset, Project) else read
        yield at, Filter(rows, Call("not", (is_true,), pa.bool_()))


def _false_text(part: PartCondition, columns: Sequence[str], values: Sequence[str]) -> str:
    row = ", ".join(f"{name} = {value}" for name, value in zip(columns, values, strict=True))
    return f'{part.text} is not true in "{part.path}", where a row has {row}'


def _repeated(plain: Baseline, rowset: Plan, by: Sequence[Column], dependent: Sequence[Column] | None) -> list[Row]:
    """Repeated values with their number of rows, or with two rows' values of the dependent columns."""
    keys, rows = ", ".join(map(_name, by)), plain.select_from(plain.frame(rowset))
    if dependent is None:
        last = "count(1)"
    else:
        rows = f"SELECT DISTINCT {', '.join(dict.fromkeys(map(_name, (*by, *dependent))))} FROM ({rows})"
        values = f"struct({', '.join(map(_name, dependent))})"
        least, greatest = ("min", "max") if _sortable(dependent) else ("first", "last")
        last = f"{least}({values}), {greatest}({values})"
    order = f"ORDER BY {keys}" if _sortable(by) else ""
    query = (
        f"SELECT {keys}, {last} FROM ({rows}) GROUP BY {keys} HAVING count(1) > 1 {order} LIMIT {MAX_COUNTEREXAMPLES}"
    )
    return plain.query(query).collect()


def _plain(plan: Any) -> bool:
    kind = plan.getClass().getSimpleName()
    if kind not in _PLAIN_OPERATORS:
        return False
    if kind == "LogicalRelation":
        return bool(plan.relation().getClass().getSimpleName() == "HadoopFsRelation")
    if kind == "Project" and not all(map(_plain_expression, items_of(plan.projectList()))):
        return False
    return all(map(_plain, items_of(plan.children())))


def _plain_expression(expression: Any) -> bool:
    plain = expression.getClass().getSimpleName() in _PLAIN_EXPRESSIONS
    return plain and all(map(_plain_expression, items_of(expression.children())))


def _name(column: Column) -> str:
    return quote(column.spark_name)


def _sortable(columns: Sequence[Column]) -> bool:
    """Maps have no order, and nested types may hold some."""
    return all(column.type is not None and not pa.types.is_nested(column.type) for column in columns)


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple("NULL" if value is None else repr(value) if isinstance(value, str) else str(value) for value in values)
