"""The sequence of all rewrites that always help: what a plan goes through before the search begins.

A round sends conditions down and looks at what the operators have become, from the leaves up, until nothing more follows;
then it drops the columns that nobody reads. A join whose columns nobody reads may go now, and conditions pass where it
stood: rounds go on until one eliminates nothing.
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra.logical import Foreign, Plan, Script
from unshuffle.rules import (
    connect,
    desugar,
    eliminate,
    eliminate_join,
    empty,
    infer,
    picks,
    projects,
    push,
    push_join,
    push_semi,
    unnest,
    within,
)
from unshuffle.rules.eliminate import decide_filter, simplify_reflexive
from unshuffle.rules.prune import DROP_WINDOW, Pruned, prune_columns
from unshuffle.rules.renames import drop_renames
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import Done, ascend, descend, has_subqueries

# Most plans settle in two; what a further round finds is worth less than its time.
ROUNDS = 5

DOWN = (*push_join.RULES, *push.RULES)
UP = (*desugar.RULES, *picks.RULES, *projects.RULES, *empty.RULES, *infer.RULES, simplify_reflexive, decide_filter)
AFTER_PRUNING = (*projects.RULES, *eliminate.RULES, *eliminate_join.RULES, *within.RULES)


def normalize(plan: Plan, context: Rewriting) -> Plan:
    """The same rows, under the same columns: filters at the scans, no columns that nobody reads."""
    if has_subqueries(plan):
        plan = ascend(plan, unnest.RULES, context)
    passes = _Passes(context, has_subqueries(plan), push_join.has_outer_joins(plan))
    for _ in range(ROUNDS):
        windows = context.fired[DROP_WINDOW]
        pruned = passes.pruned(passes.settled(plan))
        plan = passes.looked_at(pruned)
        if plan is pruned and context.fired[DROP_WINDOW] == windows:
            break
    return plan


class _Passes:
    """Rules by the way they go through a plan, each with what it need not see again."""

    def __init__(self, context: Rewriting, nested: bool, has_outer: bool) -> None:
        self._context, self._nested = context, nested
        self._down, self._semi, self._connected, self._up, self._after = Done(), Done(), Done(), Done(), Done()
        self._pruned: Pruned = {}
        # No rule makes an outer join, and these look for one beneath every condition.
        self._rules_down = DOWN if has_outer else tuple(rule for rule in DOWN if rule not in push_join.OUTER)

    def settled(self, plan: Plan) -> Plan:
        """Conditions as far down as they go, and what follows from them, until nothing does."""
        for _ in range(ROUNDS):
            plan = descend(plan, self._rules_down, self._context, self._nested, self._down)
            plan = ascend(plan, push_semi.RULES, self._context, self._nested, self._semi)
            plan = drop_renames(plan, self._context, self._nested)
            plan = descend(plan, connect.RULES, self._context, self._nested, self._connected)
            changed = ascend(plan, UP, self._context, self._nested, self._up)
            if changed is plan:
                break
            plan = changed
        return plan

    def pruned(self, plan: Plan) -> Plan:
        return prune_columns(plan, self._context, self._nested, self._pruned)

    def looked_at(self, plan: Plan) -> Plan:
        return ascend(plan, AFTER_PRUNING, self._context, self._nested, self._after)


def normalize_script(script: Script, context: Rewriting) -> Script:
    """All outputs of a script together, as inputs of one operator, so that what they share stays shared."""
    inputs = tuple((str(place), output.plan) for place, output in enumerate(script.outputs))
    together = normalize(Foreign("", inputs, (), "all outputs of a script"), context)
    plans = zip(script.outputs, together.children, strict=True)
    return replace(script, outputs=tuple(replace(output, plan=plan) for output, plan in plans))
