"""Which fraction of a column's texts a LIKE pattern matches.

The pattern is tried on the values that are known: the common ones, and the bounds of the histogram, which are a sample of
the rest. Where neither is there, a beginning without wildcards is a range, and every further run of literal text has a
default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from unshuffle.algebra.expressions import Call, Expression, Literal, Template, walk
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.cost import defaults
from unshuffle.cost.distributions import Interval, range_fraction

_LARGEST = "\U0010ffff"
_FEWEST_TRIED = 10
# Patterns that Spark compares with directly; the others become regular expressions.
_DIRECT = re.compile(r"%?[^%_]*%?|[^%_]+%[^%_]+")
_NOT_LIKE = re.compile(r"^ NOT (I?LIKE) '((?:[^'\\]|\\.)*)'$")


def pattern_fraction(known: ColumnStatistics, pattern: str, escape: str, ignore_case: bool) -> tuple[float, bool]:
    """The fraction of all rows that match, and whether it had to be guessed."""
    prefix, runs = literal_runs(pattern, escape)
    begins = None
    if prefix and not ignore_case and isinstance(known.low, str):
        begins = range_fraction(known, Interval(prefix, True, prefix + _LARGEST, True))
        if known.histogram is None and begins is not None and known.low <= prefix + _LARGEST and prefix <= known.high:
            # Texts are not spread evenly between the least and the largest, and people ask for those that there are.
            begins = max(begins, defaults.LIKE_BEGINNING)
    tried = _tried(known, _test(pattern, escape, ignore_case))
    if tried is not None:
        # Between two bounds of a histogram a beginning is lost; that it has no bound says it is rarer than a bucket.
        return tried if begins is None or runs else max(begins, tried), False
    rest = defaults.LIKE_RUN * defaults.INTERVAL ** (runs - 1) if runs else 1.0
    beginning = begins if begins is not None else defaults.LIKE_RUN if prefix else 1.0
    return float(beginning * rest), begins is None or runs > 0


@lru_cache(maxsize=512)
def _test(pattern: str, escape: str, ignore_case: bool) -> Callable[[str], object]:
    """Whether a text matches a pattern."""
    pieces: list[str] = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if character == escape and place + 1 < len(pattern):
            place += 1
            pieces.append(re.escape(pattern[place]))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
        place += 1
    return re.compile("".join(pieces), re.DOTALL | (re.IGNORECASE if ignore_case else 0)).fullmatch


def _tried(known: ColumnStatistics, test: Callable[[str], object]) -> float | None:
    matched = sum(fraction for value, fraction in known.common if isinstance(value, str) and test(value))
    if known.all_values_known:
        return matched
    listed = sum(fraction for _, fraction in known.common)
    rest = max(0.0, 1.0 - known.null_fraction - listed)
    bounds = known.histogram.bounds if known.histogram is not None else (value for value, _ in known.common)
    values = [value for value in bounds if isinstance(value, str)]
    if len(values) < _FEWEST_TRIED:
        return None
    # Half a match where there is none: a sample of n cannot tell 0 from one in n.
    hits = max(0.5, float(sum(1 for value in values if test(value))))
    return matched + rest * hits / len(values)


def literal_runs(pattern: str, escape: str) -> tuple[str, int]:
    """The literal text a pattern begins with, and how many runs of literal text follow a wildcard."""
    prefix: list[str] = []
    runs, place, wild, fresh = 0, 0, False, False
    while place < len(pattern):
        character = pattern[place]
        if character == escape and place + 1 < len(pattern):
            place += 1
            character = pattern[place]
        elif character in "%_":
            wild = fresh = True
            place += 1
            continue
        if not wild:
            prefix.append(character)
        elif fresh:
            runs, fresh = runs + 1, False
        place += 1
    return "".join(prefix), runs


def slow_patterns(expression: Expression) -> int:
    """How many LIKEs of an expression are matched with regular expressions."""
    found = 0
    for part in walk(expression):
        like = denied_pattern(part) if type(part) is Template else part
        if type(like) is Call and like.function in ("like", "ilike") and type(like.arguments[1]) is Literal:
            pattern = like.arguments[1].value
            found += isinstance(pattern, str) and _DIRECT.fullmatch(pattern) is None
    return found


def denied_pattern(condition: Template) -> Call | None:
    """The LIKE that `x NOT LIKE 'pattern'`, which is kept as text, denies."""
    if len(condition.pieces) != 2 or condition.pieces[0] or not (found := _NOT_LIKE.match(condition.pieces[1])):
        return None
    return Call(found[1].lower(), (condition.operands[0], Literal(found[2], None)), None)
