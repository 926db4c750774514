"""Rows of a structured stream, a task for each partition of the layout that a plan reads them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import StructType

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import Expression, Opaque, Subquery, walk
from unshuffle.algebra.predicates import is_deterministic
from unshuffle.algebra.sql import quote
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import spark_name
from unshuffle.errors import InternalError
from unshuffle.properties import HashFunction, Partitioned, RangeFunction, Sorted, Within
from unshuffle.spark.columns import column
from unshuffle.spark.numbering import number_of
from unshuffle.spark.own_range import OwnRange
from unshuffle.spark.stored_scan import Piece, stored_scan
from unshuffle.streams.logical_partitions import logical_partitions


def can_choose(predicate: Expression) -> bool:
    """Can rows be chosen by it where they are read?"""
    return is_deterministic(predicate) and not any(isinstance(part, Subquery | Opaque) for part in walk(predicate))


def rows(spark: SparkSession, operator: ops.FileScan, number: str, predicate: Expression | None) -> DataFrame:
    """The rows that may satisfy the predicate, in the plan's names, with the number of the partition that each is in."""
    scan, layout = operator.scan, operator.layout.partitioning
    if scan.stream is None or not isinstance(layout, Partitioned | Within):
        raise InternalError(f"{scan.label} is no stored layout")
    function = layout.function if operator.readers is not None else scan.stream.manifest.function
    if not isinstance(function, HashFunction | RangeFunction):
        raise InternalError(f"{scan.label} cannot be read as {function}")
    found = logical_partitions(scan.stream.manifest, function, scan.within)
    belongs: SparkColumn | OwnRange | None = None
    if found.filtered:
        if not isinstance(layout, Partitioned):
            raise InternalError(f"rows of {scan.label} cannot be told apart by {layout}")
        if isinstance(function, RangeFunction) and OwnRange.serves(function):
            belongs = OwnRange(function, [each.name for each in layout.columns], number)
        else:
            belongs = number_of(spark, layout, lambda each: each.name)
    pieces = [
        [
            Piece(scan.stream.path_of(part.file), part.file.bytes, part.start, part.length, 0, part.whole)
            for part in parts
        ]
        for parts in found.parts
    ]
    frame = stored_scan(
        spark,
        _schema(scan.columns),
        pieces,
        number,
        belongs=belongs,
        predicate=_column(spark, predicate) if predicate is not None else None,
        order=[
            (key.column.name, key.descending, key.nulls_first)
            for key in operator.layout.local
            if isinstance(key, Sorted)
        ],
        rows=scan.stream.manifest.rows,
        bytes=scan.stream.manifest.bytes,
    )
    named = (F.col(quote(each.name)).alias(each.spark_name) for each in scan.columns)
    return frame.select(*named, F.col(number))


def _schema(columns: Sequence[Column]) -> StructType:
    return cast(StructType, StructType.fromDDL(", ".join(f"{quote(c.name)} {spark_name(c.type)}" for c in columns)))


def _column(spark: SparkSession, predicate: Expression) -> SparkColumn:
    def no_subquery(plan: object) -> str:
        raise InternalError("rows are not chosen by a subquery where they are read")

    return column(spark, predicate, lambda each: quote(each.name), no_subquery)
