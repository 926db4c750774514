"""What is computed of a group of rows comes beside each of its rows, in a window over the group: the other half of the
super-operators, where the rows themselves go on and not only what was found of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unshuffle.algebra.expressions import (
    AggregateCall,
    Call,
    Expression,
    Literal,
    Ref,
    SortKey,
    WindowCall,
    columns_of,
    connect,
)
from unshuffle.algebra.logical import Join, Plan, Project, Window
from unshuffle.algebra.predicates import conjunction
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import substitute
from unshuffle.rules.super_operators.abstract import Edge
from unshuffle.rules.super_operators.diamond_join import filtered, holds, not_
from unshuffle.rules.super_operators.grouped_pass import BOOLEAN, NONE, ONE, all_of, narrowed, when
from unshuffle.search.memo import Memo

# Joins that keep what belongs to rows: with the rows at the left, and at the right.
KEEPS_ROWS = (
    (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI),
    (JoinKind.INNER, JoinKind.RIGHT),
)

# Joins that keep groups as well that meet no row, in the same two ways.
KEEPS_GROUPS = (JoinKind.RIGHT, JoinKind.LEFT)
_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


@dataclass(frozen=True, slots=True)
class Beside:
    """A join of rows with something found of their groups. `rows` leads to the leaf, and all else is in the leaf's columns
    and in those of `found`."""

    leaf: Plan
    rows: Edge
    keys: tuple[Expression, ...]  # what groups are by
    found: tuple[tuple[Column, AggregateCall | Call], ...]
    outputs: Mapping[Column, Expression]  # the columns of the other side
    predicates: tuple[Expression, ...]  # whether the other side has a row for the group
    solid: Sequence[Column]  # of the join's left side, that must not be NULL
    rest: Sequence[Expression]  # what else the join asks, in the columns of its sides
    order: tuple[SortKey, ...] = ()
    frame: str | None = None


def beside(plan: Join, given: Beside, memo: Memo) -> Plan:
    """Each row with what was found of its group, as the join asks."""
    rows, values, both = _found(plan, given, memo)
    of_rows = conjunction(given.rows.predicates)
    shown: Expression | None = None
    match plan.kind:
        case JoinKind.INNER | JoinKind.SEMI:
            asked = both
        case JoinKind.ANTI:
            asked = all_of(of_rows, not_(None if both is None else holds(both)))
        case _:
            asked = of_rows
            shown = None if both is None else holds(both)
    return Project(
        filtered(rows, asked),
        tuple(
            (column, values[column] if column in given.rows.outputs else when(shown, values[column]))
            for column in plan.columns
        ),
    )


def with_groups(plan: Join, given: Beside, memo: Memo) -> Plan:
    """The rows that meet their group; and where none does, the group alone: in the place of whichever row came first, for
    nothing is shown of that one."""
    rows, values, both = _found(plan, given, memo)
    meets = None if both is None else holds(both)
    has_group = conjunction(given.predicates)
    if meets is not None:
        partition = next(call.partition for _, call in rows.calls)
        count = AggregateCall("count", (ONE,), NONE.type)
        met, place = (memo.numbers.new(name, NONE.type, nullable=False) for name in ("met", "place"))
        meeting = AggregateCall("count", (when(meets, ONE),), NONE.type)
        rows = Window(
            rows,
            (
                (met, WindowCall(meeting, partition, (), None)),
                (place, WindowCall(count, partition, (), _SO_FAR)),
            ),
        )
        is_alone = [
            Call("=", (Ref(met), NONE), BOOLEAN),
            Call("=", (Ref(place), Literal(1, NONE.type)), BOOLEAN),
        ]
        has_group = all_of(has_group, connect("or", [meets, connect("and", is_alone)]))
    return Project(
        filtered(rows, has_group),
        tuple(
            (column, when(meets, values[column]) if column in given.rows.outputs else values[column])
            for column in plan.columns
        ),
    )


def _found(plan: Join, given: Beside, memo: Memo) -> tuple[Window, dict[Column, Expression], Expression | None]:
    """The rows with what was found of their groups; the join's columns; and what it takes for a row to meet its group."""
    by = {key: key.column if isinstance(key, Ref) else memo.numbers.new("key", key.type) for key in given.keys}
    computed = tuple((column, key) for key, column in by.items() if not isinstance(key, Ref))
    narrow = narrowed(given.leaf, _read(plan, given), computed)
    partition = tuple(Ref(by[key]) for key in given.keys)
    calls = tuple((column, WindowCall(call, partition, given.order, given.frame)) for column, call in given.found)
    values = {**given.rows.outputs, **given.outputs}
    solid = (Call("isnotnull", (values[column],), BOOLEAN) for column in given.solid if column.nullable)
    of_rows = conjunction(given.rows.predicates)
    both = all_of(of_rows, *given.predicates, *solid, *(substitute(each, values) for each in given.rest))
    return Window(narrow, calls), values, both


def _read(plan: Join, given: Beside) -> frozenset[Column]:
    """The leaf's columns that are looked at."""
    wanted = frozenset(plan.columns).union(*(columns_of(each) for each in given.rest), given.solid)
    expressions = [
        *(e for column, e in given.rows.outputs.items() if column in wanted),
        *(e for column, e in given.outputs.items() if column in wanted),
        *given.rows.predicates,
        *given.predicates,
        *given.keys,
        *(call for _, call in given.found),
        *(key.expression for key in given.order),
    ]
    return frozenset[Column]().union(*map(columns_of, expressions)) & frozenset(given.leaf.columns)
