"""Measures how complete matching is: every pair of properties over a few columns, against the truth on all small relations.

    python tools/completeness.py            three columns, up to two dependencies (two minutes)
    python tools/completeness.py --wide     three columns with NULLs as well (ten minutes more)
    python tools/completeness.py --small    two columns, up to one (a second)

The truth is found by exhaustion, and small relations are enough. Two rows can violate an order, and three a grouping. All
local properties, dependencies and keys that hold on some rows hold on any subsequence of them, so if any relation refutes
an implication, three of its rows do. Two rows refute a global implication. Only comparisons of values matter, so each
column takes the 13 ways to rank three rows with ties, and the NULL run adds NULL to the values. Sets of facts that differ
only by renaming columns are run once, and counted once for each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the semantics of properties in tests/support

from tests.support.property_semantics import Row, broken_facts, broken_global, broken_local
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties import (
    Action,
    Dependencies,
    EqualColumns,
    Global,
    Grouped,
    Local,
    Ordered,
    Proof,
    Serial,
    Sorted,
    UnknownPartitioning,
    check,
    match_global,
    match_local,
)

COLUMNS = tuple(Column(i + 1, name, pa.int64()) for i, name in enumerate("abc"))
Fact = Dependency | EqualColumns | frozenset[Column] | Column


def the_facts(columns: Sequence[Column], with_nulls: bool) -> list[Fact]:
    """Every single dependency, equality and key (and, with NULLs, every NOT NULL) over the columns."""
    found: list[Fact] = []
    for right in columns:
        rest = [c for c in columns if c != right]
        found += [Dependency(frozenset(left), frozenset((right,))) for left in subsets(rest)]
    found += [EqualColumns(frozenset(pair)) for pair in combinations(columns, 2)]
    found += [frozenset(key) for key in subsets(columns) if key]
    return found + list(columns) if with_nulls else found


def subsets(columns: Sequence[Column]) -> list[tuple[Column, ...]]:
    return [each for size in range(len(columns) + 1) for each in combinations(columns, size)]


def together(facts: Sequence[Fact]) -> Dependencies:
    return Dependencies.of(
        [f for f in facts if isinstance(f, Dependency)],
        [f for f in facts if isinstance(f, EqualColumns)],
        [f for f in facts if isinstance(f, frozenset)],
        [f for f in facts if isinstance(f, Column)],
    )


def fact_sets(columns: Sequence[Column], most: int, with_nulls: bool) -> dict[Dependencies, int]:
    """Sets of facts up to renaming, and how many sets each represents."""
    counted: dict[Dependencies, int] = {}
    seen: dict[frozenset[str], Dependencies] = {}
    for size in range(most + 1):
        for chosen in combinations(the_facts(columns, with_nulls), size):
            names = [frozenset(renamed(fact, dict(zip(columns, p, strict=True))) for fact in chosen)
                     for p in permutations(columns)]  # fmt: skip
            first = min(names, key=sorted)
            if first not in seen:
                seen[first] = together(chosen)
                counted[seen[first]] = counted.get(seen[first], 0)
            counted[seen[first]] += 1
    return counted


def renamed(fact: Fact, names: dict[Column, Column]) -> str:
    def show(columns: frozenset[Column]) -> str:
        return str(sorted(names[c].id for c in columns))

    match fact:
        case Dependency():
            return f"{show(fact.determinant)}->{show(fact.dependent)}"
        case EqualColumns():
            return f"={show(fact.columns)}"
        case Column():
            return f"not null {names[fact].id}"
        case _:
            return f"key {show(fact)}"


def locals_over(columns: tuple[Column, ...], with_nulls: bool) -> list[Local]:
    """Every list of actions that names no column twice."""

    def sorts(column: Column) -> list[Action]:
        places = (True, False) if with_nulls else (True,)
        return [Sorted(column, down, first) for down in (False, True) for first in places]

    def grow(rest: tuple[Column, ...]) -> Iterator[Local]:
        yield ()
        for chosen in subsets(rest):
            if not chosen:
                continue
            heads: list[Action] = [Grouped(frozenset(chosen)), *(sorts(chosen[0]) if len(chosen) == 1 else [])]
            for tail in grow(tuple(c for c in rest if c not in chosen)):
                yield from ((head, *tail) for head in heads)

    return list(grow(columns))


def globals_over(columns: tuple[Column, ...], with_nulls: bool) -> list[Global]:
    places = (True, False) if with_nulls else (True,)
    found: list[Global] = [Serial(), UnknownPartitioning(), *(Grouped(frozenset(c)) for c in subsets(columns) if c)]
    for size in range(1, len(columns) + 1):
        for order in permutations(columns, size):
            for ways in product(product((False, True), places), repeat=size):
                found.append(Ordered(tuple(Sorted(c, *way) for c, way in zip(order, ways, strict=True))))
    return found


def value_columns(rows: int, with_nulls: bool) -> list[tuple[Any, ...]]:
    """Every way a column's values can compare."""
    values: tuple[Any, ...] = (None, *range(rows)) if with_nulls else tuple(range(rows))
    kept: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for column in product(values, repeat=rows):
        ranks = {v: i for i, v in enumerate(sorted({v for v in column if v is not None}))}
        kept[tuple(None if v is None else ranks[v] for v in column)] = column
    return list(kept)


def relations(columns: Sequence[Column], rows: int, with_nulls: bool) -> Iterator[list[Row]]:
    for values in product(value_columns(rows, with_nulls), repeat=len(columns)):
        yield [{c: v[i] for c, v in zip(columns, values, strict=True)} for i in range(rows)]


def placements(rows: list[Row]) -> Iterator[list[list[Row]]]:
    yield [rows]
    yield [rows, []]
    if len(rows) == 2:
        yield [rows[:1], rows[1:]]
        yield [rows[1:], rows[:1]]


@dataclass
class Count:
    pairs: int = 0
    true: int = 0
    proven: int = 0
    unsound: int = 0
    missed: tuple[str, ...] = ()


def survey(
    witnesses: Sequence[tuple[list[Row], int]],
    size: int,
    facts: dict[Dependencies, int],
    decide: Callable[[int, int, Dependencies], bool],
    describe: Callable[[int, int], str],
) -> Count:
    """`witnesses` are relations with the set of properties that hold of each, as bits."""
    count = Count()
    everything = (1 << size) - 1
    for known, weight in facts.items():
        masks = {mask for rows, mask in witnesses if broken_facts(rows, known) is None}
        follows = [everything] * size
        for mask in masks:
            for one in range(size):
                if mask >> one & 1:
                    follows[one] &= mask
        for one in range(size):
            for other in range(size):
                true, proven = bool(follows[one] >> other & 1), decide(one, other, known)
                count.pairs += weight
                count.true += weight * true
                count.proven += weight * (true and proven)
                count.unsound += weight * (proven and not true)
                if true and not proven:
                    count.missed = (*count.missed, f"{describe(one, other)}   given {known}")
    return count


def survey_local(columns: tuple[Column, ...], most: int, with_nulls: bool) -> Count:
    claims = locals_over(columns, with_nulls)
    witnesses = [
        (rows, sum(1 << i for i, claim in enumerate(claims) if broken_local(rows, claim) is None))
        for size in (2, 3)
        for rows in relations(columns, size, with_nulls)
    ]

    def decide(one: int, other: int, facts: Dependencies) -> bool:
        found = match_local(claims[one], claims[other], facts)
        return isinstance(found, Proof) and all(check(step, facts) for step in found.steps)

    return survey(
        witnesses, len(claims), fact_sets(columns, most, with_nulls), decide, lambda a, b: f"{claims[a]} => {claims[b]}"
    )


def survey_global(columns: tuple[Column, ...], most: int, with_nulls: bool) -> Count:
    claims = globals_over(columns, with_nulls)
    witnesses = [
        (rows, sum(1 << i for i, claim in enumerate(claims) if broken_global(parts, claim) is None))
        for size in (1, 2)
        for rows in relations(columns, size, with_nulls)
        for parts in placements(rows)
    ]

    def decide(one: int, other: int, facts: Dependencies) -> bool:
        found = match_global(claims[one], claims[other], facts)
        return isinstance(found, Proof) and all(check(step, facts) for step in found.steps)

    return survey(
        witnesses, len(claims), fact_sets(columns, most, with_nulls), decide, lambda a, b: f"{claims[a]} => {claims[b]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="two columns, up to one fact")
    parser.add_argument("--wide", action="store_true", help="with NULLs over three columns as well: 80 million pairs")
    options = parser.parse_args()
    columns, most = (COLUMNS[:2], 1) if options.small else (COLUMNS, 2)
    runs = [
        ("local", survey_local, columns, False),
        ("global", survey_global, columns, False),
        ("local, NULLs", survey_local, columns[:2], True),
        ("global, NULLs", survey_global, columns if options.wide else columns[:2], True),
    ]
    print("| properties | columns | pairs | true | proven | missed | unsound | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    bad = 0
    for name, run, over, with_nulls in runs:
        began = time.perf_counter()
        found = run(over, most, with_nulls)
        seconds = time.perf_counter() - began
        print(
            f"| {name} | {len(over)} | {found.pairs:,} | {found.true:,} | {found.proven:,} "
            f"| {found.true - found.proven:,} | {found.unsound:,} | {seconds:.0f} |",
            flush=True,
        )
        for line in found.missed[:20]:
            print("  missed:", line)
        bad += found.unsound + found.true - found.proven
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
