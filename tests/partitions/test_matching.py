"""Which parts can meet: the example, and every matching against rows that really meet."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.partitions import (
    AllOf,
    AnyOf,
    Compared,
    Condition,
    KeyColumn,
    KeyInterval,
    PartitionIndex,
    TableParts,
    closed_interval,
    interval_of_value,
    meeting_parts,
)
from unshuffle.partitions.matching import FLIPPED

KEY = (KeyColumn(pa.int64()),)
Row = dict[str, int | None]
COLUMNS = "abc"

values = st.none() | st.integers(0, 9)
rows = st.fixed_dictionaries(dict.fromkeys(COLUMNS, values))
tables = st.lists(st.lists(rows, max_size=4), min_size=1, max_size=6)
compared = st.builds(Compared, st.sampled_from(COLUMNS), st.sampled_from(sorted(FLIPPED)), st.sampled_from(COLUMNS))
conditions: st.SearchStrategy[Condition] = st.recursive(
    compared,
    lambda inner: st.builds(AllOf, st.tuples(inner, inner)) | st.builds(AnyOf, st.tuples(inner, inner)),
    max_leaves=4,
)


def bounds(part: list[Row], column: str) -> list[KeyInterval]:
    """The exact bounds of a column, as footers have them."""
    present = [value for row in part if (value := row[column]) is not None]
    nulls = [interval_of_value((None,))] if len(present) < len(part) else []
    return [*nulls, closed_interval((min(present),), (max(present),))] if present else nulls


def indexed(parts: list[list[Row]], columns: str = COLUMNS) -> TableParts:
    return TableParts(len(parts), {c: PartitionIndex(KEY, [bounds(part, c) for part in parts]) for c in columns})


def is_true(condition: Condition, left: Row, right: Row) -> bool:
    match condition:
        case AllOf(each):
            return all(is_true(one, left, right) for one in each)
        case AnyOf(each):
            return any(is_true(one, left, right) for one in each)
        case Compared(one, operator, other):
            x, y = left[one], right[other]
            if operator == "<=>":
                return x == y
            if x is None or y is None:
                return False
            return {"=": x == y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[operator]


def may_be_true(condition: Condition, left: list[Row], right: list[Row]) -> bool:
    """Whether the bounds of two parts allow it, one pair at a time."""
    match condition:
        case AllOf(each):
            return all(may_be_true(one, left, right) for one in each)
        case AnyOf(each):
            return any(may_be_true(one, left, right) for one in each)
        case Compared(one, operator, other):
            x = [value for row in left if (value := row[one]) is not None]
            y = [value for row in right if (value := row[other]) is not None]
            if operator == "<=>" and len(x) < len(left) and len(y) < len(right):
                return True
            if not x or not y:
                return False
            return {
                "=": min(x) <= max(y) and min(y) <= max(x),
                "<=>": min(x) <= max(y) and min(y) <= max(x),
                "<": min(x) < max(y),
                "<=": min(x) <= max(y),
                ">": max(x) > min(y),
                ">=": max(x) >= min(y),
            }[operator]


@given(tables, tables, conditions)
def test_pairs_are_those_that_the_bounds_allow(
    left: list[list[Row]], right: list[list[Row]], condition: Condition
) -> None:
    found = meeting_parts(indexed(left), indexed(right), condition)
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            assert (j in found[i]) == may_be_true(condition, one, other)
            assert j in found[i] or not any(is_true(condition, x, y) for x in one for y in other)


def test_a_column_without_bounds_excludes_nothing() -> None:
    parts: list[list[Row]] = [[{"a": 1, "b": 1, "c": 1}], [{"a": 2, "b": 2, "c": 2}]]
    without = indexed(parts, "b")
    assert meeting_parts(indexed(parts), without, Compared("a", "=", "a")) == [{0, 1}, {0, 1}]
    both = AllOf((Compared("a", "=", "a"), Compared("b", "=", "b")))
    assert meeting_parts(indexed(parts), without, both) == [{0}, {1}]
