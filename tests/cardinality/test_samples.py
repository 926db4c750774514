"""Samples against brute force: filters, projections and joins of generated rows, and estimates from them."""

import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.cardinality.evaluation import NotEvaluated, evaluated
from unshuffle.cardinality.join_selectivity import KeyPair
from unshuffle.cardinality.sampled import with_common_values
from unshuffle.cardinality.samples import BaseSample, Sample, sampled_join
from unshuffle.catalog.files import data_files
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.parquet_files import parquet_contents
from unshuffle.catalog.schema import Column
from unshuffle.catalog.statistics.table_look import TableLook
from unshuffle.catalog.statistics.table_statistics import UNKNOWN_COLUMN
from unshuffle.catalog.tables import TableFolders
from unshuffle.constants import LOOKS
from unshuffle.declarations import Declarations
from unshuffle.errors import Source
from unshuffle.language.bind.context import unchecked
from unshuffle.language.bind.script import bind
from unshuffle.language.parse.parameters import Parameters
from unshuffle.optimizer import optimize
from unshuffle.plan.expressions import Call, Case, Cast, Expression, Literal, Ref
from workloads.no_spark import NoSpark

BOOLEAN = pa.bool_()
A, B = Column(1, "a", pa.int64()), Column(2, "b", pa.string())
C, D = Column(3, "c", pa.int32()), Column(4, "d", pa.string())


class Written(Sample):
    """Rows that a test gives."""

    def __init__(self, columns: dict[Column, Sequence[Any]]) -> None:
        rows = len(next(iter(columns.values())))
        super().__init__(rows, 1.0, True, frozenset(columns))
        self.columns = {column: pa.array(values, column.type) for column, values in columns.items()}

    def _compute(self, column: Column) -> pa.Array | None:
        return self.columns.get(column)


def rows_of(sample: Sample | None, *columns: Column) -> list[tuple[Any, ...]]:
    assert sample is not None
    values = [sample.values(column) for column in columns]
    return list(zip(*(each.to_pylist() for each in values if each is not None), strict=True))


def call(function: str, *parts: Expression) -> Call:
    return Call(function, parts, BOOLEAN)


LEFT = st.lists(st.tuples(st.none() | st.integers(0, 4), st.none() | st.sampled_from(["", "ä", "x"])), max_size=12)
RIGHT = st.lists(st.tuples(st.none() | st.integers(-1, 6), st.none() | st.sampled_from(["", "x", "y"])), max_size=12)


@given(LEFT, RIGHT, st.sampled_from([1, 2]), st.booleans(), st.sampled_from(list(JoinKind)))
def test_joins_have_the_rows_of_brute_force(
    left: list[Any], right: list[Any], keys: int, null_safe: bool, kind: JoinKind
) -> None:
    one = Written({A: [a for a, _ in left], B: [b for _, b in left]})
    other = Written({C: [c for c, _ in right], D: [d for _, d in right]})
    pairs = [KeyPair(A, C, null_safe), KeyPair(B, D, null_safe)][:keys]

    def matches(ours: Any, theirs: Any) -> bool:
        equal = zip(ours[:keys], theirs[:keys], strict=True)
        return all((null_safe and x is y is None) or (x is not None and x == y) for x, y in equal)

    found = sampled_join(one, other, pairs)
    assert found is not None
    matched = [[theirs for theirs in right if matches(ours, theirs)] for ours in left]
    expected: list[tuple[Any, ...]]
    match kind:
        case JoinKind.INNER:
            expected = [(*ours, *theirs) for ours, some in zip(left, matched, strict=True) for theirs in some]
        case JoinKind.LEFT:
            expected = [
                (*ours, *theirs) for ours, some in zip(left, matched, strict=True) for theirs in some or [(None, None)]
            ]
        case JoinKind.SEMI | JoinKind.ANTI:
            expected = [ours for ours, some in zip(left, matched, strict=True) if bool(some) == (kind is JoinKind.SEMI)]
        case _:
            assert found.of_kind(kind) is None
            return
    columns = (A, B, C, D) if kind in (JoinKind.INNER, JoinKind.LEFT) else (A, B)
    sample = found.of_kind(kind)
    assert sorted(map(repr, rows_of(sample, *columns))) == sorted(map(repr, expected))
    assert sample is not None
    assert sample.estimated == len(expected)
    assert sample.distinct(columns) == len(set(expected))
    if len(left) >= LOOKS.min_rows:
        assert found.left_matched == pytest.approx(sum(map(bool, matched)) / len(left))
    if right:
        reached = sum(any(matches(ours, theirs) for ours in left) for theirs in right)
        assert found.right_matched == pytest.approx(reached / len(right))


@given(LEFT, st.integers(-1, 5), st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
def test_filters_keep_the_rows_of_brute_force(rows: list[Any], constant: int, comparison: str) -> None:
    sample = Written({A: [a for a, _ in rows], B: [b for _, b in rows]})
    condition = call("or", call(comparison, Ref(A), Literal(constant, pa.int32())), call("isnull", Ref(B)))
    kept = sample.filtered(condition)
    compare = {
        "=": int.__eq__,
        "<=>": int.__eq__,
        "<>": int.__ne__,
        "<": int.__lt__,
        "<=": int.__le__,
        ">": int.__gt__,
        ">=": int.__ge__,
    }[comparison]
    expected = [(a, b) for a, b in rows if (a is not None and compare(a, constant)) or b is None]
    assert rows_of(kept, A, B) == expected
    assert kept is not None
    assert kept.distinct((A, B)) == len(set(expected))
    groups = kept.groups((B,), float(kept.rows))
    assert sorted(map(repr, rows_of(groups, B))) == sorted({repr((b,)) for _, b in expected})


def test_expressions() -> None:
    day, text, number = (
        Column(5, "day", pa.date32()),
        Column(6, "text", pa.string()),
        Column(7, "n", pa.decimal128(9, 2)),
    )
    columns = {
        day: pa.array([datetime.date(2000, 1, 31), None, datetime.date(1999, 12, 1)], pa.date32()),
        text: pa.array(["Größe 1", None, "x%"], pa.string()),
        number: pa.array([1, None, 3], pa.decimal128(9, 2)),
    }

    def value(expression: Expression) -> list[Any]:
        found = evaluated(expression, columns.get)
        return list(found.to_pylist())

    since = Literal("2000-01-01", pa.string())
    assert value(call(">=", Ref(day), since)) == [True, None, False]
    assert value(call(">=", Ref(day), Cast(since, pa.date32()))) == [True, None, False]
    assert value(call("between", Ref(number), Literal(1, pa.int32()), Literal(2.5, pa.float64()))) == [
        True,
        None,
        False,
    ]
    assert value(call("in", Ref(text), Literal("x%", pa.string()), Literal(None, pa.string()))) == [False, False, True]
    assert value(call("like", Ref(text), Literal("%ö%", pa.string()))) == [True, None, False]
    assert value(Call("year", (Ref(day),), pa.int32())) == [2000, None, 1999]
    assert value(Call("substring", (Ref(text), Literal(1, None), Literal(3, None)), pa.string())) == ["Grö", None, "x%"]
    assert value(Call("+", (Ref(day), Literal(1, pa.int32())), pa.date32()))[0] == datetime.date(2000, 2, 1)
    assert value(Call("/", (Ref(number), Literal(0, pa.int32())), pa.float64())) == [None, None, None]
    chosen = Case(((call(">", Ref(number), Literal(2, pa.int32())), Literal("big", pa.string())),), None, pa.string())
    assert value(chosen) == [None, None, "big"]
    for impossible in (
        Call("reverse", (Ref(text),), pa.string()),
        call(">", Ref(text), Ref(day)),
        call("=", Ref(Column(9, "unknown", pa.int32())), Literal(1, pa.int32())),
        Call("rand", (), pa.float64(), deterministic=False),
    ):
        with pytest.raises(NotEvaluated):
            value(impossible)


ANYTHING = st.none() | st.integers(-5, 5) | st.text(max_size=2) | st.floats() | st.dates() | st.booleans()


@given(
    st.sampled_from(
        [
            "=",
            "<",
            "in",
            "between",
            "like",
            "+",
            "-",
            "/",
            "and",
            "or",
            "not",
            "isnull",
            "coalesce",
            "substring",
            "year",
            "if",
        ]
    ),
    st.lists(ANYTHING | st.sampled_from([A, B]), min_size=1, max_size=4),
)
def test_what_cannot_be_evaluated_is_no_other_error(function: str, parts: list[Any]) -> None:
    arguments = tuple(Ref(part) if isinstance(part, Column) else Literal(part, None) for part in parts)
    sample = Written({A: [1, None, 3], B: ["x", None, ""]})
    kept = sample.filtered(Call(function, arguments, BOOLEAN))
    assert kept is None or kept.rows <= 3


# --- estimates of queries


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calendar of two hundred years, and sales of five: the keys of the days are in another range than the sales'."""
    folder = tmp_path_factory.mktemp("tables")
    first = datetime.date(1900, 1, 1)
    days = [first + datetime.timedelta(n) for n in range(73_049)]
    random = np.random.default_rng(1)
    pq.write_table(
        pa.table(
            {
                "d_key": pa.array(range(10_000, 10_000 + len(days)), pa.int32()),
                "d_year": pa.array([day.year for day in days], pa.int32()),
                "d_moy": pa.array([day.month for day in days], pa.int32()),
                "d_name": [f"{day:%A}" for day in days],
            }
        ),
        folder / "days.parquet",
    )
    rows = 400_000
    sold = random.integers(46_000, 46_000 + 5 * 365, rows).astype(np.int32)
    pq.write_table(
        pa.table(
            {
                "s_day": pa.array(sold, mask=random.random(rows) < 0.04),
                "s_item": pa.array(random.integers(0, 1000, rows).astype(np.int32)),
                "s_number": pa.array(np.arange(rows, dtype=np.int64)),
                "s_price": pa.array(random.random(rows) * 100, pa.float64()),
            }
        ),
        folder / "sales.parquet",
        row_group_size=50_000,
    )
    items = np.arange(1000, dtype=np.int32)
    pq.write_table(
        pa.table(
            {
                "i_item": items,
                "i_class": pa.array(items // 100),
                "i_brand": pa.array(items // 10),  # a brand is in one class
                "i_note": pa.array([math.nan if n % 7 else -0.0 for n in items]),
            }
        ),
        folder / "items.parquet",
    )
    pq.write_table(pa.table({"r_number": pa.array(np.arange(0, rows, 9, dtype=np.int64))}), folder / "returns.parquet")
    return folder


def planned(tables: Path, text: str) -> Any:
    parameters = Parameters({})
    bound = bind(Source("<query>", text), parameters, TableFolders((str(tables),)), NoSpark(), unchecked, False)
    (_, plan), *_ = optimize(Declarations().check(bound)).outputs
    return plan


QUERIES = (
    "select s_price from sales join days on s_day = d_key where d_year = 2000",
    "select s_price from sales join days on s_day = d_key where d_year = 2000 and d_moy = 3 and d_name <> 'Sunday'",
    "select s_price from sales join days on s_day = d_key where d_moy = 11",
    "select s_price from sales join days on s_day = d_key where d_year = 1950 or d_year = 2001",
    "select s_price from sales join items on s_item = i_item where i_class = 3 and i_brand between 30 and 39",
    "select s_price from sales, items, days where s_item = i_item and s_day = d_key and i_class = 3 and d_year = 1999",
    "select s_price from sales where s_day in (select d_key from days where d_year = 1999)",
    "select s_price from sales where s_number in (select r_number from returns)",
    "select s_price from sales left join returns on s_number = r_number where r_number is null",
    "select i_class, i_brand from items, sales where s_item = i_item and i_note = 0.0 group by i_class, i_brand",
    "select d_moy, i_class, count(*) as n from sales, items, days where s_item = i_item and s_day = d_key group by d_moy, i_class",
    "select s_price from sales where s_price < 10 and s_item * 2 > 1500",
    """with months as (select i_class, i_brand, d_year, d_moy, sum(s_price) as price,
        row_number() over (partition by i_class, i_brand order by d_year, d_moy) as n
        from sales, items, days where s_item = i_item and s_day = d_key group by i_class, i_brand, d_year, d_moy)
    select x.price, y.price as before from months x join months y
    on x.i_class = y.i_class and x.i_brand = y.i_brand and x.n = y.n + 1""",
)


@pytest.mark.parametrize("text", QUERIES)
def test_estimates_without_analyze(tables: Path, text: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for path in sorted(tables.glob("*.parquet")):
            connection.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
        (expected,) = connection.execute(f"SELECT count(*) FROM ({text})").fetchone()
    assert planned(tables, text).size.rows == pytest.approx(expected, rel=0.25, abs=1)


def test_common_values_of_a_computed_key_are_known() -> None:
    """Three of four rows have one value: as a join key, it would fill a partition."""
    sample = Written({A: [7] * 30 + [None] * 4 + list(range(100, 106))})
    known = with_common_values(UNKNOWN_COLUMN, A, sample)
    assert known.common == ((7, 0.75),)
    assert known.null_fraction == pytest.approx(0.1)
    assert with_common_values(UNKNOWN_COLUMN, B, sample) is UNKNOWN_COLUMN


def test_a_query_over_files_that_vanish_is_planned(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "t.parquet")
    bound = bind(
        Source("<query>", "select x from t where x > 50"),
        Parameters({}),
        TableFolders((str(tmp_path),)),
        NoSpark(),
        unchecked,
        False,
    )
    script = Declarations().check(bound)
    (tmp_path / "t.parquet").unlink()
    (_, plan), *_ = optimize(script).outputs
    assert plan.size.rows == pytest.approx(49, rel=0.2)


def test_rows_of_a_table_that_were_not_read_are_not_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    listed = data_files([str(tmp_path)])
    sample = BaseSample(TableLook(listed, parquet_contents(listed)), (A,), frozenset((A,)))
    assert sample.rows == 0
    assert sample.estimated == 0.0
