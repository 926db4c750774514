"""Catalyst's trees in Python: read as JSON in one call, with a link from each node to the JVM's.

A call to the JVM takes half a millisecond and an analyzed plan has hundreds of nodes, so the whole tree is transferred at
once (`shims.plan_tree`), with facts about nodes that JSON omits. Something omitted is null or absent. Where JSON refers to a
child by number, equal children have the number of the first. So only `children`, in their order, and fields with plain
values are reliable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

import pyarrow as pa

from unshuffle.catalog.schema import Column, DataType
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.frozen import dataclass
from unshuffle.plan.logical import Plan
from unshuffle.spark.reader.relations import OperatorCode
from unshuffle.spark.shims.plan_tree import NO_FACTS, Facts, FoundNode, JavaNode, PlanTree

AttributeScope = Mapping[int, Column]  # the columns of an operator's inputs by Catalyst's ids

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."
_EXACT = re.compile(
    r"boolean|byte|short|integer|long|float|double|string|binary|date|timestamp|timestamp_ntz|void|time\(6\)"
    r"|decimal\(\d+,\d+\)|interval day to second|interval year to month"
)


# Functions of a row's partition, its place in it, or its file. Rows would get other values if we moved them.
_SHOWS_PARTITIONS = re.compile(
    re.escape(f'"{_EXPRESSIONS}')
    + r'(SparkPartitionID|MonotonicallyIncreasingID|InputFileName|InputFileBlockStart|InputFileBlockLength)"'
)

# The key of `session_window`: each row has the window of its own time, and Spark's aggregate merges those that overlap. What
# tells Spark so is in the key's metadata, which JSON omits; the name is always this one.
_SESSION = ('"name":"session_window"', "PreciseTimestampConversion")


class RunsWhole(Exception):
    """The whole plan must be run by Spark; the message gives the reason."""


class Untranslatable(Exception):
    """The operator around must be run by Spark; the message gives the reason."""


@dataclass
class CatalystNode:
    """An expression or a logical operator."""

    kind: str  # the class without its package
    package: str
    fields: dict[str, Any]
    children: tuple[CatalystNode, ...]
    java: JavaNode | FoundNode = field(repr=False)

    @classmethod
    def of(cls, jvm: Any) -> CatalystNode:
        """A node without fields and children, to be run as a whole."""
        return cls(jvm.nodeName(), "", {}, (), FoundNode(jvm))

    @property
    def jvm(self) -> Any:
        """The JVM's node."""
        return self.java.jvm

    @cached_property
    def facts(self) -> Facts:
        """What JSON omits."""
        return NO_FACTS if isinstance(self.java, FoundNode) else self.java.tree.facts.get(self.java.path, NO_FACTS)

    def allow_only(self, *fields: str) -> None:
        """Raises if there is another field: it may change what the operator does."""
        if unknown := sorted(self.fields.keys() - set(fields)):
            raise Untranslatable(f"{self.kind} with {unknown[0]}")

    def walk(self) -> Iterator[CatalystNode]:
        yield self
        for child in self.children:
            yield from child.walk()

    def expression(self, name: str) -> CatalystNode | None:
        """The expression in a field of an operator, if there is one."""
        nodes = self.fields.get(name)
        return self._read(nodes, name) if nodes else None

    def expressions(self, name: str) -> tuple[CatalystNode, ...]:
        """The expressions in a field that is a list."""
        return tuple(self._read(one, f"{name}:{i}") for i, one in enumerate(self.fields.get(name) or ()))

    def expression_lists(self, name: str) -> list[tuple[CatalystNode, ...]]:
        """The expressions in a field that is a list of lists. JSON omits the field if a list holds a literal of a class that
        JSON does not know."""
        lists = self.fields[name]
        if lists is None:
            lists = [[json.loads(text) for text in each] for each in self.facts[name]]
        return [tuple(self._read(one, f"{name}:{i}:{j}") for j, one in enumerate(each)) for i, each in enumerate(lists)]

    def plan(self) -> CatalystNode:
        """The plan of a subquery."""
        return self._read(self.fields["plan"], "plan")

    def _read(self, preorder: list[dict[str, Any]], step: str) -> CatalystNode:
        assert isinstance(self.java, JavaNode)
        return read(preorder, self.java.tree, f"{self.java.path}/{step}")

    def omitted(self, name: str) -> str:
        """The text of a field that JSON omits."""
        found = self.facts.get(name)
        return found if isinstance(found, str) else str(getattr(self.jvm, name)().toString())

    @property
    def result_type(self) -> DataType:
        """The type of an expression's value."""
        number = self.facts.get("type")
        if number is None or isinstance(self.java, FoundNode):
            return data_type(json.loads(self.jvm.dataType().json()))
        return data_type(json.loads(self.java.tree.types[number]))

    @property
    def is_nullable(self) -> bool:
        found = self.facts.get("nullable")
        return bool(self.jvm.nullable()) if found is None else bool(found)

    @property
    def is_deterministic(self) -> bool:
        found = self.facts.get("deterministic")
        return bool(self.jvm.deterministic()) if found is None else bool(found)

    def object(self, name: str) -> str:
        """The name of the Scala object in a field: `LeftOuter` for a join's type."""
        value = self.fields.get(name)
        return value["object"].rsplit(".", 1)[-1].rstrip("$") if isinstance(value, dict) and "object" in value else ""

    @property
    def type(self) -> DataType:
        return data_type(self.fields.get("dataType"))

    @property
    def expr_id(self) -> int:
        """Catalyst's id of an attribute."""
        expr_id = self.fields["exprId"]["id"]
        assert isinstance(expr_id, int)
        return expr_id

    @property
    def name(self) -> str:
        """A name for plans that users read."""
        name = self.fields.get("name") or self.fields.get("udfName")
        return name if isinstance(name, str) else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.kind).lower()

    @property
    def is_sparks_own(self) -> bool:
        return self.package.startswith(_EXPRESSIONS)

    @property
    def has_random_seed(self) -> bool:
        """Whether its own expressions have a `rand` whose seed the user has given."""
        has_seeds = not isinstance(self.java, JavaNode) or self.java.tree.has_seeds
        return has_seeds and any(map(_is_seeded, _dicts(self.fields)))

    def mentions(self, kind: str) -> bool:
        """Whether a class of that name occurs in its own fields, including the plans of its subqueries."""
        return f'.{kind}"' in json.dumps(self.fields)


@dataclass
class ReadPlan:
    """Our plan for an operator of Catalyst's, and Catalyst's ids of its columns."""

    plan: Plan
    expr_ids: tuple[int, ...]
    code: OperatorCode | None = None  # of a foreign operator, so that a foreign operator above can absorb it

    @property
    def scope(self) -> dict[int, Column]:
        # A column that was selected twice has one id; either will do.
        return dict(reversed(list(zip(self.expr_ids, self.plan.columns, strict=True))))


def read(preorder: list[dict[str, Any]], tree: PlanTree, path: str) -> CatalystNode:
    """The tree of a list of nodes in preorder, the first of which is at a path of a plan."""
    nodes = iter(preorder)

    def next_node(path: str) -> CatalystNode:
        fields = dict(next(nodes))
        package, _, kind = fields.pop("class").rpartition(".")
        count = fields.pop("num-children")
        children = tuple(next_node(f"{path}/{position}") for position in range(count))
        return CatalystNode(kind, package + ".", fields, children, JavaNode(tree, path))

    return next_node(path)


def read_plan(tree: PlanTree) -> CatalystNode:
    """The tree of one of Catalyst's logical plans. Raises `RunsWhole` if a result depends on where rows are, or on what only
    Spark's planner knows."""
    text = tree.text
    if found := _SHOWS_PARTITIONS.search(text):
        raise RunsWhole(f"{found[1]}, whose result depends on how rows are partitioned")
    if all(part in text for part in _SESSION):
        raise RunsWhole("session_window, whose sessions are merged while rows are grouped")
    return read(json.loads(text), tree, "")


def _is_seeded(fields: Mapping[str, Any]) -> bool:
    return str(fields.get("class", "")).startswith(_EXPRESSIONS) and fields.get("hideSeed") is False


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _dicts(each)


def data_type(json_type: Any) -> DataType:
    """Our type for one of Spark's in JSON. None if ours would lose something: collations, some intervals, user-defined
    types."""
    if isinstance(json_type, str):
        return from_spark_name(_SQL_NAMES.get(json_type, json_type)) if _EXACT.fullmatch(json_type) else None
    if not isinstance(json_type, dict):
        return None
    match json_type.get("type"):
        case "array":
            element = data_type(json_type["elementType"])
            return None if element is None else pa.list_(element)
        case "map":
            key, value = data_type(json_type["keyType"]), data_type(json_type["valueType"])
            return None if key is None or value is None else pa.map_(key, value)
        case "struct":
            fields = [(each["name"], data_type(each["type"])) for each in json_type["fields"]]
            return None if any(type is None for _, type in fields) else pa.struct(fields)
    return None


_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
