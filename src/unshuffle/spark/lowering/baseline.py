"""The baseline translation: every logical operator becomes the equivalent SELECT, and nothing is optimized.

Optimized plans are compared with the baseline and fall back to it, so it is kept as simple as possible. Relational
operators nest as SQL text. Each column has a name that no other column of the plan has, so correlated subqueries are
unambiguous at any depth. What has no SQL (files, user-defined operators, shared rowsets) is a DataFrame that the text
reads under a table name.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, DataType
from unshuffle.errors import InternalError
from unshuffle.plan import logical
from unshuffle.plan.expressions import AggregateCall, Expression, SortKey
from unshuffle.plan.logical import Plan
from unshuffle.plan.sql import literal, order_words, quote, string_as_bytes, string_literal
from unshuffle.plan.user_code import collects_lists, is_user_aggregate
from unshuffle.spark.execution.session_settings import isolated_session
from unshuffle.spark.io import files
from unshuffle.spark.lowering.placeholders import Placeholders
from unshuffle.spark.reader import relations
from unshuffle.spark.session import has_plain_strings, why_plain
from unshuffle.spark.shims.catalyst import analyzed_plan, frame_of
from unshuffle.spark.shims.plan_steps import Table
from unshuffle.spark.shims.session_conf import session_conf
from unshuffle.spark.udf import user_functions, user_operators
from unshuffle.spark.udf.user_functions import UserForm

# SQL has no rows without columns, so such rows get this one.
ONE_ROW = "1 AS one_row"


@contextmanager
def baseline(spark: SparkSession) -> Iterator[Baseline]:
    """A baseline translation. Its DataFrames remain usable at the end."""
    translation = Baseline(spark)
    try:
        yield translation
    finally:
        translation.close()


class Baseline:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._apart: SparkSession | None = None  # a session for views, which other threads must not see
        self._is_plain = why_plain(spark) is not None
        self._placeholders = Placeholders(name_of, self.subquery, self._is_plain, self._string, self._user_call)
        self._shared: dict[int, tuple[logical.Shared, str]] = {}

    @cached_property
    def _has_plain_strings(self) -> bool:
        """Whether a backslash in a string of a SQL text is not an escape."""
        return has_plain_strings(self.spark) if self._is_plain else session_conf(self.spark).plain_strings

    def _string(self, value: str) -> str:
        """Only a string with something to escape needs the setting, and the call to the JVM that asks for it."""
        literal = string_literal(value)
        return string_as_bytes(value) if literal != f"'{value}'" and self._has_plain_strings else literal

    def result(self, plan: Plan) -> DataFrame:
        """The plan as a DataFrame under the user's column names."""
        frame = self.frame(plan)
        return frame.toDF(*(column.name for column in plan.columns)) if plan.columns else frame.select()

    def frame(self, plan: Plan) -> DataFrame:
        """The plan as a DataFrame whose columns are named by `Column.spark_name`."""
        match plan:
            case logical.Scan(files=source) if not isinstance(source.format, logical.Format):
                return user_operators.extract(self.spark, plan)
            case logical.Process():
                return user_operators.process(self.frame(plan.child), plan)
            case logical.Reduce():
                return user_operators.reduce(self.frame(plan.child), plan)
            case logical.Combine():
                return user_operators.combine(self.frame(plan.left), self.frame(plan.right), plan)
            case logical.Foreign() if plan.operator is not None:
                return relations.foreign(self.spark, plan, [self.frame(each) for each in plan.children])
            case _:
                return self.query(self.sql(plan))

    def sql(self, plan: Plan) -> str:
        return _TRANSLATIONS[type(plan)](self, plan)

    def query(self, text: str) -> DataFrame:
        """A SQL text of this translation as a DataFrame."""
        if self._apart is None:
            return self._placeholders.frame(self.spark, text)
        return frame_of(self.spark, analyzed_plan(self._placeholders.frame(self._apart, text)))

    def select_from(self, table: Table) -> str:
        """A DataFrame as SQL."""
        return f"SELECT * FROM {self._placeholders.table(table)}"

    def foreign(self, sql: str, inputs: Sequence[tuple[str, Plan]]) -> str:
        """A user's query over named inputs, whose columns have the user's names."""
        if not inputs:
            return sql
        named = []
        for name, plan in inputs:
            columns = ", ".join(quote(column.name) for column in plan.columns)
            named.append(f"{name} AS (SELECT * FROM {self._view(self.frame(plan))} AS t({columns}))")
        return f"WITH {', '.join(named)} SELECT * FROM ({sql})"

    def close(self) -> None:
        """Forgets everything that the DataFrames do not need. (Reference cycles would keep it alive for a while, and with it
        plans in the JVM.)"""
        self._apart = None
        self._shared.clear()
        self._placeholders.clear()

    # --- operators

    def _scan(self, plan: logical.Scan) -> str:
        if not isinstance(plan.files.format, logical.Format):
            return self._frame_as_sql(plan)
        columns = ", ".join(f"{quote(column.name)} AS {name_of(column)}" for column in plan.columns)
        relation = plan.files.relation if plan.stream is None or plan.needed is None else None
        table = self._placeholders.table(files.read(self.spark, plan) if relation is None else relation)
        return f"SELECT {columns or ONE_ROW} FROM {table}"

    def _table_scan(self, plan: logical.TableScan) -> str:
        table = self._placeholders.table(relations.table(self.spark, plan))
        return f"SELECT * FROM {table} AS t({names_of(plan.columns)})" if plan.columns else f"TABLE {table}"

    def _values(self, plan: logical.Values) -> str:
        if not plan.columns:
            return f"SELECT {ONE_ROW}"
        if not plan.rows:
            nulls = ", ".join(f"{literal(None, column.type)} AS {name_of(column)}" for column in plan.columns)
            return f"SELECT {nulls} WHERE FALSE"
        rows = ", ".join(f"({', '.join(map(self.expression, row))})" for row in plan.rows)
        return f"SELECT * FROM VALUES {rows} AS t({names_of(plan.columns)})"

    def _project(self, plan: logical.Project) -> str:
        outputs = ", ".join(self.aliased(column, expression) for column, expression in plan.outputs)
        return f"SELECT {outputs or ONE_ROW} FROM ({self.sql(plan.child)})"

    def _filter(self, plan: logical.Filter) -> str:
        return f"SELECT * FROM ({self.sql(plan.child)}) WHERE {self.expression(plan.predicate)}"

    def _group_by(self, plan: logical.GroupBy) -> str:
        keys = [name_of(key) for key in plan.keys]
        grouping = f" GROUP BY {names_of(plan.keys)}" if plan.keys else ""
        if collects_lists(plan.keys, plan.aggregates):
            return self.with_lists(keys, plan.aggregates, f"({self.sql(plan.child)}){grouping}")
        outputs = keys + [self.aliased(column, call) for column, call in plan.aggregates]
        # Without keys and aggregates there is still one row.
        return f"SELECT {', '.join(outputs) or 'count(1) AS one_row'} FROM ({self.sql(plan.child)}){grouping}"

    def _grouping_sets(self, plan: logical.GroupingSets) -> str:
        outputs = [f"{name_of(column)} AS {name_of(out)}" for out, column in plan.keys]
        sets = ", ".join(f"({names_of(one)})" for one in plan.sets)
        keys = names_of([column for _, column in plan.keys])
        # Listing the keys first fixes their order, and with it the bits of grouping_id().
        grouping = f"GROUP BY {keys} GROUPING SETS ({sets})" if keys else f"GROUP BY GROUPING SETS ({sets})"
        rows = f"({self.sql(plan.child)}) {grouping}"
        if any(is_user_aggregate(call) for _, call in plan.aggregates):
            return self.with_lists(outputs, plan.aggregates, rows, [name_of(out) for out, _ in plan.keys])
        outputs += [self.aliased(column, call) for column, call in plan.aggregates]
        return f"SELECT {', '.join(outputs) or 'count(1) AS one_row'} FROM {rows}"

    def with_lists(
        self,
        keys: Sequence[str],
        aggregates: Sequence[tuple[Column, AggregateCall]],
        rows: str,
        names: Sequence[str] | None = None,
    ) -> str:
        """The groups of `rows`, with the values of user aggregates collected into lists, of which they are then computed.
        `names` are the names of the keys."""
        collected, computed = [], []
        for column, call in aggregates:
            if not is_user_aggregate(call):
                collected.append(self.aliased(column, call))
                computed.append(name_of(column))
                continue
            assert call.opaque is not None
            fields = ", ".join(f"'_{i}', {self.expression(each)}" for i, each in enumerate(call.arguments))
            where = "" if call.where is None else f" FILTER (WHERE {self.expression(call.where)})"
            distinct = "DISTINCT " if call.distinct else ""
            collected.append(f"collect_list({distinct}named_struct({fields})){where} AS {name_of(column)}")
            types = [each.type for each in call.arguments]
            result = self._user_call(call.opaque.code, "lists", [name_of(column)], types)
            computed.append(f"{result} AS {name_of(column)}")
        outer = ", ".join([*(keys if names is None else names), *computed])
        return f"SELECT {outer} FROM (SELECT {', '.join([*keys, *collected])} FROM {rows})"

    def _user_call(
        self,
        function: logical.UserFunction,
        form: UserForm,
        arguments: Sequence[Expression | str],
        types: Sequence[DataType],
    ) -> str:
        """The text of a call of a function of the user's. `types` are those of the values that it is called with."""
        if self._is_plain:
            texts = [each if isinstance(each, str) else self.expression(each) for each in arguments]
            return f"{user_functions.registered(self.spark, function, form, types)}({', '.join(texts)})"
        code = user_functions.catalyst_code(self.spark, function, form, len(arguments), types)
        return self._placeholders.call(code, arguments)

    def _expand(self, plan: logical.Expand) -> str:
        repeated = None if plan.repeated is None else self.expression(plan.repeated)
        return expanded(plan, self.sql(plan.child), repeated)

    def _distinct(self, plan: logical.Distinct) -> str:
        return f"SELECT DISTINCT * FROM ({self.sql(plan.child)})"

    def _window(self, plan: logical.Window) -> str:
        calls = ", ".join(self.aliased(column, call) for column, call in plan.calls)
        return f"SELECT *, {calls} FROM ({self.sql(plan.child)})"

    def _sort(self, plan: logical.Sort) -> str:
        return f"SELECT * FROM ({self.sql(plan.child)}) ORDER BY {', '.join(map(self._sort_key, plan.order))}"

    def _limit(self, plan: logical.Limit) -> str:
        limit = "" if plan.count is None else f" LIMIT {plan.count}"
        offset = f" OFFSET {plan.offset}" if plan.offset else ""
        return f"SELECT * FROM ({self.sql(plan.child)}){limit}{offset}"

    def _join(self, plan: logical.Join) -> str:
        kind = "CROSS" if plan.kind is JoinKind.INNER and plan.condition is None else plan.kind.value.upper()
        on = "" if plan.condition is None else f" ON {self.expression(plan.condition)}"
        columns = "*" if plan.kept is None else names_of(plan.kept) or ONE_ROW
        return f"SELECT {columns} FROM ({self.sql(plan.left)}) {kind} JOIN ({self.sql(plan.right)}){on}"

    def _set_operation(self, plan: logical.SetOperation) -> str:
        word = plan.kind.value.upper() + (" ALL" if plan.all else "")
        operands = f" {word} ".join(f"(SELECT * FROM ({self.sql(part)}))" for part in plan.inputs)
        return f"SELECT * FROM ({operands}) AS t({names_of(plan.columns)})"

    def _foreign(self, plan: logical.Foreign) -> str:
        if plan.operator is not None:
            return self._frame_as_sql(plan)
        return f"SELECT * FROM ({self.foreign(plan.sql, plan.inputs)}) AS t({names_of(plan.columns)})"

    def _shared_rowset(self, plan: logical.Shared) -> str:
        return self.sql(plan.child)

    def _reference(self, plan: logical.Reference) -> str:
        rowset = plan.rowset
        if not isinstance(rowset, logical.Shared):
            return self._not_baseline(plan)
        if id(rowset) not in self._shared:
            # The node is stored with its name: its id is unique only while it is alive.
            self._shared[id(rowset)] = (rowset, self._placeholders.table(self.frame(rowset.child)))
        pairs = zip(rowset.columns, plan.columns, strict=True)
        renamed = ", ".join(f"{name_of(old)} AS {name_of(new)}" for old, new in pairs)
        return f"SELECT {renamed or ONE_ROW} FROM {self._shared[id(rowset)][1]}"

    def _frame_as_sql(self, plan: Plan) -> str:
        return self.select_from(self.frame(plan))

    def _not_baseline(self, plan: Plan) -> str:
        raise InternalError(f"{type(plan).__name__} has no meaning outside the optimizer")

    def _view(self, frame: DataFrame) -> str:
        if self._placeholders.uses_public_api:
            # Spark Connect analyzes a query when it runs; a view would be gone by then.
            return self._placeholders.table(frame)
        if self._apart is None:
            self._apart = isolated_session(self.spark, {})
        name = f"unshuffle_{uuid.uuid4().hex}"
        frame_of(self._apart, analyzed_plan(frame)).createOrReplaceTempView(name)
        return name

    # --- expressions

    def expression(self, expression: Expression) -> str:
        return self._placeholders.text(expression)

    def subquery(self, plan: Plan) -> str:
        # Columns by name: the SQL of a GROUP BY may have one more column than the plan.
        return f"SELECT {names_of(plan.columns) or '1'} FROM ({self.sql(plan)})"

    def aliased(self, column: Column, expression: Expression) -> str:
        text = self.expression(expression)
        return text if text == name_of(column) else f"{text} AS {name_of(column)}"

    def _sort_key(self, key: SortKey) -> str:
        return f"{self.expression(key.expression)} {order_words(key)}"


_TRANSLATIONS: dict[type, Callable[[Baseline, Any], str]] = {
    logical.Scan: Baseline._scan,
    logical.TableScan: Baseline._table_scan,
    logical.Values: Baseline._values,
    logical.Project: Baseline._project,
    logical.Filter: Baseline._filter,
    logical.GroupBy: Baseline._group_by,
    logical.GroupingSets: Baseline._grouping_sets,
    logical.Expand: Baseline._expand,
    logical.Distinct: Baseline._distinct,
    logical.Window: Baseline._window,
    logical.Sort: Baseline._sort,
    logical.Limit: Baseline._limit,
    logical.Join: Baseline._join,
    logical.SetOperation: Baseline._set_operation,
    logical.Process: Baseline._frame_as_sql,
    logical.Reduce: Baseline._frame_as_sql,
    logical.Combine: Baseline._frame_as_sql,
    logical.Foreign: Baseline._foreign,
    logical.Shared: Baseline._shared_rowset,
    logical.Reference: Baseline._reference,
    logical.PartialGroupBy: Baseline._not_baseline,
    logical.FinalGroupBy: Baseline._not_baseline,
    logical.PartialTopN: Baseline._not_baseline,
    logical.GroupRef: Baseline._not_baseline,
    logical.MultiJoin: Baseline._not_baseline,
    logical.MultiOutput: Baseline._not_baseline,
}


def expanded(plan: logical.Expand, rows: str, repeated: str | None, extras: Sequence[Column] = ()) -> str:
    """Each row once for every grouping set. Keys that a set leaves out are NULL in its copy."""
    number = name_of(plan.number)
    numbers = f"array({', '.join(map(str, range(len(plan.sets))))})"
    if repeated is not None:
        numbers = f"CASE WHEN {repeated} THEN sequence(0, {len(plan.sets) - 1}) ELSE array(0) END"
    copies = f"SELECT *, explode({numbers}) AS {number} FROM ({rows})"
    keys = []
    for out, column in plan.keys:
        sets = ", ".join(str(i) for i, one in enumerate(plan.sets) if column in one)
        keys.append(f"CASE WHEN {number} IN ({sets}) THEN {name_of(column)} END AS {name_of(out)}")
    outputs = [*map(name_of, plan.child.columns), *keys, number, *map(name_of, extras)]
    return f"SELECT {', '.join(outputs)} FROM ({copies})"


def name_of(column: Column) -> str:
    return quote(column.spark_name)


def names_of(columns: Sequence[Column]) -> str:
    return ", ".join(map(name_of, columns))
