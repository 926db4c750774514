"""Matching misses nothing: a small version of `tools/completeness.py`, which covers three columns."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "completeness.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("completeness", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["completeness"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.parametrize("survey", ["survey_local", "survey_global"])
def test_two_columns_every_true_implication_is_proven_and_no_false_one(tool, survey: str, with_nulls: bool) -> None:
    count = getattr(tool, survey)(tool.COLUMNS[:2], 1, with_nulls)
    assert count.missed == ()
    assert count.unsound == 0
    assert count.proven == count.true > 0


def test_three_columns_with_one_fact(tool) -> None:
    count = tool.survey_global(tool.COLUMNS, 1, False)
    assert count.missed == ()
    assert count.unsound == 0
