"""The results of matching: a proof, or exactly what is missing.

A proof is a list of steps, each the application of one rule to a formula. `inference_rules.check` verifies a step
independently of the matcher, so a chosen plan can be verified again.
"""

from __future__ import annotations

from enum import Enum

from unshuffle.catalog.schema import Column, Dependency, names
from unshuffle.frozen import dataclass
from unshuffle.properties.layouts.delivered import Partitioned
from unshuffle.properties.layouts.structure import Global, Local, show
from unshuffle.properties.matching.required import RequiredPartitioning


class Rule(Enum):
    """The paper's eight rules, and the rules they rely on. Equivalences are also applied backwards."""

    TRUNCATE = "rule 1: a local property can be truncated"
    EXPAND = "rule 2: rows that agree on more columns agree on fewer"
    EXPAND_ORDERED = "rule 3: ranges of a prefix are ranges of the longer key"
    SORTED_IS_GROUPED = "rule 4: sorted rows are grouped"
    ORDERED_IS_CLUSTERED = "rule 5: ordered partitions keep equal rows together"
    DROP_GROUPED = "rule 6: a determined column adds nothing to a grouping"
    DROP_SORTED = "rule 7: a column determined by those before it adds nothing to an order"
    DROP_ACTION = "rule 8: an action on determined columns adds nothing"
    EQUAL = "equal columns can replace one another"
    MERGE_GROUPS = "a grouping within a grouping is a grouping on both"
    UNIQUE = "no two rows agree on a key, so every group is one row"
    SINGLE_PARTITION = "all rows are in one partition"
    NULL_ORDER = "the order of NULLs does not matter for a column without NULLs"
    SAME_FUNCTION = "the same function of equal columns"
    ANY = "any partitioning is accepted"


@dataclass(frozen=True, slots=True)
class Step:
    rule: Rule
    before: Global | Local
    after: Global | Local
    because: Dependency | None = None
    backwards: bool = False

    def __str__(self) -> str:
        reason = f"  since {self.because}" if self.because is not None else ""
        direction = " (read backwards)" if self.backwards else ""
        return f"{show(self.before)} ⇒ {show(self.after)}  by {self.rule.value}{direction}{reason}"


@dataclass(frozen=True, slots=True)
class Proof:
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*map(str, self.steps), *self.notes]) or "delivered as required"

    def __add__(self, other: Proof) -> Proof:
        return Proof(self.steps + other.steps, self.notes + other.notes)


HOLDS = Proof()


@dataclass(frozen=True, slots=True)
class MissingOrder:
    """Sorting by `missing` within the runs of `held` satisfies the requirement: held + missing ⇒ required. `held` is a prefix
    of the delivered order, so an enforcer may sort each run separately, or all rows."""

    held: Local
    missing: Local

    def __str__(self) -> str:
        inside = f" within the runs of {show(self.held)}" if self.held else ""
        return f"order {show(self.missing)}{inside}"


@dataclass(frozen=True, slots=True)
class MissingPartitioning:
    """`undetermined` are the delivered columns that the required columns do not determine. If they were determined, the
    requirement would be satisfied. Empty if the kind of partitioning is wrong."""

    required: RequiredPartitioning
    undetermined: frozenset[Column] = frozenset()

    def __str__(self) -> str:
        why = f" (not determined: {names(self.undetermined)})" if self.undetermined else ""
        return f"partitioning {self.required}{why}"


@dataclass(frozen=True, slots=True)
class Unmet:
    """What is missing: the partitioning, the order, or both. A part that is None is proven."""

    partitioning: MissingPartitioning | None = None
    order: MissingOrder | None = None

    def __str__(self) -> str:
        return " and ".join(str(part) for part in (self.partitioning, self.order) if part is not None)


@dataclass(frozen=True, slots=True)
class Push:
    """A way to co-partition: input `leader` keeps its layout and the others are repartitioned by its function."""

    leader: int
    layouts: tuple[Partitioned, ...]


@dataclass(frozen=True, slots=True)
class Unaligned:
    """The inputs do not satisfy a joint requirement: why, and which layouts would co-partition them."""

    why: str
    pushes: tuple[Push, ...] = ()

    def __str__(self) -> str:
        return self.why
