"""A bound script: its outputs, and the declarations it relies on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from unshuffle.catalog.schema import Dependency, Key
from unshuffle.errors import Span
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import SortKey
from unshuffle.plan.logical.leaves import Format
from unshuffle.plan.logical.plan import Plan, walk
from unshuffle.plan.logical.shared import Foreign, Shared
from unshuffle.plan.logical.user_defined import UserClass
from unshuffle.properties import Delivered


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Where and how an output is written."""

    path: str
    format: Format | UserClass
    overwrite: bool


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """The structured stream that an output is written to: its layout, and the keys and dependencies that are declared."""

    path: str
    range_partitioned: bool
    clustered_by: tuple[SortKey, ...]
    sorted_by: tuple[SortKey, ...]
    partitions: int | None
    reference: str | None
    keys: tuple[Key, ...]
    dependencies: tuple[Dependency, ...]
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Output:
    """A result of a script: its plan and its target (None: the caller). `layout` is the layout that the rows must have."""

    plan: Plan
    target: FileTarget | StreamTarget | None
    span: Span | None = field(default=None, compare=False)
    layout: Delivered | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A key or dependency that the user declared for a rowset, and whether the data was checked."""

    rowset: str
    what: str
    checked: bool  # otherwise it is trusted


@dataclass(frozen=True, slots=True)
class Script:
    """A bound script."""

    outputs: tuple[Output, ...]
    declared: tuple[Declared, ...] = ()

    def operators(self) -> Iterator[Plan]:
        seen: set[int] = set()
        for output in self.outputs:
            for node in walk(output.plan):
                if isinstance(node, Shared) and id(node) in seen:
                    continue
                seen.add(id(node))
                yield node

    @property
    def foreign(self) -> tuple[Foreign, ...]:
        """The parts that only Spark understands."""
        return tuple(node for node in self.operators() if isinstance(node, Foreign))
