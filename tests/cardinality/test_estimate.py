"""Estimates of joins, groups and other operators: close to the truth on generated data, always consistent, in any join
order."""

from __future__ import annotations

import inspect
from collections import Counter
from itertools import permutations
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.relations import (
    NUMBERS,
    Table,
    all_of,
    call,
    described,
    estimated,
    joined,
    literal,
    q_error,
    scan,
    where,
)
from unshuffle.cardinality.estimate import _RULES, Estimate, distinct_after, estimate
from unshuffle.cardinality.relation_estimate import values_left
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.errors import Source
from unshuffle.plan import logical
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, Ref, SortKey, WindowCall
from unshuffle.plan.logical import (
    Combine,
    Distinct,
    Expand,
    Filter,
    Foreign,
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
    SetKind,
    SetOperation,
    Shared,
    Sort,
    TableScan,
    UserClass,
    Values,
    Window,
)
from unshuffle.properties import NO_FACTS

ALL_KINDS = list(JoinKind)


# --- the formulas


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_sample_has_at_most_all_values(rows: float, distinct: float) -> None:
    found = distinct_after(rows, distinct)
    assert 0.0 <= found <= min(rows, distinct) * (1 + 1e-9)
    assert distinct_after(rows * 2, distinct) >= found * (1 - 1e-9)


def test_distinct_values_in_a_sample() -> None:
    """Sampling without replacement: a key has as many values as rows, and few values all occur."""
    random = Random(3)
    assert values_left(1000.0, 1000.0, 10.0) == 10.0
    assert values_left(5.0, 1000.0, 1000.0) == 5.0
    column = [random.randrange(200) for _ in range(1000)]
    seen = sum(len(set(random.sample(column, 150))) for _ in range(50)) / 50
    assert values_left(200.0, 1000.0, 150.0) == pytest.approx(seen, rel=0.05)


# --- joins, against the truth


def _counts(rows: Table, *names: str) -> Counter[Any]:
    columns = [rows.values[name] for name in names]
    return Counter(key for key in zip(*columns, strict=True) if None not in key)


def _truth(kind: JoinKind, left: Table, right: Table, ours: list[str], theirs: list[str]) -> int:
    one, other = _counts(left, *ours), _counts(right, *theirs)
    inner = sum(count * other[key] for key, count in one.items())
    alone = len(left.rows) - sum(count for key, count in one.items() if key in other)
    also_alone = len(right.rows) - sum(count for key, count in other.items() if key in one)
    return {
        JoinKind.INNER: inner,
        JoinKind.LEFT: inner + alone,
        JoinKind.RIGHT: inner + also_alone,
        JoinKind.FULL: inner + alone + also_alone,
        JoinKind.SEMI: len(left.rows) - alone,
        JoinKind.ANTI: alone,
    }[kind]


def _facts(random: Random, rows: int, domain: int, nulls: float = 0.0) -> Table:
    return Table(
        {
            "k": [None if random.random() < nulls else random.randrange(domain) for _ in range(rows)],
            "x": [random.randrange(100) for _ in range(rows)],
        }
    )


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize(
    ("rows", "domain", "others", "other_domain", "nulls"),
    [(3000, 500, 500, 500, 0.0), (3000, 500, 200, 1000, 0.2), (1000, 2000, 1500, 300, 0.1), (50, 10, 2000, 10, 0.0)],
)
def test_joins_of_even_data(
    kind: JoinKind, rows: int, domain: int, others: int, other_domain: int, nulls: float
) -> None:
    random = Random(rows + others)
    left, right = _facts(random, rows, domain, nulls), _facts(random, others, other_domain, nulls)
    found = estimated(joined(left.scan, right.scan, (left["k"], right["k"]), kind=kind))
    truth = _truth(kind, left, right, ["k"], ["k"])
    if truth >= 0.05 * rows:  # a very selective anti-join is estimated at one row in a hundred
        assert q_error(found.rows, truth) <= 1.5, (found.rows, truth)


def test_a_skewed_join_is_large() -> None:
    """Common values of both inputs match in full. Without them the estimate is off by an order of magnitude."""
    random = Random(11)
    left = Table({"k": [int(1000 * random.random() ** 5) for _ in range(4000)]})
    right = Table({"k": [int(1000 * random.random() ** 5) for _ in range(3000)]})
    found = estimated(joined(left.scan, right.scan, (left["k"], right["k"])))
    truth = _truth(JoinKind.INNER, left, right, ["k"], ["k"])
    assert q_error(found.rows, truth) <= 1.5
    even = 4000 * 3000 / estimated(left.scan).values(left["k"])
    assert q_error(even, truth) > 10
    # The result is skewed too, and its statistics show it.
    shares = Counter()
    for key, times in _counts(left, "k").items():
        shares[key] = times * _counts(right, "k")[key]
    assert found.largest_share([left["k"]]) == pytest.approx(max(shares.values()) / truth, rel=0.5)


def test_a_key_of_two_columns_is_not_multiplied() -> None:
    """orders(customer, number) is a key, and lines reference it. Each line matches one order, not one in a million."""
    random = Random(5)
    pairs = [(c, n) for c in range(100) for n in range(20)]
    orders = Table({"c": [c for c, _ in pairs], "n": [n for _, n in pairs]}, keys=[("c", "n")])
    chosen = [random.choice(pairs) for _ in range(5000)]
    lines = Table({"c": [c for c, _ in chosen], "n": [n for _, n in chosen]})
    for left, right in ((lines, orders), (orders, lines)):
        plan = joined(left.scan, right.scan, (left["c"], right["c"]), (left["n"], right["n"]))
        assert q_error(estimated(plan).rows, 5000) <= 1.2


def test_a_filter_on_one_side_only() -> None:
    """Half of the orders, all customers: half of the pairs. A filter on the key counts once, not on both inputs."""
    random = Random(6)
    customers = Table({"id": list(range(500))}, keys=[("id",)])
    orders = Table(
        {"customer": [random.randrange(500) for _ in range(3000)], "x": [random.randrange(100) for _ in range(3000)]}
    )
    on = (orders["customer"], customers["id"])
    half = joined(where(orders, call("<", orders["x"], 50)), customers.scan, on)
    truth = sum(1 for x in orders.values["x"] if x < 50)
    assert q_error(estimated(half).rows, truth) <= 1.1
    both = joined(
        where(orders, call("<", orders["customer"], 50)), where(customers, call("<", customers["id"], 50)), on
    )
    one = joined(where(orders, call("<", orders["customer"], 50)), customers.scan, on)
    truth = sum(1 for c in orders.values["customer"] if c < 50)
    assert q_error(estimated(both).rows, truth) <= 1.2
    assert q_error(estimated(one).rows, truth) <= 1.2


def test_a_year_of_a_calendar_is_a_range_of_its_days() -> None:
    """Sales cover five years, the calendar fifty. One of the five years has a fifth of the sales, and another year has
    none. The weeks of the sales are also those of five years."""
    random = Random(12)
    days = range(50 * 365)
    calendar = Table(
        {"day": list(days), "week": [day // 7 for day in days], "year": [1970 + day // 365 for day in days]},
        keys=[("day",)],
        order_dependencies=[("day", "week", "year")],
    )
    first = 28 * 365
    sales = Table({"day": [random.randrange(first, first + 5 * 365) for _ in range(4000)]})
    on = (sales["day"], calendar["day"])

    def of(condition: Call) -> float:
        return estimated(joined(sales.scan, Filter(calendar.scan, condition), on)).rows

    assert q_error(of(call("=", calendar["year"], 2000)), 800) <= 1.2
    assert q_error(of(call("between", calendar["year"], 1998, 1999)), 1600) <= 1.2
    assert of(call("=", calendar["year"], 1980)) < 10
    either = call(
        "or",
        call("=", calendar["year"], 2000),
        all_of(call("=", calendar["year"], 2001), call(">", calendar["week"], 0)),
    )
    assert q_error(of(either), 1600) <= 1.4
    weeks = estimated(GroupBy(joined(sales.scan, calendar.scan, on), (calendar["week"],), ())).rows
    assert q_error(weeks, 5 * 365 / 7) <= 1.2


def test_ranges_that_overlap_in_part() -> None:
    random = Random(8)
    left = Table({"k": [random.randrange(0, 1000) for _ in range(3000)]})
    right = Table({"k": [random.randrange(700, 1700) for _ in range(3000)]})
    apart = Table({"k": [random.randrange(5000, 6000) for _ in range(3000)]})
    found = estimated(joined(left.scan, right.scan, (left["k"], right["k"])))
    assert q_error(found.rows, _truth(JoinKind.INNER, left, right, ["k"], ["k"])) <= 1.3
    assert estimated(joined(left.scan, apart.scan, (left["k"], apart["k"]))).rows < 1.0


def test_cross_products_and_other_conditions() -> None:
    left, a = described(100.0, x=10.0)
    right, b = described(30.0, y=5.0)
    assert estimated(Join(JoinKind.INNER, left, right, None)).rows == 3000.0
    assert estimated(Join(JoinKind.INNER, left, right, call("<", a["x"], b["y"]))).rows == pytest.approx(1000.0)
    assert estimated(Join(JoinKind.LEFT, left, right, call("<", a["x"], b["y"]))).rows >= 1000.0


# --- any order


def _chain(random: Random, classes: bool) -> tuple[list[Any], list[tuple[int, Column, int, Column]]]:
    """Three tables, and equalities along a chain (or all in one class)."""
    made = []
    for _ in range(3):
        rows = random.randrange(10, 10_000)
        values = [float(random.randrange(1, rows // 2)) for _ in range(2)]
        made.append(described(float(rows), p=(values[0], random.choice((0.0, 0.2))), q=(values[1], 0.0)))
    plans: list[Plan] = []
    for plan, columns in made:
        limit = Call("in", (Ref(columns["q"]), *(literal(i) for i in range(5))), pa.bool_())
        plans.append(Filter(plan, limit) if random.random() < 0.5 else plan)
    last = made[1][1]["p" if classes else "q"]
    links = [(0, made[0][1]["p"], 1, made[1][1]["p"]), (1, last, 2, made[2][1]["p"])]
    return plans, links


@given(st.integers(0, 10**9), st.booleans())
def test_join_order_does_not_matter(seed: int, classes: bool) -> None:
    """The memo estimates a group once, from its first expression. Every other expression must give the same rows, also
    through a cross product, and nearly the same distinct values."""
    plans, links = _chain(Random(seed), classes)
    found, connected = [], []
    for order in permutations(range(3)):
        plan = plans[order[0]]
        inside = {order[0]}
        for place in order[1:]:
            usable = [link for link in links if {link[0], link[2]} <= inside | {place} and place in (link[0], link[2])]
            pairs = [(one, other) if b == place else (other, one) for _, one, b, other in usable]
            plan = joined(plan, plans[place], *pairs)
            inside.add(place)
        found.append(estimated(plan))
        connected += [found[-1]] if order[1] == 1 or order[0] == 1 else []
    rows = [each.rows for each in found]
    assert max(rows) == pytest.approx(min(rows), rel=1e-6)
    for column in (links[0][1], links[1][3]):
        kinds = [each.distinct([column]) for each in connected]
        assert max(kinds) <= min(kinds) * 1.6


@given(st.integers(0, 10**9))
def test_join_order_hardly_matters_with_histograms(seed: int) -> None:
    random = Random(seed)
    a = Table({"k": [random.randrange(0, 400) for _ in range(300)]})
    b = Table({"k": [random.randrange(100, 600) for _ in range(300)], "l": [random.randrange(20) for _ in range(300)]})
    c = Table({"l": [int(30 * random.random() ** 2) for _ in range(100)]})
    ab = joined(a.scan, b.scan, (a["k"], b["k"]))
    bc = joined(b.scan, c.scan, (b["l"], c["l"]))
    one = estimated(joined(ab, c.scan, (b["l"], c["l"]))).rows
    other = estimated(joined(a.scan, bc, (a["k"], b["k"]))).rows
    assert one == pytest.approx(other, rel=1e-6)


# --- groups


def test_groups_against_the_truth() -> None:
    random = Random(9)
    rows = 5000
    table = Table(
        {
            "a": [random.randrange(40) for _ in range(rows)],
            "b": [random.randrange(30) for _ in range(rows)],
            "wide": [random.randrange(3000) for _ in range(rows)],
            "x": [random.randrange(100) for _ in range(rows)],
            "hole": [None if random.random() < 0.5 else random.randrange(5) for _ in range(rows)],
        }
    )
    for names in (["a"], ["a", "b"], ["wide"], ["a", "wide"], ["hole"], ["a", "hole"]):
        for limit in (100, 30, 3):
            plan = where(table, call("<", table["x"], limit))
            kept = [row for row in table.rows if row[3] < limit]
            places = [list(table.values).index(name) for name in names]
            truth = len({tuple(row[place] for place in places) for row in kept})
            found = estimated(GroupBy(plan, tuple(table[name] for name in names), ()))
            assert q_error(found.rows, truth) <= 1.3, (names, limit, found.rows, truth)


def test_determined_columns_add_no_groups() -> None:
    cities = [f"city {i}" for i in range(200)]
    table = Table(
        {"city": cities * 10, "region": [f"region {i % 20}" for i in range(200)] * 10},
        depends=[(("city",), ("region",))],
    )
    assert estimated(GroupBy(table.scan, (table["city"], table["region"]), ())).rows == pytest.approx(200)


def test_a_join_limits_the_groups_of_the_other_side() -> None:
    """A tenth of the orders has a tenth of the order numbers among the lines, even if the order's own column is
    dropped."""
    orders, o = described(1000.0, "id", id=1000.0, x=10.0)
    lines, n = described(5000.0, order=1000.0)
    plan = joined(lines, Filter(orders, call("=", o["x"], 3)), (n["order"], o["id"]))
    dropped = Project(plan, ((n["order"], Ref(n["order"])),))
    assert estimated(plan).rows == pytest.approx(500)
    assert estimated(GroupBy(dropped, (n["order"],), ())).rows == pytest.approx(100)


def test_a_filter_on_facts_keeps_dimension_rows_with_many_facts() -> None:
    """Of 100 suppliers with 100 lines each, a filter that keeps a tenth of the lines keeps nearly all suppliers."""
    suppliers, s = described(100.0, "id", id=100.0, name=100.0)
    lines, n = described(10_000.0, supplier=100.0, x=10.0)
    plan = Filter(joined(suppliers, lines, (s["id"], n["supplier"])), call("=", n["x"], 3))
    assert estimated(plan).rows == pytest.approx(1000)
    assert estimated(plan).distinct([s["name"]]) > 99
    chosen = Filter(joined(suppliers, lines, (s["id"], n["supplier"])), call("=", s["name"], 3))
    assert estimated(chosen).distinct([s["id"]]) == pytest.approx(1.0)


def test_grouping_sets_and_their_expansion() -> None:
    random = Random(10)
    table = Table({"a": [random.randrange(8) for _ in range(2000)], "b": [random.randrange(5) for _ in range(2000)]})
    a, b = table["a"], table["b"]
    out = [NUMBERS.like(a), NUMBERS.like(b)]
    sets = ((a, b), (a,), ())
    grouped = GroupingSets(table.scan, ((out[0], a), (out[1], b)), sets, ())
    assert estimated(grouped).rows == pytest.approx(8 * 5 + 8 + 1)
    number = NUMBERS.new("number", pa.int32())
    expanded = Expand(table.scan, ((out[0], a), (out[1], b)), sets, number)
    assert estimated(expanded).rows == 6000
    assert q_error(estimated(GroupBy(expanded, (*out, number), ())).rows, 49) <= 1.3


# --- the other operators


def _aggregate(name: str, *arguments: Expression) -> AggregateCall:
    return AggregateCall(name, arguments, pa.int64())


def test_row_number_filters_keep_one_row_of_each_partition() -> None:
    table, columns = described(1000.0, k=50.0)
    number = NUMBERS.new("n", pa.int32())
    order = (SortKey(Ref(columns["k"])),)
    window = Window(
        table, ((number, WindowCall(Call("row_number", (), pa.int32()), (Ref(columns["k"]),), order, None)),)
    )
    assert estimated(Filter(window, call("=", number, 1))).rows == pytest.approx(50)
    assert estimated(Filter(window, call("<=", number, 2))).rows == pytest.approx(100)


def test_remainders_have_few_values() -> None:
    table, columns = described(1000.0, k=500.0)
    k, unknown = Ref(columns["k"]), Call("hash", (Ref(columns["k"]),), pa.int32())
    seven = Literal(7, pa.int32())
    for number, name, values in ((k, "pmod", 7), (unknown, "pmod", 7), (unknown, "%", 13)):
        remainder = Call(name, (number, seven), pa.int32())
        kept = estimated(Filter(table, Call("=", (remainder, Literal(3, pa.int32())), pa.bool_())))
        assert kept.rows == pytest.approx(1000 / values)


def test_expressions_have_no_more_values_than_their_columns() -> None:
    table, columns = described(1000.0, a=7.0, b=30.0)
    a, b = columns["a"], columns["b"]
    made = [NUMBERS.new(name, pa.int64()) for name in ("copy", "sum", "one", "call")]
    plan = Project(
        table,
        (
            (made[0], Ref(a)),
            (made[1], Call("+", (Ref(a), Ref(b)), pa.int64())),
            (made[2], literal(5)),
            (made[3], Call("f", (Ref(a),), pa.int64())),
        ),
    )
    found = estimated(plan)
    assert [found.distinct([column]) for column in made] == pytest.approx([7, 210, 1, 7], rel=0.03)
    assert found.columns[made[0]] is estimated(table).columns[a] or found.columns[made[0]].distinct == 7


def test_set_operations() -> None:
    left, a = described(1000.0, k=1000.0, few=4.0)
    right, b = described(500.0, k=500.0, few=3.0)
    out = (NUMBERS.new("k", pa.int64()), NUMBERS.new("few", pa.int64()))
    both = estimated(SetOperation(SetKind.UNION, True, (left, right), out))
    assert both.rows == 1500
    assert both.distinct([out[0]]) == pytest.approx(1500)
    assert both.distinct([out[1]]) == pytest.approx(4)
    for kind in SetKind:
        for all_rows in (True, False):
            found = estimated(SetOperation(kind, all_rows, (left, right), out)).rows
            assert 0 < found <= (1500 if kind is SetKind.UNION else 1000)
    assert a["k"] != b["k"]


def test_literal_rows() -> None:
    columns = (NUMBERS.new("a", pa.int32()), NUMBERS.new("b", pa.string()))
    rows = ((1, "x"), (2, "x"), (2, None))
    found = estimated(Values(tuple(tuple(literal(v) for v in row) for row in rows), columns))
    assert found.rows == 3
    assert not found.guessed
    assert [found.distinct([column]) for column in columns] == [2, 2]
    assert estimated(Filter(Values((), columns), call("=", columns[0], 1))).rows == 0


def test_two_uses_of_a_rowset_are_independent() -> None:
    table, columns = described(1000.0, k=100.0)
    shared = Shared("r", table)
    again = NUMBERS.like(columns["k"])
    one, other = Reference(shared, table.columns), Reference(shared, (again,))
    found = estimated(joined(one, other, (columns["k"], again)))
    assert found.rows == pytest.approx(1000 * 1000 / 100)
    assert found.distinct([again]) == pytest.approx(100)


def test_sizes_without_statistics() -> None:
    text = NUMBERS.new("line", pa.string())
    files = logical.Files(("f",), Format("Text"), None, None, 20_000)
    assert estimated(logical.Scan("f", files, (text,))).rows == 1000
    assert estimated(TableScan(("t",), (text,))).rows == 1_000_000
    assert estimated(TableScan(("t",), (text,))).guessed
    assert estimated(TableScan(("t",), (text,))).guesses == 1
    foreign = Foreign("select", (("t", TableScan(("t",), (text,))),), (NUMBERS.new("x"),), "why")
    assert estimated(foreign).rows == 1_000_000


def test_widths() -> None:
    table = Table({"i": [1, 2], "s": ["a", "abc"], "hole": [None, 5]})
    found = estimated(table.scan)
    assert found.width([table["i"]]) == 8
    assert found.width([table["s"]]) == 2
    assert found.width([table["hole"]]) == 4
    assert found.width([NUMBERS.new("new", pa.int32()), NUMBERS.new("unknown")]) == 20


def _every_operator() -> list[Plan]:
    left, a = described(1000.0, "k", k=1000.0, x=20.0)
    right, b = described(300.0, k=100.0, y=(5.0, 0.5))
    x, k = a["x"], a["k"]
    user = UserClass("m", "C", (), (), (), Source("s", "").span(0, 0))
    new = [NUMBERS.new(f"n{i}", pa.int64()) for i in range(4)]
    two = (new[0], new[1])
    shared = Shared("r", left)
    window = WindowCall(_aggregate("sum", Ref(k)), (Ref(x),), (), None)
    plans: list[Plan] = [
        left,
        TableScan(("t",), two),
        Values(((literal(1), literal(2)),), two),
        Project(left, ((x, Ref(x)), (new[0], call("<", k, 5)))),
        Filter(left, call("=", x, 3)),
        GroupBy(left, (x,), ((new[0], _aggregate("count", Ref(k))), (new[1], _aggregate("max", Ref(k))))),
        GroupBy(left, (), ((new[0], _aggregate("avg", Ref(k))),)),
        logical.PartialGroupBy(left, (x,), ((new[0], _aggregate("count", Ref(k))),)),
        logical.FinalGroupBy(left, (x,), ((new[0], _aggregate("count", Ref(k))),), (k,)),
        GroupingSets(left, ((new[0], x), (new[1], k)), ((x,), (k, x), ()), ()),
        Expand(left, ((new[0], x),), ((x,), ()), new[1]),
        Distinct(left),
        Window(left, ((new[0], window),)),
        Sort(left, (SortKey(Ref(x)),)),
        Limit(left, 10, 5),
        Limit(left, None, 5000),
        logical.PartialTopN(left, (), 7),
        *(joined(left, right, (k, b["k"]), kind=kind) for kind in ALL_KINDS),
        *(SetOperation(kind, every, (left, right), two) for kind in SetKind for every in (True, False)),
        Process(left, user, two, ((new[0], x),)),
        Reduce(left, (x,), (), user, two, ((new[0], x),)),
        Combine(left, right, (k,), (b["k"],), user, two, ((new[0], k), (new[1], b["y"]))),
        Foreign("select", (("l", left),), two, "why"),
        shared,
        Reference(shared, two),
    ]
    return plans


def test_every_operator_has_an_estimate() -> None:
    """The rows, columns and distinct values of every operator's estimate are consistent. Three operators occur only in
    the memo, whose groups keep the estimates of their first plans."""
    plans = _every_operator()
    every = {kind for _, kind in inspect.getmembers(logical, inspect.isclass) if kind in _members(logical.Plan)}
    assert every - {logical.GroupRef, logical.MultiJoin, logical.MultiOutput} <= {type(plan) for plan in plans}
    for plan in plans:
        found = estimated(plan)
        assert found.rows >= 0.0, plan
        for columns in ([], *([column] for column in plan.columns), plan.columns):
            assert 0.0 <= found.distinct(columns) <= found.rows, plan
            assert 0.0 < found.largest_share(columns) <= 1.0, plan
            assert found.largest_share(columns) >= 1 / max(1.0, found.distinct(columns)) - 1e-9
            if found.rows >= 1:
                assert found.distinct(columns) >= 1
        assert found.width(plan.columns) >= 0.0
        assert all(known.null_fraction <= 1.0 for known in found.columns.values())


def _members(union: Any) -> set[Any]:
    return set(getattr(union, "__args__", ()))


def test_an_unknown_operator_returns_its_input() -> None:
    class Later:
        def __init__(self, child: Plan) -> None:
            self.child, self.children, self.columns = child, (child,), child.columns

    table, _ = described(1000.0, k=10.0)
    given = estimated(table)
    found = estimate(Later(table), [given], NO_FACTS)  # type: ignore[arg-type]
    assert (found.rows, found.columns) == (given.rows, given.columns)
    assert Later not in _RULES


# --- invariants


@given(st.data())
def test_every_join_estimate_is_consistent(data: st.DataObject) -> None:
    number = st.integers(-3, 3) | st.none()

    def table() -> Table:
        rows = data.draw(st.integers(0, 12))
        column = st.lists(number, min_size=rows, max_size=rows)
        types = {"k": pa.int64(), "l": pa.int64()}
        return Table({"k": data.draw(column), "l": data.draw(column)}, types=types)

    left, right = table(), table()
    kind = data.draw(st.sampled_from(ALL_KINDS))
    names = data.draw(st.sampled_from(["=", "<=>"]))
    parts = [call(names, left["k"], right["k"])]
    if data.draw(st.booleans()):
        parts.append(call(data.draw(st.sampled_from(["=", "<", "<>"])), left["l"], right["l"]))
    condition = parts[0] if len(parts) == 1 else Call("and", tuple(parts), pa.bool_())
    found = estimated(Join(kind, left.scan, right.scan, condition))
    rows, others = len(left.rows), len(right.rows)
    most = {JoinKind.SEMI: rows, JoinKind.ANTI: rows, JoinKind.INNER: rows * others}.get(
        kind, rows * others + rows + others
    )
    assert 0.0 <= found.rows <= most * (1 + 1e-9)
    assert found.rows >= {JoinKind.LEFT: rows, JoinKind.RIGHT: others, JoinKind.FULL: max(rows, others)}.get(kind, 0)
    for column in (left["k"], left["l"]):
        assert 0.0 <= found.distinct([column]) <= found.rows
    for known in found.columns.values():
        assert 0.0 <= known.null_fraction <= 1.0


@given(st.integers(0, 5000), st.integers(1, 3000), st.integers(1, 3000), st.floats(0, 0.9))
def test_groups_are_fewer_than_rows(rows: int, one: int, other: int, nulls: float) -> None:
    columns = [NUMBERS.new("a", pa.int64()), NUMBERS.new("b", pa.int64())]
    known = [
        (columns[0], ColumnStatistics(min(one, rows), nulls)),
        (columns[1], ColumnStatistics(min(other, rows))),
    ]
    table = scan(columns, rows, known)
    given_rows: Estimate = estimated(table)
    for keys in ((), (columns[0],), tuple(columns)):
        found = estimated(GroupBy(table, keys, ()))
        assert found.rows <= max(1.0, given_rows.rows)
        assert estimated(Distinct(table)).rows <= given_rows.rows
