"""When the boundaries of a range exchange are chosen, and why then (SIGMOD 2012, section 3.2.1 and Figure 7)."""

from __future__ import annotations

from unshuffle.explain.phrases import numbers
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalOperator, PhysicalPlan
from unshuffle.properties import Partitioned, RangeFunction, SampledBoundaries


def when_chosen(operator: PhysicalOperator) -> str | None:
    scheme_and_function = _range_scheme(operator)
    if scheme_and_function is None:
        return None
    return "run time" if isinstance(scheme_and_function[1].boundaries, SampledBoundaries) else "plan time"


def why_then(node: PhysicalPlan, names: ColumnNames) -> str | None:
    scheme_and_function = _range_scheme(node.operator)
    if scheme_and_function is None:
        return None
    scheme, function = scheme_and_function
    match function.boundaries:
        case SampledBoundaries(planned_skew=None):
            reason = f"no statistics show the distribution of {names.listed(scheme.columns)}"
        case SampledBoundaries(planned_skew=skew):
            reason = f"with the statistics alone, the largest range might have {skew:.3g} times the average"
        case _:
            skew = max(1.0, node.size.largest * function.partitions)
            return f"boundaries are chosen at plan time: the largest range has about {skew:.3g} times the average"
    sampling = numbers.seconds(node.own.recompute)
    return f"boundaries are chosen at run time, from a sample that takes {sampling}, because {reason}"


def _range_scheme(operator: PhysicalOperator) -> tuple[Partitioned, RangeFunction] | None:
    scheme = getattr(operator.how, "scheme", None) if isinstance(operator, physical.Exchange) else None
    if isinstance(scheme, Partitioned) and isinstance(scheme.function, RangeFunction):
        return scheme, scheme.function
    return None
