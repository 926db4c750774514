"""One use of a shared rowset: renamed, or read from a spool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.catalog.schema import Column
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.spark.lowering.baseline import name_of
from unshuffle.spark.lowering.lowered import Lowered

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering


def read_spool(lowering: Lowering, node: PhysicalPlan, operator: physical.ReadSpool) -> Lowered:
    plan = lowering.spools[operator.spool]
    rows = replace(lowering.lower(plan), sql=lowering.spool(operator.spool))
    return _renamed(lowering, rows, plan.columns, operator.columns)


def rename(lowering: Lowering, node: PhysicalPlan, operator: physical.Rename) -> Lowered:
    return _renamed(lowering, lowering.lower(node.inputs[0]), operator.originals, operator.columns)


def _renamed(lowering: Lowering, rows: Lowered, originals: Sequence[Column], columns: Sequence[Column]) -> Lowered:
    """Rows under new column names. The extras are renamed too: a join may read the same rows twice."""
    names = dict(zip(originals, columns, strict=True))
    names |= {extra: lowering.new_column(extra.name, extra.type) for extra in rows.extras}
    outputs = ", ".join(f"{name_of(old)} AS {name_of(new)}" for old, new in names.items())
    # Spark loses a range partitioning when its columns are renamed.
    keeps_layout = rows.range_carriers is None and all(c in names for c in rows.carriers)
    return replace(
        rows,
        sql=f"SELECT {outputs} FROM ({rows.sql})",
        range_carriers=None,
        carriers=tuple(names[c] for c in rows.carriers) if keeps_layout else (),
        extras=tuple(names[c] for c in rows.extras),
        casts={(names[c], t): names[made] for (c, t), made in rows.casts.items() if c in names and made in names},
    )
