"""A lowered plan, and pieces of SQL that all operators share.

**Carriers** are the columns by which Spark knows how rows are laid out. Sometimes an operator's keys only *determine* the
columns of a layout, or hold them in another type. Spark then does not see that no exchange is needed. The carriers are
added to the keys: the keys determine them, so no group and no match changes. Some layouts have no such column: those of a
join whose inputs are partitioned by some of its keys only, and those on floating-point keys, which Spark normalizes
before it hashes them. There the carrier is a new column, the partition number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from unshuffle.catalog.schema import Column, DataType
from unshuffle.frozen import dataclass
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import Partitioned, PrefixPartitioned, Serial, Sorted
from unshuffle.spark.lowering.baseline import name_of, names_of


@dataclass(frozen=True, slots=True)
class Lowered:
    """A physical plan as SQL. Its columns go by `spark_name`; `extras` are further columns that only Spark needs."""

    sql: str
    carriers: tuple[Column, ...] = ()
    extras: tuple[Column, ...] = ()
    # A column cast to another type, as one of the extras.
    casts: dict[tuple[Column, DataType], Column] = field(default_factory=dict)
    is_broadcast: bool = False  # the join that reads it sends it to every task
    is_numbered: bool = False  # the only carrier is the partition number
    is_sorted_by_number: bool = False  # and that number is the first key of the sort order that Spark knows
    # Spark loses a range partitioning when columns are renamed: the carrier behind each column that repeats one.
    range_carriers: dict[Column, Column] | None = None


def numbered(sql: str, number: Column, is_sorted_by_number: bool = False) -> Lowered:
    """Rows with their partition number as the only carrier."""
    return Lowered(sql, (number,), (number,), is_numbered=True, is_sorted_by_number=is_sorted_by_number)


# ---------------------------------------------------------------------------------------------------------- carriers


def carried(rows: Lowered, node: PhysicalPlan, names: dict[Column, Column]) -> Lowered:
    """The carriers after an operator that preserves the layout; the SQL is still to be filled in. `names` maps a column to
    the output that repeats it. A carrier that is no output becomes an extra, if the plan still has a layout."""
    if not isinstance(node.delivered.partitioning, Partitioned | PrefixPartitioned) or not rows.carriers:
        return Lowered("", is_broadcast=rows.is_broadcast)
    if rows.range_carriers is not None:
        renamed = {names[c]: carrier for c, carrier in rows.range_carriers.items() if c in names}
        extras = tuple(c for c in rows.carriers if names.get(c) != c)
        return Lowered("", rows.carriers, extras, is_broadcast=rows.is_broadcast, range_carriers=renamed)
    extras = tuple(c for c in rows.carriers if c not in names)
    return Lowered(
        "",
        tuple(names.get(c, c) for c in rows.carriers),
        extras,
        {(names.get(c, c), t): made for (c, t), made in rows.casts.items() if made in extras},
        rows.is_broadcast,
        rows.is_numbered,
        rows.is_sorted_by_number,
    )


def keys_with_carriers(keys: Sequence[Column], rows: Lowered, node: PhysicalPlan) -> list[Column]:
    """Grouping keys and carriers, each carrier right after the keys that determine it: rows sorted by a longer list are then
    also sorted by a shorter one. For rows stored in an order, the partition number comes first. (For unsorted rows it
    would be the wrong first key: sorting is faster when the first key distinguishes most rows.)"""
    if rows.is_sorted_by_number and keys:
        return [*rows.carriers, *keys]
    cast_from: dict[Column, tuple[Column, ...]] = {carrier: (column,) for (column, _), carrier in rows.casts.items()}
    pending = {c: cast_from.get(c, (c,)) for c in rows.carriers if keys and c not in keys}
    if rows.is_numbered:
        pending = dict.fromkeys(pending, layout_columns(node))
    ordered: list[Column] = []
    for key in keys:
        ordered.append(key)
        for carrier, sources in list(pending.items()):
            if sources and node.facts.determines(ordered, sources):
                ordered.append(carrier)
                del pending[carrier]
    return [*ordered, *pending]


def layout_columns(node: PhysicalPlan) -> tuple[Column, ...]:
    layout = node.delivered.partitioning
    return layout.columns if isinstance(layout, Partitioned) else ()


# --------------------------------------------------------------------------------------------------------------- SQL


def select_only(rows: Lowered, columns: Sequence[Column]) -> str:
    """The rows without extras."""
    return f"SELECT {names_of(columns)} FROM ({rows.sql})" if columns else rows.sql


def in_one_partition(sql: str) -> str:
    """Rows in one partition, by a coalesce: Spark then knows that all rows are together."""
    return f"SELECT /*+ COALESCE(1) */ * FROM ({sql})"


def is_serial(node: PhysicalPlan) -> bool:
    return isinstance(node.delivered.partitioning, Serial)


def sort_keys(keys: Sequence[Sorted]) -> str:
    return ", ".join(
        f"{name_of(key.column)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in keys
    )
