"""How a plan is refused: the node, in words that find it in the plan, and what is wrong with it."""

from __future__ import annotations

from unshuffle.algebra.physical import Physical
from unshuffle.errors import InternalError


def described(node: Physical) -> str:
    """An operator by its kind, how it runs and its columns."""
    columns = ", ".join(map(str, node.columns[:6])) + (", ..." if len(node.columns) > 6 else "")
    how = f" ({node.alternative})" if node.alternative else ""
    return f"{type(node.operator).__name__}{how} of {columns}"


def refused(node: Physical, what: str) -> InternalError:
    return InternalError(f"the plan must not run: {described(node)} {what}")
