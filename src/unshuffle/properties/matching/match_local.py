"""Whether one local property implies another (ICDE 2010, section VII and rules 1, 4, 6, 7, 8).

This is decided by attribute closures, not by a search over rule applications. The actions of a delivered list divide the
rows into ever finer runs. Let K(i) be the closure of the columns of the first i actions. Then

    rows are grouped on X     if and only if the closure of X is some K(i), or X is unique
    within the runs of K(i)   column c is sorted if and only if c is in K(i), or the next action whose column is not in
                              K(i) sorts c, or a column equal to c, in the same direction

A required list is implied if and only if its actions pass these tests one after another, where i never decreases. The test is
sound and complete: three rows suffice to refute any other implication, and `tools/completeness.py` does so for every
pair of properties over three columns.

Worked example (Example 4 of ICDE 2010, after renaming): delivered [c1↑, c2↓, c5↑], required [{c1, c2}g].
K(0) = {}, K(1) = {c1}, K(2) = {c1, c2, c3} because {c1, c2} -> c3. The closure of {c1, c2} is K(2), so it is proven: truncate
c5 (rule 1), weaken the sorts to groupings (rule 4), and merge the two groupings. The closure of {c2} alone is no K(i). If
{c2} were required, the result would be what is missing: [{c2}g], with no prefix held.
"""

from __future__ import annotations

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties.facts.closure import EVERYTHING
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.structure import Action, Grouped, Local, Sorted, columns_of
from unshuffle.properties.matching.proof import HOLDS, MissingOrder, Proof, Rule, Step

# For each required action, the range of delivered actions that provides it; None if it holds without any.
Span = tuple[int, int] | None


def match_local(delivered: Local, required: Local, facts: Dependencies) -> Proof | MissingOrder:
    if delivered[: len(required)] == required:
        return HOLDS if len(delivered) == len(required) else Proof((Step(Rule.TRUNCATE, delivered, required),))
    found = spans(delivered, required, facts)
    return found if isinstance(found, MissingOrder) else _Steps(delivered, required, facts).proof(found)


def implied_local(delivered: Local, required: Local, facts: Dependencies) -> bool:
    """Whether the implication holds, without the steps of a proof."""
    return not isinstance(spans(delivered, required, facts), MissingOrder)


def spans(delivered: Local, required: Local, facts: Dependencies) -> list[Span] | MissingOrder:
    closures = facts.closures
    close, mask, bit = closures.close, closures.mask, closures.bit
    found: list[Span] = []
    at = 0
    runs = closures.constant  # K(at)
    settled = runs  # the closure of the proven actions: K(at), or EVERYTHING once they contain a key
    for index, action in enumerate(required):
        if isinstance(action, Sorted):
            column = bit(action.column)
            if not column & ~settled:
                found.append(None)
                continue
            start = at
            while at < len(delivered) and not mask(_columns(delivered[at])) & ~runs:
                at += 1
            candidate = delivered[at] if at < len(delivered) else None
            if (
                not isinstance(candidate, Sorted)
                or bit(candidate.column) != column
                or not _same_direction(candidate, action, facts)
            ):
                return MissingOrder(delivered[:at], required[index:])
            at += 1
            settled = runs = close(runs | column)
        else:
            target = close(settled | mask(action.columns))
            if target in (settled, EVERYTHING):
                found.append(None)
                settled = target
                continue
            start = at
            while runs != target and at < len(delivered):
                finer = close(runs | mask(_columns(delivered[at])))
                if finer & ~target:
                    break
                runs = finer
                at += 1
            if runs != target:
                rest = frozenset(c for c in action.columns if bit(c) & ~runs)
                return MissingOrder(delivered[:at], (Grouped(rest), *required[index + 1 :]))
            settled = runs
        found.append((start, at))
    return found


def _columns(action: Action) -> frozenset[Column] | tuple[Column]:
    return action.columns if isinstance(action, Grouped) else (action.column,)


def _same_direction(delivered: Sorted, required: Sorted, facts: Dependencies) -> bool:
    return delivered.descending == required.descending and (
        delivered.nulls_first == required.nulls_first or required.column in facts.never_null
    )


class _Steps:
    """Turns the spans into steps that rewrite the delivered list, from left to right, into the required one."""

    def __init__(self, delivered: Local, required: Local, facts: Dependencies) -> None:
        self.now = delivered
        self.required = required
        self.facts = facts
        self.steps: list[Step] = []

    def proof(self, found: list[Span]) -> Proof:
        used = max((span[1] for span in found if span is not None), default=0)
        self.become(Rule.TRUNCATE, self.now[:used])
        for place, (span, wanted) in enumerate(zip(found, self.required, strict=True)):
            if span is None:
                self.insert(place, wanted)
            elif isinstance(wanted, Sorted):
                for _ in range(span[1] - span[0] - 1):
                    self.drop(place)
                self.turn_sorted(place, wanted)
            else:
                self.turn_grouped(place, span[1] - span[0], wanted)
        return Proof(tuple(self.steps))

    def become(self, rule: Rule, after: Local, because: Dependency | None = None, backwards: bool = False) -> None:
        if after != self.now:
            self.steps.append(Step(rule, self.now, after, because, backwards))
            self.now = after

    def replace(self, rule: Rule, place: int, action: Action, because: Dependency | None = None) -> None:
        self.become(rule, (*self.now[:place], action, *self.now[place + 1 :]), because)

    def insert(self, place: int, wanted: Action) -> None:
        before, columns = columns_of(self.now[:place]), frozenset(_columns(wanted))
        after = (*self.now[:place], wanted, *self.now[place:])
        if self.facts.determines(before, columns):
            self.become(_dropping(self.now[:place], wanted), after, Dependency(before, columns), backwards=True)
        else:
            self.become(Rule.UNIQUE, after)

    def drop(self, place: int) -> None:
        before, action = self.now[:place], self.now[place]
        because = Dependency(columns_of(before), frozenset(_columns(action)))
        self.become(_dropping(before, action), (*before, *self.now[place + 1 :]), because)

    def turn_sorted(self, place: int, wanted: Sorted) -> None:
        given = self.now[place]
        assert isinstance(given, Sorted)
        self.replace(Rule.EQUAL, place, given.on(wanted.column))
        self.replace(Rule.NULL_ORDER, place, wanted)

    def turn_grouped(self, place: int, count: int, wanted: Grouped) -> None:
        span = self.now[place : place + count]
        loose = tuple(Grouped(frozenset((a.column,))) if isinstance(a, Sorted) else a for a in span)
        self.become(Rule.SORTED_IS_GROUPED, (*self.now[:place], *loose, *self.now[place + count :]))
        whole = Grouped(columns_of(loose))
        self.become(Rule.MERGE_GROUPS, (*self.now[:place], whole, *self.now[place + count :]))
        given = renamed(whole.columns, wanted.columns, self.facts)
        self.replace(Rule.EQUAL, place, Grouped(given))
        before = columns_of(self.now[:place])
        both = given | wanted.columns
        grown = (*self.now[:place], Grouped(both), *self.now[place + 1 :])
        self.become(Rule.DROP_GROUPED, grown, Dependency(before | given, wanted.columns - given), backwards=True)
        self.replace(Rule.DROP_GROUPED, place, wanted, Dependency(before | wanted.columns, both - wanted.columns))


def renamed(given: frozenset[Column], wanted: frozenset[Column], facts: Dependencies) -> frozenset[Column]:
    """The given columns, each replaced by an equal wanted column if there is one."""
    if given <= wanted or not facts.classes:
        return given
    return frozenset(
        column
        if column in wanted
        else min((w for w in wanted if facts.equal(column, w)), key=lambda c: c.id, default=column)
        for column in given
    )


def _dropping(before: Local, action: Action) -> Rule:
    """Rule 7 is the case of rule 8 where all actions are sorts."""
    plain = isinstance(action, Sorted) and all(isinstance(each, Sorted) for each in before)
    return Rule.DROP_SORTED if plain else Rule.DROP_ACTION
