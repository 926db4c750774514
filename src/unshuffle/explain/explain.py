"""The output of `unshuffle explain`, in each of its formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from unshuffle.effort import Stakes
from unshuffle.explain.phrases import numbers
from unshuffle.explain.render import json as render_json
from unshuffle.explain.render.dot import dot
from unshuffle.explain.render.html import Figure, page
from unshuffle.explain.render.logical import tree
from unshuffle.explain.render.node import DisplayStage
from unshuffle.explain.render.part_drawing import PartDrawing
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.render.text import table, text
from unshuffle.explain.render.top_k_plans import ranked_json, ranked_text
from unshuffle.explain.stages import ExecutionGraph
from unshuffle.explain.why import Reasons
from unshuffle.explain.why.more_bytes import MoreBytes
from unshuffle.explain.why.plain_spark import PlainSpark
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan.logical import Declared, Script
from unshuffle.plan.physical import Exchange
from unshuffle.printable import json_text, printable

ExplainFormat = Literal["text", "json", "dot", "html"]
MAX_FIGURES = 8  # of a page


def physical(
    title: str,
    plans: Sequence[PlannedQuery],
    reasons: Reasons,
    format: ExplainFormat,
    why: bool,
    declared: Sequence[Declared] = (),
    left_as_is: Stakes | None = None,
    as_written: PlannedQuery | None = None,
    without_super_operators: PlannedQuery | None = None,
) -> str:
    """The best of some plans, the reasons for its exchanges and sorts, and how the other plans differ from it. `as_written`
    is the plan of the query in the shape that it was written in, and `without_super_operators` the best plan without them."""
    optimized = plans[0]
    more_bytes = MoreBytes.of(optimized, as_written) if as_written is not None else None
    plain_exchanges = PlainSpark(as_written).exchanges() if as_written is not None else None
    drawing = PlanDrawing(optimized)
    reason_text = ReasonText(drawing, reasons)
    notes = [*_plain_spark(plain_exchanges), *_more_bytes(more_bytes), *_declared(declared), *_left_as_is(left_as_is)]
    stages_without = (
        len(ExecutionGraph(without_super_operators).stages) if without_super_operators is not None else None
    )
    summary = "\n".join([*_summary(drawing, reasons), *_super_operators(drawing, stages_without), *notes])
    match format:
        case "json":
            explanation = render_json.explanation(drawing, reason_text)
            explanation["declared"] = render_json.declared_json(declared)
            explanation["left_as_is"] = render_json.left_as_is_json(left_as_is)
            explanation["plain_spark"] = None if plain_exchanges is None else {"exchanges": plain_exchanges}
            explanation["stages_without_super_operators"] = stages_without
            explanation["more_bytes"] = render_json.more_bytes_json(more_bytes)
            if len(plans) > 1:
                explanation["plans"] = ranked_json(plans)
            return json_text(explanation, indent=2)
        case "dot":
            return dot(drawing.roots(), drawing.stages())
        case "html":
            texts = {"Summary": summary}
            texts |= {"Why": reason_text.text()} if why else {}
            texts |= {"Other plans": ranked_text(plans)} if len(plans) > 1 else {}
            return page(title, drawing.roots(), texts=texts, figures=_figures(reason_text), stages=drawing.stages())
        case "text":
            parts = [table(drawing.roots()), summary]
            if why:
                parts.append(reason_text.text())
            elif reasons.kept or reasons.avoided:
                parts[-1] += "\nUse --why to see what requires each of them, and what would make it unnecessary."
            if len(plans) > 1:
                parts.append(ranked_text(plans))
            return printable("\n\n".join(parts))


def _figures(text: ReasonText) -> list[Figure]:
    """Drawings of joins of parts, and of pruned tables that are in none of them. Many would make a large page."""
    matched = text.reasons.matched[:MAX_FIGURES]
    drawn = {id(side.scan) for each in matched for side in each.sides}
    pruned = [each for each in text.reasons.pruned if id(each.table.scan) not in drawn][: MAX_FIGURES - len(matched)]
    drawing = PartDrawing(text.parts)
    figures = [
        Figure(drawing.matched(each, number), "\n".join(text.parts.matched(each)))
        for number, each in enumerate(matched, 1)
    ]
    return figures + [
        Figure(drawing.pruned(each, number), text.parts.pruned(each))
        for number, each in enumerate(pruned, len(matched) + 1)
    ]


def logical(title: str, script: Script, format: ExplainFormat) -> str:
    """A bound script, before it is optimized."""
    match format:
        case "json":
            return json_text(render_json.logical_explanation(script), indent=2)
        case "dot":
            return dot(tree(script))
        case "html":
            return page(title, tree(script))
        case "text":
            fallbacks = [f"Falls back to Spark: {node.reason}." for node in script.foreign]
            notes = [*_declared(script.declared), *fallbacks]
            return printable("\n".join([text(tree(script)), *(["", *notes] if notes else [])]))


def _declared(declared: Sequence[Declared]) -> Iterator[str]:
    for each in declared:
        how = "checked on the data" if each.checked else "trusted, not checked"
        yield f"Declared: {each.what} of {each.rowset}, {how}."


def _more_bytes(found: MoreBytes | None) -> Iterator[str]:
    if found is not None:
        yield (
            f"It moves {numbers.size(found.moved)}. In the shape in which the query was written, it would move "
            f"{numbers.size(found.as_written)} and take an estimated {numbers.seconds(found.seconds_as_written)}, "
            f"not {numbers.seconds(found.seconds)}."
        )


def _plain_spark(exchanges: int | None) -> Iterator[str]:
    if exchanges is not None:
        yield f"Plain Spark would plan {numbers.counted(exchanges, 'exchange')}, by estimate, broadcasts included."


def _left_as_is(stakes: Stakes | None) -> Iterator[str]:
    if stakes is not None:
        yield (
            f"Left as it is: plain Spark takes an estimated {numbers.seconds(stakes.straight)}, and planning would take "
            f"{numbers.seconds(stakes.planning)}, more than it saves. `sql` and `optimize` return the query as plain "
            'Spark runs it; Session(effort="full") runs this plan.'
        )


def _summary(drawing: PlanDrawing, reasons: Reasons) -> Iterator[str]:
    optimized = drawing.optimized
    exchanges = [each.node for each in reasons.kept if isinstance(each.node.operator, Exchange)]
    sorts = len(reasons.kept) - len(exchanges)
    moved = numbers.size(sum(node.size.bytes for node in exchanges))
    yield f"Estimated time {numbers.seconds(optimized.cost)}; planned in {numbers.seconds(optimized.optimize_ms / 1e3)}."
    counted = numbers.counted(len(exchanges), "exchange") + (f" of {moved}" if exchanges else "")
    yield f"The plan has {counted} and {numbers.counted(sorts, 'sort')}; {_avoided(reasons)}."
    yield _stages(drawing.stages())
    for note in optimized.trace.notes:
        yield f"Note: {note}."
    for fallback in optimized.spark_fallbacks:
        yield f"Falls back to Spark: {fallback.reason}."
    yield _settings(optimized)


def _super_operators(drawing: PlanDrawing, stages_without: int | None) -> Iterator[str]:
    """The rules that made single passes, and the stages that this saves."""
    found = Counter(each.rule for each in drawing.optimized.super_operators)
    if found:
        rules = ", ".join(rule if count == 1 else f"{rule} ({count} times)" for rule, count in found.items())
        stages = numbers.counted(len(drawing.stages()), "stage")
        saved = "" if stages_without is None else f"; the plan has {stages}, and would have {stages_without} without"
        yield f"Super-operators: {rules}{saved}."


def _stages(stages: Sequence[DisplayStage]) -> str:
    """The execution graph on one line: how many tasks each stage has, and which stages it reads."""
    shown = []
    for stage in stages:
        reads = f" after {', '.join(map(str, stage.reads))}" if stage.reads else ""
        shown.append(f"{stage.number}{reads} ({numbers.counted(stage.tasks, 'task')})")
    return f"It runs in {numbers.counted(len(stages), 'stage')}: {'; '.join(shown)}."


def _settings(optimized: PlannedQuery) -> str:
    """Which settings the plan will run under."""
    target = optimized.target
    planned_for = f"Planned for {numbers.counted(target.machine.cores, 'core')}"
    if not optimized.settings:
        return f"{planned_for}; runs under the settings of the Spark session."
    chosen = ", ".join(f"{key}={_setting(value)}" for key, value in optimized.settings.items())
    where = "runs in a session of its own" if target.is_managed else "the DataFrame, and no other, runs"
    return f"{planned_for}; {where} with {chosen}."


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _avoided(reasons: Reasons) -> str:
    exchanges = sum(len(each.inputs) for each in reasons.avoided if each.kind == "exchange")
    sorts = sum(each.kind == "sort" for each in reasons.avoided)
    return f"{numbers.counted(exchanges, 'exchange')} and {numbers.counted(sorts, 'sort')} of plain Spark are avoided"
