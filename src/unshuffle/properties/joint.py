"""Requirements on several inputs at once: co-partitioning (ICDE 2010, section VI; SIGMOD 2012, 3.3.2 and 3.3.3).

A join finds its pairs only if rows that match are in partitions of the same number. It is not enough that each input be
clustered on its join columns. Both must have been sent by the same function, argument by argument on columns that the
join equates:

    R hashed on (a, b) into 8, S hashed on (x, y) into 8, joined on a = x and b = y    yes
    ... joined on a = y and b = x                                                      no: h(1, 2) is not h(2, 1)
    S hashed on z, where x determines z                                                no: h(z) is not h(a)
    R hashed on a into 8, S hashed on x into 4                                         no: another function
    a an int, x a bigint, each hashed in its own type                                  no: Spark hashes them apart
    ... both hashed after the cast to the join's common type                           yes
    S hashed on (x, k) where k is always 5, R on (a, k') where k' is always 5          yes, on a = x alone

Equal columns within one input may replace one another; dependencies may not. NULLs: under `=` a NULL key matches
nothing, so rows with one may be anywhere; under `<=>` they must meet as well.

Or one input is left as it lies, by ranges whose first keys are join columns, and the other covers it:

    R in ranges of (a, b), cut at (1, 'B') and (2, 'D'), S covering them on x, joined on a = x    yes: a row of S with x = 1
                                                                                                  is in partitions 0 and 1
    ... S covering other ranges of (a, b), or joined on b = x                                     no
    ... R with NULL keys anywhere                                                                 no: (1, NULL) matches x = 1
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import common_type
from unshuffle.properties.delivered import Delivered, Partitioned, Partitioning, Within, formula
from unshuffle.properties.dependencies import Dependencies
from unshuffle.properties.equality import interchangeable
from unshuffle.properties.functions import RangeFunction, identifiable
from unshuffle.properties.proof import Proof, Push, Unaligned
from unshuffle.properties.required import CoPartitioned, Covered, JoinKey, Joint
from unshuffle.properties.structure import Covering, Serial

Input = tuple[Delivered, Dependencies]


def match_joint(inputs: Sequence[Input], required: Joint) -> Proof | Unaligned:
    """Do the inputs lie beside each other as is required? If they are to be co-partitioned on some of the keys, and are not,
    which single layouts would serve."""
    if isinstance(required, Covered):
        found = _covered(inputs, required)
        return found if isinstance(found, Proof) else Unaligned(found)
    if all(isinstance(formula(given.partitioning, facts), Serial) for given, facts in inputs):
        return Proof(notes=("each input is one partition",))
    layouts = [given.partitioning for given, _ in inputs]
    why = _differ(layouts)
    if why is None:
        placed = [each for each in layouts if isinstance(each, Partitioned)]
        aligned = _positions(placed, [facts for _, facts in inputs], required)
        if isinstance(aligned, Proof):
            return aligned
        why = aligned
    return Unaligned(why, tuple(pushes(inputs, required)))


def _differ(layouts: Sequence[Partitioning]) -> str | None:
    first = layouts[0]
    for each in layouts:
        if not isinstance(each, Partitioned) or not isinstance(first, Partitioned):
            return f"{each if not isinstance(each, Partitioned) else first} is no function of columns"
        if each.function != first.function:
            return f"two functions: {first.function}, and {each.function}"
        if not identifiable(each.function):
            return f"{each.function} may differ from itself"
    return None


def _covered(inputs: Sequence[Input], required: Covered) -> Proof | str:
    """Is a row of one input in every partition where a row of the other can be that it matches? The other's rows are once
    each, so that every match is found once."""
    (given, _), (lies, facts) = inputs[required.by], inputs[1 - required.by]
    covering, layout = given.partitioning, lies.partitioning
    if not isinstance(covering, Covering):
        return f"{covering} covers nothing"
    if not isinstance(layout, Partitioned | Within):
        return f"{layout} is no function of columns"
    if layout.function != covering.function or not identifiable(layout.function):
        return f"two functions: {layout.function}, and {covering.function}"
    if len(layout.columns) < len(covering.columns):
        return f"nothing is known of where rows lie by more than {', '.join(map(str, layout.columns))}"
    strays = isinstance(layout, Partitioned) and layout.nulls_apart
    if strays and not facts.never_null.issuperset(layout.columns):
        # A key that is no join column may be the NULL one: the row matches, and is not where its other keys say.
        return f"rows with a NULL among {', '.join(map(str, layout.columns))} are anywhere"
    known = [facts for _, facts in inputs]
    notes = [f"one input by {layout.function}, covered by the other"]
    for place, type_ in enumerate(layout.function.types[: len(covering.columns)]):
        pair = (covering.columns[place], layout.columns[place])
        columns = [pair[each != required.by] for each in range(len(inputs))]
        key = next((k for k in required.keys if _fits(k, type_, columns, known)), None)
        if key is None:
            return f"no key equates {' and '.join(map(str, columns))} (argument {place + 1}) at the type compared"
        notes.append(f"argument {place + 1}: {', '.join(map(str, columns))} by {key}")
    return Proof(notes=tuple(notes))


def _positions(layouts: list[Partitioned], facts: list[Dependencies], required: CoPartitioned) -> Proof | str:
    notes = [f"every input by {layouts[0].function}"]
    for place, type_ in enumerate(layouts[0].function.types):
        columns = [layout.columns[place] for layout in layouts]
        key = next(
            (k for k in required.keys if _fits(k, type_, columns, facts) and _nulls_meet(k, columns, facts, layouts)),
            None,
        )
        if key is not None:
            notes.append(f"argument {place + 1}: {', '.join(map(str, columns))} by {key}")
        elif _same_constant(columns, facts, any(layout.nulls_apart for layout in layouts)):
            notes.append(f"argument {place + 1}: {', '.join(map(str, columns))} are one constant")
        else:
            return f"no key equates {' and '.join(map(str, columns))} (argument {place + 1}) at the type hashed"
    return Proof(notes=tuple(notes))


def _nulls_meet(key: JoinKey, columns: list[Column], facts: list[Dependencies], layouts: list[Partitioned]) -> bool:
    """Are rows whose NULLs the key matches where the function says?"""
    return not key.null_safe or not any(
        layout.nulls_apart and column not in known.never_null
        for layout, column, known in zip(layouts, columns, facts, strict=True)
    )


def _fits(key: JoinKey, type_: DataType, columns: list[Column], facts: list[Dependencies]) -> bool:
    """Do rows that the key matches give the function equal values there?"""
    if not all(known.equal(column, mine) for known, column, mine in zip(facts, columns, key.columns, strict=True)):
        return False
    # Hashed at the type the join compares at: equal there, equal to the function. Otherwise the columns must be of one
    # type, and comparing must not lose anything: then equal means the same value, whatever it is cast to.
    if type_ == key.type:
        return True
    first = columns[0].type
    return interchangeable(first, key.type) and all(column.type == first for column in columns)


def _same_constant(columns: list[Column], facts: list[Dependencies], nulls_apart: bool) -> bool:
    """One value, sent alike. Where NULL keys are anywhere, a constant NULL sends every row anywhere."""
    values = [known.constant(column) for known, column in zip(facts, columns, strict=True)]
    first = values[0]
    if first is None or (nulls_apart and first.value is None):
        return False
    if any(column.type is None or column.type != columns[0].type for column in columns):
        return False
    return all(value is not None and value.same_as(first) for value in values)


def _sent_at(type_: DataType, key: JoinKey, layout: Partitioned) -> bool:
    """May other inputs be sent by this function? A range takes integers of any width; a hash would first cast them, and
    a bigint may not fit an int; an int fits a bigint."""
    if type_ == key.type:
        return True
    wider = isinstance(layout.function, RangeFunction) or common_type(type_, key.type) == type_
    return wider and interchangeable(type_, key.type)


def pushes(inputs: Sequence[Input], required: CoPartitioned) -> list[Push]:
    """For each input whose own layout is on join columns: that layout, written in every input's columns."""
    found = []
    for leader, (given, facts) in enumerate(inputs):
        layout = given.partitioning
        if not isinstance(layout, Partitioned) or not identifiable(layout.function):
            continue
        if layout.nulls_apart and any(key.null_safe for key in required.keys):
            continue
        keys = [
            next(
                (k for k in required.keys if facts.equal(column, k.columns[leader]) and _sent_at(type_, k, layout)),
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
