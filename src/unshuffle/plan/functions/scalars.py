"""Facts about scalar functions and operators."""

from __future__ import annotations

COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
# a < b is b > a.
FLIPPED = {"=": "=", "<=>": "<=>", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
# Calls that are NULL if any argument is NULL.
NULL_IF_ANY_NULL = COMPARISONS | frozenset(
    (
        "+",
        "-",
        "*",
        "/",
        "%",
        "div",
        "not",
        "like",
        "rlike",
        "between",
        "substring",
        "upper",
        "lower",
        "negative",
        "abs",
    )
)
# Calls that treat values alike that GROUP BY treats as equal, such as 0.0 and -0.0.
RESPECT_EQUALITY = COMPARISONS | frozenset(("<=>", "in", "between", "isnull", "isnotnull", "not", "and", "or"))
