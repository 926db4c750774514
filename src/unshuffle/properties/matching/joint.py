"""Joint requirements: co-partitioning and targeted broadcast (ICDE 2010, section VI; SIGMOD 2012, 3.3.2 and 3.3.3).

A partitioned join is correct only if matching rows are in partitions with the same number. It is not enough that each input
is clustered on its join columns. Both must be partitioned by the same function, and each of its arguments must be columns
that the join equates:

    R hashed on (a, b) into 8, S hashed on (x, y) into 8, joined on a = x and b = y    yes
    ... joined on a = y and b = x                                                      no: h(1, 2) is not h(2, 1)
    S hashed on z, where x determines z                                                no: h(z) is not h(a)
    R hashed on a into 8, S hashed on x into 4                                         no: different functions
    a an int, x a bigint, each hashed in its own type                                  no: Spark hashes them differently
    ... both hashed after the cast to the join's common type                           yes
    S hashed on (x, k) where k is always 5, R on (a, k') where k' is always 5          yes, on a = x alone

Equal columns of one input can replace one another; a dependency is not enough. Under `=` a NULL key matches nothing, so rows
with a NULL key may be anywhere. Under `<=>` they must be co-partitioned too.

Alternatively, one input keeps its ranges, whose first keys are join columns, and the other is broadcast to them:

    R in ranges of (a, b) at (1, 'B') and (2, 'D'), S broadcast to them on x, joined on a = x    yes: a row of S with x = 1
                                                                                                 is in partitions 0 and 1
    ... S broadcast to other ranges of (a, b), or joined on b = x                                no
    ... R with NULL keys anywhere                                                                no: (1, NULL) matches x = 1
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.type_coercion import common_type
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.facts.equality import interchangeable
from unshuffle.properties.layouts.delivered import Delivered, Partitioned, Partitioning, PrefixPartitioned, formula
from unshuffle.properties.layouts.partition_functions import RangeFunction, identifiable
from unshuffle.properties.layouts.structure import Serial, TargetedBroadcast
from unshuffle.properties.matching.proof import Proof, Push, Unaligned
from unshuffle.properties.matching.required import BroadcastAligned, CoPartitioned, JoinKey, Joint

Input = tuple[Delivered, Dependencies]


def match_joint(inputs: Sequence[Input], required: Joint) -> Proof | Unaligned:
    """Whether the inputs satisfy the joint requirement. If they are not co-partitioned, `Unaligned` lists the layouts that
    would make them so."""
    if isinstance(required, BroadcastAligned):
        result = _broadcast_aligned(inputs, required)
        return result if isinstance(result, Proof) else Unaligned(result)
    if all(isinstance(formula(given.partitioning, facts), Serial) for given, facts in inputs):
        return Proof(notes=("each input is one partition",))
    layouts = [given.partitioning for given, _ in inputs]
    why = _different_functions(layouts)
    if why is None:
        partitioned = [each for each in layouts if isinstance(each, Partitioned)]
        aligned = _aligned_arguments(partitioned, [facts for _, facts in inputs], required)
        if isinstance(aligned, Proof):
            return aligned
        why = aligned
    return Unaligned(why, tuple(pushes(inputs, required)))


def _different_functions(layouts: Sequence[Partitioning]) -> str | None:
    first = layouts[0]
    for each in layouts:
        if not isinstance(each, Partitioned) or not isinstance(first, Partitioned):
            return f"{each if not isinstance(each, Partitioned) else first} is not a function of columns"
        if each.function != first.function:
            return f"two functions: {first.function}, and {each.function}"
        if not identifiable(each.function):
            return f"{each.function} may differ from itself"
    return None


def _broadcast_aligned(inputs: Sequence[Input], required: BroadcastAligned) -> Proof | str:
    """Whether each row of the broadcast input has a copy in every partition that can have a matching row of the other.
    Rows of the other input occur once, so every match is found exactly once."""
    (sent, _), (kept, facts) = inputs[required.broadcast], inputs[1 - required.broadcast]
    copies, layout = sent.partitioning, kept.partitioning
    if not isinstance(copies, TargetedBroadcast):
        return f"{copies} is not a targeted broadcast"
    if not isinstance(layout, Partitioned | PrefixPartitioned):
        return f"{layout} is not a function of columns"
    if layout.function != copies.function or not identifiable(layout.function):
        return f"two functions: {layout.function}, and {copies.function}"
    if len(layout.columns) < len(copies.columns):
        return f"the ranges are known only by {', '.join(map(str, layout.columns))}"
    misplaced_nulls = isinstance(layout, Partitioned) and layout.nulls_anywhere
    if misplaced_nulls and not facts.never_null.issuperset(layout.columns):
        # The NULL key may not be a join column: the row then matches, but is not in the partition of its other keys.
        return f"rows with a NULL among {', '.join(map(str, layout.columns))} may be anywhere"
    known = [facts for _, facts in inputs]
    notes = [f"one input by {layout.function}, the other broadcast to its ranges"]
    for place, type_ in enumerate(layout.function.types[: len(copies.columns)]):
        pair = (copies.columns[place], layout.columns[place])
        columns = [pair[each != required.broadcast] for each in range(len(inputs))]
        key = next((k for k in required.keys if _fits(k, type_, columns, known)), None)
        if key is None:
            return f"no key equates {' and '.join(map(str, columns))} (argument {place + 1}) at the type compared"
        notes.append(f"argument {place + 1}: {', '.join(map(str, columns))} by {key}")
    return Proof(notes=tuple(notes))


def _aligned_arguments(layouts: list[Partitioned], facts: list[Dependencies], required: CoPartitioned) -> Proof | str:
    notes = [f"every input by {layouts[0].function}"]
    for place, type_ in enumerate(layouts[0].function.types):
        columns = [layout.columns[place] for layout in layouts]
        key = next(
            (k for k in required.keys if _fits(k, type_, columns, facts) and _nulls_meet(k, columns, facts, layouts)),
            None,
        )
        if key is not None:
            notes.append(f"argument {place + 1}: {', '.join(map(str, columns))} by {key}")
        elif _same_constant(columns, facts, any(layout.nulls_anywhere for layout in layouts)):
            notes.append(f"argument {place + 1}: {', '.join(map(str, columns))} are one constant")
        else:
            return f"no key equates {' and '.join(map(str, columns))} (argument {place + 1}) at the type hashed"
    return Proof(notes=tuple(notes))


def _nulls_meet(key: JoinKey, columns: list[Column], facts: list[Dependencies], layouts: list[Partitioned]) -> bool:
    """Whether rows with NULL keys that the join matches are in the partition of the function."""
    return not key.null_safe or not any(
        layout.nulls_anywhere and column not in known.never_null
        for layout, column, known in zip(layouts, columns, facts, strict=True)
    )


def _fits(key: JoinKey, type_: DataType, columns: list[Column], facts: list[Dependencies]) -> bool:
    """Whether rows that the key matches have equal values for this argument of the function."""
    if not all(known.equal(column, mine) for known, column, mine in zip(facts, columns, key.columns, strict=True)):
        return False
    # If the function uses the type of the comparison, equal values are equal to the function. Otherwise the columns must
    # have one type and the comparison must be lossless: equal values are then the same value under any cast.
    if type_ == key.type:
        return True
    first = columns[0].type
    return interchangeable(first, key.type) and all(column.type == first for column in columns)


def _same_constant(columns: list[Column], facts: list[Dependencies], nulls_anywhere: bool) -> bool:
    """Whether the columns have the same constant. With NULL keys anywhere, a constant NULL does not help."""
    values = [known.constant(column) for known, column in zip(facts, columns, strict=True)]
    first = values[0]
    if first is None or (nulls_anywhere and first.value is None):
        return False
    if any(column.type is None or column.type != columns[0].type for column in columns):
        return False
    return all(value is not None and value.same_as(first) for value in values)


def _can_repartition(type_: DataType, key: JoinKey, layout: Partitioned) -> bool:
    """Whether other inputs can be partitioned by this function. Ranges accept integers of any width. A hash casts them first,
    and a bigint may not fit an int."""
    if type_ == key.type:
        return True
    wider = isinstance(layout.function, RangeFunction) or common_type(type_, key.type) == type_
    return wider and interchangeable(type_, key.type)


def pushes(inputs: Sequence[Input], required: CoPartitioned) -> list[Push]:
    """For each input whose layout is on join columns: the same layout on the columns of every input."""
    found = []
    for leader, (given, facts) in enumerate(inputs):
        layout = given.partitioning
        if not isinstance(layout, Partitioned) or not identifiable(layout.function):
            continue
        if layout.nulls_anywhere and any(key.null_safe for key in required.keys):
            continue
        keys = [
            next(
                (
                    k
                    for k in required.keys
                    if facts.equal(column, k.columns[leader]) and _can_repartition(type_, k, layout)
                ),
                None,
            )
            for column, type_ in zip(layout.columns, layout.function.types, strict=True)
        ]
        chosen = [key for key in keys if key is not None]
        if len(chosen) < len(keys):
            continue
        layouts = tuple(
            layout if i == leader else Partitioned(layout.function, tuple(k.columns[i] for k in chosen))
            for i in range(len(inputs))
        )
        found.append(Push(leader, layouts))
    return found
