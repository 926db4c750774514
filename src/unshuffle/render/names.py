"""Columns and expressions as people read them: by name, with the number only where two columns have one name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from unshuffle.algebra.expressions import Expression, Ref, SortKey
from unshuffle.algebra.logical import Plan
from unshuffle.algebra.sql import order_words, to_sql
from unshuffle.catalog.schema import Column


class Names:
    """The names of a plan's columns. `subquery` writes the plan of a subquery that stands in an expression."""

    def __init__(
        self,
        columns: Iterable[Column],
        subquery: Callable[[Plan], str] = lambda _: "subquery",
        renumbered: bool = False,
    ) -> None:
        """With `renumbered`, columns of one name are told apart as 1, 2, ... and not by their numbers in the plan, which
        are others as soon as another column comes before them."""
        every = sorted(frozenset(columns), key=lambda column: column.id)
        self._same_name = Counter(column.name.lower() for column in every)
        self._subquery = subquery
        self._numbers: dict[Column, int] = {}
        seen: Counter[str] = Counter()
        for column in every if renumbered else ():
            seen[column.name.lower()] += 1
            self._numbers[column] = seen[column.name.lower()]

    def name(self, column: Column) -> str:
        if self._same_name[column.name.lower()] <= 1:
            return column.name
        return f"{column.name}#{self._numbers.get(column, column.id)}"

    def listed(self, columns: Iterable[Column]) -> str:
        return ", ".join(map(self.name, columns))

    def set(self, columns: Iterable[Column]) -> str:
        """Columns in no order of their own."""
        return self.listed(sorted(columns, key=lambda c: c.id))

    def text(self, expression: Expression) -> str:
        text = to_sql(expression, self.name, self._subquery)
        # The outermost parentheses say nothing when the expression stands alone.
        return text[1:-1] if text.startswith("(") and _closes_last(text) else text

    def order(self, keys: Sequence[SortKey]) -> str:
        def words(key: SortKey) -> str:
            usual = key.nulls_first != key.descending
            return ("DESC" if key.descending else "") if usual else order_words(key)

        return ", ".join(f"{self.text(k.expression)} {words(k)}".strip() for k in keys)

    def made(self, outputs: Sequence[tuple[Column, Expression]]) -> str:
        parts = []
        for column, expression in outputs:
            passed = isinstance(expression, Ref) and expression.column == column
            parts.append(self.name(column) if passed else f"{self.name(column)} = {self.text(expression)}")
        return ", ".join(parts)


def _closes_last(text: str) -> bool:
    """Whether the parenthesis that opens the text is closed by its last character. Quotes are skipped."""
    depth, quote_mark = 0, ""
    for i, c in enumerate(text):
        if quote_mark:
            if c == quote_mark and text[i - 1] != "\\":
                quote_mark = ""
        elif c in "'`":
            quote_mark = c
        elif c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
            if depth == 0:
                return i == len(text) - 1
    return False
