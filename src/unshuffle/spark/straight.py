"""The straight translation: every logical operator becomes the SELECT that says the same, nothing is optimized.

It is what optimized plans are compared with, so it is kept as plain as can be. Relational operators nest as SQL text
under column names that no other column of the plan has, which keeps correlated sub-queries unambiguous however deep they
stand. What is not SQL (files, user-defined operators, shared rowsets) is a DataFrame that the text reads by a name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from unshuffle.algebra.expressions import Expression, SortKey
from unshuffle.algebra.logical import (
    Combine,
    Distinct,
    Expand,
    Filter,
    FinalGroupBy,
    Foreign,
    Format,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    PartialGroupBy,
    PartialTop,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    SetOperation,
    Shared,
    Sort,
    TableScan,
    Values,
    Window,
)
from unshuffle.algebra.sql import literal, order_words, quote
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.spark import files, relations, user_operators
from unshuffle.spark.columns import Placeholders
from unshuffle.spark.session import why_plain


@contextmanager
def translation(spark: SparkSession) -> Iterator[Straight]:
    """A translation whose temporary views are gone when it is done. Its DataFrames stay good."""
    straight = Straight(spark)
    try:
        yield straight
    finally:
        straight.drop_views()


class Straight:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._views: list[str] = []
        self._placeholders = Placeholders(name_of, self._subquery, why_plain(spark) is not None)
        self._shared: dict[int, tuple[Shared, str]] = {}

    def result(self, plan: Plan) -> DataFrame:
        """The plan as a DataFrame under the names the user gave its columns."""
        frame = self.frame(plan)
        # Rows of no columns have one here, so that SQL can say them.
        return frame.toDF(*(column.name for column in plan.columns)) if plan.columns else frame.select()

    def frame(self, plan: Plan) -> DataFrame:
        """The plan as a DataFrame whose columns are named by `Column.spark_name`."""
        match plan:
            case Scan(files=source) if not isinstance(source.format, Format):
                return user_operators.extract(self._spark, plan)
            case Process():
                return user_operators.process(self.frame(plan.child), plan)
            case Reduce():
                return user_operators.reduce(self.frame(plan.child), plan)
            case Combine():
                return user_operators.combine(self.frame(plan.left), self.frame(plan.right), plan)
            case Foreign() if plan.operator is not None:
                return relations.foreign(self._spark, plan, [self.frame(each) for each in plan.children])
            case _:
                return self.query(self.sql(plan))

    def query(self, text: str) -> DataFrame:
        """A text of ours as a DataFrame."""
        return self._placeholders.frame(self._spark, text)

    def drop_views(self) -> None:
        for view in self._views:
            # Not `spark.catalog.dropTempView`, which lets go of all cached data that mean the same, the user's too.
            self._spark._jsparkSession.sessionState().catalog().dropTempView(view)
        self._views.clear()
        self._shared.clear()

    def _rows_of(self, frame: DataFrame) -> str:
        return f"SELECT * FROM {self._placeholders.table(frame)}"

    def _view(self, frame: DataFrame) -> str:
        if self._placeholders.is_plain:
            # Over Spark Connect a query is analyzed when it runs, and a view would be gone by then.
            return self._placeholders.table(frame)
        name = f"unshuffle_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name

    # --- operators as SQL

    def sql(self, plan: Plan) -> str:
        match plan:
            case Scan(files=source, columns=columns) if isinstance(source.format, Format):
                read = ", ".join(f"{quote(column.name)} AS {name_of(column)}" for column in columns)
                return f"SELECT {read or '1 AS one_row'} FROM {self._placeholders.table(files.read(self._spark, plan))}"
            case TableScan():
                table = self._placeholders.table(relations.table(self._spark, plan))
                return f"SELECT * FROM {table} AS t({names_of(plan.columns)})" if plan.columns else f"TABLE {table}"
            case Scan() | Process() | Reduce() | Combine():
                return self._rows_of(self.frame(plan))
            case Foreign() if plan.operator is not None:
                return self._rows_of(self.frame(plan))
            case Values():
                return self._values(plan)
            case Project(child, outputs):
                made = ", ".join(self._as(column, expression) for column, expression in outputs)
                # Rows of no columns are still rows.
                return f"SELECT {made or '1 AS one_row'} FROM ({self.sql(child)})"
            case Filter(child, predicate):
                return f"SELECT * FROM ({self.sql(child)}) WHERE {self._expression(predicate)}"
            case GroupBy():
                return self._group_by(plan)
            case GroupingSets():
                return self._grouping_sets(plan)
            case Expand():
                return self._expand(plan)
            case Distinct(child):
                return f"SELECT DISTINCT * FROM ({self.sql(child)})"
            case Window(child, calls):
                made = ", ".join(self._as(column, call) for column, call in calls)
                return f"SELECT *, {made} FROM ({self.sql(child)})"
            case Sort(child, order):
                return f"SELECT * FROM ({self.sql(child)}) ORDER BY {', '.join(map(self._order, order))}"
            case Limit(child, count, offset):
                limit = "" if count is None else f" LIMIT {count}"
                return f"SELECT * FROM ({self.sql(child)}){limit}{f' OFFSET {offset}' if offset else ''}"
            case PartialGroupBy() | FinalGroupBy() | PartialTop():
                raise InternalError(f"{type(plan).__name__} has no meaning outside a physical plan")
            case Join():
                return self._join(plan)
            case SetOperation():
                return self._set_operation(plan)
            case Foreign(sql, inputs):
                return f"SELECT * FROM ({self.foreign(sql, inputs)}) AS t({names_of(plan.columns)})"
            case Reference(rowset, columns):
                pairs = zip(rowset.columns, columns, strict=True)
                renamed = ", ".join(f"{name_of(a)} AS {name_of(b)}" for a, b in pairs)
                return f"SELECT {renamed or '1 AS one_row'} FROM {self._shared_rows(rowset)}"
            case Shared(child=child):
                return self.sql(child)

    def foreign(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> str:
        """A query of the user's over inputs that it knows by these names, their columns by the user's names."""
        if not inputs:
            return sql
        named = []
        for name, plan in inputs:
            columns = ", ".join(quote(column.name) for column in plan.columns)
            named.append(f"{name} AS (SELECT * FROM {self._view(self.frame(plan))} AS t({columns}))")
        return f"WITH {', '.join(named)} SELECT * FROM ({sql})"

    def _shared_rows(self, rowset: Shared) -> str:
        if id(rowset) not in self._shared:
            # The node is kept with its name: an id is only good while what it names is alive.
            self._shared[id(rowset)] = (rowset, self._placeholders.table(self.frame(rowset.child)))
        return self._shared[id(rowset)][1]

    def _values(self, plan: Values) -> str:
        if not plan.columns:
            return "SELECT 1 AS one_row"
        if not plan.rows:
            nulls = ", ".join(f"{literal(None, column.type)} AS {name_of(column)}" for column in plan.columns)
            return f"SELECT {nulls} WHERE FALSE"
        rows = ", ".join(f"({', '.join(map(self._expression, row))})" for row in plan.rows)
        return f"SELECT * FROM VALUES {rows} AS t({names_of(plan.columns)})"

    def _group_by(self, plan: GroupBy) -> str:
        made = [name_of(key) for key in plan.keys] + [self._as(column, call) for column, call in plan.aggregates]
        grouping = f" GROUP BY {names_of(plan.keys)}" if plan.keys else ""
        # A GROUP BY of nothing for nothing is still one row.
        return f"SELECT {', '.join(made) or 'count(1) AS one_row'} FROM ({self.sql(plan.child)}){grouping}"

    def _grouping_sets(self, plan: GroupingSets) -> str:
        made = [f"{name_of(column)} AS {name_of(out)}" for out, column in plan.keys]
        made += [self._as(column, call) for column, call in plan.aggregates]
        sets = ", ".join(f"({names_of(one)})" for one in plan.sets)
        keys = names_of([column for _, column in plan.keys])
        # Naming the keys first fixes their order, and with it the bits of grouping_id().
        grouping = f"GROUP BY {keys} GROUPING SETS ({sets})" if keys else f"GROUP BY GROUPING SETS ({sets})"
        return f"SELECT {', '.join(made) or 'count(1) AS one_row'} FROM ({self.sql(plan.child)}) {grouping}"

    def _expand(self, plan: Expand) -> str:
        return self._expanded(plan, self.sql(plan.child))

    @staticmethod
    def _expanded(plan: Expand, text: str, more: Sequence[Column] = ()) -> str:
        number = name_of(plan.number)
        numbers = ", ".join(map(str, range(len(plan.sets))))
        copies = f"SELECT *, explode(array({numbers})) AS {number} FROM ({text})"
        keys = []
        for out, column in plan.keys:
            having = ", ".join(str(i) for i, one in enumerate(plan.sets) if column in one)
            keys.append(f"CASE WHEN {number} IN ({having}) THEN {name_of(column)} END AS {name_of(out)}")
        made = [*map(name_of, plan.child.columns), *keys, number, *map(name_of, more)]
        return f"SELECT {', '.join(made)} FROM ({copies})"

    def _join(self, plan: Join) -> str:
        word = "CROSS" if plan.kind is JoinKind.INNER and plan.condition is None else plan.kind.value.upper()
        on = "" if plan.condition is None else f" ON {self._expression(plan.condition)}"
        kept = "*" if plan.kept is None else names_of(plan.kept) or "1 AS one_row"
        return f"SELECT {kept} FROM ({self.sql(plan.left)}) {word} JOIN ({self.sql(plan.right)}){on}"

    def _set_operation(self, plan: SetOperation) -> str:
        word = plan.kind.value.upper() + (" ALL" if plan.all else "")
        operands = f" {word} ".join(f"(SELECT * FROM ({self.sql(part)}))" for part in plan.inputs)
        return f"SELECT * FROM ({operands}) AS t({names_of(plan.columns)})"

    # --- expressions as SQL

    def _expression(self, expression: Expression) -> str:
        return self._placeholders.text(expression)

    def _subquery(self, plan: Plan) -> str:
        # Columns by name: a GROUP BY of nothing may have one more than it says.
        return f"SELECT {names_of(plan.columns) or '1'} FROM ({self.sql(plan)})"

    def _as(self, column: Column, expression: Expression) -> str:
        text = self._expression(expression)
        return text if text == name_of(column) else f"{text} AS {name_of(column)}"

    def _order(self, key: SortKey) -> str:
        return f"{self._expression(key.expression)} {order_words(key)}"


def name_of(column: Column) -> str:
    return quote(column.spark_name)


def names_of(columns: Sequence[Column]) -> str:
    return ", ".join(map(name_of, columns))
