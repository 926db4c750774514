"""Names of columns and texts of expressions. A column shows its number only if another column has the same name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Expression, Ref, SortKey
from unshuffle.plan.logical import Plan
from unshuffle.plan.sql import order_words, to_sql


class ColumnNames:
    """The names of a plan's columns. `subquery` gives the text of a subquery inside an expression."""

    def __init__(
        self,
        columns: Iterable[Column],
        subquery: Callable[[Plan], str] = lambda _: "subquery",
        renumbered: bool = False,
    ) -> None:
        """With `renumbered`, columns of one name are numbered 1, 2, ... instead of by their ids. Ids change whenever another
        column is added before them, so texts that are compared across versions need it."""
        by_id = sorted(frozenset(columns), key=lambda column: column.id)
        self._uses_of_name = Counter(column.name.lower() for column in by_id)
        self._subquery = subquery
        self._numbers: dict[Column, int] = {}
        seen: Counter[str] = Counter()
        for column in by_id if renumbered else ():
            seen[column.name.lower()] += 1
            self._numbers[column] = seen[column.name.lower()]

    def name(self, column: Column) -> str:
        if self._uses_of_name[column.name.lower()] <= 1:
            return column.name
        return f"{column.name}#{self._numbers.get(column, column.id)}"

    def listed(self, columns: Iterable[Column]) -> str:
        return ", ".join(map(self.name, columns))

    def set(self, columns: Iterable[Column]) -> str:
        """A set of columns, listed by id."""
        return self.listed(sorted(columns, key=lambda c: c.id))

    def pairs(self, left: Sequence[Column], right: Sequence[Column]) -> str:
        """Equated columns: `a = x and b = y`."""
        return " and ".join(f"{self.name(a)} = {self.name(b)}" for a, b in zip(left, right, strict=True))

    def expression(self, expression: Expression) -> str:
        text = to_sql(expression, self.name, self._subquery)
        # Parentheses around the whole expression are redundant.
        return text[1:-1] if text.startswith("(") and _closes_last(text) else text

    def order(self, keys: Sequence[SortKey]) -> str:
        def direction(key: SortKey) -> str:
            is_default = key.nulls_first != key.descending
            return ("DESC" if key.descending else "") if is_default else order_words(key)

        return ", ".join(f"{self.expression(key.expression)} {direction(key)}".strip() for key in keys)

    def assignments(self, outputs: Sequence[tuple[Column, Expression]]) -> str:
        """Computed columns: `a, c = a + b`. A column that is passed through shows its name alone."""
        parts = []
        for column, expression in outputs:
            is_passed_through = isinstance(expression, Ref) and expression.column == column
            name = self.name(column)
            parts.append(name if is_passed_through else f"{name} = {self.expression(expression)}")
        return ", ".join(parts)


def _closes_last(text: str) -> bool:
    """Whether the first parenthesis is closed by the last character. Parentheses inside quotes do not count."""
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
