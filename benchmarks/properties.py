"""Measures property matching: `python benchmarks/properties.py`.

Realistic properties: ten facts over 8 columns (dependencies, equalities, a constant and a key), and 2,000 random pairs of a
delivered and a required property of the kinds in Table VI. *Warm* matches against facts whose closures were computed
before, as an optimizer does thousands of times per group. *Cold* gives each match a new set of facts, so that no closure is
cached. Answers are never cached. Half of the requirements are drawn from the delivered property, so that proofs are found
and recorded. The closure is measured on 60 columns and 100 dependencies, most of them a chain listed in the worst order, on
new facts each time.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import pyarrow as pa

from unshuffle.catalog.schema import Column, Dependency
from unshuffle.properties import (
    Clustered,
    Delivered,
    Dependencies,
    EqualColumns,
    Local,
    Proof,
    RangeOrdered,
    Required,
    SampledBoundaries,
    asc,
    constant_column,
    desc,
    grouped,
    hashed,
    match,
    ranged,
)

TYPE = pa.int64()
GOAL = " goal 1000 us"


def realistic_facts(columns: list[Column]) -> list[object]:
    """Arguments of `Dependencies.of`: ten facts over eight columns."""
    a, b, c, d, e, f, g, h = columns
    functional = [
        Dependency(frozenset((a,)), frozenset((b, c))),
        Dependency(frozenset((b,)), frozenset((d,))),
        Dependency(frozenset((c, d)), frozenset((e,))),
        Dependency(frozenset((e, f)), frozenset((g,))),
        Dependency(frozenset((g,)), frozenset((b,))),
        Dependency(frozenset((h, a)), frozenset((f,))),
    ]
    classes = [EqualColumns(frozenset((a, h))), EqualColumns(frozenset((d, g))), constant_column(e, 5)]
    return [functional, classes, [frozenset((a, f))], [a, b]]


def draw(rng: random.Random, columns: list[Column]) -> tuple[Delivered, Required]:
    on = rng.sample(columns, rng.randint(1, 3))
    layout = hashed(on, 64) if rng.random() < 0.6 else ranged([asc(c) for c in on], SampledBoundaries("s", 64))
    local: Local = tuple(
        rng.choice([asc(c), asc(c), desc(c), grouped(*rng.sample(columns, 2))]) for c in rng.sample(columns, 3)
    )
    if rng.random() < 0.5:
        wanted = frozenset(on) | frozenset(rng.sample(columns, rng.randint(0, 2)))
        order = local[: rng.randint(0, 2)] if rng.random() < 0.6 else (grouped(*rng.sample(columns, 2)),)
    else:
        wanted = frozenset(rng.sample(columns, rng.randint(1, 4)))
        order = tuple(asc(c) for c in rng.sample(columns, rng.randint(0, 3)))
    place = Clustered(wanted) if rng.random() < 0.8 else RangeOrdered(tuple(asc(c) for c in on))
    return Delivered(layout, order if rng.random() < 0.1 else local), Required(place, order)


def microseconds(run: Callable[[], object]) -> float:
    """The best of five, to exclude other programs on the machine."""
    times = []
    for _ in range(5):
        began = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - began)
    return min(times) / 1000


def spread(times: list[float]) -> str:
    ordered = sorted(times)
    return f"median {statistics.median(ordered):7.1f} us   p95 {ordered[int(len(ordered) * 0.95)]:7.1f} us"


def main() -> None:
    columns = [Column(i + 1, name, TYPE) for i, name in enumerate("abcdefgh")]
    parts = realistic_facts(columns)
    rng = random.Random(7)
    pairs = [draw(rng, columns) for _ in range(2000)]
    facts = Dependencies.of(*parts)  # type: ignore[arg-type]
    for given, wish in pairs:
        match(given, wish, facts)
    proofs = sum(isinstance(match(given, wish, facts), Proof) for given, wish in pairs)
    print(f"{len(pairs)} matches, {proofs} proven, {len(pairs) - proofs} answered with what is missing")
    print("match, warm       ", spread([microseconds(lambda p=p: match(*p, facts)) for p in pairs]), " goal 20 us")

    def cold(pair: tuple[Delivered, Required]) -> None:
        match(*pair, Dependencies(facts.functional, facts.lax, facts.classes, facts.keys, facts.never_null))

    print("match, cold       ", spread([microseconds(lambda p=p: cold(p)) for p in pairs]), " goal 100 us")

    def from_nothing(pair: tuple[Delivered, Required]) -> None:
        match(*pair, Dependencies.of(*parts))  # type: ignore[arg-type]

    print("match, facts built", spread([microseconds(lambda p=p: from_nothing(p)) for p in pairs[:500]]))
    wide = [Column(i + 1, f"c{i}", TYPE) for i in range(60)]
    chain = [Dependency(frozenset((wide[i],)), frozenset((wide[i + 1],))) for i in reversed(range(59))]
    more = [Dependency(frozenset(rng.sample(wide, 2)), frozenset(rng.sample(wide, 2))) for _ in range(41)]
    every = tuple(chain + more)

    def closure(known: Dependencies) -> None:
        known.closure((wide[0],))

    remembered = Dependencies(every)

    assert len(remembered.closure((wide[0],))) == 60
    print("closure, cold     ", spread([microseconds(lambda: closure(Dependencies(every))) for _ in range(200)]), GOAL)
    print("closure, warm     ", spread([microseconds(lambda: closure(remembered)) for _ in range(200)]))


if __name__ == "__main__":
    main()
