"""The facts about aggregate functions: complete, consistent with the signatures, and rejected where they are not."""

from __future__ import annotations

import pytest

from unshuffle.errors import InternalError
from unshuffle.plan.functions import signatures
from unshuffle.plan.functions.aggregates import _FACTS, NOTHING_KNOWN, aggregate_facts, parse_facts
from unshuffle.plan.functions.signatures import Kind

BUILT_IN = {
    name: function
    for name in signatures._lines()
    if (function := signatures.find(name)) is not None and function.kind is Kind.AGGREGATE
}
HEADING = "function  splits  merged_by  duplicates  order  distinct  empty  state  picks  extreme  one_row  result\n"
SUM = "sum  yes  sum  -  ignored  rows  null  numbers  -  -  sum  -\n"


def test_every_built_in_aggregate_has_an_entry() -> None:
    assert set(BUILT_IN) == set(_FACTS)


def test_an_aggregate_that_ignores_order_is_deterministic() -> None:
    for name, function in BUILT_IN.items():
        assert function.deterministic or not aggregate_facts(name).ignores_order, name


def test_only_picks_among_the_order_dependent_aggregates_split() -> None:
    """Any row that a pick may choose in a partition is one that it may choose in the whole group. A list has no such choice."""
    for name, function in BUILT_IN.items():
        facts = aggregate_facts(name)
        assert not facts.splits or function.deterministic or facts.picks_a_row, name


def test_a_state_that_is_one_value_has_the_type_of_the_result() -> None:
    for name in _FACTS:
        facts = aggregate_facts(name)
        if facts.merged_by is None:
            continue
        argument = "boolean" if facts.merged_by.startswith("bool") else "bigint"
        state = BUILT_IN[name].result_type([signatures._fixed(argument)])
        assert BUILT_IN[facts.merged_by].result_type([state]) == state, name


def test_the_functions_that_merge_ignore_how_rows_are_divided() -> None:
    for name in _FACTS:
        merge = aggregate_facts(name).merged_by
        assert merge is None or aggregate_facts(merge).ignores_order, name


def test_a_function_that_is_not_built_in_has_no_facts() -> None:
    assert aggregate_facts("my_sum") is NOTHING_KNOWN


def test_a_complete_table_is_read() -> None:
    assert parse_facts(HEADING + SUM) == {"sum": aggregate_facts("sum")}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sum  yes  sum  -  ignored  rows  null  numbers  -  -  sum\n", "sum are incomplete"),
        (SUM + SUM, "there twice"),
        ("sum  yes  sum  -  ignored  rows  nil  numbers  -  -  sum  -\n", "unknown word"),
        ("sum  no  sum  -  ignored  rows  null  numbers  -  -  sum  -\n", "unknown word"),
        ("sum  -  sum  -  ignored  rows  null  numbers  -  -  sum  -\n", "what is merged also splits"),
        ("list  yes  -  -  -  -  list  list  -  -  -  list\n", "a fixed number of values"),
        ("first  yes  -  -  -  -  null  numbers  by_position  -  -  value\n", "what a pick has"),
        ("max_by  yes  -  -  -  -  null  value  by_key  -  -  -\n", "by an extreme"),
        ("min  yes  -  ignored  ignored  -  null  numbers  -  -  -  -\n", "DISTINCT changes nothing"),
        ("count  yes  -  -  ignored  rows  null  numbers  -  -  -  count\n", "a count of no rows is zero"),
        ("list  -  -  -  -  -  null  list  -  -  -  list\n", "a list of no rows is empty"),
        ("sum  yes  -  -  ignored  rows  null  numbers  -  -  count  -\n", "over one row it is a count"),
        ("count  yes  sum  -  ignored  rows  zero  numbers  -  -  count  count\n", "does not merge itself"),
    ],
)
def test_a_table_with_a_bad_line_is_an_error(line: str, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        parse_facts(HEADING + line)
