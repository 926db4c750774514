"""Small tables with exact statistics, plans over them, and the rows that the plans return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from unshuffle.cardinality.estimate import Estimate, estimate
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers, Dependency
from unshuffle.catalog.statistics.column_statistics import profile_column
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, TableStatistics
from unshuffle.plan.expressions import Call, Cast, Expression, Literal, Ref
from unshuffle.plan.facts import facts_of
from unshuffle.plan.logical import Files, Filter, Format, Join, Plan, Scan

NUMBERS = ColumnNumbers()
BOOLEAN = pa.bool_()
Row = tuple[Any, ...]


class Table:
    """Rows in memory, and a scan that carries their statistics."""

    def __init__(
        self,
        values: dict[str, Sequence[Any]],
        keys: Iterable[Sequence[str]] = (),
        depends: Iterable[tuple[Sequence[str], Sequence[str]]] = (),
        types: dict[str, pa.DataType] | None = None,
        order_dependencies: Sequence[Sequence[str]] = (),
        columns: dict[str, Column] | None = None,
    ) -> None:
        arrays = {name: pa.array(column, (types or {}).get(name)) for name, column in values.items()}
        self.columns = columns or {name: NUMBERS.new(name, array.type) for name, array in arrays.items()}
        self.rows = list(zip(*values.values(), strict=True))
        self.values = values
        known = tuple(
            (self.columns[name], profile_column(pa.chunked_array([array]), array.type).statistics)
            for name, array in arrays.items()
        )
        self.scan = scan(
            self.columns.values(),
            len(self.rows),
            known,
            [frozenset(self.columns[name] for name in key) for key in keys],
            [
                Dependency(frozenset(self.columns[n] for n in left), frozenset(self.columns[n] for n in right))
                for left, right in depends
            ],
        )
        groups = tuple(tuple(self.columns[name] for name in group) for group in order_dependencies)
        assert self.scan.statistics is not None
        self.scan = replace(self.scan, statistics=replace(self.scan.statistics, order_dependencies=groups))

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


def scan(
    columns: Iterable[Column],
    rows: float,
    known: Sequence[tuple[Column, ColumnStatistics]],
    keys: Sequence[frozenset[Column]] = (),
    dependencies: Sequence[Dependency] = (),
) -> Scan:
    files = Files(("t",), Format("Parquet"), None, int(rows), None)
    statistics = TableStatistics(rows, None, tuple(known))
    return Scan("t", files, tuple(columns), tuple(keys), tuple(dependencies), None, statistics)


def described(
    rows: float, key: str | None = None, **columns: tuple[float, float] | float
) -> tuple[Scan, dict[str, Column]]:
    """A table known only by its statistics: the distinct values, and optionally the fraction of NULLs, of each
    column."""
    made = {name: NUMBERS.new(name, pa.int64()) for name in columns}
    known = []
    for name, given in columns.items():
        distinct, nulls = given if isinstance(given, tuple) else (given, 0.0)
        known.append((made[name], ColumnStatistics(distinct, nulls)))
    return scan(made.values(), rows, known, [frozenset((made[key],))] if key is not None else []), made


def estimated(plan: Plan) -> Estimate:
    inputs = [estimated(child) for child in plan.children]
    return estimate(plan, inputs, facts_of(plan, [each.facts for each in inputs]))


def literal(value: Any) -> Literal:
    return Literal(value, pa.scalar(value).type)


def call(name: str, *arguments: Any) -> Call:
    def operand(given: Any) -> Expression:
        if isinstance(given, Column):
            return Ref(given)
        return given if isinstance(given, Call | Cast | Literal | Ref) else literal(given)

    return Call(name, tuple(map(operand, arguments)), BOOLEAN)


def all_of(*conditions: Call) -> Call:
    return conditions[0] if len(conditions) == 1 else Call("and", conditions, BOOLEAN)


def where(table: Table, *conditions: Call) -> Filter:
    return Filter(table.scan, all_of(*conditions))


def joined(left: Plan, right: Plan, *pairs: tuple[Column, Column], kind: JoinKind = JoinKind.INNER) -> Join:
    conditions = [call("=", one, other) for one, other in pairs]
    return Join(kind, left, right, all_of(*conditions) if conditions else None)


def q_error(estimate: float, truth: float) -> float:
    """The q-error: the factor by which the estimate is too high or too low. Less than one row counts as one row."""
    one, other = max(1.0, estimate), max(1.0, truth)
    return max(one / other, other / one)


def count(rows: Iterable[Row], keep: Callable[..., bool]) -> int:
    return sum(1 for row in rows if keep(*row))
