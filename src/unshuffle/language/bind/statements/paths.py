"""Paths in scripts: `@parameters`, wildcards, and date ranges.

`"events/started?Date=(Today-30)..Today"` names the folders `events/started/Date=2024-05-01` and so on, one a day, both
ends included. Days without a folder hold no data; a range without any is an error.
"""

from __future__ import annotations

import datetime
import re

from unshuffle.catalog import files
from unshuffle.errors import FileProblem, Span, SyntaxProblem
from unshuffle.frozen import dataclass
from unshuffle.language.parse.parameters import Parameters
from unshuffle.language.parse.statements import Text

_RANGE = re.compile(r"^(?P<root>[^?]+)\?(?P<column>\w+)=(?P<first>.+?)\.\.(?P<last>.+)$")
_DAY = re.compile(r"^\(?\s*(?P<base>[A-Za-z_]\w*|\d{4}-\d{2}-\d{2})\s*(?:(?P<sign>[+-])\s*(?P<days>\d+))?\s*\)?$")
_MOST_DAYS = 10_000


@dataclass(frozen=True, slots=True)
class InputPath:
    """The files and folders to read. Below `base`, folders named column=value are columns."""

    shown: str
    paths: tuple[str, ...]
    base: str | None


def substitute(text: Text, parameters: Parameters) -> str:
    """The path with every @name replaced by the parameter's value; @@ is a plain @."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "@@":
            return "@"
        return str(parameters.get(match[1], text.span))

    return re.sub(r"@@|@([A-Za-z_]\w*)", value, text.value)


def input_path(text: Text, parameters: Parameters) -> InputPath:
    """The files and folders that the path of an EXTRACT names. Raises if there are none."""
    path = substitute(text, parameters)
    if match := _RANGE.match(path):
        root, column = match["root"].rstrip("/"), match["column"]
        first, last = (_day(match[end], parameters, text.span) for end in ("first", "last"))
        if first > last:
            raise FileProblem(
                f"the range {first}..{last} is empty", text.span, "the first day must not be after the last"
            )
        if (last - first).days > _MOST_DAYS:
            raise FileProblem(f"the range {first}..{last} has more than {_MOST_DAYS} days", text.span)
        days = [first + datetime.timedelta(n) for n in range((last - first).days + 1)]
        folders = tuple(f for f in (f"{root}/{column}={day.isoformat()}" for day in days) if files.exists(f))
        if not folders:
            hint = f"expected folders such as {root}/{column}={first}"
            raise FileProblem(f"no day from {first} to {last} has data under {root!r}", text.span, hint)
        return InputPath(path, folders, root)
    paths = files.expand(path)
    if not paths:
        raise FileProblem(f"there is no file or folder {path!r}", text.span, _nearest(path))
    return InputPath(path, tuple(paths), None)


def _day(text: str, parameters: Parameters, span: Span) -> datetime.date:
    parts = _DAY.match(text.strip())
    if not parts:
        raise SyntaxProblem(f"{text!r} is not a day", span, "write Today, (Today-30) or 2024-05-01")
    if parts["base"][0].isdigit():
        try:
            day = datetime.date.fromisoformat(parts["base"])
        except ValueError:
            raise SyntaxProblem(f"{parts['base']!r} is not a day of the calendar", span) from None
    else:
        value = parameters.get(parts["base"], span).value
        if not isinstance(value, datetime.date):
            raise SyntaxProblem(f"the parameter {parts['base']!r} is not a date", span)
        day = value
    try:
        offset = datetime.timedelta(int(parts["days"] or 0))
        return day - offset if parts["sign"] == "-" else day + offset
    except OverflowError:
        raise SyntaxProblem(f"{text!r} is not a day of the calendar", span) from None


def _nearest(path: str) -> str:
    """A hint at the part of a path that exists, and the first part that does not."""
    parts = path.rstrip("/").split("/")
    for n in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:n]) or "/"
        if files.exists(folder):
            return f"{folder!r} exists, but holds no {parts[n]!r}"
    return "paths are relative to the folder unshuffle is started in" if not path.startswith("/") else "check the path"
