"""Random tables over Spark's types, as SQL statements that create them.

A column's kind says what it can be compared with; its type is one of the types of the kind. Values are texts that Spark casts
to the type. Catalog tables may be partitioned or bucketed; other tables are Parquet files, views, or cached views. CHAR and
VARCHAR exist in catalog tables only.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.hunt.draw import Draw

TYPES = {
    "int": ["int", "bigint", "tinyint", "smallint"],
    "text": ["string", "varchar(8)", "char(5)"],
    "decimal": ["decimal(10,2)", "decimal(38,6)", "decimal(38,0)", "decimal(20,10)", "decimal(5,5)"],
    "real": ["double", "float"],
    "folded": ["string collate utf8_lcase"],
    "bool": ["boolean"],
    "date": ["date"],
    "timestamp": ["timestamp"],
    "ntz": ["timestamp_ntz"],
    "days": ["interval day to second"],
    "months": ["interval year to month"],
    "binary": ["binary"],
    "array": ["array<int>"],
    "struct": ["struct<p:int,q:string>"],
    "map": ["map<string,int>"],
}
VALUES = {
    "int": ["1", "0", "2", "3", "-1", "5", "7", "127", "-128"],
    "text": ["a", "", "b", "A", "a ", "é", "É", "日本", "𝄞", "0", "01", "12", "2024-01-01", "a%b_", "ß", "null"],
    "decimal": ["0.5", "0", "0.00", "-0.5", "0.25", "0.12345"],
    "real": ["1.0", "0.0", "-0.0", "NaN", "2.5", "-1.0", "Infinity", "-Infinity", "0.5"],
    "folded": ["a", "A", "b", "B", "", "é", "É", "a "],
    "bool": ["true", "false"],
    "date": ["2024-01-01", "2024-02-29", "1970-01-01", "1582-10-15", "9999-12-31", "2023-12-31"],
    "timestamp": ["2024-01-01 00:00:00", "2024-03-10 02:30:00", "2024-11-03 01:30:00", "1969-12-31 23:59:59.999999"],
    "ntz": ["2024-01-01 00:00:00", "2024-03-10 02:30:00", "1900-01-01 00:00:00.000001", "2024-02-29 12:00:00"],
    "days": ["0 00:00:00", "1 02:03:04", "-1 00:00:00.000001", "100 00:00:00"],
    "months": ["0-0", "1-2", "-1-0", "0-11"],
    "binary": ["", "a", "ab", "é"],
    "array": ["array(1)", "array()", "array(1, null)", "array(2, 1)", "array(1, 1, 3)"],
    "struct": [
        "named_struct('p', 1, 'q', 'a')",
        "named_struct('p', null, 'q', 'b')",
        "named_struct('p', 2, 'q', null)",
    ],
    "map": ["map('a', 1)", "map()", "map('a', 2, 'b', null)", "map('b', 1)"],
}
# Values at the ends of a type.
EXTREMES = {
    "int": ["2147483647", "-2147483648"],
    "bigint": ["9223372036854775807", "-9223372036854775808"],
    "smallint": ["32767", "-32768"],
    "double": ["1.7976931348623157E308", "4.9E-324"],
    "decimal(38,6)": ["99999999999999999999999999999999.999999", "-12345678901234567890123456789012.123456"],
    "decimal(38,0)": ["99999999999999999999999999999999999999", "-1"],
    "timestamp": ["0001-01-03 00:00:00", "9999-12-30 00:00:00"],
    "date": ["0001-01-03"],
}
WHOLE = ["1", "0", "-2", "3"]  # of decimals without a fraction
NESTED = ("array", "struct", "map")
CATALOG = ("table", "partitioned", "bucketed")
PARTITION_KINDS = ("int", "text", "date", "bool")


@dataclass(frozen=True, slots=True)
class Column:
    """A column as a query refers to it."""

    name: str
    kind: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    statements: tuple[str, ...]
    drop: tuple[str, ...]


def tables(draw: Draw) -> list[Table]:
    return [table(draw.at("table"), f"t{i}") for i in range(draw.number(2, 4))]


def table(draw: Draw, name: str) -> Table:
    storage = draw.at("storage").pick(["view", "table", "files", "cached", "partitioned", "bucketed"])
    columns = _columns(draw.at("columns"), name, storage in CATALOG)
    statements, drop = _statements(draw.at("storing"), name, columns, storage, _rows(draw.at("rows"), columns))
    return Table(name, columns, tuple(statements), tuple(drop))


def _columns(draw: Draw, table: str, in_catalog: bool) -> tuple[Column, ...]:
    kinds = ["int", "int", "text", *(draw.at("kind").pick(list(TYPES)) for _ in range(draw.number(1, 5)))]
    letter = "abcd"[int(table[1:])]
    found = []
    for i, kind in enumerate(kinds):
        types = [each for each in TYPES[kind] if in_catalog or "char" not in each]
        found.append(Column(f"{letter}{i}", kind, draw.at("type").pick(types)))
    return tuple(found)


def _rows(draw: Draw, columns: tuple[Column, ...]) -> list[str]:
    """Rows in groups of eight, so that shrinking can drop a group at once. Some columns have one value in most rows."""
    hot = [_value(draw.at("hot"), column) if draw.at("skewed").chance(0.3) else None for column in columns]
    without_nulls = [draw.at("nulls").chance(0.3) for _ in columns]
    found: list[str] = []
    for _ in range(draw.pick([1, 0, 2, 3, 4, 7])):
        group = draw.at("group")
        if not group.chance(0.95):
            continue
        for _ in range(8):
            row = group.at("row")
            if row.chance(0.95):
                values = zip(columns, hot, without_nulls, strict=True)
                found.append(f"({', '.join(_row_value(row, *each) for each in values)})")
    return found


def _row_value(draw: Draw, column: Column, hot: str | None, is_required: bool) -> str:
    if hot is not None and draw.chance(0.6):
        return hot
    return "null" if not is_required and draw.chance(0.15) else _value(draw, column)


def _value(draw: Draw, column: Column) -> str:
    values = WHOLE if column.type == "decimal(38,0)" else VALUES[column.kind]
    if column.type in EXTREMES and draw.chance(0.1):
        values = EXTREMES[column.type]
    if column.type == "char(5)" or column.type == "varchar(8)":
        values = [each for each in values if len(each) <= 5]
    value = draw.pick(values)
    return value if column.kind in NESTED else f"'{value}'"


def _statements(
    draw: Draw, name: str, columns: tuple[Column, ...], storage: str, rows: list[str]
) -> tuple[list[str], list[str]]:
    # A view would repartition its rows in each query that reads it.
    select = rows_as_select(columns, rows, 1 if storage == "view" else draw.number(1, 3))
    if storage in ("view", "cached"):
        made = [f"create or replace temporary view {name} as {select}"]
        return made + [f"cache table {name}"] * (storage == "cached"), [f"drop view if exists {name}"]
    if storage == "files":
        folder = f"{{folder}}/{name}"
        return [
            f"insert overwrite directory '{folder}' using parquet {select}",
            f"create or replace temporary view {name} using parquet options (path '{folder}')",
        ], [f"drop view if exists {name}"]
    defined = ", ".join(f"{each.name} {each.type}" for each in columns)
    create = f"create table {name} ({defined}) using parquet{_layout(draw, columns, storage)}"
    listed = ", ".join(each.name for each in columns)
    return [create, f"insert into {name} ({listed}) {select}"], [f"drop table if exists {name}"]


def _layout(draw: Draw, columns: tuple[Column, ...], storage: str) -> str:
    if storage == "table":
        return ""
    by = draw.pick([each for each in columns if each.kind in PARTITION_KINDS])
    if storage == "partitioned":
        return f" partitioned by ({by.name})"
    order = f" sorted by ({by.name})" if draw.chance(0.5) else ""
    return f" clustered by ({by.name}){order} into {draw.number(1, 4)} buckets"


def rows_as_select(columns: tuple[Column, ...], rows: list[str], pieces: int) -> str:
    """A query that has these rows, in several partitions."""
    hint = f"/*+ repartition({pieces}) */ " if pieces > 1 and rows else ""
    cast = ", ".join(f"cast({each.name} as {_cast_type(each)}) as {each.name}" for each in columns)
    if not rows:
        nulls = ", ".join(f"cast(null as {_cast_type(each)}) as {each.name}" for each in columns)
        return f"select {nulls} where false"
    names = ", ".join(each.name for each in columns)
    return f"select {hint}{cast} from values {', '.join(rows)} as v({names})"


def _cast_type(column: Column) -> str:
    """CHAR and VARCHAR are types of stored columns only."""
    return "string" if "char" in column.type else column.type
