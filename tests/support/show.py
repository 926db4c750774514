"""A plan as indented text, short enough for an expected plan in a test: columns by name, without numbers."""

from __future__ import annotations

from collections.abc import Iterable

from unshuffle.catalog.schema import Column
from unshuffle.plan.expressions import Expression, Ref
from unshuffle.plan.logical import (
    Distinct,
    Expand,
    Filter,
    Foreign,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    Plan,
    Project,
    Reference,
    Scan,
    SetOperation,
    Shared,
    Sort,
    Values,
    Window,
)
from unshuffle.plan.sql import order_words, to_sql


def show(plan: Plan, numbered: bool = False) -> str:
    """`numbered` shows columns with their numbers, for debugging."""

    def name(column: Column) -> str:
        return str(column) if numbered else column.name

    def names(columns: Iterable[Column]) -> str:
        return ", ".join(map(name, columns))

    def text(expression: Expression) -> str:
        written = to_sql(expression, name, lambda inner: " ".join(show(inner, numbered).split()))
        return written[1:-1] if written.startswith("(") and _is_one(written) else written

    def made(pairs: Iterable[tuple[Column, Expression]]) -> str:
        return ", ".join(name(c) if e == Ref(c) else f"{name(c)} = {text(e)}" for c, e in pairs)

    def line(node: Plan) -> str:
        match node:
            case Scan(label=label, columns=columns):
                return f"{label}({names(columns)})"
            case Values(rows=rows, columns=columns):
                return f"values({names(columns)}) {len(rows)} rows" if rows else f"nothing({names(columns)})"
            case Project(outputs=outputs):
                return f"project {made(outputs)}"
            case Filter(predicate=predicate):
                return f"filter {text(predicate)}"
            case GroupBy(keys=keys, aggregates=aggregates):
                return f"group by {names(keys)}: {made(aggregates)}".rstrip(": ")
            case GroupingSets(sets=sets, aggregates=aggregates):
                return f"grouping sets {', '.join(f'({names(one)})' for one in sets)}: {made(aggregates)}"
            case Expand(sets=sets):
                return f"expand {', '.join(f'({names(one)})' for one in sets)}"
            case Window(calls=calls):
                return f"window {made(calls)}"
            case Sort(order=order):
                return f"sort {', '.join(f'{text(k.expression)} {order_words(k)}' for k in order)}"
            case Limit(count=count, offset=offset):
                return f"limit {count} offset {offset}" if offset else f"limit {count}"
            case Join(kind=kind, condition=condition, kept=kept):
                on = "" if condition is None else f" on {text(condition)}"
                return f"{kind.value}{on}" + ("" if kept is None else f" -> {names(kept)}")
            case SetOperation(kind=kind, all=all_rows, columns=columns):
                return f"{kind.value}{' all' if all_rows else ''} -> {names(columns)}"
            case Reference(rowset=rowset, columns=columns):
                return f"use of {rowset.name}({names(columns)})"
            case Shared(name=shared):
                return f"shared {shared}"
            case Distinct() | Foreign():
                return type(node).__name__.lower()
            case _:
                return f"{type(node).__name__.lower()} -> {names(node.columns)}"

    def lines(node: Plan, depth: int) -> Iterable[str]:
        yield "  " * depth + line(node)
        for child in node.children:
            yield from lines(child, depth + 1)

    return "\n".join(lines(plan, 0))


def _is_one(text: str) -> bool:
    """Is the whole text in one pair of parentheses?"""
    depth = 0
    for place, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return place == len(text) - 1
    return False
