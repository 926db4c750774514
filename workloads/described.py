"""Tables that are described, not stored: columns, keys and statistics as text, for plans without data.

The first line of a description names the table, the indented lines name its columns:

    orders  rows=150000000 key(o_orderkey) depends(o_clerk -> o_shippriority)
        o_orderkey   bigint
        o_custkey    bigint  distinct=9999600
        o_clerk      string  distinct=100000 width=15 nulls=0.1
        o_orderdate  date    distinct=2406 low=1992-01-01 high=1998-08-02

`Described` writes an empty Parquet file for each table, so that queries are bound as usual, and then gives every scan the
described facts and statistics. A column that is a key by itself has as many values as there are rows.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unshuffle.catalog.schema import Dependency
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics, TableStatistics, default_width
from unshuffle.catalog.tables import TableFolders
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.declarations import Declarations
from unshuffle.errors import Source
from unshuffle.language.bind.context import unchecked
from unshuffle.language.bind.script import bind
from unshuffle.language.parse.parameters import Parameters
from unshuffle.plan.logical import Plan, Scan, Script, Shared
from unshuffle.plan.rebuild import map_inputs
from workloads.no_spark import NoSpark

TODAY = datetime.date(2025, 6, 30)  # so that a script's Today is the same every day
_COMPRESSION = 0.5  # of a value in a file, against its width in memory

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    rows: float
    columns: tuple[tuple[str, pa.DataType, ColumnStatistics], ...]
    keys: tuple[Names, ...] = ()
    dependencies: tuple[tuple[Names, Names], ...] = ()

    def sized(self, rows: float) -> Table:
        """The same table with another number of rows: unique columns stay unique, the others keep their distinct
        values."""
        columns = tuple(
            (name, type, replace(known, distinct=min(known.distinct, rows)) if known.distinct is not None else known)
            for name, type, known in self.columns
        )
        return replace(self, rows=rows, columns=columns)


def parse(text: str) -> tuple[Table, ...]:
    """The tables of a description. Raises ValueError with the line that is wrong."""
    tables: list[Table] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        try:
            if not line[0].isspace():
                tables.append(_table(line))
            else:
                tables[-1] = replace(tables[-1], columns=(*tables[-1].columns, _column(line)))
        except (ValueError, LookupError, TypeError, ArithmeticError) as problem:
            raise ValueError(f"not a table or a column: {line.strip()!r} ({problem})") from None
    for table in tables:
        known = {name for name, _, _ in table.columns}
        used = [*table.keys, *(side for pair in table.dependencies for side in pair)]
        if unknown := sorted(frozenset().union(*used) - known):
            raise ValueError(f"{table.name} has no column {unknown[0]!r}")
    return tuple(tables)


def _table(line: str) -> Table:
    match = re.fullmatch(r"(?P<name>\w+)\s+rows=(?P<rows>[\d.e+]+)(?P<rest>(\s+(key|depends)\([^)]*\))*)\s*", line)
    if match is None:
        raise ValueError("expected NAME rows=N key(a, b) depends(a -> b)")
    declared = re.findall(r"(key|depends)\(([^)]*)\)", match["rest"])
    pairs = (inside.split("->") for word, inside in declared if word == "depends")
    return Table(
        match["name"],
        float(match["rows"]),
        (),
        tuple(_names(inside) for word, inside in declared if word == "key"),
        tuple((_names(left), _names(right)) for left, right in pairs),
    )


def _names(text: str) -> Names:
    return frozenset(part.strip() for part in text.split(","))


def _column(line: str) -> tuple[str, pa.DataType, ColumnStatistics]:
    name, type_name, *options = line.split()
    type = from_spark_name(type_name)
    known: dict[str, Any] = {}
    for option in options:
        key, _, value = option.partition("=")
        field = {"nulls": "null_fraction"}.get(key, key)
        if field not in ("distinct", "null_fraction", "width", "low", "high"):
            raise ValueError(f"{key} is no statistic")
        known[field] = _value(value, type) if field in ("low", "high") else float(value)
    return name, type, ColumnStatistics(**known)


def _value(text: str, type: pa.DataType) -> Any:
    if pa.types.is_integer(type):
        return int(text)
    if pa.types.is_decimal(type):
        return Decimal(text)
    if pa.types.is_floating(type):
        return float(text)
    if pa.types.is_date(type):
        return datetime.date.fromisoformat(text)
    return text


class Described:
    """Described tables that queries can be bound over. `folder` gets their (empty) files."""

    def __init__(self, folder: Path, tables: tuple[Table, ...]) -> None:
        self.folder = folder
        self.tables = {table.name.lower(): table for table in tables}
        folder.mkdir(parents=True, exist_ok=True)
        for table in tables:
            schema = pa.schema([(name, type) for name, type, _ in table.columns])
            pq.write_table(schema.empty_table(), folder / f"{table.name}.parquet")

    def bind(
        self, text: str, name: str = "<query>", *, is_script: bool = False, rows: Mapping[str, float] | None = None
    ) -> Script:
        """The plan of a query, or of a script whose inputs are under `@data`. `rows` overrides the size of
        tables."""
        tables = dict(self.tables)
        for table, count in (rows or {}).items():
            tables[table.lower()] = tables[table.lower()].sized(count)
        parameters = Parameters({"data": str(self.folder)}, today=TODAY)
        parameters.declare_python_values()
        folders = TableFolders((str(self.folder),))
        bound = bind(Source(name, text), parameters, folders, NoSpark(), unchecked, is_script)
        script = Declarations().check(bound)
        return with_scans(script, lambda scan: _described(scan, tables[Path(scan.files.paths[0]).stem.lower()]))


def _described(scan: Scan, table: Table) -> Scan:
    by_name = {column.name.lower(): column for column in scan.columns}
    alone = {name for key in table.keys if len(key) == 1 for name in key}
    known = {
        name.lower(): replace(statistics, distinct=table.rows)
        if name in alone and statistics.distinct is None
        else statistics
        for name, _, statistics in table.columns
    }
    width = sum(statistics.width or default_width(type) for _, type, statistics in table.columns)
    bytes = table.rows * width * _COMPRESSION
    columns = tuple((column, known[column.name.lower()]) for column in scan.columns)

    def all_read(names: Names) -> bool:
        return all(name.lower() in by_name for name in names)

    def columns_of(names: Names) -> frozenset[Any]:
        return frozenset(by_name[name.lower()] for name in names)

    return replace(
        scan,
        files=replace(scan.files, rows=round(table.rows), bytes=round(bytes)),
        keys=(*scan.keys, *(columns_of(key) for key in table.keys if all_read(key))),
        dependencies=(
            *scan.dependencies,
            *(Dependency(columns_of(a), columns_of(b)) for a, b in table.dependencies if all_read(a) and all_read(b)),
        ),
        statistics=TableStatistics(table.rows, bytes, columns),
    )


def with_scans(script: Script, change: Callable[[Scan], Scan]) -> Script:
    """The same script with every scan changed. Shared rowsets stay shared."""
    rebuilt: dict[int, Shared] = {}

    def visit(plan: Plan) -> Plan:
        match plan:
            case Scan():
                return change(plan)
            case Shared():
                if id(plan) not in rebuilt:
                    rebuilt[id(plan)] = Shared(plan.name, visit(plan.child))
                return rebuilt[id(plan)]
            case _:
                return map_inputs(plan, visit)

    return Script(tuple(replace(output, plan=visit(output.plan)) for output in script.outputs))
