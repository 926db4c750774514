"""The fraction of a column's texts that a LIKE pattern matches.

The pattern is matched against the common values, and against the bounds of the histogram, which are a sample of the other
values. If the column has neither, a prefix without wildcards is a range, and every other run of literal text has a default
selectivity.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from unshuffle.cardinality.distributions import ValueRange, range_fraction
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.constants import ASSUMED
from unshuffle.plan.expressions import Call, Expression, Literal, Template, walk

_LARGEST = "\U0010ffff"
_MIN_SAMPLE = 10
# Patterns that Spark compares directly. The others become regular expressions.
_DIRECT = re.compile(r"%?[^%_]*%?|[^%_]+%[^%_]+")
_NOT_LIKE = re.compile(r"^ NOT (I?LIKE) '((?:[^'\\]|\\.)*)'$")


def pattern_fraction(column: ColumnStatistics, pattern: str, escape: str, ignore_case: bool) -> tuple[float, bool]:
    """The fraction of all rows that match, and whether it rests on a default."""
    prefix, runs = literal_runs(pattern, escape)
    prefix_fraction = None
    if prefix and not ignore_case and isinstance(column.low, str):
        prefix_fraction = range_fraction(column, ValueRange(prefix, True, prefix + _LARGEST, True))
        if (
            column.histogram is None
            and prefix_fraction is not None
            and column.low <= prefix + _LARGEST
            and prefix <= column.high
        ):
            # Texts are not uniform between the minimum and the maximum, and queries ask for prefixes that exist.
            prefix_fraction = max(prefix_fraction, ASSUMED.like_prefix)
    matching = _matching_fraction(column, _matcher(pattern, escape, ignore_case))
    if matching is not None:
        # A prefix between two bounds matches none of them. Then it is rarer than one bucket.
        return matching if prefix_fraction is None or runs else max(prefix_fraction, matching), False
    rest = ASSUMED.like_literal * ASSUMED.interval_condition ** (runs - 1) if runs else 1.0
    first = prefix_fraction if prefix_fraction is not None else ASSUMED.like_literal if prefix else 1.0
    return float(first * rest), prefix_fraction is None or runs > 0


@lru_cache(maxsize=512)
def _matcher(pattern: str, escape: str, ignore_case: bool) -> Callable[[str], object]:
    """The test whether a text matches a pattern."""
    pieces: list[str] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if character == escape and index + 1 < len(pattern):
            index += 1
            pieces.append(re.escape(pattern[index]))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
        index += 1
    return re.compile("".join(pieces), re.DOTALL | (re.IGNORECASE if ignore_case else 0)).fullmatch


def _matching_fraction(column: ColumnStatistics, matches: Callable[[str], object]) -> float | None:
    matched = sum(fraction for value, fraction in column.common if isinstance(value, str) and matches(value))
    if column.lists_all_values:
        return matched
    listed = sum(fraction for _, fraction in column.common)
    rest = max(0.0, 1.0 - column.null_fraction - listed)
    bounds = column.histogram.bounds if column.histogram is not None else (value for value, _ in column.common)
    values = [value for value in bounds if isinstance(value, str)]
    if len(values) < _MIN_SAMPLE:
        return None
    # No match counts as half a match: a sample of n cannot distinguish 0 from one in n.
    hits = max(0.5, float(sum(1 for value in values if matches(value))))
    return matched + rest * hits / len(values)


def literal_runs(pattern: str, escape: str) -> tuple[str, int]:
    """The literal prefix of a pattern, and the number of runs of literal text after a wildcard."""
    prefix: list[str] = []
    runs, index, is_after_wildcard, starts_run = 0, 0, False, False
    while index < len(pattern):
        character = pattern[index]
        if character == escape and index + 1 < len(pattern):
            index += 1
            character = pattern[index]
        elif character in "%_":
            is_after_wildcard = starts_run = True
            index += 1
            continue
        if not is_after_wildcard:
            prefix.append(character)
        elif starts_run:
            runs, starts_run = runs + 1, False
        index += 1
    return "".join(prefix), runs


def slow_patterns(expression: Expression) -> int:
    """The number of LIKEs in an expression that Spark matches with regular expressions."""
    count = 0
    for part in walk(expression):
        like = negated_like(part) if type(part) is Template else part
        if type(like) is Call and like.function in ("like", "ilike") and type(like.arguments[1]) is Literal:
            pattern = like.arguments[1].value
            count += isinstance(pattern, str) and _DIRECT.fullmatch(pattern) is None
    return count


def negated_like(condition: Template) -> Call | None:
    """The LIKE within `x NOT LIKE 'pattern'`, which the plan keeps as text."""
    if len(condition.pieces) != 2 or condition.pieces[0] or not (found := _NOT_LIKE.match(condition.pieces[1])):
        return None
    return Call(found[1].lower(), (condition.operands[0], Literal(found[2], None)), None)
