"""The inference rules: one function per rule checks whether the rule derives `after` from `before`.

The matcher decides by closures and then writes down the steps of a proof. The functions here check each step by its rule
alone, so an error in either is detected by the other. One step may apply a rule several times (truncating three actions is
one step).

Rules 1 to 8 are numbered as in ICDE 2010, section IV-C. Rules 6, 7 and 8 are equivalences and are also applied backwards.
Within a local property, rule 6 may also use the columns of earlier actions, because it applies within their runs. Rule 7
requires that the columns before determine the dropped one: in [a↑, b↑, c↑] the dependency c -> b does not allow dropping
b, because rows are sorted by b before c.
"""

from __future__ import annotations

from collections.abc import Callable

from unshuffle.catalog.schema import Column
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.structure import (
    Action,
    Global,
    Grouped,
    Local,
    Ordered,
    Replicated,
    Serial,
    Sorted,
    TargetedBroadcast,
    UnknownPartitioning,
    columns_of,
)
from unshuffle.properties.matching.proof import Proof, Rule, Step

Formula = Global | Local
# From these, nothing follows about the partition of a row: rows may have several copies, or the property is local.
NotOnce = Replicated | TargetedBroadcast | tuple  # type: ignore[type-arg]


def check(step: Step, facts: Dependencies) -> bool:
    """Whether the step is a valid application of its rule."""
    one, other = (step.after, step.before) if step.backwards else (step.before, step.after)
    if step.backwards and step.rule not in (Rule.DROP_GROUPED, Rule.DROP_SORTED, Rule.DROP_ACTION):
        return False
    return _CHECKS[step.rule](one, other, facts)


def first_bad_step(proof: Proof, facts: Dependencies) -> Step | None:
    """The first step that its rule rejects, or that does not continue the step before it; None if the proof is valid.

    A proof has two chains: the steps for the partitioning, then the steps for the order.
    """
    previous: Step | None = None
    for step in proof.steps:
        starts_chain = previous is None or isinstance(previous.after, tuple) != isinstance(step.before, tuple)
        if not check(step, facts) or not (starts_chain or (previous is not None and previous.after == step.before)):
            return step
        previous = step
    return None


def _truncate(before: Formula, after: Formula, facts: Dependencies) -> bool:
    return isinstance(before, tuple) and isinstance(after, tuple) and before[: len(after)] == after


def _expand(before: Formula, after: Formula, facts: Dependencies) -> bool:
    return isinstance(before, Grouped) and isinstance(after, Grouped) and before.columns <= after.columns


def _expand_ordered(before: Formula, after: Formula, facts: Dependencies) -> bool:
    return isinstance(before, Ordered) and isinstance(after, Ordered) and after.keys[: len(before.keys)] == before.keys


def _sorted_is_grouped(before: Formula, after: Formula, facts: Dependencies) -> bool:
    if not isinstance(before, tuple) or not isinstance(after, tuple) or len(before) != len(after):
        return False
    return all(
        b == a or (isinstance(b, Sorted) and a == Grouped(frozenset((b.column,))))
        for b, a in zip(before, after, strict=True)
    )


def _ordered_is_clustered(before: Formula, after: Formula, facts: Dependencies) -> bool:
    return isinstance(before, Ordered) and after == Grouped(columns_of(before.keys))


def _drop_grouped(before: Formula, after: Formula, facts: Dependencies) -> bool:
    context: frozenset[Column] = frozenset()
    if isinstance(before, tuple) and isinstance(after, tuple):
        place = _only_difference(before, after)
        if place is None:
            return False
        context = columns_of(before[:place])
        before, after = _grouping(before[place]), _grouping(after[place])
    if not isinstance(before, Grouped) or not isinstance(after, Grouped):
        return False
    return after.columns <= before.columns and facts.determines(context | after.columns, before.columns)


def _drop_sorted(before: Formula, after: Formula, facts: Dependencies) -> bool:
    if isinstance(before, Ordered) and isinstance(after, Ordered):
        return _drop_action(before.keys, after.keys, facts)
    if not isinstance(before, tuple) or not isinstance(after, tuple):
        return False
    place = _removed(before, after)
    sorts = place is not None and all(isinstance(action, Sorted) for action in before[: place + 1])
    return sorts and _drop_action(before, after, facts)


def _drop_action(before: Formula, after: Formula, facts: Dependencies) -> bool:
    if not isinstance(before, tuple) or not isinstance(after, tuple):
        return False
    place = _removed(before, after)
    return place is not None and facts.determines(columns_of(before[:place]), columns_of(before[place : place + 1]))


def _equal(before: Formula, after: Formula, facts: Dependencies) -> bool:
    if isinstance(before, tuple) and isinstance(after, tuple):
        return len(before) == len(after) and all(_same_action(b, a, facts) for b, a in zip(before, after, strict=True))
    if isinstance(before, Ordered) and isinstance(after, Ordered):
        return _equal(before.keys, after.keys, facts)
    return isinstance(before, Grouped) and isinstance(after, Grouped) and _same_action(before, after, facts)


def _same_action(before: Action, after: Action, facts: Dependencies) -> bool:
    if isinstance(before, Sorted) and isinstance(after, Sorted):
        return facts.equal(before.column, after.column) and before.on(after.column) == after
    if isinstance(before, Grouped) and isinstance(after, Grouped):
        return _representatives(before, facts) == _representatives(after, facts)
    return False


def _merge_groups(before: Formula, after: Formula, facts: Dependencies) -> bool:
    """Several adjacent groupings become one grouping on all their columns."""
    if not isinstance(before, tuple) or not isinstance(after, tuple) or len(after) >= len(before):
        return False
    extra = len(before) - len(after)
    for place, action in enumerate(after):
        span = before[place : place + extra + 1]
        if (
            before[:place] == after[:place]
            and before[place + extra + 1 :] == after[place + 1 :]
            and all(isinstance(each, Grouped) for each in span)
            and action == Grouped(columns_of(span))
        ):
            return True
    return False


def _unique(before: Formula, after: Formula, facts: Dependencies) -> bool:
    if isinstance(before, tuple) and isinstance(after, tuple):
        # Rows that all differ are grouped in any order, and after a unique grouping every run has a single row, for
        # which any further action holds. This allows inserting a grouping, not a sort: distinct rows need not be sorted.
        place = _removed(after, before)
        if place is None or not isinstance(after[place], Grouped):
            return False
        return facts.unique(columns_of(after[: place + 1]))
    return isinstance(after, Grouped) and not isinstance(before, NotOnce) and facts.unique(after.columns)


def _single_partition(before: Formula, after: Formula, facts: Dependencies) -> bool:
    if not isinstance(after, Grouped | Ordered):
        return False
    if facts.unique(()) and not isinstance(before, NotOnce):
        return True  # at most one row
    match before:
        case Serial():
            return True
        case Grouped():
            return facts.determines((), before.columns)
        case Ordered():
            return facts.determines((), columns_of(before.keys))
        case _:
            return False


def _null_order(before: Formula, after: Formula, facts: Dependencies) -> bool:
    if isinstance(before, Ordered) and isinstance(after, Ordered):
        return _null_order(before.keys, after.keys, facts)
    if not isinstance(before, tuple) or not isinstance(after, tuple) or len(before) != len(after):
        return False
    return all(
        b == a
        or (
            isinstance(b, Sorted)
            and isinstance(a, Sorted)
            and b.column in facts.never_null
            and Sorted(b.column, b.descending, a.nulls_first) == a
        )
        for b, a in zip(before, after, strict=True)
    )


def _same_function(before: Formula, after: Formula, facts: Dependencies) -> bool:
    return isinstance(before, Grouped) and isinstance(after, Grouped) and _same_action(before, after, facts)


def _any(before: Formula, after: Formula, facts: Dependencies) -> bool:
    return isinstance(after, UnknownPartitioning) and not isinstance(before, NotOnce)


def _removed(longer: Local, shorter: Local) -> int | None:
    """The position of the one additional action in `longer`; the last such position, where the condition is weakest."""
    if len(longer) != len(shorter) + 1:
        return None
    for place in reversed(range(len(longer))):
        if longer[:place] == shorter[:place] and longer[place + 1 :] == shorter[place:]:
            return place
    return None


def _only_difference(one: Local, other: Local) -> int | None:
    places = [i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    return places[0] if len(one) == len(other) and len(places) == 1 else None


def _grouping(action: Action) -> Formula:
    return action if isinstance(action, Grouped) else ()


def _representatives(action: Grouped, facts: Dependencies) -> frozenset[Column]:
    return frozenset(facts.representative(column) for column in action.columns)


_CHECKS: dict[Rule, Callable[[Formula, Formula, Dependencies], bool]] = {
    Rule.TRUNCATE: _truncate,
    Rule.EXPAND: _expand,
    Rule.EXPAND_ORDERED: _expand_ordered,
    Rule.SORTED_IS_GROUPED: _sorted_is_grouped,
    Rule.ORDERED_IS_CLUSTERED: _ordered_is_clustered,
    Rule.DROP_GROUPED: _drop_grouped,
    Rule.DROP_SORTED: _drop_sorted,
    Rule.DROP_ACTION: _drop_action,
    Rule.EQUAL: _equal,
    Rule.MERGE_GROUPS: _merge_groups,
    Rule.UNIQUE: _unique,
    Rule.SINGLE_PARTITION: _single_partition,
    Rule.NULL_ORDER: _null_order,
    Rule.SAME_FUNCTION: _same_function,
    Rule.ANY: _any,
}
