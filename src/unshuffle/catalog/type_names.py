"""Reads the name of a type: Spark's or SCOPE's. General SQL parsers would also accept types of other systems."""

from __future__ import annotations

import re
from difflib import get_close_matches

import pyarrow as pa

from unshuffle.catalog.types import (
    BIGINT,
    BOOLEAN,
    DAY_TIME,
    FLOAT,
    INT,
    MAX_PRECISION,
    SMALLINT,
    SPARK_NAMES,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH,
)

_SYNONYMS = {
    "bool": BOOLEAN,
    "byte": TINYINT,
    "sbyte": TINYINT,
    "short": SMALLINT,
    "integer": INT,
    "long": BIGINT,
    "real": FLOAT,
    "datetime": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "char": STRING,
    "character": STRING,
    "varchar": STRING,
    "time": TIME,
}
_SIMPLE_TYPES = {name: type for type, name in SPARK_NAMES.items() if name.isidentifier()} | _SYNONYMS
_DECIMALS = ("decimal", "dec", "numeric")
_NESTED = ("array", "map", "struct")
_UNSUPPORTED = ("variant", "geometry", "geography")
_YEAR_MONTH_FIELDS = ("year", "month")
_DAY_TIME_FIELDS = ("day", "hour", "minute", "second")
_MAX_DEPTH = 100  # of nested types. Arrow, Spark and Python all recurse on them
_MAX_NUMBER = 9  # digits
_MAX_SHOWN = 200


def from_spark_name(text: str) -> pa.DataType:
    """The type of that name: Spark's (`bigint`, `map<string,array<int>>`) or SCOPE's (`long`, `DateTime`).

    Raises ValueError for anything else, naming the nearest type.
    """
    return _TypeName(text).read()


class _TypeName:
    """A recursive-descent parser of one type name."""

    _TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|(\w+)|([<>(),:?]))")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._depth = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            token = self._TOKEN.match(text, position)
            if token is None:
                raise self._error(f"unexpected {text[position : position + 80].strip()[:1]!r}")
            self._tokens.append(token.group().strip())
            position = token.end()
        self._tokens.reverse()

    def read(self) -> pa.DataType:
        type = self._type()
        if self._tokens:
            raise self._error(f"unexpected {self._tokens[-1]!r}")
        return type

    def _type(self) -> pa.DataType:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"nested deeper than {_MAX_DEPTH} types")
        type = self._any_type()
        self._depth -= 1
        return type

    def _any_type(self) -> pa.DataType:
        word = self._word()
        match word:
            case "array":
                self._expect("<")
                element = self._type()
                self._expect(">")
                return pa.list_(element)
            case "map":
                self._expect("<")
                key = self._type()
                self._expect(",")
                value = self._type()
                self._expect(">")
                return pa.map_(key, value)
            case "struct":
                return self._struct()
            case "interval":
                return self._interval()
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "timestamp" if self._accept("without"):
                self._expect_all("time", "zone")
                return TIMESTAMP_NTZ
            case "timestamp" if self._accept("with"):
                self._expect_all("local", "time", "zone")
                return TIMESTAMP
        if word in _UNSUPPORTED:
            raise self._error(f"columns of type {word} are not supported")
        if word not in _SIMPLE_TYPES:
            close = get_close_matches(word, [*_SIMPLE_TYPES, *_DECIMALS, *_NESTED, "interval"], n=1)
            raise self._error(f"no type {word!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        if word in ("char", "character", "varchar", "time") and self._accept("("):
            self._number()
            self._expect(")")
        if word == "string" and self._accept("collate"):
            self._word()
        return _SIMPLE_TYPES[word]

    def _struct(self) -> pa.DataType:
        self._expect("<")
        fields: list[pa.Field] = []
        while not self._accept(">"):
            if fields:
                self._expect(",")
            name = self._next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            self._accept(":")
            fields.append(pa.field(name, self._type()))
            if self._accept("not"):
                self._expect_all("null")
        return pa.struct(fields)

    def _interval(self) -> pa.DataType:
        first = self._word()
        last = self._word() if self._accept("to") else first
        for fields, type in ((_YEAR_MONTH_FIELDS, YEAR_MONTH), (_DAY_TIME_FIELDS, DAY_TIME)):
            if first in fields and last in fields:
                return type
        raise self._error("an interval has the fields year and month, or day, hour, minute and second")

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0  # Spark's default
        if self._accept("("):
            precision = self._number()
            scale = self._number() if self._accept(",") else 0
            self._expect(")")
        if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
            raise self._error("a decimal has 1 to 38 digits, and its scale is at most that number")
        return pa.decimal128(precision, scale)

    def _next(self) -> str:
        if not self._tokens:
            raise self._error("unexpected end")
        return self._tokens.pop()

    def _word(self) -> str:
        return self._next().lower()

    def _expect_all(self, *words: str) -> None:
        for word in words:
            self._expect(word)

    def _accept(self, token: str) -> bool:
        if self._tokens and self._tokens[-1].lower() == token:
            self._tokens.pop()
            return True
        return False

    def _expect(self, token: str) -> None:
        word = self._word()
        if word != token:
            raise self._error(f"expected {token!r}, not {word!r}")

    def _number(self) -> int:
        token = self._next()
        if not token.isdecimal() or len(token) > _MAX_NUMBER:
            raise self._error(f"expected a number, not {token!r}")
        return int(token)

    def _error(self, problem: str) -> ValueError:
        text = self._text.strip()
        name = repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}..."
        return ValueError(f"not a type name: {name}: {problem}")
