"""Python's garbage collector, held back while a query is planned.

A plan is some hundred thousand objects, nearly all of which live until it is chosen. With its default settings, Python looks
through them hundreds of times, which takes a fifth of the time of planning. It still collects while a query is planned, but
much less often, so the memory that garbage takes is bounded however many threads are planning.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

OBJECTS_BETWEEN_COLLECTIONS = 500_000

_lock = Lock()
_planning = 0  # blocks of `fewer_collections` that are running, in all threads
_usual = 0  # the threshold outside of them


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Inside the block, Python collects garbage after 500,000 new objects. If the process collects none, or seldom, it is
    left alone."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _planning, _usual
    with _lock:
        if _planning == 0:
            _usual, *others = gc.get_threshold()
            if 0 < _usual < OBJECTS_BETWEEN_COLLECTIONS:
                gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *others)
        _planning += 1


def _leave() -> None:
    global _planning
    with _lock:
        _planning -= 1
        threshold, *others = gc.get_threshold()
        # Somebody else may have set another one meanwhile.
        if _planning == 0 and threshold == OBJECTS_BETWEEN_COLLECTIONS != _usual:
            gc.set_threshold(_usual, *others)
