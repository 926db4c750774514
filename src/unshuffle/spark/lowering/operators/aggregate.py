"""Aggregates, in one phase or as partial and final aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.errors import InternalError
from unshuffle.implement.percentile_lists import values_of
from unshuffle.implement.spark_ordering import in_input_order, keeps_objects
from unshuffle.plan import physical
from unshuffle.plan.expressions import AggregateCall, Call, Cast, Expression, Literal, Ref
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.user_code import collects_lists, runs_in_python
from unshuffle.properties import PartialMerge, Partitioned, PrefixPartitioned
from unshuffle.spark.lowering.baseline import name_of, names_of
from unshuffle.spark.lowering.lowered import Lowered, carried, is_serial, keys_with_carriers
from unshuffle.spark.lowering.operators.exchange import with_exchange_keys
from unshuffle.spark.lowering.operators.percentiles import percentile
from unshuffle.spark.shims import plan_bridge

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering

Aggregate = physical.HashAggregate | physical.SortAggregate


def aggregate(lowering: Lowering, node: PhysicalPlan, operator: Aggregate) -> Lowered:
    if operator.phase == "final":
        return _final(lowering, node, operator)
    if operator.phase == "partial":
        return _partial(lowering, node, operator)
    if isinstance(operator, physical.SortAggregate) and operator.listed:
        return _with_percentile_lists(lowering, node, operator)
    return _complete(lowering, node, operator, lowering.lower(node.inputs[0]), node.inputs[0])


def _complete(
    lowering: Lowering, node: PhysicalPlan, operator: Aggregate, rows: Lowered, child: PhysicalPlan
) -> Lowered:
    grouped = _grouped(lowering, node, operator, rows, child, operator.aggregates)
    is_hashed = isinstance(operator, physical.HashAggregate) or not operator.keys
    in_python = runs_in_python(operator.keys, operator.aggregates)
    if is_hashed or in_python or not keeps_objects(operator.aggregates):
        return grouped
    return replace(grouped, sql=lowering.changed(grouped.sql, plan_bridge.SORT_AGGREGATED))


def _with_percentile_lists(lowering: Lowering, node: PhysicalPlan, operator: physical.SortAggregate) -> Lowered:
    """Collects lists of values in place of percentiles. The percentiles are then looked up in the sorted lists."""
    calls = dict(operator.aggregates)
    collected = dict.fromkeys(values_of(call) for column, call in operator.aggregates if column in operator.listed)
    lists = {call: lowering.new_column("values", call.type) for call in collected}
    others = tuple((column, call) for column, call in operator.aggregates if column not in operator.listed)
    collecting = replace(operator, aggregates=(*others, *((c, call) for call, c in lists.items())), listed=frozenset())
    grouped = _complete(lowering, node, collecting, lowering.lower(node.inputs[0]), node.inputs[0])
    kept = names_of((*operator.keys, *(column for column, _ in others), *grouped.extras))
    sorted_lists = ", ".join(f"sort_array({name_of(c)}) AS {name_of(c)}" for c in lists.values())
    percentiles = ", ".join(
        f"{percentile(name_of(lists[values_of(calls[c])]), calls[c])} AS {name_of(c)}"
        for c in node.columns
        if c in operator.listed
    )
    sql = f"SELECT {kept}, {percentiles} FROM (SELECT {kept}, {sorted_lists} FROM ({grouped.sql}))"
    return replace(grouped, sql=sql)


# ------------------------------------------------------------------------------------------------ partial and final


def _partial(lowering: Lowering, node: PhysicalPlan, operator: Aggregate) -> Lowered:
    """Partial states as columns. They pass through other operators, such as a join, on their way to the final aggregate."""
    (child,) = node.inputs
    rows = lowering.lower(child)
    if not isinstance(node.delivered.partitioning, Partitioned | PrefixPartitioned):
        rows = Lowered(rows.sql)  # without carriers, which are not needed and would split groups
    grouped = _grouped(lowering, node, operator, rows, child, operator.aggregates)
    if is_serial(child):
        return grouped
    return replace(grouped, sql=lowering.changed(grouped.sql, plan_bridge.AGGREGATED_IN_EACH_PARTITION))


def _final(lowering: Lowering, node: PhysicalPlan, operator: Aggregate) -> Lowered:
    """The partial and the final aggregate with the exchange between them, and all steps that combine partial states."""
    exchanges, partial = _down_to_partial(node)
    if getattr(partial.operator, "phase", None) != "partial":
        return _merged_states(lowering, node, operator)
    # From the first exchange above the partial aggregate upwards, without the last.
    combining = list(reversed(exchanges[1:]))
    merges_all = all(isinstance(getattr(each.operator, "how", None), PartialMerge) for each in combining)
    if not merges_all or partial.operator.keys != operator.keys:  # type: ignore[attr-defined]
        raise InternalError("more than exchanges is between a partial and a final aggregate")
    (child,) = partial.inputs
    rows = lowering.lower(child)
    if not exchanges or not (operator.keys or combining):
        # Without keys, Spark itself plans the only possible exchange: into one partition.
        return _complete(lowering, node, operator, rows, child)
    keyed, spark_exchange = with_exchange_keys(lowering, rows, exchanges[0], child.columns)
    grouped = _grouped(lowering, node, operator, keyed, node.inputs[0], operator.aggregates)
    fragments = [each.size.partitions for each in combining]
    for each, partitions in zip(combining, fragments, strict=True):
        lowering.spark_exchanges[id(each)] = plan_bridge.NumberExchange(plan_bridge.FRAGMENT, partitions)
    change = plan_bridge.aggregated_in_two_phases(spark_exchange, fragments)
    return replace(grouped, sql=lowering.changed(grouped.sql, change))


def _down_to_partial(node: PhysicalPlan) -> tuple[list[PhysicalPlan], PhysicalPlan]:
    """The exchanges below a final aggregate, the uppermost first, and the node below them: the partial aggregate, unless
    other operators are in between."""
    exchanges, below = [], node.inputs[0]
    while (
        isinstance(below.operator, physical.Exchange | physical.LocalSort)
        or getattr(below.operator, "phase", None) == "combining"
    ):
        if isinstance(below.operator, physical.Exchange):
            exchanges.append(below)
        below = below.inputs[0]
    return exchanges, below


def _merged_states(lowering: Lowering, node: PhysicalPlan, operator: Aggregate) -> Lowered:
    """The final aggregate of partial states that are columns."""
    pairs = zip(operator.aggregates, operator.states, strict=True)
    merged = [(column, _merged(call, state)) for (column, call), state in pairs]
    return _grouped(lowering, node, operator, lowering.lower(node.inputs[0]), node.inputs[0], merged)


def _merged(call: AggregateCall, state: Column) -> Expression:
    """The value of an aggregate from its partial states."""
    assert call.facts.merged_by is not None
    merged: Expression = AggregateCall(call.facts.merged_by, (Ref(state),), call.type)
    if call.function == "count":  # 0 over no rows, where the sum of no counts is NULL
        return Call("coalesce", (merged, Literal(0, pa.int64())), pa.int64())
    # A sum of decimals has more digits than its input.
    return Cast(merged, call.type) if call.function == "sum" and pa.types.is_decimal(call.type) else merged


def _grouped(
    lowering: Lowering,
    node: PhysicalPlan,
    operator: Aggregate,
    rows: Lowered,
    child: PhysicalPlan,
    calls: Sequence[tuple[Column, Any]],
) -> Lowered:
    """GROUP BY the keys, in the order in which `child` has them sorted, and by the carriers, which they determine."""
    keys = keys_with_carriers(in_input_order(operator.keys, child), rows, child)
    kept = carried(rows, node, {c: c for c in node.columns})
    kept_names = [*map(name_of, operator.keys), *map(name_of, kept.extras)]
    grouping = f" GROUP BY {names_of(keys)}" if keys else ""
    if collects_lists(operator.keys, operator.aggregates):
        return replace(kept, sql=lowering.with_lists(kept_names, operator.aggregates, f"({rows.sql}){grouping}"))
    outputs = [*kept_names, *(lowering.aliased(column, call) for column, call in calls)]
    # Spark uses a sort aggregate for states that do not fit into a hash table of fixed-width rows, such as a string.
    by_sorting = keys and isinstance(operator, physical.SortAggregate)
    in_python = runs_in_python(operator.keys, operator.aggregates)
    needs_string = by_sorting and not in_python and not keeps_objects(operator.aggregates)
    having = " HAVING max('') = ''" if needs_string else ""
    return replace(
        kept, sql=f"SELECT {', '.join(outputs) or 'count(1) AS one_row'} FROM ({rows.sql}){grouping}{having}"
    )
