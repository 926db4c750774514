"""Operators that handle each row by itself: filter, project, expand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.plan import physical
from unshuffle.plan.expressions import Call, Expression, Ref, connect
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.plan.predicates import is_deterministic
from unshuffle.spark.lowering.baseline import ONE_ROW, expanded, name_of
from unshuffle.spark.lowering.lowered import Lowered, carried, in_one_partition, is_serial, select_only
from unshuffle.spark.lowering.operators import scan, sstream_scan

if TYPE_CHECKING:
    from unshuffle.spark.lowering.lowering import Lowering


def filter(lowering: Lowering, node: PhysicalPlan, operator: physical.Filter) -> Lowered:
    (child,) = node.inputs
    predicate = operator.predicate
    if isinstance(child.operator, physical.FileScan) and child.operator.scan.needed is not None:
        predicate = in_short_lists(predicate)
    if isinstance(child.operator, physical.FileScan) and sstream_scan.can_push_down(predicate):
        rows = scan.file_scan(lowering, child, child.operator, predicate)
    else:
        rows = lowering.lower(child)
    where = lowering.expression(predicate)
    if operator.in_python:
        return _from_python(node, f"SELECT * FROM ({select_only(rows, child.columns)}) WHERE {where}")
    return replace(rows, sql=f"SELECT * FROM ({rows.sql}) WHERE {where}")


_SHORT = 10  # values: the default of spark.sql.parquet.pushdown.inFilterThreshold


def in_short_lists(predicate: Expression) -> Expression:
    """The same condition with every long list of an IN as alternatives of short ones. Of a long list, Spark's reader compares
    only the least and the greatest value with what it knows of row groups and pages."""
    match predicate:
        case Call("in", (subject, *values)) if len(values) > _SHORT and is_deterministic(subject):
            lists = (values[at : at + _SHORT] for at in range(0, len(values), _SHORT))
            return connect("or", [replace(predicate, arguments=(subject, *each)) for each in lists])
        case Call("and", parts):
            return replace(predicate, arguments=tuple(map(in_short_lists, parts)))
        case _:
            return predicate


def project(lowering: Lowering, node: PhysicalPlan, operator: physical.Project) -> Lowered:
    rows = lowering.lower(node.inputs[0])
    names = {e.column: output for output, e in operator.outputs if isinstance(e, Ref)}
    # A column that keeps its name is better known by that than by a copy.
    names |= {output: output for output, e in operator.outputs if isinstance(e, Ref) and e.column == output}
    kept = carried(rows, node, names)
    outputs = [*(lowering.aliased(column, e) for column, e in operator.outputs), *map(name_of, kept.extras)]
    sql = f"SELECT {', '.join(outputs) or ONE_ROW} FROM ({rows.sql})"
    return _from_python(node, sql) if operator.in_python else replace(kept, sql=sql)


def _from_python(node: PhysicalPlan, sql: str) -> Lowered:
    """Rows that Spark knows no layout of, unless they are in one partition."""
    return Lowered(in_one_partition(sql) if is_serial(node) else sql)


def expand(lowering: Lowering, node: PhysicalPlan, operator: physical.Expand) -> Lowered:
    rows, repeated = lowering.lower(node.inputs[0]), operator.expand.repeated
    condition = None if repeated is None else lowering.expression(repeated)
    return replace(rows, sql=expanded(operator.expand, rows.sql, condition, rows.extras))
