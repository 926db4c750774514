"""Facts about the values of a relation, independent of its layout. The inference rules use them.

The kinds of facts, and how each treats NULL (ICDE 2010, section IV-A, does not consider NULL):

    functional   X -> Y     rows that agree on X agree on Y, where NULL agrees with NULL. This is the equality of GROUP BY,
                            and the one that layouts are reasoned about with.
    lax          X ~> Y     the same, but only for rows without NULL in X. This is the equality of a join and of SQL's
                            UNIQUE. Nothing is inferred from it unless X is known to be never NULL.
    classes      a = b = 5  columns that are equal in every row (NULL equals NULL), and their constant value if known
    keys         unique X   no two rows agree on X. This is stronger than X -> all columns, which duplicates satisfy.
    never_null   a          no row is NULL in column a

The two equalities must be distinguished. Take R(a) left join S(b, c, d) on a = d, where b -> c holds in S, S has the one row
(NULL, 7, 1), and R has the rows 1 and 2:

    a   b     c     d         Two rows have b NULL. The first is stored so, the second is padding for an unmatched row.
    1   NULL  7     1         They agree on b and differ on c, so b -> c has become b ~> c: it holds where b is not NULL.
    2   NULL  NULL  NULL      After `where b is not null` it is strict again.

If b were NOT NULL in S, no stored row could look like padding, and b -> c would survive. In the same way, a = d becomes
d ~> a. Which facts survive which operator is in `propagate` and `propagate_join`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from unshuffle.catalog.schema import Column, Dependency, Key, names
from unshuffle.frozen import dataclass
from unshuffle.properties.facts.closure import EVERYTHING, Closures
from unshuffle.properties.facts.equality import ConstantValue, EqualColumns, interchangeable, merge_classes


def depends(determinant: Iterable[Column], dependent: Iterable[Column]) -> Dependency:
    return Dependency(frozenset(determinant), frozenset(dependent))


def canonical(dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """One dependency per left-hand side, without trivial columns, in a fixed order."""
    sides: dict[frozenset[Column], frozenset[Column]] = {}
    for each in dependencies:
        gained = each.dependent - each.determinant
        if gained:
            sides[each.determinant] = sides.get(each.determinant, frozenset()) | gained
    return tuple(Dependency(left, sides[left]) for left in sorted(sides, key=lambda left: sorted(c.id for c in left)))


@dataclass(frozen=True, slots=True)
class Dependencies:
    """An immutable set of facts. Build it with `of`, which brings it into canonical form."""

    functional: tuple[Dependency, ...] = ()
    lax: tuple[Dependency, ...] = ()
    classes: tuple[EqualColumns, ...] = ()
    keys: frozenset[Key] = frozenset()
    never_null: frozenset[Column] = frozenset()
    _closures: list[Closures] = field(default_factory=list, init=False, repr=False, compare=False)

    @staticmethod
    def of(
        functional: Iterable[Dependency] = (),
        classes: Iterable[EqualColumns] = (),
        keys: Iterable[Key] = (),
        never_null: Iterable[Column] = (),
        lax: Iterable[Dependency] = (),
    ) -> Dependencies:
        merged = merge_classes(classes)
        not_null = frozenset(never_null)
        for each in merged:
            if (each.constant is not None and each.constant.value is not None) or each.columns & not_null:
                not_null |= each.columns
        # If the determinant cannot be NULL, a lax dependency is a strict one.
        strict = [d for d in lax if d.determinant <= not_null]
        weak = [d for d in lax if not d.determinant <= not_null]
        return Dependencies(canonical([*functional, *strict]), canonical(weak), merged, minimal_keys(keys), not_null)

    @property
    def closures(self) -> Closures:
        if not self._closures:
            self._closures.append(Closures(self.functional, self.classes, self.keys))
        return self._closures[0]

    def determines(self, determinant: Iterable[Column], dependent: Iterable[Column]) -> bool:
        """Whether X -> Y follows from the facts."""
        closures = self.closures
        return not closures.mask(dependent) & ~closures.close(closures.mask(determinant))

    def unique(self, columns: Iterable[Column]) -> bool:
        """Whether no two rows agree on these columns."""
        closures = self.closures
        return closures.close(closures.mask(columns)) == EVERYTHING

    def closure(self, columns: Iterable[Column], among: Iterable[Column] = ()) -> frozenset[Column]:
        """The columns that `columns` determine, among those that the facts mention, `columns` itself and `among`."""
        start = frozenset(columns)
        closures = self.closures
        closed = closures.close(closures.mask(start))
        return frozenset(c for c in self.mentioned | start | frozenset(among) if not closures.bit(c) & ~closed)

    @property
    def mentioned(self) -> frozenset[Column]:
        found: set[Column] = set(self.never_null)
        for dependency in (*self.functional, *self.lax):
            found |= dependency.determinant | dependency.dependent
        for each in self.classes:
            found |= each.columns
        for key in self.keys:
            found |= key
        return frozenset(found)

    def equal(self, one: Column, other: Column) -> bool:
        closures = self.closures
        return closures.bit(one) == closures.bit(other)

    def equals_of(self, column: Column) -> frozenset[Column]:
        for each in self.classes:
            if column in each.columns:
                return each.columns
        return frozenset((column,))

    def representative(self, column: Column) -> Column:
        """The column of the same class with the smallest number."""
        return min(self.equals_of(column), key=lambda each: each.id)

    def constant(self, column: Column) -> ConstantValue | None:
        for each in self.classes:
            if column in each.columns:
                return each.constant
        return None

    def __str__(self) -> str:
        lines = [
            *map(str, self.functional),
            *(str(d).replace("->", "~>") for d in self.lax),
            *map(str, self.classes),
            *(f"unique {names(key)}" for key in sorted(self.keys, key=lambda k: sorted(c.id for c in k))),
        ]
        if self.never_null:
            lines.append(f"never NULL: {names(self.never_null)}")
        return "; ".join(lines) or "nothing"


KEYS_KEPT = 16
NO_FACTS = Dependencies()


def minimal_keys(keys: Iterable[Key]) -> frozenset[Key]:
    """Keys without supersets of other keys. Joins multiply keys, so only the shortest `KEYS_KEPT` are kept."""
    every = frozenset(keys)
    minimal = [key for key in every if not any(other < key for other in every)]
    if len(minimal) > KEYS_KEPT:
        minimal = sorted(minimal, key=lambda key: (len(key), sorted(c.id for c in key)))[:KEYS_KEPT]
    return frozenset(minimal)


def of_table(
    columns: Iterable[Column], keys: Iterable[Key] = (), dependencies: Iterable[Dependency] = ()
) -> Dependencies:
    """The facts that a table declares. A key is unique under the equality of GROUP BY, where NULL equals NULL."""
    return Dependencies.of(dependencies, keys=keys, never_null=(c for c in columns if not c.nullable))


def equality(one: Column, other: Column) -> tuple[EqualColumns, ...]:
    """The class of equal columns that `one = other` implies; none if the types are not interchangeable."""
    return (EqualColumns(frozenset((one, other))),) if interchangeable(one.type, other.type) else ()


def constant_column(column: Column, value: object) -> EqualColumns:
    """The fact `column = value`, or `column is null` for None."""
    return EqualColumns(frozenset((column,)), ConstantValue(value))
