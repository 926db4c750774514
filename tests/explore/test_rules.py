"""The list of exploration rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from unshuffle.errors import InternalError
from unshuffle.explore.rules import EXPLORATION, RULE_NAMES, SUPER_OPERATOR_NAMES, _names


def test_users_can_disable_every_rule() -> None:
    assert {rule.__name__ for rule in EXPLORATION} | SUPER_OPERATOR_NAMES == RULE_NAMES


def test_two_rules_of_one_name_are_rejected() -> None:
    with pytest.raises(InternalError, match="split_limit"):
        _names((*EXPLORATION, *(rule for rule in EXPLORATION if rule.__name__ == "split_limit")))


def test_a_rule_without_a_docstring_is_rejected() -> None:
    def silent(plan: Any, memo: Any) -> Iterator[Any]:
        yield plan

    with pytest.raises(InternalError, match="silent"):
        _names((*EXPLORATION, silent))
