"""How facts propagate through select, project, group-by and union. Joins are in `propagate_join`.

| operator   | dependencies              | equal columns, constants | keys                     | never NULL           |
|------------|---------------------------|--------------------------|--------------------------|----------------------|
| select     | all                       | all, and the predicate's | all                      | all, and predicate's |
| project    | implied on kept columns   | on kept columns          | on kept columns          | kept columns         |
| group-by G | on G, and G -> all        | on G                     | G                        | of G                 |
| union all  | if inputs are tagged      | in both inputs           | if inputs are tagged     | in both inputs       |

A union does not preserve dependencies: if a -> b holds in both inputs, (1, 2) in one and (1, 3) in the other violate it. In
a tagged union some column of X has one constant in the left input and a different one in the right. Rows of different
inputs then never agree on X, and a dependency that holds in both inputs holds in the union.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.frozen import dataclass
from unshuffle.properties.facts.cover import restrict
from unshuffle.properties.facts.dependencies import Dependencies, constant_column, equality
from unshuffle.properties.facts.equality import EqualColumns, common_classes, interchangeable


@dataclass(frozen=True, slots=True)
class Predicate:
    """The conjuncts of a condition that imply facts, by kind.

    `equal` is SQL's `=` between columns (true only if neither is NULL), `null_safe` is `<=>`, `constants` is `column =
    literal`, and `nulls` is `is null`. `not_null` lists further columns that are not NULL wherever the condition is true.
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
    """A filter removes rows, so every fact still holds, and the condition adds facts."""
    return Dependencies.of(
        facts.functional,
        (*facts.classes, *predicate.classes()),
        facts.keys,
        facts.never_null | predicate.rejects_null(),
        facts.lax,
    )


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A new column, computed from `inputs` by a deterministic expression. A literal of unknown value has no inputs.

    The expression must return equal results for inputs that are equal under GROUP BY. 1 / x does not: it distinguishes
    -0.0 from 0.0.
    """

    column: Column
    inputs: frozenset[Column]
    never_null: bool = False


def project(
    facts: Dependencies,
    kept: Iterable[Column] = (),
    renamed: Mapping[Column, Column] | None = None,
    computed: Iterable[ComputedColumn] = (),
    literals: Iterable[tuple[Column, object]] = (),
) -> Dependencies:
    """`kept` columns stay; `renamed` maps a new column to the column it copies. Rows correspond one to one, so the new
    columns are first added to the old ones, and then the dropped columns are eliminated."""
    copies = dict(renamed or {})
    news = tuple(computed)
    values = tuple(literals)
    # A copy has the type of its original whatever the schema says, so the two are equal without comparing types.
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
    """One row per group. Without grouping columns there is exactly one row, so the empty set is a key."""
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
    """UNION ALL: output column i has the values of column i of both inputs."""
    one = _renamed(left, outputs, left_columns)
    other = _renamed(right, outputs, right_columns)
    tags = frozenset(c for c in outputs if _is_tag(one, other, c))
    candidates = (*one.functional, *other.functional)
    tagged = [Dependency(d.determinant | {tag}, d.dependent) for d in candidates for tag in tags]
    functional = [d for d in tagged if _follows(one, d) and _follows(other, d)]
    keys = {key | {tag} for key in one.keys | other.keys for tag in tags}
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


def _is_tag(one: Dependencies, other: Dependencies, column: Column) -> bool:
    """Whether the column has a different constant in each input."""
    left, right = one.constant(column), other.constant(column)
    if left is None or right is None or not interchangeable(column.type, column.type):
        return False
    return left.differs_from(right)
