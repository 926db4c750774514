"""Random expressions over some columns: values of a kind, conditions, aggregates.

Only what has one answer: floating-point sums are over values whose sum is exact, sums of integers and decimals cannot overflow
in one order of addition only, and nothing shows the sign of a zero or the case of a collated text, for which GROUP BY may
return any of several equal values.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.hunt.draw import Draw
from tests.support.hunt.schemas import NESTED, VALUES, Column

Columns = Sequence[Column]

LITERALS = {
    "int": ["1", "0", "2", "-1", "3", "5", "null"],
    "text": ["'a'", "''", "'b'", "'A'", "'é'", "'a '", "'12'", "null", "'a\\u0062'", "'a\\\\d'"],
    "decimal": ["0.5", "1.25", "0.0", "-0.50", "100000.001"],
    "real": ["1.0D", "0.0D", "-0.0D", "double('NaN')", "2.5F"],
    "folded": ["'a' collate utf8_lcase", "'B' collate utf8_lcase"],
    "unicode": ["'É' collate unicode_ci", "'ss' collate unicode_ci"],
    "bool": ["true", "false", "null"],
    "date": ["date'2024-01-01'", "date'1970-01-01'", "date'2024-02-29'"],
    "timestamp": ["timestamp'2024-01-01 00:00:00'", "timestamp'2024-03-10 02:30:00'"],
    "ntz": ["timestamp_ntz'2024-01-01 00:00:00'", "timestamp_ntz'2024-02-29 12:00:00'"],
    "days": ["interval '1' day", "interval '0' second"],
    "months": ["interval '1' month", "interval '1-2' year to month"],
    "binary": ["X''", "X'61'"],
    "array": ["array(1)", "array(1, 2)"],
    "struct": ["named_struct('p', 1, 'q', 'a')"],
    "map": ["map('a', 1)"],
    "nested": ["named_struct('x', array(named_struct('y', 1, 'z', 'a')), 'w', 0.0D)"],
    "lists": ["array(array('a'))"],
    "variant": ["parse_json('[1, 2]')", "to_variant_object(named_struct('a', 1))"],
}
# What makes a value of a kind from other values: {kind} is a value of that kind.
FORMULAS = {
    "int": [
        "{int} % 5", "length({text})", "size({array})", "coalesce({int}, 0)", "nullif({int}, 1)", "if({bool}, {int}, 2)",
        "case when {bool} then {int} when {bool} then 1 end", "try_cast({text} as int)", "year({date})", "month({ntz})",
        "datediff({date}, {date})", "{struct}.p", "try_add({int}, 1)", "try_divide({int}, {int}) is null = {bool}",
        "abs({int} % 100)", "cast({bool} as int)", "instr({text}, 'a')", "greatest({int}, {int})", "{map}['a']",
        "element_at({map}, 'b')", "try_element_at({array}, 1)", "{int} + 1", "cast({int} as tinyint)", "dayofweek({date})",
        "try_variant_get({variant}, '$.a', 'int')", "size({nested}.x)", "{nested}.x[0].y", "size(flatten({lists}))",
        "extract(day from {days})", "extract(year from {months})", "cast({variant} as int)", "aggregate({array}, 0, (x, y) -> x + coalesce(y, 0))",
        "cast({text} as int)", "{int} div 2", "hour({timestamp})", "case {int} when 1 then 10 else {int} end", "{int} * 2",
    ],
    "text": [
        "upper({text})", "trim({text})", "concat({text}, '-', {text})", "coalesce({text}, 'none')", "substr({text}, 1, 1)",
        "cast({int} as string)", "cast({date} as string)", "lower({folded})", "if({bool}, {text}, 'x')", "{struct}.q",
        "replace({text}, 'a', 'b')", "lpad({text}, 3, '*')", "{text} || cast({int} as string)", "nullif({text}, '')",
        "date_format({timestamp}, 'yyyy-MM')", "cast({timestamp} as string)", "cast({decimal} as string)", "reverse({text})",
        "to_json({struct})", "{variant}:b::string", "schema_of_variant({variant})", "array_join(flatten({lists}), '-')", "try_cast({int} as string)",
        "cast({months} as string)", "lower({unicode})", "cast({bool} as string)", "initcap({text})",
        "regexp_replace({text}, '[a-z]', '.')", "split({text}, 'a')[0]", "cast({days} as string)", "hex({binary})",
    ],
    "decimal": ["{decimal} + 1", "{decimal} * 2", "coalesce({decimal}, 0)", "cast({int} as decimal(12,1))", "round({decimal}, 1)",
                "try_cast({text} as decimal(10,2))", "if({bool}, {decimal}, null)", "-{decimal}", "try_divide({decimal}, 4)"],
    "real": ["{real} + 1", "-{real}", "abs({real})", "coalesce({real}, 0.0D)", "cast({int} % 100 as double)", "if({bool}, {real}, {real})",
             "nanvl({real}, 1.0D)", "cast({real} as float)", "cast({real} as double)"],
    "folded": ["coalesce({folded}, 'q')", "if({bool}, {folded}, {folded})"],
    "unicode": ["coalesce({unicode}, 'q')", "if({bool}, {unicode}, {unicode})"],
    "bool": ["{int} > {int}", "{text} = {text}", "{bool} and {bool}", "{bool} or {bool}", "not {bool}", "{text} is null"],
    "date": ["date_add({date}, 1)", "cast({timestamp} as date)", "coalesce({date}, date'2000-01-01')", "trunc({date}, 'MM')",
             "try_cast({text} as date)", "last_day({date})", "add_months({date}, -1)"],
    "timestamp": ["date_trunc('day', {timestamp})", "cast({date} as timestamp)", "{timestamp} + interval '1' hour", "cast({ntz} as timestamp)"],
    "ntz": ["cast({date} as timestamp_ntz)", "{ntz} + interval '1' day", "cast({timestamp} as timestamp_ntz)"],
    "days": ["{days} * 2", "{ntz} - {ntz}", "-{days}"],
    "months": ["{months} + interval '1' month", "-{months}"],
    "binary": ["cast({text} as binary)", "coalesce({binary}, X'00')"],
    "array": ["array({int}, 1)", "sort_array({array})", "array_distinct({array})", "filter({array}, x -> x > 1)", "transform({array}, x -> x)"],
    "struct": ["named_struct('p', try_cast({text} as int), 'q', {text})"],
    "map": ["map_filter({map}, (k, v) -> v > 0)", "map({text}, {int})"],
    "nested": ["if({bool}, {nested}, {nested})", "named_struct('x', {nested}.x, 'w', {real})"],
    "lists": ["array(split({text}, ''))", "reverse({lists})"],
    "variant": ["to_variant_object({struct})", "try_parse_json({text})", "{variant}:a", "cast({int} as variant)"],
}  # fmt: skip
CONDITIONS = [
    "{left} {compare} {right}", "{left} {compare} {literal}", "{left} is null", "{left} is not null", "not ({condition})",
    "{condition} and {condition}", "{condition} or {condition}", "{left} in ({literal}, {literal})", "{text} like 'a%'",
    "{left} not in ({literal}, {right})", "{left} between {literal} and {right}", "{bool}", "{text} rlike '^[a-z]'",
    "coalesce({condition}, false)", "({left} {compare} {right}) is not true", "array_contains({array}, 1)",
    "case when {condition} then {condition} else {condition} end", "exists({array}, x -> x = 2)", "1 = 0", "true",
    "({condition}) is null", "startswith({text}, 'a')", "{text} = {folded}", "{int} = {decimal}", "{int} = {real}",
]  # fmt: skip
COMPARES = ["=", "<", ">=", "<>", "<=>", ">", "<="]
COMPARABLE = [kind for kind in VALUES if kind not in ("map", "variant")]


def value(draw: Draw, columns: Columns, kind: str, depth: int = 1) -> str:
    """An expression of a kind: a column, a literal, or a formula over smaller ones."""
    own = [each.name for each in columns if each.kind == kind]
    if depth > 0 and (draw.chance(0.3) or (not own and draw.chance(0.7))):
        return _filled(draw, columns, draw.pick(FORMULAS[kind]), depth - 1)
    if own and not draw.chance(0.1):
        return draw.pick(own)
    return draw.pick(LITERALS[kind])


def any_value(draw: Draw, columns: Columns, depth: int = 1) -> tuple[str, str]:
    """An expression and its kind."""
    kind = draw.pick(columns).kind if draw.chance(0.8) else draw.pick(list(FORMULAS))
    return value(draw.at("value"), columns, kind, depth), kind


def condition(draw: Draw, columns: Columns, depth: int = 2) -> str:
    kind = draw.pick([each.kind for each in columns if each.kind in COMPARABLE] or ["int"])
    shape = draw.pick(CONDITIONS)
    found = shape.replace("{left}", value(draw.at("left"), columns, kind))
    while "{literal}" in found:
        found = found.replace("{literal}", draw.pick(LITERALS[kind]), 1)
    found = found.replace("{compare}", draw.pick(COMPARES)).replace("{right}", value(draw.at("right"), columns, kind))
    while "{condition}" in found:
        part = condition(draw.at("part"), columns, depth - 1) if depth > 0 else "true"
        found = found.replace("{condition}", f"({part})", 1)
    return _filled(draw, columns, found, 0)


def _filled(draw: Draw, columns: Columns, shape: str, depth: int) -> str:
    for kind in FORMULAS:
        while f"{{{kind}}}" in shape:
            shape = shape.replace(f"{{{kind}}}", f"({value(draw.at(kind), columns, kind, depth)})", 1)
    return shape


SMALL = {
    "int": "{} % 100",
    "decimal": "{} % 100",
    "real": "case when abs({0}) between 0.01 and 1e6 then {0} end",
}
ANY_AGGREGATES = ["count({})", "max({})", "min({})", "count(distinct {})", "count(*)"]
AGGREGATES = {
    "int": ["sum({small})", "avg({small})", "sum(distinct {small})", "sort_array(collect_set({}))", "bit_xor({})",
            "sort_array(collect_list({}))", "median({small})", "percentile({small}, 0.25)", "approx_count_distinct({})"],
    "decimal": ["sum({small})", "avg({small})", "sum(distinct {small})"],
    "real": ["sum({small})", "avg({small})"],
    "bool": ["bool_and({})", "bool_or({})", "count_if({})"],
    "text": ["sort_array(collect_set({}))", "listagg({}, ',') within group (order by {})"],
    "struct": ["max({}).p"],
}  # fmt: skip


def aggregate(draw: Draw, columns: Columns) -> tuple[str, str]:
    """An aggregate call and the kind of its value; the kind "" is compared but not used further."""
    column = draw.pick([each for each in columns if is_orderable(each)] or [Column("1", "int")])
    given = value(draw.at("argument"), columns, column.kind) if draw.chance(0.3) else column.name
    shape = draw.pick(ANY_AGGREGATES if draw.chance(0.6) else AGGREGATES.get(column.kind, ANY_AGGREGATES))
    small = SMALL.get(column.kind, "{}").format(f"({given})")
    call = shape.replace("{small}", small).replace("{}", given)
    if draw.at("filter").chance(0.15) and "within" not in call and call.endswith(")") and not call.startswith("sort"):
        call += f" filter (where {condition(draw.at('filter'), columns, 1)})"
    if shape.startswith(("count", "approx", "bit")):
        return call, "int"
    return call, column.kind if shape.startswith(("max", "min")) and not shape.endswith("p") else ""


def is_orderable(column: Column) -> bool:
    return column.kind not in ("map", "variant")


def has_one_form(column: Column) -> bool:
    """Are equal values of the column identical?"""
    return column.kind in ("int", "text", "decimal", "bool", "date", "timestamp", "ntz")


def can_be_key(column: Column) -> bool:
    return column.kind not in NESTED or column.kind in ("array", "struct", "nested", "lists")
