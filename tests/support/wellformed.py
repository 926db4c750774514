"""Whether a plan is well-formed: its operators read only columns of their inputs, and no column occurs twice."""

from __future__ import annotations

from collections.abc import Iterable

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Exists, InSubquery, ScalarSubquery, columns_of
from unshuffle.plan.expressions import walk as parts
from unshuffle.plan.logical import (
    Combine,
    Expand,
    GroupBy,
    Join,
    Plan,
    Process,
    Reduce,
    Reference,
    Scan,
    SetOperation,
    Values,
    expressions_of,
    walk,
)


def problems(plan: Plan, outer: frozenset[Column] = frozenset()) -> list[str]:
    """The problems of a plan."""
    found: list[str] = []

    def say(node: Plan, what: str, columns: Iterable[Column] = ()) -> None:
        found.append(f"{type(node).__name__}: {what} {', '.join(map(str, columns))}".rstrip())

    def check(node: Plan, outside: frozenset[Column]) -> None:
        if len(set(node.columns)) < len(node.columns):
            say(node, "yields a column twice:", node.columns)
        inside = frozenset(column for child in node.children for column in child.columns)
        if not isinstance(node, Scan | Reference):
            for expression in expressions_of(node):
                if missing := columns_of(expression) - inside - outside:
                    say(node, "reads columns that its inputs do not have:", missing)
                for part in parts(expression):
                    if isinstance(part, ScalarSubquery | Exists | InSubquery):
                        check(part.plan, outside | inside)
        own(node)
        for child in node.children:
            check(child, outside)

    def own(node: Plan) -> None:
        match node:
            case Join():
                if not set(node.left.columns).isdisjoint(node.right.columns):
                    say(node, "both inputs yield", set(node.left.columns) & set(node.right.columns))
                if not set(node.columns) <= set(node.made):
                    say(node, "keeps what is not made:", set(node.columns) - set(node.made))
                if node.kind in (JoinKind.SEMI, JoinKind.ANTI) and not set(node.columns) <= set(node.left.columns):
                    say(node, "yields columns of the right")
            case SetOperation():
                if any(len(each.columns) != len(node.columns) for each in node.inputs):
                    say(node, "has inputs of another width")
            case Reference():
                if len(node.columns) != len(node.rowset.columns):
                    say(node, "has another width than its rowset")
            case Values():
                if any(len(row) != len(node.columns) for row in node.rows):
                    say(node, "has rows of another width")
            case Process() | Reduce() | Combine():
                inputs = {column for child in node.children for column in child.columns}
                if missing := {column for _, column in node.readonly} - inputs:
                    say(node, "passes on columns that its inputs do not have:", missing)
            case Expand() | GroupBy():
                if not node.columns:
                    say(node, "yields nothing")
            case _:
                pass

    check(plan, outer)
    return found


def rowsets(plan: Plan) -> dict[str, int]:
    """The number of nodes for each shared rowset: one, if it is still shared."""
    counts: dict[str, set[int]] = {}
    for node in walk(plan):
        if isinstance(node, Reference):
            counts.setdefault(node.rowset.name, set()).add(id(node.rowset))
    return {name: len(ids) for name, ids in counts.items()}
