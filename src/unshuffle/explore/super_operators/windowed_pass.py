"""Values computed over a group of rows, added to each row of the group by a window.

`grouped_pass` serves the super-operators whose result is groups, this module those whose result is rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Edge
from unshuffle.explore.super_operators.diamond_join import filtered, holds, not_
from unshuffle.explore.super_operators.grouped_pass import BOOLEAN, NONE, ONE, all_of, narrowed, when
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import (
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
from unshuffle.plan.logical import Join, Plan, Project, Window
from unshuffle.plan.movable_conditions import substitute
from unshuffle.plan.predicates import conjunction
from unshuffle.search.memo import Memo

# Joins whose result is rows with values of their group: with the rows as left input, and as right input.
KEEPS_ROWS = (
    (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI),
    (JoinKind.INNER, JoinKind.RIGHT),
)

# Joins that also keep groups without a matching row, with the rows as left input, and as right input.
KEEPS_GROUPS = (JoinKind.RIGHT, JoinKind.LEFT)
_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


@dataclass(frozen=True, slots=True)
class WindowedPass:
    """A join of rows with values of their groups. `rows` leads to the leaf. All other expressions are over the leaf's columns
    and the columns of `calls`."""

    leaf: Plan
    rows: Edge
    keys: tuple[Expression, ...]  # the groups
    calls: tuple[tuple[Column, AggregateCall | Call], ...]
    outputs: Mapping[Column, Expression]  # the columns of the other input
    predicates: tuple[Expression, ...]  # whether the other input has a row for the group
    not_null: Sequence[Column]  # key columns of the join's left input that must not be NULL
    residual: Sequence[Expression]  # further conditions of the join, over the columns of its inputs
    order: tuple[SortKey, ...] = ()
    frame: str | None = None


def rows_with_values(plan: Join, spec: WindowedPass, memo: Memo) -> Plan:
    """The rows with the values of their group, filtered and NULL-extended as the join demands."""
    rows, values, both = _windowed(plan, spec, memo)
    of_rows = conjunction(spec.rows.predicates)
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
            (column, values[column] if column in spec.rows.outputs else when(shown, values[column]))
            for column in plan.columns
        ),
    )


def rows_or_groups(plan: Join, spec: WindowedPass, memo: Memo) -> Plan:
    """The rows that match their group, and the groups that no row matches. Such a group is produced from its first row,
    with NULL for all columns of that row."""
    rows, values, both = _windowed(plan, spec, memo)
    matches = None if both is None else holds(both)
    has_group = conjunction(spec.predicates)
    if matches is not None:
        partition = next(call.partition for _, call in rows.calls)
        count = AggregateCall("count", (ONE,), NONE.type)
        matched, place = (memo.numbers.new(name, NONE.type, nullable=False) for name in ("met", "place"))
        matching = AggregateCall("count", (when(matches, ONE),), NONE.type)
        rows = Window(
            rows,
            (
                (matched, WindowCall(matching, partition, (), None)),
                (place, WindowCall(count, partition, (), _SO_FAR)),
            ),
        )
        is_alone = [
            Call("=", (Ref(matched), NONE), BOOLEAN),
            Call("=", (Ref(place), Literal(1, NONE.type)), BOOLEAN),
        ]
        has_group = all_of(has_group, connect("or", [matches, connect("and", is_alone)]))
    return Project(
        filtered(rows, has_group),
        tuple(
            (column, when(matches, values[column]) if column in spec.rows.outputs else values[column])
            for column in plan.columns
        ),
    )


def _windowed(plan: Join, spec: WindowedPass, memo: Memo) -> tuple[Window, dict[Column, Expression], Expression | None]:
    """The rows with the values of their groups; the join's columns; and the condition for a row to match its group."""
    by = {key: key.column if isinstance(key, Ref) else memo.numbers.new("key", key.type) for key in spec.keys}
    computed = tuple((column, key) for key, column in by.items() if not isinstance(key, Ref))
    narrow = narrowed(spec.leaf, _read(plan, spec), computed)
    partition = tuple(Ref(by[key]) for key in spec.keys)
    calls = tuple((column, WindowCall(call, partition, spec.order, spec.frame)) for column, call in spec.calls)
    values = {**spec.rows.outputs, **spec.outputs}
    not_null = (Call("isnotnull", (values[column],), BOOLEAN) for column in spec.not_null if column.nullable)
    of_rows = conjunction(spec.rows.predicates)
    both = all_of(of_rows, *spec.predicates, *not_null, *(substitute(each, values) for each in spec.residual))
    return Window(narrow, calls), values, both


def _read(plan: Join, spec: WindowedPass) -> frozenset[Column]:
    """The columns of the leaf that the join needs."""
    wanted = frozenset(plan.columns).union(*(columns_of(each) for each in spec.residual), spec.not_null)
    expressions = [
        *(e for column, e in spec.rows.outputs.items() if column in wanted),
        *(e for column, e in spec.outputs.items() if column in wanted),
        *spec.rows.predicates,
        *spec.predicates,
        *spec.keys,
        *(call for _, call in spec.calls),
        *(key.expression for key in spec.order),
    ]
    return frozenset[Column]().union(*map(columns_of, expressions)) & frozenset(spec.leaf.columns)
