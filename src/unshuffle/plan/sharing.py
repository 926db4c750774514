"""Inlines the rowsets of a script that have one use.

The binder makes every named rowset a `Shared` node and every use of it a `Reference`. A rowset with a single use replaces
that use, so what remains shared is really read more than once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Plan, Project, Reference, Script, Shared
from unshuffle.plan.rebuild import map_inputs


def inline_single_uses(script: Script) -> Script:
    uses = Counter(id(node.rowset) for node in script.operators() if isinstance(node, Reference))
    rebuilt: dict[int, Shared] = {}

    def change(plan: Plan) -> Plan:
        if not isinstance(plan, Reference):
            return map_inputs(plan, change)
        rowset = plan.shared
        if uses[id(rowset)] > 1:
            if id(rowset) not in rebuilt:
                rebuilt[id(rowset)] = Shared(rowset.name, change(rowset.child))
            return Reference(rebuilt[id(rowset)], plan.columns)
        child = change(rowset.child)
        if plan.columns == rowset.columns:
            return child
        pairs = zip(plan.columns, rowset.columns, strict=True)
        return Project(child, tuple((column, Ref(original)) for column, original in pairs))

    return replace(script, outputs=tuple(replace(output, plan=change(output.plan)) for output in script.outputs))
