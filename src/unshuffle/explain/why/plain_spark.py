"""The exchanges that plain Spark would make for the operators of a plan.

Spark recognizes a partitioning only by literally the same columns: a hash of some of an aggregate's keys serves the
aggregate, a hash of all keys of a join the join. It knows the buckets of a table. It broadcasts the smaller input of a join
if it takes that to be at most `spark.sql.autoBroadcastJoinThreshold` bytes: the size of its files, whatever filters leave
of them, and the product of the inputs above a join. Ranges, dependencies and single partitions that only we know of mean
nothing to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, prod

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import default_width
from unshuffle.frozen import dataclass
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import physical
from unshuffle.plan.bucketed_scans import read_by_buckets
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import HashFunction, JoinKey, Partitioned

_NONE: frozenset[int] = frozenset()
_BUILD_RIGHT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
_BUILD_LEFT = (JoinKind.INNER, JoinKind.RIGHT)
_SIDES_THAT_KEEP_THEIR_KEYS: Mapping[JoinKind, tuple[int, ...]] = {
    JoinKind.FULL: (),
    JoinKind.RIGHT: (1,),
    JoinKind.LEFT: (0,),
    JoinKind.SEMI: (0,),
    JoinKind.ANTI: (0,),
}


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Rows in plain Spark: the columns that they are hashed on, each hash under every name that it has; the number of
    buckets, and 0 for an exchange, which has as many partitions as are needed; and the size that Spark expects."""

    hashes: tuple[tuple[Column, ...], ...] = ()
    buckets: int = 0
    is_single: bool = False
    bytes: float = inf


@dataclass(frozen=True, slots=True)
class _Step:
    """An operator in plain Spark: its rows, and the inputs that Spark exchanges for it."""

    rows: SparkRows
    exchanged: frozenset[int] = _NONE


class PlainSpark:
    """What plain Spark would do for the operators of a plan, without the exchanges of the plan."""

    def __init__(self, optimized: PlannedQuery) -> None:
        self._optimized = optimized
        self._spools = {spool.number: spool.plan for spool in optimized.spools}
        self._broadcast_bytes = optimized.target.settings.auto_broadcast_bytes
        self._steps: dict[int, _Step] = {}

    def exchanges(self) -> int:
        """How many exchanges and broadcasts Spark plans. It plans a rowset that is used twice twice."""
        plans = (plan for each in (self._optimized.outputs, self._optimized.subqueries) for _, plan in each)
        return sum(map(self._exchanges, plans))

    def _exchanges(self, node: PhysicalPlan) -> int:
        if isinstance(node.operator, physical.Limit) and isinstance(node.inputs[0].operator, physical.OrderBy):
            return self._exchanges(node.inputs[0].inputs[0])  # one operator in Spark, which exchanges nothing else
        below = [*node.inputs]
        if isinstance(node.operator, physical.ReadSpool):
            below.append(self._spools[node.operator.spool])
        return len(self.exchanged(node)) + sum(map(self._exchanges, below))

    def exchanged(self, node: PhysicalPlan) -> frozenset[int]:
        """The inputs of an operator that Spark exchanges or broadcasts for it."""
        return self._step(node).exchanged

    def _step(self, node: PhysicalPlan) -> _Step:
        found = self._steps.get(id(node))
        if found is None:
            found = self._steps[id(node)] = self._planned(node)
        return found

    def _planned(self, node: PhysicalPlan) -> _Step:
        operator = node.operator
        if isinstance(operator, physical.ReadSpool):
            spooled = self._spools[operator.spool]
            names = dict(zip(spooled.columns, operator.columns, strict=True))
            return _Step(_renamed(self._step(spooled).rows, names))
        inputs = [self._step(each).rows for each in node.inputs]
        match operator:
            case physical.FileScan(scan=scan):
                return _Step(_of_files(scan))
            case physical.HashJoin(keys=keys) | physical.MergeJoin(keys=keys):
                return self._join(operator, keys, inputs, node)
            case physical.NestedLoopJoin(join=join):
                copied = self._broadcast(join.kind, inputs)
                size = prod(each.bytes for each in inputs)
                return _Step(SparkRows(bytes=size), _NONE if copied is None else frozenset((copied,)))
            case physical.HashAggregate(keys=keys, phase=phase) | physical.SortAggregate(keys=keys, phase=phase):
                return _passed(node, inputs) if phase in ("partial", "combining") else _grouped(node, keys, inputs[0])
            case physical.Windows(by=by):
                return _grouped(node, by, inputs[0])
            case physical.RunReduce() | physical.RunCombine() | physical.MultisetOperation():
                return _Step(SparkRows(bytes=_size(node, inputs)), frozenset(range(len(inputs))))
            case physical.OrderBy():
                is_single = inputs[0].is_single
                return _Step(SparkRows(is_single=is_single, bytes=inputs[0].bytes), _NONE if is_single else _first())
            case physical.Limit():
                return _Step(SparkRows(is_single=True, bytes=_size(node, inputs)))
            case _:
                return _passed(node, inputs)

    def _join(
        self,
        join: physical.HashJoin | physical.MergeJoin,
        keys: Sequence[JoinKey],
        inputs: Sequence[SparkRows],
        node: PhysicalPlan,
    ) -> _Step:
        size = inputs[0].bytes if join.kind in (JoinKind.SEMI, JoinKind.ANTI) else prod(each.bytes for each in inputs)
        copied = self._broadcast(join.kind, inputs)
        if copied is not None:
            streamed = replace(inputs[1 - copied], bytes=size)
            return _Step(_kept(streamed, node.columns), frozenset((copied,)))
        if all(each.is_single for each in inputs):
            return _Step(SparkRows(is_single=True, bytes=size))
        if any(key.null_safe for key in keys):  # Spark joins by other keys, which tell it nothing about these
            return _Step(SparkRows(bytes=size), frozenset((0, 1)))
        exchanged = _exchanged(keys, inputs)
        kept = [each for side, each in enumerate(inputs) if side not in exchanged]
        sides = _SIDES_THAT_KEEP_THEIR_KEYS.get(join.kind, (0, 1))
        if len(kept) == len(inputs):
            hashes = tuple(hash for side in sides for hash in inputs[side].hashes)
        else:
            hashes = tuple(tuple(key.columns[side] for key in keys) for side in sides)
        buckets = max((each.buckets for each in kept), default=0)
        return _Step(_kept(SparkRows(hashes, buckets, bytes=size), node.columns), exchanged)

    def _broadcast(self, kind: JoinKind, inputs: Sequence[SparkRows]) -> int | None:
        """The input that Spark broadcasts."""
        allowed = [side for side, kinds in ((1, _BUILD_RIGHT), (0, _BUILD_LEFT)) if kind in kinds]
        small = [side for side in allowed if inputs[side].bytes <= self._broadcast_bytes]
        return min(small, key=lambda side: inputs[side].bytes, default=None)


def _exchanged(keys: Sequence[JoinKey], inputs: Sequence[SparkRows]) -> frozenset[int]:
    """The inputs of a shuffled join that are not hashed as it needs. The other input is exchanged like one that is hashed by
    all keys of the join: that with the most buckets."""
    places = [
        {place for hash in each.hashes if (place := _places([key.columns[side] for key in keys], hash)) is not None}
        for side, each in enumerate(inputs)
    ]
    if places[0] & places[1] and inputs[0].buckets == inputs[1].buckets:
        return _NONE
    known = [side for side, found in enumerate(places) if any(len(place) == len(keys) for place in found)]
    return frozenset((0, 1)) - {max(known, key=lambda side: inputs[side].buckets)} if known else frozenset((0, 1))


def _places(keys: Sequence[Column], columns: Sequence[Column]) -> tuple[int, ...] | None:
    """Where the columns are among the keys; None if one is not."""
    return tuple(keys.index(column) for column in columns) if set(columns) <= set(keys) else None


def _grouped(node: PhysicalPlan, keys: Sequence[Column], rows: SparkRows) -> _Step:
    size = _size(node, [rows])
    if rows.is_single or not keys:
        return _Step(SparkRows(is_single=True, bytes=size), _NONE if rows.is_single else _first())
    served = tuple(hash for hash in rows.hashes if set(hash) <= set(keys))
    if served:
        return _Step(_kept(SparkRows(served, rows.buckets, bytes=size), node.columns))
    return _Step(SparkRows((tuple(keys),), bytes=size), _first())


def _first() -> frozenset[int]:
    return frozenset((0,))


def _passed(node: PhysicalPlan, inputs: Sequence[SparkRows]) -> _Step:
    """An operator that runs where its rows are."""
    if len(inputs) != 1:
        return _Step(SparkRows(bytes=_size(node, inputs) if inputs else inf))
    (rows,) = inputs
    made: dict[Column, Column] = {}
    for column in node.columns:
        source = node.operator.source(column)
        if source is not None:
            made.setdefault(source, column)
    return _Step(replace(_renamed(rows, made), bytes=_size(node, inputs)))


def _size(node: PhysicalPlan, inputs: Sequence[SparkRows]) -> float:
    """Spark takes a row of an operator's result for as much smaller than its input's as its columns are."""
    if len(inputs) != 1:
        return sum(each.bytes for each in inputs)
    return inputs[0].bytes * _row(node.columns) / _row(node.inputs[0].columns)


def _row(columns: Sequence[Column]) -> float:
    return _width(column.type for column in columns if column.type is not None)


def _width(types: Iterable[pa.DataType]) -> float:
    """The bytes that Spark takes a row for: those of its values, and 8 more. A string is 20."""
    return 8.0 + sum(20.0 if pa.types.is_string(type) else default_width(type) for type in types)


def _renamed(rows: SparkRows, names: Mapping[Column, Column]) -> SparkRows:
    hashes = tuple(tuple(names[c] for c in hash) for hash in rows.hashes if all(c in names for c in hash))
    return replace(rows, hashes=hashes)


def _kept(rows: SparkRows, columns: Sequence[Column]) -> SparkRows:
    return _renamed(rows, {column: column for column in columns})


def _of_files(scan: Scan) -> SparkRows:
    size = float(scan.files.bytes) if scan.files.bytes is not None else inf
    if scan.files.stored:
        size *= min(1.0, _row(scan.columns) / _width(type for _, type in scan.files.stored))
    table = read_by_buckets(scan) or scan
    layout = table.stored.partitioning if table.stored is not None and table.stream is None else None
    if not isinstance(layout, Partitioned) or not isinstance(layout.function, HashFunction):
        return SparkRows(bytes=size)
    if not set(layout.columns) <= set(scan.columns):
        return SparkRows(bytes=size)
    return SparkRows((layout.columns,), layout.function.partitions, bytes=size)
