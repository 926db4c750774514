"""Values that were made before, kept by what they were made for."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class RecentlyMade(Generic[_Key, _Value]):
    """At most this many values, the most recently used last. None is no value. All threads get the same object for a key."""

    def __init__(self, most: int) -> None:
        self._values: dict[_Key, _Value] = {}
        self._most = most
        self._lock = Lock()

    def get(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        made = self._values.get(key)
        if made is None:
            made = make()
        with self._lock:
            value = self._values.pop(key, made)  # another thread may have been faster
            self._values[key] = value
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]
        return value
