"""User-defined operators as Spark runs them: PROCESS, REDUCE, COMBINE, EXTRACT, and aggregate functions.

Each is one Arrow function of Spark's over code that `worker.py` makes. A frame that comes in has its columns under
`column.spark_name`, and so has the one that goes out, with exactly the declared types.

Of a REDUCE, Spark sorts rows on the keys anyway to form the groups. Its PRESORT is a native row number over (PARTITION
BY keys ORDER BY presort): one sort serves both, it can spill, and Spark knows that the order is needed. The numbers show
the worker that rows come in that order. They nearly always do; but adaptive execution can be told to split skewed joins
at any price (`spark.sql.adaptive.forceOptimizeSkewedJoin`), and then shuffles between the numbering and the grouping.
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

from unshuffle.algebra.expressions import Ref, SortKey
from unshuffle.algebra.logical import Combine, Process, Reduce, Scan, Script, Target, UserClass
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import from_spark_name, spark_name
from unshuffle.errors import InternalError, Source, Span, UserCodeProblem
from unshuffle.loading import found_in, load
from unshuffle.operators import Aggregator, Combiner, Extractor, Processor, Reducer, UserOperator
from unshuffle.spark import worker
from unshuffle.spark.failures import explain_failure as explain_failure
from unshuffle.spark.user_code import Code, Produced

_Batches = Iterator[pa.RecordBatch]


def process(frame: DataFrame, node: Process) -> DataFrame:
    code = code_of(node.user_class, Processor)
    run = worker.process(code, input_of(node.child.columns), _produced(code, node.columns))
    return frame.mapInArrow(shipped(run, node.user_class), ddl(node.columns))


def reduce(frame: DataFrame, node: Reduce, *, layout: Sequence[str] = ()) -> DataFrame:
    """Groups, each in one call.

    Spark brings rows together and sorts them, unless it knows them to be so. `layout` names columns of the frame that
    the keys determine (a partition number), by which Spark knows how rows are partitioned: they join the keys.
    """
    code = code_of(node.user_class, Reducer)
    keys = [col(name) for name in (*layout, *(key.spark_name for key in node.keys))]
    if node.presort:
        order = Window.partitionBy(*keys).orderBy(*map(_order, node.presort))
        frame = frame.withColumn(worker.NUMBER, row_number().over(order))
    # A float may differ from itself in its bits, and nested values cannot be compared: READONLY is not checked there.
    constant = tuple(
        (made.spark_name, given.name)
        for made, given in node.readonly
        if given in node.keys and made.type == given.type and not _unlike_itself(given.type)
    )
    keyed = tuple(key.name for key in node.keys)
    run = worker.reduce(
        code, input_of(node.child.columns), _produced(code, node.columns), keyed, bool(node.presort), constant
    )
    function = shipped(run, node.user_class)
    function.__annotations__ = {"batches": Iterator[pa.RecordBatch], "return": Iterator[pa.RecordBatch]}
    return frame.groupBy(*keys).applyInArrow(function, ddl(node.columns))


def combine(
    left: DataFrame, right: DataFrame, node: Combine, *, layout: tuple[Sequence[str], Sequence[str]] = ((), ())
) -> DataFrame:
    """Pairs of groups, each in one call. `layout` is as for `reduce`, of the left and the right input."""
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
    """Whole files, spread over tasks by size. Local files are opened where they are; others come through Spark."""
    user_class = node.files.format
    assert isinstance(user_class, UserClass)
    code = code_of(user_class, Extractor)
    reader = spark.read.format("binaryFile")
    if node.files.base is not None:
        reader = reader.option("basePath", node.files.base)
    files = reader.load(list(node.files.paths))
    paths = files.select("path")
    local = all(file.startswith("file:") for file in files.inputFiles())
    run = worker.extract(code, _produced(code, node.columns))
    return (paths if local else files.select("path", "content")).mapInArrow(shipped(run, user_class), ddl(node.columns))


def register_aggregator(spark: SparkSession, name: str, cls: type[Aggregator], returns_spark_type: str) -> None:
    """Makes `name` an aggregate function of the session's queries. An instance is made for every group."""
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
    payload = pickled(worker.aggregate(code, from_spark_name(returns_spark_type)), use)

    def run(*columns: pa.Array) -> Any:
        import pickle

        return pickle.loads(payload)(*columns)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it asks for hints, which cannot say "as many columns as come"
        function = arrow_udf(run, returns_spark_type, ArrowUDFType.GROUPED_AGG)  # type: ignore[call-overload]
    spark.udf.register(name, function)


def spans_of(script: Script) -> dict[str, Span]:
    """Where a script uses each user class, as `explain_failure` asks for it."""
    uses: list[UserClass] = []
    for node in script.operators():
        match node:
            case Process() | Reduce() | Combine():
                uses.append(node.user_class)
            case Scan(files=files) if isinstance(files.format, UserClass):
                uses.append(files.format)
            case _:
                pass
    for output in script.outputs:
        if isinstance(output.target, Target) and isinstance(output.target.format, UserClass):
            uses.append(output.target.format)
    return {str(use.span): use.span for use in uses}


# ------------------------------------------------------------------------------------------------- shared with `files`


def code_of(user_class: UserClass, base: type[UserOperator]) -> Code:
    return _code(user_class, load(user_class, base))


def input_of(columns: Iterable[Column]) -> worker.Input:
    columns = tuple(columns)
    return worker.Input(tuple(c.spark_name for c in columns), tuple(c.name for c in columns))


def shipped(run: Callable[..., Any], user_class: UserClass) -> Callable[[_Batches], _Batches]:
    """A function for Spark that carries another by value, with all of ours and the user's code that it needs."""
    payload = pickled(run, user_class)
    task: list[Callable[[_Batches], _Batches]] = []

    # Nested functions always travel by value; this one must not refer to anything of this module.
    def run_shipped(batches):  # type: ignore[no-untyped-def]
        import pickle

        if not task:
            task.append(pickle.loads(payload))
        return task[0](batches)

    return run_shipped


def pickled(run: Callable[..., Any], user_class: UserClass) -> bytes:
    # Workers need to have neither unshuffle nor the user's module: while this runs, both count as code to be carried.
    known = cloudpickle.cloudpickle.list_registry_pickle_by_value()  # type: ignore[no-untyped-call]
    ours = sys.modules[__name__.partition(".")[0]]
    carried = [module for module in (ours, *_beside(user_class.module)) if module.__name__ not in known]
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
    """The modules of a project that is not installed: a module's own and those it was found beside.

    What `loading` found in a script's folder is not among them: no module of that name is left to refer to.
    """
    top = name.partition(".")[0]
    folder = found_in(top)
    if folder is None or top == "__main__" or folder in map(os.path.abspath, sysconfig.get_paths().values()):
        return []
    tops = [known for known in sys.modules if "." not in known and known != "__main__"]
    return [sys.modules[known] for known in tops if found_in(known) == folder]


def ddl(columns: Iterable[Column]) -> str:
    return ", ".join(f"`{column.spark_name}` {spark_name(column.type)}" for column in columns)


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
    schema = cast(StructType, StructType.fromDDL(ddl(columns)))
    zone: Any = (
        {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    )  # by default, before 4.3
    types = tuple(column.type for column in columns)
    return Produced(code, tuple(column.name for column in columns), types, to_arrow_schema(schema, **zone))


def _order(key: SortKey) -> SparkColumn:
    if not isinstance(key.expression, Ref):
        raise InternalError(f"PRESORT by {key.expression}, which is not a column")
    column = col(key.expression.column.spark_name)
    if key.descending:
        return column.desc_nulls_first() if key.nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if key.nulls_first else column.asc_nulls_last()


def _unlike_itself(type: pa.DataType | None) -> bool:
    return type is None or pa.types.is_floating(type) or pa.types.is_nested(type)
