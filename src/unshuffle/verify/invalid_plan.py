"""The error for a plan that must not run: the node, in words that identify it in the plan, and the problem."""

from __future__ import annotations

from unshuffle.errors import InternalError
from unshuffle.plan.physical import PhysicalPlan

MAX_COLUMNS = 6


def invalid_plan(node: PhysicalPlan, problem: str) -> InternalError:
    """`problem` is a verb phrase, with the operator as its subject."""
    return InternalError(f"invalid plan: {_describe(node)} {problem}")


def _describe(node: PhysicalPlan) -> str:
    more = ", ..." if len(node.columns) > MAX_COLUMNS else ""
    columns = ", ".join(map(str, node.columns[:MAX_COLUMNS])) + more
    alternative = f" ({node.alternative})" if node.alternative else ""
    return f"{type(node.operator).__name__}{alternative} of {columns}"
