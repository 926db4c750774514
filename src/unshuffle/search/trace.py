"""The trace of a search as data: which rules fired, which goals were opened, which winner replaced which.

`unshuffle explain --format json` has the counts. A detailed trace also has every event.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from unshuffle.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RuleFired:
    rule: str
    group: int


@dataclass(frozen=True, slots=True)
class GoalOpened:
    group: int
    required: str


@dataclass(frozen=True, slots=True)
class WinnerReplaced:
    """A cheaper plan for a goal: its top operator and cost, and those of the plan that it replaces."""

    group: int
    required: str
    operator: str
    cost: float
    before: str | None
    cost_before: float | None


Event = RuleFired | GoalOpened | WinnerReplaced


@dataclass(slots=True)
class Trace:
    detailed: bool = False
    rules: Counter[str] = field(default_factory=Counter)
    groups: int = 0
    expressions: int = 0
    goals: int = 0
    notes: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def fired(self, rule: str, group: int = -1) -> None:
        self.rules[rule] += 1
        if self.detailed:
            self.events.append(RuleFired(rule, group))

    def opened(self, group: int, required: object) -> None:
        self.goals += 1
        if self.detailed:
            self.events.append(GoalOpened(group, str(required)))

    def won(self, group: int, required: object, new: object, old: object) -> None:
        """`new` and `old` are physical plans."""
        if self.detailed:
            name = type(new.operator).__name__  # type: ignore[attr-defined]
            was = type(old.operator).__name__ if old is not None else None  # type: ignore[attr-defined]
            cost = new.cost  # type: ignore[attr-defined]
            cost_before = old.cost if old is not None else None  # type: ignore[attr-defined]
            self.events.append(WinnerReplaced(group, str(required), name, cost, was, cost_before))

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
