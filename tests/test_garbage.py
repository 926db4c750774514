"""Python's garbage collector is held back while a query is planned, and is as it was afterwards."""

import gc
from collections.abc import Iterator

import pytest

from unshuffle.garbage import OBJECTS_BETWEEN_COLLECTIONS, fewer_collections


@pytest.fixture(autouse=True)
def _usual_threshold() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*usual)


def test_garbage_is_collected_less_often_inside_the_outermost_block() -> None:
    with fewer_collections():
        with fewer_collections():
            assert gc.get_threshold()[0] == OBJECTS_BETWEEN_COLLECTIONS
        assert gc.get_threshold()[0] == OBJECTS_BETWEEN_COLLECTIONS
    assert gc.get_threshold() == (700, 10, 10)


def test_it_is_as_before_after_an_error() -> None:
    with pytest.raises(ValueError, match="planned"), fewer_collections():
        raise ValueError("planned")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("seldom", [0, OBJECTS_BETWEEN_COLLECTIONS, 10 * OBJECTS_BETWEEN_COLLECTIONS])
def test_a_process_that_collects_seldom_or_never_keeps_its_threshold(seldom: int) -> None:
    gc.set_threshold(seldom)
    with fewer_collections():
        assert gc.get_threshold()[0] == seldom
    assert gc.get_threshold()[0] == seldom


def test_a_threshold_that_is_set_meanwhile_stays() -> None:
    with fewer_collections():
        gc.set_threshold(5000)
    assert gc.get_threshold()[0] == 5000
