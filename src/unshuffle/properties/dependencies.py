"""Everything known of a relation's values, whatever its layout: the facts that the inference rules draw on.

What is kept, and under which equality of NULLs (ICDE 2010, section IV-A leaves NULL out):

    functional   X -> Y     rows that agree on X agree on Y, NULL agreeing with NULL. This is GROUP BY's equality, and
                            the one under which layouts are reasoned about.
    lax          X ~> Y     the same, promised only for rows with no NULL in X. This is a join's equality, and SQL's
                            UNIQUE. Nothing is inferred from it until X is known never to be NULL.
    classes      a = b = 5  columns equal in every row, NULL equalling NULL, and their constant
    keys         unique X   no two rows agree on X. More than X -> everything, which duplicates satisfy.
    never_null   a          no row has NULL there

Why the two equalities must be kept apart, in one example. R(a) left join S(b, c, d) on a = d, with b -> c in S, whose
one row is (NULL, 7, 1), and R holding 1 and 2:

    a   b     c     d         Two rows have b NULL: one is stored so, one was invented for a row of R without match.
    1   NULL  7     1         They agree on b and differ on c. So b -> c has become b ~> c, true where b is not NULL,
    2   NULL  NULL  NULL      and is strict again after `where b is not null`.

Had b been declared NOT NULL in S, no stored row could be confused with an invented one, and b -> c would have survived.
`a = d` becomes d ~> a in the same way. Which facts pass each operator is in `carry` and `carry_join`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from unshuffle.catalog.schema import Column, Dependency, Key, names
from unshuffle.properties.closure import EVERYTHING, Closures
from unshuffle.properties.equality import Constant, EqualColumns, interchangeable, merge_classes


def depends(determinant: Iterable[Column], dependent: Iterable[Column]) -> Dependency:
    return Dependency(frozenset(determinant), frozenset(dependent))


def canonical(dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """One right-hand side a left-hand side, trivial columns left out, in a fixed order."""
    sides: dict[frozenset[Column], frozenset[Column]] = {}
    for each in dependencies:
        gained = each.dependent - each.determinant
        if gained:
            sides[each.determinant] = sides.get(each.determinant, frozenset()) | gained
    return tuple(Dependency(left, sides[left]) for left in sorted(sides, key=lambda left: sorted(c.id for c in left)))


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The facts, immutable. Build with `of`, which brings them into canonical form."""

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
        solid = frozenset(never_null)
        for each in merged:
            if (each.constant is not None and each.constant.value is not None) or each.columns & solid:
                solid |= each.columns
        # A lax dependency whose determinant cannot be NULL promises as much as a strict one.
        strict = [d for d in lax if d.determinant <= solid]
        weak = [d for d in lax if not d.determinant <= solid]
        return Dependencies(canonical([*functional, *strict]), canonical(weak), merged, minimal_keys(keys), solid)

    @property
    def closures(self) -> Closures:
        if not self._closures:
            self._closures.append(Closures(self.functional, self.classes, self.keys))
        return self._closures[0]

    def determines(self, determinant: Iterable[Column], dependent: Iterable[Column]) -> bool:
        """Does X -> Y follow?"""
        closures = self.closures
        return not closures.mask(dependent) & ~closures.close(closures.mask(determinant))

    def unique(self, columns: Iterable[Column]) -> bool:
        """Do no two rows agree on these columns?"""
        closures = self.closures
        return closures.close(closures.mask(columns)) == EVERYTHING

    def closure(self, columns: Iterable[Column], among: Iterable[Column] = ()) -> frozenset[Column]:
        """Every column, of those the facts mention, the given ones and `among`, that the given ones determine."""
        given = frozenset(columns)
        closures = self.closures
        closed = closures.close(closures.mask(given))
        return frozenset(c for c in self.mentioned | given | frozenset(among) if not closures.bit(c) & ~closed)

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
        """The member of the column's class with the smallest number."""
        return min(self.equals_of(column), key=lambda each: each.id)

    def constant(self, column: Column) -> Constant | None:
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
NOTHING_KNOWN = Dependencies()


def minimal_keys(keys: Iterable[Key]) -> frozenset[Key]:
    """A superset of a key is unique anyway. Joins multiply keys, so only the shortest `KEYS_KEPT` are kept."""
    every = frozenset(keys)
    minimal = [key for key in every if not any(other < key for other in every)]
    if len(minimal) > KEYS_KEPT:
        minimal = sorted(minimal, key=lambda key: (len(key), sorted(c.id for c in key)))[:KEYS_KEPT]
    return frozenset(minimal)


def of_table(
    columns: Iterable[Column], keys: Iterable[Key] = (), dependencies: Iterable[Dependency] = ()
) -> Dependencies:
    """What a table's declarations say. A key is unique under GROUP BY's equality; `sql_unique` is weaker."""
    return Dependencies.of(dependencies, keys=keys, never_null=(c for c in columns if not c.nullable))


def sql_unique(key: Key, columns: Iterable[Column]) -> Dependency:
    """SQL's UNIQUE lets NULLs repeat: all it gives is a lax dependency. With NOT NULL, declare a key instead."""
    return Dependency(key, frozenset(columns) - key)


def equality(one: Column, other: Column) -> tuple[EqualColumns, ...]:
    """The class that `one = other` makes, or none where the two types are not interchangeable."""
    return (EqualColumns(frozenset((one, other))),) if interchangeable(one.type, other.type) else ()


def constant_column(column: Column, value: object) -> EqualColumns:
    """`column = value`; with None, `column is null`."""
    return EqualColumns(frozenset((column,)), Constant(value))
