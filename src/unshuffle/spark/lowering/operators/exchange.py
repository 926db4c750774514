"""Exchanges: by hash, by range, by partition number, into one partition, broadcasts, and repartitioning in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.sql import quote
from unshuffle.properties import (
    HashFunction,
    InitialPartitioning,
    Partitioned,
    RangeFunction,
    Repartitioning,
    Replicated,
    SampledBoundaries,
    TargetedBroadcast,
    UnknownPartitioning,
)
from unshuffle.properties.layouts.related_layouts import connections
from unshuffle.spark.lowering.baseline import name_of
from unshuffle.spark.lowering.lowered import Lowered, numbered, select_only
from unshuffle.spark.lowering.partition_number import partition_number, reached_partition_numbers
from unshuffle.spark.shims.narrow_repartition import narrow_repartition
from unshuffle.spark.shims.plan_bridge import (
    GatherExchange,
    HashExchange,
    NumberExchange,
    RangeExchange,
    SparkExchange,
    repartitioned,
)

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering

_Keyed = tuple[Lowered, SparkExchange]  # rows with the columns that an exchange needs, and the exchange


def exchange(lowering: Lowering, node: PhysicalPlan, operator: physical.Exchange) -> Lowered:
    rows, how = lowering.lower(node.inputs[0]), operator.how
    if operator.readers is not None:
        return _in_place(lowering, node, operator, rows)
    if isinstance(how, Repartitioning) and isinstance(how.scheme, Replicated):
        return replace(rows, is_broadcast=True)
    if isinstance(how, InitialPartitioning | Repartitioning) and isinstance(how.scheme, UnknownPartitioning):
        partitions = how.scheme.partitions or node.size.partitions
        return Lowered(f"SELECT /*+ REPARTITION({partitions}) */ * FROM ({select_only(rows, node.columns)})")
    keyed, spark_exchange = with_exchange_keys(lowering, rows, node, node.inputs[0].columns)
    return replace(keyed, sql=_exchanged(lowering, keyed.sql, spark_exchange))


def _exchanged(lowering: Lowering, sql: str, spark_exchange: SparkExchange) -> str:
    match spark_exchange:
        case GatherExchange():
            return f"SELECT /*+ REPARTITION(1) */ * FROM ({sql})"
        case HashExchange(columns, partitions):
            return f"SELECT /*+ REPARTITION({partitions}, {', '.join(map(quote, columns))}) */ * FROM ({sql})"
        case NumberExchange() | RangeExchange():
            return lowering.changed(sql, repartitioned(spark_exchange))


def _in_place(lowering: Lowering, node: PhysicalPlan, operator: physical.Exchange, rows: Lowered) -> Lowered:
    """Merges and splits partitions without a shuffle: each task reads the input partitions that it needs."""
    old, new = node.inputs[0].delivered.partitioning, getattr(operator.how, "scheme", None)
    if not isinstance(old, Partitioned) or not isinstance(new, Partitioned):
        raise InternalError(f"an exchange by {new} cannot read {old} in place")
    reads = connections(old.function, new.function)
    if reads is None:
        raise InternalError(f"it is unknown which partitions of {old} an exchange by {new} needs")
    number = lowering.new_number()
    frame = lowering.query(select_only(rows, node.columns))
    all_reads = [i for partitions in reads for i in partitions]
    is_split = len(all_reads) != len(set(all_reads))  # some input partition has rows for several output partitions
    belongs = partition_number(lowering.spark, new) if is_split else None
    frame = narrow_repartition(frame, reads, number.spark_name, belongs, partitions=old.function.partitions)
    return numbered(lowering.select_from(frame), number)


def with_exchange_keys(
    lowering: Lowering, rows: Lowered, node: PhysicalPlan, columns: Sequence[Column]
) -> tuple[Lowered, SparkExchange]:
    """These columns of the rows, with the columns that an exchange partitions by, and the exchange as Spark runs it."""
    keyed, lowering.spark_exchanges[id(node)] = _with_exchange_keys(lowering, select_only(rows, columns), node)
    return keyed, lowering.spark_exchanges[id(node)]


def _with_exchange_keys(lowering: Lowering, sql: str, node: PhysicalPlan) -> _Keyed:
    scheme = getattr(node.operator.how, "scheme", None)  # type: ignore[attr-defined]
    is_numbered = id(node) in lowering.numbered_layouts
    match scheme:
        case None:
            return Lowered(sql), GatherExchange()
        case TargetedBroadcast(function=function):
            number = lowering.new_number()
            numbers = reached_partition_numbers(lowering.spark, scheme)
            return _by_number(lowering.with_column(sql, number, numbers), number, function.partitions)
        case Partitioned(function=RangeFunction(boundaries=SampledBoundaries()) as function, columns=columns):
            return _by_sampled_range(sql, function, columns)
        case Partitioned(function=HashFunction() as function, columns=columns) if not is_numbered:
            return _by_hash(lowering, sql, function, columns)
        case Partitioned(function=HashFunction() | RangeFunction() as function):
            number = lowering.new_number()
            return _by_number(lowering.with_partition_number(sql, number, scheme), number, function.partitions)
        case _:
            raise InternalError(f"an exchange by {scheme} cannot be run")


def _by_number(sql: str, number: Column, partitions: int) -> _Keyed:
    return numbered(sql, number), NumberExchange(number.spark_name, partitions)


def _by_sampled_range(sql: str, function: RangeFunction, columns: tuple[Column, ...]) -> _Keyed:
    keys = tuple((c.spark_name, o.descending, o.nulls_first) for c, o in zip(columns, function.keys, strict=True))
    rows = Lowered(sql, columns, range_carriers={c: c for c in columns})
    return rows, RangeExchange(keys, function.partitions)


def _by_hash(lowering: Lowering, sql: str, function: HashFunction, columns: Sequence[Column]) -> _Keyed:
    """By hash of the columns, cast to the types that are hashed: int and bigint hash differently."""
    typed = list(zip(columns, function.types, strict=True))
    casts = {
        (column, type_): lowering.new_column(column.name, type_) for column, type_ in typed if column.type != type_
    }
    if casts:
        cast_columns = ", ".join(f"{lowering.typed(*source)} AS {name_of(cast)}" for source, cast in casts.items())
        sql = f"SELECT *, {cast_columns} FROM ({sql})"
    carriers = tuple(casts.get(source, source[0]) for source in typed)
    rows = Lowered(sql, carriers, tuple(casts.values()), casts)
    return rows, HashExchange(tuple(c.spark_name for c in carriers), function.partitions)
