"""Filters: estimates near the truth on generated data, and never impossible on any condition."""

from __future__ import annotations

import datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.drawn_columns import drawn_column
from tests.support.relations import (
    NUMBERS,
    Table,
    call,
    count,
    described,
    estimated,
    literal,
    q_error,
    scan,
    where,
)
from unshuffle.cardinality.like_patterns import literal_runs
from unshuffle.catalog.statistics.table_statistics import ColumnStatistics
from unshuffle.plan.expressions import Call, Cast, Exists, Expression, Literal, Ref, Template
from unshuffle.plan.logical import Filter, Values

ROWS = 4000
DAY = datetime.date(2020, 1, 1)


def _skewed(random: Random, values: int) -> int:
    """A few values take most rows."""
    return int(values * random.random() ** 4)


@pytest.fixture(scope="module")
def events() -> Table:
    random = Random(7)
    words = [f"{a}{b}" for a in ("alpha ", "beta ", "gamma ", "delta ") for b in range(500)]
    return Table(
        {
            "even": [random.randrange(1000) for _ in range(ROWS)],
            "skewed": [_skewed(random, 1000) for _ in range(ROWS)],
            "few": [random.choice("abcd") for _ in range(ROWS)],
            "day": [DAY + datetime.timedelta(days=random.randrange(365)) for _ in range(ROWS)],
            "price": [Decimal(random.randrange(10_000)) / 100 for _ in range(ROWS)],
            "real": [random.gauss(0, 1) for _ in range(ROWS)],
            "gaps": [None if random.random() < 0.3 else random.randrange(500) for _ in range(ROWS)],
            "word": [random.choice(words) for _ in range(ROWS)],
            "flag": [random.random() < 0.2 for _ in range(ROWS)],
        }
    )


def test_ranges_are_exact_to_half_a_bucket(events: Table) -> None:
    """A histogram of 64 buckets knows each end of a range to within half a bucket, for any distribution."""
    random = Random(1)
    for name in ("even", "skewed", "day", "price", "real", "gaps", "word"):
        values = sorted(value for value in events.values[name] if value is not None)
        for _ in range(40):
            low, high = sorted((random.choice(values), random.choice(values)))
            found = estimated(where(events, call(">=", events[name], low), call("<", events[name], high)))
            truth = sum(1 for value in values if low <= value < high)
            assert abs(found.rows - truth) <= ROWS * 2.5 / 64, (name, low, high)


def test_equalities(events: Table) -> None:
    random = Random(2)
    for name, worst in (("even", 4.0), ("few", 1.001), ("day", 3.0), ("flag", 1.001), ("word", 7.0)):
        for _ in range(20):
            value = random.choice([v for v in events.values[name] if v is not None])
            truth = sum(1 for v in events.values[name] if v == value)
            assert q_error(estimated(where(events, call("=", events[name], value))).rows, truth) <= worst


def test_common_values_are_exact(events: Table) -> None:
    """The most common value of a column is known exactly, and so is its share after a filter."""
    counts: dict[int, int] = {}
    for value in events.values["skewed"]:
        counts[value] = counts.get(value, 0) + 1
    most = max(counts, key=lambda value: counts[value])
    found = estimated(where(events, call("=", events["skewed"], most)))
    assert found.rows == pytest.approx(counts[most])
    whole = estimated(events.scan)
    assert whole.largest_share([events["skewed"]]) == pytest.approx(counts[most] / ROWS)


def test_conditions_of_every_form(events: Table) -> None:
    """Each condition with its truth: the same condition in Python, over all columns in order."""
    t = events
    cases: list[tuple[Call | Template, Any, float]] = [
        (call("in", t["few"], "a", "b"), lambda r: r["few"] in "ab", 1.01),
        (call("or", call("=", t["few"], "a"), call("=", t["few"], "c")), lambda r: r["few"] in "ac", 1.01),
        (call("not", call("in", t["few"], "a", "b")), lambda r: r["few"] not in "ab", 1.01),
        (call("<>", t["few"], "a"), lambda r: r["few"] != "a", 1.01),
        (call("between", t["even"], 100, 299), lambda r: 100 <= r["even"] <= 299, 1.2),
        (call("isnull", t["gaps"]), lambda r: r["gaps"] is None, 1.01),
        (call("isnotnull", t["gaps"]), lambda r: r["gaps"] is not None, 1.01),
        (call("<=>", t["gaps"], None), lambda r: r["gaps"] is None, 1.01),
        (call("not", call("<", t["gaps"], 250)), lambda r: r["gaps"] is not None and r["gaps"] >= 250, 1.2),
        (call("like", t["word"], "alpha%"), lambda r: r["word"].startswith("alpha"), 1.3),
        (call("like", t["word"], "%a 1%"), lambda r: "a 1" in r["word"], 1.6),
        (call("not", call("like", t["word"], "%a 1%")), lambda r: "a 1" not in r["word"], 1.3),
        (Template(("", " NOT LIKE 'alpha%'"), (Ref(t["word"]),), pa.bool_()), lambda r: "alpha" not in r["word"], 1.3),
        (call("ilike", t["word"], "ALPHA%"), lambda r: r["word"].startswith("alpha"), 1.3),
        (call("=", t["even"], t["gaps"]), lambda r: r["even"] == r["gaps"], 4.0),
        (call("<", t["even"], t["gaps"]), lambda r: r["gaps"] is not None and r["even"] < r["gaps"], 1.5),
        (call("<", t["even"], 500.5), lambda r: r["even"] < 500.5, 1.1),
        (call("<", 500, t["even"]), lambda r: r["even"] > 500, 1.1),
        (call(">=", t["day"], "2020-07-01"), lambda r: r["day"] >= datetime.date(2020, 7, 1), 1.1),
        (call("is true", t["flag"]), lambda r: r["flag"], 1.01),
        (call("is false", Ref(t["flag"])), lambda r: not r["flag"], 1.01),
        (
            call("=", Call("substring", (Ref(t["word"]), literal(1), literal(5)), pa.string()), "alpha"),
            lambda r: r["word"].startswith("alpha"),
            1.5,
        ),
        (
            Call("and", (call("<", t["even"], 500), call("=", t["few"], "a")), pa.bool_()),
            lambda r: r["even"] < 500 and r["few"] == "a",
            1.2,
        ),
        (
            Call("or", (call("<", t["even"], 500), call("=", t["few"], "a")), pa.bool_()),
            lambda r: r["even"] < 500 or r["few"] == "a",
            1.2,
        ),
    ]
    for condition, keep, worst in cases:
        truth = count(t.rows, lambda *row, keep=keep: keep(dict(zip(t.values, row, strict=True))))
        found = estimated(Filter(t.scan, condition))
        assert q_error(found.rows, truth) <= worst, (condition, found.rows, truth)


def test_two_comparisons_form_one_interval(events: Table) -> None:
    """As independent conditions, x >= 400 and x < 600 would keep 0.6 * 0.6 of the rows."""
    found = estimated(where(events, call(">=", events["even"], 400), call("<", events["even"], 600)))
    assert found.rows == pytest.approx(0.2 * ROWS, rel=0.15)
    assert found.distinct([events["even"]]) == pytest.approx(200, rel=0.15)
    low, high = found.columns[events["even"]].low, found.columns[events["even"]].high
    assert (low, high) == (400, 600)


def test_impossible_and_certain() -> None:
    table, columns = described(1000.0, x=10.0)
    x = columns["x"]
    assert estimated(Filter(table, Literal(False, pa.bool_()))).rows == 0.0
    assert estimated(Filter(table, Literal(True, pa.bool_()))).rows == 1000.0
    assert estimated(Filter(table, call("=", x, None))).rows == 0.0
    assert estimated(Filter(table, Call("and", (call("<", x, 3), call(">", x, 5)), pa.bool_()))).rows == 0.0
    assert estimated(Filter(table, Call("and", (call("=", x, 3), call("=", x, 5)), pa.bool_()))).rows == 0.0


def test_defaults_are_marked_as_guesses() -> None:
    text = NUMBERS.new("text", pa.string())
    table = scan([text], 1000, [])
    known, columns = described(1000.0, x=10.0)
    assert estimated(table).guessed
    assert not estimated(known).guessed
    assert not estimated(Filter(known, call("=", columns["x"], 4))).guessed
    assert estimated(Filter(known, call("<", columns["x"], 4))).guessed  # its range is not known
    unknown = Exists(Values(((),), ()), frozenset())
    assert estimated(Filter(known, unknown)).guessed


def test_guesses_are_counted() -> None:
    """A counted table rests on none. Defaults do, and so does each condition beyond the first, as if it were independent."""
    known, columns = described(1000.0, x=10.0, y=10.0, z=10.0)
    x, y, z = (call("=", columns[name], 4) for name in "xyz")

    def guesses(*conditions: Any) -> int:
        return estimated(Filter(known, Call("and", conditions, pa.bool_()))).guesses

    assert estimated(known).guesses == 0
    assert estimated(scan([NUMBERS.new("text", pa.string())], 1000, [])).guesses == 0  # the rows are known
    assert guesses(x, x) == 0
    assert guesses(x, y) == 1
    assert guesses(x, y, z) == 2
    assert guesses(x, call("<", columns["y"], 4)) == 2  # the range of y is not known
    assert estimated(Filter(known, Call("and", (x, y), pa.bool_()))).with_rows(7.0).guesses == 0


def test_backoff_on_one_column() -> None:
    """The selectivities of three similar conditions on one column do not multiply."""
    name = NUMBERS.new("name", pa.string())
    values = tuple(f"k{i:02d}" for i in range(65))
    known = ColumnStatistics(10_000.0, 0.0, "k00", "k64", 3.0)
    table = scan([name], 10_000, [(name, known)])
    conditions = tuple(call("like", name, pattern) for pattern in ("%a%", "%b%", "%c%"))
    one = estimated(Filter(table, conditions[0])).rows
    three = estimated(Filter(table, Call("and", conditions, pa.bool_()))).rows
    assert one == 1000.0
    assert three == pytest.approx(10_000 * 0.1 * 0.1**0.5 * 0.1**0.25)
    assert values


@pytest.mark.parametrize(
    ("pattern", "prefix", "runs"),
    [("abc", "abc", 0), ("abc%", "abc", 0), ("%abc", "", 1), ("a%b_c", "a", 2), ("a\\%b%", "a%b", 0), ("%", "", 0)],
)
def test_literal_runs_of_patterns(pattern: str, prefix: str, runs: int) -> None:
    assert literal_runs(pattern, "\\") == (prefix, runs)


# --- arbitrary conditions


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-5, 5)),
    "f": (pa.float64(), st.floats(width=32)),
    "s": (pa.string(), st.text("abz%_é", max_size=4)),
    "d": (pa.date32(), st.dates(datetime.date(2019, 12, 1), datetime.date(2020, 2, 1))),
    "t": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    "n": (pa.decimal128(10, 2), st.decimals(-9, 9, places=2)),
    "b": (pa.bool_(), st.booleans()),
    "y": (pa.binary(), st.binary(max_size=3)),
}


NAMED = {name: NUMBERS.new(name, type) for name, (type, _) in COLUMNS.items()}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = draw(st.integers(0, 30))
    values = {name: draw(drawn_column(kind, rows, rows)) for name, (_, kind) in COLUMNS.items()}
    return Table(values, types={name: type for name, (type, _) in COLUMNS.items()}, columns=NAMED)


def _conditions() -> st.SearchStrategy[Expression]:
    columns = st.sampled_from(list(NAMED.values())).map(Ref)
    constants = st.one_of(st.none(), *(kind for _, kind in COLUMNS.values())).map(
        lambda value: Literal(value, pa.scalar(value).type if value is not None else pa.null())
    )
    operands = columns | constants | columns.map(lambda ref: Cast(ref, pa.string()))
    compared = st.tuples(st.sampled_from(["=", "<=>", "<>", "<", "<=", ">", ">="]), operands, operands).map(
        lambda each: call(each[0], *each[1:])
    )
    listed = st.tuples(operands, st.lists(constants, min_size=1, max_size=4)).map(
        lambda each: call("in", each[0], *each[1])
    )
    between = st.tuples(operands, operands, operands).map(lambda each: call("between", *each))
    like = st.tuples(columns, st.text("ab%_\\", max_size=5)).map(lambda each: call("like", *each))
    tests = st.tuples(st.sampled_from(["isnull", "isnotnull", "is true", "is false", "no_such_function"]), columns).map(
        lambda each: call(*each)
    )
    atoms = compared | listed | between | like | tests | st.booleans().map(literal) | columns
    return st.recursive(
        atoms,
        lambda inner: (
            st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)).map(
                lambda each: Call(each[0], tuple(each[1]), pa.bool_())
            )
            | inner.map(lambda one: call("not", one))
        ),
        max_leaves=6,
    )


@given(tables(), _conditions())
def test_every_condition_has_a_consistent_estimate(table: Table, condition: Expression) -> None:
    found = estimated(Filter(table.scan, condition))
    assert 0.0 <= found.rows <= len(table.rows)
    for column in table.columns.values():
        assert 0.0 <= found.distinct([column]) <= max(found.rows, 0.0)
        assert 0.0 <= found.largest_share([column]) <= 1.0
        known = found.columns.get(column)
        if known is not None:
            assert 0.0 <= known.null_fraction <= 1.0
            assert known.distinct is None or known.distinct >= 0.0
            assert all(0.0 <= share <= 1.0 + 1e-9 for _, share in known.common)
    assert 0.0 <= found.distinct(table.columns.values()) <= found.rows
