"""From a physical plan to a query that Spark runs as planned.

Every operator becomes the SELECT that says the same, so the rows are right whatever Spark makes of it. (One text for a whole
plan: Spark looks at a DataFrame anew with each operation on it.) That Spark runs it *as planned* rests on what Spark sees:

- An exchange is a repartitioning into a number of partitions, which adaptive execution leaves alone. One between the halves
  of an aggregate is put there by the bridge.
- Joins are hinted: which algorithm, and which input is built or copied.
- Sorts are never asked for. Merge joins, streaming aggregates and windows need them, and Spark adds those that are missing;
  the keys of each are listed in the order that the plan has them sorted in, so that one sort serves all that it should.
- One stream is coalesced into one partition, of which Spark knows that all rows are in one place.

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
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall, Call, Cast, Expression, Literal, Ref
from unshuffle.algebra.logical import Plan
from unshuffle.algebra.physical import Physical
from unshuffle.algebra.sql import quote
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers, DataType
from unshuffle.catalog.types import spark_name
from unshuffle.errors import InternalError
from unshuffle.optimizer import Optimized
from unshuffle.properties import (
    Covering,
    HashFunction,
    InitialPartitioning,
    PartialMerge,
    Partitioned,
    RangeFunction,
    Repartitioning,
    Replicated,
    Sampled,
    Scattered,
    Serial,
    Sorted,
    Within,
)
from unshuffle.properties.layouts import connections
from unshuffle.rules.aggregates import MERGED_BY
from unshuffle.rules.listed import values_of
from unshuffle.rules.sorted_inputs import in_input_order, keeps_objects, seen_order
from unshuffle.spark import bridge, stored, user_operators
from unshuffle.spark.columns import ordered
from unshuffle.spark.faithful import below_first_rows
from unshuffle.spark.narrow import narrow
from unshuffle.spark.numbering import number_of, numbered, numbers_of
from unshuffle.spark.percentiles import percentile
from unshuffle.spark.straight import Straight, name_of, names_of


@dataclass(frozen=True, slots=True)
class Lowered:
    """A plan as a query: its columns by `spark_name`, and `extras` that only Spark needs."""

    text: str
    carriers: tuple[Column, ...] = ()
    extras: tuple[Column, ...] = ()
    # A column in another type, as it is in `extras`.
    casts: dict[tuple[Column, DataType], Column] = field(default_factory=dict)
    copied: bool = False  # to be sent to every task by the join that reads it
    numbered: bool = False  # is the one carrier the number of the partition?
    leads: bool = False  # and is it the first key of the order that Spark knows rows to have?
    # Of a layout by ranges, which Spark does not know by other names: the carriers that columns repeat.
    ranges: dict[Column, Column] | None = None


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
        self._persisted = {spool.number for spool in optimized.spools if spool.kept}
        self._standing_alone = {plan.columns: physical for plan, physical in optimized.subqueries}
        self._numbered = numbered(optimized, self._spools)
        self._lowered: dict[int, tuple[Physical, Lowered]] = {}
        self._inputs: dict[int, str] = {}  # of an operator that is translated straight, as queries
        self._aliases = count(1)
        self._kept: dict[int, tuple[str, bool, DataFrame]] = {}
        self.sendings: dict[int, bridge.Sending] = {}  # how each exchange that is lowered sends, by the id of its node

    def output(self, plan: Physical, names: Sequence[str]) -> DataFrame:
        """The plan's rows under the names the user gave its columns."""
        if not all(names):  # a column may have no name, which no text can say
            return self._query(_only(self.lower(plan), plan.columns)).toDF(*names)
        listed = ", ".join(f"{name_of(c)} AS {quote(name)}" for c, name in zip(plan.columns, names, strict=True))
        given = self.lower(plan).text
        return self._query(f"SELECT {listed} FROM ({given})") if listed else self._query(given).select()

    def release(self) -> None:
        """Lets go of what was kept for several uses."""
        for _, is_ours, frame in self._kept.values():
            if is_ours:
                frame.unpersist()
        self._kept.clear()

    def lower(self, node: Physical) -> Lowered:
        found = self._lowered.get(id(node))
        if found is None:
            # The node is kept with its query: an id is only good while what it names is alive.
            found = self._lowered[id(node)] = (node, self._lower(node))
        return found[1]

    def _lower(self, node: Physical) -> Lowered:
        operator: Any = node.operator
        rule = _RULES.get(type(operator))
        if rule is None:
            raise InternalError(f"{type(operator).__name__} cannot be run")
        return rule(self, node, operator)

    # --- leaves

    def _scan(self, node: Physical, operator: ops.FileScan, predicate: Expression | None = None) -> Lowered:
        """Rows that are stored in a layout are known by the number of the partition."""
        if not isinstance(operator.layout.partitioning, Partitioned | Within):
            return self._read(node, self.sql(operator.scan))
        number = self._new("_p", pa.int32())
        frame = stored.rows(self._spark, operator, number.spark_name, predicate)
        return Lowered(self._rows_of(frame), (number,), (number,), numbered=True, leads=bool(operator.layout.local))

    def _table(self, node: Physical, operator: ops.TableRead) -> Lowered:
        return self._read(node, self.sql(operator.table))

    def _rows(self, node: Physical, operator: ops.Rows) -> Lowered:
        return self._read(node, self.sql(operator.values))

    def _read(self, node: Physical, text: str) -> Lowered:
        return Lowered(_in_one_stream(text) if _is_serial(node) else text)

    def _read_spool(self, node: Physical, operator: ops.ReadSpool) -> Lowered:
        plan = self._spools[operator.spool]
        given = self.lower(plan)
        if operator.spool not in self._kept:
            frame = self._query(given.text)
            # Spark knows cached data by what it means. What others have cached already is theirs to let go.
            is_ours = operator.spool in self._persisted and frame.storageLevel == StorageLevel.NONE
            if is_ours:
                frame = frame.persist()
            elif operator.spool not in self._persisted:
                # An exchange that is left to Spark to run once must not change with what each of its readers needs.
                frame = bridge.planned(frame)
            self._kept[operator.spool] = (self._rows_of(frame), is_ours, frame)
        kept = replace(given, text=self._kept[operator.spool][0])
        return self._renamed(kept, plan.columns, operator.columns)

    def _rename(self, node: Physical, operator: ops.Rename) -> Lowered:
        return self._renamed(self.lower(node.inputs[0]), operator.originals, operator.columns)

    def _renamed(self, given: Lowered, originals: Sequence[Column], columns: Sequence[Column]) -> Lowered:
        """Under other names, also those that only Spark needs: the same rows may stand in a join twice."""
        names = dict(zip(originals, columns, strict=True))
        names |= {extra: self._new(extra.name, extra.type) for extra in given.extras}
        text = (
            f"SELECT {', '.join(f'{name_of(old)} AS {name_of(new)}' for old, new in names.items())} FROM ({given.text})"
        )
        casts = {(names[c], t): names[made] for (c, t), made in given.casts.items() if c in names and made in names}
        # Ranges are not known by other names.
        known = given.ranges is None and all(c in names for c in given.carriers)
        carriers = tuple(names[c] for c in given.carriers) if known else ()
        return replace(
            given, text=text, ranges=None, carriers=carriers, extras=tuple(names[c] for c in given.extras), casts=casts
        )

    # --- a row at a time

    def _select(self, node: Physical, operator: ops.Select) -> Lowered:
        (below,) = node.inputs
        if isinstance(below.operator, ops.FileScan) and stored.can_choose(operator.predicate):
            given = self._scan(below, below.operator, operator.predicate)
        else:
            given = self.lower(below)
        return replace(given, text=f"SELECT * FROM ({given.text}) WHERE {self._expression(operator.predicate)}")

    def _compute(self, node: Physical, operator: ops.Compute) -> Lowered:
        given = self.lower(node.inputs[0])
        copies = {e.column: made for made, e in operator.outputs if isinstance(e, Ref)}
        copies |= {made: made for made, e in operator.outputs if isinstance(e, Ref) and e.column == made}
        kept = self._carried(given, node, copies)
        made = [*(self._as(column, e) for column, e in operator.outputs), *map(name_of, kept.extras)]
        return replace(kept, text=f"SELECT {', '.join(made) or '1 AS one_row'} FROM ({given.text})")

    def _enlarge(self, node: Physical, operator: ops.Enlarge) -> Lowered:
        given = self.lower(node.inputs[0])
        return replace(given, text=self._expanded(operator.expand, given.text, given.extras))

    # --- aggregates

    def _aggregate(self, node: Physical, operator: ops.HashAggregate | ops.StreamAggregate) -> Lowered:
        if operator.phase == "final":
            return self._two_halves(node, operator)
        if operator.phase == "partial":
            return self._findings(node, operator)
        if isinstance(operator, ops.StreamAggregate) and operator.listed:
            return self._looked_up(node, operator)
        return self._streamed(operator, self._grouped(node, operator, self.lower(node.inputs[0]), node.inputs[0]))

    def _looked_up(self, node: Physical, operator: ops.StreamAggregate) -> Lowered:
        """Lists in place of the percentiles; these are then looked up in the lists, once sorted."""
        calls = dict(operator.aggregates)
        collected = dict.fromkeys(values_of(call) for column, call in operator.aggregates if column in operator.listed)
        lists = {call: self._new("values", call.type) for call in collected}
        others = tuple((column, call) for column, call in operator.aggregates if column not in operator.listed)
        collecting = replace(
            operator, aggregates=(*others, *((c, call) for call, c in lists.items())), listed=frozenset()
        )
        grouped = self._grouped(node, collecting, self.lower(node.inputs[0]), node.inputs[0])
        made = self._streamed(collecting, grouped)
        kept = ", ".join(map(name_of, (*operator.keys, *(column for column, _ in others), *made.extras)))
        ordered = ", ".join(f"sort_array({name_of(c)}) AS {name_of(c)}" for c in lists.values())
        found = ", ".join(
            f"{percentile(name_of(lists[values_of(calls[c])]), calls[c])} AS {name_of(c)}"
            for c in node.columns
            if c in operator.listed
        )
        return replace(made, text=f"SELECT {kept}, {found} FROM (SELECT {kept}, {ordered} FROM ({made.text}))")

    def _two_halves(self, node: Physical, operator: ops.HashAggregate | ops.StreamAggregate) -> Lowered:
        """Both halves, the exchange between them, and what combines findings on the way."""
        moves, below = [], node.inputs[0]
        while isinstance(below.operator, ops.Move | ops.LocalSort) or _combines(below.operator):
            moves += [below] if isinstance(below.operator, ops.Move) else []
            below = below.inputs[0]
        half: Any = below.operator
        levels = list(reversed(moves[1:]))
        apart = any(not isinstance(getattr(move.operator, "how", None), PartialMerge) for move in levels)
        if getattr(half, "phase", None) != "partial":
            return self._put_together(node, operator)
        if apart or half.keys != operator.keys:
            raise InternalError("the halves of an aggregate are further apart than an exchange")
        given = self.lower(below.inputs[0])
        if not moves or not (operator.keys or levels):
            # Without keys Spark has but one place to bring the findings to.
            return self._streamed(operator, self._grouped(node, operator, given, below.inputs[0]))
        sent, sending = self._sent(given, moves[0], below.inputs[0].columns)
        made = self._grouped(node, operator, sent, node.inputs[0])
        for level in levels:
            self.sendings[id(level)] = bridge.SendByHash((bridge.FRAGMENT,), level.amount.partitions, numbered=True)
        fragments = [level.amount.partitions for level in levels]
        frame = bridge.exchanged_between_halves(self._query(made.text), sending, fragments)
        return replace(made, text=self._rows_of(frame))

    def _findings(self, node: Physical, operator: ops.HashAggregate | ops.StreamAggregate) -> Lowered:
        """What is found in each partition, as columns: such findings pass through a join on the way to their final half."""
        given, (below,) = self.lower(node.inputs[0]), node.inputs
        if not isinstance(node.delivered.partitioning, Partitioned | Within):
            given = Lowered(given.text)  # nothing is to be grouped by what rows lie by
        made = self._grouped(node, operator, given, below)
        if _is_serial(below):
            return made
        return replace(made, text=self._rows_of(bridge.grouped_where_they_lie(self._query(made.text))))

    def _put_together(self, node: Physical, operator: ops.HashAggregate | ops.StreamAggregate) -> Lowered:
        """The final half of findings that are columns."""
        pairs = zip(operator.aggregates, operator.states, strict=True)
        merged = [(column, _merged(call, state)) for (column, call), state in pairs]
        return self._grouped(node, operator, self.lower(node.inputs[0]), node.inputs[0], merged)

    def _grouped(
        self,
        node: Physical,
        operator: Any,
        given: Lowered,
        below: Physical,
        calls: Sequence[tuple[Column, Expression]] | None = None,
    ) -> Lowered:
        """Grouped by the keys, in the order that rows are sorted in, and by the carriers, which they determine. What is
        computed of each group are the operator's aggregates, or other `calls` in their place."""
        keys = _with_carriers(in_input_order(operator.keys, below), given, below)
        kept = self._carried(given, node, {c: c for c in node.columns})
        made = [self._as(column, call) for column, call in (operator.aggregates if calls is None else calls)]
        listed = ", ".join([*map(name_of, operator.keys), *made, *map(name_of, kept.extras)])
        grouping = f" GROUP BY {', '.join(map(name_of, keys))}" if keys else ""
        # Spark streams what it cannot keep in a hash table of rows of a fixed width, such as a string.
        is_streamed = keys and isinstance(operator, ops.StreamAggregate) and not keeps_objects(operator.aggregates)
        having = " HAVING max('') = ''" if is_streamed else ""
        return replace(kept, text=f"SELECT {listed or 'count(1) AS one_row'} FROM ({given.text}){grouping}{having}")

    def _streamed(self, operator: ops.HashAggregate | ops.StreamAggregate, made: Lowered) -> Lowered:
        """Of states that are objects, Spark must be made to find groups in sorted rows."""
        is_hashed = isinstance(operator, ops.HashAggregate) or not operator.keys
        if is_hashed or not keeps_objects(operator.aggregates):
            return made
        return replace(made, text=self._rows_of(bridge.streamed(self._query(made.text))))

    # --- joins

    def _joined(self, node: Physical, operator: Any) -> Lowered:
        left, right = (self._to_join(node, child) for child in node.inputs)
        in_pairs = node.alternative == "pair-wise" or _covering(node) is not None
        exchanges = in_pairs or isinstance(operator, ops.MergeJoin)
        if exchanges and operator.kind in (JoinKind.SEMI, JoinKind.ANTI):
            # Spark would push the join below what laid out its input, and then exchange anew.
            left = replace(left, text=self._rows_of(bridge.planned(self._query(left.text))))
        if in_pairs and all(isinstance(child.operator, ops.Move) for child in node.inputs):
            key = operator.keys[0]
            right = self._apart(right, _as_laid_out(node.inputs[1], key.columns[1]), key.type)
        number = next(self._aliases)
        names = (f"left_{number}", f"right_{number}")
        kept = self._laid_out_as(node, operator, left, right)
        condition = self._condition(node, operator, left, right)
        word = "CROSS" if condition is None and operator.kind is JoinKind.INNER else operator.kind.value.upper()
        on = "" if condition is None else f" ON {condition}"
        listed = ", ".join(map(name_of, (*node.columns, *kept.extras))) or "1 AS one_row"
        text = (
            f"SELECT /*+ {self._hint(node, operator, left, right, names)} */ {listed} "
            f"FROM ({left.text}) AS {names[0]} {word} JOIN ({right.text}) AS {names[1]}{on}"
        )
        # Spark does not see that a full outer join of two streams is one.
        is_unseen = operator.kind is JoinKind.FULL and _is_serial(node)
        leads = kept.leads or (node.alternative == "pair-wise" and kept.numbered and (left.leads or right.leads))
        return replace(kept, text=_in_one_stream(text) if is_unseen else text, copied=False, leads=leads)

    def _to_join(self, node: Physical, child: Physical) -> Lowered:
        """An input of a join. What is covered by the other input must be told apart by the number of the partition: rows that
        are there several times match once then. Where Spark is not told how rows lie, as of those that user code makes, they
        are numbered for that alone."""
        given, layout = self.lower(child), child.delivered.partitioning
        if given.numbered or _covering(node) in (None, child) or not isinstance(layout, Partitioned):
            return given
        number = self._new("_p", pa.int32())
        frame = self._query(given.text).withColumn(number.spark_name, number_of(self._spark, layout))
        return Lowered(self._rows_of(frame), (), (number,))

    def _apart(self, right: Lowered, column: Column, type_: DataType) -> Lowered:
        """Under a join of two exchanges Spark takes a number of partitions of its own where that is larger. Not if something
        is between one of them and the join: here the copy of a key, which the join is on."""
        copy = self._new(column.name, type_ or column.type)
        text = f"SELECT *, {self._key(right, column, type_)} AS {name_of(copy)} FROM ({right.text})"
        return replace(right, text=text, casts={**right.casts, (column, type_): copy})

    def _condition(self, node: Physical, operator: Any, left: Lowered, right: Lowered) -> str | None:
        if operator.join.condition is None:
            return None
        if not operator.keys or getattr(operator, "null_aware", False):
            return self._expression(operator.join.condition)
        keys = [each.key for each in operator.by] if isinstance(operator, ops.MergeJoin) else operator.keys
        parts = []
        for key in keys:
            columns = (_as_laid_out(child, column) for child, column in zip(node.inputs, key.columns, strict=True))
            one, other = (self._key(given, c, key.type) for given, c in zip((left, right), columns, strict=True))
            parts.append(f"{one} {'<=>' if key.null_safe else '='} {other}")
        if _covering(node) is not None:
            parts.insert(0, f"{name_of(_number(left))} = {name_of(_number(right))}")
        elif node.alternative == "pair-wise" and left.numbered and right.numbered:
            # After the keys that determine it, as in every list of keys.
            on = _layout_columns(node.inputs[0])
            place = 1 + max((i for i, key in enumerate(keys) if key.columns[0] in on), default=len(keys))
            same = f"{name_of(left.carriers[0])} = {name_of(right.carriers[0])}"
            parts.insert(0 if left.leads or right.leads else place, same)
        if operator.rest is not None:
            parts.append(self._expression(operator.rest))
        return " AND ".join(parts)

    def _key(self, given: Lowered, column: Column, type_: DataType) -> str:
        if (column, type_) in given.casts:
            return name_of(given.casts[column, type_])
        return self._typed(column, type_)

    @staticmethod
    def _hint(node: Physical, operator: Any, left: Lowered, right: Lowered, names: tuple[str, str]) -> str:
        """Of two streams the built one is copied to the task of the other. Spark would move both apart again where it takes
        them to be large (spark.sql.maxSinglePartitionBytes), and it takes any result of a join to be large."""
        match operator:
            case ops.MergeJoin():
                return f"MERGE({names[0]})"
            case ops.HashJoin(build=build):
                kept = (operator.kind.extends_left, operator.kind.extends_right)[1 - build]
                copied = (left, right)[build].copied or operator.null_aware or (_is_serial(node) and not kept)
                return f"{'BROADCAST' if copied else 'SHUFFLE_HASH'}({names[build]})"
            case _:
                return f"BROADCAST({names[operator.inner]})"

    def _laid_out_as(self, node: Physical, operator: Any, left: Lowered, right: Lowered) -> Lowered:
        """The carriers that tell how the result is laid out: those of an input whose rows all keep their place."""
        covering = _covering(node)
        if left.copied or right.copied or covering is not None:
            sides = [right if left.copied or covering is node.inputs[0] else left]
        elif operator.kind is JoinKind.RIGHT:
            sides = [right]
        elif operator.kind is JoinKind.INNER:
            sides = [left, right]
        else:
            sides = [] if operator.kind is JoinKind.FULL else [left]
        kept = [self._carried(side, node, {c: c for c in node.columns}) for side in sides]
        return min(kept, key=lambda each: (not each.carriers, len(each.extras)), default=Lowered(""))

    # --- several inputs

    def _concatenate(self, node: Physical, operator: Any) -> Lowered:
        given = [self.lower(child) for child in node.inputs]
        layout = node.delivered.partitioning
        if isinstance(layout, Partitioned) and all(each.numbered for each in given):
            return self._partition_by_partition(node, operator, layout.function.partitions)
        is_hashed = isinstance(layout, Partitioned) and isinstance(layout.function, HashFunction)
        if not is_hashed or any(len(each.carriers) != len(given[0].carriers) for each in given):
            text = self._set_of(" UNION ALL ", node, operator.inputs, operator.columns)
            return Lowered(_in_one_stream(text) if _is_serial(node) else text)
        # Spark sees inputs to be laid out alike if the columns it knows that by are in one place in all of them.
        pairs = zip(given, operator.inputs, strict=True)
        listings = [_as_typed(each, listed, operator.columns) for each, listed in pairs]
        places = [
            {listed.index(c) if c in listed else None for c, listed in zip(alike, listings, strict=True)}
            for alike in zip(*(each.carriers for each in given), strict=True)
        ]
        extras = [i for i, place in enumerate(places) if len(place) > 1 or None in place]
        inputs = [(*listed, *(each.carriers[i] for i in extras)) for listed, each in zip(listings, given, strict=True)]
        new = {i: self._new(given[0].carriers[i].name, given[0].carriers[i].type) for i in extras}
        carriers = tuple(
            new[i] if i in new else operator.columns[min(place)]  # type: ignore[type-var]
            for i, place in enumerate(places)
        )
        text = self._set_of(" UNION ALL ", node, inputs, (*operator.columns, *new.values()))
        return Lowered(text, carriers, tuple(new.values()), numbered=all(each.numbered for each in given))

    def _partition_by_partition(self, node: Physical, operator: Any, partitions: int) -> Lowered:
        """Spark puts the partitions of all inputs side by side, and does not see that those of one number belong together."""
        number = self._new("_p", pa.int32())
        numbered = [(*listed, *self.lower(c).carriers) for c, listed in zip(node.inputs, operator.inputs, strict=True)]
        text = self._set_of(" UNION ALL ", node, numbered, (*operator.columns, number))
        reads = [range(i, partitions * len(node.inputs), partitions) for i in range(partitions)]
        frame = narrow(self._query(text), reads, number.spark_name)
        return Lowered(self._rows_of(frame), (number,), (number,), numbered=True)

    def _multiset(self, node: Physical, operator: ops.MultisetOperation) -> Lowered:
        word = f" {operator.operation.kind.value.upper()} ALL "
        return Lowered(self._set_of(word, node, [plan.columns for plan in operator.operation.inputs], operator.columns))

    def _set_of(self, word: str, node: Physical, inputs: Sequence[Sequence[Column]], columns: Sequence[Column]) -> str:
        pairs = [(self.lower(child), listed) for child, listed in zip(node.inputs, inputs, strict=True)]
        operands = word.join(f"({_only(given, _as_typed(given, listed, columns))})" for given, listed in pairs)
        return f"SELECT * FROM ({operands}) AS t({names_of(columns)})"

    # --- order and number of rows

    def _in_order(self, node: Physical, operator: ops.InOrder) -> Lowered:
        given = self.lower(node.inputs[0])
        if given.numbered:  # in order from one number to the next
            is_sorted = seen_order(node.inputs[0])[: len(operator.keys)] == operator.keys
            order = "" if is_sorted else f" SORT BY {_order(operator.keys)}"
            return replace(given, text=f"SELECT * FROM ({given.text}){order}")
        ranges = given.ranges or {}
        keys = [key.on(ranges.get(key.column, key.column)) for key in operator.keys]
        return replace(given, text=f"SELECT * FROM ({given.text}) ORDER BY {_order(keys)}")

    def _first_rows(self, node: Physical, operator: ops.FirstRows) -> Lowered:
        """Spark has an operator of its own for the first rows in an order, which looks for them in each partition first."""
        below = below_first_rows(node)
        order = f" ORDER BY {_order(operator.keys)}" if operator.keys else ""
        limit = "" if operator.count is None else f" LIMIT {operator.count}"
        offset = f" OFFSET {operator.offset}" if operator.offset else ""
        return Lowered(f"SELECT {names_of(node.columns) or '*'} FROM ({self.lower(below).text}){order}{limit}{offset}")

    def _same_rows(self, node: Physical, operator: Any) -> Lowered:
        """A sort, which Spark adds where it is needed, or first rows of each partition, of which more do no harm."""
        return self.lower(node.inputs[0])

    def _windows(self, node: Physical, operator: ops.Windows) -> Lowered:
        given = self.lower(node.inputs[0])
        by = _with_carriers(in_input_order(operator.by, node.inputs[0]), given, node.inputs[0])
        partition = tuple(Ref(c) for c in by)
        made = [self._as(column, replace(call, partition=partition)) for column, call in operator.calls]
        return replace(given, text=f"SELECT *, {', '.join(made)} FROM ({given.text})")

    # --- user-defined operators, and what Spark runs as it stands

    def _process(self, node: Physical, operator: ops.RunProcess) -> Lowered:
        (child,) = node.inputs
        return self._framed(user_operators.process(self._frame_of(child), operator.process))

    def _reduce(self, node: Physical, operator: ops.RunReduce) -> Lowered:
        (child,) = node.inputs
        layout = [c.spark_name for c in self.lower(child).carriers if c not in operator.reduce.keys]
        return self._framed(user_operators.reduce(self._frame_of(child, extras=True), operator.reduce, layout=layout))

    def _combine(self, node: Physical, operator: ops.RunCombine) -> Lowered:
        both = zip(node.inputs, (operator.combine.left_keys, operator.combine.right_keys), strict=True)
        one, other = ([c.spark_name for c in self.lower(child).carriers if c not in keys] for child, keys in both)
        left, right = (self._frame_of(child, extras=True) for child in node.inputs)
        layout = (one, other) if len(one) == len(other) else ((), ())
        return self._framed(user_operators.combine(left, right, operator.combine, layout=layout))

    def _as_written(self, node: Physical, operator: ops.AsWritten) -> Lowered:
        for group, child in zip(operator.plan.children, node.inputs, strict=True):
            self._inputs[id(group)] = _only(self.lower(child), child.columns)
        return Lowered(self.sql(operator.plan))

    def _frame_of(self, node: Physical, extras: bool = False) -> DataFrame:
        given = self.lower(node)
        return self._query(given.text if extras else _only(given, node.columns))

    def _framed(self, frame: DataFrame) -> Lowered:
        return Lowered(self._rows_of(frame))

    def frame(self, plan: Plan) -> DataFrame:
        found = self._inputs.get(id(plan))
        return self._query(found) if found is not None else super().frame(plan)

    def sql(self, plan: Plan) -> str:
        found = self._inputs.get(id(plan))
        return found if found is not None else super().sql(plan)

    def _subquery(self, plan: Plan) -> str:
        physical = self._standing_alone.get(plan.columns)
        return super()._subquery(plan) if physical is None else _only(self.lower(physical), plan.columns)

    # --- exchanges

    def _move(self, node: Physical, operator: ops.Move) -> Lowered:
        given, how = self.lower(node.inputs[0]), operator.how
        if operator.readers is not None:
            return self._in_place(node, operator, given)
        if isinstance(how, Repartitioning) and isinstance(how.scheme, Replicated):
            return replace(given, copied=True)
        if isinstance(how, InitialPartitioning) and isinstance(how.scheme, Scattered):
            number = how.scheme.partitions or node.amount.partitions
            return Lowered(f"SELECT /*+ REPARTITION({number}) */ * FROM ({_only(given, node.columns)})")
        sent, sending = self._sent(given, node, node.inputs[0].columns)
        match sending:
            case bridge.SendToOne():
                return replace(sent, text=f"SELECT /*+ REPARTITION(1) */ * FROM ({sent.text})")
            case bridge.SendByHash(columns, partitions) if sent.numbered:
                frame = self._query(sent.text).repartitionById(partitions, F.col(columns[0]))
                return replace(sent, text=self._rows_of(frame))
            case bridge.SendByHash(columns, partitions):
                by = ", ".join(map(quote, columns))
                return replace(sent, text=f"SELECT /*+ REPARTITION({partitions}, {by}) */ * FROM ({sent.text})")
            case bridge.SendByRange(keys, partitions):
                frame = self._query(sent.text).repartitionByRange(partitions, *(ordered(*key) for key in keys))
                return replace(sent, text=self._rows_of(frame))

    def _in_place(self, node: Physical, operator: ops.Move, given: Lowered) -> Lowered:
        """Partitions are merged and split where they are, by those who need them."""
        old, new = node.inputs[0].delivered.partitioning, getattr(operator.how, "scheme", None)
        if not isinstance(old, Partitioned) or not isinstance(new, Partitioned):
            raise InternalError(f"an exchange by {new} cannot read {old} in place")
        reads = connections(old.function, new.function)
        if reads is None:
            raise InternalError(f"nothing tells which partitions of {old} an exchange by {new} needs")
        number = self._new("_p", pa.int32())
        frame = self._query(_only(given, node.columns))
        belongs = None if _are_whole(reads) else number_of(self._spark, new)
        frame = narrow(frame, reads, number.spark_name, belongs, partitions=old.function.partitions)
        return Lowered(self._rows_of(frame), (number,), (number,), numbered=True)

    def _sent(self, given: Lowered, move: Physical, columns: Sequence[Column]) -> tuple[Lowered, bridge.Sending]:
        """The rows with what they are to be sent by, and how: these columns of them."""
        sent, self.sendings[id(move)] = self._to_send(given, move, columns)
        return sent, self.sendings[id(move)]

    def _to_send(self, given: Lowered, move: Physical, columns: Sequence[Column]) -> tuple[Lowered, bridge.Sending]:
        scheme = getattr(move.operator.how, "scheme", None)  # type: ignore[attr-defined]
        text = _only(given, columns)
        match scheme:
            case None:
                return Lowered(text), bridge.SendToOne()
            case Partitioned(function=RangeFunction() as function, columns=on) if not isinstance(
                function.boundaries, Sampled
            ):
                number = self._new("_p", pa.int32())
                text = self._rows_of(self._query(text).withColumn(number.spark_name, number_of(self._spark, scheme)))
                return self._by_number(text, number, function.partitions)
            case Covering(function=function):
                number = self._new("_p", pa.int32())
                text = self._rows_of(self._query(text).withColumn(number.spark_name, numbers_of(self._spark, scheme)))
                return self._by_number(text, number, function.partitions)
            case Partitioned(function=RangeFunction(keys=orders), columns=on):
                keys = tuple((c.spark_name, o.descending, o.nulls_first) for c, o in zip(on, orders, strict=True))
                return Lowered(text, on, ranges={c: c for c in on}), bridge.SendByRange(
                    keys, scheme.function.partitions
                )
            case Partitioned(function=HashFunction(types=types), columns=on):
                pass
            case _:
                raise InternalError(f"an exchange by {scheme} cannot be run")
        partitions, typed = scheme.function.partitions, list(zip(on, types, strict=True))
        if id(move) in self._numbered:
            number = self._new("_p", pa.int32())
            hashed = ", ".join(_normal(self._typed(column, type_), type_) for column, type_ in typed)
            text = f"SELECT *, pmod(hash({hashed}), {partitions}) AS {name_of(number)} FROM ({text})"
            return self._by_number(text, number, partitions)
        casts = {(column, type_): self._new(column.name, type_) for column, type_ in typed if column.type != type_}
        if casts:
            made = ", ".join(f"{self._typed(*of)} AS {name_of(column)}" for of, column in casts.items())
            text = f"SELECT *, {made} FROM ({text})"
        carriers = tuple(casts.get(of, of[0]) for of in typed)
        by = bridge.SendByHash(tuple(c.spark_name for c in carriers), partitions)
        return Lowered(text, carriers, tuple(casts.values()), casts), by

    @staticmethod
    def _by_number(text: str, number: Column, partitions: int) -> tuple[Lowered, bridge.Sending]:
        by = bridge.SendByHash((number.spark_name,), partitions, numbered=True)
        return Lowered(text, (number,), (number,), numbered=True), by

    # --- helpers

    def _query(self, text: str) -> DataFrame:
        return self._placeholders.frame(self._spark, text)

    def _carried(self, given: Lowered, node: Physical, names: dict[Column, Column]) -> Lowered:
        """What still tells Spark the layout after an operator that keeps it. `names` are the columns that come out, by
        the ones they repeat. A carrier that does not come out stays as an extra, if the plan still knows a layout."""
        if not isinstance(node.delivered.partitioning, Partitioned | Within) or not given.carriers:
            return Lowered("", copied=given.copied)
        if given.ranges is not None:
            named = {names[c]: carrier for c, carrier in given.ranges.items() if c in names}
            extras = tuple(c for c in given.carriers if names.get(c) != c)
            return Lowered("", given.carriers, extras, {}, given.copied, ranges=named)
        carriers = tuple(names.get(c, c) for c in given.carriers)
        extras = tuple(c for c in given.carriers if c not in names)
        casts = {(names.get(c, c), t): made for (c, t), made in given.casts.items() if made in extras}
        return Lowered("", carriers, extras, casts, given.copied, given.numbered, given.leads)

    def _typed(self, column: Column, type_: DataType) -> str:
        return name_of(column) if type_ in (None, column.type) else self._expression(Cast(Ref(column), type_))


def _covering(join: Physical) -> Physical | None:
    """The input of a join that is copied to where the other can have matches."""
    return next((each for each in join.inputs if isinstance(each.delivered.partitioning, Covering)), None)


def _number(given: Lowered) -> Column:
    """The column with the number of the partition, which rows have for Spark to know them by, or have for a join alone."""
    numbers = given.carriers if given.numbered else given.extras[-1:]
    if len(numbers) != 1:
        raise InternalError("rows that are copied to some partitions meet rows of unknown partitions")
    return numbers[0]


def _merged(call: AggregateCall, state: Column) -> Expression:
    """What findings are together, as the aggregate of all rows would be. Counts of nothing are 0, where their sum is NULL."""
    made: Expression = AggregateCall(MERGED_BY[call.function], (Ref(state),), call.type)
    if call.function == "count":
        return Call("coalesce", (made, Literal(0, pa.int64())), pa.int64())
    # A sum of decimals has more digits than what is summed up.
    return Cast(made, call.type) if call.function == "sum" and pa.types.is_decimal(call.type) else made


def _combines(operator: Any) -> bool:
    """Does it stand between the halves of an aggregate, and yields findings of findings?"""
    return getattr(operator, "phase", None) == "combining"


def _are_whole(reads: Sequence[Sequence[int]]) -> bool:
    """Is every partition read by one reader only, which then takes all of it?"""
    every = [i for of in reads for i in of]
    return len(every) == len(set(every))


def _with_carriers(keys: Sequence[Column], given: Lowered, below: Physical) -> list[Column]:
    """Each carrier right after the keys that determine it: what is sorted by a longer list is then sorted by a shorter. Of
    rows that are stored in an order, the number of the partition is the first of all. (What is not in order yet is sorted
    sooner if its first key tells most rows apart.)"""
    if given.leads and keys:
        return [*given.carriers, *keys]
    found: list[Column] = []
    made: dict[Column, tuple[Column, ...]] = {carrier: (column,) for (column, _), carrier in given.casts.items()}
    waiting = {c: made.get(c, (c,)) for c in given.carriers if keys and c not in keys}
    if given.numbered:
        waiting = dict.fromkeys(waiting, _layout_columns(below))
    for key in keys:
        found.append(key)
        for carrier, source in list(waiting.items()):
            if source and below.facts.determines(found, source):
                found.append(carrier)
                del waiting[carrier]
    return [*found, *waiting]


def _as_laid_out(node: Physical, column: Column) -> Column:
    """The column, or one that equals it if rows are laid out by that: Spark does not know that the two are equal."""
    by = _layout_columns(node)
    same = (each for each in by if each.type == column.type and node.facts.equal(each, column))
    return column if column in by else next(same, column)


def _layout_columns(node: Physical) -> tuple[Column, ...]:
    layout = node.delivered.partitioning
    return layout.columns if isinstance(layout, Partitioned) else ()


def _only(given: Lowered, columns: Sequence[Column]) -> str:
    return f"SELECT {names_of(columns)} FROM ({given.text})" if columns else given.text


def _as_typed(given: Lowered, listed: Sequence[Column], columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns as they are in the types of others, where they were cast to those for an exchange."""
    return tuple(given.casts.get((c, made.type), c) for c, made in zip(listed, columns, strict=True))


def _in_one_stream(text: str) -> str:
    return f"SELECT /*+ COALESCE(1) */ * FROM ({text})"


def _is_serial(node: Physical) -> bool:
    return isinstance(node.delivered.partitioning, Serial)


def _normal(text: str, type_: DataType) -> str:
    """Numbers that are equal to GROUP BY and joins, as one."""
    if type_ is not None and pa.types.is_floating(type_):
        name = spark_name(type_)
        return f"if(isnan({text}), CAST('NaN' AS {name}), {text} + CAST(0 AS {name}))"
    return text


def _order(keys: Sequence[Sorted]) -> str:
    return ", ".join(
        f"{name_of(key.column)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    )


_RULES: dict[type, Callable[[Lowering, Physical, Any], Lowered]] = {
    ops.FileScan: Lowering._scan,
    ops.TableRead: Lowering._table,
    ops.Rows: Lowering._rows,
    ops.ReadSpool: Lowering._read_spool,
    ops.Rename: Lowering._rename,
    ops.Select: Lowering._select,
    ops.Compute: Lowering._compute,
    ops.Enlarge: Lowering._enlarge,
    ops.HashAggregate: Lowering._aggregate,
    ops.StreamAggregate: Lowering._aggregate,
    ops.HashJoin: Lowering._joined,
    ops.MergeJoin: Lowering._joined,
    ops.LoopJoin: Lowering._joined,
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
