"""Reasons in words: why each exchange and sort is there, what would make it unnecessary, and the proof of each one that was
avoided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unshuffle.explain.phrases import numbers, shuffle_writers
from unshuffle.explain.phrases.layouts import LayoutText
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.explain.phrases.range_boundaries import why_then
from unshuffle.explain.render.part_text import PartText
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.physical_operators import JOINS
from unshuffle.explain.why import (
    AvoidedEnforcer,
    DependencyRemedy,
    KeptEnforcer,
    Reasons,
    StorageRemedy,
    UnmetRequirement,
)
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Broadcast,
    BroadcastAligned,
    BroadcastTo,
    CoPartitioned,
    Delivered,
    Exactly,
    Joint,
    Partitioned,
    Repartitioning,
    Required,
    Sorted,
    TargetedBroadcast,
    UnknownPartitioning,
    Unmet,
)
from unshuffle.properties.layouts.exchange import PartialMerge

MAX_OPERATOR_WIDTH = 70  # characters


class ReasonText:
    """The reasons of one plan, with its column names."""

    def __init__(self, drawing: PlanDrawing, reasons: Reasons) -> None:
        self._drawing = drawing
        self._layouts = drawing.layouts
        self.names = drawing.names
        self.machine = drawing.optimized.target.machine
        self.reasons = reasons
        self.parts = PartText(self.names, self.operator)

    def text(self) -> str:
        parts = list(self._part_lines())
        return "\n".join([*self._kept_lines(), "", *self._avoided_lines(), *(["", *parts] if parts else [])])

    def _kept_lines(self) -> Iterator[str]:
        if not self.reasons.kept:
            yield "The plan has no exchanges and no sorts."
            return
        yield "Exchanges and sorts of this plan, and why they are needed:"
        for number, kept in enumerate(self.reasons.kept, 1):
            name, _ = self._drawing.operators.describe(kept.node.operator)
            amount = f"{numbers.size(kept.node.size.bytes)}, {numbers.rows(kept.node.size.rows)}"
            yield f"{number:>3}. {name} of {amount}  → {self._layouts.layout(kept.node.delivered)}"
            details = (
                self.forced_by(kept),
                why_then(kept.node, self.names),
                shuffle_writers.remedy(kept.node, self.machine),
                self.remedy(kept),
            )
            yield from (f"     {detail}" for detail in details if detail)

    def _avoided_lines(self) -> Iterator[str]:
        if not self.reasons.avoided:
            yield "The plan avoids no exchange and no sort of plain Spark."
            return
        yield "Exchanges and sorts of plain Spark that this plan avoids:"
        for number, avoided in enumerate(self.reasons.avoided, 1):
            requirement = self.requirement(avoided.required)
            yield f"{number:>3}. no {avoided.kind} for {self.operator(avoided.node)}, which needs {requirement}"
            yield from (f"     {line}" for line in self.proof(avoided))

    def _part_lines(self) -> Iterator[str]:
        found = [[self.parts.pruned(each)] for each in self.reasons.pruned]
        found += [self.parts.matched(each) for each in self.reasons.matched]
        found += [self.parts.child_joins(each) for each in self.reasons.child_joins]
        if found:
            yield "Parts of tables that are not read, or never meet:"
            for number, (line, *details) in enumerate(found, 1):
                yield f"{number:>3}. {line}"
                yield from (f"     {detail}" for detail in details)

    # --- exchanges and sorts that are kept

    def forced_by(self, kept: KeptEnforcer) -> str:
        """Why an exchange or a sort is there."""
        operator = kept.node.operator
        if isinstance(operator, physical.Exchange) and isinstance(operator.how, PartialMerge):
            return self._aggregation_tree(kept.node)
        unmet = kept.forced_by
        if unmet is None and _spreads_rows(operator):
            return "no operator requires it; user code declares that it takes long, and then runs in more tasks"
        if unmet is None:
            return "no operator requires it; it makes the plan cheaper"
        if unmet.input is None:
            return self._forced_by_output(kept, unmet)
        needs = self.requirement(_unmet_part(unmet))
        consumer = self.operator(unmet.node)
        if isinstance(unmet.required, Required) and isinstance(unmet.required.partitioning, Broadcast | BroadcastTo):
            return f"{consumer} keeps the layout of its other input, and needs {needs}{_average_copies(kept.node)}"
        return f"{consumer} needs {needs}; {self._layout_without(kept, unmet.delivered)}"

    def _forced_by_output(self, kept: KeptEnforcer, unmet: UnmetRequirement) -> str:
        """The order of a result, or the layout in which an output is stored."""
        required = _unmet_part(unmet)
        assert isinstance(required, Required)
        order = self._layouts.local(required.local)
        if not isinstance(required.partitioning, Exactly):
            stored = isinstance(unmet.required, Required) and isinstance(unmet.required.partitioning, Exactly)
            return f"the output must be stored {order}" if stored else f"the result must be {order}"
        stored_as = " and ".join(filter(None, (self._layouts.partitioning(required.partitioning.layout), order)))
        return f"the output must be stored as {stored_as}; {self._layout_without(kept, unmet.delivered)}"

    def _aggregation_tree(self, node: PhysicalPlan) -> str:
        """Why partial states are merged in fragments."""
        partitions, fragments = node.inputs[0].size.partitions, node.size.partitions
        per_fragment = -(-partitions // fragments)
        return (
            f"{partitions:,} partitions have partial states, and a task should read from at most "
            f"{self.machine.fan_in:,}: the states are merged in {fragments:,} fragments first, each of at most "
            f"{per_fragment:,} partitions, which makes the plan cheaper"
        )

    def requirement(self, required: Required | Joint) -> str:
        return self._layouts.required(required) if isinstance(required, Required) else self._layouts.joint(required)

    def _layout_without(self, kept: KeptEnforcer, delivered: Delivered) -> str:
        if isinstance(kept.node.operator, physical.LocalSort) and not delivered.local:
            return "without the sort, the rows are in no order"
        kind = "sort" if isinstance(kept.node.operator, physical.LocalSort) else "exchange"
        return f"without the {kind}, the layout is {self._layouts.layout(delivered)}"

    def remedy(self, kept: KeptEnforcer) -> str | None:
        """What would make an exchange or a sort unnecessary. It was tried, and the plan was correct without it."""
        kind = "sort" if isinstance(kept.node.operator, physical.LocalSort) else "exchange"
        enforcer = f"this {kind} of {numbers.size(kept.node.size.bytes)}"
        match kept.remedy:
            case DependencyRemedy(dependencies, partitioned_on):
                facts = " and ".join(
                    f"{self.names.set(each.determinant)} determined {self.names.set(each.dependent)}"
                    for each in dependencies
                )
                on = self.names.listed(partitioned_on)
                instead = f": the exchanges of the join below it could partition on {on} alone" if on else ""
                return f"if {facts}, {enforcer} would not be needed{instead}"
            case StorageRemedy(scan, layout, removed):
                also = " and the exchange below it" if len(removed) > 1 else ""
                return f"if {scan.scan.label} were stored {_storage(layout)}, {enforcer}{also} would not be needed"
            case None:
                return None

    # --- exchanges and sorts that are avoided

    def proof(self, avoided: AvoidedEnforcer) -> list[str]:
        """The delivered layout, and the steps from there to the requirement."""
        layouts = list(dict.fromkeys(self._layouts.layout(each) for each in avoided.delivered))
        if isinstance(avoided.required, BroadcastAligned):
            layout = self._layouts.layout(avoided.delivered[1 - avoided.required.broadcast])
            return [
                f"the layout is {layout}, and is kept: its boundaries show where rows of the other input can have matches"
            ]
        if isinstance(avoided.required, CoPartitioned):
            return [f"the layouts are {' and '.join(layouts)}: the same partition function of equal columns"]
        return [f"the layout is {layouts[0]}", *(self._layouts.step(step) for step in avoided.proof.steps)]

    # --- operators

    def sort_keys(self, keys: Sequence[Sorted]) -> str:
        return self._layouts.keys(keys)

    def operator(self, node: PhysicalPlan) -> str:
        """A short text for an operator, as the subject of a sentence."""
        name, facts = self._drawing.operators.describe(node.operator)
        texts = [
            f"{label} {value}".strip() for label, value in facts if value and label in ("by", "on", "distinct", "")
        ]
        if isinstance(node.operator, JOINS) and len(texts) > 1:
            texts = texts[1:]  # the condition says more than the kind of join
        text = texts[0] if texts else ""
        is_short = len(text) <= MAX_OPERATOR_WIDTH
        return f"{name} {text if is_short else text[: MAX_OPERATOR_WIDTH - 1] + '…'}".strip()


def _average_copies(node: PhysicalPlan) -> str:
    """The number of copies of a row that a targeted broadcast makes."""
    partitioning = node.delivered.partitioning
    if not isinstance(partitioning, TargetedBroadcast) or not node.inputs[0].size.rows:
        return ""
    average = node.size.rows / node.inputs[0].size.rows
    return f": in {average:.4g} of {partitioning.function.partitions:,} on average; a full broadcast copies to all"


def _storage(layout: Delivered) -> str:
    """A layout of files. Its columns need no numbers, since they are the file's own."""
    text = LayoutText(ColumnNames(()))
    is_partitioned = isinstance(layout.partitioning, Partitioned)
    partitioning = f"as {text.partitioning(layout.partitioning)}" if is_partitioned else ""
    return " and ".join(filter(None, (partitioning, text.local(layout.local))))


def _unmet_part(unmet: UnmetRequirement) -> Required | Joint:
    """The part of a requirement that would not be met: its partitioning, its order, or both."""
    if isinstance(unmet.required, Required) and isinstance(unmet.missing, Unmet):
        if unmet.missing.order is None:
            return Required(unmet.required.partitioning)
        if unmet.missing.partitioning is None:
            return Required(local=unmet.required.local)
    return unmet.required


def _spreads_rows(operator: physical.PhysicalOperator) -> bool:
    how = operator.how if isinstance(operator, physical.Exchange) else None
    return isinstance(how, Repartitioning) and isinstance(how.scheme, UnknownPartitioning)
