"""Spark's built-in functions: their names, numbers of arguments and result types.

`tools/spark_functions.py` asks Spark and writes `signatures.tsv`; this module needs no JVM. One line per function:

    name  kind  arguments  lambda  deterministic  result

`arguments` are the accepted counts: `1,2` is one or two, `2+` two or more, `2+2` two, four, six and so on. `lambda` lists
the positions that take a lambda, counted from 0, or `-`. `result` is a rule, or several guarded rules, of which the first
that applies is used:

    bigint                                    always that type
    arg0                                      the type of the first argument (of a lambda: the type of its body)
    common, common(1+), common(0+2)           the common type of all arguments, of all from 1 on, of 0, 2, 4 and so on
    common(arg1,element(arg0))                the common type of the named ones
    array<arg0>, map<arg0,arg1>               built from other rules
    element(arg0), key(arg0), value(arg0)     a part of an array's or a map's type
    + - * / % div                             the type of that operator on the first two arguments
    sum, avg, round, ceil                     decimals: see `_DECIMAL_RULES`
    ?                                         no rule fits; only Spark knows the type
    n=2 arg0=integer,void: bigint | double    by the number of arguments and the families of their types

Each rule was checked against all calls that were tried and that Spark accepted. For a call that Spark rejects, the result of
a rule is meaningless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache, reduce
from importlib import resources

import pyarrow as pa

from unshuffle.catalog import type_coercion, type_names, types
from unshuffle.catalog.schema import DataType
from unshuffle.frozen import dataclass


class Kind(Enum):
    """Where a function may stand."""

    SCALAR = "scalar"
    AGGREGATE = "aggregate"  # over a group, or over a window
    WINDOW = "window"  # only with OVER
    TABLE = "table"  # yields rows: in FROM, in LATERAL VIEW, or alone in a SELECT list


@dataclass(frozen=True, slots=True)
class Arity:
    """The accepted numbers of arguments: each of `counts`, and if `step` is not 0 also the last of them plus any number of
    steps."""

    counts: tuple[int, ...]
    step: int = 0

    @classmethod
    def parse(cls, text: str) -> Arity:
        counts, plus, step = text.partition("+")
        return cls(tuple(int(count) for count in counts.split(",")), int(step or 1) if plus else 0)

    def accepts(self, n: int) -> bool:
        more = n - self.counts[-1]
        return n in self.counts or (self.step > 0 and more > 0 and more % self.step == 0)

    def __str__(self) -> str:
        first, last = self.counts[0], self.counts[-1]
        if self.step > 1:
            return f"{last}, {last + self.step}, {last + 2 * self.step}, ..."
        if self.step == 1:
            return f"at least {first}"
        if first == last:
            return str(first)
        if len(self.counts) == last - first + 1 > 2:
            return f"{first} to {last}"
        return ", ".join(str(count) for count in self.counts[:-1]) + f" or {last}"


@dataclass(frozen=True, slots=True)
class Function:
    """A built-in function. An aggregate that depends on the order of rows, such as `first`, is not deterministic."""

    name: str
    kind: Kind
    arity: Arity
    lambdas: tuple[int, ...]
    deterministic: bool
    result: str

    def result_type(self, argument_types: Sequence[DataType]) -> DataType:
        """The type of a call, or None if it is unknown. The type of a lambda is the type of its body."""
        return evaluate(self.result, argument_types)


@cache
def find(name: str) -> Function | None:
    """The function with that name, in upper or lower case."""
    line = _lines().get(name.lower())
    return None if line is None else _read(line)


def similar(name: str) -> list[str]:
    """Up to three functions with a similar name, the most similar first."""
    from difflib import get_close_matches  # only when something is wrong

    return get_close_matches(name.lower(), _lines(), n=3, cutoff=0.7)


@cache
def _lines() -> dict[str, str]:
    text = resources.files(__package__).joinpath("signatures.tsv").read_text(encoding="utf-8")
    return {line.partition("\t")[0]: line for line in text.splitlines()[1:]}


def _read(line: str) -> Function:
    name, kind, arguments, lambdas, deterministic, result = line.split("\t")
    positions = () if lambdas == "-" else tuple(int(position) for position in lambdas.split(","))
    return Function(name, Kind(kind), Arity.parse(arguments), positions, deterministic == "yes", result)


# ---------------------------------------------------------------------------------------------------------------- rules


def evaluate(rule: str, arguments: Sequence[DataType]) -> DataType:
    """The result of a rule of `signatures.tsv` for arguments of these types."""
    for alternative in rule.split(" | "):
        guard, colon, term = alternative.partition(": ")
        if not colon:
            return _term(alternative, arguments)
        for condition in guard.split():
            subject, _, wanted = condition.partition("=")
            value = subject_of(subject, arguments)
            if value == "?":
                return None  # the type is unknown, so the rule that applies is unknown too
            if value not in wanted.split(","):
                break
        else:
            return _term(term, arguments)
    return None


def subject_of(subject: str, arguments: Sequence[DataType]) -> str:
    """The value that a guard tests: `n`, or the family of an argument's type. Empty for a missing argument."""
    if subject == "n":
        return str(len(arguments))
    position = int(subject.removeprefix("arg"))
    return family(arguments[position]) if position < len(arguments) else ""


def family(type: DataType) -> str:
    """The name of a type in guards."""
    if type is None:
        return "?"
    if types.is_integer(type):
        return "integer"
    if types.is_interval(type):
        return "interval"
    return re.split(r"[(<]", types.spark_name(type), maxsplit=1)[0]


def _term(term: str, arguments: Sequence[DataType]) -> DataType:
    if term == "?":
        return None
    if match := re.fullmatch(r"arg(\d+)", term):
        position = int(match[1])
        return arguments[position] if position < len(arguments) else None
    if match := re.fullmatch(r"common\((\d+)\+(\d*)\)", term):
        return _common(arguments[int(match[1]) :: int(match[2] or 1)])
    if match := re.fullmatch(r"common(?:\((.+)\))?", term):
        return _common([_term(part, arguments) for part in match[1].split(",")] if match[1] else arguments)
    if match := re.fullmatch(r"(element|key|value)\((.+)\)", term):
        return _part(match[1], _term(match[2], arguments))
    if match := re.fullmatch(r"array<(.+)>", term):
        element = _term(match[1], arguments)
        return None if element is None else pa.list_(element)
    if match := re.fullmatch(r"map<([^,]+),(.+)>", term):
        key, value = _term(match[1], arguments), _term(match[2], arguments)
        return None if key is None or value is None else pa.map_(key, value)
    if term in _OPERATORS:
        return type_coercion.arithmetic_type(term, arguments[0], arguments[1]) if len(arguments) > 1 else None
    if term in _DECIMAL_RULES:
        first = arguments[0] if arguments else None
        return _DECIMAL_RULES[term](first.precision, first.scale) if types.is_decimal(first) and first else None
    return _fixed(term)


def _common(arguments: Sequence[DataType]) -> DataType:
    # From the left, as Catalyst does: (int, string, decimal) is a decimal, (int, decimal, string) a double.
    return reduce(type_coercion.common_type, arguments) if arguments else None


def _part(part: str, whole: DataType) -> DataType:
    if whole is None:
        return None
    if part == "element" and types.is_array(whole):
        return whole.value_type
    if part != "element" and pa.types.is_map(whole):
        return whole.key_type if part == "key" else whole.item_type
    return None


@cache
def _fixed(name: str) -> DataType:
    return type_names.from_spark_name(name)


def _sum(precision: int, scale: int) -> pa.DataType:
    """Ten more digits, so that ten billion rows cannot overflow."""
    return pa.decimal128(min(38, precision + 10), min(38, scale))


def _avg(precision: int, scale: int) -> pa.DataType:
    """Four more digits on either side of the point."""
    return pa.decimal128(min(38, precision + 4), min(38, scale + 4))


def _round(precision: int, scale: int) -> pa.DataType:
    """To no digits: one more integral digit, because 9.9 becomes 10."""
    return pa.decimal128(min(38, precision - scale + 1), 0)


def _ceil(precision: int, scale: int) -> pa.DataType:
    """As `round`, but whole numbers do not change."""
    return _round(precision, scale) if scale else pa.decimal128(precision, 0)


def rounded(type: DataType, digits: int) -> DataType:
    """The type of `round(x, digits)` and similar functions, which for decimals depends on the value of `digits`."""
    if type is None or not types.is_decimal(type):
        return None
    integral = type.precision - type.scale + 1  # one more digit, because 9.9 becomes 10
    if digits < 0:
        return pa.decimal128(min(38, max(integral, 1 - digits)), 0)
    scale = min(type.scale, digits)
    return pa.decimal128(min(38, integral + scale), scale)


_DECIMAL_RULES: dict[str, Callable[[int, int], pa.DataType]] = {
    "sum": _sum,
    "avg": _avg,
    "round": _round,
    "ceil": _ceil,
}
_OPERATORS = ("+", "-", "*", "/", "%", "div")
