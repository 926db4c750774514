"""Random plans over three small tables, with rows to run them on.

Conditions are of the kinds that rules match: equalities between the inputs of a join, constants, OR of ANDs, NULL tests. The
result of a plan never depends on the order of rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.support.effort import SOAK, examples
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers, Dependency
from unshuffle.errors import Source
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Case,
    Expression,
    Literal,
    Ref,
    SortKey,
    WindowCall,
    connect,
)
from unshuffle.plan.logical import (
    Distinct,
    Files,
    Filter,
    Format,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    SetKind,
    SetOperation,
    Shared,
    Sort,
    UserClass,
    Values,
    Window,
)

INT, BIGINT, BOOLEAN = pa.int32(), pa.int64(), pa.bool_()
USER = UserClass("user", "Code", (), (), (), Source("x", "x").span(0, 1))
CSV = Format("csv")


def random_plan_settings(normal: int, quick: int) -> settings:
    """Settings for tests over random plans: the same plans in every run, except in a soak."""
    return settings(
        max_examples=examples(normal, quick),
        deadline=None,
        derandomize=not SOAK,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )


# Draws an index into the choices. This needs few strategies, and hypothesis takes longer to validate a new strategy than to
# draw from a known one.
@cache
def _place(count: int) -> st.SearchStrategy[int]:
    return st.sampled_from(range(count))


@cache
def _places(count: int, least: int) -> st.SearchStrategy[list[int]]:
    return st.lists(_place(count), min_size=least, max_size=3, unique=True)


class Draw:
    """Draws plans. Column numbers are unique in a plan."""

    def __init__(self, draw: Any, without: tuple[str, ...] = ()) -> None:
        self.draw = draw
        self.operators = [name for name in OPERATORS if name not in without]
        self.numbers = ColumnNumbers()
        self.rowsets = count()

    def pick(self, *choices: Any) -> Any:
        return choices[self.draw(_place(len(choices)))]

    def some(self, columns: tuple[Column, ...], least: int = 0) -> tuple[Column, ...]:
        return tuple(columns[place] for place in self.draw(_places(len(columns), least)))

    # --- expressions

    def operand(self, columns: tuple[Column, ...]) -> Expression:
        match self.pick(*"cccccllnas"):
            case "c":
                return Ref(self.pick(*columns))
            case "l":
                return self.literal()
            case "n":
                return Literal(None, INT)
            case "a":
                return Call(self.pick("+", "-"), (Ref(self.pick(*columns)), self.literal()), INT)
            case _:
                return Call("coalesce", (Ref(self.pick(*columns)), self.literal()), INT)

    def literal(self) -> Literal:
        return Literal(self.draw(st.integers(0, 3)), INT)

    def condition(self, columns: tuple[Column, ...], depth: int = 2) -> Expression:
        def inner() -> Expression:
            return self.condition(columns, depth - 1)

        match self.pick(*("ccckkni" if depth == 0 else "ccckknibAAON")):
            case "c":
                name = self.pick("=", "=", "=", "<", ">=", "<>", "<=>")
                return Call(name, (self.operand(columns), self.operand(columns)), BOOLEAN)
            case "k":
                return Call(self.pick("=", "=", "<", ">"), (Ref(self.pick(*columns)), self.literal()), BOOLEAN)
            case "n":
                return Call(self.pick("isnull", "isnotnull"), (Ref(self.pick(*columns)),), BOOLEAN)
            case "i":
                return Call("in", (Ref(self.pick(*columns)), self.literal(), self.literal()), BOOLEAN)
            case "b":
                return Call("between", (Ref(self.pick(*columns)), self.literal(), self.literal()), BOOLEAN)
            case "A":
                return connect("and", [inner() for _ in range(self.pick(2, 3))])
            case "O":
                common = self.condition(columns, 0)
                parts = [connect("and", [common, inner()]) if self.pick(True, False) else inner() for _ in range(2)]
                return connect("or", parts)
            case _:
                return Call("not", (inner(),), BOOLEAN)

    def join_condition(self, left: Plan, right: Plan) -> Expression | None:
        both = (*left.columns, *right.columns)
        parts: list[Expression] = []
        for _ in range(self.pick(0, 1, 1, 2)):
            pair = (Ref(self.pick(*left.columns)), Ref(self.pick(*right.columns)))
            parts.append(Call(self.pick("=", "=", "=", "<=>"), self.pick(pair, pair[::-1]), BOOLEAN))
        if self.pick(True, False):
            parts.append(self.condition(self.pick(both, left.columns, right.columns)))
        return connect("and", parts) if parts else None

    def aggregate(self, columns: tuple[Column, ...]) -> tuple[Column, AggregateCall]:
        where = self.condition(columns, 0) if self.pick(True, False, False, False) else None
        name = self.pick("count", "count", "sum", "min", "max")
        argument = self.operand(columns) if name != "count" or self.pick(True, False) else Literal(1, INT)
        type = {"count": BIGINT, "sum": BIGINT}.get(name, argument.type)
        distinct = self.pick(True, False, False) and not isinstance(argument, Literal)
        call = AggregateCall(name, (argument,), type, distinct, where)
        return self.numbers.new(name, type, name != "count"), call

    # --- operators

    def plan(self, depth: int) -> Plan:
        if depth == 0:
            return self.leaf()
        return getattr(self, self.pick(*self.operators))(depth - 1)  # type: ignore[no-any-return]

    def leaf(self) -> Plan:
        match self.pick(*"ttuuukkcv"):
            case "t":
                return self.scan("t", a=True, b=True, c=True)
            case "u":
                return self.scan("u", d=True, e=False)
            case "c":
                return self.scan("c", f=True, g=True)
            case "v":
                columns = (self.numbers.new("x", INT), self.numbers.new("y", INT))
                return Values(
                    tuple((self.literal(), Literal(None, INT)) for _ in range(self.draw(st.integers(0, 2)))), columns
                )
            case _:
                return self.keyed()

    def keyed(self) -> Scan:
        scan = self.scan("k", id=False, v=True, w=True)
        id, v, w = scan.columns
        return replace(scan, keys=(frozenset((id,)),), dependencies=(Dependency(frozenset((v,)), frozenset((w,))),))

    def scan(self, label: str, **columns: bool) -> Scan:
        made = tuple(self.numbers.new(name, INT, nullable) for name, nullable in columns.items())
        return Scan(label, Files((label,), CSV if label == "c" else Format("parquet")), made)

    def filter(self, depth: int) -> Plan:
        child = self.plan(depth)
        return Filter(child, self.condition(child.columns))

    def project(self, depth: int) -> Plan:
        child = self.plan(depth)
        outputs: list[tuple[Column, Expression]] = [(column, Ref(column)) for column in self.some(child.columns)]
        for _ in range(self.pick(0, 1, 2) if outputs else 1):
            made = self.pick(self.operand(child.columns), Ref(self.pick(*child.columns)))
            outputs.append((self.numbers.new("p", made.type), made))
        return Project(child, tuple(outputs))

    def group_by(self, depth: int) -> Plan:
        child = self.plan(depth)
        keys = self.some(child.columns)
        calls = [self.aggregate(child.columns) for _ in range(self.pick(0, 1, 2) if keys else 1)]
        return GroupBy(child, keys, tuple(calls))

    def grouping_sets(self, depth: int) -> Plan:
        child = self.plan(depth)
        keys = tuple((self.numbers.like(column, nullable=True), column) for column in self.some(child.columns, 1))
        inner = tuple(column for _, column in keys)
        sets = [inner, *(self.draw(st.sets(st.sampled_from(inner))) for _ in range(self.pick(1, 2)))]
        return GroupingSets(
            child, keys, tuple(tuple(c for c in inner if c in one) for one in sets), (self.aggregate(child.columns),)
        )

    def distinct(self, depth: int) -> Plan:
        return Distinct(self.plan(depth))

    def sort(self, depth: int) -> Plan:
        child = self.plan(depth)
        return Sort(child, self.order((*self.some(child.columns, 1), *child.columns)))

    def order(self, columns: tuple[Column, ...]) -> tuple[SortKey, ...]:
        return tuple(
            SortKey(Ref(column), self.draw(st.booleans()), self.draw(st.booleans()))
            for column in dict.fromkeys(columns)
        )

    def limit(self, depth: int) -> Plan:
        return Limit(self.sort(depth), self.pick(0, 1, 2, 3), self.pick(0, 0, 1))

    def window(self, depth: int) -> Plan:
        child = self.plan(depth)
        partition = tuple(Ref(column) for column in self.some(child.columns))
        column, call = self.aggregate(child.columns)
        calls: list[tuple[Column, WindowCall]] = []
        if self.pick(True, False):
            whole = AggregateCall(call.function, call.arguments, call.type)
            calls.append((column, WindowCall(whole, partition, (), None)))
        if not calls or self.pick(True, False):
            number = Call("row_number", (), INT)
            order = self.order(child.columns)
            calls.append((self.numbers.new("n", INT, False), WindowCall(number, partition, order, None)))
        return Window(child, tuple(calls))

    def join(self, depth: int) -> Plan:
        left, right = self.plan(depth), self.plan(self.pick(0, depth))
        kind = self.pick(JoinKind.INNER, JoinKind.INNER, JoinKind.INNER, *JoinKind)
        return Join(kind, left, right, self.join_condition(left, right))

    def filtered_join(self, depth: int) -> Plan:
        join = self.join(depth)
        return Filter(join, self.condition(join.columns))

    def comma_join(self, depth: int) -> Plan:
        """A comma join: FROM a, b, c WHERE ..."""
        first, second, third = self.plan(0), self.plan(0), self.plan(depth)
        pairs = ((first, third), (third, second), (first, second))
        conditions = [self.join_condition(*self.pick(*pairs)) for _ in range(3)]
        product = Join(JoinKind.INNER, Join(JoinKind.INNER, first, second, None), third, None)
        found = [each for each in conditions if each is not None]
        return Filter(product, connect("and", found)) if found else product

    def lookup(self, depth: int) -> Plan:
        """An outer join with a keyed table whose columns may be unread."""
        left, right = self.plan(depth), self.keyed()
        equal = Call("=", (Ref(self.pick(*left.columns)), Ref(right.columns[0])), BOOLEAN)
        more = [self.condition((*left.columns, *right.columns), 1)] if self.pick(True, False) else []
        kind = self.pick(JoinKind.LEFT, JoinKind.RIGHT)
        inputs = (left, right) if kind is JoinKind.LEFT else (right, left)
        join = Join(kind, *inputs, connect("and", [equal, *more]))
        read = self.pick(left.columns, left.columns, join.columns)
        outputs = tuple((column, Ref(column)) for column in self.some(read, 1))
        return self.pick(Project, lambda plan, _: plan, _distinct)(join, outputs)  # type: ignore[no-any-return]

    def semi_of_distinct(self, depth: int) -> Plan:
        left, right = self.plan(depth), self.plan(0)
        unique = self.pick(Distinct(right), GroupBy(right, self.some(right.columns, 1), ()))
        return Join(self.pick(JoinKind.SEMI, JoinKind.ANTI), left, unique, self.join_condition(left, unique))

    def union(self, depth: int) -> Plan:
        kind = self.pick(SetKind.UNION, SetKind.UNION, *SetKind)
        all_rows = self.draw(st.booleans())
        inputs = [self.plan(depth), self.plan(self.pick(0, depth))]
        if kind is SetKind.UNION and all_rows and self.pick(True, False):
            inputs.append(self.plan(0))
        return self.set_operation(kind, all_rows, inputs)

    def set_operation(self, kind: SetKind, all_rows: bool, inputs: list[Plan]) -> Plan:
        width = min(2, *(len(each.columns) for each in inputs))
        narrow = [self.narrow(each, width) for each in inputs]
        types = [{each.columns[place].type for each in narrow} for place in range(width)]
        columns = tuple(self.numbers.new("s", BIGINT if BIGINT in found else INT) for found in types)
        return SetOperation(kind, all_rows, tuple(narrow), columns)

    def narrow(self, plan: Plan, width: int) -> Plan:
        return Project(plan, tuple((column, Ref(column)) for column in plan.columns[:width]))

    def shared(self, depth: int) -> Plan:
        rowset = Shared(f"s{next(self.rowsets)}", self.plan(depth))
        uses: list[Plan] = [
            Reference(rowset, tuple(self.numbers.like(column) for column in rowset.columns)) for _ in range(2)
        ]
        uses = [Filter(use, self.condition(use.columns)) if self.pick(True, False) else use for use in uses]
        return Join(self.pick(*JoinKind), uses[0], uses[1], self.join_condition(uses[0], uses[1]))

    def case(self, depth: int) -> Plan:
        child = self.plan(depth)
        made = Case(((self.condition(child.columns, 1), self.operand(child.columns)),), self.literal(), INT)
        return Project(child, (*((c, Ref(c)) for c in child.columns), (self.numbers.new("case", INT), made)))

    def process(self, depth: int) -> Plan:
        child = self.plan(depth)
        readonly = [(self.numbers.like(column), column) for column in self.some(child.columns)]
        return Process(child, USER, (*(out for out, _ in readonly), self.numbers.new("made", BIGINT)), tuple(readonly))

    def reduce(self, depth: int) -> Plan:
        child = self.plan(depth)
        keys = self.some(child.columns, 1)
        readonly = [(self.numbers.like(column), column) for column in keys]
        columns = (*(out for out, _ in readonly), self.numbers.new("made", BIGINT))
        return Reduce(child, keys, (), USER, columns, tuple(readonly))


def _distinct(plan: Plan, outputs: tuple[tuple[Column, Expression], ...]) -> Plan:
    return GroupBy(plan, tuple(column for column, _ in outputs), ())


OPERATORS = (
    *("filter", "filter", "project", "project", "group_by", "grouping_sets", "distinct", "sort", "limit", "window"),
    *(
        "join",
        "join",
        "filtered_join",
        "filtered_join",
        "filtered_join",
        "comma_join",
        "lookup",
        "lookup",
        "semi_of_distinct",
        "union",
        "union",
        "shared",
    ),
    *("case", "process", "reduce"),
)


@st.composite
def plans(draw: Any, depth: int = 3) -> tuple[Plan, ColumnNumbers]:
    drawing = Draw(draw)
    return drawing.plan(depth), drawing.numbers


values = st.one_of(st.none(), st.integers(0, 3))


def drawn_rows(most: int, least: int = 0, **columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries(columns), min_size=least, max_size=most)


_keyed = drawn_rows(4, id=st.integers(0, 3), v=values)
_others = {
    "t": drawn_rows(4, a=values, b=values, c=values),
    "u": drawn_rows(4, d=values, e=st.integers(0, 3)),
    "c": drawn_rows(3, f=values, g=values),
}


@st.composite
def tables(draw: Any) -> dict[str, list[dict[str, Any]]]:
    """Few or no rows for each table: t, u and c hold any values; k has the key (id), and v determines w."""
    keyed = draw(_keyed)
    for row in keyed:
        row["w"] = None if row["v"] is None else (row["v"] * 2) % 3
    return {
        **{name: draw(each) for name, each in _others.items()},
        "k": list({row["id"]: row for row in keyed}.values()),
    }
