"""Logical operators: the meaning of a bound query, one immutable node per operator.

Every node knows its output columns. A plan is a tree unless a rowset is used more than once: its uses are `Reference`s to
one `Shared` node, each under columns of its own. The plan of a script is therefore a DAG with explicit sharing (a spool, in
the words of the papers).
"""

from unshuffle.plan.logical.leaves import Files, Format, Scan, StoredParts, TableScan, Values
from unshuffle.plan.logical.optimizer_nodes import GroupRef, MultiJoin, MultiOutput
from unshuffle.plan.logical.plan import Plan, expressions_of, has_subqueries, outer_columns, subqueries_of, walk
from unshuffle.plan.logical.relational import (
    Distinct,
    Expand,
    Filter,
    FinalGroupBy,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    PartialGroupBy,
    PartialTopN,
    Project,
    SetKind,
    SetOperation,
    Sort,
    Window,
)
from unshuffle.plan.logical.script import Declared, FileTarget, Output, Script, StreamTarget
from unshuffle.plan.logical.shared import Foreign, Reference, Shared
from unshuffle.plan.logical.user_defined import Combine, Process, Reduce, UserClass, UserFunction

__all__ = [
    "Combine",
    "Declared",
    "Distinct",
    "Expand",
    "FileTarget",
    "Files",
    "Filter",
    "FinalGroupBy",
    "Foreign",
    "Format",
    "GroupBy",
    "GroupRef",
    "GroupingSets",
    "Join",
    "Limit",
    "MultiJoin",
    "MultiOutput",
    "Output",
    "PartialGroupBy",
    "PartialTopN",
    "Plan",
    "Process",
    "Project",
    "Reduce",
    "Reference",
    "Scan",
    "Script",
    "SetKind",
    "SetOperation",
    "Shared",
    "Sort",
    "StoredParts",
    "StreamTarget",
    "TableScan",
    "UserClass",
    "UserFunction",
    "Values",
    "Window",
    "expressions_of",
    "has_subqueries",
    "outer_columns",
    "subqueries_of",
    "walk",
]
