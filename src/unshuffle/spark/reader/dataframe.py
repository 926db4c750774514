"""A PySpark DataFrame as a logical plan, from the plan that Catalyst's analyzer made of it.

After analysis names are resolved, types coerced and views expanded, so each Catalyst operator has one of ours.
`plan_reader` reads the operators, `expressions/` their expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.declarations import BoundScript, Declarations
from unshuffle.effort import PlanSize
from unshuffle.errors import UserError
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Output, Plan, Project, Script
from unshuffle.spark.reader.catalyst_tree import CatalystNode, RunsWhole, read_plan
from unshuffle.spark.reader.plan_reader import NeedsInlining, PlanReader
from unshuffle.spark.session import is_connect, refuse_connect
from unshuffle.spark.shims.catalyst import analyzed_plan, inline_ctes, with_cached_data
from unshuffle.spark.shims.plan_size import plan_size
from unshuffle.spark.shims.plan_tree import PlanTree


def logical_plans(
    frames: Sequence[DataFrame], catalog: str | Path | None = None, declarations: Declarations | None = None
) -> BoundScript:
    """DataFrames as a script with an output for each."""
    numbers = ColumnNumbers()
    bound = [logical_plan(frame, catalog, declarations, numbers) for frame in frames]
    outputs = tuple(output for each in bound for output in each.script.outputs)
    return BoundScript(Script(outputs), tuple(constraint for each in bound for constraint in each.constraints))


def left_to_spark(frames: Sequence[DataFrame], reason: str) -> BoundScript:
    """DataFrames as a script in which Spark runs each of them as a whole."""
    numbers = ColumnNumbers()
    outputs = []
    for frame in frames:
        reader = PlanReader(frame.sparkSession, columns=numbers, is_inlined=True)
        outputs.append(Output(reader.left_to_spark(CatalystNode.of(analyzed_plan(frame)), reason).plan, None))
    return BoundScript(Script(tuple(outputs)))


def logical_plan(
    frame: DataFrame,
    catalog: str | Path | None = None,
    declarations: Declarations | None = None,
    numbers: ColumnNumbers | None = None,
) -> BoundScript:
    """A DataFrame as a script with one output. `catalog` is a folder of stored statistics, `declarations` are the
    constraints declared on tables, and `numbers` gives ids to columns if the DataFrame is part of a larger plan."""
    if not type(frame).__module__.startswith("pyspark.sql"):
        raise UserError(f"a DataFrame of PySpark is needed, not {type(frame).__name__}")
    spark = frame.sparkSession
    refuse_connect(spark, "reading a DataFrame")
    numbers = numbers or ColumnNumbers()
    reader = PlanReader(spark, catalog, declarations, numbers)
    try:
        tree = PlanTree.of_frame(frame)
        if tree.is_streaming:
            raise UserError("a streaming DataFrame cannot be optimized", hint="only batch DataFrames can be")
        try:
            plan = reader.read(read_plan(tree)).plan
        except NeedsInlining:
            reader = PlanReader(spark, catalog, declarations, numbers, is_inlined=True)
            inlined = read_plan(PlanTree.of_plan(spark, inline_ctes(spark, tree.at(""))))
            try:
                plan = reader.read(inlined).plan
            except NeedsInlining:
                plan = reader.left_to_spark(inlined, "common table expressions that cannot be inlined").plan
    except (Py4JError, RecursionError, RunsWhole) as error:
        reason = str(error) if isinstance(error, RunsWhole) else "a plan that cannot be read from Python"
        reader = PlanReader(spark, catalog, declarations, numbers, is_inlined=True)
        analyzed = with_cached_data(spark, analyzed_plan(frame))
        plan = reader.left_to_spark(CatalystNode.of(analyzed), reason).plan
    script = Script((Output(_named(plan, frame.columns, reader.columns), None),))
    return BoundScript(script, tuple(reader.constraints))


def size_of(frame: DataFrame) -> PlanSize | None:
    """What a DataFrame reads and does, and None where it is not to be optimized at all."""
    is_readable = type(frame).__module__.startswith("pyspark.sql") and not is_connect(frame)
    return plan_size(frame) if is_readable else None


def _named(plan: Plan, names: Sequence[str], numbers: ColumnNumbers) -> Plan:
    """The plan with its columns under the DataFrame's names."""
    if [column.name for column in plan.columns] == list(names):
        return plan
    pairs = list(zip(plan.columns, names, strict=True))
    outputs = [(column if column.name == name else numbers.like(column, name), Ref(column)) for column, name in pairs]
    return Project(plan, tuple(outputs))
