"""Hash, merge and nested-loop joins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, DataType
from unshuffle.errors import InternalError
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import JoinKey, Partitioned, TargetedBroadcast
from unshuffle.spark.lowering.baseline import ONE_ROW, name_of, names_of
from unshuffle.spark.lowering.lowered import Lowered, carried, in_one_partition, is_serial, layout_columns
from unshuffle.spark.shims import plan_bridge

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering

Join = physical.HashJoin | physical.MergeJoin | physical.NestedLoopJoin


def join(lowering: Lowering, node: PhysicalPlan, operator: Join) -> Lowered:
    left, right = _inputs(lowering, node, operator)
    number = next(lowering.aliases)
    aliases = (f"left_{number}", f"right_{number}")
    kept = _result_layout(node, operator, left, right)
    condition = _condition(lowering, node, operator, left, right)
    kind = "CROSS" if condition is None and operator.kind is JoinKind.INNER else operator.kind.value.upper()
    on = "" if condition is None else f" ON {condition}"
    sql = (
        f"SELECT /*+ {_hint(node, operator, left, right, aliases)} */ {names_of((*node.columns, *kept.extras)) or ONE_ROW} "
        f"FROM ({left.sql}) AS {aliases[0]} {kind} JOIN ({right.sql}) AS {aliases[1]}{on}"
    )
    if operator.kind is JoinKind.FULL and is_serial(node):
        # Spark does not see that a full outer join of two single partitions has one partition.
        sql = in_one_partition(sql)
    is_sorted_by_number = kept.is_sorted_by_number or (
        _is_pairwise(node) and kept.is_numbered and (left.is_sorted_by_number or right.is_sorted_by_number)
    )
    return replace(kept, sql=sql, is_broadcast=False, is_sorted_by_number=is_sorted_by_number)


def _inputs(lowering: Lowering, node: PhysicalPlan, operator: Join) -> tuple[Lowered, Lowered]:
    left, right = (_input(lowering, node, child) for child in node.inputs)
    in_pairs = _is_pairwise(node) or _targeted_broadcast(node) is not None
    if (in_pairs or isinstance(operator, physical.MergeJoin)) and operator.kind in (JoinKind.SEMI, JoinKind.ANTI):
        # Spark would push the join below the exchange of its left input, and then exchange once more.
        left = replace(left, sql=lowering.changed(left.sql, plan_bridge.PLANNED))
    if in_pairs and all(isinstance(child.operator, physical.Exchange) for child in node.inputs):
        key = operator.keys[0]
        right = _with_copied_key(lowering, right, _layout_column(node.inputs[1], key.columns[1]), key.type)
    return left, right


def _input(lowering: Lowering, node: PhysicalPlan, child: PhysicalPlan) -> Lowered:
    """An input of a join. If the other input is a targeted broadcast, the join is also on the partition number, so that a row
    that was sent to several partitions matches once. Rows whose layout Spark does not know, such as the output of user
    code, get a number for this alone."""
    rows, layout = lowering.lower(child), child.delivered.partitioning
    if rows.is_numbered or _targeted_broadcast(node) in (None, child) or not isinstance(layout, Partitioned):
        return rows
    number = lowering.new_number()
    return Lowered(lowering.with_partition_number(rows.sql, number, layout), (), (number,))


def _with_copied_key(lowering: Lowering, right: Lowered, column: Column, type_: DataType) -> Lowered:
    """The right input with a copy of a key. Directly over two exchanges, Spark uses `spark.sql.shuffle.partitions` if that is
    more than ours. It does not if something is between an exchange and the join: here the copy that the join uses."""
    copy = lowering.new_column(column.name, type_ or column.type)
    sql = f"SELECT *, {_key(lowering, right, column, type_)} AS {name_of(copy)} FROM ({right.sql})"
    return replace(right, sql=sql, casts={**right.casts, (column, type_): copy})


# ---------------------------------------------------------------------------------------------------------- condition


def _condition(lowering: Lowering, node: PhysicalPlan, operator: Join, left: Lowered, right: Lowered) -> str | None:
    if operator.join.condition is None:
        return None
    if not operator.keys or getattr(operator, "null_aware", False):
        return lowering.expression(operator.join.condition)
    keys = [each.key for each in operator.by] if isinstance(operator, physical.MergeJoin) else operator.keys
    parts = [_equality(lowering, node, key, left, right) for key in keys]
    if _targeted_broadcast(node) is not None:
        parts.insert(0, f"{name_of(_number(left))} = {name_of(_number(right))}")
    elif _is_pairwise(node) and left.is_numbered and right.is_numbered:
        # After the keys that determine it, as in every list of keys; see `keys_with_carriers`.
        on = layout_columns(node.inputs[0])
        position = 1 + max((i for i, key in enumerate(keys) if key.columns[0] in on), default=len(keys))
        same_number = f"{name_of(left.carriers[0])} = {name_of(right.carriers[0])}"
        parts.insert(0 if left.is_sorted_by_number or right.is_sorted_by_number else position, same_number)
    if operator.rest is not None:
        parts.append(lowering.expression(operator.rest))
    return " AND ".join(parts)


def _equality(lowering: Lowering, node: PhysicalPlan, key: JoinKey, left: Lowered, right: Lowered) -> str:
    sides = zip((left, right), node.inputs, key.columns, strict=True)
    one, other = (_key(lowering, rows, _layout_column(child, column), key.type) for rows, child, column in sides)
    return f"{one} {'<=>' if key.null_safe else '='} {other}"


def _key(lowering: Lowering, rows: Lowered, column: Column, type_: DataType) -> str:
    cast = rows.casts.get((column, type_))
    return lowering.typed(column, type_) if cast is None else name_of(cast)


def _layout_column(node: PhysicalPlan, column: Column) -> Column:
    """The column, or an equal one that rows are partitioned by: Spark does not know that the two are equal."""
    on = layout_columns(node)
    equal = (each for each in on if each.type == column.type and node.facts.equal(each, column))
    return column if column in on else next(equal, column)


# ---------------------------------------------------------------------------------------------------- hint and layout


def _hint(node: PhysicalPlan, operator: Join, left: Lowered, right: Lowered, aliases: tuple[str, str]) -> str:
    """If both inputs have one partition, the built one is broadcast. Otherwise Spark would repartition both where it takes
    them to be large (`spark.sql.maxSinglePartitionBytes`), and it takes every join result to be large."""
    match operator:
        case physical.MergeJoin():
            return f"MERGE({aliases[0]})"
        case physical.HashJoin(build=build):
            keeps_unmatched = (operator.kind.extends_left, operator.kind.extends_right)[1 - build]
            is_broadcast = (
                (left, right)[build].is_broadcast or operator.null_aware or (is_serial(node) and not keeps_unmatched)
            )
            return f"{'BROADCAST' if is_broadcast else 'SHUFFLE_HASH'}({aliases[build]})"
        case _:
            return f"BROADCAST({aliases[operator.inner]})"


def _result_layout(node: PhysicalPlan, operator: Join, left: Lowered, right: Lowered) -> Lowered:
    """The carriers of the result: those of an input whose rows all stay in their partitions."""
    broadcast = _targeted_broadcast(node)
    if left.is_broadcast or right.is_broadcast or broadcast is not None:
        sides = [right if left.is_broadcast or broadcast is node.inputs[0] else left]
    elif operator.kind is JoinKind.RIGHT:
        sides = [right]
    elif operator.kind is JoinKind.INNER:
        sides = [left, right]
    else:
        sides = [] if operator.kind is JoinKind.FULL else [left]
    kept = [carried(side, node, {c: c for c in node.columns}) for side in sides]
    return min(kept, key=lambda each: (not each.carriers, len(each.extras)), default=Lowered(""))


def _is_pairwise(node: PhysicalPlan) -> bool:
    return node.alternative == "pair-wise"


def _targeted_broadcast(node: PhysicalPlan) -> PhysicalPlan | None:
    """The input of a join that is sent to the partitions in which the other input can have matches."""
    return next((each for each in node.inputs if isinstance(each.delivered.partitioning, TargetedBroadcast)), None)


def _number(rows: Lowered) -> Column:
    """The partition number of an input: its carrier, or an extra for this join alone."""
    numbers = rows.carriers if rows.is_numbered else rows.extras[-1:]
    if len(numbers) != 1:
        raise InternalError("a targeted broadcast is joined with rows of unknown partitions")
    return numbers[0]
