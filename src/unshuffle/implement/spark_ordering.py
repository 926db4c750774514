"""Checks that Spark will sort where the plan sorts, and nowhere else.

Spark adds a sort below an operator that needs one, unless it knows that the rows have that order. It removes an explicit sort
below a join or an aggregate. So Spark runs a plan with exactly the plan's sorts only if each sort is by no more keys than the
operator above it needs, and if Spark knows the orders that make other sorts unnecessary:

- Spark streams groups, merges and windows in ascending order with NULLs first, by all the keys that are written.
- After an operator that required an order, Spark knows that order by the columns that the operator named. It does not for a
  column that was cast or compared with `<=>`, nor for floating-point columns, which it normalizes before it sorts.
- For rows that are stored sorted, Spark knows an order that begins with the partition number. For other rows, the partition
  number is the last key, if there is a known order at all.
- An exchange does not merge sorted inputs.
- The hash table of an aggregate holds no values of variable width. For min() of a text, for instance, Spark sorts the groups.
  States that are objects, such as lists, have a hash table of their own, which Spark turns into a sort inside the operator
  when it has many groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unshuffle.catalog.schema import Column
from unshuffle.plan import physical
from unshuffle.plan.expressions import AggregateCall
from unshuffle.plan.physical import PhysicalOperator, PhysicalPlan
from unshuffle.properties import JoinKey, Partitioned, PrefixPartitioned, RandomMerge, Sorted

Order = tuple[Sorted, ...]
_ROW_BY_ROW = (physical.Filter, physical.Project, physical.Rename)


def is_sorted_as_planned(operator: PhysicalOperator, inputs: Sequence[PhysicalPlan]) -> bool:
    """Will Spark sort the inputs of the operator exactly where the plan sorts them?"""
    match operator:
        case physical.HashAggregate(keys=keys, aggregates=aggregates, phase="combining"):
            return is_hashed(keys, aggregates)
        case physical.SortAggregate(keys=keys) if _are_constant(keys, inputs[0]):
            return True  # one group at most: Spark sorts by constants, which moves no row
        case physical.SortAggregate(keys=keys) if keys:
            return not _is_begun_by_hashing(inputs[0]) and _fits(inputs[0], in_input_order(keys, inputs[0]))
        case physical.HashJoin() | physical.MergeJoin() | physical.NestedLoopJoin() if any(map(_is_combined, inputs)):
            return False  # Spark merges partial states only directly below the final aggregate
        case physical.MergeJoin(by=by):
            ascending = not any(each.descending or not each.nulls_first for each in by)
            return (
                ascending
                and _ordered_alike(inputs)
                and all(
                    _fits(plan, [each.key.columns[side] for each in by], any(_is_hidden(each.key, side) for each in by))
                    for side, plan in enumerate(inputs)
                )
            )
        case physical.Windows(by=by, order=order) if _are_constant([*by, *(key.column for key in order)], inputs[0]):
            return True  # likewise: no sort is planned, because any order is an order by constants
        case physical.Windows(by=by, order=order) if (by or order) and _enforced(inputs[0]) is None:
            required = (*_ascending(in_input_order(by, inputs[0])), *order)
            return can_stream(by) and order_known_to_spark(inputs[0])[: len(required)] == required
        case physical.HashJoin() | physical.NestedLoopJoin():
            return all(_enforced(plan) is None for plan in inputs)
        case physical.Exchange(how=how):
            return isinstance(getattr(how, "merge", None), RandomMerge | None)
    return True


def _are_constant(columns: Sequence[Column], plan: PhysicalPlan) -> bool:
    return plan.facts.determines(frozenset(), frozenset(columns))


def is_hashed(keys: Sequence[Column], aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Does Spark use a hash table for the groups?"""
    return not keys or keeps_objects(aggregates) or not any(call.keeps_unfixed for _, call in aggregates)


def keeps_objects(aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Does Spark keep the states of a group as objects?"""
    return any(call.keeps_object for _, call in aggregates)


def can_stream(keys: Sequence[Column]) -> bool:
    """Can Spark know that rows are sorted by these keys?"""
    return not any(_is_floating(key) for key in keys)


def _is_hidden(key: JoinKey, side: int) -> bool:
    """Does Spark sort by something else than the column: by a cast, or by the (coalesce, isnull) keys of `<=>`?"""
    return key.is_cast(side) or key.null_safe


def _fits(plan: PhysicalPlan, columns: Sequence[Column], is_hidden: bool = False) -> bool:
    """Is the input sorted for this operator alone, or does Spark know that it has the order?"""
    if not can_stream(columns):
        return False
    required = _ascending(columns)
    if _enforced(plan) is not None:
        return all(key in required for key in plan.delivered.local)
    return not is_hidden and order_known_to_spark(plan)[: len(required)] == required


def _ordered_alike(inputs: Sequence[PhysicalPlan]) -> bool:
    """If the known order of one input begins with the partition number, as that of stored rows does, so must the other's,
    unless the other is sorted for this operator alone."""
    known = [partition_number_leads(plan) for plan in inputs if _enforced(plan) is None]
    return not any(map(partition_number_leads, inputs)) or all(known)


def partition_number_leads(plan: PhysicalPlan) -> bool:
    """Is the partition number the first key of the order that Spark knows?"""
    operator = plan.operator
    if not isinstance(plan.delivered.partitioning, Partitioned | PrefixPartitioned):
        return False
    match operator:
        case physical.FileScan(layout=layout):
            return bool(layout.local)
        case physical.Exchange():
            return False
        case physical.HashJoin() | physical.MergeJoin() if plan.alternative == "pair-wise":
            return any(map(partition_number_leads, plan.inputs))
    return operator.carried is not None and partition_number_leads(plan.inputs[operator.carried])


def order_known_to_spark(plan: PhysicalPlan) -> Order:
    """The order that Spark knows the rows of each partition to have."""
    operator = plan.operator
    match operator:
        case physical.LocalSort() | physical.Exchange():
            return ()  # Spark adds the sort only where an operator needs it
        case physical.FileScan(layout=layout):
            return tuple(
                key for key in layout.local if isinstance(key, Sorted)
            )  # the stored order is declared to Spark
        case physical.OrderBy(keys=keys):
            return keys
        case physical.SortAggregate(phase="partial"):
            return ()  # the partial aggregate is a query of its own for Spark
        case physical.SortAggregate(keys=keys):
            return _ascending(in_input_order(keys, plan.inputs[0]))
        case physical.Windows(by=by, order=order):
            return (*_ascending(in_input_order(by, plan.inputs[0])), *order)
        case physical.MergeJoin(by=by) if operator.keeps_order:
            side = operator.carried or 0
            known = [each.key.columns[side] for each in by]
            hidden = next((i for i, each in enumerate(by) if _is_hidden(each.key, side)), len(by))
            return _ascending(known[:hidden])
    if operator.carried is None or not operator.keeps_order:
        return ()
    made = {operator.source(column): column for column in reversed(operator.columns)}
    kept: list[Sorted] = []
    for key in order_known_to_spark(plan.inputs[operator.carried]):
        if key.column not in made:
            break
        kept.append(key.on(made[key.column]))
    return tuple(kept)


def in_input_order(keys: Sequence[Column], below: PhysicalPlan) -> list[Column]:
    """The keys in the order that the input is sorted by. Written so, one sort of Spark serves several operators."""
    positions = {column: position for position, column in enumerate(_columns(below))}
    return sorted(keys, key=lambda column: positions.get(column, len(positions)))


def _columns(plan: PhysicalPlan) -> list[Column]:
    """The columns that rows are sorted or grouped by, major first."""
    columns: list[Column] = []
    for action in plan.delivered.local:
        columns += [action.column] if isinstance(action, Sorted) else sorted(action.columns, key=lambda c: c.id)
    return columns


def _enforced(plan: PhysicalPlan) -> PhysicalPlan | None:
    """The sort below row-wise operators, if there is one."""
    while isinstance(plan.operator, _ROW_BY_ROW):
        (plan,) = plan.inputs
    return plan if isinstance(plan.operator, physical.LocalSort) else None


def _is_begun_by_hashing(plan: PhysicalPlan) -> bool:
    """Do the rows come from a partial or combining hash aggregate? Spark runs all phases of an aggregate in one way, so it
    would sort for the first phase as well."""
    return _last_phase(plan) in ("partial", "combining")


def _is_combined(plan: PhysicalPlan) -> bool:
    return _last_phase(plan) == "combining"


def _last_phase(plan: PhysicalPlan) -> str | None:
    """The phase of the hash aggregate that the rows come from, if they were only moved and sorted since."""
    while isinstance(plan.operator, physical.LocalSort | physical.Exchange):
        (plan,) = plan.inputs
    return plan.operator.phase if isinstance(plan.operator, physical.HashAggregate) else None


def _ascending(columns: Sequence[Column]) -> Order:
    return tuple(Sorted(column, descending=False, nulls_first=True) for column in columns)


def _is_floating(column: Column) -> bool:
    return column.type is None or pa.types.is_floating(column.type)
