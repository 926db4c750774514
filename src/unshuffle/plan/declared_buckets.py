"""Buckets that the user declared: `pmod(hash(user), 8) = 3` as a condition of one of eight files.

`hash` is the function of Spark's exchanges and of its buckets. So if every file of a table has such a condition, on the same
columns and with the same number of buckets, the table is stored like one that Spark bucketed. Other conditions may be joined
to it with AND.
"""

from __future__ import annotations

from collections.abc import Iterator

from unshuffle.catalog.constraints.constraint import PartCondition
from unshuffle.catalog.schema import Column
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import Call, Expression, Literal, Ref
from unshuffle.plan.logical import Scan
from unshuffle.plan.predicates import conjuncts
from unshuffle.plan.stored_tables import in_numbered_buckets


@dataclass(frozen=True, slots=True)
class _HashCondition:
    columns: tuple[tuple[str, str], ...]  # names and types
    buckets: int
    number: int


def with_declared_buckets(scan: Scan, parts: tuple[PartCondition, ...]) -> Scan:
    """The scan with the buckets that conditions on its parts declare. The same scan if a file has no such condition, or
    several that differ."""
    if scan.bounds is None or (scan.parts is not None and not scan.parts.folder_columns):
        return scan  # it has buckets, or the partitions of a stream
    found = []
    for path in scan.bounds.absolute_paths:
        covering = [part.expression for part in parts if part.expression is not None and part.covers(path)]
        conditions = {each for expression in covering for each in _hash_conditions(expression)}
        if len(conditions) != 1:
            return scan
        found.append(conditions.pop())
    kinds = {(each.columns, each.buckets) for each in found}
    if len(kinds) != 1:
        return scan
    names = [name for name, _ in found[0].columns]
    return in_numbered_buckets(scan, names, found[0].buckets, [each.number for each in found]) or scan


def _hash_conditions(condition: Expression) -> Iterator[_HashCondition]:
    for part in conjuncts(condition):
        match part:
            case Call("=", (Call("pmod", (Call("hash", hashed), Literal(value=buckets))), Literal(value=number))):
                pass
            case Call("=", (Literal(value=number), Call("pmod", (Call("hash", hashed), Literal(value=buckets))))):
                pass
            case _:
                continue
        columns = [each.column for each in hashed if isinstance(each, Ref)]
        if not isinstance(buckets, int) or not isinstance(number, int):
            continue
        if 0 <= number < buckets and 0 < len(columns) == len(hashed):
            yield _HashCondition(tuple(map(_named, columns)), buckets, number)


def _named(column: Column) -> tuple[str, str]:
    return column.name, str(column.type)
