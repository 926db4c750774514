"""Which layouts Spark must know by the number of the partition, because it does not see them by columns: those of stored rows
and of ranges that we choose, where a join's inputs are laid out by some of its keys alone, and where keys are hashed or
compared in a form of Spark's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.algebra.sql import quote
from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.optimizer import Optimized
from unshuffle.properties import Covering, HashFunction, JoinKey, Partitioned, RangeFunction, Sampled, Within
from unshuffle.spark.range_number import hash_number, range_number, reach_numbers


def numbered(optimized: Optimized, spools: dict[int, Physical]) -> set[int]:
    """The exchanges and scans whose layout Spark knows only by the partition's number."""
    found: set[int] = set()
    alike: list[set[int]] = []  # what makes inputs of one operator
    for root in optimized.roots:
        for node in root.walk():
            operator: Any = node.operator
            if _is_stored(operator) or (isinstance(operator, ops.Move) and _is_by_number(operator)):
                found.add(id(node))
            if node.alternative == "partition-wise":
                alike.append(_all_sources(node, spools))
            if node.alternative == "pair-wise" and not isinstance(operator, ops.MultisetOperation):
                alike.append(_all_sources(node, spools))
                whole = all(_are_all_keys(child, operator.keys, side) for side, child in enumerate(node.inputs))
                if not whole or _is_null_safe(operator):
                    found |= alike[-1]
    return _closed(found, alike)


def _closed(found: set[int], alike: Sequence[set[int]]) -> set[int]:
    """Inputs of one operator have numbers all or none: a number and a column do not meet."""
    while True:
        more = [each for each in alike if each & found and not each <= found]
        if not more:
            return found
        found = found.union(*more)


def _all_sources(node: Physical, spools: dict[int, Physical]) -> set[int]:
    return {id(source) for child in node.inputs for source in _sources(child, spools)}


def _is_stored(operator: Any) -> bool:
    return isinstance(operator, ops.FileScan) and isinstance(operator.layout.partitioning, Partitioned | Within)


def _is_by_number(move: ops.Move) -> bool:
    function = getattr(getattr(move.how, "scheme", None), "function", None)
    match function:
        case HashFunction(types=types):
            return any(t is None or pa.types.is_floating(t) or pa.types.is_nested(t) for t in types)
        case RangeFunction(boundaries=boundaries):
            return not isinstance(boundaries, Sampled)
        case _:
            return False


def _is_null_safe(operator: Any) -> bool:
    """Spark joins with `<=>` by two keys, whether a value is NULL and a default in its place: it knows no layout by them."""
    return isinstance(operator, ops.HashJoin | ops.MergeJoin) and any(key.null_safe for key in operator.keys)


def _are_all_keys(child: Physical, keys: Sequence[JoinKey], side: int) -> bool:
    layout = child.delivered.partitioning
    if not isinstance(layout, Partitioned) or not isinstance(layout.function, HashFunction):
        return True
    wanted = [(key.columns[side], key.type) for key in keys]
    for column, type_ in zip(layout.columns, layout.function.types, strict=True):
        match = next((k for k in wanted if k[1] == type_ and child.facts.equal(k[0], column)), None)
        if match is None:
            return False
        wanted.remove(match)
    return not wanted


def _sources(node: Physical, spools: dict[int, Physical]) -> Iterator[Physical]:
    """The exchanges and scans that made the layout of a plan. What is laid out alike is so on both sides of a join."""
    operator: Any = node.operator
    match operator:
        case ops.Move():
            yield node
        case ops.FileScan() if _is_stored(operator):
            yield node
        case ops.ReadSpool():
            yield from _sources(spools[operator.spool], spools)
        case _ if node.alternative in ("pair-wise", "partition-wise"):
            for child in node.inputs:
                yield from _sources(child, spools)
        case _ if operator.carried is not None:
            yield from _sources(node.inputs[operator.carried], spools)
        case _:
            return


def number_of(spark: SparkSession, layout: Partitioned, name: Callable[[Column], str] | None = None) -> SparkColumn:
    """The number of a row's partition, over a frame that has the columns of the layout by their `name`."""
    on = [F.col(quote(name(c) if name is not None else c.spark_name)) for c in layout.columns]
    match layout.function:
        case RangeFunction() as function:
            return range_number(spark, on, function)
        case HashFunction() as function:
            return hash_number(on, function)
        case other:
            raise InternalError(f"rows cannot be numbered by {other}")


def numbers_of(spark: SparkSession, covering: Covering) -> SparkColumn:
    """The numbers of the partitions that a row is copied to, each in a row of its own."""
    on = [F.col(quote(c.spark_name)) for c in covering.columns]
    return F.explode(F.sequence(*reach_numbers(spark, on, covering.function)))
