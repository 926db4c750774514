"""Small random logical queries, for the search and for the exhaustive enumeration.

A query is a tree over one to four tables. Tables are tiny to huge, some of them stored in partitions; columns are keys,
determined by others, skewed, nullable or not. Values come from few domains, so that columns of two tables can be joined: a
domain is a type and a number of values, and an int and a bigint may share a domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers, Dependency
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, TableStatistics
from unshuffle.cost.machine import Machine
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, Ref, SortKey, WindowCall
from unshuffle.plan.logical import (
    Files,
    Filter,
    Format,
    GroupBy,
    Join,
    Limit,
    Output,
    Plan,
    Project,
    Scan,
    Script,
    SetKind,
    SetOperation,
    Sort,
    Window,
)
from unshuffle.plan.predicates import conjunction
from unshuffle.properties import Delivered, Local, asc, hashed, ranged

SIZES = (10.0, 5e3, 2e5, 3e6, 4e7, 1e9)
SMALL = 5e3
COUNTS = (3, 6, 45, 64)
INTEGERS = (pa.int32(), pa.int64())


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    script: Script
    numbers: ColumnNumbers
    machine: Machine


def query(seed: int, inputs: int | None = None) -> Query:
    """The same query for the same seed."""
    return _Maker(Random(seed)).query(f"query {seed}", inputs)


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.numbers = ColumnNumbers()
        self.domains: dict[Column, int] = {}  # two columns of one domain can be joined

    def query(self, name: str, inputs: int | None) -> Query:
        count = inputs or self.random.choices((1, 2, 3, 4), (3, 6, 4, 1))[0]
        plan = self.top(self.rowset(count))
        script = Script((Output(plan, None),))
        return Query(name, script, self.numbers, self.machine())

    def machine(self) -> Machine:
        """Mostly a machine that would split all but stored data into as many partitions as it has cores. The number
        of partitions is a rule of thumb and not the subject of the search; where sizes differ, there is more to
        choose from."""
        cores = self.random.choice((2, 4))
        if self.random.random() < 0.75:
            machine = Machine(cores=cores, partition_bytes=1e15, file_piece_bytes=1e15)
        else:
            machine = Machine(cores=cores)
        # Some caches hold all hash tables, so that small partitions are of no use.
        return replace(machine, cache_bytes=1e15) if self.random.random() < 0.5 else machine

    # --- tables

    def column(self, name: str, domain: int, nullable: bool) -> Column:
        type_ = pa.string() if domain == 0 else self.random.choice(INTEGERS)
        column = self.numbers.new(name, type_, nullable)
        self.domains[column] = domain
        return column

    def table(self) -> Scan:
        random = self.random
        rows = random.choice(SIZES)
        columns = tuple(
            self.column(name, 1 if name == "a" else random.choice((0, 1, 2, 2)), random.random() < 0.3)
            for name in "abcd"[: random.choice((2, 2, 3, 3, 4))]
        )
        keys: tuple[frozenset[Column], ...] = ()
        if random.random() < 0.4:
            keys = (frozenset(random.sample(columns, random.choice((1, 1, 2)))),)
        dependencies: tuple[Dependency, ...] = ()
        if len(columns) > 2 and random.random() < 0.35:
            one, other = random.sample(columns, 2)
            dependencies = (Dependency(frozenset((one,)), frozenset((other,))),)
        known = self.statistics(rows, columns, keys, dependencies)
        width = sum(8.0 if column.type != pa.string() else 20.0 for column in columns)
        return Scan(
            f"t{columns[0].id}",
            Files((f"t{columns[0].id}",), Format("Parquet"), rows=int(rows), bytes=int(rows * width / 3)),
            columns,
            keys,
            dependencies,
            self.layout(columns) if random.random() < 0.35 else None,
            statistics=TableStatistics(rows, None, known),
        )

    def statistics(
        self,
        rows: float,
        columns: Sequence[Column],
        keys: Sequence[frozenset[Column]],
        dependencies: Sequence[Dependency],
    ) -> tuple[tuple[Column, ColumnStatistics], ...]:
        """Statistics that contradict no key and no dependency: a determined column has no more values, and the same
        skew."""
        random = self.random
        distinct = {column: min(rows, random.choice((2.0, 50.0, 1e4, 1e6, rows))) for column in columns}
        common = {column: random.choice((0.05, 0.6)) if random.random() < 0.15 else 0.0 for column in columns}
        alone = frozenset(column for key in keys if len(key) == 1 for column in key)
        for column in alone:
            distinct[column], common[column] = rows, 0.0
        for each in dependencies:
            (one,), (other,) = each.determinant, each.dependent
            distinct[other] = min(distinct[one], distinct[other])
            common[other] = max(common[one], common[other])
        return tuple(
            (
                column,
                ColumnStatistics(
                    distinct[column],
                    0.05 if column.nullable and common[column] < 0.5 and column not in alone else 0.0,
                    common=((1, common[column]),) if common[column] and column.type != pa.string() else (),
                ),
            )
            for column in columns
        )

    def layout(self, columns: Sequence[Column]) -> Delivered:
        random = self.random
        on = random.sample(columns, random.choice((1, 1, 2)))
        count = random.choice(COUNTS)
        numeric = on[0].type in INTEGERS
        if numeric and random.random() < 0.4:
            if on[-1].type not in INTEGERS:
                on = on[:1]
            # With two columns, every second boundary is between rows that agree on the first.
            cuts = [(100 * i,) for i in range(1, count)]
            if len(on) > 1:
                cuts = [(100 * (i // 2), 50)[: 1 + i % 2] for i in range(2, count + 1)]
            place = ranged([asc(c) for c in on], cuts)
        else:
            place = hashed(on, count)
        order: Local = ()
        if random.random() < 0.6:
            rest = [c for c in columns if c not in on]
            order = tuple(asc(c) for c in (*on, *rest[: random.randrange(2)]))
        return Delivered(place, order)

    # --- rowsets

    def rowset(self, inputs: int) -> Plan:
        if inputs == 1:
            return self.adorned(self.table(), 0.35)
        left = self.rowset(self.random.randrange(1, inputs))
        right = self.rowset(inputs - _scans(left))
        if self.random.random() < 0.12:
            united = self.union(left, right)
            if united is not None:
                return self.adorned(united, 0.2)
        return self.adorned(self.join(left, right), 0.2)

    def adorned(self, plan: Plan, chance: float) -> Plan:
        random = self.random
        if random.random() < chance:
            plan = self.filter(plan)
        if random.random() < chance * 0.6:
            plan = self.project(plan)
        if random.random() < chance * 0.6:
            plan = self.group_by(plan)
        return plan

    def join(self, left: Plan, right: Plan) -> Plan:
        random = self.random
        kind = random.choices(
            (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI),
            (12, 2, 1, 1, 1, 1),
        )[0]
        pairs = [(a, b) for a in left.columns for b in right.columns if self.domains[a] == self.domains[b]]
        # Nobody runs a product of two large tables.
        small = min(_rows(left), _rows(right)) <= SMALL
        pair_count = random.choices((0, 1, 2), (1 if small else 0, 14, 5))[0]
        chosen: list[tuple[Column, Column]] = []
        for a, b in random.sample(pairs, len(pairs)):
            if len(chosen) < pair_count and all(a != x and b != y for x, y in chosen):
                chosen.append((a, b))
        safe = random.random() < 0.05
        parts: list[Expression] = [Call("<=>" if safe else "=", (Ref(a), Ref(b)), pa.bool_()) for a, b in chosen]
        made = Join(kind, left, right, conjunction(parts))
        for column in made.columns:
            self.domains[column] = self.domains[column]
        if random.random() < 0.5:
            kept = tuple(c for c in made.columns if random.random() < 0.7) or made.columns[:1]
            made = replace(made, kept=kept)
        return made

    def union(self, left: Plan, right: Plan) -> Plan | None:
        pairs = []
        for a in left.columns:
            found = [b for b in right.columns if self.domains[a] == self.domains[b] and all(b != y for _, y in pairs)]
            if found:
                pairs.append((a, self.random.choice(found)))
        if not pairs:
            return None
        sides = [
            Project(side, tuple((c, Ref(c)) for c in chosen))
            for side, chosen in zip((left, right), zip(*pairs, strict=True), strict=True)
        ]
        columns = []
        for a, b in pairs:
            wide = a if a.type == pa.int64() else b
            column = self.numbers.like(wide, nullable=a.nullable or b.nullable)
            self.domains[column] = self.domains[a]
            columns.append(column)
        return SetOperation(SetKind.UNION, True, tuple(sides), tuple(columns))

    # --- one input

    def filter(self, plan: Plan) -> Plan:
        column = self.random.choice(plan.columns)
        value = Literal("x" if column.type == pa.string() else 7, column.type)
        name = self.random.choice(("=", "=", "<", ">"))
        return Filter(plan, Call(name, (Ref(column), value), pa.bool_()))

    def project(self, plan: Plan) -> Plan:
        outputs: list[tuple[Column, Expression]] = []
        for column in plan.columns:
            chance = self.random.random()
            if chance < 0.5:
                outputs.append((column, Ref(column)))
            elif chance < 0.8:
                renamed = self.numbers.like(column, f"{column.name}'")
                self.domains[renamed] = self.domains[column]
                outputs.append((renamed, Ref(column)))
        if not outputs or self.random.random() < 0.3:
            source = self.random.choice(plan.columns)
            computed = self.numbers.like(source, f"f({source.name})")
            self.domains[computed] = self.domains[source]
            outputs.append(
                (computed, Call("upper" if source.type == pa.string() else "abs", (Ref(source),), source.type))
            )
        return Project(plan, tuple(outputs))

    def group_by(self, plan: Plan) -> Plan:
        random = self.random
        count = random.choices((0, 1, 2), (1, 6, 4))[0]
        keys = tuple(random.sample(plan.columns, min(count, len(plan.columns))))
        aggregates: list[tuple[Column, AggregateCall]] = []
        if not keys or random.random() < 0.75:
            source = random.choice(plan.columns)
            function, type_ = random.choice((("max", source.type), ("count", pa.int64()), ("collect_list", None)))
            column = self.numbers.new(function, type_, function != "count")
            self.domains[column] = 9
            aggregates.append((column, AggregateCall(function, (Ref(source),), type_)))
        return GroupBy(plan, keys, tuple(aggregates))

    def window(self, plan: Plan) -> Plan:
        random = self.random
        by = random.sample(plan.columns, random.choice((0, 1, 1, 2)) if len(plan.columns) > 1 else 1)
        rest = [c for c in plan.columns if c not in by]
        order = self.order(rest[:1]) if rest else ()
        column = self.numbers.new("rank", pa.int32(), False)
        self.domains[column] = 9
        call = WindowCall(Call("rank", (), pa.int32()), tuple(Ref(c) for c in by), order, None)
        return Window(plan, ((column, call),))

    def order(self, columns: Sequence[Column]) -> tuple[SortKey, ...]:
        return tuple(SortKey(Ref(c), down := self.random.random() < 0.25, not down) for c in columns)

    def top(self, plan: Plan) -> Plan:
        random = self.random
        chance = random.random()
        if chance < 0.25:
            plan = self.group_by(plan)
        elif chance < 0.35:
            plan = self.window(plan)
        chance = random.random()
        if chance < 0.3:
            count = min(len(plan.columns), random.choice((1, 1, 2)))
            plan = Sort(plan, self.order(random.sample(plan.columns, count)))
        if random.random() < 0.15:
            plan = Limit(plan, random.choice((1, 10, 1000)))
        return plan


def _scans(plan: Any) -> int:
    return 1 if isinstance(plan, Scan) else sum(map(_scans, plan.children))


def _rows(plan: Any) -> float:
    return plan.statistics.rows if isinstance(plan, Scan) else max(map(_rows, plan.children))
