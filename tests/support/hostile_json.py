"""JSON as an enemy would change it: any part replaced by a value of another type or size, removed, or repeated."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**63,
    2**64,
    -(2**70),
    10**400,
    0.5,
    -0.5,
    1e300,
    "",
    "x",
    "p=0/../../../etc/passwd",
    "/etc/passwd",
    "file:///etc/passwd",
    "p=0/*",
    "p=0/\x00",
    "../x",
    "\u202e\x1b[31m",
    "x" * 10_000,
    "bigint",
    "array<" * 5000,
    "decimal(99999999999999999999,1)",
    [],
    [[]],
    [None],
    {},
    {"decimal": "1E+999999999"},
    {"decimal": "NaN"},
    {"decimal": "1" * 5000},
    {"float": "nan"},
    {"float": "1"},
    {"bytes": "%"},
    {"date": "0000-00-00"},
    {"timestamp": "2020-01-01T00:00:00"},
    {"after": [1]},
    {"x": 1},
)


def paths(content: Any, at: Path = ()) -> Iterator[Path]:
    """The paths of all parts, the whole last."""
    if isinstance(content, dict | list):
        for key, part in content.items() if isinstance(content, dict) else enumerate(content):
            yield from paths(part, (*at, key))
    yield at


def part(content: Any, path: Path) -> Any:
    for key in path:
        content = content[key]
    return content


@st.composite
def changed(draw: st.DrawFn, content: Any) -> Any:
    """The content with one to three parts changed."""
    content = copy.deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(paths(content))))
        if not path:
            continue
        holder, key = part(content, path[:-1]), path[-1]
        match draw(st.sampled_from(["replace", "replace", "swap", "remove", "repeat"])):
            case "replace":
                holder[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
            case "swap":
                holder[key] = copy.deepcopy(part(content, draw(st.sampled_from(list(paths(content))))))
            case "remove":
                del holder[key]
            case "repeat" if isinstance(holder, list):
                holder.insert(draw(st.integers(0, len(holder))), copy.deepcopy(holder[key]))
    return content


def is_same(read: Any, written: Any) -> bool:
    """Whether what was read, as JSON again, is what was written. Keys that nobody knows may be left out."""
    if isinstance(read, dict) and isinstance(written, dict):
        return all(key in written and is_same(value, written[key]) for key, value in read.items())
    if isinstance(read, list) and isinstance(written, list):
        return len(read) == len(written) and all(map(is_same, read, written))
    numbers = (int, float)
    return read == written and (type(read) is type(written) or (type(read) in numbers and type(written) in numbers))
