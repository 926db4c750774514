"""Groups a user's clicks into sessions."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from unshuffle.operators import Reducer, Row


class Sessions(Reducer):
    """One row per session. A session ends when the user does nothing for more than `idle_minutes`.

    The clicks of a user come ordered by time (PRESORT) and one at a time, so a user may have any number of clicks.
    """

    def __init__(self, idle_minutes: int = 30) -> None:
        self.idle = datetime.timedelta(minutes=idle_minutes)

    def reduce_rows(self, key: Row, rows: Iterator[Row]) -> Iterator[Row]:
        session: Row | None = None
        for row in rows:
            if session is None or row["ts"] - session["ended"] > self.idle:
                if session is not None:
                    yield session
                number = 1 if session is None else session["session"] + 1
                session = {**key, "session": number, "started": row["ts"], "ended": row["ts"], "clicks": 0}
            session["ended"] = row["ts"]
            session["clicks"] += 1
        if session is not None:
            yield session
