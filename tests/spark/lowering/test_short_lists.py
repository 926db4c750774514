"""Long lists of an IN as alternatives of short ones: the same truth values."""

from __future__ import annotations

import pyarrow as pa
import pytest

from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, walk
from unshuffle.spark.lowering.operators.rowwise import in_short_lists

A = Column(1, "a", pa.int64())


def among(count: int) -> Expression:
    return Call("in", (Ref(A), *(Literal(i, pa.int64()) for i in range(count))), pa.bool_())


def lists(condition: Expression) -> list[Call]:
    return [part for part in walk(condition) if isinstance(part, Call) and part.function == "in"]


@pytest.mark.parametrize("count", [11, 20, 21, 256])
def test_a_long_list_is_divided(count: int) -> None:
    found = lists(in_short_lists(Call("and", (among(count), among(3)), pa.bool_())))
    assert all(len(each.arguments) <= 11 for each in found)
    values = [value for each in found[:-1] for value in each.arguments[1:]]
    assert values == [Literal(i, pa.int64()) for i in range(count)]
    assert found[-1] == among(3)


@pytest.mark.parametrize("condition", [among(10), Call("not", (among(30),), pa.bool_())])
def test_other_conditions_stay_as_they_are(condition: Expression) -> None:
    assert in_short_lists(condition) == condition
