"""Dynamic partition pruning: the folders that Spark skips at run time, because the other input of a join has no row for them.

    visits in daily folders, joined with the Mondays of a calendar on the day
    Spark broadcasts the Mondays, and reads the folders of those days only

Spark does so for a broadcast join on a folder column, if it can trace the column to a table that it scans itself, and if the
broadcast input has a filter that it takes for selective. It cannot trace a column through a partial aggregate of ours, nor
into a scan that reads stored partitions in place.
"""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.plan import logical, physical
from unshuffle.plan.expressions import Call, Expression, Ref
from unshuffle.plan.physical import DynamicPruning, PhysicalOperator, PhysicalPlan
from unshuffle.plan.predicates import is_deterministic
from unshuffle.properties import JoinKey, Partitioned, PrefixPartitioned
from unshuffle.search.memo import as_group

_SELECTIVE = frozenset(("=", "<=>", "<", "<=", ">", ">=", "in", "like", "rlike", "startswith", "endswith", "contains"))
_ROW_BY_ROW = (physical.Filter, physical.Project)
# Below these, Spark sees the filters of an input.
_SEEN_THROUGH = (*_ROW_BY_ROW, physical.Exchange, physical.Concatenate)


def possible_pruning(join: logical.Join, keys: Sequence[JoinKey], build: int) -> DynamicPruning | None:
    """The pruning that a broadcast of the `build` input makes possible, and the share of the rows that it leaves; None if it
    would spare nothing."""
    if join.kind is not JoinKind.INNER and not (join.kind is JoinKind.SEMI and build == 1):
        return None
    probed, built = as_group(join.children[1 - build]), as_group(join.children[build])
    found = []
    for key in keys:
        column, by = key.columns[1 - build], key.columns[build]
        if key.null_safe or column.type != by.type or not _is_of_folders(probed, column):
            continue
        folders = max(1.0, probed.estimate.distinct((column,)))
        share = max(1.0, built.estimate.distinct((by,))) / folders
        if share < 1.0:
            found.append(DynamicPruning(column, by, share))
    return min(found, key=lambda each: each.share, default=None)


def _is_of_folders(plan: logical.Plan, column: Column) -> bool:
    first = as_group(plan).expressions[0]
    match first:
        case logical.Scan():
            return column.name in first.folder_columns
        case logical.Filter():
            return _is_of_folders(first.child, column)
        case logical.Project(outputs=outputs):
            expression = dict(outputs).get(column)
            return isinstance(expression, Ref) and _is_of_folders(first.child, expression.column)
        case logical.Join():
            return any(column in each.columns and _is_of_folders(each, column) for each in first.children)
    return False


def prunes_as_planned(operator: PhysicalOperator, inputs: Sequence[PhysicalPlan]) -> bool:
    """Will Spark prune the folders that a join is planned to prune?"""
    if not isinstance(operator, physical.HashJoin) or operator.pruning is None:
        return True
    if operator.build == 0 and any(_is_scanned_by_spark(inputs[0], key.columns[0]) for key in operator.keys):
        return False  # Spark prunes the left input, if it can prune either
    return _has_selective_filter(inputs[operator.build]) and _is_scanned_by_spark(
        inputs[1 - operator.build], operator.pruning.column
    )


def _is_scanned_by_spark(plan: PhysicalPlan, column: Column) -> bool:
    """Does a column come from the folders of a table that Spark itself scans, through operators that filters pass?"""
    while not isinstance(plan.operator, physical.FileScan):
        operator, source = plan.operator, plan.operator.source(column)
        is_passed = isinstance(operator, _ROW_BY_ROW) or (
            isinstance(operator, physical.HashJoin) and plan.alternative in physical.BROADCAST
        )
        if isinstance(operator, physical.Project):
            is_passed = all(is_deterministic(expression) for _, expression in operator.outputs)
        if not is_passed or source is None or operator.carried is None:
            return False
        plan, column = plan.inputs[operator.carried], source
        if column not in plan.columns:
            return False
    is_stored = isinstance(plan.operator.layout.partitioning, Partitioned | PrefixPartitioned)
    return not is_stored and column.name in plan.operator.scan.folder_columns


def _has_selective_filter(plan: PhysicalPlan) -> bool:
    operator = plan.operator
    if isinstance(operator, physical.Filter) and _is_selective(operator.predicate):
        return True
    is_seen = isinstance(operator, _SEEN_THROUGH) or (
        isinstance(operator, physical.HashJoin) and operator.kind is JoinKind.INNER
    )
    return is_seen and any(map(_has_selective_filter, plan.inputs))


def _is_selective(predicate: Expression) -> bool:
    """Does Spark take a filter for selective?"""
    match predicate:
        case Call("not", (operand,)):
            return _is_selective(operand)
        case Call("and", parts):
            return any(map(_is_selective, parts))
        case Call("or", parts):
            return all(map(_is_selective, parts))
        case Call("<>"):
            return True
        case Call(function):
            return function in _SELECTIVE
    return False
