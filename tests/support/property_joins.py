"""Two small tables, and joins of them that compare every pair of rows."""

from __future__ import annotations

from tests.support.property_rows import INT
from unshuffle.catalog.schema import Column
from unshuffle.properties import JoinKind

LEFT = tuple(Column(i, n, INT) for i, n in ((1, "a"), (2, "b"), (3, "c")))
RIGHT = tuple(Column(i, n, INT) for i, n in ((11, "x"), (12, "y"), (13, "z")))


def run_join(kind: JoinKind, left, right, holds):
    nothing_left, nothing_right = dict.fromkeys(LEFT), dict.fromkeys(RIGHT)
    pairs = [(r, s) for r in left for s in right if holds(r, s)]
    lonely = [r for r in left if not any(holds(r, s) for s in right)]
    alone = [s for s in right if not any(holds(r, s) for r in left)]
    both = [{**r, **s} for r, s in pairs]
    match kind:
        case JoinKind.SEMI:
            return [r for r in left if r not in lonely]
        case JoinKind.ANTI:
            return lonely
        case JoinKind.INNER:
            return both
        case JoinKind.LEFT:
            return both + [{**r, **nothing_right} for r in lonely]
        case JoinKind.RIGHT:
            return both + [{**nothing_left, **s} for s in alone]
        case JoinKind.FULL:
            return both + [{**r, **nothing_right} for r in lonely] + [{**nothing_left, **s} for s in alone]


def eq(a, b) -> bool:
    return a is not None and a == b


def multiset(rows):
    return sorted(repr(sorted((c.id, v) for c, v in row.items())) for row in rows)
