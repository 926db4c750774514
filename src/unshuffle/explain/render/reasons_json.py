"""Reasons as JSON. Fields are added, never renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unshuffle.explain.phrases import shuffle_writers
from unshuffle.explain.phrases.range_boundaries import when_chosen, why_then
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.why import KeptEnforcer
from unshuffle.plan import physical
from unshuffle.properties import (
    FullMerge,
    InitialPartitioning,
    Partitioned,
    RangeFunction,
    Repartitioning,
    Replicated,
    TargetedBroadcast,
    UnknownPartitioning,
    partitions_of,
)
from unshuffle.properties.layouts.exchange import (
    ConcatMerge,
    PartialMerge,
    PartialPartitioning,
    RandomMerge,
    SortConcatMerge,
    SortMerge,
)

Json = Mapping[str, Any]


def exchanges_json(text: ReasonText) -> list[Json]:
    return [
        _exchange(text, kept, operator)
        for kept in text.reasons.kept
        if isinstance(operator := kept.node.operator, physical.Exchange)
    ]


def sorts_json(text: ReasonText) -> list[Json]:
    return [
        _sort(text, kept, operator)
        for kept in text.reasons.kept
        if isinstance(operator := kept.node.operator, physical.LocalSort)
    ]


def avoided_json(text: ReasonText) -> list[Json]:
    return [
        {
            "operator": text.operator(avoided.node),
            "requirement": text.requirement(avoided.required),
            "proof": text.proof(avoided),
            "avoids": avoided.kind,
        }
        for avoided in text.reasons.avoided
    ]


def _exchange(text: ReasonText, kept: KeptEnforcer, operator: physical.Exchange) -> Json:
    scheme = getattr(operator.how, "scheme", None)
    merge = getattr(operator.how, "merge", None)
    columns = scheme.columns if isinstance(scheme, Partitioned | TargetedBroadcast) else ()
    writing = shuffle_writers.writing_of(kept.node)
    return {
        "topology": _TOPOLOGY[type(operator.how)],
        "scheme": _scheme(scheme),
        "merge": None if merge is None else _MERGE[type(merge)],
        "columns": [column.name for column in columns],
        "partitions": partitions_of(kept.node.delivered.partitioning),
        "bytes": round(kept.node.size.bytes),
        "why": text.forced_by(kept),
        "rows": round(kept.node.size.rows),
        "seconds": kept.node.own.seconds,
        "would_go": text.remedy(kept),
        "in_place": operator.readers is not None,
        "boundaries": when_chosen(operator),
        "boundaries_why": why_then(kept.node, text.names),
        "again_seconds": kept.node.own.recompute,
        "writer": None if writing is None else writing.writer(text.machine),
        "writer_why": None if writing is None else shuffle_writers.writer_reason(writing, text.machine),
    }


def _sort(text: ReasonText, kept: KeptEnforcer, operator: physical.LocalSort) -> Json:
    return {
        "columns": [key.column.name for key in operator.keys],
        "order": text.sort_keys(operator.keys),
        "bytes": round(kept.node.size.bytes),
        "rows": round(kept.node.size.rows),
        "seconds": kept.node.own.seconds,
        "why": text.forced_by(kept),
        "would_go": text.remedy(kept),
    }


_TOPOLOGY: dict[type, str] = {
    InitialPartitioning: "initial partitioning",
    Repartitioning: "repartitioning",
    FullMerge: "full merge",
    PartialPartitioning: "partial partitioning",
    PartialMerge: "partial merge",
}
_MERGE: dict[type, str] = {
    RandomMerge: "random",
    SortMerge: "sort",
    ConcatMerge: "concat",
    SortConcatMerge: "sort-concat",
}


def _scheme(scheme: object) -> str | None:
    match scheme:
        case Partitioned(function=RangeFunction()):
            return "range"
        case Partitioned():
            return "hash"
        case Replicated():
            return "broadcast"
        case TargetedBroadcast():
            return "targeted broadcast"
        case UnknownPartitioning():
            return "unknown"
        case _:
            return None
