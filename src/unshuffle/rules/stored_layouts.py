"""What is not known of how stored rows lie when they are read."""

from __future__ import annotations

from dataclasses import replace

from unshuffle.algebra.logical import Plan, Scan
from unshuffle.rules.rewriting import Rewriting
from unshuffle.rules.traverse import on


@on(Scan)
def forget_stored_layout(plan: Plan, context: Rewriting) -> Plan | None:
    """Files of a stream are read by Spark as any others, a task for some bytes of them: no partition of the stream is a
    partition of what is read, and no order is kept."""
    match plan:
        case Scan(stream=stream, layout=layout) if stream is not None and layout is not None:
            return replace(plan, layout=None)
        case _:
            return None


RULES = (forget_stored_layout,)
