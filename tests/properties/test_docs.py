"""Runs the examples of docs/properties.md."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "properties.md"


def test_the_examples_of_the_page_on_properties() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted > 10
    assert found.failed == 0
