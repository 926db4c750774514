"""Our expressions as Spark's, including those that have no SQL text.

An expression with a SQL text becomes that text. An `Opaque` expression becomes a call of an undefined function. After Spark
has parsed the text, Catalyst's own expression replaces that call, over the parsed arguments. The analyzer then resolves only
what is still unresolved, so a function keeps its seed, its time zone and its evaluation mode.

A Scala map is a partial function, so it can be passed to Catalyst's `transform`: none of our code runs in the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from unshuffle.catalog.schema import Column, DataType
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Expression, Opaque
from unshuffle.plan.logical import Plan, UserFunction
from unshuffle.plan.sql import string_literal, to_sql
from unshuffle.spark.shims import catalyst
from unshuffle.spark.shims.plan_bridge import PlanChange
from unshuffle.spark.shims.plan_steps import OpaqueText, Step, Steps, Table
from unshuffle.spark.udf.user_functions import UserForm


def column(
    spark: SparkSession,
    expression: Expression,
    name_of: Callable[[Column], str],
    subquery: Callable[[Plan], str],
    placeholders: Placeholders | None = None,
) -> SparkColumn:
    """A Spark column for an expression, over a frame with our columns under the names that `name_of` gives (quoted, ready
    for SQL). `subquery` gives the SQL of a subquery's plan. If that contains opaque expressions too, it must have been
    written with the same `placeholders`."""
    placeholders = placeholders or Placeholders(name_of, subquery)
    text = placeholders.text(expression)
    if not placeholders.used_in(text):
        return expr(text)
    query = placeholders.parsed(spark, f"SELECT {text} AS value")
    return catalyst.column_of(spark, query.projectList().apply(0).child())


@dataclass
class Placeholders:
    """Stand-ins for what SQL text cannot express.

    An opaque expression is represented by a call. A plain name would not do: a field of it would be read as a column of a
    table. A DataFrame is represented by an undefined table. Creating and dropping a view instead takes Spark longer than
    analyzing most queries."""

    name_of: Callable[[Column], str]
    subquery: Callable[[Plan], str]
    uses_public_api: bool = False  # Spark's internals may not be used
    string: Callable[[str], str] = string_literal
    user_call: Callable[[UserFunction, UserForm, Sequence[Expression | str], Sequence[DataType]], str] | None = None
    _opaque: dict[str, tuple[catalyst.OpaqueCode, Sequence[Expression | str]]] = field(default_factory=dict)
    _tables: dict[str, Table] = field(default_factory=dict)
    _steps: dict[SparkSession, Steps] = field(default_factory=dict)

    def text(self, expression: Expression) -> str:
        return to_sql(expression, self.name_of, self.subquery, self.name, self.string)

    def name(self, opaque: Opaque) -> str:
        """The call that represents an opaque expression. Each occurrence has its own, even two random numbers of one seed."""
        if isinstance(opaque.code, UserFunction):
            assert self.user_call is not None
            form: UserForm = "aggregate" if opaque.code.is_aggregate else "rows"
            return self.user_call(opaque.code, form, opaque.arguments, [each.type for each in opaque.arguments])
        return self.call(opaque.code, opaque.arguments)

    def call(self, code: catalyst.OpaqueCode, arguments: Sequence[Expression | str]) -> str:
        """The call that represents Catalyst's code over arguments, which may be SQL texts."""
        call = f"unshuffle_opaque({len(self._opaque) + 1})"
        self._opaque[call] = code, arguments
        return call

    def _texts(self, arguments: Sequence[Expression | str]) -> list[str]:
        return [each if isinstance(each, str) else self.text(each) for each in arguments]

    def table(self, table: Table) -> str:
        """The table name that represents a DataFrame. It must not occur in a WITH clause unless only the public API is used:
        Catalyst's transformation does not reach it there."""
        name = f"unshuffle_frame_{len(self._tables) + 1}_"
        self._tables[name] = table
        return name

    def clear(self) -> None:
        self._opaque.clear()
        self._tables.clear()
        self._steps.clear()

    def used_in(self, text: str) -> list[str]:
        """The calls in a text that represent opaque expressions."""
        return [call for call in self._opaque if call in text]

    def frame(self, spark: SparkSession, text: str) -> DataFrame:
        """A query whose expressions were written with these placeholders, as a DataFrame."""
        return self._frame_by_public_api(spark, text) if self.uses_public_api else self.made(spark, self.step(text))

    def step(self, text: str, then: PlanChange | None = None) -> Step:
        """A query whose expressions were written with these placeholders, to be made later."""
        opaque = self._opaque_texts(text)
        # The arguments of an opaque expression may contain subqueries, whose tables its own text does not name.
        texts = [text, *(argument for each in opaque for argument in each.arguments)]
        tables = {name: table for name, table in self._tables.items() if any(name in each for each in texts)}
        return Step(text, tables, opaque, then)

    def made(self, spark: SparkSession, step: Step) -> DataFrame:
        if spark not in self._steps:
            self._steps[spark] = Steps(spark)
        return self._steps[spark].frame(step)

    def _opaque_texts(self, text: str) -> list[OpaqueText]:
        """The opaque expressions in a text, each after those in its arguments: writing them may add further ones."""
        calls, found = self.used_in(text), []
        for call in calls:
            before = len(self._opaque)
            code, arguments = self._opaque[call]
            found.append(OpaqueText(call, code.expression, code.holes, self._texts(arguments)))
            calls.extend(list(self._opaque)[before:])
        return found[::-1]

    def _frame_by_public_api(self, spark: SparkSession, text: str) -> DataFrame:
        """With Spark's public API, which Spark Connect has too: SQL that names DataFrames in braces."""
        text = text.replace("{", "{{").replace("}", "}}")
        frames: dict[str, Any] = {name: frame for name, frame in self._tables.items() if name in text}
        for name in frames:
            text = text.replace(name, f"{{{name}}}")
        return spark.sql(text, **frames)

    def parsed(self, spark: SparkSession, text: str) -> Any:
        """A query as Spark parses it, with the opaque expressions in their places."""
        # Writing an argument may add further opaque expressions, so the newest is replaced first.
        calls = self.used_in(text)
        arguments: dict[str, list[Any]] = {}
        for call in calls:
            before = len(self._opaque)
            texts = self._texts(self._opaque[call][1])
            arguments[call] = [catalyst.parse_expression(spark, text) for text in texts]
            calls.extend(list(self._opaque)[before:])
        replacements: dict[str, Any] = {}
        for call in reversed(calls):
            code, _ = self._opaque[call]
            replacements[call] = code.over(spark, [_replaced(spark, each, replacements) for each in arguments[call]])
        pairs = [(catalyst.parse_expression(spark, call), made) for call, made in replacements.items()]
        return catalyst.replace_plan_expressions(spark, catalyst.parse_plan(spark, text), pairs)


def _replaced(spark: SparkSession, expression: Any, replacements: Mapping[str, Any]) -> Any:
    pairs = [(catalyst.parse_expression(spark, call), made) for call, made in replacements.items()]
    return catalyst.replace_expressions(spark, expression, pairs)
