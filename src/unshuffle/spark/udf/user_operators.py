"""User-defined operators on Spark: PROCESS, REDUCE, COMBINE, EXTRACT, and aggregate functions.

Each is one of Spark's Arrow functions over code from `worker.py`. The columns of the input and of the output are named by
`column.spark_name`; the output has exactly the declared types.

For a REDUCE, Spark sorts rows by the keys anyway to form the groups. Its PRESORT is a native row number over (PARTITION BY
keys ORDER BY presort): one sort serves both, it can spill, and Spark knows that the order is needed. By the numbers the
worker sees that rows arrive in that order. They nearly always do, but with `spark.sql.adaptive.forceOptimizeSkewedJoin`
adaptive execution shuffles between the numbering and the grouping.
"""

from __future__ import annotations

import os
import pickle
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from inspect import signature
from threading import Lock
from types import ModuleType
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import col, row_number
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from unshuffle.catalog.files import for_spark, from_root
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.types import sql_name
from unshuffle.catalog.user_types import mark_of
from unshuffle.errors import InternalError, Source, Span, UserCodeProblem
from unshuffle.operators import Aggregator, Combiner, Extractor, Processor, Reducer, UserOperator, UserType
from unshuffle.plan.expressions import Ref, SortKey
from unshuffle.plan.logical import (
    Combine,
    FileTarget,
    Process,
    Reduce,
    Scan,
    Script,
    UserClass,
    UserFunction,
    expressions_of,
)
from unshuffle.plan.user_code import user_functions_in
from unshuffle.spark.columns import sort_column
from unshuffle.spark.udf import worker
from unshuffle.spark.udf.user_code import Code, Produced
from unshuffle.user_classes import found_in, load, load_type, make

_Batches = Iterator[pa.RecordBatch]
_PICKLING = Lock()  # the modules that are pickled by value are registered for all threads


def process(frame: DataFrame, node: Process) -> DataFrame:
    code = code_of(node.user_class, Processor)
    run = worker.process(code, input_of(node.child.columns), _produced(code, node.columns))
    return frame.mapInArrow(shipped(run, node.user_class), ddl(node.columns))


def reduce(frame: DataFrame, node: Reduce, *, layout: Sequence[str] = ()) -> DataFrame:
    """Groups, each in one call.

    Spark exchanges and sorts rows unless it knows that they are grouped already. `layout` names columns of the frame that
    the keys determine and by which Spark knows the partitioning (a partition number). They are added to the keys.
    """
    code = code_of(node.user_class, Combiner if node.parts else Reducer)
    keys = [col(name) for name in (*layout, *(key.spark_name for key in node.keys))]
    if node.presort:
        order = Window.partitionBy(*keys).orderBy(*map(_sort_column, node.presort))
        frame = frame.withColumn(worker.ROW_NUMBER, row_number().over(order))
    # Equal floats may differ in their bits, and nested values cannot be compared: READONLY is not checked there.
    constant = tuple(
        (made.spark_name, given.name)
        for made, given in node.readonly
        if given in node.keys and made.type == given.type and not _has_no_exact_equality(given.type)
    )
    keyed = tuple(key.name for key in node.keys)
    produced = _produced(code, node.columns)
    if node.parts:
        first = len(keyed) + 1
        names = [column.spark_name for column in node.child.columns]
        types = _types_of_parts(node, node.child.columns[first:])
        run = worker.combine_parts(code, names[:first], names[first:], node.parts, keyed, types, produced)
    else:
        run = worker.reduce(code, input_of(node.child.columns), produced, keyed, bool(node.presort), constant)
    function = shipped(run, node.user_class)
    function.__annotations__ = {"batches": Iterator[pa.RecordBatch], "return": Iterator[pa.RecordBatch]}
    return frame.groupBy(*keys).applyInArrow(function, ddl(node.columns))


def _types_of_parts(node: Reduce, columns: Sequence[Column]) -> list[dict[str, type[UserType]]]:
    of_columns = iter(columns)
    return [types_of([(name, next(of_columns).type) for name in part]) for part in node.parts]


def combine(
    left: DataFrame, right: DataFrame, node: Combine, *, layout: tuple[Sequence[str], Sequence[str]] = ((), ())
) -> DataFrame:
    """Pairs of groups, each in one call. `layout` is as for `reduce`, for the left and the right input."""
    code = code_of(node.user_class, Combiner)
    ours = [col(name) for name in (*layout[0], *(key.spark_name for key in node.left_keys))]
    theirs = [col(name) for name in (*layout[1], *(key.spark_name for key in node.right_keys))]
    run = worker.combine(
        code,
        input_of(node.left.columns),
        input_of(node.right.columns),
        _produced(code, node.columns),
        tuple(key.name for key in node.left_keys),
        tuple(key.name for key in node.right_keys),
    )
    function = _two_tables(pickled(run, node.user_class))
    return left.groupBy(*ours).cogroup(right.groupBy(*theirs)).applyInArrow(function, ddl(node.columns))


def extract(spark: SparkSession, node: Scan) -> DataFrame:
    """Whole files, distributed over tasks by size. Workers open local files; Spark reads the others."""
    user_class = node.files.format
    assert isinstance(user_class, UserClass)
    code = code_of(user_class, Extractor)
    reader = spark.read.format("binaryFile")
    if node.files.base is not None:
        reader = reader.option("basePath", from_root(node.files.base))
    files = reader.load(for_spark(node.files.paths))
    paths = files.select("path")
    local = all(file.startswith("file:") for file in files.inputFiles())
    declared = frozenset(make(user_class, code.loaded).produces())
    run = worker.extract(code, replace(_produced(code, node.columns), others=declared))
    return (paths if local else files.select("path", "content")).mapInArrow(shipped(run, user_class), ddl(node.columns))


def register_aggregator(spark: SparkSession, name: str, cls: type[Aggregator], returns_spark_type: str) -> UserFunction:
    """Registers an aggregate function for the session's queries. An instance is made for every group."""
    if not (isinstance(cls, type) and issubclass(cls, Aggregator)):
        raise UserCodeProblem(f"{name}: {cls!r} is not an Aggregator")
    if cls.form() is None:
        raise UserCodeProblem(f"{cls.__name__} defines neither {' nor '.join(Aggregator.FORMS)}")
    try:
        cls()
    except TypeError as error:
        raise UserCodeProblem(f"{cls.__name__} cannot be made without arguments: {error}") from error
    use = UserClass(cls.__module__, cls.__qualname__, (), (), (), Source(name, name).span(0, len(name)))
    code = replace(_code(use, cls), where="")
    payload = pickled(worker.aggregate(code, {}, from_spark_name(returns_spark_type)), use)

    def run(*columns: pa.Array) -> Any:
        import pickle

        return pickle.loads(payload)(*columns)

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # it asks for type hints, which cannot express any number of columns
        function = arrow_udf(run, returns_spark_type, ArrowUDFType.GROUPED_AGG)  # type: ignore[call-overload]
    spark.udf.register(name, function)
    return UserFunction(use, cls, from_spark_name(returns_spark_type), cls.deterministic)


def spans_of(script: Script) -> dict[str, Span]:
    """The places where a script uses user classes, for `explain_failure`."""
    uses: list[UserClass] = []
    for node in script.operators():
        match node:
            case Process() | Reduce() | Combine():
                uses.append(node.user_class)
            case Scan(files=files) if isinstance(files.format, UserClass):
                uses.append(files.format)
            case _:
                uses += (each.use for expression in expressions_of(node) for each in user_functions_in(expression))
    for output in script.outputs:
        if isinstance(output.target, FileTarget) and isinstance(output.target.format, UserClass):
            uses.append(output.target.format)
    return {str(use.span): use.span for use in uses}


# ------------------------------------------------------------------------------------------------- shared with `files`


def code_of(user_class: UserClass, base: type[UserOperator]) -> Code:
    return _code(user_class, load(user_class, base))


def input_of(columns: Iterable[Column]) -> worker.InputColumns:
    columns = tuple(columns)
    return worker.InputColumns(
        tuple(c.spark_name for c in columns),
        tuple(c.name for c in columns),
        types_of((c.name, c.type) for c in columns),
    )


def types_of(columns: Iterable[tuple[str, DataType]]) -> dict[str, type[UserType]]:
    """The classes of the columns that have a type of the user's."""
    types: dict[str, type[UserType]] = {}
    for name, type in columns:
        mark = mark_of(type)
        if mark is not None:
            span = Source(mark.name, mark.name).span(0, len(mark.name))
            found = load_type(UserClass(mark.module, mark.name, (), (), mark.folders, span))
            assert found is not None
            types[name] = found
    return types


def shipped(run: Callable[..., Any], user_class: UserClass) -> Callable[[_Batches], _Batches]:
    """A function for Spark that carries another by value, with all our code and the user's that it needs."""
    payload = pickled(run, user_class)
    task: list[Callable[[_Batches], _Batches]] = []

    # Nested functions are always pickled by value; this one must not refer to anything of this module.
    def run_shipped(batches):  # type: ignore[no-untyped-def]
        import pickle

        if not task:
            task.append(pickle.loads(payload))
        return task[0](batches)

    return run_shipped


def pickled(run: Callable[..., Any], user_class: UserClass) -> bytes:
    with _PICKLING:
        return _pickled(run, user_class)


def _pickled(run: Callable[..., Any], user_class: UserClass) -> bytes:
    # Workers need neither unshuffle nor the user's module: here both are registered to be pickled by value.
    registered = cloudpickle.cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    ours = sys.modules[__name__.partition(".")[0]]
    carried = [module for module in (ours, *_beside(user_class.module)) if module.__name__ not in registered]
    for module in carried:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        return cast(bytes, cloudpickle.dumps(run))  # type: ignore[no-untyped-call]
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise UserCodeProblem(f"{user_class} cannot be sent to Spark's workers: {error}", user_class.span) from error
    finally:
        for module in carried:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _beside(name: str) -> list[ModuleType]:
    """The modules of a project that is not installed: a module and those in the same folder.

    Modules that `user_classes.load` found in a script's folder are not among them: they are not in `sys.modules`.
    """
    top = name.partition(".")[0]
    folder = found_in(top)
    if folder is None or top == "__main__" or folder in map(os.path.abspath, sysconfig.get_paths().values()):
        return []
    tops = [each for each in sys.modules if "." not in each and each != "__main__"]
    return [sys.modules[each] for each in tops if found_in(each) == folder]


def ddl(columns: Iterable[Column]) -> str:
    return ", ".join(f"`{column.spark_name}` {sql_name(column.type)}" for column in columns)


def _two_tables(payload: bytes) -> Callable[[pa.Table, pa.Table], pa.Table]:
    task: list[Callable[[pa.Table, pa.Table], pa.Table]] = []

    def run_shipped(left, right):  # type: ignore[no-untyped-def]
        import pickle

        if not task:
            task.append(pickle.loads(payload))
        return task[0](left, right)

    return run_shipped


def _code(user_class: UserClass, loaded: type[UserOperator]) -> Code:
    function = getattr(loaded, loaded.form() or "")
    return Code(
        named=f"{user_class.module}.{user_class.name}",
        where=str(user_class.span),
        loaded=loaded,
        arguments=user_class.arguments,
        keywords=user_class.keywords,
        folders=user_class.search_path,
        file=function.__code__.co_filename if hasattr(function, "__code__") else None,
    )


def _produced(code: Code, columns: Sequence[Column]) -> Produced:
    types = tuple(column.type for column in columns)
    wire = wire_schema([(column.spark_name, column.type) for column in columns])
    marked = frozenset(column.name for column in columns if mark_of(column.type) is not None)
    return Produced(code, tuple(column.name for column in columns), types, wire, marked)


def wire_schema(columns: Sequence[tuple[str, DataType]]) -> pa.Schema:
    """The Arrow schema in which Spark expects columns."""
    text = ", ".join(f"`{name}` {sql_name(type)}" for name, type in columns)
    # Before Spark 4.3 the time zone is not a parameter, and is UTC.
    zone: Any = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(cast(StructType, StructType.fromDDL(text)), **zone)


def _sort_column(key: SortKey) -> SparkColumn:
    if not isinstance(key.expression, Ref):
        raise InternalError(f"PRESORT by {key.expression}, which is not a column")
    return sort_column(key.expression.column.spark_name, key.descending, key.nulls_first)


def _has_no_exact_equality(type: pa.DataType | None) -> bool:
    return type is None or pa.types.is_floating(type) or pa.types.is_nested(type)
