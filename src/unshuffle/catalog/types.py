"""Spark's types as Arrow types: their names, and which type Spark gives an expression of two types.

The names are the ones `DESCRIBE` prints. The widening is that of ANSI mode, Spark 4's default (`AnsiTypeCoercion` and
`DecimalPrecisionTypeCoercion` in Catalyst): `tests/spark/test_types_agree.py` holds every answer against Spark's analyzer.
None is a type that is not known; it makes everything computed from it unknown. What Spark rejects also yields None,
because the error is Spark's to report.

Arrow is coarser than Spark in two places. An interval's fields are lost (`interval day` is `interval day to second`),
so `date + interval`, whose type depends on them, stays unknown. Collations, and the lengths of char and varchar, are
lost in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches

import pyarrow as pa

from unshuffle.catalog.schema import DataType

VOID = pa.null()
BOOLEAN = pa.bool_()
TINYINT = pa.int8()
SMALLINT = pa.int16()
INT = pa.int32()
BIGINT = pa.int64()
FLOAT = pa.float32()
DOUBLE = pa.float64()
STRING = pa.string()
BINARY = pa.binary()
DATE = pa.date32()
TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
TIME = pa.time64("us")
DAY_TIME = pa.duration("us")
YEAR_MONTH = pa.month_day_nano_interval()

_SPARK_NAMES = {
    VOID: "void",
    BOOLEAN: "boolean",
    TINYINT: "tinyint",
    SMALLINT: "smallint",
    INT: "int",
    BIGINT: "bigint",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "string",
    BINARY: "binary",
    DATE: "date",
    TIMESTAMP: "timestamp",
    TIMESTAMP_NTZ: "timestamp_ntz",
    TIME: "time(6)",
    DAY_TIME: "interval day to second",
    YEAR_MONTH: "interval year to month",
}
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
_PLAIN = {name: type for type, name in _SPARK_NAMES.items() if name.isidentifier()} | _SYNONYMS
_DECIMALS = ("decimal", "dec", "numeric")
_NESTED = ("array", "map", "struct")
_ONLY_SPARK = ("variant", "geometry", "geography")
# Arrow spells some types in several ways that Spark reads as one.
_SAME_TO_SPARK: dict[pa.DataType, pa.DataType] = {
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
}

_MAX_PRECISION = 38
_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
_PRECEDENCE = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE)
_YEAR_MONTH_FIELDS = ("year", "month")
_DAY_TIME_FIELDS = ("day", "hour", "minute", "second")


# ---------------------------------------------------------------------------------------------------------------- names


def spark_name(type: DataType) -> str:
    """The name Spark gives the type, as in `array<struct<a:int>>`; "?" for an unknown one."""
    if type is None:
        return "?"
    if name := _SPARK_NAMES.get(_SAME_TO_SPARK.get(type, type)):
        return name
    if pa.types.is_decimal(type):
        return f"decimal({type.precision},{type.scale})"
    if is_array(type):
        return f"array<{spark_name(type.value_type)}>"
    if pa.types.is_map(type):
        return f"map<{spark_name(type.key_type)},{spark_name(type.item_type)}>"
    if pa.types.is_struct(type):
        return f"struct<{','.join(f'{_quoted(field.name)}:{spark_name(field.type)}' for field in type)}>"
    if pa.types.is_timestamp(type):
        return "timestamp" if type.tz else "timestamp_ntz"
    if pa.types.is_duration(type):
        return "interval day to second"
    return "?"


def from_spark_name(text: str) -> pa.DataType:
    """The type of that name: Spark's (`bigint`, `map<string,array<int>>`) or SCOPE's (`long`, `DateTime`).

    Raises ValueError for anything else, naming the nearest type.
    """
    return _TypeName(text).read()


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"\w+", name) else "`" + name.replace("`", "``") + "`"


class _TypeName:
    """A recursive-descent reader of one type name. General SQL parsers also accept other systems' types."""

    _TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|(\w+)|([<>(),:?]))")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        while text[position:].strip():
            token = self._TOKEN.match(text, position)
            if token is None:
                raise self._error(f"unexpected {text[position:].strip()[0]!r}")
            self._tokens.append(token.group().strip())
            position = token.end()
        self._tokens.reverse()

    def read(self) -> pa.DataType:
        type = self._type()
        if self._tokens:
            raise self._error(f"unexpected {self._tokens[-1]!r}")
        return type

    def _type(self) -> pa.DataType:
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
            case "timestamp" if self._taken("without"):
                self._words("time", "zone")
                return TIMESTAMP_NTZ
            case "timestamp" if self._taken("with"):
                self._words("local", "time", "zone")
                return TIMESTAMP
        if word in _ONLY_SPARK:
            raise self._error(f"columns of type {word} are not supported")
        if word not in _PLAIN:
            close = get_close_matches(word, [*_PLAIN, *_DECIMALS, *_NESTED, "interval"], n=1)
            raise self._error(f"no type {word!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        if word in ("char", "character", "varchar", "time") and self._taken("("):
            self._number()
            self._expect(")")
        if word == "string" and self._taken("collate"):
            self._word()
        return _PLAIN[word]

    def _struct(self) -> pa.DataType:
        self._expect("<")
        fields: list[pa.Field] = []
        while not self._taken(">"):
            if fields:
                self._expect(",")
            name = self._next()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            self._taken(":")
            fields.append(pa.field(name, self._type()))
            if self._taken("not"):
                self._words("null")
        return pa.struct(fields)

    def _interval(self) -> pa.DataType:
        first = self._word()
        last = self._word() if self._taken("to") else first
        for fields, type in ((_YEAR_MONTH_FIELDS, YEAR_MONTH), (_DAY_TIME_FIELDS, DAY_TIME)):
            if first in fields and last in fields:
                return type
        raise self._error("an interval is of year and month, or of day, hour, minute and second")

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0  # Spark's default
        if self._taken("("):
            precision = self._number()
            scale = self._number() if self._taken(",") else 0
            self._expect(")")
        if not (1 <= precision <= _MAX_PRECISION and 0 <= scale <= precision):
            raise self._error("a decimal has 1 to 38 digits, of which the scale are behind the point")
        return pa.decimal128(precision, scale)

    def _next(self) -> str:
        if not self._tokens:
            raise self._error("it ends too early")
        return self._tokens.pop()

    def _word(self) -> str:
        return self._next().lower()

    def _words(self, *words: str) -> None:
        for word in words:
            self._expect(word)

    def _taken(self, token: str) -> bool:
        if self._tokens and self._tokens[-1].lower() == token:
            self._tokens.pop()
            return True
        return False

    def _expect(self, token: str) -> None:
        found = self._word()
        if found != token:
            raise self._error(f"expected {token!r}, not {found!r}")

    def _number(self) -> int:
        found = self._next()
        if not found.isdecimal():
            raise self._error(f"expected a number, not {found!r}")
        return int(found)

    def _error(self, problem: str) -> ValueError:
        return ValueError(f"not a type name: {self._text.strip()!r}: {problem}")


# ------------------------------------------------------------------------------------------------------------- families


def is_integer(type: DataType) -> bool:
    return type in _DIGITS


def is_decimal(type: DataType) -> bool:
    return type is not None and pa.types.is_decimal(type)


def is_numeric(type: DataType) -> bool:
    return type in _PRECEDENCE or is_decimal(type)


def is_array(type: DataType) -> bool:
    return type is not None and (pa.types.is_list(type) or pa.types.is_large_list(type))


def is_instant(type: DataType) -> bool:
    """A date or a timestamp of either sort."""
    return type in (DATE, TIMESTAMP, TIMESTAMP_NTZ)


def is_date(type: DataType) -> bool:
    return type is not None and pa.types.is_date(type)


def is_interval(type: DataType) -> bool:
    return type in (DAY_TIME, YEAR_MONTH)


# --------------------------------------------------------------------------------------------------------- common types


def common_type(a: DataType, b: DataType) -> DataType:
    """The type that holds the values of both: of `coalesce`, CASE, UNION, IN and comparisons. None if there is none."""
    if a is None or b is None:
        return None
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if STRING in (a, b):
        return _common_with_string(b if a == STRING else a)
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    if is_instant(a) and is_instant(b):
        return TIMESTAMP if TIMESTAMP in (a, b) else TIMESTAMP_NTZ
    return _common_nested(a, b)


def _common_with_string(other: pa.DataType) -> DataType:
    """ANSI mode turns the string into the other type, and into the widest one for numbers."""
    if is_integer(other):
        return BIGINT
    if is_numeric(other):
        return DOUBLE
    return other if other in (BOOLEAN, BINARY, TIME) or is_instant(other) else None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if is_decimal(a) or is_decimal(b):
        if not (x := as_decimal(a)) or not (y := as_decimal(b)):
            return DOUBLE
        scale = max(x.scale, y.scale)
        precision = max(x.precision - x.scale, y.precision - y.scale) + scale
        excess = max(0, precision - _MAX_PRECISION)  # fractional digits go before integral ones
        return pa.decimal128(min(precision, _MAX_PRECISION), max(0, scale - excess))
    wider = max(a, b, key=_PRECEDENCE.index)
    # A float holds not every int: the two meet in double.
    return DOUBLE if wider == FLOAT else wider


def _common_nested(a: pa.DataType, b: pa.DataType) -> DataType:
    if is_array(a) and is_array(b):
        element = common_type(a.value_type, b.value_type)
        return None if element is None else pa.list_(element)
    if pa.types.is_map(a) and pa.types.is_map(b):
        key, value = common_type(a.key_type, b.key_type), common_type(a.item_type, b.item_type)
        return None if key is None or value is None else pa.map_(key, value)
    if pa.types.is_struct(a) and pa.types.is_struct(b) and _field_names(a) == _field_names(b):
        types = [common_type(x.type, y.type) for x, y in zip(a, b, strict=True)]
        if all(type is not None for type in types):
            return pa.struct([pa.field(x.name, type) for x, type in zip(a, types, strict=True)])
    return None


def _field_names(struct: pa.DataType) -> list[str]:
    return [field.name.lower() for field in struct]


# ----------------------------------------------------------------------------------------------------------- arithmetic


def arithmetic_type(operator: str, a: DataType, b: DataType) -> DataType:
    """The type of `a operator b` for + - * / % and div (any case); None where unknown or where Spark rejects it.

    An integer *literal* beside a decimal counts as the decimal of its digits: pass `literal_type(value)` for it.
    """
    if a is None or b is None:
        return None
    match operator.lower():
        case "+":
            return _moved(a, b) or _moved(b, a) or _of_intervals(a, b) or _number("+", a, b)
        case "-":
            return _elapsed(a, b) or _moved(a, b, back=True) or _of_intervals(a, b) or _number("-", a, b)
        case "*":
            return _scaled(a, b) or _scaled(b, a) or _number("*", a, b)
        case "/":
            return _scaled(a, b) or _quotient(a, b)
        case "%":
            return _number("%", a, b)
        case "div":
            return _whole_quotient(a, b)
    return None


def literal_type(value: int) -> pa.DataType:
    """The decimal that an integer literal becomes beside a decimal: `2 * price` multiplies by a decimal(1,0)."""
    return pa.decimal128(len(str(abs(value))), 0)


def as_decimal(type: pa.DataType) -> pa.DataType | None:
    """The decimal that holds every value of the type; None for a float or a double."""
    if is_decimal(type):
        return type
    return pa.decimal128(_DIGITS[type], 0) if type in _DIGITS else None


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Fits a result into 38 digits as `spark.sql.decimalOperations.allowPrecisionLoss` (default true) does.

    Integral digits are kept and fractional ones dropped, down to six of them.
    """
    if precision <= _MAX_PRECISION:
        return pa.decimal128(precision, scale)
    return pa.decimal128(_MAX_PRECISION, max(_MAX_PRECISION - (precision - scale), min(scale, 6)))


def _plus(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    return max(p - s, q - t) + max(s, t) + 1, max(s, t)


def _times(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    return p + q + 1, s + t


def _over(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    scale = max(6, s + q + 1)
    return p - s + t + scale, scale


def _modulo(p: int, s: int, q: int, t: int) -> tuple[int, int]:
    return min(p - s, q - t) + max(s, t), max(s, t)


_DECIMAL_RULES: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "+": _plus,
    "-": _plus,
    "*": _times,
    "/": _over,
    "%": _modulo,
}


def _number(operator: str, a: pa.DataType, b: pa.DataType) -> DataType:
    a, b = (b if a == VOID else a), (a if b == VOID else b)
    if a == VOID:
        return DOUBLE
    if a == b == STRING or not all(is_numeric(type) or type == STRING for type in (a, b)):
        return None
    if (is_decimal(a) or is_decimal(b)) and (x := as_decimal(a)) and (y := as_decimal(b)):
        return bounded_decimal(*_DECIMAL_RULES[operator](x.precision, x.scale, y.precision, y.scale))
    return common_type(a, b)


def _quotient(a: pa.DataType, b: pa.DataType) -> DataType:
    # NULL / decimal is a double, but decimal / NULL a decimal: Catalyst casts the left NULL first.
    if a == VOID and is_decimal(b):
        return DOUBLE
    type = _number("/", a, b)
    return type if is_decimal(type) or type is None else DOUBLE


def _whole_quotient(a: pa.DataType, b: pa.DataType) -> DataType:
    kinds = {"interval" if is_interval(type) else "number" for type in (a, b) if type != VOID}
    if kinds == {"interval"}:
        return BIGINT if VOID in (a, b) or a == b else None
    exact = all(is_integer(type) or is_decimal(type) or type in (VOID, STRING) for type in (a, b))
    textual = STRING in (a, b) and not (is_integer(a) or is_integer(b))
    return BIGINT if exact and not textual else None


def _moved(a: pa.DataType, by: pa.DataType, back: bool = False) -> DataType:
    """A date, timestamp or time `a`, moved by an interval or a number of days."""
    if a == DATE:
        if by == YEAR_MONTH or (is_integer(by) and by != BIGINT):
            return DATE
        # NULL counts as an interval when added, as a date when subtracted. The type of a date moved by a day-time
        # interval depends on its fields: a date for whole days, else a timestamp.
        return TIMESTAMP if by == VOID and not back else None
    if a in (TIMESTAMP, TIMESTAMP_NTZ):
        return a if is_interval(by) or (by == VOID and not back) else None
    if a == TIME:
        return a if by == DAY_TIME or (by == VOID and not back) else None
    if a == STRING and by == DAY_TIME:
        return STRING
    return None


def _elapsed(a: pa.DataType, b: pa.DataType) -> DataType:
    """The time between two dates, timestamps or times; NULL and strings count as the other's type."""
    if not all(is_instant(type) or type in (TIME, STRING, VOID) for type in (a, b)):
        return None
    instants = {type for type in (a, b) if type not in (STRING, VOID)}
    return DAY_TIME if instants and (TIME not in instants or instants == {TIME}) else None


def _of_intervals(a: pa.DataType, b: pa.DataType) -> DataType:
    return common_type(a, b) if is_interval(a) or is_interval(b) else None


def _scaled(interval: pa.DataType, factor: pa.DataType) -> DataType:
    scalable = is_interval(interval) and (is_numeric(factor) or factor in (STRING, VOID))
    return interval if scalable else None
