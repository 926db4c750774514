"""User-defined operators: PROCESS, REDUCE and COMBINE; and the functions that queries call."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from unshuffle.catalog.schema import Column, DataType
from unshuffle.errors import Span
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import SortKey, Value
from unshuffle.plan.logical.node import Binary, Unary

if TYPE_CHECKING:
    from unshuffle.plan.logical.plan import Plan


@dataclass(frozen=True, slots=True)
class UserClass:
    """A class of the user's: its module and name, its constructor arguments, where the script names it, and the time that the
    class says it takes for a row."""

    module: str
    name: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    search_path: tuple[str, ...]  # the folders to search for the module
    span: Span = field(compare=False)
    seconds_per_row: float = 0.0

    def __str__(self) -> str:
        shown = [repr(a) for a in self.arguments] + [f"{k}={v!r}" for k, v in self.keywords]
        return f"{self.module}.{self.name}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function or an aggregate of the user's that queries call: the code of an `Opaque` expression."""

    use: UserClass
    loaded: Any = field(compare=False, repr=False)  # the function, or the class of the aggregate
    returns: DataType
    deterministic: bool
    arrow: bool = False  # called with arrays, not with the values of a row

    @property
    def name(self) -> str:
        return f"{self.use.module}.{self.use.name}"

    @property
    def is_aggregate(self) -> bool:
        return isinstance(self.loaded, type)


@dataclass(frozen=True, slots=True)
class Process(Unary):
    """Turns rows into rows. `readonly` pairs an output column with the input column it copies."""

    child: Plan
    user_class: UserClass
    columns: tuple[Column, ...]
    readonly: tuple[tuple[Column, Column], ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce(Unary):
    """One call per group of rows with equal `keys`. A call gets the whole group, in `presort` order.

    With `parts` it is a COMBINE: the child has the keys, the number of the input that a row comes from, and the columns of
    every input, of which these are the names."""

    child: Plan
    keys: tuple[Column, ...]
    presort: tuple[SortKey, ...]
    user_class: UserClass
    columns: tuple[Column, ...]
    readonly: tuple[tuple[Column, Column], ...] = ()
    parts: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Combine(Binary):
    """One call per key value, with the rows of both inputs that have it. NULL keys match NULL keys."""

    left: Plan
    right: Plan
    left_keys: tuple[Column, ...]
    right_keys: tuple[Column, ...]
    user_class: UserClass
    columns: tuple[Column, ...]
    readonly: tuple[tuple[Column, Column], ...] = ()
