from __future__ import annotations

import pyarrow as pa
import pytest

from unshuffle.catalog.type_coercion import arithmetic_type, common_type, literal_type
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.catalog.types import spark_name

NAMES = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(10,2)": pa.decimal128(10, 2),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time(6)": pa.time64("us"),
    "interval day to second": pa.duration("us"),
    "interval year to month": pa.month_day_nano_interval(),
    "array<string>": pa.list_(pa.string()),
    "map<string,array<int>>": pa.map_(pa.string(), pa.list_(pa.int32())),
    "struct<a:int,b c:string>".replace("b c", "`b c`"): pa.struct([("a", pa.int32()), ("b c", pa.string())]),
    "struct<>": pa.struct([]),
}


@pytest.mark.parametrize("name", NAMES)
def test_type_names_round_trip(name: str) -> None:
    assert spark_name(NAMES[name]) == name
    assert from_spark_name(name) == NAMES[name]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("long", "bigint"),
        ("bool", "boolean"),
        ("short", "smallint"),
        ("byte", "tinyint"),
        ("DateTime", "timestamp"),
        ("decimal", "decimal(10,0)"),
        ("DECIMAL( 5 )", "decimal(5,0)"),
        ("Array<Long>", "array<bigint>"),
        ("varchar(20)", "string"),
        ("interval day", "interval day to second"),
        ("timestamp without time zone", "timestamp_ntz"),
        ("struct<Name: string NOT NULL, n int>", "struct<Name:string,n:int>"),
    ],
)
def test_other_spellings(text: str, name: str) -> None:
    assert spark_name(from_spark_name(text)) == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("strng", "did you mean 'string'"),
        ("array<bigit>", "did you mean 'bigint'"),
        ("array<int", "unexpected end"),
        ("int int", "unexpected 'int'"),
        ("decimal(39,2)", "38 digits"),
        ("map<int>", "expected ','"),
        ("interval day to month", "an interval has the fields"),
        ("variant", "not supported"),
        ("int!", "unexpected '!'"),
        ("", "unexpected end"),
    ],
)
def test_messages_for_bad_names(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^not a type name") as error:
        from_spark_name(text)
    assert problem in str(error.value)


def test_an_unknown_type_has_a_name_and_is_contagious() -> None:
    assert spark_name(None) == "?"
    assert common_type(None, pa.int32()) is None
    assert arithmetic_type("+", pa.int32(), None) is None


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("int", "bigint", "bigint"),
        ("int", "float", "double"),
        ("void", "date", "date"),
        ("string", "int", "bigint"),
        ("string", "decimal(5,1)", "double"),
        ("string", "date", "date"),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("timestamp", "timestamp_ntz", "timestamp"),
        ("decimal(38,10)", "bigint", "decimal(38,10)"),
        ("int", "decimal(10,2)", "decimal(12,2)"),
        ("array<int>", "array<double>", "array<double>"),
        ("boolean", "int", "?"),
        ("struct<a:int>", "struct<A:bigint>", "struct<a:bigint>"),
        ("struct<a:int>", "struct<b:int>", "?"),
    ],
)
def test_common_type(a: str, b: str, expected: str) -> None:
    assert spark_name(common_type(from_spark_name(a), from_spark_name(b))) == expected


@pytest.mark.parametrize(
    ("a", "operator", "b", "expected"),
    [
        ("int", "/", "int", "double"),
        ("int", "div", "int", "bigint"),
        ("tinyint", "+", "tinyint", "tinyint"),
        ("decimal(10,2)", "+", "decimal(10,2)", "decimal(11,2)"),
        ("decimal(15,2)", "*", "decimal(16,2)", "decimal(32,4)"),
        ("decimal(38,10)", "*", "decimal(38,10)", "decimal(38,6)"),
        ("decimal(10,2)", "/", "int", "decimal(21,13)"),
        ("decimal(10,2)", "%", "decimal(5,1)", "decimal(6,2)"),
        ("decimal(10,2)", "*", "double", "double"),
        ("date", "-", "date", "interval day to second"),
        ("date", "+", "int", "date"),
        ("date", "+", "interval year to month", "date"),
        ("date", "+", "interval day to second", "?"),
        ("interval day to second", "+", "timestamp", "timestamp"),
        ("interval year to month", "*", "int", "interval year to month"),
        ("boolean", "+", "int", "?"),
        ("int", "<<", "int", "?"),
    ],
)
def test_arithmetic_type(a: str, operator: str, b: str, expected: str) -> None:
    assert spark_name(arithmetic_type(operator, from_spark_name(a), from_spark_name(b))) == expected


def test_an_integer_literal_has_only_its_digits() -> None:
    price = pa.decimal128(10, 2)
    assert spark_name(arithmetic_type("*", price, literal_type(2))) == "decimal(12,2)"
    assert spark_name(arithmetic_type("*", price, pa.int32())) == "decimal(21,2)"
