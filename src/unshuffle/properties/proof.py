"""What matching returns: a proof, or exactly what is missing.

A proof is a list of steps, each one application of one rule to a formula. `check` in `rules` verifies a step knowing
nothing of how the matcher found it, so a plan can be checked again after it was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from unshuffle.catalog.schema import Column, Dependency, names
from unshuffle.properties.delivered import Partitioned
from unshuffle.properties.required import RequiredPartitioning
from unshuffle.properties.structure import Global, Local, show


class Rule(Enum):
    """The paper's eight rules, and what they rest on. Where a rule is an equivalence it is also read backwards."""

    TRUNCATE = "rule 1: a local property may lose its last actions"
    EXPAND = "rule 2: rows that agree on more columns agree on fewer"
    EXPAND_ORDERED = "rule 3: ranges of a prefix are ranges of the longer key"
    SORTED_IS_GROUPED = "rule 4: sorted rows are grouped"
    ORDERED_IS_CLUSTERED = "rule 5: ordered partitions keep equal rows together"
    DROP_GROUPED = "rule 6: a determined column adds nothing to a grouping"
    DROP_SORTED = "rule 7: a column determined by those before it adds nothing to an order"
    DROP_ACTION = "rule 8: an action on determined columns adds nothing"
    EQUAL = "equal columns stand for one another"
    MERGE_GROUPS = "grouped, then grouped again inside, is grouped on both"
    UNIQUE = "no two rows agree on a key, so there is nothing to bring together"
    ONE_PLACE = "all rows are in one partition"
    NULL_ORDER = "where nothing is NULL, it does not matter where NULLs go"
    SAME_FUNCTION = "the same function of equal columns"
    ANYHOW = "any partitioning will do"


@dataclass(frozen=True, slots=True)
class Step:
    rule: Rule
    before: Global | Local
    after: Global | Local
    because: Dependency | None = None
    backwards: bool = False

    def __str__(self) -> str:
        reason = f"  since {self.because}" if self.because is not None else ""
        turned = " (read backwards)" if self.backwards else ""
        return f"{show(self.before)} ⇒ {show(self.after)}  by {self.rule.value}{turned}{reason}"


@dataclass(frozen=True, slots=True)
class Proof:
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*map(str, self.steps), *self.notes]) or "as it stands"

    def __add__(self, other: Proof) -> Proof:
        return Proof(self.steps + other.steps, self.notes + other.notes)


HOLDS = Proof()


@dataclass(frozen=True, slots=True)
class MissingOrder:
    """`missing` inside the runs of `held` would do: held + missing ⇒ what was required. `held` is a prefix of what is
    delivered, so an enforcer may sort each run on its own, or everything."""

    held: Local
    missing: Local

    def __str__(self) -> str:
        inside = f" inside the runs of {show(self.held)}" if self.held else ""
        return f"order {show(self.missing)}{inside}"


@dataclass(frozen=True, slots=True)
class MissingPartitioning:
    """`undetermined` are the layout's columns that the required ones do not determine: knowing them determined would
    have been enough. Empty where the layout is of the wrong kind altogether."""

    required: RequiredPartitioning
    undetermined: frozenset[Column] = frozenset()

    def __str__(self) -> str:
        why = f" (not determined: {names(self.undetermined)})" if self.undetermined else ""
        return f"partitioning {self.required}{why}"


@dataclass(frozen=True, slots=True)
class Unmet:
    """At least one of the two is missing; the other part is proven."""

    partitioning: MissingPartitioning | None = None
    order: MissingOrder | None = None

    def __str__(self) -> str:
        return " and ".join(str(part) for part in (self.partitioning, self.order) if part is not None)


@dataclass(frozen=True, slots=True)
class Push:
    """Keep input `leader` as it is and send every other input by its function."""

    leader: int
    layouts: tuple[Partitioned, ...]


@dataclass(frozen=True, slots=True)
class Unaligned:
    """The inputs are not co-partitioned: why not, and which single layouts would serve them all."""

    why: str
    pushes: tuple[Push, ...] = ()

    def __str__(self) -> str:
        return self.why
