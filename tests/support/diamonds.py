"""Random queries of the shapes that super-operators match: several branches over one input, combined again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.support.random_plans import BIGINT, BOOLEAN, INT, Draw
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, Ref, WindowCall, connect
from unshuffle.plan.logical import (
    Filter,
    GroupBy,
    Join,
    Limit,
    Plan,
    Project,
    Reference,
    SetKind,
    SetOperation,
    Shared,
    Sort,
    Window,
)

KINDS = (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI)


class Diamonds(Draw):
    """Draws branches over one rowset: a shared one, or a table that each branch scans."""

    def __init__(self, draw: Any) -> None:
        super().__init__(draw)
        self._shared = None
        if self.pick(True, False):
            below: Plan = self.scan("t", a=True, b=True, c=True)
            if self.pick(True, False):
                below = Filter(below, self.condition(below.columns, 1))
            if self.pick(True, False, False):  # rows that tie in every column are equal
                below = Limit(Sort(below, self.order(below.columns)), self.pick(2, 4, 8))
            self._shared = Shared("s", below)

    def leaf_use(self) -> Plan:
        if self._shared is not None:
            return Reference(self._shared, tuple(self.numbers.like(column) for column in self._shared.columns))
        return self.scan("t", a=True, b=True, c=True)

    def edge(self, plan: Plan, keys: tuple[Column, ...], filters: bool = True) -> tuple[Plan, tuple[Column, ...]]:
        """Filters and projections in any order, and the keys above them."""
        for _ in range(self.pick(0, 0, 1, 2)):
            if filters and self.pick(True, False):
                plan = Filter(plan, self.condition(plan.columns, 1))
            else:
                names = {column: self.pick(column, self.numbers.like(column)) for column in plan.columns}
                outputs: list[tuple[Column, Expression]] = [(new, Ref(old)) for old, new in names.items()]
                if self.pick(True, False):
                    made = self.operand(plan.columns)
                    outputs.append((self.numbers.new("p", made.type), made))
                plan = Project(plan, tuple(outputs))
                keys = tuple(names[key] for key in keys)
        return plan, keys

    def branch(self, names: tuple[str, ...], least: int = 0) -> tuple[Plan, tuple[Column, ...]]:
        """A grouping by the leaf's columns of these names."""
        leaf = self.leaf_use()
        by_name = {column.name: column for column in leaf.columns}
        below, keys = self.edge(leaf, tuple(by_name[name] for name in names))
        calls = tuple(self.plain_aggregate(below.columns) for _ in range(self.pick(least, 1, 2)))
        return self.edge(GroupBy(below, keys, calls), keys)

    def plain_branch(self, names: tuple[str, ...]) -> tuple[Plan, tuple[Column, ...]]:
        """An aggregate without keys."""
        leaf = self.leaf_use()
        by_name = {column.name: column for column in leaf.columns}
        below, keys = self.edge(leaf, tuple(by_name[name] for name in names), filters=False)
        calls = tuple(self.plain_aggregate(below.columns) for _ in range(self.pick(1, 2)))
        return self.edge(GroupBy(below, keys, calls), keys)

    def plain_aggregate(self, columns: tuple[Column, ...]) -> tuple[Column, AggregateCall]:
        while True:
            column, call = self.aggregate(columns)
            if not call.distinct:
                return column, call

    def equal(self, left: tuple[Column, ...], right: tuple[Column, ...]) -> list[Expression]:
        return [
            Call(self.pick("=", "=", "<=>"), self.pick((Ref(a), Ref(b)), (Ref(b), Ref(a))), BOOLEAN)
            for a, b in zip(left, right, strict=True)
        ]


KEYS = (("a",), ("b",), ("a", "b"))


@st.composite
def unions(draw: Any) -> tuple[Plan, ColumnNumbers]:
    draws = Diamonds(draw)
    names = draws.pick(*KEYS)
    branches = [draws.branch(names, 1) for _ in range(draws.pick(2, 2, 3))]
    width = min(len(plan.columns) for plan, _ in branches)
    chosen = []
    for plan, _ in branches:
        kept = tuple(draws.draw(st.permutations(plan.columns)))[:width]
        # A branch may add constants and omit columns.
        outputs = tuple((draws.numbers.new("o", BIGINT), draws.pick(Ref(c), Ref(c), draws.literal())) for c in kept)
        chosen.append(Project(plan, outputs))
    columns = tuple(draws.numbers.new("u", BIGINT) for _ in range(width))
    return SetOperation(SetKind.UNION, True, tuple(chosen), columns), draws.numbers


@st.composite
def joins(draw: Any) -> tuple[Plan, ColumnNumbers]:
    draws = Diamonds(draw)
    names = draws.pick(*KEYS)
    plan, keys = draws.branch(names)
    for _ in range(draws.pick(1, 1, 2)):
        other, theirs = draws.branch(names)
        parts = draws.equal(keys, theirs)
        if draws.pick(True, False):
            parts.append(draws.condition((*plan.columns, *other.columns), 1))
        kind = draws.pick(*KINDS)
        plan = Join(kind, plan, other, connect("and", parts))
        if kind in (JoinKind.RIGHT, JoinKind.FULL):
            keys = theirs
    return plan, draws.numbers


@st.composite
def totals(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """A join of aggregates without keys over parts of the rows."""
    draws = Diamonds(draw)
    plan, _ = draws.branch((), 1)
    for _ in range(draws.pick(1, 2)):
        other, _ = draws.branch((), 1)
        condition = draws.condition((*plan.columns, *other.columns), 1) if draws.pick(True, False, False) else None
        plan = Join(JoinKind.INNER, plan, other, condition)
    return plan, draws.numbers


@st.composite
def joins_back(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Rows joined with aggregates of their groups, each over all rows or a part of them."""
    draws = Diamonds(draw)
    names = draws.pick(*KEYS)
    leaf = draws.leaf_use()
    by_name = {column.name: column for column in leaf.columns}
    rows, keys = draws.edge(leaf, tuple(by_name[name] for name in names))
    again = draws.leaf_use()
    by_name = {column.name: column for column in again.columns}
    below, theirs = draws.edge(again, tuple(by_name[name] for name in names), filters=draws.pick(False, False, True))
    if draws.pick(True, False, False):
        argument = Ref(draws.pick(*below.columns))
        name = draws.pick("min", "max")
        calls = ((draws.numbers.new(name, argument.type), AggregateCall(name, (argument,), argument.type)),)
    else:
        calls = tuple(draws.plain_aggregate(below.columns) for _ in range(draws.pick(1, 2, 2)))
        if draws.pick(True, True, False):
            calls = tuple((column, replace(call, where=None)) for column, call in calls)  # over all rows of a group
    groups, theirs = draws.edge(GroupBy(below, theirs, calls), theirs)
    sides = [(rows, keys), (groups, theirs)]
    (left, left_keys), (right, right_keys) = sides if draws.pick(True, True, False) else sides[::-1]
    parts = draws.equal(left_keys, right_keys)
    if draws.pick(True, False):
        parts.append(draws.condition((*left.columns, *right.columns), 1))
    return Join(draws.pick(*KINDS), left, right, connect("and", parts)), draws.numbers


@st.composite
def granularities(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Groups joined with the coarser groups that contain them."""
    draws = Diamonds(draw)
    plain = draws.pick(True, True, False)
    fine, keys = draws.branch(("a", "b")) if not plain else draws.plain_branch(("a", "b"))
    coarse, theirs = draws.branch(("a",)) if not plain else draws.plain_branch(("a",))
    parts = draws.equal(keys[:1], theirs)
    if draws.pick(True, False):
        parts.append(draws.condition((*fine.columns, *coarse.columns), 1))
    sides = (fine, coarse) if draws.pick(True, False) else (coarse, fine)
    return Join(draws.pick(*KINDS), sides[0], sides[1], connect("and", parts)), draws.numbers


@st.composite
def grouped_unions(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """A grouping over a UNION ALL of parts of one input."""
    draws = Diamonds(draw)
    inputs = []
    for _ in range(draws.pick(2, 2, 3)):
        leaf = draws.leaf_use()
        plan, columns = draws.edge(leaf, leaf.columns)
        inputs.append(Project(plan, tuple((draws.numbers.like(c), Ref(c)) for c in columns)))
    columns = tuple(draws.numbers.new(name, INT) for name in "abc")
    union = SetOperation(SetKind.UNION, True, tuple(inputs), columns)
    calls = tuple(draws.plain_aggregate(columns) for _ in range(draws.pick(1, 2)))
    return GroupBy(union, draws.some(columns), calls), draws.numbers


@st.composite
def existences(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Semi- and anti-joins with other rows of the same group."""
    draws = Diamonds(draw)
    sides = []
    for _ in range(2):
        leaf = draws.leaf_use()
        sides.append(draws.edge(leaf, leaf.columns))
    (left, mine), (right, theirs) = sides
    count = draws.pick(1, 2)
    parts = draws.equal(mine[:count], theirs[:count])
    if draws.pick(True, True, False):
        pair = (Ref(draws.pick(*mine)), Ref(draws.pick(*theirs)))
        parts.append(Call(draws.pick("<>", "<", ">", "<=", ">="), draws.pick(pair, pair[::-1]), BOOLEAN))
    if draws.pick(True, False, False):
        parts.append(draws.condition(draws.pick(left.columns, right.columns), 1))
    return Join(draws.pick(JoinKind.SEMI, JoinKind.ANTI), left, right, connect("and", parts)), draws.numbers


@st.composite
def first_rows(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Rows joined with the first row of their group, in a total order."""
    draws = Diamonds(draw)
    leaf = draws.leaf_use()
    rows, keys = draws.edge(leaf, leaf.columns)
    again = draws.leaf_use()
    below, theirs = draws.edge(again, again.columns, filters=draws.pick(False, False, True))
    number = draws.numbers.new("n", INT, False)
    order = draws.order((*draws.draw(st.permutations(theirs)), *below.columns))
    call = WindowCall(Call("row_number", (), INT), (Ref(theirs[0]),), order, None)
    first = Call(draws.pick("=", "<="), (Ref(number), Literal(draws.pick(1, 1, 1, 2), INT)), BOOLEAN)
    firsts = Filter(Window(below, ((number, call),)), first)
    kept = Project(firsts, tuple((column, Ref(column)) for column in below.columns))
    parts = draws.equal(keys[:1], theirs[:1])
    if draws.pick(True, False):
        parts.append(draws.condition((*rows.columns, *kept.columns), 1))
    sides: tuple[Plan, Plan] = (rows, kept) if draws.pick(True, True, False) else (kept, rows)
    return Join(draws.pick(*KINDS), sides[0], sides[1], connect("and", parts)), draws.numbers


@st.composite
def extremes(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Rows that have the least or greatest value of their group."""
    draws = Diamonds(draw)
    leaf, again = draws.leaf_use(), draws.leaf_use()
    rows, mine = draws.edge(leaf, leaf.columns)
    below, theirs = draws.edge(again, again.columns, filters=False)
    name = draws.pick("min", "max")
    extreme = draws.numbers.new(name, INT)
    groups = GroupBy(below, theirs[:1], ((extreme, AggregateCall(name, (Ref(theirs[1]),), INT)),))
    parts = [*draws.equal(mine[:1], theirs[:1]), Call("=", (Ref(mine[1]), Ref(extreme)), BOOLEAN)]
    sides: tuple[Plan, Plan] = (rows, groups) if draws.pick(True, True, False) else (groups, rows)
    return Join(draws.pick(JoinKind.INNER, JoinKind.SEMI), sides[0], sides[1], connect("and", parts)), draws.numbers


def rows_of(values: Any) -> list[dict[str, int | None]]:
    return [dict(zip("abc", row, strict=True)) for row in values]


@st.composite
def tables(draw: Any) -> dict[str, list[dict[str, int | None]]]:
    value = st.one_of(st.none(), st.integers(0, 3))
    row = st.tuples(value, value, value)
    return {"t": rows_of(draw(st.lists(row, max_size=8)))}
