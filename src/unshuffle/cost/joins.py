"""The rows of a join.

An equality between two columns takes one pair of rows in as many as the column with more values has (`meeting`). The values
are those the columns were made with, not those left after filters on other columns, and an equated column goes on with
the fewer of the two. So for any set of relations that are joined by equalities, rows are the product of all relations'
rows, divided for each class of equal columns by all its value counts but the least: a number in which the order of joining
does not appear.

    rows 10, 100, 1000 and keys of 10, 100, 1000 values, joined on the key:
    (a x b) x c:  10 x 100 / 100 = 10,       10 x 1000 / 1000 = 10
    a x (b x c):  100 x 1000 / 1000 = 100,   10 x 100 / 100 = 10

Semi and anti joins keep the rows that find a match, or the others; outer joins add those to the inner join's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unshuffle.algebra.expressions import Call, Cast, Expression, Ref
from unshuffle.algebra.logical import Join
from unshuffle.algebra.predicates import conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics import ColumnStatistics
from unshuffle.cost import defaults
from unshuffle.cost.estimates import Estimate, Relation, thinned
from unshuffle.cost.meeting import Matched, Pair, by_relations
from unshuffle.cost.rising import carried
from unshuffle.cost.selectivity import restriction
from unshuffle.properties.dependencies import Dependencies


def join(node: Join, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    left, right = inputs
    pairs, rest = _taken_apart(node.condition, left, right)
    matched = Matched(left, right)
    for between in by_relations(pairs, left, right):
        matched.add(between)
    rows = left.rows * right.rows * matched.fraction
    if left.facts.keys and pairs and left.facts.unique([pair.left for pair in pairs]):
        rows = min(rows, right.rows)
    if right.facts.keys and pairs and right.facts.unique([pair.right for pair in pairs]):
        rows = min(rows, left.rows)
    inner = _inner(left, right, rows, matched, facts)
    if rest:
        found = restriction(rest, inner)
        inner = found.of(inner, facts)
        matched.guessed |= found.guessed
    return _of_kind(node.kind, left, right, inner, matched, facts)


def _taken_apart(condition: Expression | None, left: Estimate, right: Estimate) -> tuple[list[Pair], list[Expression]]:
    """Equalities between a column of each side, and the rest of a condition."""
    pairs: list[Pair] = []
    rest: list[Expression] = []
    for each in conjuncts(condition):
        part = _without_null(each)
        if type(part) is Call and part.function in ("=", "<=>"):
            one, other = (_column(argument) for argument in part.arguments)
            if one is not None and other is not None:
                if one in left.origins and other in right.origins:
                    pairs.append(Pair(one, other, part.function == "<=>"))
                    continue
                if other in left.origins and one in right.origins:
                    pairs.append(Pair(other, one, part.function == "<=>"))
                    continue
        rest.append(each)
    return _independent(pairs, left, right), rest


def _without_null(condition: Expression) -> Expression:
    """Of NOT IN, `a = b or (a = b) is null`, the equality: there are few NULLs, or else the answer has no rows."""
    match condition:
        case Call("or", (Call("=") as pair, Call("isnull", (tested,)))) if tested == pair:
            return pair
        case _:
            return condition


def _column(expression: Expression) -> Column | None:
    while type(expression) is Cast:
        expression = expression.operand
    return expression.column if type(expression) is Ref else None


def _independent(pairs: list[Pair], left: Estimate, right: Estimate) -> list[Pair]:
    """Without equalities that follow from others because a side holds its columns equal already."""
    if len(pairs) < 2:
        return pairs
    found: list[Pair] = []
    for pair in pairs:
        if not any(_equal(left, pair.left, old.left) and _equal(right, pair.right, old.right) for old in found):
            found.append(pair)
    return found


def _equal(side: Estimate, one: Column, other: Column) -> bool:
    return one == other or side.facts.equal(one, other)


def _inner(left: Estimate, right: Estimate, rows: float, matched: Matched, facts: Dependencies) -> Estimate:
    kept = min(1.0, matched.left_found, rows / left.rows) if left.rows > 0.0 else 1.0
    also_kept = min(1.0, matched.right_found, rows / right.rows) if right.rows > 0.0 else 1.0
    for side in (left, right):
        if any(relation.rising for relation in side.remaining):
            _carry(side, matched)
    return Estimate(
        rows,
        {**left.columns, **right.columns, **matched.columns},
        left.guessed or right.guessed or matched.guessed,
        facts,
        {**left.origins, **right.origins, **matched.origins},
        {
            **thinned(left.remaining, left.rows, kept, matched.left_by),
            **thinned(right.remaining, right.rows, also_kept, matched.right_by),
        },
        {**left.own, **right.own, **matched.own} if left.own or right.own or matched.own else left.own,
    )


def _carry(side: Estimate, matched: Matched) -> None:
    """Values that the other side does not have are gone, and with them those of columns that rise with them."""
    gone = {column: left for column, left in matched.columns.items() if column in side.columns}
    for column, (share, statistics) in carried(side, gone).items():
        matched.columns[column] = statistics
        for origin in side.origins.get(column, ()):
            matched.own[origin] = matched.own.get(origin, side.own.get(origin, 1.0)) * share


def _of_kind(
    kind: JoinKind, left: Estimate, right: Estimate, inner: Estimate, matched: Matched, facts: Dependencies
) -> Estimate:
    if kind is JoinKind.INNER:
        return inner
    found = min(1.0, matched.left_found, inner.rows / left.rows) if left.rows > 0.0 else 0.0
    if kind is JoinKind.SEMI:
        return _kept(left, found, matched.left_by, inner, facts)
    if kind is JoinKind.ANTI:
        return _kept(left, max(defaults.LEAST_UNMATCHED, 1.0 - found), matched.left_by, inner, facts)
    also_found = min(1.0, matched.right_found, inner.rows / right.rows) if right.rows > 0.0 else 0.0
    unmatched = left.rows * (1.0 - found) if kind.extends_right else None
    also_unmatched = right.rows * (1.0 - also_found) if kind.extends_left else None
    return _extended(left, right, inner, unmatched, also_unmatched, facts)


def _kept(left: Estimate, fraction: float, by: Iterable[Relation], inner: Estimate, facts: Dependencies) -> Estimate:
    remaining = thinned(left.remaining, left.rows, fraction, dict.fromkeys(by, fraction))
    return Estimate(left.rows * fraction, left.columns, inner.guessed, facts, left.origins, remaining, left.own)


def _extended(
    left: Estimate,
    right: Estimate,
    inner: Estimate,
    unmatched: float | None,
    also_unmatched: float | None,
    facts: Dependencies,
) -> Estimate:
    """An inner join with the rows of a side that found no match; None is a side that loses them. Such a side's columns
    are NULL in the rows that only the other has. Nothing is made equal in all rows, so columns stay where they were made.
    """
    rows = inner.rows + (unmatched or 0.0) + (also_unmatched or 0.0)
    columns, remaining = dict(inner.columns), dict(inner.remaining)
    for side, alone, others in ((left, unmatched, also_unmatched), (right, also_unmatched, unmatched)):
        if alone is not None:
            rows = max(rows, side.rows)
            columns.update(side.columns)
            remaining.update(side.remaining)
        kept = 1.0 - others / rows if others and rows > 0.0 else 1.0
        for column in side.columns if kept < 1.0 else ():
            columns[column] = _null_extended(columns[column], kept)
    own = {**left.own, **right.own}
    return Estimate(rows, columns, inner.guessed, facts, {**left.origins, **right.origins}, remaining, own)


def _null_extended(known: ColumnStatistics, kept: float) -> ColumnStatistics:
    """A column that a fraction of the rows has at all."""
    common = tuple((value, share * kept) for value, share in known.common)
    nulls = 1.0 - (1.0 - known.null_fraction) * kept
    return ColumnStatistics(known.distinct, nulls, known.low, known.high, known.width, common, known.histogram)
