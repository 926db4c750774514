"""Which facts pass through select, project, group-by, semi- and anti-join, and union. Joins are in `carry_join`.

| operator   | dependencies              | equal columns, constants | keys                     | never NULL           |
|------------|---------------------------|--------------------------|--------------------------|----------------------|
| select     | all                       | all, and the predicate's | all                      | all, and predicate's |
| project    | closed over what is kept  | of what is kept          | those that can be kept   | kept                 |
| group-by G | of G, and G -> everything | of G                     | G                        | of G                 |
| union all  | if the sides never meet   | on both sides            | if the sides never meet  | on both              |

A union keeps no dependency by itself: with a -> b in both inputs, (1, 2) in one and (1, 3) in the other break it. If
some column of X is one constant in the left input and certainly another in the right, rows of the two inputs never
agree on X, and what holds on both sides holds in the union. That is the case of a tagged union.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.cover import restrict
from unshuffle.properties.dependencies import Dependencies, constant_column, equality
from unshuffle.properties.equality import EqualColumns, common_classes, interchangeable


@dataclass(frozen=True, slots=True)
class Predicate:
    """The part of a condition that says something of columns: a conjunction, each list one kind of conjunct.

    `equal` is SQL's `=` between columns (true only if neither is NULL), `null_safe` is `<=>`, `constants` is `column =
    literal`, `nulls` is `is null`, `not_null` lists further columns that the condition cannot be true for when NULL.
    """

    equal: tuple[tuple[Column, Column], ...] = ()
    null_safe: tuple[tuple[Column, Column], ...] = ()
    constants: tuple[tuple[Column, object], ...] = ()
    nulls: tuple[Column, ...] = ()
    not_null: tuple[Column, ...] = ()

    def classes(self) -> list[EqualColumns]:
        pairs = (*self.equal, *self.null_safe)
        found = [each for one, other in pairs for each in equality(one, other)]
        found += [constant_column(column, value) for column, value in self.constants]
        found += [constant_column(column, None) for column in self.nulls]
        return found

    def rejects_null(self) -> frozenset[Column]:
        compared = (c for pair in self.equal for c in pair)
        return frozenset((*compared, *(c for c, _ in self.constants), *self.not_null))


def select(facts: Dependencies, predicate: Predicate) -> Dependencies:
    """Fewer rows: every fact holds on, and the condition adds its own."""
    return Dependencies.of(
        facts.functional,
        (*facts.classes, *predicate.classes()),
        facts.keys,
        facts.never_null | predicate.rejects_null(),
        facts.lax,
    )


@dataclass(frozen=True, slots=True)
class Computed:
    """A new column that a deterministic expression computes from `inputs`; none, for a literal of unknown value.

    The expression must give equal results for inputs that GROUP BY calls equal: 1 / x tells -0.0 from 0.0 and does not.
    """

    column: Column
    inputs: frozenset[Column]
    never_null: bool = False


def project(
    facts: Dependencies,
    kept: Iterable[Column] = (),
    renamed: Mapping[Column, Column] | None = None,
    computed: Iterable[Computed] = (),
    literals: Iterable[tuple[Column, object]] = (),
) -> Dependencies:
    """`kept` columns stay themselves, `renamed` maps a new column to the one it copies. Rows stay one for one, so the
    new columns are first added beside the old ones, and then the old ones that leave are eliminated."""
    copies = dict(renamed or {})
    news = tuple(computed)
    values = tuple(literals)
    # A copy has its original's type whatever the schema says of it: the pair is equal without looking at types.
    classes = [*facts.classes, *(EqualColumns(frozenset((new, old))) for new, old in copies.items())]
    classes += [constant_column(column, value) for column, value in values]
    wide = Dependencies.of(
        (*facts.functional, *(Dependency(each.inputs, frozenset((each.column,))) for each in news)),
        classes,
        facts.keys,
        facts.never_null | {each.column for each in news if each.never_null},
        facts.lax,
    )
    return restrict(wide, (*kept, *copies, *(each.column for each in news), *(column for column, _ in values)))


def group_by(facts: Dependencies, groups: Iterable[Column], aggregates: Iterable[Column] = ()) -> Dependencies:
    """One row a group. With no grouping columns there is exactly one row, and the empty set is unique."""
    by = frozenset(groups)
    inner = restrict(facts, by)
    return Dependencies.of(
        (*inner.functional, Dependency(by, frozenset(aggregates))),
        inner.classes,
        (*inner.keys, by),
        inner.never_null,
        inner.lax,
    )


def distinct(facts: Dependencies, columns: Iterable[Column]) -> Dependencies:
    return group_by(facts, columns)


def union(
    outputs: Sequence[Column],
    left: Dependencies,
    left_columns: Sequence[Column],
    right: Dependencies,
    right_columns: Sequence[Column],
) -> Dependencies:
    """UNION ALL: output column i takes its values from column i of both inputs."""
    one = _renamed(left, outputs, left_columns)
    other = _renamed(right, outputs, right_columns)
    apart = frozenset(c for c in outputs if _never_meet(one, other, c))
    candidates = (*one.functional, *other.functional)
    tagged = [Dependency(d.determinant | {tag}, d.dependent) for d in candidates for tag in apart]
    functional = [d for d in tagged if _follows(one, d) and _follows(other, d)]
    keys = {key | {tag} for key in one.keys | other.keys for tag in apart}
    return Dependencies.of(
        functional,
        common_classes(one.classes, other.classes),
        (key for key in keys if one.unique(key) and other.unique(key)),
        one.never_null & other.never_null,
    )


def _renamed(facts: Dependencies, outputs: Sequence[Column], inputs: Sequence[Column]) -> Dependencies:
    return project(facts, renamed=dict(zip(outputs, inputs, strict=True)))


def _follows(facts: Dependencies, dependency: Dependency) -> bool:
    return facts.determines(dependency.determinant, dependency.dependent)


def _never_meet(one: Dependencies, other: Dependencies, column: Column) -> bool:
    left, right = one.constant(column), other.constant(column)
    if left is None or right is None or not interchangeable(column.type, column.type):
        return False
    return left.differs_from(right)
