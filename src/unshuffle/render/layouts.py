"""Structural properties in words: `hash(guid) into 8, sorted guid↑ start_time↑`.

The symbols of the papers ({X}g, ⊥, ∅) are for proofs; a reader of a plan wants to know where rows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.catalog.types import spark_name
from unshuffle.properties import (
    Anyhow,
    Clustered,
    Covered,
    Covering,
    Covers,
    Delivered,
    EveryPartition,
    Exactly,
    Grouped,
    HashFunction,
    Joint,
    LiesWithin,
    Local,
    Named,
    OnePartition,
    Ordered,
    Partitioned,
    PartitionFunction,
    RangeFunction,
    RangeOrdered,
    Regrouped,
    Replicated,
    Required,
    Scattered,
    Serial,
    Sorted,
    Split,
    Unknown,
    Within,
)
from unshuffle.properties.delivered import Partitioning
from unshuffle.properties.proof import Rule, Step
from unshuffle.properties.structure import Global
from unshuffle.render.names import Names


class Layouts:
    """Writes properties with the names of a plan."""

    def __init__(self, names: Names) -> None:
        self._names = names

    # --- what is delivered

    def layout(self, delivered: Delivered) -> str:
        order = self.local(delivered.local)
        return ", ".join(filter(None, (self.partitioning(delivered.partitioning), order)))

    def partitioning(self, given: Partitioning) -> str:
        match given:
            case Serial():
                return "one partition"
            case Scattered(partitions=count):
                return "spread" if count is None else f"spread over {count}"
            case Replicated():
                return "copied to every task"
            case Covering(function=function, columns=columns):
                return (
                    f"copied to those of {function.partitions} ranges that can have their {self._names.listed(columns)}"
                )
            case Within(function=function, columns=columns):
                shown = zip(columns, function.keys, strict=False)
                keys = self.keys(Sorted(column, key.descending, key.nulls_first) for column, key in shown)
                return f"range({keys}, …) into {function.partitions}"
            case Partitioned(function=function, columns=columns, nulls_apart=apart):
                return self._function(function, columns) + (" (NULL keys anywhere)" if apart else "")

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
            case Regrouped(base=base):
                return f"{self._function(base, columns)}, gathered in {function.partitions}"
            case Split(base=base, by=by):
                outer, inner = columns[: base.arity], columns[base.arity :]
                return f"{self._function(base, outer)}, each split by {self._function(by, inner)}"
            case Named(name=name):
                return f"{name}({self._names.listed(columns)}) into {function.partitions}"
            case Unknown():
                return f"clustered by {self._names.listed(columns)} into {function.partitions}"

    def key(self, key: Sorted) -> str:
        usual = key.nulls_first != key.descending
        nulls = "" if usual else (" nulls first" if key.nulls_first else " nulls last")
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

    # --- what is required

    def required(self, required: Required) -> str:
        """What an operator asks of an input, to stand after `needs`."""
        place = self._place(required)
        if not required.local:
            return place or "nothing of its input"
        order = f"rows {self.local(required.local)}"
        return f"{place}, and {order} inside each" if place else order

    def _place(self, required: Required) -> str:
        match required.partitioning:
            case Anyhow(parallel=parallel):
                return "rows spread over partitions" if parallel else ""
            case OnePartition():
                return "all rows in one partition"
            case EveryPartition():
                return "a copy of these rows in every task"
            case Covers():
                return "a copy of each of these rows in every partition of its other input that can have matches"
            case Clustered(maximum=columns):
                return f"rows with equal {self._names.set(columns)} in one partition"
            case RangeOrdered(keys=keys):
                return f"partitions in order of {self.keys(keys)}"
            case LiesWithin(within=within):
                return f"rows where they lie, by {self.partitioning(within)}"
            case Exactly(layout=layout):
                return f"rows laid out by {self.partitioning(layout)}"

    def joint(self, required: Joint) -> str:
        pairs = " and ".join(" = ".join(map(self._names.name, key.columns)) for key in required.keys)
        if isinstance(required, Covered):
            return f"the rows of one input wherever the other can have matches on {pairs}"
        return f"all inputs laid out alike on {pairs}"

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
        turned = " (read backwards)" if step.backwards else ""
        if step.rule is Rule.ANYHOW:
            return str(step.rule.value)
        before, after = self.formula(step.before), self.formula(step.after)
        return f"{before} ⇒ {after} by {step.rule.value}{turned}{reason}"
