"""Plain Spark beside unshuffle: both run in turn, and their rows are compared as multisets.

NULLs are equal, -0.0 is 0.0 and NaN is NaN, as in GROUP BY. Sums of floating-point numbers depend on the order in which
Spark adds them, so floats are equal within a relative tolerance: rows are grouped by their other columns, and the floats
of each group compared one by one in sorted order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StringType, StructType
from pyspark.sql.types import DataType as SparkType

from unshuffle.results import Comparison
from unshuffle.spark.execution.run import Execution, Replacement, as_measured, consume, measured
from unshuffle.spark.shims.catalyst import analyzed_plan, frame_of

if TYPE_CHECKING:
    from unshuffle.spark.execution.metrics import Measurement

TOLERANCE = 1e-9

Side = Callable[[Callable[[Execution], Any]], Any]  # what an action makes of the execution that it is given


def compared(
    spark: SparkSession, baseline: Callable[[], Execution], optimized: Side, runs: int
) -> tuple[Comparison, Execution]:
    """Both sides run in turn, and once more for their rows. The execution returned is that of the optimized side."""
    sides: dict[str, Side] = {"baseline": lambda action: action(baseline()), "optimized": optimized}
    taken: dict[str, list[Measurement]] = {"baseline": [], "optimized": []}
    rows = dict.fromkeys(sides, 0)
    replaced: list[Replacement] = []
    for _ in range(runs):
        for name, side in sides.items():
            with measured(spark) as measurement:
                rows[name], replaced_now = side(_consumed)
            taken[name].append(measurement)
            replaced += replaced_now
    plain = baseline()

    def same_as_plain(execution: Execution) -> tuple[bool, Execution]:
        pairs = zip(plain.frames, execution.frames, strict=True)
        return all(same_rows(_in_session(execution.spark, a), b) for a, b in pairs), execution

    same, execution = optimized(same_as_plain)
    each = {name: as_measured(taken[name], rows[name]) for name in sides}
    comparison = Comparison(
        each["baseline"],
        each["optimized"],
        execution.optimize_ms,
        same,
        execution.fallbacks,
        tuple(map(str, replaced)),
    )
    return comparison, execution


def _consumed(execution: Execution) -> tuple[int, tuple[Replacement, ...]]:
    return consume(execution), execution.replaced


def _in_session(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """A DataFrame in the session of our plan, which is made for the settings of that session."""
    return frame if frame.sparkSession is spark else frame_of(spark, analyzed_plan(frame))


def same_rows(left: DataFrame, right: DataFrame) -> bool:
    if [f.dataType for f in left.schema.fields] != [f.dataType for f in right.schema.fields]:
        return False
    names = [f"c{i}" for i in range(len(left.columns))]
    left, right = (_comparable(frame.toDF(*names)) for frame in (left, right))
    floats = [f.name for f in left.schema.fields if isinstance(f.dataType, FloatType | DoubleType)]
    exact = [name for name in names if name not in floats]
    a, b = (_grouped(frame, exact, floats) for frame in (left, right))
    same_key = F.lit(True)
    for name in exact:
        same_key = same_key & F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}"))
    # Each side is one row a key, so a key that only one side has shows as a missing count on the other.
    joined = a.alias("a").join(b.alias("b"), same_key, "full")
    different = ~F.col("a.n").eqNullSafe(F.col("b.n"))
    if floats:
        close = F.forall(
            F.arrays_zip(F.col("a.floats").alias("x"), F.col("b.floats").alias("y")), _row_is_close(floats)
        )
        different = different | ~F.coalesce(close, F.lit(False))
    return joined.where(different).isEmpty()


def _grouped(frame: DataFrame, exact: list[str], floats: list[str]) -> DataFrame:
    aggregates = [F.count(F.lit(1)).alias("n")]
    if floats:
        # Rounded first, so that values that differ in the last bits sort alike on both sides.
        rounded = [F.round(F.col(f), 6).alias(f"r{f}") for f in floats]
        aggregates.append(F.sort_array(F.collect_list(F.struct(*rounded, *floats))).alias("floats"))
    return frame.groupBy(*exact).agg(*aggregates) if exact else frame.agg(*aggregates)


def _row_is_close(floats: list[str]):  # type: ignore[no-untyped-def]
    def close(pair: Column) -> Column:
        result = F.lit(True)
        for name in floats:
            x, y = pair["x"][name], pair["y"][name]
            margin = TOLERANCE * F.greatest(F.abs(x), F.abs(y))
            result = result & (x.eqNullSafe(y) | F.coalesce(F.abs(x - y) <= margin, F.lit(False)))
        return result

    return close


def _comparable(frame: DataFrame) -> DataFrame:
    """Types that cannot be grouped by, as text: maps, and whatever holds one."""
    return frame.select(
        *(
            F.to_json(F.struct(F.col(f.name))).alias(f.name) if _holds_map(f.dataType) else F.col(f.name)
            for f in frame.schema.fields
        )
    )


def _holds_map(type: SparkType) -> bool:
    match type:
        case MapType():
            return True
        case ArrayType(elementType=element):
            return _holds_map(element)
        case StructType(fields=fields):
            return any(_holds_map(f.dataType) for f in fields)
        case StringType():
            return type.collation != "UTF8_BINARY" if hasattr(type, "collation") else False
        case _:
            return type.typeName() in ("variant",)
