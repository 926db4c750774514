"""Leaves: files, tables, views and rows in memory."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from unshuffle.plan.logical import TableScan, Values
from unshuffle.spark.reader.catalyst_tree import CatalystNode, ReadPlan, Untranslatable
from unshuffle.spark.reader.file_relations import file_scan, relation_name
from unshuffle.spark.shims.plan_tree import JavaNode

if TYPE_CHECKING:
    from unshuffle.spark.reader.plan_reader import PlanReader


def file_relation(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    output = node.expressions("output")
    assert isinstance(node.java, JavaNode)
    scan = file_scan(reader.file_relations(node.java.tree), node.java, reader.attributes(output), reader.catalog)
    if scan is None:
        return relation(reader, node)
    return ReadPlan(reader.with_declared(scan), tuple(each.expr_id for each in output))


def view(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    """The view's query, unless constraints are declared on the view itself."""
    if reader.declarations is None or reader.declarations.is_empty:
        return reader.child(node)
    name = relation_name(node.jvm)
    if name is None or not reader.declarations.is_declared_on(name):
        return reader.child(node)
    columns, expr_ids = reader.output_of(node)
    return ReadPlan(reader.with_declared(TableScan(name, columns, node.jvm)), expr_ids)


def relation(reader: PlanReader, node: CatalystNode, rows: int | None = None) -> ReadPlan:
    """A leaf that only Spark can read: rows in memory, or a table of another source."""
    if reader.has_outer_reference(node):
        raise Untranslatable(f"{node.kind} with columns of an outer query")
    columns, expr_ids = reader.output_of(node)
    name = relation_name(node.jvm)
    if name is None:
        return ReadPlan(TableScan((_words(node.kind),), columns, node.jvm, rows), expr_ids)
    return ReadPlan(reader.with_declared(TableScan(name, columns, node.jvm, rows)), expr_ids)


def local(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    return relation(reader, node, node.jvm.data().length())


def range_(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    start, end, step = (node.fields[name] for name in ("start", "end", "step"))
    read = relation(reader, node, len(range(start, end, step)))
    assert isinstance(read.plan, TableScan)
    return replace(read, plan=replace(read.plan, keys=(frozenset(read.plan.columns),)))


def one_row(reader: PlanReader, node: CatalystNode) -> ReadPlan:
    return ReadPlan(Values(((),), ()), ())


def _words(kind: str) -> str:
    """The name of a class as words: `LocalRelation` is `local relation`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", kind).lower()
