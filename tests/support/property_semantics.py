"""The meaning of the formulas on rows: Definitions IV.1 to IV.6 of ICDE 2010, and the facts of `dependencies`, executable.

Nothing here infers anything. Given rows, each function returns rows that violate a claim, or nothing. The soundness tests
rely on it, and so can any check of a claim against stored data.

The descending case of Definition IV.2 is printed with the ascending sign. Definition IV.4 is correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unshuffle.catalog.schema import Column, Dependency, names
from unshuffle.properties.facts.dependencies import Dependencies
from unshuffle.properties.layouts.delivered import Partitioned, PrefixPartitioned
from unshuffle.properties.layouts.partition_functions import (
    HashFunction,
    NamedFunction,
    PartitionFunction,
    RangeFunction,
    RegroupedFunction,
    SplitFunction,
    UnknownFunction,
    compare_values,
)
from unshuffle.properties.layouts.structure import (
    Global,
    Grouped,
    Local,
    Ordered,
    Replicated,
    Serial,
    Sorted,
    TargetedBroadcast,
    UnknownPartitioning,
    show,
)

Row = Mapping[Column, Any]
Partitions = Sequence[Sequence[Row]]
# The functions that only an engine can compute.
Leaf = HashFunction | NamedFunction | UnknownFunction


@dataclass(frozen=True, slots=True)
class Violation:
    claim: str
    rows: tuple[Row, ...]


def seen(row: Row, columns: Iterable[Column]) -> tuple[Any, ...]:
    """The row's values as GROUP BY compares them: NULL equal to NULL, NaN to NaN, 0.0 to -0.0."""
    return tuple("NaN" if value != value else value for value in (row[column] for column in columns))


def compare_rows(one: Row, other: Row, keys: Iterable[Sorted]) -> int:
    for key in keys:
        found = compare_values(one[key.column], other[key.column], key.descending, key.nulls_first)
        if found:
            return found
    return 0


def broken_local(rows: Sequence[Row], local: Local) -> Violation | None:
    """Definitions IV.1 to IV.4."""
    columns: list[Column] = []
    for action in local:
        if isinstance(action, Sorted):
            last: dict[tuple[Any, ...], Row] = {}
            for row in rows:
                run = seen(row, columns)
                before = last.get(run)
                if before is not None and compare_rows(before, row, (action,)) > 0:
                    return Violation(show(local), (before, row))
                last[run] = row
            columns.append(action.column)
        else:
            columns.extend(sorted(action.columns, key=lambda c: c.id))
            closed: set[tuple[Any, ...]] = set()
            previous: Row | None = None
            for row in rows:
                run = seen(row, columns)
                if previous is not None and seen(previous, columns) != run:
                    closed.add(seen(previous, columns))
                if run in closed:
                    return Violation(show(local), (row,))
                previous = row
    return None


def broken_global(partitions: Partitions, claim: Global) -> Violation | None:
    """Definitions IV.5 and IV.6, with partitions in the order of their numbers."""
    match claim:
        case Serial():
            return None if len(partitions) == 1 else Violation("⊥", ())
        case UnknownPartitioning():
            return None
        case Replicated():
            return _broken_copies(partitions)
        case TargetedBroadcast():
            return _broken_covering(partitions, claim)
        case Grouped():
            return _broken_clustering(partitions, sorted(claim.columns, key=lambda c: c.id))
        case Ordered():
            return _broken_ranges(partitions, claim)


def _broken_clustering(partitions: Partitions, columns: Sequence[Column]) -> Violation | None:
    home: dict[tuple[Any, ...], tuple[int, Row]] = {}
    for index, rows in enumerate(partitions):
        for row in rows:
            at, first = home.setdefault(seen(row, columns), (index, row))
            if at != index:
                return Violation(f"clustered on {names(columns)}", (first, row))
    return None


def _broken_ranges(partitions: Partitions, claim: Ordered) -> Violation | None:
    filled = [rows for rows in partitions if rows]
    for index, lower in enumerate(filled):
        for upper in filled[index + 1 :]:
            for one in lower:
                for other in upper:
                    if compare_rows(one, other, claim.keys) >= 0:
                        return Violation(str(claim), (one, other))
    return None


def _content(row: Row) -> str:
    return repr(sorted((c.id, v) for c, v in row.items()))


def _broken_covering(partitions: Partitions, claim: TargetedBroadcast) -> Violation | None:
    """Every partition in a row's reach has the same number of copies of it, and no other partition has one."""
    if len(partitions) != claim.function.partitions:
        return Violation(f"{len(partitions)} partitions of {claim}", ())
    times: dict[str, tuple[Row, Counter[int]]] = {}
    for index, rows in enumerate(partitions):
        for row in rows:
            times.setdefault(_content(row), (row, Counter()))[1][index] += 1
    for row, found in times.values():
        reach = claim.function.reach([row[column] for column in claim.columns])
        if set(found) != set(reach) or len(set(found.values())) > 1:
            return Violation(str(claim), (row,))
    return None


def _broken_copies(partitions: Partitions) -> Violation | None:
    def content(rows: Sequence[Row]) -> list[str]:
        return sorted(map(_content, rows))

    first = content(partitions[0]) if partitions else []
    return None if all(content(rows) == first for rows in partitions) else Violation("⊤", ())


def partition_number(
    function: PartitionFunction, values: Sequence[Any], leaf: Callable[[Leaf, tuple[Any, ...]], int]
) -> int:
    """The partition of a row. Composed functions are evaluated here; `leaf` computes the opaque ones."""
    match function:
        case RangeFunction():
            return function.number(values)
        case RegroupedFunction():
            return function.groups[partition_number(function.base, values, leaf)]
        case SplitFunction():
            at = function.base.arity
            outer = partition_number(function.base, values[:at], leaf)
            return outer * function.by.partitions + partition_number(function.by, values[at:], leaf)
        case _:
            return leaf(function, tuple(values))


def broken_layout(
    partitions: Partitions, layout: Partitioned, leaf: Callable[[Leaf, tuple[Any, ...]], int]
) -> Violation | None:
    """Is every row where the function sends it? `leaf` computes the hashes."""
    for index, rows in enumerate(partitions):
        for row in rows:
            values = tuple(row[column] for column in layout.columns)
            if layout.nulls_anywhere and None in values:
                continue
            if partition_number(layout.function, values, leaf) != index:
                return Violation(str(layout), (row,))
    return None


def broken_prefix_layout(partitions: Partitions, layout: PrefixPartitioned) -> Violation | None:
    """Is every row in a partition that can hold its columns?"""
    for index, rows in enumerate(partitions):
        for row in rows:
            if index not in layout.function.reach([row[column] for column in layout.columns]):
                return Violation(str(layout), (row,))
    return None


def broken_dependency(rows: Iterable[Row], dependency: Dependency, lax: bool = False) -> Violation | None:
    left = sorted(dependency.determinant, key=lambda c: c.id)
    right = sorted(dependency.dependent, key=lambda c: c.id)
    first: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = seen(row, left)
        if lax and None in key:
            continue
        other = first.setdefault(key, row)
        if seen(other, right) != seen(row, right):
            return Violation(str(dependency), (other, row))
    return None


def broken_facts(rows: Sequence[Row], facts: Dependencies) -> Violation | None:
    """Rows that break any of the facts."""
    for dependency in facts.functional:
        if found := broken_dependency(rows, dependency):
            return found
    for dependency in facts.lax:
        if found := broken_dependency(rows, dependency, lax=True):
            return found
    for each in facts.classes:
        for row in rows:
            values = {*seen(row, each.columns)}
            if len(values) > 1 or (each.constant is not None and values != {each.constant.value}):
                return Violation(str(each), (row,))
    for key in facts.keys:
        taken: set[tuple[Any, ...]] = set()
        for row in rows:
            value = seen(row, sorted(key, key=lambda c: c.id))
            if value in taken:
                return Violation(f"unique {names(key)}", (row,))
            taken.add(value)
    for column in facts.never_null:
        for row in rows:
            if row[column] is None:
                return Violation(f"never NULL {column}", (row,))
    return None
