"""Operators over several inputs: concatenation, and INTERSECT ALL and EXCEPT ALL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import HashFunction, Partitioned
from unshuffle.spark.lowering.baseline import names_of
from unshuffle.spark.lowering.lowered import Lowered, in_one_partition, is_serial, numbered, select_only
from unshuffle.spark.shims.narrow_repartition import narrow_repartition

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering

Union = physical.Concatenate | physical.PartitionwiseUnion


def concatenate(lowering: Lowering, node: PhysicalPlan, operator: Union) -> Lowered:
    inputs, layout = [lowering.lower(child) for child in node.inputs], node.delivered.partitioning
    if isinstance(layout, Partitioned) and all(each.is_numbered for each in inputs):
        return _by_partition_number(lowering, node, operator, layout.function.partitions)
    is_hashed = isinstance(layout, Partitioned) and isinstance(layout.function, HashFunction)
    if is_hashed and all(len(each.carriers) == len(inputs[0].carriers) for each in inputs):
        return _by_hash(lowering, node, operator, inputs)
    sql = _set_operation(lowering, "UNION ALL", node, operator.inputs, operator.columns)
    return Lowered(in_one_partition(sql) if is_serial(node) else sql)


def _by_hash(lowering: Lowering, node: PhysicalPlan, operator: Union, inputs: Sequence[Lowered]) -> Lowered:
    """A union that keeps the hash partitioning of its inputs. Spark sees that they are partitioned alike if each carrier is
    at the same position in all of them; a carrier that is not is appended."""
    pairs = zip(inputs, operator.inputs, strict=True)
    listings = [_cast_columns(rows, columns, operator.columns) for rows, columns in pairs]
    carriers, appended = [], {}
    for i, same_carrier in enumerate(zip(*(each.carriers for each in inputs), strict=True)):
        position = _common_position(same_carrier, listings)
        if position is None:
            appended[i] = lowering.new_column(same_carrier[0].name, same_carrier[0].type)
        carriers.append(appended[i] if position is None else operator.columns[position])
    extended = [
        (*listing, *(rows.carriers[i] for i in appended)) for listing, rows in zip(listings, inputs, strict=True)
    ]
    extras = tuple(appended.values())
    sql = _set_operation(lowering, "UNION ALL", node, extended, (*operator.columns, *extras))
    return Lowered(sql, tuple(carriers), extras)


def _common_position(carriers: Sequence[Column], listings: Sequence[Sequence[Column]]) -> int | None:
    """The position at which each listing has its carrier, if it is the same for all."""
    pairs = zip(carriers, listings, strict=True)
    positions = {listing.index(carrier) if carrier in listing else None for carrier, listing in pairs}
    return positions.pop() if len(positions) == 1 else None


def _by_partition_number(lowering: Lowering, node: PhysicalPlan, operator: Union, partitions: int) -> Lowered:
    """A union of partitions with equal numbers. Spark alone would append the partitions of all inputs."""
    number = lowering.new_number()
    pairs = zip(node.inputs, operator.inputs, strict=True)
    inputs = [(*columns, *lowering.lower(child).carriers) for child, columns in pairs]
    sql = _set_operation(lowering, "UNION ALL", node, inputs, (*operator.columns, number))
    reads = [range(i, partitions * len(node.inputs), partitions) for i in range(partitions)]
    frame = narrow_repartition(lowering.query(sql), reads, number.spark_name)
    return numbered(lowering.select_from(frame), number)


def multiset_operation(lowering: Lowering, node: PhysicalPlan, operator: physical.MultisetOperation) -> Lowered:
    inputs = [plan.columns for plan in operator.operation.inputs]
    word = f"{operator.operation.kind.value.upper()} ALL"
    return Lowered(_set_operation(lowering, word, node, inputs, operator.columns))


def _set_operation(
    lowering: Lowering, word: str, node: PhysicalPlan, inputs: Sequence[Sequence[Column]], columns: Sequence[Column]
) -> str:
    pairs = [(lowering.lower(child), listing) for child, listing in zip(node.inputs, inputs, strict=True)]
    operands = [f"({select_only(rows, _cast_columns(rows, listing, columns))})" for rows, listing in pairs]
    return f"SELECT * FROM ({f' {word} '.join(operands)}) AS t({names_of(columns)})"


def _cast_columns(rows: Lowered, listing: Sequence[Column], outputs: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of an input, each in the type of the output if an exchange has cast it to that."""
    return tuple(rows.casts.get((c, output.type), c) for c, output in zip(listing, outputs, strict=True))
