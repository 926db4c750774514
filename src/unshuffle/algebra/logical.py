"""Logical operators: what a bound query means, one immutable node an operator.

Every node says which columns it yields. A plan is a tree except where a rowset is used more than once: all uses are
`Reference`s to one `Shared` node, each under columns of its own, so the plan of a script is a DAG with its sharing
explicit (a spool, in the papers' words).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from unshuffle.algebra.expressions import (
    AggregateCall,
    Exists,
    Expression,
    InSubquery,
    Ref,
    ScalarSubquery,
    SortKey,
    Value,
    WindowCall,
    columns_of,
)
from unshuffle.algebra.expressions import walk as parts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, DataType, Dependency, Key
from unshuffle.catalog.statistics import TableStatistics
from unshuffle.errors import Span
from unshuffle.partitions import Histogram, Interval
from unshuffle.properties import Delivered
from unshuffle.streams.store import Stream


@dataclass(frozen=True, slots=True)
class UserClass:
    """A user-defined operator: where its class is, what it is made with, and where the script names it."""

    module: str
    name: str
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    search_path: tuple[str, ...]  # folders in which its module may lie
    span: Span = field(compare=False)

    def __str__(self) -> str:
        shown = [repr(a) for a in self.arguments] + [f"{k}={v!r}" for k, v in self.keywords]
        return f"{self.module}.{self.name}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Format:
    """A built-in file format with its options."""

    name: str
    options: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options)})"


@dataclass(frozen=True, slots=True)
class Files:
    """The files a scan reads. `base` is where folders named `column=value` begin to count as columns. `relation` is
    Spark's own, where a DataFrame reads them: with the options, the schema and the list of files that it was made with.
    `stored` are all columns of Parquet files, and `version` changes with any of the files, where they are known."""

    paths: tuple[str, ...]
    format: Format | UserClass
    base: str | None = None
    rows: int | None = None
    bytes: int | None = None
    relation: Any = field(default=None, compare=False, repr=False)
    stored: tuple[tuple[str, DataType], ...] = field(default=(), compare=False, repr=False)
    version: int | None = field(default=None, compare=False, repr=False)


class _Leaf:
    __slots__ = ()

    @property
    def children(self) -> tuple[Plan, ...]:
        return ()


class _OneInput:
    __slots__ = ()
    child: Plan

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.child,)


class _PassesColumns:
    """One input, whose columns come out as they went in."""

    __slots__ = ()
    child: Plan

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.child,)


class _TwoInputs:
    __slots__ = ()
    left: Plan
    right: Plan

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.left, self.right)


# --- leaves


@dataclass(frozen=True, slots=True)
class Scan(_Leaf):
    """Files, read as they are; a declared type that differs from the file's is a cast in a Project above."""

    label: str
    files: Files
    columns: tuple[Column, ...]
    keys: tuple[Key, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    span: Span | None = field(default=None, compare=False)
    statistics: TableStatistics | None = field(default=None, compare=False)
    layout: Delivered | None = None  # of files that are stored in partitions, in the columns that are read
    stored: Delivered | None = None  # the same in all columns of the files
    # How many rows lie where in the order of some columns: those that the files are clustered by.
    spread: Histogram | None = field(default=None, compare=False, repr=False)
    spread_on: tuple[Column, ...] = ()
    stream: Stream | None = field(default=None, compare=False, repr=False)  # the version that the files are of
    # Of the order that the stream is sorted in, where the rows are that are wanted: what lies elsewhere is not read.
    within: tuple[Interval, ...] | None = None
    share: float = field(default=1.0, compare=False)  # of its bytes that are read

    def renamed(self, columns: Mapping[Column, Column]) -> Scan:
        """The same files under other column numbers, with all that is known of them."""

        def named(some: frozenset[Column]) -> frozenset[Column]:
            return frozenset(columns[column] for column in some)

        def name(column: Column) -> Column:
            return columns.get(column, column)  # one that is not read keeps its own

        return replace(
            self,
            columns=tuple(columns[column] for column in self.columns),
            keys=tuple(named(key) for key in self.keys),
            dependencies=tuple(Dependency(named(d.determinant), named(d.dependent)) for d in self.dependencies),
            statistics=self.statistics.renamed(columns) if self.statistics is not None else None,
            layout=self.layout.renamed(name) if self.layout is not None else None,
            stored=self.stored.renamed(name) if self.stored is not None else None,
            spread_on=tuple(map(name, self.spread_on)),
        )


@dataclass(frozen=True, slots=True)
class TableScan(_Leaf):
    """Rows that only the Spark session has: a table or view of that name or, with a `relation`, what a DataFrame was made
    from, which may have no name that Spark knows. The columns are its columns by position."""

    name: tuple[str, ...]
    columns: tuple[Column, ...]
    relation: Any = field(default=None, compare=False, repr=False)
    rows: int | None = None
    keys: tuple[Key, ...] = ()
    dependencies: tuple[Dependency, ...] = ()


@dataclass(frozen=True, slots=True)
class Values(_Leaf):
    """Rows written in the query; one row of no columns is a SELECT without FROM."""

    rows: tuple[tuple[Expression, ...], ...]
    columns: tuple[Column, ...]


# --- one input


@dataclass(frozen=True, slots=True)
class Project(_OneInput):
    """Each output column with the expression that makes it. A column passed on keeps its identity."""

    child: Plan
    outputs: tuple[tuple[Column, Expression], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for column, _ in self.outputs)


@dataclass(frozen=True, slots=True)
class Filter(_PassesColumns):
    child: Plan
    predicate: Expression


@dataclass(frozen=True, slots=True)
class GroupBy(_OneInput):
    """One row a group; without keys, one row in all, also for no input."""

    child: Plan
    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))


@dataclass(frozen=True, slots=True)
class PartialGroupBy(_OneInput):
    """The part of a GROUP BY that can be done before equal keys meet: one row a group *of each partition*, with what the
    aggregates found so far in a column each. Only under a `FinalGroupBy`, for its rows depend on the layout."""

    child: Plan
    keys: tuple[Column, ...]
    states: tuple[tuple[Column, AggregateCall], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.states))


@dataclass(frozen=True, slots=True)
class FinalGroupBy(_OneInput):
    """Puts together what partial ones found: each aggregate with the column that holds its states."""

    child: Plan
    keys: tuple[Column, ...]
    aggregates: tuple[tuple[Column, AggregateCall], ...]
    states: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.keys, *(column for column, _ in self.aggregates))


@dataclass(frozen=True, slots=True)
class GroupingSets(_OneInput):
    """GROUPING SETS, ROLLUP and CUBE. Keys come out as new columns: NULL in the sets that leave them out, while
    aggregates still see the values that went in."""

    child: Plan
    keys: tuple[tuple[Column, Column], ...]  # (out, in)
    sets: tuple[tuple[Column, ...], ...]  # of columns in
    aggregates: tuple[tuple[Column, AggregateCall], ...]  # grouping(k) and grouping_id() among them

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*(out for out, _ in self.keys), *(column for column, _ in self.aggregates))


@dataclass(frozen=True, slots=True)
class Expand(_OneInput):
    """Each row once for each grouping set, with the set's number and the keys as the set has them: NULL if left out."""

    child: Plan
    keys: tuple[tuple[Column, Column], ...]  # (out, in)
    sets: tuple[tuple[Column, ...], ...]  # of columns in; a set's place is its number
    number: Column

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *(out for out, _ in self.keys), self.number)


@dataclass(frozen=True, slots=True)
class Distinct(_PassesColumns):
    child: Plan


@dataclass(frozen=True, slots=True)
class Window(_OneInput):
    """The input's columns, and one more for each window function."""

    child: Plan
    calls: tuple[tuple[Column, WindowCall], ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *(column for column, _ in self.calls))


@dataclass(frozen=True, slots=True)
class Sort(_PassesColumns):
    child: Plan
    order: tuple[SortKey, ...]


@dataclass(frozen=True, slots=True)
class Limit(_PassesColumns):
    child: Plan
    count: int | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class PartialTop(_PassesColumns):
    """At most the first `count` rows of each partition in an order: among them are the first of all. Under a Limit."""

    child: Plan
    count: int
    order: tuple[SortKey, ...]


# --- two inputs


@dataclass(frozen=True, slots=True)
class Join(_TwoInputs):
    """Without a condition, every pair of rows. `kept` are the columns that go on; None is all of them."""

    kind: JoinKind
    left: Plan
    right: Plan
    condition: Expression | None
    kept: tuple[Column, ...] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.made if self.kept is None else self.kept

    @property
    def made(self) -> tuple[Column, ...]:
        def nullable(columns: tuple[Column, ...], extended: bool) -> tuple[Column, ...]:
            return tuple(replace(c, nullable=True) for c in columns) if extended else columns

        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        return (
            *nullable(self.left.columns, self.kind.extends_left),
            *nullable(self.right.columns, self.kind.extends_right),
        )


class SetKind(Enum):
    UNION = "union"
    INTERSECT = "intersect"
    EXCEPT = "except"


@dataclass(frozen=True, slots=True)
class SetOperation:
    """Columns match by position and come out as new columns; without `all`, NULLs are equal to each other. A UNION ALL
    has as many inputs as were written in a row, any other operation two."""

    kind: SetKind
    all: bool
    inputs: tuple[Plan, ...]
    columns: tuple[Column, ...]

    @property
    def children(self) -> tuple[Plan, ...]:
        return self.inputs


# --- user-defined operators


@dataclass(frozen=True, slots=True)
class Process(_OneInput):
    """Rows in, rows out, one input at a time. `readonly` pairs an output column with the input column it repeats."""

    child: Plan
    user_class: UserClass
    columns: tuple[Column, ...]
    readonly: tuple[tuple[Column, Column], ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce(_OneInput):
    """Each group of rows that agree on `keys`, whole and in `presort` order, in one call."""

    child: Plan
    keys: tuple[Column, ...]
    presort: tuple[SortKey, ...]
    user_class: UserClass
    columns: tuple[Column, ...]
    readonly: tuple[tuple[Column, Column], ...] = ()


@dataclass(frozen=True, slots=True)
class Combine(_TwoInputs):
    """For each key value, the rows of both inputs that have it, in one call. NULL keys meet NULL keys."""

    left: Plan
    right: Plan
    left_keys: tuple[Column, ...]
    right_keys: tuple[Column, ...]
    user_class: UserClass
    columns: tuple[Column, ...]
    readonly: tuple[tuple[Column, Column], ...] = ()


# --- what only Spark understands, and sharing


@dataclass(frozen=True, slots=True)
class Foreign:
    """A query that Spark runs as written. It reads `inputs` under the names in its text and promises nothing.

    From a DataFrame, it is `operator`, Spark's own, and `sql` only says to a reader what that does."""

    sql: str
    inputs: tuple[tuple[str, Plan], ...]
    columns: tuple[Column, ...]
    reason: str
    operator: Any = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> tuple[Plan, ...]:
        return tuple(plan for _, plan in self.inputs)


@dataclass(frozen=True, slots=True, eq=False)
class Shared(_PassesColumns):
    """A rowset that is used more than once. Compared by identity: all its uses point to the one node."""

    name: str
    child: Plan


@dataclass(frozen=True, slots=True)
class Reference:
    """One use of a shared rowset, under its own columns, which stand for the rowset's by position."""

    rowset: Shared
    columns: tuple[Column, ...]

    @property
    def children(self) -> tuple[Plan, ...]:
        return (self.rowset,)


Plan = (
    Scan
    | TableScan
    | Values
    | Project
    | Filter
    | GroupBy
    | PartialGroupBy
    | FinalGroupBy
    | GroupingSets
    | Expand
    | Distinct
    | Window
    | Sort
    | Limit
    | PartialTop
    | Join
    | SetOperation
    | Process
    | Reduce
    | Combine
    | Foreign
    | Shared
    | Reference
)


def expressions_of(plan: Plan) -> tuple[Expression, ...]:
    """The expressions an operator evaluates itself."""
    match plan:
        case Values(rows=rows):
            return tuple(value for row in rows for value in row)
        case Project(outputs=outputs):
            return tuple(expression for _, expression in outputs)
        case Filter(predicate=predicate):
            return (predicate,)
        case GroupBy(keys=keys, aggregates=aggregates):
            return (*(Ref(key) for key in keys), *(call for _, call in aggregates))
        case PartialGroupBy(keys=keys, states=states):
            return (*(Ref(key) for key in keys), *(call for _, call in states))
        case FinalGroupBy(keys=keys, states=columns):
            return tuple(Ref(column) for column in (*keys, *columns))
        case GroupingSets(keys=pairs, aggregates=aggregates):
            return (*(Ref(column) for _, column in pairs), *(call for _, call in aggregates))
        case Expand(keys=pairs):
            return tuple(Ref(column) for _, column in pairs)
        case Window(calls=calls):
            return tuple(call for _, call in calls)
        case Sort(order=order) | PartialTop(order=order):
            return tuple(key.expression for key in order)
        case Join(condition=condition):
            return (condition,) if condition is not None else ()
        case _:
            return ()


def walk(plan: Plan) -> Iterator[Plan]:
    """A plan's operators, outermost first; a shared rowset once; the plans of subqueries included."""
    seen: set[int] = set()

    def visit(node: Plan) -> Iterator[Plan]:
        if isinstance(node, Shared):
            if id(node) in seen:
                return
            seen.add(id(node))
        yield node
        for child in node.children:
            yield from visit(child)
        for expression in expressions_of(node):
            for part in parts(expression):
                if isinstance(part, ScalarSubquery | Exists | InSubquery):
                    yield from visit(part.plan)

    return visit(plan)


def outer_columns(plan: Plan) -> frozenset[Column]:
    """The columns that a plan reads but no operator in it yields: what a correlated subquery takes from outside.

    A shared rowset reads nothing from outside, and what it yields is seen only as the columns of a reference. Its own
    columns do not count: they may be those of another reference, in the query around this one."""
    made: set[Column] = set()
    read: set[Column] = set()
    waiting: list[Plan] = [plan]
    while waiting:
        node = waiting.pop()
        made.update(node.columns)
        if not isinstance(node, Reference):
            waiting.extend(node.children)
        for expression in expressions_of(node):
            read |= columns_of(expression)
            waiting.extend(
                part.plan for part in parts(expression) if isinstance(part, ScalarSubquery | Exists | InSubquery)
            )
    return frozenset(read - made)


# --- a whole script


@dataclass(frozen=True, slots=True)
class Target:
    """Where and how an output is written."""

    path: str
    format: Format | UserClass
    overwrite: bool


@dataclass(frozen=True, slots=True)
class StreamTarget:
    """A structured stream to be written: its layout and what is declared of it."""

    path: str
    range_partitioned: bool
    clustered_by: tuple[SortKey, ...]
    sorted_by: tuple[SortKey, ...]
    partitions: int | None
    reference: str | None
    keys: tuple[Key, ...]
    dependencies: tuple[Dependency, ...]
    overwrite: bool


@dataclass(frozen=True, slots=True)
class Output:
    """A result of a script: a plan, the names its columns go by, and where it goes (None: to the caller). Its rows are to
    be laid out as in `layout`, where it says how."""

    plan: Plan
    target: Target | StreamTarget | None
    span: Span | None = field(default=None, compare=False)
    layout: Delivered | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A key or dependency that the user declared of a rowset, and why it is believed."""

    rowset: str
    what: str
    checked: bool  # on the data; else it is trusted


@dataclass(frozen=True, slots=True)
class Script:
    """A bound script: what it yields, what of it only Spark understands, and what its facts rest on."""

    outputs: tuple[Output, ...]
    declared: tuple[Declared, ...] = ()

    def operators(self) -> Iterator[Plan]:
        seen: set[int] = set()
        for output in self.outputs:
            for node in walk(output.plan):
                if isinstance(node, Shared) and id(node) in seen:
                    continue
                seen.add(id(node))
                yield node

    @property
    def foreign(self) -> tuple[Foreign, ...]:
        return tuple(node for node in self.operators() if isinstance(node, Foreign))
