"""Normalizes a case of `cases.py` that has a `rules` line. The line has one of these forms:

    rules  down PHASE rule ...     rules in the order given, each operator before its inputs
    rules  up PHASE rule ...       rules in the order given, each operator after its inputs
    rules  whole rule              a rule that rewrites the whole plan at once
    rules  all                     complete normalization

PHASE is a tuple of rules in `unshuffle.normalize.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.support.binding import context_for
from tests.support.show import show
from tests.support.wellformed import problems, rowsets
from unshuffle.normalize import rules as phases
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.traversal import ascend, descend
from unshuffle.plan.logical import Plan, Script

BY_NAME = {rule.__name__: rule for rule in phases.RULES}


def rewrite(script: Script, line: str, disabled: Sequence[str]) -> tuple[str, frozenset[str]]:
    """The logical plan as text, and the rules that fired. The plan is well formed and has the columns that it had."""
    (output,) = script.outputs
    context = context_for(output.plan, disabled)
    changed = _apply(output.plan, line, context)
    assert changed.columns == output.plan.columns
    assert not problems(changed)
    return show(changed), frozenset(+context.fired)


def _apply(plan: Plan, line: str, context: Rewriting) -> Plan:
    match line.split():
        case ["all"]:
            return phases.normalize(plan, context)
        case ["whole", name]:
            return _whole(plan, BY_NAME[name], context)
        case ["down", *names]:
            return descend(plan, list(_rules(names)), context)
        case ["up", *names]:
            return ascend(plan, list(_rules(names)), context)
        case _:
            raise ValueError(f"rules {line}: the first word is up, down, whole or all")


def _whole(plan: Plan, rule: Callable[[Plan, Rewriting], Plan], context: Rewriting) -> Plan:
    """Applies a rule, which must be idempotent and must keep shared rowsets shared."""
    changed = rule(plan, context)
    assert rule(changed, context) is changed
    assert all(count == 1 for count in rowsets(changed).values())
    return changed


def _rules(names: Sequence[str]) -> Iterator[Any]:
    for name in names:
        if name in BY_NAME:
            yield BY_NAME[name]
        else:
            yield from getattr(phases, name)
