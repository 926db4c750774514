"""The sequence of all rewrites that always help: what a plan goes through before the search begins.

Each round sends conditions down, then looks at what the operators have become, from the leaves up, and last drops the
columns that nobody reads; a join whose columns nobody reads may then go, and conditions pass where it stood. Rounds go on
until one changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra.logical import Foreign, Plan, Script
from unshuffle.rules import connect, projects, push, push_join
from unshuffle.rules.prune import prune_columns
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import ascend, descend, has_subqueries

# Most plans settle in three; what a further round finds is worth less than its time.
ROUNDS = 5

DOWN = (*push_join.RULES, *push.RULES)
UP = (*projects.RULES,)


def normalize(plan: Plan, context: Rewriting) -> Plan:
    """The same rows, under the same columns: filters at the scans, no columns that nobody reads."""
    nested = has_subqueries(plan)
    for _ in range(ROUNDS):
        before = plan
        plan = descend(plan, DOWN, context, nested)
        plan = descend(plan, connect.RULES, context, nested)
        plan = ascend(plan, UP, context, nested)
        plan = prune_columns(plan, context, nested)
        if plan is before or plan == before:
            break
    return plan


def normalize_script(script: Script, context: Rewriting) -> Script:
    """All outputs of a script together, as inputs of one operator, so that what they share stays shared."""
    inputs = tuple((str(place), output.plan) for place, output in enumerate(script.outputs))
    together = normalize(Foreign("", inputs, (), "all outputs of a script"), context)
    return Script(
        tuple(replace(output, plan=plan) for output, plan in zip(script.outputs, together.children, strict=True))
    )
