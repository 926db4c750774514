"""Constructs that only Spark understands. A query with one becomes a `Foreign` operator."""

from __future__ import annotations


class NotUnderstood(Exception):
    """Ends the binding of a query, which Spark then runs as a whole. The reason is shown under `fallbacks`."""


_CLAUSES = {
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "hint": "a hint",
    "hints": "a hint",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "joins": "a join after a query",
    "version": "time travel",
    "when": "time travel",
}


def clause(name: str) -> NotUnderstood:
    """The error for a clause, by sqlglot's name for it."""
    return NotUnderstood(_CLAUSES.get(name, name.rstrip("_").upper()))
