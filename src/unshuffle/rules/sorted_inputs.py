"""Which plans Spark sorts as they say.

Spark adds a sort below an operator that needs one, unless it sees that rows come in that order; a sort that was asked for
below a join or an aggregate it takes away. So a plan is only run with the sorts that it has if each of them is by no more
than the operator above it needs, and if Spark sees the orders that make the others unnecessary:

- It streams groups, merges and windows in ascending order, NULLs first, by the keys that are written, all of them.
- It knows the order that an operator needed to come out of that operator, by the columns that the operator named: not by a
  column whose value was cast or compared with `<=>`, and not by floating-point numbers, which it sorts in a form of their
  own.
- Rows that are stored in order it knows by the number of the partition first, and others by that number last, if at all.
- An exchange puts together what it receives as it comes.
- It keeps no texts in the hash table of an aggregate, nor anything else of no fixed width: for the least of some, groups
  are sorted. States that are objects, such as lists, have a table of their own; of that it makes a sort, inside the
  operator, when it has some groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.catalog.schema import Column
from unshuffle.properties import JoinKey, Partitioned, RandomMerge, Sorted, Within

Order = tuple[Sorted, ...]
_ROW_BY_ROW = (ops.Select, ops.Compute, ops.Rename)


def is_sorted_as_planned(operator: PhysicalOperator, inputs: Sequence[Physical]) -> bool:
    """Will Spark sort the inputs of the operator where they are sorted in the plan, and nowhere else?"""
    match operator:
        case ops.HashAggregate(keys=keys, aggregates=aggregates, phase="combining"):
            return is_hashed(keys, aggregates)
        case ops.StreamAggregate(keys=keys) if keys:
            return not _is_begun_by_hashing(inputs[0]) and _fits(inputs[0], in_input_order(keys, inputs[0]))
        case ops.HashJoin() | ops.MergeJoin() | ops.LoopJoin() if any(map(_is_combined, inputs)):
            return False  # only what goes straight to its final half is combined by Spark
        case ops.MergeJoin(by=by):
            straight = not any(each.descending or not each.nulls_first for each in by)
            return (
                straight
                and _ordered_alike(inputs)
                and all(
                    _fits(plan, [each.key.columns[side] for each in by], any(_is_hidden(each.key, side) for each in by))
                    for side, plan in enumerate(inputs)
                )
            )
        case ops.Windows(by=by, order=order) if (by or order) and _enforced(inputs[0]) is None:
            wanted = (*_ascending(in_input_order(by, inputs[0])), *order)
            return can_stream(by) and seen_order(inputs[0])[: len(wanted)] == wanted
        case ops.HashJoin() | ops.LoopJoin():
            return all(_enforced(plan) is None for plan in inputs)
        case ops.Move(how=how):
            return isinstance(getattr(how, "merge", None), RandomMerge | None)
    return True


def is_hashed(keys: Sequence[Column], aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Does Spark find the groups in a hash table?"""
    return not keys or keeps_objects(aggregates) or not any(call.keeps_unfixed for _, call in aggregates)


def keeps_objects(aggregates: Sequence[tuple[Column, AggregateCall]]) -> bool:
    """Does Spark keep the states of a group as objects, of any width?"""
    return any(call.keeps_object for _, call in aggregates)


def can_stream(keys: Sequence[Column]) -> bool:
    """Can it be seen to be sorted by the keys?"""
    return not any(_is_floating(key) for key in keys)


def _is_hidden(key: JoinKey, side: int) -> bool:
    """Is it sorted by something else than the column: a cast of it, or the two keys that stand for one which may be NULL?"""
    return key.is_cast(side) or key.null_safe


def _fits(plan: Physical, columns: Sequence[Column], is_hidden: bool = False) -> bool:
    """Is it sorted just for this, or seen to be sorted so?"""
    if not can_stream(columns):
        return False
    wanted = _ascending(columns)
    if _enforced(plan) is not None:
        return all(key in wanted for key in plan.delivered.local)
    return not is_hidden and seen_order(plan)[: len(wanted)] == wanted


def _ordered_alike(inputs: Sequence[Physical]) -> bool:
    """If one input is known to be in order from the number of the partition on, as stored rows are, the other must be so too,
    or be sorted just for this."""
    known = [leads(plan) for plan in inputs if _enforced(plan) is None]
    return not any(map(leads, inputs)) or all(known)


def leads(plan: Physical) -> bool:
    """Is the number of the partition the first key of the order that Spark knows rows to have?"""
    operator = plan.operator
    if not isinstance(plan.delivered.partitioning, Partitioned | Within):
        return False
    match operator:
        case ops.FileScan(layout=layout):
            return bool(layout.local)
        case ops.Move():
            return False
        case ops.HashJoin() | ops.MergeJoin() if plan.alternative == "pair-wise":
            return any(map(leads, plan.inputs))
    return operator.carried is not None and leads(plan.inputs[operator.carried])


def seen_order(plan: Physical) -> Order:
    """The order that Spark knows rows to have in each partition, whatever is above."""
    operator = plan.operator
    match operator:
        case ops.LocalSort() | ops.Move():
            return ()  # a sort comes to be where an operator needs it
        case ops.FileScan(layout=layout):
            return tuple(key for key in layout.local if isinstance(key, Sorted))  # stored so, and told to Spark
        case ops.InOrder(keys=keys):
            return keys
        case ops.StreamAggregate(phase="partial"):
            return ()  # its findings are rows of a plan of their own
        case ops.StreamAggregate(keys=keys):
            return _ascending(in_input_order(keys, plan.inputs[0]))
        case ops.Windows(by=by, order=order):
            return (*_ascending(in_input_order(by, plan.inputs[0])), *order)
        case ops.MergeJoin(by=by) if operator.keeps_order:
            side = operator.carried or 0
            known = [each.key.columns[side] for each in by]
            hidden = next((i for i, each in enumerate(by) if _is_hidden(each.key, side)), len(by))
            return _ascending(known[:hidden])
    if operator.carried is None or not operator.keeps_order:
        return ()
    made = {operator.source(column): column for column in reversed(operator.columns)}
    found: list[Sorted] = []
    for key in seen_order(plan.inputs[operator.carried]):
        if key.column not in made:
            break
        found.append(key.on(made[key.column]))
    return tuple(found)


def in_input_order(keys: Sequence[Column], below: Physical) -> list[Column]:
    """Keys in the order that rows come in, and so that Spark is to have them: one sort then serves all that it should."""
    places = {column: place for place, column in enumerate(_columns(below))}
    return sorted(keys, key=lambda column: places.get(column, len(places)))


def _columns(plan: Physical) -> list[Column]:
    """The columns that rows are sorted by, the first first."""
    found: list[Column] = []
    for action in plan.delivered.local:
        found += [action.column] if isinstance(action, Sorted) else sorted(action.columns, key=lambda c: c.id)
    return found


def _enforced(plan: Physical) -> Physical | None:
    """The sort that orders the rows, if nothing else is between."""
    while isinstance(plan.operator, _ROW_BY_ROW):
        (plan,) = plan.inputs
    return plan if isinstance(plan.operator, ops.LocalSort) else None


def _is_begun_by_hashing(plan: Physical) -> bool:
    """Are these findings that were found, or combined, in a hash table? Spark finds groups in one way in all parts of an
    aggregate: it would sort for the first as well."""
    return _last_phase(plan) in ("partial", "combining")


def _is_combined(plan: Physical) -> bool:
    return _last_phase(plan) == "combining"


def _last_phase(plan: Physical) -> str | None:
    """Which part of an aggregate that is hashed the rows come from, if they were but moved and sorted since."""
    while isinstance(plan.operator, ops.LocalSort | ops.Move):
        (plan,) = plan.inputs
    return plan.operator.phase if isinstance(plan.operator, ops.HashAggregate) else None


def _ascending(columns: Sequence[Column]) -> Order:
    return tuple(Sorted(column, descending=False, nulls_first=True) for column in columns)


def _is_floating(column: Column) -> bool:
    return column.type is None or pa.types.is_floating(column.type)
