"""What `unshuffle explain` shows of an optimized script, in each of its formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from json import dumps
from typing import Literal

from unshuffle.algebra import operators as ops
from unshuffle.algebra.logical import Declared, Script
from unshuffle.optimizer import Optimized
from unshuffle.render import json as render_json
from unshuffle.render import numbers
from unshuffle.render.dot import dot
from unshuffle.render.html import page
from unshuffle.render.physical import Drawing
from unshuffle.render.ranked import ranked_json, ranked_text
from unshuffle.render.text import table, text
from unshuffle.render.tree import tree
from unshuffle.render.why import Telling
from unshuffle.why import Reasons

ExplainFormat = Literal["text", "json", "dot", "html"]


def physical(
    title: str,
    plans: Sequence[Optimized],
    reasons: Reasons,
    format: ExplainFormat,
    why: bool,
    declared: Sequence[Declared] = (),
) -> str:
    """The best of some plans, its reasons, and how the others differ from it."""
    optimized = plans[0]
    drawing = Drawing(optimized)
    telling = Telling(drawing, reasons)
    match format:
        case "json":
            found = render_json.explanation(drawing, telling)
            found["declared"] = render_json.declared_json(declared)
            if len(plans) > 1:
                found["plans"] = ranked_json(plans)
            return dumps(found, indent=2, ensure_ascii=False)
        case "dot":
            return dot(drawing.roots())
        case "html":
            texts = {"In short": "\n".join([*_summary(optimized, reasons), *_declared(declared)])}
            texts |= {"Why": telling.text()} if why else {}
            texts |= {"Other plans": ranked_text(plans)} if len(plans) > 1 else {}
            return page(title, drawing.roots(), texts=texts)
        case "text":
            parts = [table(drawing.roots()), "\n".join([*_summary(optimized, reasons), *_declared(declared)])]
            if why:
                parts.append(telling.text())
            elif reasons.kept or reasons.avoided:
                parts[-1] += "\n--why tells what forced each, and what would make it go."
            if len(plans) > 1:
                parts.append(ranked_text(plans))
            return "\n\n".join(parts)


def logical(title: str, script: Script, format: ExplainFormat) -> str:
    """A script as it was bound, before any choice was made."""
    match format:
        case "json":
            return dumps(render_json.logical_explanation(script), indent=2, ensure_ascii=False)
        case "dot":
            return dot(tree(script))
        case "html":
            return page(title, tree(script))
        case "text":
            left = [f"Left to Spark as written: {node.reason}." for node in script.foreign]
            notes = [*_declared(script.declared), *left]
            return "\n".join([text(tree(script)), *(["", *notes] if notes else [])])


def _declared(declared: Sequence[Declared]) -> Iterator[str]:
    for each in declared:
        why = "checked on the data" if each.checked else "trusted, not checked"
        yield f"Declared: {each.what} of {each.rowset}, {why}."


def _summary(optimized: Optimized, reasons: Reasons) -> Iterator[str]:
    moves = [each.node for each in reasons.kept if isinstance(each.node.operator, ops.Move)]
    sorts = len(reasons.kept) - len(moves)
    moved = numbers.size(sum(node.amount.bytes for node in moves))
    yield f"Estimated time {numbers.seconds(optimized.cost)}; planned in {numbers.seconds(optimized.milliseconds / 1e3)}."
    said = numbers.counted(len(moves), "exchange") + (f" of {moved}" if moves else "")
    yield f"The plan has {said} and {numbers.counted(sorts, 'sort')}; {_avoided(reasons)}."
    for rule, count in Counter(each.rule for each in optimized.super_operators).items():
        yield f"Super-operator {rule}: one pass in place of {numbers.counted(count, 'part')} of the query."
    for note in optimized.trace.notes:
        yield f"Note: {note}."
    for left in optimized.foreign:
        yield f"Left to Spark as written: {left.reason}."


def _avoided(reasons: Reasons) -> str:
    exchanges = sum(len(each.places) for each in reasons.avoided if each.what == "exchange")
    sorts = sum(each.what == "sort" for each in reasons.avoided)
    return f"{numbers.counted(exchanges, 'exchange')} and {numbers.counted(sorts, 'sort')} of plain Spark's are avoided"
