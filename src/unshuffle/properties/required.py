"""What an operator requires of its inputs: predicates, with room left to choose (ICDE 2010, section VI).

A requirement on the partitioning is a range. `Clustered(maximum=G, minimum=M)` accepts any layout on some X with
M ≤ X ≤ G, where ≤ is not set inclusion but the order that dependencies give: X ≤ G when G determines X (equal G means
equal X, so rows that must meet do meet) and M ≤ X when X determines M (the layout is at least as fine as M). With no
dependencies that is the paper's Pmin ⊆ X ⊆ Pmax. `parallel` is its "explicit partitioning": one partition, or a
partitioning by nothing, will not do.

A joint requirement speaks of several inputs at once; see `joint`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from unshuffle.catalog.schema import Column, DataType, names
from unshuffle.properties.delivered import Partitioned, Within
from unshuffle.properties.structure import Covering, Grouped, Local, Ordered, Sorted, show


@dataclass(frozen=True, slots=True)
class Anyhow:
    """Every row once, however placed. Replicated data does not do."""

    parallel: bool = False

    def __str__(self) -> str:
        return "partitioned anyhow" if self.parallel else "anyhow"


@dataclass(frozen=True, slots=True)
class OnePartition:
    def __str__(self) -> str:
        return "⊥"


@dataclass(frozen=True, slots=True)
class EveryPartition:
    """A full copy for every partition of the other input."""

    def __str__(self) -> str:
        return "⊤"


@dataclass(frozen=True, slots=True)
class Clustered:
    """Partitioned on some X between `minimum` and `maximum`.

    `nulls_meet` is GROUP BY's equality: rows that are NULL on the maximum must share a partition too. A join with `=`
    does not need that.
    """

    maximum: frozenset[Column]
    minimum: frozenset[Column] = frozenset()
    parallel: bool = False
    nulls_meet: bool = True
    claim: Grouped = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.maximum or not self.minimum <= self.maximum:
            raise ValueError("Pmin ⊆ Pmax, and Pmax has a column")
        object.__setattr__(self, "claim", Grouped(self.maximum))

    def __str__(self) -> str:
        return f"{{{names(self.minimum)}}} ≤ X ≤ {{{names(self.maximum)}}}"


@dataclass(frozen=True, slots=True)
class RangeOrdered:
    """Partitions in order on the keys, which a range layout on any prefix of them is (rule 3)."""

    keys: tuple[Sorted, ...]
    parallel: bool = False
    claim: Ordered = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "claim", Ordered(self.keys))

    def __str__(self) -> str:
        return str(Ordered(self.keys))


@dataclass(frozen=True, slots=True)
class Exactly:
    """This very function of these columns: what one input of a join asks of another (SIGMOD 2012, section 3.3.2)."""

    layout: Partitioned

    def __str__(self) -> str:
        return f"exactly {self.layout}"


@dataclass(frozen=True, slots=True)
class Covers:
    """A copy for every partition of the other input that can have a match, and no more; of which layout, if it is known.
    Where it is not, the joint requirement says that it must be the other input's."""

    covering: Covering | None = None

    def __str__(self) -> str:
        return "⊤ where there can be matches" if self.covering is None else str(self.covering)


@dataclass(frozen=True, slots=True)
class LiesWithin:
    """As it lies, in these very ranges, as far as their first keys tell."""

    within: Within

    def __str__(self) -> str:
        return str(self.within)


RequiredPartitioning = Anyhow | OnePartition | EveryPartition | Clustered | RangeOrdered | Exactly | Covers | LiesWithin


@dataclass(frozen=True, slots=True)
class Required:
    """`largest` is the share of the rows that one partition may hold at most: like Pmin a wish about skew and size, and one
    that only a search with estimates can look after. Matching does not."""

    partitioning: RequiredPartitioning = field(default_factory=Anyhow)
    local: Local = ()
    largest: float = 1.0
    # Goals are looked up by their requirement by the thousand.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.partitioning, self.local, self.largest)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        evenly = f", at most {self.largest:.2g} in one place" if self.largest < 1.0 else ""
        return f"{{{self.partitioning}{evenly}; {show((*self.local,))}, *}}"


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One equality of an n-ary operator: a column of each input, the type it compares at, and whether NULL meets NULL
    (`<=>`, union, intersect) or never does (`=`)."""

    columns: tuple[Column, ...]
    type: DataType
    null_safe: bool = False

    def is_cast(self, side: int) -> bool:
        """Is a column compared in another type than its own?"""
        return self.type is not None and self.columns[side].type != self.type

    def __str__(self) -> str:
        return (" <=> " if self.null_safe else " = ").join(map(str, self.columns))


@dataclass(frozen=True, slots=True)
class CoPartitioned:
    """All inputs on the same subset of the keys, modulo equality, by the same function, into the same number."""

    keys: tuple[JoinKey, ...]

    def __post_init__(self) -> None:
        if not self.keys or len({len(key.columns) for key in self.keys}) != 1:
            raise ValueError("co-partitioning needs a key, and every key a column of every input")

    def __str__(self) -> str:
        return f"co-partitioned on some of {', '.join(map(str, self.keys))}"


@dataclass(frozen=True, slots=True)
class Covered:
    """One of two inputs lies by ranges whose first keys are join keys; the other, `by`, covers them (SIGMOD 2012, 3.3.2)."""

    keys: tuple[JoinKey, ...]
    by: Literal[0, 1]

    def __str__(self) -> str:
        return f"one covered by the other on some of {', '.join(map(str, self.keys))}"


Joint = CoPartitioned | Covered


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way an operator can run: what each child must deliver, and what the children must deliver together."""

    name: str
    children: tuple[Required, ...]
    joint: Joint | None = None
