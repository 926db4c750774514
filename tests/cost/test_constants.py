"""The table of constants is complete: a unit, a meaning and a source for each, and no name twice."""

from __future__ import annotations

from dataclasses import fields

from unshuffle.constants import (
    BY_HAND,
    CALIBRATED,
    CHOSEN,
    PARTITION_WRITING,
    SPARK,
    TABLE,
    MachineConstants,
)
from unshuffle.cost.machine import Machine


def test_every_constant_says_what_it_means_and_how_it_was_found() -> None:
    for each in TABLE:
        assert each.unit, each.name
        assert each.meaning, each.name
        assert each.found_by in (BY_HAND, CALIBRATED, CHOSEN, PARTITION_WRITING, SPARK), each.name


def test_no_two_constants_have_the_same_name() -> None:
    names = [each.name for each in TABLE]
    assert len(set(names)) == len(names)


def test_a_machine_has_its_constants_and_its_cores() -> None:
    assert {each.name for each in fields(Machine)} == {each.name for each in fields(MachineConstants)} | {"cores"}
