"""Random tables over Spark's types, as SQL statements that create them.

A column's kind says what it can be compared with; its type is one of the types of the kind. Values are texts that Spark casts
to the type. Catalog tables may be partitioned, bucketed or both; other tables are Parquet files, structured streams, views, or
cached views. CHAR and VARCHAR exist in catalog tables only. Some tables have a column that is a key, and one that depends on
another; some have hundreds of rows.

A statement is SQL, or Python over `session` and `spark` if it begins with `session.` or `spark.`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.hunt.draw import Draw
from tests.support.hunt.parts import parts

TYPES = {
    "int": ["int", "bigint", "tinyint", "smallint"],
    "text": ["string", "varchar(8)", "char(5)"],
    "decimal": ["decimal(10,2)", "decimal(38,6)", "decimal(38,0)", "decimal(20,10)", "decimal(5,5)"],
    "real": ["double", "float"],
    "folded": ["string collate utf8_lcase"],
    "unicode": ["string collate unicode_ci"],
    "bool": ["boolean"],
    "date": ["date"],
    "timestamp": ["timestamp"],
    "ntz": ["timestamp_ntz"],
    "days": ["interval day to second", "interval hour to minute", "interval day"],
    "months": ["interval year to month", "interval year"],
    "binary": ["binary"],
    "array": ["array<int>"],
    "struct": ["struct<p:int,q:string>"],
    "map": ["map<string,int>"],
    "nested": ["struct<x:array<struct<y:int,z:string>>,w:double>"],
    "lists": ["array<array<string>>"],
    "variant": ["variant"],
}
VALUES = {
    "int": ["1", "0", "2", "3", "-1", "5", "7", "127", "-128"],
    "text": ["a", "", "b", "A", "a ", "é", "É", "日本", "𝄞", "0", "01", "12", "2024-01-01", "a%b_", "ß", "null"],
    "decimal": ["0.5", "0", "0.00", "-0.5", "0.25", "0.12345"],
    "real": ["1.0", "0.0", "-0.0", "NaN", "2.5", "-1.0", "Infinity", "-Infinity", "0.5"],
    "folded": ["a", "A", "b", "B", "", "é", "É", "a "],
    "unicode": ["a", "A", "é", "É", "ß", "ss", ""],
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
    "nested": [
        "named_struct('x', array(named_struct('y', 1, 'z', 'a')), 'w', -0.0D)",
        "named_struct('x', array(named_struct('y', 1, 'z', 'a')), 'w', 0.0D)",
        "named_struct('x', cast(null as array<struct<y:int,z:string>>), 'w', double('NaN'))",
    ],
    "lists": ["array(array('a', null))", "array(array('a'), array())", "array(array('b'))"],
    "variant": [
        "parse_json('1')",
        'parse_json(\'{"a": 1, "b": [1, null]}\')',
        "parse_json('null')",
        "parse_json('\"a\"')",
    ],
}
# Of types that are not the first of their kind.
OTHER_VALUES = {
    "interval hour to minute": ["0:0", "1:02", "-3:59"],
    "interval day": ["0", "1", "-2"],
    "interval year": ["0", "1", "-3"],
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
NESTED = ("array", "struct", "map", "nested", "lists", "variant")
STORAGES = (
    "view",
    "table",
    "files",
    "cached",
    "partitioned",
    "bucketed",
    "stream",
    "stream",
    "partitioned and bucketed",
)
CATALOG = ("table", "partitioned", "bucketed", "partitioned and bucketed")
PARTITION_KINDS = ("int", "text", "date", "bool")
NOT_IN_STREAMS = ("folded", "unicode", "days", "months", "nested", "lists", "variant")
LAYOUT_KINDS = ("int", "text", "date", "bool", "decimal", "real", "timestamp")
# The values of a kind in a table of many rows, by the number `id` of a row.
MANY = {
    "int": ["cast(id % 97 as {type})", "cast(id % 5 as {type})", "cast(if(id % 3 = 0, 1, id % 113) as {type})"],
    "text": ["concat('k', id % 13)", "if(id % 10 > 0, 'a', concat('é', id % 7))"],
}
MANY_ROWS = 300
LETTERS = "abcd"  # with which the names of a table's columns begin


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
    declared: tuple[str, ...] = ()  # Python over `session`
    is_files: bool = False
    following: int = 0  # the first so many columns follow the table's parts, see `parts`


def tables(draw: Draw) -> list[Table]:
    """Some cases have tables in parts mostly, others none."""
    share = draw.at("parts").pick([0.0, 0.8])
    return [_any_table(draw.at("table"), i, share) for i in range(draw.number(2, 4))]


def _any_table(draw: Draw, number: int, share: float) -> Table:
    return table_in_parts(draw, f"t{number}") if draw.chance(share) else table(draw, f"t{number}")


def table_in_parts(draw: Draw, name: str) -> Table:
    made = parts(draw.at("parts"), name, LETTERS[int(name[1:])])
    columns = tuple(Column(*each) for each in made.columns)
    is_files = not any(each.startswith("cache") for each in made.statements)
    return Table(name, columns, made.statements, made.drop, made.declared, is_files, made.following)


def table(draw: Draw, name: str) -> Table:
    storage = draw.at("storage").pick(STORAGES)
    columns = _columns(draw.at("columns"), name, storage)
    rows = _rows(draw.at("rows"), columns)
    key, dependent = Column(f"{columns[0].name[0]}k", "int", "bigint"), Column(f"{columns[0].name[0]}d", "int", "int")
    # A view would repartition its rows in each query that reads it.
    pieces = 1 if storage == "view" else draw.at("storing").number(1, 3)
    if storage not in ("view", "cached") and draw.at("many").chance(0.15):
        select = many_rows_as_select(draw.at("many"), columns)
    else:
        select = rows_as_select(columns, rows, pieces)
    if has_facts := storage not in ("view", "cached") and draw.at("facts").chance(0.4):
        # By expressions, so that a simpler table has the facts too.
        added = f"monotonically_increasing_id() as {key.name}, cast({columns[0].name} % 3 as int) as {dependent.name}"
        select = f"select *, {added} from ({select})"
        columns = (*columns, key, dependent)
    declared = _declared(draw.at("declared"), name, columns) if has_facts else ()
    statements, drop = _statements(draw.at("storing"), name, columns, storage, select)
    return Table(name, columns, tuple(statements), tuple(drop), declared, storage not in ("view", "cached"))


def _declared(draw: Draw, name: str, columns: tuple[Column, ...]) -> tuple[str, ...]:
    first, key, dependent = columns[0].name, columns[-2].name, columns[-1].name
    # A dependency of NULLs is a dependency too: a NULL determines a NULL.
    made = [
        f'session.declare_key("{name}", "{key}")',
        f'session.declare_dependency("{name}", "{first}", "{dependent}")',
    ]
    return tuple(draw.some(made, 0, 2))


def _columns(draw: Draw, table: str, storage: str) -> tuple[Column, ...]:
    every = [each for each in TYPES if storage != "stream" or each not in NOT_IN_STREAMS]
    kinds = ["int", "int", "text", *(draw.at("kind").pick(every) for _ in range(draw.number(1, 5)))]
    letter = LETTERS[int(table[1:])]
    found = []
    for i, kind in enumerate(kinds):
        types = [each for each in TYPES[kind] if storage in CATALOG or "char" not in each]
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
    values = WHOLE if column.type == "decimal(38,0)" else OTHER_VALUES.get(column.type, VALUES[column.kind])
    if column.type in EXTREMES and draw.chance(0.1):
        values = EXTREMES[column.type]
    if column.type == "char(5)" or column.type == "varchar(8)":
        values = [each for each in values if len(each) <= 5]
    value = draw.pick(values)
    return value if column.kind in NESTED else f"'{value}'"


def _statements(
    draw: Draw, name: str, columns: tuple[Column, ...], storage: str, select: str
) -> tuple[list[str], list[str]]:
    if storage in ("view", "cached"):
        made = [f"create or replace temporary view {name} as {select}"]
        return made + [f"cache table {name}"] * (storage == "cached"), [f"drop view if exists {name}"]
    folder = f"{{folder}}/{name}"
    if storage == "files":
        analyzed = [f'session.analyze("{folder}")'] if draw.at("analyzed").chance(0.4) else []
        return [
            f"insert overwrite directory '{folder}' using parquet {select}",
            *analyzed,
            f"create or replace temporary view {name} using parquet options (path '{folder}')",
        ], [f"drop view if exists {name}"]
    if storage == "stream":
        layout = _stream_layout(draw, columns)
        return [
            f'session.write_stream(spark.sql("""{select}"""), "{folder}.ss", {layout}, overwrite=True)',
            f'session.read_stream("{folder}.ss").createOrReplaceTempView("{name}")',
        ], [f"drop view if exists {name}"]
    defined = ", ".join(f"{each.name} {each.type}" for each in columns)
    # Keys of maps have no collation.
    is_collated = draw.at("collation").chance(0.1) and not any(each.kind == "map" for each in columns)
    collation = " default collation utf8_lcase" if is_collated else ""
    create = f"create table {name} ({defined}) using parquet{collation}{_layout(draw, columns, storage)}"
    listed = ", ".join(each.name for each in columns)
    return [create, f"insert into {name} ({listed}) {select}"], [f"drop table if exists {name}"]


def _stream_layout(draw: Draw, columns: tuple[Column, ...]) -> str:
    by = draw.at("by").some([each.name for each in columns if each.kind in LAYOUT_KINDS], 1, 2)
    order = draw.at("sorted").some([each.name for each in columns if each.kind in LAYOUT_KINDS], 0, 2)
    order = by + [each for each in order if each not in by] if draw.chance(0.6) else order
    ranged = ", ranged=True" if draw.chance(0.5) else ""
    return f"clustered_by={by}, sorted_by={order}, partitions={draw.pick([1, 2, 3, 5])}{ranged}"


def _layout(draw: Draw, columns: tuple[Column, ...], storage: str) -> str:
    if storage == "table":
        return ""
    by = draw.pick([each for each in columns if each.kind in PARTITION_KINDS])
    partitioned = f" partitioned by ({by.name})"
    if storage == "partitioned":
        return partitioned
    bucketed = (
        draw.pick([each for each in columns if each.kind in PARTITION_KINDS and each != by]) if "and" in storage else by
    )
    order = f" sorted by ({bucketed.name})" if draw.chance(0.5) else ""
    clustered = f" clustered by ({bucketed.name}){order} into {draw.number(1, 4)} buckets"
    return partitioned + clustered if "and" in storage else clustered


def many_rows_as_select(draw: Draw, columns: tuple[Column, ...]) -> str:
    """Rows with many different values in some columns, and one frequent value in others."""
    made = []
    for column in columns:
        shapes = [each.replace("{type}", column.type) for each in MANY.get(column.kind, ())]
        expression = draw.pick(shapes) if shapes else _value(draw, column)
        if draw.chance(0.5):
            expression = f"if(id % 11 = 0, null, {expression})"
        made.append(f"cast({expression} as {_cast_type(column)}) as {column.name}")
    return f"select {', '.join(made)} from range({MANY_ROWS})"


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
