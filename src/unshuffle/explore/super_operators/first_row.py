"""The first row of each group, joined back with the rows of that group.

             JOIN on a                                    the first row's values over the groups of a, in order of b
         e2 /      \\ e3                                             |
    first by b      |               -->                            input
    of each a       |
         e1 \\      /
             input

Queries write the first row of a group as `row_number() over (partition by a order by b) = 1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Edge, cores, edges, reaches
from unshuffle.explore.super_operators.diamond_join import filtered, keys_compared
from unshuffle.explore.super_operators.leaves import common_leaves
from unshuffle.explore.super_operators.windowed_pass import KEEPS_ROWS, WindowedPass, rows_with_values
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, Ref, WindowCall, columns_of
from unshuffle.plan.logical import Join, Plan, Window
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjunction, has_one_form
from unshuffle.search.memo import Memo, as_group

_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def first_row_and_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of rows with the first row of their group is a window that adds the first row's values to each row.

    Unsound for the first few rows of a group: the join repeats a row for each of them. Unsound if only the window's input
    is filtered: the first row among the filtered rows need not be the first row of the group."""
    if not isinstance(plan, Join) or plan.condition is None or not is_movable(plan.condition):
        return
    for side in (0, 1):
        matched = _matched(plan, side, memo) if plan.kind in KEEPS_ROWS[side] else None
        if matched is not None:
            yield rows_with_values(plan, matched, memo)
            return


def _matched(plan: Join, side: int, memo: Memo) -> WindowedPass | None:
    firsts = as_group(plan.children[1 - side])
    if not reaches(firsts, Window):
        return None
    for above, window in cores(firsts, Window):
        first = _first_row_test(above, window)
        if first is not None:
            found = _joined_back(plan, side, _FirstRows(above, window, first), memo)
            if found is not None:
                return found
    return None


@dataclass(frozen=True, slots=True)
class _FirstRows:
    """A window that numbers rows, with the condition above it that keeps number 1 of each partition."""

    above: Edge
    window: Window
    test: Expression

    @property
    def predicates(self) -> tuple[Expression, ...]:
        """The other conditions above the window."""
        return tuple(each for each in self.above.predicates if each is not self.test)

    @property
    def call(self) -> WindowCall:
        ((_, call),) = self.window.calls
        return call


def _first_row_test(above: Edge, window: Window) -> Expression | None:
    """The condition that keeps the first row of each partition, if the row number is used for nothing else."""
    (number, call), *more = window.calls
    is_numbered = isinstance(call.call, Call) and call.call.function == "row_number"
    if more or not is_numbered or not call.partition:
        return None
    test = next((each for each in above.predicates if _is_first(each, number)), None)
    others = (*above.outputs.values(), *(each for each in above.predicates if each is not test))
    return None if any(number in columns_of(each) for each in others) else test


def _joined_back(plan: Join, side: int, firsts: _FirstRows, memo: Memo) -> WindowedPass | None:
    assert plan.condition is not None
    rows = as_group(plan.children[side])
    call = firsts.call
    for leaf, (to_rows, below) in common_leaves((list(edges(rows)), list(edges(as_group(firsts.window.child))))):
        if not all(each in to_rows.predicates for each in below.predicates):
            continue
        keys = tuple(below.down(part) for part in call.partition)
        if not all(has_one_form(key.type) for key in keys):
            continue  # the first row's key may be 0.0 where another row's is -0.0
        computed, values = _first_values(firsts, below, keys, memo)
        outputs = {column: substitute(e, values) for column, e in firsts.above.outputs.items()}
        sides = (to_rows.outputs, outputs)
        compared = keys_compared(plan.condition, sides[side], sides[1 - side], keys)
        if compared is None or not computed:
            continue
        return WindowedPass(
            filtered(leaf, conjunction(below.predicates)),
            replace(to_rows, predicates=tuple(each for each in to_rows.predicates if each not in below.predicates)),
            keys,
            computed,
            outputs,
            tuple(substitute(each, values) for each in firsts.predicates),
            *compared,
            tuple(replace(key, expression=below.down(key.expression)) for key in call.order),
            _WHOLE,
        )
    return None


def _first_values(
    firsts: _FirstRows, below: Edge, keys: tuple[Expression, ...], memo: Memo
) -> tuple[tuple[tuple[Column, AggregateCall], ...], dict[Column, Expression]]:
    """The aggregates that take the first row's values, and what each column of the window is in terms of them. All rows of
    a group have the same keys, so keys need no aggregate."""
    read = frozenset[Column]().union(*map(columns_of, (*firsts.above.outputs.values(), *firsts.predicates)))
    computed: list[tuple[Column, AggregateCall]] = []
    values: dict[Column, Expression] = {}
    for column in firsts.window.columns:
        if column in read and below.outputs.get(column) in keys:
            values[column] = below.outputs[column]
        elif column in read:
            first = memo.numbers.like(column, nullable=True)
            computed.append((first, _first_value(below.outputs[column])))
            values[column] = Ref(first)
    return tuple(computed), values


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
