"""Random partitioned inputs with their facts, and the exchanges that can be applied to them."""

from __future__ import annotations

from itertools import takewhile

from tests.support.property_rows import (
    COLUMNS,
    Choices,
    arrange,
    draw_boundaries,
    draw_facts,
    draw_local,
    draw_rows,
    draw_sorted,
    hash_leaf,
    place,
)
from tests.support.property_semantics import partition_number
from unshuffle.properties import (
    ConcatMerge,
    Delivered,
    Dependencies,
    Grouped,
    Merge,
    Ordered,
    Partitioned,
    RandomMerge,
    Replicated,
    Serial,
    SortConcatMerge,
    Sorted,
    SortMerge,
    UnknownPartitioning,
    formula,
    hashed,
    ranged,
)
from unshuffle.properties.layouts.related_layouts import merged_layout

KINDS = ("hash", "range", "random", "serial")
MERGES = ("random", "sort", "concat", "sort-concat")


def draw_scheme(ch: Choices, kind: str, columns=COLUMNS):
    on = ch.shuffle(columns)[: 1 + ch.below(2)]
    match kind:
        case "hash":
            return hashed(on, 2 + ch.below(3))
        case "range":
            keys = [draw_sorted(ch, column) for column in on]
            return ranged(keys, draw_boundaries(ch, keys))
        case "random":
            return UnknownPartitioning(3)
        case "broadcast":
            return Replicated()
        case _:
            return Serial()


def draw_input(ch: Choices, kind: str, kept: bool | None = None):
    """Facts, a delivered layout, and partitions with that layout. The order often begins with the layout's columns, and
    always does if part of the order must be preserved."""
    facts = draw_facts(ch, most=2)
    layout = draw_scheme(ch, kind)
    local = draw_local(ch)
    claim = formula(layout, Dependencies())
    if isinstance(layout, Partitioned) and (ch.flag(3) if kept is None else kept):
        if isinstance(claim, Grouped):
            sorts = tuple(draw_sorted(ch, c) for c in ch.shuffle(layout.columns))
            head = sorts if kept else ch.pick([(claim,), sorts])
        else:
            head = claim.keys if ch.flag() else claim.reversed().keys
        local = (*head, *local)
    elif kept:
        local = (draw_sorted(ch, ch.pick(COLUMNS)), *local)
    rows = draw_rows(ch, facts)
    if isinstance(layout, Partitioned):
        parts = place(rows, layout)
    else:
        parts = [[] for _ in range(3 if isinstance(layout, UnknownPartitioning) else 1)]
        for row in rows:
            parts[ch.below(len(parts))].append(row)
    return facts, Delivered(layout, local), [arrange(ch, part, local) for part in parts]


def draw_merge(ch: Choices, kind: str, given: Delivered, kept: bool = False, columns=COLUMNS) -> Merge:
    local = [a for a in given.local if isinstance(a, Sorted)]
    if kept:
        run = list(takewhile(lambda action: isinstance(action, Sorted), given.local))
        own = formula(given.partitioning, Dependencies())
        least = len(own.keys) if isinstance(own, Ordered) and kind == "sort-concat" else 1
        keys = tuple(run[: least + ch.below(len(run) - least + 1)])
        return {"random": RandomMerge(), "sort": SortMerge(keys), "concat": ConcatMerge()}.get(
            kind, SortConcatMerge(keys)
        )
    own = formula(given.partitioning, Dependencies())
    options = [tuple(local[: 1 + ch.below(3)]), getattr(own, "keys", ()), (draw_sorted(ch, ch.pick(columns)),)]
    if ch.flag(3) and hasattr(own, "keys"):
        options = [own.keys, own.reversed().keys, (*own.keys, draw_sorted(ch, ch.pick(columns)))]
    keys = ch.pick([o for o in options if o])
    match kind:
        case "random":
            return RandomMerge()
        case "sort":
            return SortMerge(keys)
        case "concat":
            return ConcatMerge()
        case _:
            return SortConcatMerge(keys)


def split(ch: Choices, part, scheme):
    """Splits one input of a partitioning operator, first in, first out."""
    match scheme:
        case Partitioned():
            outputs = [[] for _ in range(scheme.function.partitions)]
            for row in part:
                outputs[partition_number(scheme.function, tuple(row[c] for c in scheme.columns), hash_leaf())].append(
                    row
                )
            return outputs
        case Replicated():
            return [list(part) for _ in range(2)]
        case _:
            outputs = [[] for _ in range(3)]
            for row in part:
                outputs[ch.below(3)].append(row)
            return outputs


def folded(layout: Partitioned, partitions: int) -> Partitioned:
    """Sends partition i as a whole to partition i mod `partitions`."""
    return merged_layout(layout, [i % partitions for i in range(layout.function.partitions)])
