"""Catalyst's trees as Python sees them: read in one call as JSON, with a way back to the JVM's node for each of ours.

A call to the JVM costs half a millisecond and an analyzed plan has hundreds of nodes, so the tree comes over whole
(`TreeNode.toJSON`) and the JVM is asked only for what JSON leaves out. What it leaves out looks like a null, or is not
there at all; and where it numbers a child, equal children have the number of the first. So only `children`, in their
order, and fields of plain values are to be relied on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from unshuffle.algebra.logical import Plan
from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.types import from_spark_name
from unshuffle.spark.relations import OperatorCode

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_EXACT = re.compile(
    r"boolean|byte|short|integer|long|float|double|string|binary|date|timestamp|timestamp_ntz|void|time\(6\)"
    r"|decimal\(\d+,\d+\)|interval day to second|interval year to month"
)


class NotUnderstood(Exception):
    """The operator around it must stay Spark's; the message says why."""


@dataclass
class Node:
    """An expression or a logical operator."""

    kind: str  # the class without its package
    package: str
    fields: dict[str, Any]
    children: tuple[Node, ...]
    _find: Callable[[], Any] = field(repr=False)

    @classmethod
    def of(cls, jvm: Any) -> Node:
        """A node of which nothing is read."""
        return cls(jvm.nodeName(), "", {}, (), lambda: jvm)

    @cached_property
    def jvm(self) -> Any:
        """The JVM's node."""
        return self._find()

    def child_finder(self, place: int) -> Callable[[], Any]:
        return lambda: self.jvm.children().apply(place)

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.walk()

    def expression(self, name: str) -> Node | None:
        """The expression in a field of an operator, if it has one there."""
        found = self.fields.get(name)
        if not found:
            return None

        def find() -> Any:
            value = getattr(self.jvm, name)()
            return value.get() if value.getClass().getSimpleName() == "Some" else value

        return read(found, find)

    def expressions(self, name: str) -> tuple[Node, ...]:
        """The expressions of a list in a field."""

        def at(place: int) -> Callable[[], Any]:
            return lambda: getattr(self.jvm, name)().apply(place)

        return tuple(read(one, at(place)) for place, one in enumerate(self.fields.get(name) or ()))

    def expression_lists(self, name: str) -> list[tuple[Node, ...]]:
        """The expressions of a list of lists in a field."""

        def at(outer: int, inner: int) -> Callable[[], Any]:
            return lambda: getattr(self.jvm, name)().apply(outer).apply(inner)

        return [tuple(read(one, at(i, j)) for j, one in enumerate(each)) for i, each in enumerate(self.fields[name])]

    def plan(self) -> Node:
        """The plan of a sub-query."""
        return read(self.fields["plan"], lambda: self.jvm.plan())

    def object(self, name: str) -> str:
        """The name of the Scala object in a field: `LeftOuter` for a join's type."""
        found = self.fields.get(name)
        return found["object"].rsplit(".", 1)[-1].rstrip("$") if isinstance(found, dict) and "object" in found else ""

    @property
    def type(self) -> DataType:
        return data_type(self.fields.get("dataType"))

    @property
    def id(self) -> int:
        """What tells an attribute from all others."""
        number = self.fields["exprId"]["id"]
        assert isinstance(number, int)
        return number

    @property
    def name(self) -> str:
        """What a reader of a plan may call it."""
        given = self.fields.get("name") or self.fields.get("udfName")
        return given if isinstance(given, str) else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.kind).lower()

    @property
    def is_sparks_own(self) -> bool:
        return self.package.startswith(_EXPRESSIONS)

    def mentions(self, kind: str) -> bool:
        """Does a class of that name stand anywhere in its own fields, the plans of its sub-queries included?"""
        return f'.{kind}"' in json.dumps(self.fields)


@dataclass
class Read:
    """An operator that was read: our plan for it, and the numbers that Catalyst gives the plan's columns."""

    plan: Plan
    numbers: tuple[int, ...]
    code: OperatorCode | None = None  # of a foreign operator, for those above to take it in

    @property
    def scope(self) -> dict[int, Column]:
        # A column that was selected twice has one number; either will do.
        return dict(reversed(list(zip(self.numbers, self.plan.columns, strict=True))))


def read(found: list[dict[str, Any]], root: Callable[[], Any]) -> Node:
    """The tree of a list of nodes, each before its children. `root` finds the JVM's node for the first."""
    nodes = iter(found)

    def next_node(find: Callable[[], Any]) -> Node:
        fields = dict(next(nodes))
        package, _, kind = fields.pop("class").rpartition(".")
        node = Node(kind, package + ".", fields, (), find)
        count = fields.pop("num-children")
        node.children = tuple(next_node(node.child_finder(place)) for place in range(count))
        return node

    return next_node(root)


def read_plan(plan: Any) -> Node:
    """The tree of a logical plan of the JVM's."""
    return read(json.loads(plan.toJSON()), lambda: plan)


def data_type(found: Any) -> DataType:
    """Our type for one of Spark's as JSON; None where ours would not say all that it does: collations, some intervals,
    user-defined types."""
    if isinstance(found, str):
        return from_spark_name(_SQL_NAMES.get(found, found)) if _EXACT.fullmatch(found) else None
    if not isinstance(found, dict):
        return None
    match found.get("type"):
        case "array":
            element = data_type(found["elementType"])
            return None if element is None else pa.list_(element)
        case "map":
            key, value = data_type(found["keyType"]), data_type(found["valueType"])
            return None if key is None or value is None else pa.map_(key, value)
        case "struct":
            fields = [(each["name"], data_type(each["type"])) for each in found["fields"]]
            return None if any(type is None for _, type in fields) else pa.struct(fields)
    return None


_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
