"""Writes a rowset as a Markdown table."""

from __future__ import annotations

from unshuffle.operators import Outputter, Row


class Table(Outputter):
    """A table of these columns, given as a comma-separated string. NULL is an empty cell."""

    def __init__(self, columns: str) -> None:
        self.columns = [name.strip() for name in columns.split(",")]

    def header(self) -> str:
        return self._line(self.columns) + self._line(["---"] * len(self.columns))

    def format_row(self, row: Row) -> str:
        return self._line(["" if row[name] is None else str(row[name]).replace("|", "\\|") for name in self.columns])

    def _line(self, cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |\n"
