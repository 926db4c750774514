"""How the values that a constraint is about are read from files."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from unshuffle.catalog.constraints.counterexamples import is_comparable
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import spark_name
from unshuffle.declarations.declared_constraint import DeclaredConstraint
from unshuffle.plan.expressions import Cast, Ref
from unshuffle.plan.logical import Format, Project, Scan


def stored_columns(declared: DeclaredConstraint) -> dict[str, Column] | None:
    """For each column of the constraint, the Parquet column to compare in its place; None if only Spark can compare the
    values."""
    rowset = declared.rowset
    scan = rowset.child if isinstance(rowset, Project) else rowset
    assert isinstance(scan, Scan)
    if not _is_parquet(scan):
        return None
    outputs = rowset.outputs if isinstance(rowset, Project) else [(c, Ref(c)) for c in scan.columns]
    sources: dict[str, Column] = {}
    for column, expression in outputs:
        match expression:
            case Ref(column=source):
                sources[column.name] = source
            case Cast(operand=Ref(column=source), type=type) if _is_injective(source.type, type):
                sources[column.name] = source
    names = declared.constraint.columns
    if any(name not in sources or not is_comparable(sources[name].type) for name in names):
        return None
    return {name: sources[name] for name in names}


def _is_injective(type: pa.DataType | None, into: pa.DataType) -> bool:
    """Whether a cast maps different values to different values. Then the values can be compared before the cast."""
    if type is None or not pa.types.is_integer(type):
        return bool(type == pa.float32() and into == pa.float64())
    return bool(pa.types.is_string(into) or (pa.types.is_integer(into) and into.bit_width >= type.bit_width))


def reading(declared: DeclaredConstraint, scan: Scan) -> str:
    """How bytes become values, as stored with a check's result. A Parquet column is read on its own, so only the columns of
    the constraint matter. In other formats, each column's values depend on the whole list of columns."""
    rowset = declared.rowset
    is_parquet = _is_parquet(scan)
    names = declared.constraint.columns
    columns = (
        sorted((c for c in rowset.columns if c.name in names), key=lambda c: c.name) if is_parquet else scan.columns
    )
    cast = f", from {_typed(scan.columns)}" if isinstance(rowset, Project) else ""
    return f"{'Parquet' if is_parquet else scan.files.format}: {_typed(columns)}{cast}"


def _is_parquet(scan: Scan) -> bool:
    return isinstance(scan.files.format, Format) and scan.files.format.name == "Parquet"


def _typed(columns: Iterable[Column]) -> str:
    return ", ".join(f"{c.name} {spark_name(c.type) if c.type is not None else 'unknown'}" for c in columns)
