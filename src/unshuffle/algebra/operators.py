"""The physical operators: what runs. Each is immutable, holds what it computes with, and knows its requirements and what
it does to the layout of rows. Its inputs are not part of it; see `physical.Physical`.

| operator                              | runs                                                                        |
|---------------------------------------|-----------------------------------------------------------------------------|
| FileScan, TableRead, Rows             | the leaves                                                                  |
| Compute, Select, Enlarge              | Project, Filter, Expand: a row at a time                                    |
| HashAggregate, StreamAggregate        | GroupBy and its two halves, PartialGroupBy and FinalGroupBy                 |
| HashAggregate (combining)             | between the halves: findings of some partitions put together as findings    |
| HashJoin, MergeJoin, LoopJoin         | Join                                                                        |
| Concatenate, ConcatenatePartitions    | UNION ALL: of anything; of inputs laid out alike, keeping the layout        |
| InOrder, FirstRows, PartialFirstRows  | Sort (a requirement, no work of its own), Limit, and the local half of one  |
| Windows                               | Window                                                                      |
| RunProcess, RunReduce, RunCombine     | user-defined operators                                                      |
| MultisetOperation                     | INTERSECT ALL, EXCEPT ALL                                                   |
| AsWritten                             | what is left to Spark as it stands                                          |
| Rename, ReadSpool                     | one use of a shared rowset: computed again, or read from where it was kept  |
| LocalSort, Move                       | the enforcers: a sort inside each partition, an exchange                    |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Literal

from unshuffle.algebra import logical
from unshuffle.algebra.expressions import AggregateCall, Expression, Ref, SortKey, WindowCall, text_prefix
from unshuffle.algebra.facts import joined
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    Alternative,
    Anyhow,
    Clustered,
    CoPartitioned,
    Covering,
    Delivered,
    Dependencies,
    Exchange,
    Grouped,
    JoinKey,
    Local,
    OnePartition,
    Partitioned,
    PartitionFunction,
    Partitioning,
    RangeFunction,
    Regrouped,
    Replicated,
    Required,
    Sampled,
    Scattered,
    Serial,
    Sorted,
    Split,
    Unknown,
    Within,
    exchange,
    interchangeable,
    partitions_of,
    requirements,
)
from unshuffle.properties.layouts import read_in_place
from unshuffle.properties.structure import columns_of
from unshuffle.properties.through import (
    after_pairwise_join,
    order_after_join,
    through_aggregate,
    through_project,
)

Given = Sequence[Delivered]
Known = Sequence[Dependencies]


class _Operator:
    """What is so of almost every operator."""

    __slots__ = ()

    def prefix(self, column: Column) -> tuple[Column, int] | None:
        return None


class _Leaf(_Operator):
    """No inputs, so nothing is required and nothing carried."""

    __slots__ = ()

    @property
    def carried(self) -> int | None:
        return None

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return None

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("", ()),)


class _Carries(_Operator):
    """The layout of the first input comes out, and its order; columns keep their identity."""

    __slots__ = ()

    @property
    def carried(self) -> int | None:
        return 0

    @property
    def keeps_order(self) -> bool:
        return True

    def source(self, column: Column) -> Column | None:
        return column

    def alternatives(self) -> tuple[Alternative, ...]:
        return requirements.row_by_row()

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return given[0]


# --- leaves


@dataclass(frozen=True, slots=True)
class FileScan(_Leaf):
    """Reads files, a task for each of `partitions` pieces, or stored partitions: as they lie, or each task those that can
    have rows of its own, of which it keeps those that it is to have (SIGMOD 2012, sections 3.1 and 3.2). `readers` is how
    many tasks read a stored partition then, on the average."""

    scan: logical.Scan
    layout: Delivered
    readers: float | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.scan.columns

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return self.layout

    def read_as(self, layout: Partitioned) -> FileScan | None:
        """The same rows laid out otherwise, where the stored layout tells which tasks can need which partition."""
        stored = self.scan.stored
        if stored is None or self.readers is not None or not set(layout.columns) <= set(self.columns):
            return None
        found = read_in_place(stored, layout)
        if found is None:
            return None
        read = set(self.columns)
        local = takewhile(lambda key: columns_of((key,)) <= read, found.local)
        return replace(self, layout=Delivered(layout, tuple(local)), readers=found.readers)


@dataclass(frozen=True, slots=True)
class TableRead(_Leaf):
    table: logical.TableScan

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.table.columns

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return Delivered(Scattered())


@dataclass(frozen=True, slots=True)
class Rows(_Leaf):
    values: logical.Values

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.values.columns

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return Delivered(Serial())


# --- a row at a time


@dataclass(frozen=True, slots=True)
class Select(_Carries):
    predicate: Expression
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Compute(_Carries):
    outputs: tuple[tuple[Column, Expression], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for column, _ in self.outputs)

    def source(self, column: Column) -> Column | None:
        for made, expression in self.outputs:
            if made == column:
                return expression.column if isinstance(expression, Ref) else None
        return None

    def prefix(self, column: Column) -> tuple[Column, int] | None:
        for made, expression in self.outputs:
            if made == column:
                return text_prefix(expression)
        return None

    def deliver(self, given: Given, facts: Known) -> Delivered:
        copies = {made: e.column for made, e in self.outputs if isinstance(e, Ref)}
        kept = [made for made, source in copies.items() if made == source]
        renamed = {made: source for made, source in copies.items() if made != source}
        prefixes = {made: found for made, e in self.outputs if (found := text_prefix(e)) is not None}
        return through_project(given[0], facts[0], kept, renamed, prefixes)


@dataclass(frozen=True, slots=True)
class Rename(_Carries):
    """A shared rowset under the columns of one of its uses, computed for this use alone."""

    name: str
    columns: tuple[Column, ...]
    originals: tuple[Column, ...]

    def source(self, column: Column) -> Column | None:
        return dict(zip(self.columns, self.originals, strict=True)).get(column)

    def deliver(self, given: Given, facts: Known) -> Delivered:
        """Boundaries that are sampled are sampled anew, so two uses of one plan are not laid out alike."""
        made = through_project(given[0], facts[0], (), dict(zip(self.columns, self.originals, strict=True)))
        layout = made.partitioning
        if isinstance(layout, Partitioned) and _is_sampled(layout.function):
            forgotten = Unknown(layout.function.arity, layout.function.partitions)
            return Delivered(Partitioned(forgotten, layout.columns, layout.nulls_apart), made.local)
        return made


@dataclass(frozen=True, slots=True)
class Enlarge(_Carries):
    """Expand: some copies of each row, one after another, so what is sorted stays sorted on the columns that pass."""

    expand: logical.Expand

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.expand.columns

    def source(self, column: Column) -> Column | None:
        return column if column in self.expand.child.columns else None

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return through_project(given[0], facts[0], self.expand.child.columns)


# --- aggregates


class Phase:
    """Which half of an aggregate: all of it, the part before an exchange, or the part after. Between the two, findings may
    be combined: a vertex of an aggregation tree (SIGMOD 2012, section 2.4.1) takes findings in and yields findings."""

    COMPLETE: Literal["complete"] = "complete"
    PARTIAL: Literal["partial"] = "partial"
    COMBINING: Literal["combining"] = "combining"
    FINAL: Literal["final"] = "final"


PhaseName = Literal["complete", "partial", "combining", "final"]


@dataclass(frozen=True, slots=True)
class HashAggregate(_Carries):
    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]
    phase: PhaseName = "complete"
    states: tuple[Column, ...] = ()  # of a final aggregate: the columns with what the partial ones found

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return column if column in self.keys else None

    def alternatives(self) -> tuple[Alternative, ...]:
        if self.phase in ("partial", "combining"):
            return requirements.row_by_row()
        return requirements.hash_aggregate(self.keys)

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return through_aggregate(given[0], facts[0], self.keys, streaming=False)


@dataclass(frozen=True, slots=True)
class StreamAggregate(_Carries):
    """Groups come one after another: nothing is kept but the group at hand."""

    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]
    phase: PhaseName = "complete"
    states: tuple[Column, ...] = ()
    listed: frozenset[Column] = frozenset()  # percentiles that are looked up in a sorted list of a group's values

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))

    def source(self, column: Column) -> Column | None:
        return column if column in self.keys else None

    def alternatives(self) -> tuple[Alternative, ...]:
        if self.phase != "partial":
            return requirements.stream_aggregate(self.keys)
        local: Local = (Grouped(frozenset(self.keys)),) if self.keys else ()
        return tuple(
            Alternative(each.name, (Required(each.children[0].partitioning, local),))
            for each in requirements.row_by_row()
        )

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return through_aggregate(given[0], facts[0], self.keys, streaming=True)


# --- joins


@dataclass(frozen=True, slots=True)
class _JoinBase(_Operator):
    """What joins share: the logical join they run (over groups of the memo), its equalities and the rest."""

    join: logical.Join
    keys: tuple[JoinKey, ...]
    rest: Expression | None
    # The facts of the join before it drops columns: made when first asked for, and shared by all operators of a join.
    wide: list[Dependencies] = field(default_factory=list, repr=False, compare=False, hash=False)

    @property
    def kind(self) -> JoinKind:
        return self.join.kind

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.join.columns

    def source(self, column: Column) -> Column | None:
        return column

    def _kept(self, made: Delivered, facts: Known) -> Delivered:
        if self.join.kept is None:
            return made
        keep = frozenset(self.join.kept)
        layout = made.partitioning
        named = [action.columns if isinstance(action, Grouped) else (action.column,) for action in made.local]
        if all(c in keep for each in named for c in each) and (
            not isinstance(layout, Partitioned) or all(c in keep for c in layout.columns)
        ):
            return made
        if not self.wide:
            self.wide.append(joined(self.join, facts))
        return through_project(made, self.wide[0], self.join.kept)


@dataclass(frozen=True, slots=True)
class HashJoin(_JoinBase):
    """A table of the `build` input, probed by the other, which streams.

    `null_aware` is NOT IN: a NULL on either side is equal to anything, for all one knows. Every partition must then see
    all rows of the other input, so the inputs cannot be taken apart by key."""

    build: Literal[0, 1] = 1
    null_aware: bool = False

    @property
    def carried(self) -> int | None:
        return 1 - self.build

    @property
    def keeps_order(self) -> bool:
        return not (self.kind.extends_left if self.carried == 0 else self.kind.extends_right)

    def alternatives(self) -> tuple[Alternative, ...]:
        copied = ("broadcast left", "broadcast right")[self.build]
        every = requirements.hash_join(self.kind, self.keys)
        names = ("serial", copied) if self.null_aware else ("serial", "pair-wise", copied, f"pruned {copied}")
        return tuple(each for each in every if each.name in names)

    def deliver(self, given: Given, facts: Known) -> Delivered:
        streamed = 1 - self.build
        local = order_after_join(self.kind, given[streamed].local, streamed_left=streamed == 0)
        return self._kept(Delivered(_layout_after(self.kind, given), local), facts)


@dataclass(frozen=True, slots=True)
class MergeJoin(_JoinBase):
    """Both inputs sorted alike on the keys, in the order `by`."""

    by: tuple[requirements.MergeKey, ...] = ()

    @property
    def carried(self) -> int | None:
        return 1 if self.kind is JoinKind.RIGHT else 0

    @property
    def keeps_order(self) -> bool:
        return self.kind is not JoinKind.FULL

    def alternatives(self) -> tuple[Alternative, ...]:
        # Over a broadcast input a hash join does the same for less: its table need not be sorted.
        every = requirements.merge_join(self.kind, self.by)
        return tuple(each for each in every if not each.name.startswith("broadcast"))

    def deliver(self, given: Given, facts: Known) -> Delivered:
        streamed = 1 if self.kind is JoinKind.RIGHT else 0
        local = order_after_join(self.kind, given[streamed].local, streamed_left=streamed == 0)
        return self._kept(Delivered(_layout_after(self.kind, given), local), facts)


@dataclass(frozen=True, slots=True)
class LoopJoin(_JoinBase):
    """Every pair of rows is looked at: for joins without an equality. The inner input is read again and again."""

    inner: Literal[0, 1] = 1

    @property
    def carried(self) -> int | None:
        return 1 - self.inner

    @property
    def keeps_order(self) -> bool:
        return not (self.kind.extends_left if self.carried == 0 else self.kind.extends_right)

    def alternatives(self) -> tuple[Alternative, ...]:
        copied = ("broadcast left", "broadcast right")[self.inner]
        return tuple(each for each in requirements.nested_loop_join(self.kind) if each.name in ("serial", copied))

    def deliver(self, given: Given, facts: Known) -> Delivered:
        streamed = 1 - self.inner
        local = order_after_join(self.kind, given[streamed].local, streamed_left=streamed == 0)
        return self._kept(Delivered(_layout_after(self.kind, given), local), facts)


def _layout_after(kind: JoinKind, given: Given) -> Partitioning:
    """Of an input that is copied, to all partitions of the other or to some, nothing is left but what it is joined to."""
    left, right = (each.partitioning for each in given)
    if isinstance(left, Replicated | Covering):
        return right
    if isinstance(right, Replicated | Covering):
        return left
    return after_pairwise_join(kind, left, right)[0]


def merge_possible(keys: Sequence[JoinKey]) -> bool:
    """Can both inputs be sorted as the join compares, and do the types have an order?"""
    return all(interchangeable(column.type, key.type) for key in keys for column in key.columns)


# --- several inputs


@dataclass(frozen=True, slots=True)
class Concatenate(_Operator):
    """UNION ALL: the partitions of all inputs, side by side."""

    columns: tuple[Column, ...]
    inputs: tuple[tuple[Column, ...], ...]

    @property
    def carried(self) -> int | None:
        return None

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return None

    def alternatives(self) -> tuple[Alternative, ...]:
        count = len(self.inputs)
        return (
            Alternative("serial", (Required(OnePartition()),) * count),
            Alternative("partitioned", (Required(Anyhow()),) * count),
        )

    def deliver(self, given: Given, facts: Known) -> Delivered:
        """One task may read several streams one after another, so serial inputs may still come out as one."""
        if all(isinstance(each.partitioning, Serial) for each in given):
            return Delivered(Serial())
        counts = [partitions_of(each.partitioning) for each in given]
        known = [count for count in counts if count is not None]
        return Delivered(Scattered(sum(known) if len(known) == len(counts) else None))


@dataclass(frozen=True, slots=True)
class ConcatenatePartitions(_Operator):
    """UNION ALL of partition i with partition i, of inputs laid out by one function: the layout stays."""

    columns: tuple[Column, ...]
    inputs: tuple[tuple[Column, ...], ...]
    keys: tuple[JoinKey, ...]

    @property
    def carried(self) -> int | None:
        return 0

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return dict(zip(self.columns, self.inputs[0], strict=True)).get(column)

    def alternatives(self) -> tuple[Alternative, ...]:
        return requirements.union_partitionwise(self.keys)

    def deliver(self, given: Given, facts: Known) -> Delivered:
        renamed = dict(zip(self.columns, self.inputs[0], strict=True))
        return Delivered(through_project(given[0], facts[0], (), renamed).partitioning)


@dataclass(frozen=True, slots=True)
class MultisetOperation(_Operator):
    """INTERSECT ALL and EXCEPT ALL: rows are counted on both sides, so equal rows of both must meet."""

    operation: logical.SetOperation
    keys: tuple[JoinKey, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.operation.columns

    @property
    def carried(self) -> int | None:
        return 0

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return dict(zip(self.columns, self.operation.inputs[0].columns, strict=True)).get(column)

    def alternatives(self) -> tuple[Alternative, ...]:
        one, other = (Clustered(frozenset(key.columns[side] for key in self.keys)) for side in (0, 1))
        return (
            Alternative("serial", (Required(OnePartition()), Required(OnePartition()))),
            Alternative("pair-wise", (Required(one), Required(other)), CoPartitioned(self.keys)),
        )

    def deliver(self, given: Given, facts: Known) -> Delivered:
        renamed = dict(zip(self.columns, self.operation.inputs[0].columns, strict=True))
        return Delivered(through_project(given[0], facts[0], (), renamed).partitioning)


# --- order and number of rows


@dataclass(frozen=True, slots=True)
class InOrder(_Carries):
    """ORDER BY: all rows in order, inside partitions and from one to the next. It asks, and does nothing itself."""

    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    def alternatives(self) -> tuple[Alternative, ...]:
        return requirements.sort(self.keys)


@dataclass(frozen=True, slots=True)
class FirstRows(_Carries):
    """LIMIT, of one stream; in the order of `keys` where there are some."""

    count: int | None
    offset: int
    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("serial", (Required(OnePartition(), self.keys),)),)


@dataclass(frozen=True, slots=True)
class PartialFirstRows(_Carries):
    """The first rows of each partition: among them are the first of all."""

    count: int
    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    def alternatives(self) -> tuple[Alternative, ...]:
        return tuple(
            Alternative(each.name, (Required(each.children[0].partitioning, ()),)) for each in requirements.row_by_row()
        )

    def deliver(self, given: Given, facts: Known) -> Delivered:
        """Kept in a heap, so they come out sorted whatever the order they came in."""
        return Delivered(given[0].partitioning, self.keys or given[0].local)

    @property
    def keeps_order(self) -> bool:
        return not self.keys


@dataclass(frozen=True, slots=True)
class Windows(_Carries):
    """Window functions of one specification: each group of `by` whole, in the order `order`."""

    calls: tuple[tuple[Column, WindowCall], ...]
    by: tuple[Column, ...]
    order: tuple[Sorted, ...]
    input_columns: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.input_columns, *(column for column, _ in self.calls))

    def source(self, column: Column) -> Column | None:
        return column if column in self.input_columns else None

    def alternatives(self) -> tuple[Alternative, ...]:
        groups: Local = (Grouped(frozenset(self.by)),) if self.by else ()
        local: Local = (*groups, *self.order)
        serial = Alternative("serial", (Required(OnePartition(), local),))
        if not self.by:
            return (serial,)
        return (serial, Alternative("partitioned", (Required(Clustered(frozenset(self.by), parallel=True), local),)))


# --- user-defined operators


class _UserDefined(_Operator):
    """Only columns that are declared READONLY are known to come out as they went in."""

    __slots__ = ()

    @property
    def carried(self) -> int | None:
        return 0

    @property
    def keeps_order(self) -> bool:
        return False


def _told(layout: Partitioning) -> Partitioning:
    """What the columns that come out tell of where rows are. Nothing else does: user code takes rows and gives others."""
    return Scattered(layout.function.partitions) if isinstance(layout, Within) else layout


@dataclass(frozen=True, slots=True)
class RunProcess(_UserDefined):
    process: logical.Process

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.process.columns

    def source(self, column: Column) -> Column | None:
        return dict(self.process.readonly).get(column)

    def alternatives(self) -> tuple[Alternative, ...]:
        return requirements.row_by_row()

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return Delivered(_told(through_project(given[0], facts[0], (), dict(self.process.readonly)).partitioning))


@dataclass(frozen=True, slots=True)
class RunReduce(_UserDefined):
    reduce: logical.Reduce
    presort: tuple[Sorted, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.reduce.columns

    def source(self, column: Column) -> Column | None:
        found = dict(self.reduce.readonly).get(column)
        return found if found in self.reduce.keys else None

    def alternatives(self) -> tuple[Alternative, ...]:
        by = frozenset(self.reduce.keys)
        local: Local = (*((Grouped(by),) if by else ()), *self.presort)
        serial = Alternative("serial", (Required(OnePartition(), local),))
        if not by:
            return (serial,)
        return (serial, Alternative("partitioned", (Required(Clustered(by, parallel=True), local),)))

    def deliver(self, given: Given, facts: Known) -> Delivered:
        by = frozenset(self.reduce.keys)
        renamed = {out: source for out, source in self.reduce.readonly if source in by}
        return Delivered(_told(through_project(given[0], facts[0], (), renamed).partitioning))


@dataclass(frozen=True, slots=True)
class RunCombine(_UserDefined):
    """NULL keys meet NULL keys, so the keys are compared null-safe. A key that one input alone has is passed on as well,
    so a read-only key column is where its layout says only if its own input brought it: nothing is delivered."""

    combine: logical.Combine
    keys: tuple[JoinKey, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.combine.columns

    @property
    def carried(self) -> int | None:
        return None

    def source(self, column: Column) -> Column | None:
        return None

    def alternatives(self) -> tuple[Alternative, ...]:
        sides = [frozenset(key.columns[side] for key in self.keys) for side in (0, 1)]
        local: list[Local] = [(Grouped(side),) for side in sides]
        return (
            Alternative("serial", tuple(Required(OnePartition(), each) for each in local)),
            Alternative(
                "pair-wise",
                tuple(Required(Clustered(side), each) for side, each in zip(sides, local, strict=True)),
                CoPartitioned(self.keys),
            ),
        )

    def deliver(self, given: Given, facts: Known) -> Delivered:
        if all(isinstance(each.partitioning, Serial) for each in given):
            return Delivered(Serial())
        return Delivered(Scattered(partitions_of(given[0].partitioning)))


def _is_sampled(function: PartitionFunction) -> bool:
    match function:
        case RangeFunction():
            return isinstance(function.boundaries, Sampled)
        case Regrouped():
            return _is_sampled(function.base)
        case Split():
            return _is_sampled(function.base) or _is_sampled(function.by)
        case _:
            return False


# --- what Spark runs as it stands


@dataclass(frozen=True, slots=True)
class AsWritten(_Operator):
    """An operator that only Spark understands, over inputs laid out anyhow. It promises nothing."""

    plan: logical.Plan
    reason: str

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.plan.columns

    @property
    def carried(self) -> int | None:
        return None

    @property
    def keeps_order(self) -> bool:
        return False

    def source(self, column: Column) -> Column | None:
        return None

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("as written", (Required(Anyhow()),) * len(self.plan.children)),)

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return Delivered(Scattered())


# --- sharing


@dataclass(frozen=True, slots=True)
class ReadSpool(_Leaf):
    """One use of a shared rowset that is computed once and kept."""

    name: str
    spool: int  # the memo's number for the rowset
    columns: tuple[Column, ...]
    layout: Delivered

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return self.layout


# --- enforcers


@dataclass(frozen=True, slots=True)
class LocalSort(_Carries):
    """Sorts inside each partition. Not stable, so no earlier order is promised within equal keys."""

    keys: tuple[Sorted, ...]
    columns: tuple[Column, ...]

    @property
    def keeps_order(self) -> bool:
        return False

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("", (Required(Anyhow()),)),)

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return Delivered(given[0].partitioning, self.keys)


@dataclass(frozen=True, slots=True)
class Move(_Carries):
    """An exchange: rows go to other partitions, and nothing else happens to them.

    `readers` is set where the old layout tells which outputs can need a partition (SIGMOD 2012, section 3): so many read
    each on the average, where it lies, and nothing is written or sent."""

    how: Exchange
    columns: tuple[Column, ...]
    readers: float | None = None

    @property
    def carried(self) -> int | None:
        return None

    @property
    def keeps_order(self) -> bool:
        return False

    @property
    def samples(self) -> bool:
        """Are the rows looked at first, to divide them into ranges? They are computed twice then."""
        scheme = getattr(self.how, "scheme", None)
        return isinstance(scheme, Partitioned) and _is_sampled(scheme.function)

    def alternatives(self) -> tuple[Alternative, ...]:
        return (Alternative("", (Required(Anyhow()),)),)

    def deliver(self, given: Given, facts: Known) -> Delivered:
        return exchange(self.how, given[0], facts[0])


def sorted_keys(order: Sequence[SortKey]) -> tuple[Sorted, ...] | None:
    """An order by columns; None where a key is an expression."""
    keys = [Sorted(k.expression.column, k.descending, k.nulls_first) for k in order if isinstance(k.expression, Ref)]
    return tuple(keys) if len(keys) == len(order) else None
