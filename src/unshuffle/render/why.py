"""Reasons in words and as JSON: each exchange and sort with what forced it and what would make it go, and each one that was
avoided with its proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical
from unshuffle.properties import (
    CoPartitioned,
    Covered,
    Covering,
    Covers,
    Delivered,
    EveryPartition,
    FullMerge,
    InitialPartitioning,
    Joint,
    Partitioned,
    RangeFunction,
    Repartitioning,
    Replicated,
    Required,
    Scattered,
    Serial,
    Unmet,
    partitions_of,
)
from unshuffle.properties.exchange import ConcatMerge, PartialMerge, PartialPartitioning, RandomMerge, SortMerge
from unshuffle.render import numbers, writers
from unshuffle.render.boundaries import when_chosen, why_then
from unshuffle.render.layouts import Layouts
from unshuffle.render.names import Names
from unshuffle.render.physical import Drawing
from unshuffle.why import Avoided, Broken, Determined, Kept, Reasons, Stored

Json = Mapping[str, Any]


class Telling:
    """Tells the reasons of one plan, with its names."""

    def __init__(self, drawing: Drawing, reasons: Reasons) -> None:
        self._drawing = drawing
        self._words = drawing.words
        self._names = drawing.names
        self._machine = drawing.optimized.machine
        self.reasons = reasons

    # --- what stays

    def forced(self, kept: Kept) -> str:
        """Why an exchange or a sort is there."""
        operator = kept.node.operator
        if isinstance(operator, ops.Move) and isinstance(operator.how, PartialMerge):
            return self._combined(kept.node)
        broken = kept.forced
        if broken is None:
            return "nothing needs it; the plan costs less with it"
        if broken.place is None:
            wish = broken.required
            assert isinstance(wish, Required)
            return f"the result is to be {self._words.local(wish.local)}" if wish.local else "the result needs it"
        asks = self._asked(_missing_part(broken))
        if isinstance(broken.required, Required) and isinstance(broken.required.partitioning, EveryPartition | Covers):
            copies = self._copies(kept.node)
            return f"{self.operator(broken.node)} runs where its other input lies, and needs {asks}{copies}"
        return f"{self.operator(broken.node)} needs {asks}; {self._lies(kept, broken.given)}"

    def _combined(self, node: Physical) -> str:
        """Why findings are gathered in fragments."""
        many, few = node.inputs[0].amount.partitions, node.amount.partitions
        each = -(-many // few)
        return (
            f"{many:,} partitions have findings, and a task is to read from at most {self._machine.fan_in:,}: they are "
            f"combined in {few:,} fragments first, each of at most {each:,} partitions; the plan costs less with it"
        )

    @staticmethod
    def _copies(node: Physical) -> str:
        """Of rows that are copied to some partitions, to how many."""
        place = node.delivered.partitioning
        if not isinstance(place, Covering) or not node.inputs[0].amount.rows:
            return ""
        average = node.amount.rows / node.inputs[0].amount.rows
        return f": {average:.4g} of {place.function.partitions:,} on the average, where a broadcast would be for all"

    def _asked(self, required: Required | Joint) -> str:
        return self._words.required(required) if isinstance(required, Required) else self._words.joint(required)

    def _lies(self, kept: Kept, given: Delivered) -> str:
        where = self._words.layout(given)
        if isinstance(kept.node.operator, ops.LocalSort) and not given.local:
            return "without it they are in no order"
        match given.partitioning:
            case Serial():
                return f"without it they are in {where}"
            case _:
                return f"without it they are {where}"

    def remedy(self, kept: Kept) -> str | None:
        """What would make it go; every word of it was tried."""
        what = "sort" if isinstance(kept.node.operator, ops.LocalSort) else "exchange"
        match kept.remedy:
            case Determined(dependencies):
                facts = " and ".join(
                    f"{self._names.set(each.determinant)} determined {self._names.set(each.dependent)}"
                    for each in dependencies
                )
                return f"if {facts}, this {what} of {self.moved(kept.node)} would go"
            case Stored(scan, layout, gone):
                also = " and the exchange below it" if len(gone) > 1 else ""
                words = self._stored(layout)
                return (
                    f"if {scan.scan.label} were stored {words}, this {what} of {self.moved(kept.node)}{also} would go"
                )
            case None:
                return None

    @staticmethod
    def _stored(layout: Delivered) -> str:
        """A layout of files, in their own columns, which need no numbers."""
        words = Layouts(Names(()))
        place = layout.partitioning
        shown = [f"as {words.partitioning(place)}"] if isinstance(place, Partitioned) else []
        return " and ".join([*shown, *([words.local(layout.local)] if layout.local else [])])

    def moved(self, node: Physical) -> str:
        """How much an exchange moves, or a sort sorts."""
        return numbers.size(node.amount.bytes)

    # --- what was avoided

    def needed(self, avoided: Avoided) -> str:
        return self._asked(avoided.required)

    def proof(self, avoided: Avoided) -> list[str]:
        """How rows lie, and the steps from there to what is needed."""
        layouts = list(dict.fromkeys(self._words.layout(given) for given in avoided.given))
        if isinstance(avoided.required, Covered):
            lies = self._words.layout(avoided.given[1 - avoided.required.by])
            return [
                f"the rows are {lies}, and stay there: the boundaries tell where the other input's can have matches"
            ]
        if isinstance(avoided.required, CoPartitioned):
            return [f"the inputs are {' and '.join(layouts)}: one function of equal columns"]
        given = avoided.given[0]
        where = f"the rows are {'in ' if isinstance(given.partitioning, Serial) else ''}{layouts[0]}"
        return [where, *(self._words.step(step) for step in avoided.proof.steps)]

    # --- operators

    def operator(self, node: Physical) -> str:
        """An operator, briefly, as the subject of a sentence."""
        name, facts = self._drawing.described(node.operator)
        said = [f"{key} {value}".strip() for key, value in facts if value and key in ("by", "on", "distinct", "")]
        what = said[0] if said else ""
        if isinstance(node.operator, ops.HashJoin | ops.MergeJoin | ops.LoopJoin) and len(said) > 1:
            what = said[1]
        return f"{name} {what if len(what) <= 70 else what[:69] + '…'}".strip()

    # --- texts

    def text(self) -> str:
        return "\n".join([*self._kept_text(), "", *self._avoided_text()])

    def _kept_text(self) -> Iterator[str]:
        kept = self.reasons.kept
        if not kept:
            yield "Nothing is moved or sorted."
            return
        yield "What moves or sorts rows, and why:"
        for number, each in enumerate(kept, 1):
            name, _ = self._drawing.described(each.node.operator)
            layout = self._words.layout(each.node.delivered)
            amount = f"{self.moved(each.node)}, {numbers.rows(each.node.amount.rows)}"
            yield f"{number:>3}. {name} of {amount}  → {layout}"
            yield f"     {self.forced(each)}"
            if boundaries := why_then(each.node, self._names):
                yield f"     {boundaries}"
            if written := writers.remedy(each.node, self._machine):
                yield f"     {written}"
            if remedy := self.remedy(each):
                yield f"     {remedy}"

    def _avoided_text(self) -> Iterator[str]:
        avoided = self.reasons.avoided
        if not avoided:
            yield "Nothing was avoided that plain Spark would have moved or sorted."
            return
        yield "What plain Spark would have moved or sorted, and need not be:"
        for number, each in enumerate(avoided, 1):
            yield f"{number:>3}. no {each.what} for {self.operator(each.node)}, which needs {self.needed(each)}"
            for line in self.proof(each):
                yield f"     {line}"

    # --- JSON

    def exchanges(self) -> list[Json]:
        return [self._exchange(each) for each in self.reasons.kept if isinstance(each.node.operator, ops.Move)]

    def sorts(self) -> list[Json]:
        return [self._sort(each) for each in self.reasons.kept if isinstance(each.node.operator, ops.LocalSort)]

    def _exchange(self, kept: Kept) -> Json:
        operator = kept.node.operator
        assert isinstance(operator, ops.Move)
        how = operator.how
        scheme = getattr(how, "scheme", None)
        merge = getattr(how, "merge", None)
        columns = scheme.columns if isinstance(scheme, Partitioned | Covering) else ()
        writing = writers.writing_of(kept.node)
        return {
            "topology": _TOPOLOGY[type(how)],
            "scheme": _scheme(scheme),
            "merge": None if merge is None else _MERGE.get(type(merge), "sort-concat"),
            "columns": [column.name for column in columns],
            "partitions": partitions_of(kept.node.delivered.partitioning),
            "bytes": round(kept.node.amount.bytes),
            "why": self.forced(kept),
            "rows": round(kept.node.amount.rows),
            "seconds": kept.node.own.seconds,
            "would_go": self.remedy(kept),
            "in_place": operator.readers is not None,
            "boundaries": when_chosen(operator),
            "boundaries_why": why_then(kept.node, self._names),
            "again_seconds": kept.node.own.again,
            "writer": None if writing is None else writing.writer(self._machine),
            "writer_why": None if writing is None else writers.why_so(writing, self._machine),
        }

    def _sort(self, kept: Kept) -> Json:
        operator = kept.node.operator
        assert isinstance(operator, ops.LocalSort)
        return {
            "columns": [column.column.name for column in operator.keys],
            "order": self._words.keys(operator.keys),
            "bytes": round(kept.node.amount.bytes),
            "rows": round(kept.node.amount.rows),
            "seconds": kept.node.own.seconds,
            "why": self.forced(kept),
            "would_go": self.remedy(kept),
        }

    def avoided(self) -> list[Json]:
        return [
            {
                "operator": self.operator(each.node),
                "requirement": self.needed(each),
                "proof": self.proof(each),
                "avoids": each.what,
            }
            for each in self.reasons.avoided
        ]


def _missing_part(broken: Broken) -> Required | Joint:
    """A requirement without the half of it that would still be met."""
    if isinstance(broken.required, Required) and isinstance(broken.missing, Unmet):
        if broken.missing.order is None:
            return Required(broken.required.partitioning)
        if broken.missing.partitioning is None:
            return Required(local=broken.required.local)
    return broken.required


_TOPOLOGY: dict[type, str] = {
    InitialPartitioning: "initial partitioning",
    Repartitioning: "repartitioning",
    FullMerge: "full merge",
    PartialPartitioning: "partial partitioning",
    PartialMerge: "partial merge",
}
_MERGE: dict[type, str] = {RandomMerge: "random", SortMerge: "sort", ConcatMerge: "concat"}


def _scheme(scheme: object) -> str | None:
    match scheme:
        case Partitioned(function=RangeFunction()):
            return "range"
        case Partitioned():
            return "hash"
        case Replicated():
            return "broadcast"
        case Covering():
            return "pruned broadcast"
        case Scattered():
            return "scattered"
        case _:
            return None
