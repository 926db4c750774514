"""Wherever the type tables name a type, Spark's analyzer names the same one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from unshuffle.catalog.type_coercion import arithmetic_type, common_type, literal_type
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.types import spark_name
from unshuffle.plan.functions import signatures

pytestmark = pytest.mark.spark

TYPES = [
    "void",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(4,2)",
    "decimal(10,2)",
    "decimal(20,0)",
    "decimal(38,10)",
    "decimal(38,37)",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "interval day to second",
    "interval year to month",
    "array<int>",
    "array<string>",
    "array<decimal(10,2)>",
    "map<string,int>",
    "map<string,double>",
    "struct<x:int,y:string>",
    "struct<x:bigint,y:date>",
]
ARROW = {name: from_spark_name(name) for name in TYPES}
COLUMNS = {name: f"c{position}" for position, name in enumerate(TYPES)}
PAIRS = list(product(TYPES, TYPES))

Analyze = Callable[[Sequence[str]], list[str | None]]


@pytest.fixture(scope="module")
def analyze(spark) -> Analyze:
    """The type of each expression over one column of each type, or None where Spark rejects it. Nothing is run."""
    columns = ", ".join(f"CAST(NULL AS {name}) AS {column}" for name, column in COLUMNS.items())
    state = spark._jsparkSession.sessionState()

    def types_of(expressions: Sequence[str]) -> list[str | None]:
        outputs = ", ".join(f"{expression} AS r{n}" for n, expression in enumerate(expressions))
        # Without its final check, the analyzer leaves unresolved expressions in place instead of failing.
        plan = state.analyzer().execute(state.sqlParser().parsePlan(f"SELECT {outputs} FROM (SELECT {columns})"))
        results = plan.expressions().iterator()
        found: list[str | None] = []
        while results.hasNext():
            result = results.next()
            found.append(result.dataType().catalogString() if result.resolved() else None)
        return found

    return types_of


def disagreements(expressions: Sequence[str], ours: Sequence[object], sparks: Sequence[str | None]) -> list[str]:
    return [
        f"{expression}: we say {spark_name(our)}, Spark {name}"
        for expression, our, name in zip(expressions, ours, sparks, strict=True)
        if our is not None and name is not None and our != from_spark_name(name)
    ]


@pytest.mark.parametrize("form", ["coalesce({}, {})", "CASE WHEN rand() > 0 THEN {} ELSE {} END", "if(true, {}, {})"])
def test_common_type(analyze: Analyze, form: str) -> None:
    calls = [form.format(COLUMNS[a], COLUMNS[b]) for a, b in PAIRS]
    ours = [common_type(ARROW[a], ARROW[b]) for a, b in PAIRS]
    sparks = analyze(calls)
    readable = [form.format(a, b) for a, b in PAIRS]
    assert disagreements(readable, ours, sparks) == []
    assert [r for r, our, name in zip(readable, ours, sparks, strict=True) if (our is None) != (name is None)] == []


def test_common_type_of_a_union(spark) -> None:
    sample = [(a, b) for a, b in PAIRS if common_type(ARROW[a], ARROW[b]) is not None][::7]
    for a, b in sample:
        name = spark.sql(f"SELECT CAST(NULL AS {a}) AS x UNION ALL SELECT CAST(NULL AS {b})").schema[0].dataType
        assert from_spark_name(name.simpleString()) == common_type(ARROW[a], ARROW[b]), (a, b)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "div"])
def test_arithmetic_type(analyze: Analyze, operator: str) -> None:
    calls = [f"{COLUMNS[a]} {operator} {COLUMNS[b]}" for a, b in PAIRS]
    ours = [arithmetic_type(operator, ARROW[a], ARROW[b]) for a, b in PAIRS]
    sparks = analyze(calls)
    readable = [f"{a} {operator} {b}" for a, b in PAIRS]
    assert disagreements(readable, ours, sparks) == []
    # Unknown to us although Spark knows the type: dates plus a day-time interval, whose fields Arrow lacks.
    unknown = {r for r, our, name in zip(readable, ours, sparks, strict=True) if our is None and name is not None}
    assert {
        text for text in unknown if not {"date", "interval day to second"} <= set(text.split(f" {operator} "))
    } == set()


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
@pytest.mark.parametrize("value", [0, 2, 10, 12345])
def test_integer_literal_beside_a_decimal(analyze: Analyze, operator: str, value: int) -> None:
    decimals = [name for name in TYPES if name.startswith("decimal")]
    calls = [f"{COLUMNS[name]} {operator} {value}" for name in decimals]
    calls += [f"{value} {operator} {COLUMNS[name]}" for name in decimals]
    ours = [arithmetic_type(operator, ARROW[name], literal_type(value)) for name in decimals]
    ours += [arithmetic_type(operator, literal_type(value), ARROW[name]) for name in decimals]
    assert disagreements(calls, ours, analyze(calls)) == []


SCALAR_NAMES = "abs ceil coalesce concat greatest nullif nvl upper year hash array_distinct map_keys size if round"
AGGREGATE_NAMES = "sum avg count min max collect_list stddev approx_count_distinct max_by first bool_and"


@pytest.mark.parametrize("name", ["round", "bround", "ceil", "floor"])
def test_rounded_decimals(analyze: Analyze, name: str) -> None:
    calls = [(type, n) for type in TYPES if type.startswith("decimal") for n in (-40, -5, -1, 0, 1, 2, 5, 38)]
    ours = [signatures.rounded(ARROW[type], n) for type, n in calls]
    sparks = analyze([f"{name}({COLUMNS[type]}, {n})" for type, n in calls])
    assert None not in sparks
    assert disagreements([f"{name}({type}, {n})" for type, n in calls], ours, sparks) == []


@pytest.mark.parametrize("name", f"{SCALAR_NAMES} {AGGREGATE_NAMES}".split())
def test_result_type(analyze: Analyze, name: str) -> None:
    function = signatures.find(name)
    assert function is not None
    tuples = [(a,) for a in TYPES if function.arity.accepts(1)]
    tuples += [pair for pair in PAIRS if function.arity.accepts(2) and function.kind is signatures.Kind.SCALAR]
    tuples += [("boolean", *pair) for pair in PAIRS if function.arity.accepts(3)]
    literal_second = ("ceil", "round")
    tuples = [types for types in tuples if len(types) == 1 or name not in literal_second]
    calls = [f"{name}({', '.join(COLUMNS[type] for type in types)})" for types in tuples]
    ours = [function.result_type([ARROW[type] for type in types]) for types in tuples]
    assert disagreements([f"{name}{types}" for types in tuples], ours, analyze(calls)) == []
