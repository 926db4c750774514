"""Queries that grow: chains and stars of any number of joins, over described tables.

A chain joins each table to the next by a foreign key. A star joins one large table to small ones, every second of them
filtered. Both end in a GROUP BY. Sizes differ from table to table, in a fixed pattern.
"""

from __future__ import annotations

from collections.abc import Callable


def chain(joins: int) -> tuple[str, str]:
    """The description of the tables, and the query."""
    tables = []
    for i in range(joins + 1):
        rows = 10 ** (5 + (3 * i) % 4)
        tables.append(
            f"t{i}  rows={rows} key(id)\n"
            f"    id       bigint\n"
            f"    next_id  bigint  distinct={10 ** (5 + (3 * i + 3) % 4)}\n"
            f"    label    string  distinct=1000\n"
            f"    amount   double\n"
        )
    names = ", ".join(f"t{i}" for i in range(joins + 1))
    links = " and ".join(f"t{i}.next_id = t{i + 1}.id" for i in range(joins))
    return "".join(tables), f"select t0.label, sum(t{joins}.amount) as s from {names} where {links} group by t0.label"


def star(joins: int) -> tuple[str, str]:
    """The description of the tables, and the query."""
    sizes = [10 ** (3 + i % 5) for i in range(joins)]
    keys = "".join(f"    k{i}      bigint  distinct={size}\n" for i, size in enumerate(sizes))
    fact = f"fact  rows=1000000000\n{keys}    amount  double\n"
    dimensions = "".join(
        f"d{i}  rows={size} key(id)\n    id     bigint\n    label  string  distinct={min(size, 50)}\n"
        for i, size in enumerate(sizes)
    )
    names = ", ".join(f"d{i}" for i in range(joins))
    links = [f"fact.k{i} = d{i}.id" for i in range(joins)]
    filters = [f"d{i}.label = 'x'" for i in range(1, joins, 2)]
    where = " and ".join([*links, *filters])
    return fact + dimensions, f"select d0.label, sum(amount) as s from fact, {names} where {where} group by d0.label"


SHAPES: dict[str, Callable[[int], tuple[str, str]]] = {"chain": chain, "star": star}
JOINS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20)
