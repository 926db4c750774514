"""Of an exchange by ranges: when its boundaries are chosen, and why then (SIGMOD 2012, section 3.2.1 and Figure 7)."""

from __future__ import annotations

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.properties import Partitioned, RangeFunction, Sampled
from unshuffle.render import numbers
from unshuffle.render.names import Names


def when_chosen(operator: PhysicalOperator) -> str | None:
    layout = _ranges(operator)
    if layout is None:
        return None
    return "run time" if isinstance(layout[1].boundaries, Sampled) else "plan time"


def why_then(node: Physical, names: Names) -> str | None:
    layout = _ranges(node.operator)
    if layout is None:
        return None
    scheme, function = layout
    match function.boundaries:
        case Sampled(instead=None):
            reason = f"nothing tells how {names.listed(scheme.columns)} is spread"
        case Sampled(instead=uneven):
            reason = f"by what is known now the largest range might have {uneven:.3g} times the average"
        case _:
            uneven = max(1.0, node.amount.largest * function.partitions)
            return f"boundaries are chosen now, by what is known: the largest range has about {uneven:.3g} times the average"
    look = numbers.seconds(node.own.again)
    return f"boundaries are chosen at run time, by a look at the rows that takes {look}, because {reason}"


def _ranges(operator: PhysicalOperator) -> tuple[Partitioned, RangeFunction] | None:
    scheme = getattr(operator.how, "scheme", None) if isinstance(operator, ops.Move) else None
    if isinstance(scheme, Partitioned) and isinstance(scheme.function, RangeFunction):
        return scheme, scheme.function
    return None
