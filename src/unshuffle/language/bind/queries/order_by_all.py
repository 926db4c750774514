"""ORDER BY ALL: by every item of the SELECT list. A column named `all` comes first."""

from __future__ import annotations

from sqlglot import exp


def is_all(order: exp.Expr) -> bool:
    (first, *others) = order.expressions
    return not others and isinstance(first.this, exp.Var) and first.this.name.upper() == "ALL"
