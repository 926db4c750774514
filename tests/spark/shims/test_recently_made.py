"""Values that are kept by what they were made for."""

from __future__ import annotations

from unshuffle.spark.shims.recently_made import RecentlyMade


def test_a_value_is_made_once_until_others_have_been_used_more_recently() -> None:
    made: list[str] = []
    kept: RecentlyMade[str, str] = RecentlyMade(2)

    def value(key: str) -> str:
        return kept.get(key, lambda: (made.append(key), key.upper())[1])

    assert [value(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]
