"""Random tables in parts that can be read in place: files, folders and buckets whose rows follow a key from part to part.

The first column is the part's number, and further ones follow it: the key ascends with it, or overlaps, leaves gaps, or comes
back in steps; a day, a text and a decimal follow the key. Some keys are NULL, in some rows or in a whole part. All rows are
made from a range of numbers, so that the tables of one case meet in many keys.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.hunt.draw import Draw

# The key of a row, by its part `p` and its number `id`. With it, what a condition on a part says of its keys.
KEYS = {
    "ascending": ("p * 4 + id % 4", "{k} >= {p} * 4 and {k} < {p} * 4 + 4"),
    "overlapping": ("p * 4 + id * 7 % 11 - 3", "{k} between {p} * 4 - 3 and {p} * 4 + 7"),
    "gaps": ("p * 9 + id % 3", "{k} >= {p} * 9 and {k} <= {p} * 9 + 2"),
    "steps": ("p + 5 * (id % 6)", "{k} >= {p}"),
    "skewed": ("if(p = 1, 5, p * 4 + id % 4)", "{k} >= {p} * 4"),
    "lists": ("p + 20 * (id % 3)", "{k} in ({p}, {p} + 20, {p} + 40)"),
}
NULLS = ["{}", "{}", "{}", "if(id % 7 = 0, null, {})", "if(p = 1, null, {})", "if(p = 0 or id % 5 = 0, null, {})"]
# Columns that follow the key `k`: their kind, type and value.
FOLLOWING = (
    ("int", "bigint", "k"),
    ("date", "date", "date_add(date'2024-02-27', cast(floor(k / 3) as int))"),
    ("text", "string", "lpad(cast(k + 5 as string), 3, '0')"),
    ("decimal", "decimal(10,2)", "k * 0.25"),
    ("timestamp", "timestamp", "timestamp'2024-03-09 20:00:00' + make_dt_interval(0, cast(k as int))"),
    ("int", "smallint", "floor(k / 2)"),
    ("decimal", "decimal(38,6)", "k * 1.5"),
    ("ntz", "timestamp_ntz", "timestamp_ntz'1969-12-31 23:00:00' + make_dt_interval(0, cast(k as int))"),
    ("text", "string", "concat(repeat('é', cast(k % 3 as int)), cast(k + 5 as string))"),
    ("int", "tinyint", "k"),
)
# Columns that do not.
OTHERS = (
    ("int", "int", "id % 5"),
    ("text", "string", "element_at(array('a', 'b', '', 'é', null), cast(id * 3 % 5 as int) + 1)"),
    ("real", "double", "element_at(array(0.0D, -0.0D, double('NaN'), 1.5D, null), cast(id % 5 as int) + 1)"),
    ("bool", "boolean", "id % 3 = 0"),
    ("decimal", "decimal(10,2)", "(id * 37 % 11) * 0.5"),
    ("folded", "string collate utf8_lcase", "if(id % 2 = 0, 'a', if(id % 3 = 0, 'A', 'b'))"),
)
FOLDER_KINDS = ("int", "text", "date")
STORAGES = ("files", "files", "row groups", "folders", "folders", "catalog folders", "buckets", "appended", "cached")
ROWS_OF_ROW_GROUP = 7


@dataclass(frozen=True, slots=True)
class Parts:
    """A table's columns as (name, kind, type); how many follow the parts; and how it is made."""

    columns: tuple[tuple[str, str, str], ...]
    following: int
    statements: tuple[str, ...]
    drop: tuple[str, ...]
    declared: tuple[str, ...]


def parts(draw: Draw, name: str, letter: str) -> Parts:
    shape = draw.at("shape").pick(list(KEYS))
    count, rows = draw.number(2, 7), draw.number(4, 16)
    nulls = draw.at("nulls").pick(NULLS)
    following = draw.at("following").some(FOLLOWING, 1, 3)
    others = draw.at("others").some(OTHERS, 1, 3)
    made = [("int", "int", "p"), *following, *others]
    columns = tuple((f"{letter}{i}", kind, type) for i, (kind, type, _) in enumerate(made))
    listed = ", ".join(
        f"cast({value} as {type}) as {column}" for (column, _, type), (*_, value) in zip(columns, made, strict=True)
    )
    numbers = f"select id, cast(floor(id / {rows}) as int) as p from range({count * rows})"
    keyed = f"select id, p, cast({nulls.format(KEYS[shape][0])} as bigint) as k from ({numbers})"
    select = f"select {listed} from ({keyed})"
    statements, drop, by = _statements(draw.at("storing"), name, columns, 1 + len(following), select, count)
    declared = ()
    if by == columns[0][0] and following[0][2] == "k" and draw.at("declared").chance(0.6):
        declared = (_declaration(name, columns, KEYS[shape][1], count),)
    return Parts(columns, 1 + len(following), tuple(statements), tuple(drop), declared)


def _declaration(name: str, columns: tuple[tuple[str, str, str], ...], condition: str, count: int) -> str:
    key = columns[1][0]
    conditions = {f"{columns[0][0]}={p}": f"{key} is null or ({condition.format(k=key, p=p)})" for p in range(count)}
    return f'session.declare_partitions("{name}", {conditions})'


def _statements(
    draw: Draw, name: str, columns: tuple[tuple[str, str, str], ...], following: int, select: str, count: int
) -> tuple[list[str], list[str], str]:
    """What makes the table, what drops it, and the outermost folder column, if there is one."""
    storage, folder, part = draw.at("storage").pick(STORAGES), f"{{folder}}/{name}", columns[0][0]
    ranged = f"select /*+ repartition_by_range({count}, {part}) */ * from ({select})"
    view = f"create or replace temporary view {name} using parquet options (path '{folder}')"
    drop_view = [f"drop view if exists {name}"]
    followed = [column for column, *_ in columns[:following]]
    can_be_folder = [column for column, kind, _ in columns[:following] if kind in FOLDER_KINDS]
    by = [part] if draw.chance(0.6) else draw.at("by").some(can_be_folder, 1, 2)
    defined = ", ".join(f"{column} {type}" for column, _, type in columns)
    match storage:
        case "files":
            return [f"insert overwrite directory '{folder}' using parquet {ranged}", view], drop_view, ""
        case "row groups":
            options = f"option('parquet.block.row.count.limit', {ROWS_OF_ROW_GROUP}).mode('overwrite').parquet"
            write = f"spark.sql({_text(ranged)}).sortWithinPartitions('{draw.pick(followed)}').write.{options}"
            return [f"{write}('{folder}')", view], drop_view, ""
        case "folders":
            write = f"spark.sql({_text(ranged)}).write.partitionBy({by}).mode('overwrite').parquet('{folder}')"
            return [write, view], drop_view, by[0]
        case "catalog folders":
            create = f"create table {name} ({defined}) using parquet partitioned by ({', '.join(by)})"
            listed = ", ".join(column for column, *_ in columns)
            return [create, f"insert into {name} ({listed}) {ranged}"], [f"drop table if exists {name}"], by[0]
        case "buckets":
            bucketed = f"clustered by ({draw.pick(can_be_folder)}) into {draw.number(1, 6)} buckets"
            create = f"create table {name} using parquet {bucketed} as {select}"
            return [create], [f"drop table if exists {name}"], ""
        case "appended":
            inserts = [f"insert into {name} {ranged.replace(select, f'{select} where id % 3 = {i}')}" for i in range(3)]
            return [f"create table {name} ({defined}) using parquet", *inserts], [f"drop table if exists {name}"], ""
        case _:
            write = f"insert overwrite directory '{folder}' using parquet {ranged}"
            stored = view.replace(f"view {name}", f"view {name}_stored")
            cached = [f"create or replace temporary view {name} as select * from {name}_stored", f"cache table {name}"]
            return [write, stored, *cached], [*drop_view, f"drop view if exists {name}_stored"], ""


def _text(select: str) -> str:
    return f'"""{select}"""'
