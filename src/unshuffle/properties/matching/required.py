"""What an operator requires of its inputs (ICDE 2010, section VI).

A required partitioning usually leaves a choice. `Clustered(maximum=G, minimum=M)` accepts a layout on any X with M ≤ X ≤ G.
Here ≤ is not set inclusion but the order that dependencies induce: X ≤ G if G determines X (rows that agree on G agree on
X, so they share a partition), and M ≤ X if X determines M (the layout is at least as fine as M). Without dependencies this
is the paper's Pmin ⊆ X ⊆ Pmax. `parallel` is the paper's "explicit partitioning": a single partition is not accepted.

A joint requirement concerns several inputs at once; see `joint`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from unshuffle.catalog.schema import Column, DataType, names
from unshuffle.frozen import dataclass
from unshuffle.properties.layouts.delivered import Partitioned, PrefixPartitioned
from unshuffle.properties.layouts.structure import Grouped, Local, Ordered, Sorted, TargetedBroadcast, show


@dataclass(frozen=True, slots=True)
class AnyDistribution:
    """Any distribution in which every row occurs once. Replicated data is not accepted."""

    parallel: bool = False

    def __str__(self) -> str:
        return "any partitioning" if self.parallel else "any distribution"


@dataclass(frozen=True, slots=True)
class SinglePartition:
    def __str__(self) -> str:
        return "⊥"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A full copy in every partition."""

    def __str__(self) -> str:
        return "⊤"


@dataclass(frozen=True, slots=True)
class Clustered:
    """Partitioned on some X between `minimum` and `maximum`.

    `nulls_meet` is the equality of GROUP BY: rows with NULL keys must share a partition too. A join with `=` does not
    require that.
    """

    maximum: frozenset[Column]
    minimum: frozenset[Column] = frozenset()
    parallel: bool = False
    nulls_meet: bool = True
    formula: Grouped = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.maximum or not self.minimum <= self.maximum:
            raise ValueError("the maximum needs a column and must include the minimum")
        object.__setattr__(self, "formula", Grouped(self.maximum))

    def __str__(self) -> str:
        return f"{{{names(self.minimum)}}} ≤ X ≤ {{{names(self.maximum)}}}"


@dataclass(frozen=True, slots=True)
class RangeOrdered:
    """Partitions in the order of the keys. A range layout on any prefix of the keys satisfies it (rule 3)."""

    keys: tuple[Sorted, ...]
    parallel: bool = False
    formula: Ordered = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", Ordered(self.keys))

    def __str__(self) -> str:
        return str(Ordered(self.keys))


@dataclass(frozen=True, slots=True)
class Exactly:
    """Exactly this function of these columns: what one input of a join requires of the other (SIGMOD 2012, 3.3.2)."""

    layout: Partitioned

    def __str__(self) -> str:
        return f"exactly {self.layout}"


@dataclass(frozen=True, slots=True)
class BroadcastTo:
    """A targeted broadcast: one copy for every partition of the other input that can have a match. If `layout` is None, any
    targeted broadcast is accepted and the joint requirement relates it to the other input."""

    layout: TargetedBroadcast | None = None

    def __str__(self) -> str:
        return "⊤ to possible matches" if self.layout is None else str(self.layout)


@dataclass(frozen=True, slots=True)
class ExactlyPrefix:
    """Exactly these ranges, as far as the first keys determine the partition."""

    layout: PrefixPartitioned

    def __str__(self) -> str:
        return str(self.layout)


RequiredPartitioning = (
    AnyDistribution | SinglePartition | Broadcast | Clustered | RangeOrdered | Exactly | BroadcastTo | ExactlyPrefix
)


@dataclass(frozen=True, slots=True)
class Required:
    """`largest` limits the share of rows in any one partition. Like Pmin it limits skew and is not needed for correctness.
    Matching ignores it; the search checks it against its estimates."""

    partitioning: RequiredPartitioning = field(default_factory=AnyDistribution)
    local: Local = ()
    largest: float = 1.0
    # The search looks up goals by their requirement thousands of times.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.partitioning, self.local, self.largest)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        evenly = f", at most {self.largest:.2g} of the rows in one partition" if self.largest < 1.0 else ""
        return f"{{{self.partitioning}{evenly}; {show((*self.local,))}, *}}"


@dataclass(frozen=True, slots=True)
class JoinKey:
    """One equality of an n-ary operator: a column of each input, the type at which they compare, and whether NULL equals NULL
    (`<=>`, union, intersect) or not (`=`)."""

    columns: tuple[Column, ...]
    type: DataType
    null_safe: bool = False

    def is_cast(self, side: int) -> bool:
        """Whether the column of this input is cast before the comparison."""
        return self.type is not None and self.columns[side].type != self.type

    def __str__(self) -> str:
        return (" <=> " if self.null_safe else " = ").join(map(str, self.columns))


@dataclass(frozen=True, slots=True)
class CoPartitioned:
    """All inputs are partitioned by the same function on corresponding columns of some of the keys."""

    keys: tuple[JoinKey, ...]

    def __post_init__(self) -> None:
        if not self.keys or len({len(key.columns) for key in self.keys}) != 1:
            raise ValueError("co-partitioning needs a key, and each key needs a column of every input")

    def __str__(self) -> str:
        return f"co-partitioned on some of {', '.join(map(str, self.keys))}"


@dataclass(frozen=True, slots=True)
class BroadcastAligned:
    """One of two inputs is partitioned by ranges whose first keys are join keys. The other, number `broadcast`, is copied to
    the ranges that can have matches (SIGMOD 2012, section 3.3.2)."""

    keys: tuple[JoinKey, ...]
    broadcast: Literal[0, 1]

    def __str__(self) -> str:
        return f"one broadcast to the ranges of the other on some of {', '.join(map(str, self.keys))}"


Joint = CoPartitioned | BroadcastAligned


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to run an operator: what each child must deliver, and what the children must satisfy jointly."""

    name: str
    children: tuple[Required, ...]
    joint: Joint | None = None
