"""Intervals of an order that conditions select: they contain every row that satisfies the conditions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.catalog.schema import Column
from unshuffle.normalize.predicates.scan_pruning import intervals
from unshuffle.partitions import KeyColumn, KeyInterval, KeyOrder
from unshuffle.plan.expressions import Call, Expression, Literal, Ref

INT, BOOL = pa.int64(), pa.bool_()
A, B, C = (Column(number, name, INT) for number, name in enumerate("abc"))
ROWS = [(a, b) for a in (None, *range(5)) for b in (None, *range(5))]


def compare(name: str, column: Column, *values: int | None) -> Expression:
    return Call(name, (Ref(column), *(Literal(value, INT) for value in values)), BOOL)


def is_met(name: str, value: int | None, constants: tuple[int | None, ...]) -> bool:
    if name == "<=>":
        return value == constants[0]
    if value is None:
        return False
    if name == "in":
        return value in [each for each in constants if each is not None]
    if None in constants:
        return False
    first: Any = constants[0]
    match name:
        case "=":
            return value == first
        case "<":
            return value < first
        case "<=":
            return value <= first
        case ">":
            return value > first
        case ">=":
            return value >= first
        case _:
            low, high = constants
            return bool(low <= value <= high)  # type: ignore[operator]


def lies_within(row: tuple[Any, Any], found: tuple[KeyInterval, ...], keys: tuple[KeyColumn, ...]) -> bool:
    order = KeyOrder(keys)
    return any(order.place(each.low) <= order.row(row) < order.place(each.high) for each in found)


constants = st.none() | st.integers(-1, 5)
comparisons = st.one_of(
    st.tuples(st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]), st.sampled_from([A, B]), st.tuples(constants)),
    st.tuples(st.just("in"), st.sampled_from([A, B]), st.lists(constants, min_size=1, max_size=3).map(tuple)),
    st.tuples(st.just("between"), st.sampled_from([A, B]), st.tuples(constants, constants)),
)
a_key = st.builds(KeyColumn, st.just(INT), st.booleans(), st.booleans())


@given(st.lists(comparisons, max_size=4), a_key, a_key)
def test_intervals_contain_every_row_that_satisfies_the_conditions(
    conditions: list[tuple[str, Column, tuple[int | None, ...]]], first: KeyColumn, second: KeyColumn
) -> None:
    keys = (first, second)
    found = intervals([compare(name, column, *values) for name, column, values in conditions], (A, B), keys)
    for row in ROWS:
        value = dict(zip((A, B), row, strict=True))
        if all(is_met(name, value[column], values) for name, column, values in conditions):
            assert found is None or lies_within(row, found, keys)


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([compare("=", A, 1)], ["[(1), after (1))"]),
        ([compare("=", A, 1), compare(">", B, 3)], ["[after (1, 3), after (1))"]),
        ([compare("in", A, 1, 4), compare("<=", B, 3)], ["[(1), after (1, 3))", "[(4), after (4, 3))"]),
        ([compare("<", A, 3)], ["(-, (3))"]),
        ([compare("=", A, None)], []),
        ([compare(">", A, 4), compare("<", A, 2)], []),
    ],
)
def test_intervals(conditions: list[Expression], shown: list[str]) -> None:
    found = intervals(conditions, (A, B), (KeyColumn(INT), KeyColumn(INT)))
    assert found is not None
    assert list(map(str, found)) == shown


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [compare("=", B, 1)],
        [compare("=", C, 1)],
        [Call("=", (Ref(A), Literal("1", pa.string())), BOOL)],
        [Call("=", (Ref(A), Ref(B)), BOOL)],
        [Call("or", (compare("=", A, 1), compare("=", B, 1)), BOOL)],
    ],
)
def test_conditions_that_select_no_interval(conditions: list[Expression]) -> None:
    assert intervals(conditions, (A, B), (KeyColumn(INT), KeyColumn(INT))) is None
