"""Layouts that Spark must know by the partition number, because it does not see them by columns.

These are the layouts of ranges that we choose for an exchange, of a join whose inputs are partitioned by some of its keys
only, and of keys that Spark normalizes before it hashes or compares them; and of stored rows, unless all operators over them
can use the columns that they are stored by (`shims.function_partitioning`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.expressions import Call, Ref, columns_of, walk
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.sql import quote
from unshuffle.properties import (
    HashFunction,
    JoinKey,
    Partitioned,
    PrefixPartitioned,
    RangeFunction,
    SampledBoundaries,
    TargetedBroadcast,
)
from unshuffle.spark.shims.catalyst import OpaqueCode
from unshuffle.spark.shims.range_number import (
    hash_number,
    normalized_text,
    opaque_number,
    range_number,
    reach_numbers,
)

Spools = Mapping[int, PhysicalPlan]


def numbered_layouts(optimized: PlannedQuery, spools: Spools) -> set[int]:
    """The ids of the exchanges and scans whose layout Spark knows only by the partition number."""
    numbered: set[int] = set()
    co_partitioned: list[set[int]] = []  # the sources of each operator that reads its inputs partition by partition
    nodes = [node for root in optimized.roots for node in root.walk()]
    stored = {id(node) for node in nodes if _is_stored(node.operator)}
    filtered = _Equalities(nodes)
    for node in nodes:
        operator: Any = node.operator
        if isinstance(operator, physical.Exchange) and _is_by_number(operator):
            numbered.add(id(node))
        if id(node) in stored and not _is_known_by_columns(node):
            numbered.add(id(node))
        sources = _input_sources(node, spools)
        if not _reads_columns(node):
            numbered |= sources & stored
        if node.alternative == "partition-wise":
            co_partitioned.append(sources)
        if node.alternative == "pair-wise" and not isinstance(operator, physical.MultisetOperation):
            co_partitioned.append(sources)
            if sources <= stored:
                is_numbered = not _is_on_layout(node, operator.keys)
            else:  # a function of columns, as Spark knows it of scans, is not compatible with a hash
                is_by_all_keys = _is_by_all_keys(node, operator.keys) and not filtered.are_between(*node.inputs)
                is_numbered = bool(sources & stored) or _is_null_safe(operator) or not is_by_all_keys
            numbered |= sources if is_numbered else set()
    return _closure(numbered, co_partitioned)


def _closure(numbered: set[int], co_partitioned: Sequence[set[int]]) -> set[int]:
    """All inputs of one operator are numbered or none is: a number is not compatible with a hash."""
    while True:
        incomplete = [each for each in co_partitioned if each & numbered and not each <= numbered]
        if not incomplete:
            return numbered
        numbered = numbered.union(*incomplete)


def _is_known_by_columns(scan: PhysicalPlan) -> bool:
    """Whether Spark can compute the number of a row's partition from columns as it reads them."""
    layout = scan.delivered.partitioning
    if not isinstance(layout, Partitioned) or not set(layout.columns) <= set(scan.columns):
        return False
    types = [column.type for column in layout.columns]
    if any(t is None or pa.types.is_floating(t) or pa.types.is_nested(t) for t in types):
        return False  # Spark normalizes such keys before it compares them
    match layout.function:
        case HashFunction(types=hashed, family=family):
            return family == "spark" and list(hashed) == types
        case RangeFunction(boundaries=boundaries):
            return not isinstance(boundaries, SampledBoundaries)
        case _:
            return False


_READS_COLUMNS = (
    physical.FileScan,
    physical.Filter,
    physical.Project,
    physical.LocalSort,
    physical.HashAggregate,
    physical.SortAggregate,
    physical.HashJoin,
    physical.MergeJoin,
)


def _reads_columns(node: PhysicalPlan) -> bool:
    """Whether an operator over stored partitions needs nothing but their columns to be run as planned."""
    operator, layout = node.operator, node.delivered.partitioning
    if isinstance(operator, physical.Exchange):
        return operator.readers is None
    if isinstance(layout, PrefixPartitioned):
        return False
    if isinstance(operator, physical.Project) and isinstance(layout, Partitioned):
        # Ranges of a string are ranges of a prefix of it, which does not determine the string.
        return all(operator.source(column) is not None for column in layout.columns)
    is_targeted = any(isinstance(each.delivered.partitioning, TargetedBroadcast) for each in node.inputs)
    return isinstance(operator, _READS_COLUMNS) and not is_targeted


def _is_on_layout(node: PhysicalPlan, keys: Sequence[JoinKey]) -> bool:
    """Whether a join compares the columns that both inputs are partitioned by, as they are."""
    layouts = [child.delivered.partitioning for child in node.inputs]
    if not all(isinstance(layout, Partitioned) for layout in layouts):
        return False
    compared = [key for key in keys if not key.null_safe and not key.is_cast(0) and not key.is_cast(1)]

    def is_key(key: JoinKey, columns: Sequence[Column]) -> bool:
        sides = zip(node.inputs, key.columns, columns, strict=True)
        return all(one == other or child.facts.equal(one, other) for child, one, other in sides)

    pairs = zip(*(layout.columns for layout in layouts if isinstance(layout, Partitioned)), strict=True)
    return all(any(is_key(key, pair) for key in compared) for pair in pairs)


def _is_stored(operator: Any) -> bool:
    return isinstance(operator, physical.FileScan) and isinstance(
        operator.layout.partitioning, Partitioned | PrefixPartitioned
    )


def _is_by_number(exchange: physical.Exchange) -> bool:
    function = getattr(getattr(exchange.how, "scheme", None), "function", None)
    match function:
        case HashFunction(types=types):
            return any(t is None or pa.types.is_floating(t) or pa.types.is_nested(t) for t in types)
        case RangeFunction(boundaries=boundaries):
            return not isinstance(boundaries, SampledBoundaries)
        case _:
            return False


class _Equalities:
    """The equalities in filters. Spark moves one that compares the two sides of a join below it into the join, where it
    becomes a key: then the join is no longer partitioned by all of its keys."""

    def __init__(self, nodes: Sequence[PhysicalPlan]) -> None:
        self._pairs: list[tuple[frozenset[Column], frozenset[Column]]] = []
        self._computed_from: dict[Column, frozenset[Column]] = {}
        for node in nodes:
            match node.operator:
                case physical.Filter(predicate=predicate):
                    calls = [
                        each for each in walk(predicate) if isinstance(each, Call) and each.function in ("=", "<=>")
                    ]
                    self._pairs += [(columns_of(each.arguments[0]), columns_of(each.arguments[1])) for each in calls]
                case physical.Project(outputs=outputs):
                    made = {column: columns_of(e) for column, e in outputs if e != Ref(column)}
                    self._computed_from.update(made)

    def are_between(self, left: PhysicalPlan, right: PhysicalPlan) -> bool:
        sides = frozenset(left.columns), frozenset(right.columns)
        return any(
            self._reach(one, sides[0]) and self._reach(other, sides[1])
            for pair in self._pairs
            for one, other in (pair, pair[::-1])
        )

    def _reach(self, columns: Iterable[Column], wanted: frozenset[Column]) -> bool:
        return any(column in wanted or self._reach(self._computed_from.get(column, ()), wanted) for column in columns)


def _is_null_safe(operator: Any) -> bool:
    """Spark rewrites `<=>` into (coalesce, isnull) keys and loses the partitioning."""
    return isinstance(operator, physical.HashJoin | physical.MergeJoin) and any(key.null_safe for key in operator.keys)


def _is_by_all_keys(node: PhysicalPlan, keys: Sequence[JoinKey]) -> bool:
    """Whether each input is hash partitioned by exactly the join keys, as Spark requires, or not by hash at all."""
    return all(
        _covers(child, [(key.columns[side], key.type) for key in keys]) for side, child in enumerate(node.inputs)
    )


def _covers(child: PhysicalPlan, keys: list[tuple[Column, pa.DataType | None]]) -> bool:
    layout = child.delivered.partitioning
    if not isinstance(layout, Partitioned) or not isinstance(layout.function, HashFunction):
        return True
    for column, type_ in zip(layout.columns, layout.function.types, strict=True):
        match = next((key for key in keys if key[1] == type_ and child.facts.equal(key[0], column)), None)
        if match is None:
            return False
        keys.remove(match)
    return not keys


def _input_sources(node: PhysicalPlan, spools: Spools) -> set[int]:
    return {id(source) for child in node.inputs for source in _sources(child, spools)}


def _sources(node: PhysicalPlan, spools: Spools) -> Iterator[PhysicalPlan]:
    """The exchanges and scans that established the layout of a plan."""
    operator: Any = node.operator
    match operator:
        case physical.Exchange():
            yield node
        case physical.FileScan() if _is_stored(operator):
            yield node
        case physical.ReadSpool():
            yield from _sources(spools[operator.spool], spools)
        case _ if node.alternative in ("pair-wise", "partition-wise"):
            for child in node.inputs:
                yield from _sources(child, spools)
        case _ if operator.carried is not None:
            yield from _sources(node.inputs[operator.carried], spools)
        case _:
            return


def partition_number(
    spark: SparkSession, layout: Partitioned, name: Callable[[Column], str] | None = None
) -> SparkColumn:
    """The number of a row's partition, over a frame that has the columns of the layout by their `name`."""
    columns = [F.col(quote(name(c) if name is not None else c.spark_name)) for c in layout.columns]
    match layout.function:
        case RangeFunction() as function:
            return range_number(spark, columns, function)
        case HashFunction() as function:
            return hash_number(spark, columns, function)
        case other:
            raise InternalError(f"rows cannot be numbered by {other}")


def partition_number_text(
    spark: SparkSession, layout: Partitioned, call: Callable[[OpaqueCode, Sequence[str]], str]
) -> str:
    """The same as SQL. `call` gives the text of an expression that has none."""
    columns = [quote(c.spark_name) for c in layout.columns]
    match layout.function:
        case RangeFunction() as function:
            return call(opaque_number(spark, function), columns)
        case HashFunction() as function:
            typed = [normalized_text(*each) for each in zip(columns, function.types, strict=True)]
            return f"pmod({call(opaque_number(spark, function), typed)}, {function.partitions})"
        case other:
            raise InternalError(f"rows cannot be numbered by {other}")


def reached_partition_numbers(spark: SparkSession, layout: TargetedBroadcast) -> SparkColumn:
    """The numbers of the partitions that a row is sent to, each in a row of its own."""
    columns = [F.col(quote(c.spark_name)) for c in layout.columns]
    return F.explode(F.sequence(*reach_numbers(spark, columns, layout.function)))
