"""Functions and aggregates of the user's as Spark's Arrow functions, for use inside SQL text.

| form        | called with                              | result              |
|-------------|------------------------------------------|---------------------|
| `rows`      | an array for each argument               | an array            |
| `aggregate` | the arrays of one group                  | one value           |
| `lists`     | an array of lists of structs, one a group | an array: one value for each list |
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import sql_name
from unshuffle.plan.logical import UserFunction
from unshuffle.spark.shims.catalyst import OpaqueCode, parse_expression, python_function
from unshuffle.spark.shims.plan_tree import FoundNode
from unshuffle.spark.udf import worker
from unshuffle.spark.udf.user_code import Code
from unshuffle.spark.udf.user_operators import pickled, types_of, wire_schema
from unshuffle.spark.udf.worker import Types

UserForm = Literal["rows", "aggregate", "lists"]


def catalyst_code(
    spark: SparkSession, function: UserFunction, form: UserForm, arguments: int, types: Sequence[DataType]
) -> OpaqueCode:
    """The code of an `Opaque` expression that calls the function. `types` are those of the values that it gets."""
    holes = [parse_expression(spark, f"unshuffle_argument_{i}") for i in range(arguments)]
    call = python_function(spark, _udf(function, form, types), holes)
    return OpaqueCode(FoundNode(call), tuple(map(FoundNode, holes)))


def registered(spark: SparkSession, function: UserFunction, form: UserForm, types: Sequence[DataType]) -> str:
    """The name under which the session knows the function from now on, quoted."""
    name = f"{function.name}.{form}"
    spark.udf.register(name, _udf(function, form, types))
    return f"`{name}`"


def _udf(function: UserFunction, form: UserForm, types: Sequence[DataType]) -> Any:
    classes = types_of((str(place), type) for place, type in enumerate(types))
    run = shipped(_RUNS[form](code_of_function(function), function, classes), function)
    kind: Any = ArrowUDFType.GROUPED_AGG if form == "aggregate" else ArrowUDFType.SCALAR
    with warnings.catch_warnings():
        # It asks for type hints, which cannot express any number of arguments.
        warnings.simplefilter("ignore", UserWarning)
        made: Any = arrow_udf(run, sql_name(function.returns), kind)
    return made if function.deterministic or form == "aggregate" else made.asNondeterministic()


def code_of_function(function: UserFunction) -> Code:
    called = function.loaded
    if function.is_aggregate:
        called = getattr(called, called.form() or "")
    return Code(
        named=function.name,
        where=str(function.use.span),
        loaded=function.loaded,
        arguments=(),
        keywords=(),
        folders=function.use.search_path,
        file=called.__code__.co_filename if hasattr(called, "__code__") else None,
    )


def _rows(code: Code, function: UserFunction, types: Types) -> Callable[..., Any]:
    wire = wire_schema([("result", function.returns)]).field(0).type
    return worker.call_rows(code, function.arrow, types, function.returns, wire)


def _aggregate(code: Code, function: UserFunction, types: Types) -> Callable[..., Any]:
    return worker.aggregate(code, types, function.returns)


def _lists(code: Code, function: UserFunction, types: Types) -> Callable[..., Any]:
    wire = wire_schema([("result", function.returns)]).field(0).type
    return worker.aggregate_lists(code, types, function.returns, wire)


_RUNS: dict[UserForm, Callable[[Code, UserFunction, Types], Callable[..., Any]]] = {
    "rows": _rows,
    "aggregate": _aggregate,
    "lists": _lists,
}


def shipped(run: Callable[..., Any], function: UserFunction) -> Callable[..., Any]:
    """A function for Spark that carries another by value, with all our code and the user's that it needs."""
    payload = pickled(run, function.use)
    task: list[Callable[..., Any]] = []

    # Nested functions are always pickled by value; this one must not refer to anything of this module.
    def run_shipped(*columns):  # type: ignore[no-untyped-def]
        import pickle

        if not task:
            task.append(pickle.loads(payload))
        return task[0](*columns)

    return run_shipped
