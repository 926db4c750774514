"""Random pipelines: each step runs on rows, and its derived properties must hold on them.

The test of a single operator cannot find a claim that goes wrong only later: a layout with misplaced NULLs that a filter
makes strict again, or an order that survives a join and that a merge then relies on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given

from tests.support.property_inputs import KINDS, MERGES, draw_input, draw_merge, draw_scheme, split
from tests.support.property_joins import RIGHT, eq
from tests.support.property_rows import (
    COLUMNS,
    INT,
    Choices,
    choices,
    draw_facts,
    draw_rows,
    hash_leaf,
    merge_streams,
)
from tests.support.property_semantics import (
    broken_facts,
    broken_global,
    broken_layout,
    broken_local,
    partition_number,
    seen,
)
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Clustered,
    CoPartitioned,
    Delivered,
    Dependencies,
    FullMerge,
    JoinKey,
    JoinKind,
    PartialMerge,
    PartialPartitioning,
    Partitioned,
    Predicate,
    Proof,
    Repartitioning,
    Required,
    Side,
    UnknownFunction,
    exchange,
    formula,
    group_by,
    grouped,
    join,
    match,
    match_joint,
    project,
    select,
)
from unshuffle.properties.layouts.propagate import (
    after_pairwise_join,
    order_after_join,
    through_aggregate,
    through_project,
)

LEAF = hash_leaf()


@dataclass(frozen=True)
class State:
    parts: list
    delivered: Delivered
    facts: Dependencies
    columns: tuple[Column, ...]

    def check(self, step: str) -> None:
        rows = [row for part in self.parts for row in part]
        assert broken_facts(rows, self.facts) is None, step
        layout = self.delivered.partitioning
        assert broken_global(self.parts, formula(layout, self.facts)) is None, (step, self.delivered)
        if isinstance(layout, Partitioned) and knowable(layout.function):
            assert broken_layout(self.parts, layout, LEAF) is None, (step, self.delivered)
        for part in self.parts:
            assert broken_local(part, self.delivered.local) is None, (step, self.delivered)


def knowable(function) -> bool:
    if isinstance(function, UnknownFunction):
        return False
    inner = [getattr(function, name) for name in ("base", "by") if hasattr(function, name)]
    return all(knowable(each) for each in inner)


def move(ch: Choices, now: State) -> State:
    how = draw_merge(ch, ch.pick(MERGES), now.delivered, columns=now.columns)
    to = draw_scheme(ch, ch.pick(["hash", "range", "random"]), now.columns)
    match ch.below(4):
        case 0:
            result = exchange(FullMerge(how), now.delivered, now.facts)
            parts = [merge_streams(ch, now.parts, how)]
        case 1:
            result = exchange(Repartitioning(to, how), now.delivered, now.facts)
            pieces = [split(ch, part, to) for part in now.parts]
            parts = [merge_streams(ch, streams, how) for streams in zip(*pieces, strict=True)]
        case 2 if len(now.parts) <= 4:
            result = exchange(PartialPartitioning(to), now.delivered, now.facts)
            parts = [piece for part in now.parts for piece in split(ch, part, to)]
        case _:
            count = 1 + ch.below(len(now.parts))
            neighbours = ch.flag()
            groups = tuple(min(i, count - 1) if neighbours else i % count for i in range(len(now.parts)))
            result = exchange(PartialMerge(groups, how), now.delivered, now.facts)
            inputs = [[p for p, to in zip(now.parts, groups, strict=True) if to == g] for g in range(count)]
            parts = [merge_streams(ch, streams, how) for streams in inputs]
    return replace(now, parts=parts, delivered=result)


def keep_some(ch: Choices, now: State) -> State:
    a, b = ch.pick(now.columns), ch.pick(now.columns)
    predicate, test = ch.pick(
        [
            (Predicate(not_null=(a,)), lambda r: r[a] is not None),
            (Predicate(constants=((a, 1),)), lambda r: r[a] == 1),
            (Predicate(equal=((a, b),)), lambda r: eq(r[a], r[b])),
        ]
    )
    parts = [[row for row in part if test(row)] for part in now.parts]
    return replace(now, parts=parts, facts=select(now.facts, predicate))


def rename(ch: Choices, now: State) -> State:
    kept = tuple(ch.subset(now.columns, least=1))
    copy = Column(50 + max(c.id for c in now.columns), "copy", INT)
    source = ch.pick(now.columns)
    parts = [[{**{c: row[c] for c in kept}, copy: row[source]} for row in part] for part in now.parts]
    return State(
        parts,
        through_project(now.delivered, now.facts, kept, {copy: source}),
        project(now.facts, kept, {copy: source}),
        (*kept, copy),
    )


def aggregate(ch: Choices, now: State) -> State:
    groups = sorted(ch.subset(now.columns, least=1), key=lambda c: c.id)
    wish = Required(Clustered(frozenset(groups)))
    if not isinstance(match(now.delivered, wish, now.facts), Proof):
        return now
    wish = replace(wish, local=(grouped(*groups),))
    streaming = isinstance(match(now.delivered, wish, now.facts), Proof)
    parts = []
    for part in now.parts:
        found = list({seen(row, groups): {c: row[c] for c in groups} for row in part}.values())
        parts.append(found if streaming else ch.shuffle(found))
    delivered = through_aggregate(now.delivered, now.facts, groups, streaming)
    return State(parts, delivered, group_by(now.facts, groups), tuple(groups))


def pair(ch: Choices, now: State) -> State:
    """A join with an input that is partitioned by the same function."""
    layout = now.delivered.partitioning
    if not isinstance(layout, Partitioned) or len(layout.columns) > len(RIGHT) or set(RIGHT) & set(now.columns):
        return now
    if not knowable(layout.function) or len(set(layout.columns)) < len(layout.columns):
        return now
    pairs = tuple(zip(layout.columns, RIGHT, strict=False))
    other = draw_facts(ch, RIGHT, 2)
    sent = Partitioned(layout.function, RIGHT[: len(pairs)])
    keys = CoPartitioned(tuple(JoinKey(each, INT) for each in pairs))
    inputs = [(now.delivered, now.facts), (Delivered(sent), other)]
    if not isinstance(match_joint(inputs, keys), Proof):
        return now
    right = [[] for _ in now.parts]
    for row in draw_rows(ch, other, RIGHT, 6):
        right[partition_number(sent.function, tuple(row[c] for c in sent.columns), LEAF)].append(row)
    kind = ch.pick(list(JoinKind))
    parts = [stream_join(kind, one, two, pairs, now.columns) for one, two in zip(now.parts, right, strict=True)]
    both = kind not in (JoinKind.SEMI, JoinKind.ANTI)
    on = Predicate(equal=pairs)
    return State(
        parts,
        Delivered(ch.pick(after_pairwise_join(kind, layout, sent)), order_after_join(kind, now.delivered.local, True)),
        join(kind, Side(frozenset(now.columns), now.facts), Side(frozenset(RIGHT), other), on, exact=True),
        now.columns + RIGHT if both else now.columns,
    )


def stream_join(kind: JoinKind, left, right, pairs, columns):
    """A join that streams the left input and appends the unmatched right rows."""
    out, used = [], set()
    for r in left:
        mates = [j for j, s in enumerate(right) if all(eq(r[a], s[x]) for a, x in pairs)]
        used.update(mates)
        match kind:
            case JoinKind.SEMI:
                out += [r] if mates else []
            case JoinKind.ANTI:
                out += [] if mates else [r]
            case _:
                out += [{**r, **right[j]} for j in mates]
                if not mates and kind.extends_right:
                    out.append({**r, **dict.fromkeys(RIGHT)})
    if kind.extends_left:
        out += [{**dict.fromkeys(columns), **s} for j, s in enumerate(right) if j not in used]
    return out


STEPS = (move, keep_some, rename, aggregate, pair, pair)


@given(ch=choices)
def test_random_pipelines_deliver_what_they_claim(ch: Choices) -> None:
    facts, delivered, parts = draw_input(ch, ch.pick(KINDS))
    now = State(parts, delivered, facts, COLUMNS)
    now.check("input")
    done = ""
    for _ in range(2 + ch.below(4)):
        step = ch.pick(STEPS)
        now = step(ch, now)
        done += f" {step.__name__}"
        now.check(done)
