"""The rows of a join.

An equality between two columns selects one pair of rows in as many as the column with more values has
(`join_selectivity`). The values are those that the columns had in their base relations, before filters on other columns, and
an equated column continues with the fewer of the two. So for any set of relations that are joined by equalities, the rows are
the product of all relations' rows, divided for each class of equal columns by all its value counts but the smallest. That
number does not depend on the join order.

    rows 10, 100, 1000 and keys of 10, 100, 1000 values, joined on the key:
    (a x b) x c:  10 x 100 / 100 = 10,       10 x 1000 / 1000 = 10
    a x (b x c):  100 x 1000 / 1000 = 100,   10 x 100 / 100 = 10

Semi joins keep the rows with a match, anti joins the others. Outer joins add rows without a match to the inner join's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from unshuffle.cardinality.correlated_order import correlated_restrictions
from unshuffle.cardinality.join_selectivity import EquiJoin, KeyPair, by_relations
from unshuffle.cardinality.relation_estimate import Estimate, Relation, remaining_rows
from unshuffle.cardinality.sampled import counted_anew, filtered, rows_of, within_keys
from unshuffle.cardinality.samples import SampledJoin, sampled_join
from unshuffle.cardinality.selectivity import restriction
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.constants import ASSUMED, LOOKS
from unshuffle.plan.expressions import Call, Cast, Expression, Ref
from unshuffle.plan.logical import Join
from unshuffle.plan.predicates import conjuncts
from unshuffle.properties.facts.dependencies import Dependencies


def join(node: Join, inputs: Sequence[Estimate], facts: Dependencies) -> Estimate:
    left, right = inputs
    pairs, rest = _split_condition(node.condition, left, right)
    left, right = _narrowed(node.kind, left, right, pairs)
    equi_join = EquiJoin(left, right)
    for equalities in by_relations(pairs, left, right):
        equi_join.add(equalities)
    sampled = _sampled(left, right, pairs)
    rows = left.rows * right.rows * equi_join.fraction
    if left.facts.keys and pairs and left.facts.unique([pair.left for pair in pairs]):
        rows = min(rows, right.rows)
    if right.facts.keys and pairs and right.facts.unique([pair.right for pair in pairs]):
        rows = min(rows, left.rows)
    if sampled is not None:
        equi_join.observe(sampled.left_matched, sampled.right_matched)
        return _of_samples(node, left, right, rows, sampled, rest, equi_join, facts)
    inner = _inner(left, right, rows, equi_join, facts)
    if rest:
        residual = restriction(rest, inner)
        inner = residual.applied_to(inner, facts)
        equi_join.guessed |= residual.guessed
    return _with_sample_of_a_side(node.kind, left, right, _of_kind(node.kind, left, right, inner, equi_join, facts))


def _narrowed(kind: JoinKind, left: Estimate, right: Estimate, pairs: Sequence[KeyPair]) -> tuple[Estimate, Estimate]:
    """Both sides without the rows that no key of the other side is near, where these do not remain unmatched."""
    for pair in pairs:
        if pair.null_safe:
            continue
        ours, theirs = left.columns.get(pair.left), right.columns.get(pair.right)
        if theirs is not None and kind in (JoinKind.INNER, JoinKind.SEMI):
            left = within_keys(left, pair.left, theirs)
        if ours is not None and kind in (JoinKind.INNER, JoinKind.SEMI, JoinKind.LEFT, JoinKind.ANTI):
            right = within_keys(right, pair.right, ours)
    return left, right


def _sampled(left: Estimate, right: Estimate, pairs: Sequence[KeyPair]) -> SampledJoin | None:
    if left.sample is None or right.sample is None:
        return None
    return sampled_join(left.sample, right.sample, pairs)


def _with_sample_of_a_side(kind: JoinKind, left: Estimate, right: Estimate, joined: Estimate) -> Estimate:
    """A join that is not computed, with the sample of its larger side: which of these rows remain is unknown, and what the
    other side adds to them."""
    sides = [left, right] if kind is JoinKind.INNER else [] if kind.extends_left else [left]
    known = [side.sample for side in sides if side.sample is not None and side.sample.rows >= LOOKS.min_rows]
    largest = max(known, key=lambda sample: sample.estimated, default=None)
    if largest is None or joined.rows < 1.0:
        return joined
    return replace(joined, sample=largest.reduced(joined.rows / largest.estimated))


def _of_samples(
    node: Join,
    left: Estimate,
    right: Estimate,
    rows: float,
    sampled: SampledJoin,
    rest: Sequence[Expression],
    equi_join: EquiJoin,
    facts: Dependencies,
) -> Estimate:
    """The estimate of a join whose matches were looked at. `rows` is what statistics say of its equalities."""
    pairs = sampled.of_kind(JoinKind.INNER)
    if pairs is not None:
        rows = rows_of(pairs, rows)
        if pairs.tells_enough:
            equi_join.guessed, equi_join.assumed = False, 0
    inner = _inner(left, right, rows, equi_join, facts)
    inner = replace(inner, sample=pairs if pairs is not None and pairs.tells_enough else None)
    if rest:
        residual = restriction(rest, inner)
        inner = filtered(rest, inner, residual, facts)
        equi_join.guessed |= inner.guessed
    estimate = _of_kind(node.kind, left, right, inner, equi_join, facts)
    if node.kind is JoinKind.INNER:
        return counted_anew(estimate)
    sample = sampled.of_kind(node.kind) if not rest else None
    if sample is None:
        return _with_sample_of_a_side(node.kind, left, right, estimate)
    kept = sample if sample.tells_enough else None
    return counted_anew(replace(estimate, rows=rows_of(sample, estimate.rows), sample=kept))


def _split_condition(
    condition: Expression | None, left: Estimate, right: Estimate
) -> tuple[list[KeyPair], list[Expression]]:
    """The equalities between a column of each side, and the rest of a condition."""
    pairs: list[KeyPair] = []
    rest: list[Expression] = []
    for each in conjuncts(condition):
        part = _without_null(each)
        if type(part) is Call and part.function in ("=", "<=>"):
            one, other = (_column(argument) for argument in part.arguments)
            if one is not None and other is not None:
                if one in left.origins and other in right.origins:
                    pairs.append(KeyPair(one, other, part.function == "<=>"))
                    continue
                if other in left.origins and one in right.origins:
                    pairs.append(KeyPair(other, one, part.function == "<=>"))
                    continue
        rest.append(each)
    return _independent(pairs, left, right), rest


def _without_null(condition: Expression) -> Expression:
    """The equality of NOT IN, `a = b or (a = b) is null`. There are few NULLs, or else the result is empty anyway."""
    match condition:
        case Call("or", (Call("=") as pair, Call("isnull", (tested,)))) if tested == pair:
            return pair
        case _:
            return condition


def _column(expression: Expression) -> Column | None:
    while type(expression) is Cast:
        expression = expression.operand
    return expression.column if type(expression) is Ref else None


def _independent(pairs: list[KeyPair], left: Estimate, right: Estimate) -> list[KeyPair]:
    """The equalities without those that follow from others, because a side has equal columns already."""
    if len(pairs) < 2:
        return pairs
    independent: list[KeyPair] = []
    for pair in pairs:
        if not any(_equal(left, pair.left, old.left) and _equal(right, pair.right, old.right) for old in independent):
            independent.append(pair)
    return independent


def _equal(side: Estimate, one: Column, other: Column) -> bool:
    return one == other or side.facts.equal(one, other)


def _inner(left: Estimate, right: Estimate, rows: float, equi_join: EquiJoin, facts: Dependencies) -> Estimate:
    left_kept = min(1.0, equi_join.left_matched, rows / left.rows) if left.rows > 0.0 else 1.0
    right_kept = min(1.0, equi_join.right_matched, rows / right.rows) if right.rows > 0.0 else 1.0
    for side in (left, right):
        if any(relation.order_dependencies for relation in side.remaining):
            _restrict_correlated(side, equi_join)
    return Estimate(
        rows,
        {**left.columns, **right.columns, **equi_join.columns},
        left.guessed or right.guessed or equi_join.guessed,
        facts,
        {**left.origins, **right.origins, **equi_join.origins},
        {
            **remaining_rows(left.remaining, left.rows, left_kept, equi_join.left_by),
            **remaining_rows(right.remaining, right.rows, right_kept, equi_join.right_by),
        },
        {**left.own, **right.own, **equi_join.own} if left.own or right.own or equi_join.own else left.own,
        left.guesses + right.guesses + equi_join.guessed + equi_join.assumed,
    )


def _restrict_correlated(side: Estimate, equi_join: EquiJoin) -> None:
    """Restricts the columns that rise with a join column, which has lost the values that the other side lacks."""
    restricted = {column: left for column, left in equi_join.columns.items() if column in side.columns}
    for column, (share, statistics) in correlated_restrictions(side, restricted).items():
        equi_join.columns[column] = statistics
        for origin in side.origins.get(column, ()):
            equi_join.own[origin] = equi_join.own.get(origin, side.own.get(origin, 1.0)) * share


def _of_kind(
    kind: JoinKind, left: Estimate, right: Estimate, inner: Estimate, equi_join: EquiJoin, facts: Dependencies
) -> Estimate:
    if kind is JoinKind.INNER:
        return inner
    left_matched = min(1.0, equi_join.left_matched, inner.rows / left.rows) if left.rows > 0.0 else 0.0
    if kind is JoinKind.SEMI:
        return _kept(left, left_matched, equi_join.left_by, inner, facts)
    if kind is JoinKind.ANTI:
        return _kept(left, max(ASSUMED.unmatched_share, 1.0 - left_matched), equi_join.left_by, inner, facts)
    right_matched = min(1.0, equi_join.right_matched, inner.rows / right.rows) if right.rows > 0.0 else 0.0
    left_unmatched = left.rows * (1.0 - left_matched) if kind.extends_right else None
    right_unmatched = right.rows * (1.0 - right_matched) if kind.extends_left else None
    return _outer(left, right, inner, left_unmatched, right_unmatched, facts)


def _kept(left: Estimate, fraction: float, by: Iterable[Relation], inner: Estimate, facts: Dependencies) -> Estimate:
    remaining = remaining_rows(left.remaining, left.rows, fraction, dict.fromkeys(by, fraction))
    rows = left.rows * fraction
    return Estimate(rows, left.columns, inner.guessed, facts, left.origins, remaining, left.own, inner.guesses)


def _outer(
    left: Estimate,
    right: Estimate,
    inner: Estimate,
    left_unmatched: float | None,
    right_unmatched: float | None,
    facts: Dependencies,
) -> Estimate:
    """An inner join plus the rows of a side without a match; None for a side that loses them. In the unmatched rows of one
    side, the other side's columns are NULL. No columns are equal in all rows, so their origins stay as they were."""
    rows = inner.rows + (left_unmatched or 0.0) + (right_unmatched or 0.0)
    columns, remaining = dict(inner.columns), dict(inner.remaining)
    for side, unmatched, others in ((left, left_unmatched, right_unmatched), (right, right_unmatched, left_unmatched)):
        if unmatched is not None:
            rows = max(rows, side.rows)
            columns.update(side.columns)
            remaining.update(side.remaining)
        kept = 1.0 - others / rows if others and rows > 0.0 else 1.0
        for column in side.columns if kept < 1.0 else ():
            columns[column] = _null_extended(columns[column], kept)
    own = {**left.own, **right.own}
    origins = {**left.origins, **right.origins}
    return Estimate(rows, columns, inner.guessed, facts, origins, remaining, own, inner.guesses)


def _null_extended(known: ColumnStatistics, kept: float) -> ColumnStatistics:
    """The statistics of a column that is not NULL-extended in a fraction of the rows."""
    common = tuple((value, share * kept) for value, share in known.common)
    nulls = 1.0 - (1.0 - known.null_fraction) * kept
    return ColumnStatistics(known.distinct, nulls, known.low, known.high, known.width, common, known.histogram)
