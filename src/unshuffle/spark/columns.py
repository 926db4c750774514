"""Our expressions as Spark's, those included that no SQL text can say.

Whatever has a text is its text. An `Opaque` expression stands in the text as a call that nobody defines. When Spark has
parsed the text, the JVM's own expression is put in that call's place, over the arguments as they are by then; only what is
not resolved yet is resolved by the analyzer afterwards, so a function keeps its seed, its time zone and its mode.

A Scala map is a partial function, so Catalyst's `transform` takes one that says what comes in place of what. With that, no
code of ours runs in the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.functions import col, expr

from unshuffle.algebra.expressions import Expression, Opaque, walk
from unshuffle.algebra.logical import Plan
from unshuffle.algebra.sql import quote, to_sql
from unshuffle.catalog.schema import Column


@dataclass(frozen=True, slots=True)
class OpaqueCode:
    """What an `Opaque` expression keeps for us: Catalyst's expression, and the parts of it that its arguments replace."""

    expression: Any
    holes: tuple[Any, ...]


def column(
    spark: SparkSession,
    expression: Expression,
    name_of: Callable[[Column], str],
    subquery: Callable[[Plan], str],
    placeholders: Placeholders | None = None,
) -> SparkColumn:
    """A Spark column for an expression, over a frame that has our columns under the names of `name_of` (a text ready to
    stand in SQL). `subquery` gives the text of a sub-query's plan; where that holds opaque expressions too, it must have
    been written with the same `placeholders`."""
    placeholders = placeholders or Placeholders(name_of, subquery)
    text = placeholders.text(expression)
    if not placeholders.used_in(text):
        return expr(text)
    query = placeholders.parsed(spark, f"SELECT {text} AS value")
    converted = jvm(spark).org.apache.spark.sql.classic.ExpressionUtils.column(query.projectList().apply(0).child())
    return ClassicColumn(converted)


def is_plain(expression: Expression) -> bool:
    """Does its SQL text say all of it? The plans of its sub-queries are not looked at."""
    return not any(isinstance(part, Opaque) for part in walk(expression))


def ordered(name: str, descending: bool, nulls_first: bool) -> SparkColumn:
    """A column of a frame as a key to sort by."""
    found = col(quote(name))
    if descending:
        return found.desc_nulls_first() if nulls_first else found.desc_nulls_last()
    return found.asc_nulls_first() if nulls_first else found.asc_nulls_last()


@dataclass
class Placeholders:
    """What a text refers to and cannot say. A call stands there for each opaque expression: a name would not do, for a field
    of it would be read as a column of a table. A table stands for each DataFrame that is read: one that nobody defines, for
    to define a view and to drop it again takes Spark longer than to analyze most queries."""

    name_of: Callable[[Column], str]
    subquery: Callable[[Plan], str]
    is_plain: bool = False  # are Spark's internals to be left alone?
    _found: dict[str, Opaque] = field(default_factory=dict)
    _frames: dict[str, DataFrame] = field(default_factory=dict)

    def text(self, expression: Expression) -> str:
        return to_sql(expression, self.name_of, self.subquery, self.name)

    def name(self, opaque: Opaque) -> str:
        """What stands for it in a text. Each place has its own, also for two random numbers of one seed."""
        call = f"unshuffle_opaque({len(self._found) + 1})"
        self._found[call] = opaque
        return call

    def table(self, frame: DataFrame) -> str:
        """What stands for a DataFrame in a text. Not in a WITH, unless all is plain: there Catalyst does not look for it."""
        name = f"unshuffle_frame_{len(self._frames) + 1}_"
        self._frames[name] = frame
        return name

    def used_in(self, text: str) -> list[str]:
        """The calls that a text has."""
        return [call for call in self._found if call in text]

    def frame(self, spark: SparkSession, text: str) -> DataFrame:
        """A query of which the expressions were written here, as a DataFrame."""
        if self.is_plain:
            return self._plainly(spark, text)
        used = bool(self.used_in(text))
        plan = self.parsed(spark, text) if used else parser(spark).parsePlan(text)
        # The arguments of an opaque expression may hold sub-queries, whose tables its own text does not name.
        frames = [
            (parser(spark).parsePlan(f"TABLE {name}"), frame._jdf.queryExecution().analyzed())
            for name, frame in self._frames.items()
            if used or name in text
        ]
        return frame_of(spark, plan.transformWithSubqueries(scala_map(spark, frames)) if frames else plan)

    def _plainly(self, spark: SparkSession, text: str) -> DataFrame:
        """By what Spark offers everybody, Spark Connect too: DataFrames that a text names in braces."""
        text = text.replace("{", "{{").replace("}", "}}")
        frames = {name: frame for name, frame in self._frames.items() if name in text}
        for name in frames:
            text = text.replace(name, f"{{{name}}}")
        given: dict[str, Any] = frames
        return spark.sql(text, **given)

    def parsed(self, spark: SparkSession, text: str) -> Any:
        """A query as Spark parses it, with the expressions in their places."""
        # An argument may hold others: they are found while it is written, so the latest is done first.
        done: dict[str, Any] = {}
        names = self.used_in(text)
        arguments: dict[str, list[Any]] = {}
        for name in names:
            known = len(self._found)
            arguments[name] = [parsed(spark, self.text(each)) for each in self._found[name].arguments]
            names.extend(new for new in list(self._found)[known:])
        for name in reversed(names):
            inside = [_replaced(spark, each, done) for each in arguments[name]]
            code: OpaqueCode = self._found[name].code
            pairs = list(zip(code.holes, inside, strict=True))
            done[name] = code.expression.transform(scala_map(spark, pairs)) if pairs else code.expression
        pairs = [(parsed(spark, name), made) for name, made in done.items()]
        return parser(spark).parsePlan(text).transformAllExpressionsWithSubqueries(scala_map(spark, pairs))


def _replaced(spark: SparkSession, expression: Any, done: Mapping[str, Any]) -> Any:
    if not done:
        return expression
    return expression.transform(scala_map(spark, [(parsed(spark, name), made) for name, made in done.items()]))


# --------------------------------------------------------------------------------------------------------------- the JVM


def jvm(spark: SparkSession) -> Any:
    found = spark._jvm
    assert found is not None
    return found


def java_class(spark: SparkSession, name: str) -> Any:
    """A class by its whole name. By `jvm.org.apache...` the JVM would look for a class at every step of the way, through all
    of Spark's archives, each time."""
    return JavaClass(name, jvm(spark)._gateway_client)


def parser(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().sqlParser()


def parsed(spark: SparkSession, text: str) -> Any:
    return parser(spark).parseExpression(text)


def scala_map(spark: SparkSession, pairs: list[tuple[Any, Any]]) -> Any:
    made = java_class(spark, "java.util.HashMap")()
    for key, value in pairs:
        made.put(key, value)
    return java_class(spark, "org.apache.spark.api.python.PythonUtils").toScalaMap(made)


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """A logical plan of the JVM's as a DataFrame."""
    dataset = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, plan), spark)
