"""SQL texts as they are handed to Spark's parser."""

from __future__ import annotations

import pytest

from unshuffle.errors import Source
from unshuffle.language.parse.spark_text import spark_texts


def texts(text: str) -> list[str] | None:
    found = spark_texts(Source("<query>", text))
    return None if found is None else [each.text for each in found]


def test_parameters_become_markers_outside_of_strings_and_names() -> None:
    (found,) = spark_texts(Source("<query>", "select @n, '@n', `@n` from t where x = @who")) or ()
    assert found.text == "select :n, '@n', `@n` from t where x = :who"
    assert found.parameters == {"n", "who"}


def test_streams_become_views() -> None:
    (found,) = spark_texts(Source("<query>", 'select * from SSTREAM "a/b.ss" as s join t on true')) or ()
    assert found.text == "select * from _s0 as s join t on true"
    assert found.streams == {"_s0": "a/b.ss"}
    assert "t" in found.words


def test_statements_are_apart() -> None:
    assert texts("select ';' as a; -- none;\nselect 2;") == ["select ';' as a", "select 2"]


@pytest.mark.parametrize("text", ["x = select 1; select 2", 'OUTPUT x TO "y"', "VIEW v AS select 1"])
def test_scripts_are_not_for_spark(text: str) -> None:
    assert texts(text) is None


@pytest.mark.parametrize(
    ("text", "is_query"),
    [
        ("select 1", True),
        ("(select 1) union (select 2)", True),
        ("from t select a", True),
        ("drop table t", False),
        ("insert into t select 1", False),
        ("with q as (select 1) insert into t select * from q", False),
        ("set a = 1", False),
    ],
)
def test_commands_are_recognized(text: str, is_query: bool) -> None:
    (found,) = spark_texts(Source("<query>", text)) or ()
    assert found.is_query == is_query
