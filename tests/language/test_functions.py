from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.types import spark_name
from unshuffle.plan.functions import signatures
from unshuffle.plan.functions.signatures import Arity, Function, Kind, evaluate, find, similar
from unshuffle.plan.logical import Script

Bind = Callable[..., Script]


def named(name: str) -> Function:
    function = find(name)
    assert function is not None
    return function


def result(name: str, *arguments: str) -> str:
    types = [None if argument == "?" else from_spark_name(argument) for argument in arguments]
    return spark_name(named(name).result_type(types))


def test_names_are_found_in_any_case() -> None:
    assert named("SUM") == named("sum")
    assert find("no_such_function") is None


def test_near_misses() -> None:
    assert similar("substrng")[0] in ("substring", "substr")
    assert "approx_count_distinct" in similar("aprox_count_distinct")
    assert similar("qqqqqqqq") == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("upper", Kind.SCALAR),
        ("sum", Kind.AGGREGATE),
        ("count_if", Kind.AGGREGATE),
        ("row_number", Kind.WINDOW),
        ("lag", Kind.WINDOW),
        ("explode", Kind.TABLE),
        ("range", Kind.TABLE),
        ("json_tuple", Kind.TABLE),
    ],
)
def test_kinds(name: str, kind: Kind) -> None:
    assert named(name).kind is kind


@pytest.mark.parametrize(
    ("text", "readable", "accepted", "rejected"),
    [
        ("1", "1", [1], [0, 2]),
        ("0", "0", [0], [1]),
        ("1,2", "1 or 2", [1, 2], [0, 3]),
        ("1,2,3", "1 to 3", [1, 2, 3], [0, 4]),
        ("2,3,6,7", "2, 3, 6 or 7", [2, 3, 6, 7], [4, 5, 8]),
        ("2+", "at least 2", [2, 3, 20], [0, 1]),
        ("0+2", "0, 2, 4, ...", [0, 2, 8], [1, 3]),
    ],
)
def test_arity(text: str, readable: str, accepted: list[int], rejected: list[int]) -> None:
    arity = Arity.parse(text)
    assert str(arity) == readable
    assert all(arity.accepts(n) for n in accepted)
    assert not any(arity.accepts(n) for n in rejected)


@pytest.mark.parametrize(
    ("name", "readable"),
    [("upper", "1"), ("substring", "2 or 3"), ("coalesce", "at least 1"), ("greatest", "at least 2"), ("pi", "0")],
)
def test_arity_of_functions(name: str, readable: str) -> None:
    assert str(named(name).arity) == readable


def test_nondeterministic_functions() -> None:
    assert not any(named(name).deterministic for name in ("rand", "uuid", "first", "collect_list", "shuffle"))
    assert all(named(name).deterministic for name in ("upper", "sum", "max", "current_date", "hash"))


def test_lambdas_are_marked() -> None:
    assert named("transform").lambdas == (1,)
    assert named("aggregate").lambdas == (2, 3)
    assert named("upper").lambdas == ()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("count", ["string"], "bigint"),
        ("count", ["?"], "bigint"),
        ("sum", ["int"], "bigint"),
        ("sum", ["float"], "double"),
        ("sum", ["decimal(15,2)"], "decimal(25,2)"),
        ("sum", ["decimal(38,4)"], "decimal(38,4)"),
        ("sum", ["?"], "?"),
        ("avg", ["int"], "double"),
        ("avg", ["decimal(15,2)"], "decimal(19,6)"),
        ("max", ["date"], "date"),
        ("coalesce", ["int", "bigint", "void"], "bigint"),
        ("coalesce", ["int", "string", "decimal(10,2)"], "decimal(22,2)"),
        ("coalesce", ["int", "decimal(10,2)", "string"], "double"),
        ("if", ["boolean", "int", "double"], "double"),
        ("collect_list", ["string"], "array<string>"),
        ("map_keys", ["map<string,int>"], "array<string>"),
        ("element_at", ["map<string,date>", "string"], "date"),
        ("element_at", ["array<date>", "int"], "date"),
        ("transform", ["array<int>", "string"], "array<string>"),
        ("filter", ["array<int>", "boolean"], "array<int>"),
        ("floor", ["decimal(10,2)"], "decimal(9,0)"),
        ("ceil", ["double"], "bigint"),
        ("round", ["double", "int"], "double"),
        ("round", ["decimal(10,2)", "int"], "?"),
        ("year", ["date"], "int"),
        ("datediff", ["date", "date"], "int"),
        ("map", ["string", "int"], "map<string,int>"),
        ("from_json", ["string", "string"], "?"),
        ("lag", ["date", "int"], "date"),
    ],
)
def test_result_types(name: str, arguments: list[str], expected: str) -> None:
    assert result(name, *arguments) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("round(amount, 1)", "decimal(10,1)"),
        ("round(amount, 5)", "decimal(11,2)"),
        ("round(amount, -2)", "decimal(9,0)"),
        ("floor(amount, -12)", "decimal(13,0)"),
        ("bround(amount, 0)", "decimal(9,0)"),
    ],
)
def test_the_type_of_a_rounded_decimal_depends_on_the_digits(bound: Bind, call: str, expected: str) -> None:
    (output,) = bound(f"select {call} from orders").outputs
    assert spark_name(output.plan.columns[0].type) == expected


def test_the_first_guard_that_holds_decides() -> None:
    rule = "n=2 arg0=integer,void: bigint | arg0=map: value(arg0) | arg1=: date | ?"
    types = {name: from_spark_name(name) for name in ("int", "string", "map<string,int>")}
    assert spark_name(evaluate(rule, [types["int"], types["string"]])) == "bigint"
    assert spark_name(evaluate(rule, [types["map<string,int>"], types["int"]])) == "int"
    assert spark_name(evaluate(rule, [types["int"]])) == "date"
    assert evaluate(rule, [types["string"], types["int"]]) is None


def test_every_line_is_sound() -> None:
    names = list(signatures._lines())
    assert names == sorted(names)
    assert len(names) > 500
    for function in map(named, names):
        assert function.name == function.name.lower()
        for n in range(9):
            function.result_type([from_spark_name("int")] * n)
            function.result_type([None] * n)


def test_the_table_is_read_lazily() -> None:
    program = (
        "from unshuffle.plan.functions import signatures as f\n"
        "assert f._lines.cache_info().currsize == 0\n"
        "assert f.find('sum') is not None\n"
        "print(f._lines.cache_info().currsize)"
    )
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "1"
