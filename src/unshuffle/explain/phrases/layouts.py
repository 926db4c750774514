"""Layouts and requirements in words: `hash(guid) into 8, sorted guid↑ start_time↑`.

Only proofs use the symbols of the papers ({X}g, ⊥, ∅).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.catalog.types import spark_name
from unshuffle.explain.phrases.names import ColumnNames
from unshuffle.properties import (
    AnyDistribution,
    Broadcast,
    BroadcastAligned,
    BroadcastTo,
    Clustered,
    Delivered,
    Exactly,
    ExactlyPrefix,
    Grouped,
    HashFunction,
    Joint,
    Local,
    NamedFunction,
    Ordered,
    Partitioned,
    PartitionFunction,
    PrefixPartitioned,
    RangeFunction,
    RangeOrdered,
    RegroupedFunction,
    Replicated,
    Required,
    Serial,
    SinglePartition,
    Sorted,
    SplitFunction,
    TargetedBroadcast,
    UnknownFunction,
    UnknownPartitioning,
)
from unshuffle.properties.layouts.delivered import Partitioning
from unshuffle.properties.layouts.structure import Global
from unshuffle.properties.matching.proof import Rule, Step


class LayoutText:
    """The texts of layouts, requirements and proofs, with the column names of one plan."""

    def __init__(self, names: ColumnNames) -> None:
        self._names = names

    # --- delivered layouts

    def layout(self, delivered: Delivered) -> str:
        order = self.local(delivered.local)
        return ", ".join(filter(None, (self.partitioning(delivered.partitioning), order)))

    def partitioning(self, partitioning: Partitioning) -> str:
        match partitioning:
            case Serial():
                return "single partition"
            case UnknownPartitioning(partitions=count):
                return "unknown partitioning" if count is None else f"unknown partitioning into {count}"
            case Replicated():
                return "broadcast to every task"
            case TargetedBroadcast(function=function, columns=columns):
                return f"targeted broadcast by {self._names.listed(columns)} to {function.partitions} ranges"
            case PrefixPartitioned(function=function, columns=columns):
                shown = zip(columns, function.keys, strict=False)
                keys = self.keys(Sorted(column, key.descending, key.nulls_first) for column, key in shown)
                return f"range({keys}, …) into {function.partitions}"
            case Partitioned(function=function, columns=columns, nulls_anywhere=apart):
                return self._function(function, columns) + (" (NULL keys in any partition)" if apart else "")

    def _function(self, function: PartitionFunction, columns: Sequence[Column]) -> str:
        match function:
            case HashFunction(types=types, partitions=count):
                shown = (
                    self._names.name(c) + ("" if t == c.type else f" as {spark_name(t)}")
                    for c, t in zip(columns, types, strict=True)
                )
                return f"hash({', '.join(shown)}) into {count}"
            case RangeFunction(keys=keys):
                shown = (
                    self.key(Sorted(column, key.descending, key.nulls_first))
                    for column, key in zip(columns, keys, strict=True)
                )
                return f"range({', '.join(shown)}) into {function.partitions}"
            case RegroupedFunction(base=base):
                return f"{self._function(base, columns)}, merged into {function.partitions}"
            case SplitFunction(base=base, by=by):
                outer, inner = columns[: base.arity], columns[base.arity :]
                return f"{self._function(base, outer)}, each split by {self._function(by, inner)}"
            case NamedFunction(name=name):
                return f"{name}({self._names.listed(columns)}) into {function.partitions}"
            case UnknownFunction():
                return f"clustered by {self._names.listed(columns)} into {function.partitions}"

    def key(self, key: Sorted) -> str:
        is_default = key.nulls_first != key.descending
        nulls = "" if is_default else (" nulls first" if key.nulls_first else " nulls last")
        return f"{self._names.name(key.column)}{'↓' if key.descending else '↑'}{nulls}"

    def keys(self, keys: Iterable[Sorted]) -> str:
        return ", ".join(map(self.key, keys))

    def local(self, local: Local) -> str:
        parts: list[str] = []
        for action in local:
            if isinstance(action, Grouped):
                parts.append(f"grouped by {self._names.set(action.columns)}")
            elif parts and parts[-1].startswith("sorted"):
                parts[-1] += f" {self.key(action)}"
            else:
                parts.append(f"sorted {self.key(action)}")
        return ", then ".join(parts)

    # --- requirements

    def required(self, required: Required) -> str:
        """The requirement of an operator on one input, as the object of `needs`."""
        distribution = self._distribution(required)
        if not required.local:
            return distribution or "nothing of its input"
        order = f"rows {self.local(required.local)}"
        return f"{distribution}, and {order} inside each" if distribution else order

    def _distribution(self, required: Required) -> str:
        match required.partitioning:
            case AnyDistribution(parallel=parallel):
                return "rows in several partitions" if parallel else ""
            case SinglePartition():
                return "all rows in a single partition"
            case Broadcast():
                return "a copy of these rows in every task"
            case BroadcastTo():
                return "a copy of each of these rows in every partition of its other input that can have matches"
            case Clustered(maximum=columns):
                return f"rows with equal {self._names.set(columns)} in one partition"
            case RangeOrdered(keys=keys):
                return f"partitions in order of {self.keys(keys)}"
            case ExactlyPrefix(layout=within):
                return f"rows that keep the partitions of {self.partitioning(within)}"
            case Exactly(layout=layout):
                return f"rows partitioned by {self.partitioning(layout)}"

    def joint(self, required: Joint) -> str:
        pairs = " and ".join(" = ".join(map(self._names.name, key.columns)) for key in required.keys)
        if isinstance(required, BroadcastAligned):
            return f"the rows of one input in every partition where the other can have matches on {pairs}"
        return f"all inputs co-partitioned on {pairs}"

    # --- proofs

    def dependency(self, dependency: Dependency) -> str:
        if not dependency.determinant:
            return f"{self._names.set(dependency.dependent)} is constant"
        return f"{self._names.set(dependency.determinant)} -> {self._names.set(dependency.dependent)}"

    def formula(self, formula: Global | Local) -> str:
        match formula:
            case tuple():
                return f"[{', '.join(self._action(action) for action in formula)}]"
            case Grouped():
                return self._action(formula)
            case Ordered(keys=keys):
                return f"[{self.keys(keys)}]o"
            case _:
                return str(formula)

    def _action(self, action: Grouped | Sorted) -> str:
        return self.key(action) if isinstance(action, Sorted) else f"{{{self._names.set(action.columns)}}}g"

    def step(self, step: Step) -> str:
        reason = f", since {self.dependency(step.because)}" if step.because is not None else ""
        backwards = " (read backwards)" if step.backwards else ""
        if step.rule is Rule.ANY:
            return str(step.rule.value)
        before, after = self.formula(step.before), self.formula(step.after)
        return f"{before} ⇒ {after} by {step.rule.value}{backwards}{reason}"
