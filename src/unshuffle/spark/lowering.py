"""From a physical plan to DataFrames that Spark runs as planned.

Every operator becomes the DataFrame operation that says the same, so the rows are right whatever Spark makes of it. That
Spark runs it *as planned* rests on what Spark sees:

- An exchange is a `repartition` into a number of partitions, which adaptive execution leaves alone. One between the halves
  of an aggregate is put there by the bridge.
- Joins are hinted: which algorithm, and which input is built or copied.
- Sorts are never asked for. Merge joins, streaming aggregates and windows need them, and Spark adds those that are missing;
  the keys of each are listed in the order that the plan has them sorted in, so that one sort serves all that it should.
- One stream is `coalesce(1)`, of which Spark knows that all rows are in one place.

**Carriers** are the columns by which Spark knows how rows are laid out. Where an operator's keys only *determine* the columns
of a layout, or hold them in another type, Spark does not see that no exchange is needed. The carriers then join the keys:
they are a function of the keys, so no group and no match changes. A join whose inputs are laid out by some of its keys
alone, and keys of floating-point numbers, which Spark hashes in a form of its own, get a carrier made for them: the number
of the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import Cast, Expression, Ref
from unshuffle.algebra.logical import Plan
from unshuffle.algebra.physical import Physical
from unshuffle.algebra.sql import quote, to_sql
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers, DataType
from unshuffle.catalog.types import spark_name
from unshuffle.errors import InternalError
from unshuffle.optimizer import Optimized
from unshuffle.properties import (
    FullMerge,
    HashFunction,
    InitialPartitioning,
    JoinKey,
    Partitioned,
    RangeFunction,
    Repartitioning,
    Replicated,
    Scattered,
    Serial,
    Sorted,
)
from unshuffle.spark import bridge, user_operators
from unshuffle.spark.straight import Straight


@dataclass(frozen=True, slots=True)
class Lowered:
    """A plan as a DataFrame: its columns by `spark_name`, and `extras` that only Spark needs."""

    frame: DataFrame
    carriers: tuple[Column, ...] = ()
    extras: tuple[Column, ...] = ()
    # A column in another type, as it is in `extras`.
    casts: dict[tuple[Column, DataType], Column] = field(default_factory=dict)
    copied: bool = False  # to be sent to every task by the join that reads it


@contextmanager
def lowering(spark: SparkSession, optimized: Optimized) -> Iterator[Lowering]:
    """A translation whose temporary views are gone when it is done. Its DataFrames stay good."""
    lowered = Lowering(spark, optimized)
    try:
        yield lowered
    finally:
        lowered.drop_views()


class Lowering(Straight):
    def __init__(self, spark: SparkSession, optimized: Optimized) -> None:
        super().__init__(spark)
        last = max((c.id for root in optimized.roots for node in root.walk() for c in node.columns), default=0)
        self._new = ColumnNumbers(last + 1).new
        self._spools = {spool.number: spool.plan for spool in optimized.spools}
        self._standing_alone = {plan.columns: physical for plan, physical in optimized.subqueries}
        self._numbered = _numbered(optimized, self._spools)
        self._lowered: dict[int, tuple[Physical, Lowered]] = {}
        self._inputs: dict[int, DataFrame] = {}  # of an operator that is translated straight

    def output(self, plan: Physical, names: Sequence[str]) -> DataFrame:
        """The plan's rows under the names the user gave its columns."""
        lowered = self.lower(plan)
        return self._only(lowered, plan.columns).toDF(*names)

    def lower(self, node: Physical) -> Lowered:
        found = self._lowered.get(id(node))
        if found is None:
            # The node is kept with its frame: an id is only good while what it names is alive.
            found = self._lowered[id(node)] = (node, self._lower(node))
        return found[1]

    def _lower(self, node: Physical) -> Lowered:
        operator: Any = node.operator
        rule = _RULES.get(type(operator))
        if rule is None:
            raise InternalError(f"{type(operator).__name__} cannot be run")
        return rule(self, node, operator)

    # --- leaves

    def _scan(self, node: Physical, operator: ops.FileScan) -> Lowered:
        frame = self.frame(operator.scan)
        return Lowered(frame.coalesce(1) if _is_serial(node) else frame)

    def _table(self, node: Physical, operator: ops.TableRead) -> Lowered:
        return Lowered(self.frame(operator.table))

    def _values(self, node: Physical, operator: ops.Rows) -> Lowered:
        return Lowered(self.frame(operator.values).coalesce(1))

    def _read_spool(self, node: Physical, operator: ops.ReadSpool) -> Lowered:
        plan = self._spools[operator.spool]
        return self._renamed(self.lower(plan), plan.columns, operator.columns)

    def _rename(self, node: Physical, operator: ops.Rename) -> Lowered:
        return self._renamed(self.lower(node.inputs[0]), operator.originals, operator.columns)

    def _renamed(self, given: Lowered, originals: Sequence[Column], columns: Sequence[Column]) -> Lowered:
        """Under other names, also those that only Spark needs: the same rows may stand in a join twice."""
        names = dict(zip(originals, columns, strict=True))
        names |= {extra: self._new(extra.name, extra.type) for extra in given.extras}
        frame = given.frame.select(*(_col(old).alias(new.spark_name) for old, new in names.items()))
        casts = {(names[c], t): names[made] for (c, t), made in given.casts.items() if c in names and made in names}
        carriers = tuple(names[c] for c in given.carriers) if all(c in names for c in given.carriers) else ()
        return replace(
            given, frame=frame, carriers=carriers, extras=tuple(names[c] for c in given.extras), casts=casts
        )

    # --- a row at a time

    def _select(self, node: Physical, operator: ops.Select) -> Lowered:
        given = self.lower(node.inputs[0])
        return replace(given, frame=given.frame.where(self._column(operator.predicate)))

    def _compute(self, node: Physical, operator: ops.Compute) -> Lowered:
        given = self.lower(node.inputs[0])
        copies = {e.column: made for made, e in operator.outputs if isinstance(e, Ref)}
        copies |= {made: made for made, e in operator.outputs if isinstance(e, Ref) and e.column == made}
        kept = self._carried(given, node, copies)
        outputs = [self._column(e).alias(made.spark_name) for made, e in operator.outputs]
        frame = given.frame.select(*outputs, *map(_col, kept.extras)) if outputs or kept.extras else given.frame
        return replace(kept, frame=frame)

    def _enlarge(self, node: Physical, operator: ops.Enlarge) -> Lowered:
        given, expand = self.lower(node.inputs[0]), operator.expand
        numbers = F.array(*(F.lit(i) for i in range(len(expand.sets))))
        frame = given.frame.withColumn(expand.number.spark_name, F.explode(numbers))
        keys = [
            F.when(_col(expand.number).isin([i for i, one in enumerate(expand.sets) if column in one]), _col(column))
            .otherwise(F.lit(None))
            .alias(out.spark_name)
            for out, column in expand.keys
        ]
        kept = [*expand.child.columns, *given.extras]
        return replace(given, frame=frame.select(*map(_col, kept), *keys, _col(expand.number)))

    # --- aggregates

    def _aggregate(self, node: Physical, operator: ops.HashAggregate | ops.StreamAggregate) -> Lowered:
        if operator.phase == "final":
            return self._two_halves(node, operator)
        if operator.phase == "partial":
            raise InternalError("a partial aggregate stands without its final one")
        given = self.lower(node.inputs[0])
        keys = self._grouping(node.inputs[0], operator, given)
        frame = self._grouped(given.frame, keys, operator)
        return self._after_grouping(given, node, frame)

    def _two_halves(self, node: Physical, operator: ops.HashAggregate | ops.StreamAggregate) -> Lowered:
        """Both halves and the exchange between them."""
        moves, below = [], node.inputs[0]
        while isinstance(below.operator, ops.Move | ops.LocalSort):
            moves += [below] if isinstance(below.operator, ops.Move) else []
            below = below.inputs[0]
        half: Any = below.operator
        if len(moves) > 1 or getattr(half, "phase", None) != "partial" or half.keys != operator.keys:
            raise InternalError("the halves of an aggregate are further apart than an exchange")
        given = self.lower(below.inputs[0])
        if not moves or not operator.keys:
            # Without keys Spark has but one place to bring the findings to.
            return self._after_grouping(
                given, node, self._grouped(given.frame, self._grouping(below.inputs[0], operator, given), operator)
            )
        (move,) = moves
        sent, sending = self._sent(given, move, operator.keys)
        keys = self._grouping(node.inputs[0], operator, sent)
        grouped = self._grouped(sent.frame, keys, operator)
        return self._after_grouping(sent, node, bridge.exchanged_between_halves(grouped, sending))

    def _grouping(self, below: Physical, operator: Any, given: Lowered) -> tuple[Column, ...]:
        """The keys, in the order that rows are sorted in, and the carriers."""
        order = {c: i for i, c in enumerate(_order_of(below))}
        keys = sorted(operator.keys, key=lambda c: order.get(c, len(order)))
        return (*keys, *(c for c in given.carriers if c not in keys))

    def _grouped(self, frame: DataFrame, keys: Sequence[Column], operator: Any) -> DataFrame:
        made = [self._column(call).alias(column.spark_name) for column, call in operator.aggregates]
        if not keys:
            return frame.agg(*made) if made else frame.agg(F.count(F.lit(1)).alias("one_row"))
        if isinstance(operator, ops.StreamAggregate):
            # Spark streams only what it cannot keep in a hash table of fixed width, such as a string; and it computes only
            # what is looked at.
            streamed = self._new("streamed").spark_name
            made.append(F.max(F.lit("")).alias(streamed))
            grouped = frame.groupBy(*map(_col, keys)).agg(*made)
            return grouped.where(F.col(quote(streamed)) == "").drop(streamed)
        if not made:
            return frame.select(*map(_col, keys)).distinct()
        return frame.groupBy(*map(_col, keys)).agg(*made)

    def _after_grouping(self, given: Lowered, node: Physical, frame: DataFrame) -> Lowered:
        kept = self._carried(given, node, {c: c for c in node.columns})
        return replace(kept, frame=frame.select(*map(_col, (*node.columns, *kept.extras))) if node.columns else frame)

    # --- joins

    def _join(self, node: Physical, operator: Any) -> Lowered:
        left, right = (self.lower(child) for child in node.inputs)
        order = [each.key for each in operator.by] if isinstance(operator, ops.MergeJoin) else operator.keys
        condition = self._condition(node, operator, order, left, right)
        frames = [self._hinted(node, operator, side, given) for side, given in enumerate((left, right))]
        how = operator.kind.value.replace(" ", "_")
        if condition is None and operator.kind is JoinKind.INNER:
            frame = frames[0].crossJoin(frames[1])
        else:
            frame = frames[0].join(frames[1], condition if condition is not None else F.lit(True), how)
        kept = self._laid_out_as(node, operator, left, right)
        columns = (*node.columns, *kept.extras)
        return replace(kept, frame=frame.select(*map(_col, columns)) if columns else frame, copied=False)

    def _condition(
        self, node: Physical, operator: Any, keys: Sequence[JoinKey], left: Lowered, right: Lowered
    ) -> SparkColumn | None:
        if operator.join.condition is None:
            return None
        if getattr(operator, "null_aware", False) or not keys:
            return self._column(operator.join.condition)
        parts = []
        for key in keys:
            one, other = (self._key(given, key, side) for side, given in enumerate((left, right)))
            parts.append(one.eqNullSafe(other) if key.null_safe else one == other)
        if node.alternative == "pair-wise" and len(left.carriers) == len(right.carriers) == 1:
            mine, theirs = left.carriers[0], right.carriers[0]
            if mine in left.extras and theirs in right.extras and mine not in left.casts.values():
                parts.append(_col(mine) == _col(theirs))  # the partition's number
        if operator.rest is not None:
            parts.append(self._column(operator.rest))
        condition = parts[0]
        for part in parts[1:]:
            condition = condition & part
        return condition

    def _key(self, given: Lowered, key: JoinKey, side: int) -> SparkColumn:
        column = key.columns[side]
        if (column, key.type) in given.casts:
            return _col(given.casts[column, key.type])
        return _col(column) if column.type == key.type or key.type is None else self._column(Cast(Ref(column), key.type))

    def _hinted(self, node: Physical, operator: Any, side: int, given: Lowered) -> DataFrame:
        frame = given.frame
        match operator:
            case ops.MergeJoin():
                return frame.hint("merge") if side == 0 else frame
            case ops.HashJoin(build=build):
                if side != build:
                    return frame
                return F.broadcast(frame) if given.copied or operator.null_aware else frame.hint("shuffle_hash")
            case _:
                return F.broadcast(frame) if side == operator.inner else frame

    def _laid_out_as(self, node: Physical, operator: Any, left: Lowered, right: Lowered) -> Lowered:
        """The carriers that tell how the result is laid out: those of an input whose rows all keep their place."""
        if left.copied or right.copied:
            sides = [right if left.copied else left]
        elif operator.kind is JoinKind.RIGHT:
            sides = [right]
        elif operator.kind is JoinKind.INNER:
            sides = [left, right]
        else:
            sides = [] if operator.kind is JoinKind.FULL else [left]
        kept = [self._carried(side, node, {c: c for c in node.columns}) for side in sides]
        return min(kept, key=lambda each: (not each.carriers, len(each.extras)), default=Lowered(left.frame))

    # --- several inputs

    def _concatenate(self, node: Physical, operator: Any) -> Lowered:
        frames = [self._only(self.lower(child), columns) for child, columns in zip(node.inputs, operator.inputs, strict=True)]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.union(other)
        frame = frame.toDF(*(c.spark_name for c in operator.columns))
        if _is_serial(node):
            return Lowered(frame.coalesce(1))
        layout = node.delivered.partitioning
        native = isinstance(layout, Partitioned) and isinstance(layout.function, HashFunction)
        return Lowered(frame, layout.columns if native and isinstance(layout, Partitioned) else ())

    def _multiset(self, node: Physical, operator: ops.MultisetOperation) -> Lowered:
        pairs = zip(node.inputs, operator.operation.inputs, strict=True)
        left, right = (self._only(self.lower(child), plan.columns) for child, plan in pairs)
        frame = left.intersectAll(right) if operator.operation.kind.value == "intersect" else left.exceptAll(right)
        return Lowered(frame.toDF(*(c.spark_name for c in operator.columns)))

    # --- order and number of rows

    def _in_order(self, node: Physical, operator: ops.InOrder) -> Lowered:
        below = node.inputs[0]
        while isinstance(below.operator, ops.LocalSort):
            below = below.inputs[0]
        given = self.lower(below)
        return replace(given, frame=given.frame.orderBy(*map(_order, operator.keys)))

    def _first_rows(self, node: Physical, operator: ops.FirstRows) -> Lowered:
        """Spark has an operator of its own for the first rows in an order, which looks for them in each partition first."""
        below = node.inputs[0]
        while isinstance(below.operator, ops.PartialFirstRows | ops.LocalSort | ops.InOrder) or (
            isinstance(below.operator, ops.Move) and isinstance(below.operator.how, FullMerge)
        ):
            below = below.inputs[0]
        frame = self._only(self.lower(below), node.columns)
        if operator.keys:
            frame = frame.orderBy(*map(_order, operator.keys))
        if operator.offset:
            frame = frame.offset(operator.offset)
        return Lowered(frame if operator.count is None else frame.limit(operator.count))

    def _same_rows(self, node: Physical, operator: Any) -> Lowered:
        """A sort, which Spark adds where it is needed, or first rows of each partition, of which more do no harm."""
        return self.lower(node.inputs[0])

    def _windows(self, node: Physical, operator: ops.Windows) -> Lowered:
        given = self.lower(node.inputs[0])
        order = {c: i for i, c in enumerate(_order_of(node.inputs[0]))}
        by = sorted(operator.by, key=lambda c: order.get(c, len(order)))
        if operator.by:
            by += [c for c in given.carriers if c not in by]
        partition = tuple(Ref(c) for c in by)
        made = [
            self._column(replace(call, partition=partition)).alias(column.spark_name) for column, call in operator.calls
        ]
        kept = [*operator.input_columns, *given.extras]
        return replace(given, frame=given.frame.select(*map(_col, kept), *made))

    # --- user-defined operators, and what Spark runs as it stands

    def _process(self, node: Physical, operator: ops.RunProcess) -> Lowered:
        (child,) = node.inputs
        return Lowered(user_operators.process(self._only(self.lower(child), child.columns), operator.process))

    def _reduce(self, node: Physical, operator: ops.RunReduce) -> Lowered:
        given = self.lower(node.inputs[0])
        layout = [c.spark_name for c in given.carriers if c not in operator.reduce.keys]
        return Lowered(user_operators.reduce(given.frame, operator.reduce, layout=layout))

    def _combine(self, node: Physical, operator: ops.RunCombine) -> Lowered:
        left, right = (self.lower(child) for child in node.inputs)
        sides = ((left, operator.combine.left_keys), (right, operator.combine.right_keys))
        layouts = [[c.spark_name for c in given.carriers if c not in keys] for given, keys in sides]
        both = (layouts[0], layouts[1]) if len(layouts[0]) == len(layouts[1]) else ((), ())
        return Lowered(user_operators.combine(left.frame, right.frame, operator.combine, layout=both))

    def _as_written(self, node: Physical, operator: ops.AsWritten) -> Lowered:
        for group, child in zip(operator.plan.children, node.inputs, strict=True):
            self._inputs[id(group)] = self._only(self.lower(child), child.columns)
        return Lowered(self.frame(operator.plan))

    def frame(self, plan: Plan) -> DataFrame:
        found = self._inputs.get(id(plan))
        return found if found is not None else super().frame(plan)

    def sql(self, plan: Plan) -> str:
        found = self._inputs.get(id(plan))
        return f"SELECT * FROM {self._view(found)}" if found is not None else super().sql(plan)

    def _subquery(self, plan: Plan) -> str:
        physical = self._standing_alone.get(plan.columns)
        if physical is None:
            return super()._subquery(plan)
        return f"SELECT * FROM {self._view(self._only(self.lower(physical), plan.columns))}"

    # --- exchanges

    def _move(self, node: Physical, operator: ops.Move) -> Lowered:
        given, how = self.lower(node.inputs[0]), operator.how
        if isinstance(how, Repartitioning) and isinstance(how.scheme, Replicated):
            return replace(given, copied=True)
        if isinstance(how, InitialPartitioning) and isinstance(how.scheme, Scattered):
            return Lowered(self._only(given, node.columns).repartition(how.scheme.partitions or node.amount.partitions))
        sent, sending = self._sent(given, node, node.columns)
        match sending:
            case bridge.SendToOne():
                frame = sent.frame.repartition(1)
            case bridge.SendByHash(_, partitions) if _is_number(sent):
                frame = sent.frame.repartitionById(partitions, _col(sent.carriers[0]))
            case bridge.SendByHash(_, partitions):
                frame = sent.frame.repartition(partitions, *map(_col, sent.carriers))
            case bridge.SendByRange(keys, partitions):
                frame = sent.frame.repartitionByRange(partitions, *(_ordered(*key) for key in keys))
        return replace(sent, frame=frame)

    def _sent(self, given: Lowered, move: Physical, columns: Sequence[Column]) -> tuple[Lowered, bridge.Sending]:
        """The rows with what they are to be sent by, of these columns and others that are made for it."""
        how: Any = move.operator.how  # type: ignore[attr-defined]
        scheme = getattr(how, "scheme", None)
        match scheme:
            case None:
                return Lowered(self._only(given, _all(given, move))), bridge.SendToOne()
            case Partitioned(function=RangeFunction(keys=orders), columns=on):
                pairs = zip(on, orders, strict=True)
                keys = tuple((c.spark_name, o.descending, o.nulls_first) for c, o in pairs)
                return Lowered(self._only(given, _all(given, move)), on), bridge.SendByRange(keys, scheme.function.partitions)
            case Partitioned(function=HashFunction(types=types), columns=on):
                pass
            case _:
                raise InternalError(f"an exchange by {scheme} cannot be run")
        partitions = scheme.function.partitions
        frame = self._only(given, _all(given, move))
        typed = [_col(c) if c.type == t else self._column(Cast(Ref(c), t)) for c, t in zip(on, types, strict=True)]
        if id(move) in self._numbered:
            number = self._new("_p", pa.int32())
            normal = [_normal(column, t) for column, t in zip(typed, types, strict=True)]
            frame = frame.withColumn(number.spark_name, F.pmod(F.hash(*normal), F.lit(partitions)))
            return Lowered(frame, (number,), (number,)), bridge.SendByHash((number.spark_name,), partitions)
        casts = {(c, t): self._new(c.name, t) for c, t in zip(on, types, strict=True) if c.type != t}
        for (column, type_), made in casts.items():
            frame = frame.withColumn(made.spark_name, self._column(Cast(Ref(column), type_)))
        carriers = tuple(casts.get((c, t), c) for c, t in zip(on, types, strict=True))
        names = tuple(c.spark_name for c in carriers)
        return Lowered(frame, carriers, tuple(casts.values()), casts), bridge.SendByHash(names, partitions)

    # --- helpers

    def _carried(self, given: Lowered, node: Physical, names: dict[Column, Column]) -> Lowered:
        """What still tells Spark the layout after an operator that keeps it. `names` are the columns that come out, by
        the ones they repeat. A carrier that does not come out stays as an extra, if the plan still knows a layout."""
        if not isinstance(node.delivered.partitioning, Partitioned) or not given.carriers:
            return Lowered(given.frame, copied=given.copied)
        carriers = tuple(names.get(c, c) for c in given.carriers)
        extras = tuple(c for c, made in zip(given.carriers, carriers, strict=True) if c not in names and c == made)
        casts = {(names.get(c, c), t): made for (c, t), made in given.casts.items() if made in extras}
        return Lowered(given.frame, carriers, extras, casts, given.copied)

    def _only(self, given: Lowered, columns: Sequence[Column]) -> DataFrame:
        return given.frame.select(*map(_col, columns)) if columns else given.frame

    def _column(self, expression: Expression) -> SparkColumn:
        return F.expr(to_sql(expression, lambda column: quote(column.spark_name), self._subquery))


def _numbered(optimized: Optimized, spools: dict[int, Physical]) -> set[int]:
    """The exchanges whose layout Spark knows only by the partition's number."""
    found: set[int] = set()
    for root in optimized.roots:
        for node in root.walk():
            operator: Any = node.operator
            if isinstance(operator, ops.Move) and _is_hashed_by_number(operator):
                found.add(id(node))
            if node.alternative == "pair-wise" and not isinstance(operator, ops.MultisetOperation):
                whole = all(_are_all_keys(child, operator.keys, side) for side, child in enumerate(node.inputs))
                if not whole:
                    for child in node.inputs:
                        found |= {id(source) for source in _sources(child, spools)}
    return found


def _is_hashed_by_number(move: ops.Move) -> bool:
    scheme = getattr(move.how, "scheme", None)
    return (
        isinstance(scheme, Partitioned)
        and isinstance(scheme.function, HashFunction)
        and any(t is None or pa.types.is_floating(t) or pa.types.is_nested(t) for t in scheme.function.types)
    )


def _are_all_keys(child: Physical, keys: Sequence[JoinKey], side: int) -> bool:
    layout = child.delivered.partitioning
    if not isinstance(layout, Partitioned) or not isinstance(layout.function, HashFunction):
        return True
    wanted = [(key.columns[side], key.type) for key in keys]
    for column, type_ in zip(layout.columns, layout.function.types, strict=True):
        match = next((k for k in wanted if k[1] == type_ and child.facts.equal(k[0], column)), None)
        if match is None:
            return False
        wanted.remove(match)
    return not wanted


def _sources(node: Physical, spools: dict[int, Physical]) -> Iterator[Physical]:
    """The exchanges that made the layout of a plan. What is laid out alike is so on both sides of a join."""
    operator: Any = node.operator
    match operator:
        case ops.Move():
            yield node
        case ops.ReadSpool():
            yield from _sources(spools[operator.spool], spools)
        case _ if node.alternative in ("pair-wise", "partition-wise"):
            for child in node.inputs:
                yield from _sources(child, spools)
        case _ if operator.carried is not None:
            yield from _sources(node.inputs[operator.carried], spools)
        case _:
            return


def _all(given: Lowered, move: Physical) -> tuple[Column, ...]:
    """What an exchange moves: of a partial aggregate, what that is made of."""
    below = move.inputs[0]
    while isinstance(below.operator, ops.LocalSort):
        below = below.inputs[0]
    if getattr(below.operator, "phase", None) == "partial":
        below = below.inputs[0]
    return below.columns


def _is_number(sent: Lowered) -> bool:
    return len(sent.carriers) == 1 and sent.carriers[0] in sent.extras and not sent.casts


def _is_serial(node: Physical) -> bool:
    return isinstance(node.delivered.partitioning, Serial)


def _order_of(node: Physical) -> list[Column]:
    """The columns that rows are sorted by, the first first."""
    found: list[Column] = []
    for action in node.delivered.local:
        found += [action.column] if isinstance(action, Sorted) else sorted(action.columns, key=lambda c: c.id)
    return found


def _normal(column: SparkColumn, type_: DataType) -> SparkColumn:
    """Numbers that are equal to GROUP BY and joins, as one."""
    if type_ is not None and pa.types.is_floating(type_):
        return F.when(F.isnan(column), F.lit(float("nan"))).otherwise(column + F.lit(0.0)).cast(spark_name(type_))
    return column


def _col(column: Column) -> SparkColumn:
    return F.col(quote(column.spark_name))


def _order(key: Sorted) -> SparkColumn:
    return _ordered(key.column.spark_name, key.descending, key.nulls_first)


def _ordered(name: str, descending: bool, nulls_first: bool) -> SparkColumn:
    column = F.col(quote(name))
    if descending:
        return column.desc_nulls_first() if nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if nulls_first else column.asc_nulls_last()


_RULES: dict[type, Callable[[Lowering, Physical, Any], Lowered]] = {
    ops.FileScan: Lowering._scan,
    ops.TableRead: Lowering._table,
    ops.Rows: Lowering._values,
    ops.ReadSpool: Lowering._read_spool,
    ops.Rename: Lowering._rename,
    ops.Select: Lowering._select,
    ops.Compute: Lowering._compute,
    ops.Enlarge: Lowering._enlarge,
    ops.HashAggregate: Lowering._aggregate,
    ops.StreamAggregate: Lowering._aggregate,
    ops.HashJoin: Lowering._join,
    ops.MergeJoin: Lowering._join,
    ops.LoopJoin: Lowering._join,
    ops.Concatenate: Lowering._concatenate,
    ops.ConcatenatePartitions: Lowering._concatenate,
    ops.MultisetOperation: Lowering._multiset,
    ops.InOrder: Lowering._in_order,
    ops.FirstRows: Lowering._first_rows,
    ops.PartialFirstRows: Lowering._same_rows,
    ops.LocalSort: Lowering._same_rows,
    ops.Windows: Lowering._windows,
    ops.RunProcess: Lowering._process,
    ops.RunReduce: Lowering._reduce,
    ops.RunCombine: Lowering._combine,
    ops.AsWritten: Lowering._as_written,
    ops.Move: Lowering._move,
}
