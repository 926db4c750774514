"""What is read from the text of Spark's plans."""

from __future__ import annotations

from unshuffle.spark.execution import executed_plan_diff


def test_keys_that_are_calls_before_a_name_that_begins_with_an_underscore() -> None:
    line = "Exchange hashpartitioning(coalesce(a_1#1, 0), isnull(a_1#1), _p_2#2, 5), ENSURE_REQUIREMENTS, [plan_id=9]"
    (shape,) = executed_plan_diff.of_text([line]).exchanges
    assert shape.partitions == 5
