"""The first row of each group, joined back with the rows of the group.

             JOIN on a                                    the first row's values over the groups of a, in order of b
         e2 /      \\ e3                                             |
    first by b      |               -->                            input
    of each a       |
         e1 \\      /
             input

The first row of a group is written `row_number() over (partition by a order by b) = 1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from unshuffle.algebra.expressions import AggregateCall, Call, Expression, Literal, Ref, columns_of
from unshuffle.algebra.logical import Join, Plan, Window
from unshuffle.algebra.predicates import conjunction
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.rules.super_operators.abstract import Edge, cores, edges, reaches
from unshuffle.rules.super_operators.beside import KEEPS_ROWS, Beside, beside
from unshuffle.rules.super_operators.diamond_join import filtered, keys_compared
from unshuffle.rules.super_operators.leaves import common_leaves
from unshuffle.search.memo import Group, Memo

_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def first_row_and_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Rows that are joined with the first row of their group have its values beside them.

    Not with the first few: rows would be repeated. Not if a filter chooses the rows among which it is the first."""
    if not isinstance(plan, Join) or plan.condition is None or not is_movable(plan.condition):
        return
    for side in (0, 1):
        firsts = cast(Group, plan.children[1 - side])
        if plan.kind in KEEPS_ROWS[side] and reaches(firsts, Window):
            for above, window in cores(firsts, Window):
                found = _matched(plan, side, above, window, memo)
                if found is not None:
                    yield beside(plan, found, memo)
                    return


def _matched(plan: Join, side: int, above: Edge, window: Window, memo: Memo) -> Beside | None:
    assert plan.condition is not None
    (number, call), *more = window.calls
    first = next((each for each in above.predicates if _is_first(each, number)), None)
    numbered = isinstance(call.call, Call) and call.call.function == "row_number"
    if more or not numbered or first is None or not call.partition:
        return None
    if any(
        number in columns_of(e) for e in (*above.outputs.values(), *(p for p in above.predicates if p is not first))
    ):
        return None
    rows = cast(Group, plan.children[side])
    for leaf, (to_rows, below) in common_leaves((list(edges(rows)), list(edges(cast(Group, window.child))))):
        if not all(each in to_rows.predicates for each in below.predicates):
            continue
        keys = tuple(below.down(part) for part in call.partition)
        asked = tuple(each for each in above.predicates if each is not first)
        read = frozenset[Column]().union(*map(columns_of, (*above.outputs.values(), *asked)))
        values: dict[Column, Expression] = {}
        found = []
        for column in window.columns:
            if column in read and below.outputs.get(column) in keys:
                values[column] = below.outputs[column]
            elif column in read:
                beside_it = memo.numbers.like(column, nullable=True)
                found.append((beside_it, _first_value(below.outputs[column])))
                values[column] = Ref(beside_it)
        outputs = {column: substitute(e, values) for column, e in above.outputs.items()}
        sides = (to_rows.outputs, outputs)
        compared = keys_compared(plan.condition, sides[side], sides[1 - side], keys)
        if compared is None or not found:
            continue
        whole = filtered(leaf, conjunction(below.predicates))
        left = tuple(each for each in to_rows.predicates if each not in below.predicates)
        order = tuple(replace(key, expression=below.down(key.expression)) for key in call.order)
        predicates = tuple(substitute(each, values) for each in asked)
        return Beside(
            whole, replace(to_rows, predicates=left), keys, tuple(found), outputs, predicates, *compared, order, _WHOLE
        )
    return None


def _first_value(of: Expression) -> AggregateCall:
    return AggregateCall("first_value", (of,), of.type)


def _is_first(condition: Expression, number: Column) -> bool:
    match condition:
        case Call("=" | "<=", (Ref(column=column), Literal(1))) if column == number:
            return True
        case Call("<", (Ref(column=column), Literal(2))) if column == number:
            return True
        case _:
            return False


RULES = (first_row_and_join,)
