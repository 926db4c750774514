"""What a condition says of one column: every row for which it is true has its value in the intervals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.evaluation import value
from unshuffle.catalog.schema import Column
from unshuffle.partitions import Cut, KeyColumn, KeyInterval, closed_interval, interval_of_value
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, connect
from unshuffle.plan.predicate_intervals import NULLS, VALUES, intervals_of_column

INT, BOOL = pa.int64(), pa.bool_()
A, B = Column(1, "a", INT), Column(2, "b", INT)
KEY = KeyColumn(INT)
DOMAIN = (None, *range(-1, 6))


def call(name: str, *arguments: Any) -> Expression:
    bound = (Ref(a) if isinstance(a, Column) else a if isinstance(a, Call) else Literal(a, INT) for a in arguments)
    return Call(name, tuple(bound), BOOL)


def below(value: int) -> KeyInterval:
    return KeyInterval(NULLS.high, Cut((value,)))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (connect("and", [call(">=", A, 1), call("<", A, 4)]), (KeyInterval(Cut((1,)), Cut((4,))),)),
        (connect("and", [call(">=", A, 1), call(">", A, 2)]), (KeyInterval(Cut((2,), after=True), VALUES.high),)),
        (call("<", A, 4), (below(4),)),
        (call("in", A, 1, 3, None), (interval_of_value((1,)), interval_of_value((3,)))),
        (call("between", A, 1, 3), (closed_interval((1,), (3,)),)),
        (call("<=>", A, None), (NULLS,)),
        (call("isnull", A), (NULLS,)),
        (call("=", A, None), ()),
        (connect("or", [call("isnull", A), call("<", A, 0)]), (NULLS, below(0))),
        (connect("or", [call("=", A, 1), call("=", A, 2)]), (closed_interval((1,), (2,)),)),
        (connect("or", [connect("and", [call("=", A, 1), call("<", B, 5)]), call("=", A, 3)]),
         (interval_of_value((1,)), interval_of_value((3,)))),
        (connect("or", [call("=", A, 1), call("=", B, 1)]), None),
        (connect("and", [call("=", A, 1), call("isnull", A)]), ()),
        (call("=", A, B), (VALUES,)),
        (call("<=>", A, B), None),
        (call("coalesce", call("=", A, 1), call("=", B, 1)), None),
    ],
)  # fmt: skip
def test_intervals_of_a_column(condition: Expression, expected: tuple[KeyInterval, ...] | None) -> None:
    assert intervals_of_column(condition, A, KEY) == expected


def test_a_literal_of_another_type_says_only_that_there_is_a_value() -> None:
    condition = Call("<", (Ref(A), Literal("4", pa.string())), BOOL)
    assert intervals_of_column(condition, A, KEY) == (VALUES,)


constants = st.sampled_from(DOMAIN)
columns = st.sampled_from((A, B))
comparisons = st.one_of(
    st.builds(call, st.sampled_from(("=", "<", "<=", ">", ">=", "<=>", "<>")), columns, constants),
    st.builds(lambda name, constant, column: call(name, constant, column), st.sampled_from("<>="), constants, columns),
    st.builds(lambda column, some: call("in", column, *some), columns, st.lists(constants, min_size=1, max_size=3)),
    st.builds(lambda column, low, high: call("between", column, low, high), columns, constants, constants),
    st.builds(call, st.sampled_from(("isnull", "isnotnull")), columns),
    st.builds(call, st.just("<"), columns, columns),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds(lambda word, parts: connect(word, parts), st.sampled_from(("and", "or")), st.lists(inner, min_size=2, max_size=3)),
        st.builds(lambda part: call("not", part), inner),
    ),
    max_leaves=6,
)  # fmt: skip


@given(conditions)
def test_no_row_is_outside_of_the_intervals(condition: Expression) -> None:
    found = intervals_of_column(condition, A, KEY)
    if found is None:
        return
    assert all(each == NULLS or not each.holds((KEY,), (None,)) for each in found)
    for a in DOMAIN:
        is_inside = any(each.holds((KEY,), (a,)) for each in found)
        assert is_inside or not any(value(condition, {A: a, B: b}) is True for b in DOMAIN)
