"""Planning pays for much data and many exchanges, and never for little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unshuffle.cost.machine import Machine
from unshuffle.effort import PlanSize, stakes, too_little

MACHINE = Machine(cores=2)
SIZES = st.builds(PlanSize, st.floats(0, 1e12), st.integers(1, 200), st.integers(0, 50), st.booleans())


def test_a_small_query_is_left_as_it_is() -> None:
    found = too_little(PlanSize(1e5, 10, 2, may_grow=False), MACHINE)
    assert found is not None
    assert found.planning > found.saving


def test_a_large_query_is_planned() -> None:
    assert too_little(PlanSize(1e9, 10, 2, may_grow=False), MACHINE) is None


def test_a_query_whose_rows_may_grow_is_planned() -> None:
    assert too_little(PlanSize(1e5, 10, 2, may_grow=True), MACHINE) is None


@given(SIZES, st.floats(1, 100))
def test_more_data_is_never_a_reason_not_to_plan(size: PlanSize, times: float) -> None:
    larger = PlanSize(size.bytes * times, size.operators, size.redistributing, size.may_grow)
    assert stakes(larger, MACHINE).saving >= stakes(size, MACHINE).saving
    assert too_little(size, MACHINE) is not None or too_little(larger, MACHINE) is None
