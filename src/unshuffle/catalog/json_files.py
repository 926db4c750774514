"""JSON that this package wrote and reads back: statistics, results of checks, manifests.

Anyone who can write beside the data can change these files, so nothing about them is taken for granted. A file is read only
if it is a regular file of limited size. Its text must be JSON in the strict sense: UTF-8, no key twice in an object, no NaN,
no number that is too large, no half of a surrogate pair. Each field is read with the type that it must have.

Every function here raises a ValueError that says what is wrong. Who reads the file adds where, and what to do.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

Json = Any
_Read = TypeVar("_Read")

MAX_BYTES = 64 << 20
MAX_COUNT = 2**63 - 1
_MAX_SHOWN = 60
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


# --- a whole file


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a regular file. Raises a ValueError for anything else, and an OSError if it cannot be read."""
    # Opening a pipe would otherwise wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        return checked_size(file.read(MAX_BYTES + 1))


def checked_size(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES >> 20} MB")
    return data


def parse(data: bytes) -> Json:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    try:
        parsed = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite)
        if _SURROGATE.search(text):
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except UnicodeEncodeError:
        raise ValueError("it has a string that is not Unicode text") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return parsed


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        no_duplicates([name for name, _ in pairs], "the key")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {shown(text)} is too large")
    return value


def reading(what: str, read: Callable[[], _Read]) -> _Read:
    """What `read` returns. Whatever it fails with is a ValueError, for a value of a type that nobody thought of."""
    try:
        return read()
    except ValueError:
        raise
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None
    except (LookupError, TypeError, AttributeError, ArithmeticError, NotImplementedError) as error:
        raise ValueError(f"a part of {what} is missing or malformed: {error!r:.200}") from None


# --- the fields of an object


def check_format(encoded: Json, format: str, version: int) -> None:
    if not isinstance(encoded, dict) or encoded.get("format") != format:
        raise ValueError(f"its format is not {format!r}")
    if count(encoded, "version") != version:
        raise ValueError(f"it has format version {encoded['version']}, but this program reads {version}")


def member(encoded: Json, name: str) -> Json:
    if not isinstance(encoded, dict):
        raise ValueError(f"{shown(encoded)} is not an object with {name!r}")
    if name not in encoded:
        raise ValueError(f"{name!r} is missing")
    return encoded[name]


def text(encoded: Json, name: str) -> str:
    return as_text(member(encoded, name), name)


def as_text(value: Json, name: str) -> str:
    if not isinstance(value, str):
        raise _wrong(name, value, "text")
    return value


def path(encoded: Json, name: str) -> str:
    found = text(encoded, name)
    if "\0" in found:
        raise _wrong(name, found, "a path")
    return found


def flag(encoded: Json, name: str) -> bool:
    value = member(encoded, name)
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def count(encoded: Json, name: str, least: int = 0, most: int = MAX_COUNT) -> int:
    return as_count(member(encoded, name), name, least, most)


def as_count(value: Json, name: str, least: int = 0, most: int = MAX_COUNT) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _wrong(name, value, f"a whole number from {least} to {most}")
    return value


def as_number(value: Json, name: str, most: float = float(MAX_COUNT)) -> float:
    """A number from 0."""
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise _wrong(name, value, f"a number from 0 to {most:g}")
    return float(value)


def items(encoded: Json, name: str, most: int | None = None) -> list[Json]:
    return as_list(member(encoded, name), name, most)


def as_list(value: Json, name: str, most: int | None = None) -> list[Json]:
    if not isinstance(value, list):
        raise _wrong(name, value, "a list")
    if most is not None and len(value) > most:
        raise ValueError(f"{name!r} has {len(value):,} items, more than {most:,}")
    return value


def texts(encoded: Json, name: str) -> tuple[str, ...]:
    return tuple(as_text(each, f"each of {name}") for each in items(encoded, name))


def as_texts(value: Json, name: str) -> tuple[str, ...]:
    return tuple(as_text(each, f"each of {name}") for each in as_list(value, name))


def no_duplicates(values: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{what} {shown(value)} is there twice")
        seen.add(value)


def shown(value: Json) -> str:
    """A value in a message, however large it is."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str() if len(value) > _MAX_SHOWN:
            return f"{value[:_MAX_SHOWN]!r}..."
        case int() if value.bit_length() > _MAX_SHOWN * 2:
            return "a very large number"
    return repr(value)


def _wrong(name: str, value: Json, expected: str) -> ValueError:
    return ValueError(f"{name!r} is {shown(value)}, and must be {expected}")
