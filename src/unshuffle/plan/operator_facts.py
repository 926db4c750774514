"""Facts about a logical operator by itself, which rules and the memo ask for without knowing the operators."""

from __future__ import annotations

from unshuffle.plan.logical import (
    Combine,
    Filter,
    Foreign,
    Limit,
    PartialTopN,
    Plan,
    Process,
    Project,
    Reduce,
    TableScan,
    expressions_of,
)
from unshuffle.plan.predicates import is_deterministic

# A limit may cut off other rows each time, and nothing is known of user code, of Spark's own operators and tables.
_UNREPEATABLE = (Limit, PartialTopN, Process, Reduce, Combine, Foreign, TableScan)


def has_repeatable_rows(plan: Plan) -> bool:
    """Does the operator yield the same rows each time it runs over the same input?"""
    return not isinstance(plan, _UNREPEATABLE) and all(is_deterministic(e) for e in expressions_of(plan))


def is_rowwise(plan: Plan) -> bool:
    """Does the operator handle one row at a time, in the stage of its input?"""
    return isinstance(plan, Project | Filter)
