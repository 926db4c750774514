"""Declared constraints: compared with brute force, checked on files, and remembered while the files are unchanged."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.drawn_columns import drawn_column
from unshuffle import cli
from unshuffle.catalog.constraints import counterexamples, row_hashes
from unshuffle.catalog.constraints.check_results import CheckResult, CheckResults, check_results_path
from unshuffle.catalog.constraints.constraint import (
    Constraint,
    DeclaredDependency,
    DeclaredKey,
    DeclaredPartitions,
    PartCondition,
)
from unshuffle.catalog.constraints.counterexamples import Counterexamples, find_counterexamples
from unshuffle.catalog.files import data_files
from unshuffle.catalog.statistics.file_fingerprints import fingerprints
from unshuffle.catalog.tables import TableFolders
from unshuffle.declarations import Declarations
from unshuffle.errors import DeclarationProblem, FileProblem, NameProblem, Source, UserError
from unshuffle.language.bind.context import unchecked
from unshuffle.language.bind.script import bind, bind_table
from unshuffle.language.parse.parameters import Parameters
from unshuffle.plan.logical import Scan
from unshuffle.plan.logical import walk as operators
from unshuffle.session import Session
from workloads.no_spark import NoSpark

NAN = float("nan")
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(0, 3) | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.int16(): st.integers(-2, 2),
    pa.float64(): st.sampled_from([0.0, -0.0, NAN, -NAN, 1.5, float("inf")]),
    pa.float32(): st.sampled_from([0.0, -0.0, NAN, 1.5]),
    pa.string(): st.sampled_from(["", "a", "A", "é", "e\u0301", "a\0b", "日本", "a" * 60, "a" * 61]),
    pa.binary(): st.binary(max_size=1),
    pa.date32(): st.sampled_from([datetime.date(1, 1, 1), datetime.date(2024, 2, 29)]),
    pa.timestamp("us", tz="UTC"): st.sampled_from(
        [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), datetime.datetime(1969, 1, 1, tzinfo=datetime.UTC)]
    ),
    pa.decimal128(38, 2): st.sampled_from([Decimal("0.00"), Decimal("-1.00"), Decimal("1e30"), Decimal("1.01")]),
    pa.bool_(): st.booleans(),
}


def _same(value: Any) -> Any:
    """Maps values that are equal under GROUP BY to the same value."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0
    return value


def _holds(constraint: Constraint, rows: Sequence[dict[str, Any]]) -> bool:
    def values(row: dict[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
        return tuple(_same(row[name]) for name in names)

    match constraint:
        case DeclaredKey(columns):
            return len({values(row, columns) for row in rows}) == len(rows)
        case DeclaredDependency(determinant, dependent):
            found = defaultdict(set)
            for row in rows:
                found[values(row, determinant)].add(values(row, dependent))
            return all(len(each) == 1 for each in found.values())


def _of(table: pa.Table, pieces: int = 3) -> counterexamples.Rows:
    return lambda: table.to_batches(max_chunksize=max(1, table.num_rows // pieces))


TYPES = st.lists(st.sampled_from(list(VALUES)), min_size=2, max_size=3)


@cache
def _constraints(columns: tuple[str, ...]) -> st.SearchStrategy[Constraint]:
    names = st.lists(st.sampled_from(columns), min_size=1, unique=True).map(tuple)
    return st.builds(DeclaredKey, names) | st.builds(DeclaredDependency, names, names)


@given(st.data())
def test_counterexamples_agree_with_comparing_every_row(data: st.DataObject) -> None:
    types = data.draw(TYPES)
    size = data.draw(st.integers(0, 12))
    columns = {f"c{i}": data.draw(drawn_column(VALUES[type], size, size)) for i, type in enumerate(types)}
    table = pa.table(
        {name: pa.array(values, type) for (name, values), type in zip(columns.items(), types, strict=True)}
    )
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    constraint = data.draw(_constraints(tuple(columns)))
    hashes = data.draw(st.sampled_from([2, 5, 1000]))
    found = find_counterexamples(constraint, _of(table), size, hashes)
    assert (found is None) == _holds(constraint, rows)


def test_counterexamples_are_in_the_rows() -> None:
    table = pa.table(
        {"k": [1, 2, 2, None, None, None, 4, 4, 5, 5], "v": [1.0, 0.0, -0.0, NAN, NAN, NAN, 1.0, 2.0, 5.0, None]}
    )
    assert find_counterexamples(DeclaredKey(("k",)), _of(table), 10) == Counterexamples(
        ("k = 2 in 2 rows", "k = NULL in 3 rows", "k = 4 in 2 rows")
    )
    assert find_counterexamples(DeclaredDependency(("k",), ("v",)), _of(table), 10) == Counterexamples(
        ("k = 4 with v = 1.0 and v = 2.0", "k = 5 with v = 5.0 and v = NULL")
    )
    assert find_counterexamples(DeclaredKey(("k", "v")), _of(table), 10) == Counterexamples(
        ("k = 2, v = 0.0 in 2 rows", "k = NULL, v = nan in 3 rows")
    )


def test_hash_collisions_are_resolved_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst case: all rows of an integer column have the same hash."""
    monkeypatch.setattr(row_hashes, "_mixed", lambda hashes: hashes * 0)
    table = pa.table({"k": list(range(100)), "v": [i % 7 for i in range(100)]})
    assert find_counterexamples(DeclaredKey(("k",)), _of(table), 100) is None
    assert find_counterexamples(DeclaredKey(("v",)), _of(table), 100) == Counterexamples(
        tuple(f"v = {i} in {15 if i < 2 else 14} rows" for i in range(3))
    )


def test_large_data_is_read_in_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterexamples, "_MIN_MERGE", 100_000)
    size, fit = 300_000, 100_000
    numbers = np.arange(size)
    table = pa.table({"k": numbers, "half": numbers // 2, "v": numbers % 10})
    reads = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal reads
        reads += 1
        return iter(table.to_batches(max_chunksize=10_000))

    assert find_counterexamples(DeclaredKey(("k",)), rows, size, fit) is None
    assert reads == 3
    assert find_counterexamples(DeclaredDependency(("k",), ("v",)), rows, size, fit) is None
    assert reads > 5
    reads = 0
    assert find_counterexamples(DeclaredDependency(("v",), ("v",)), rows, size, fit) is None
    assert reads == 1  # few different values, so all fit
    found = find_counterexamples(DeclaredDependency(("half",), ("v",)), rows, size, fit)
    assert found is not None
    assert len(found.rows) == 3


def test_messages_with_unusual_values() -> None:
    texts = pa.array([b"\xff", b"\xff", b"ok"], pa.binary()).view(pa.string())
    days = pa.array([4_000_000, 4_000_000, 1], pa.int32()).cast(pa.date32())
    table = pa.table({"t": texts, "d": days, "long": ["x" * 1000] * 3, "count_all": [1, 1, 1], "h": [1, 1, 2]})
    assert find_counterexamples(DeclaredKey(("t", "d")), _of(table), 3) == Counterexamples(
        ("t = b'\\xff', d = 4000000 in 2 rows",)
    )
    assert find_counterexamples(DeclaredKey(("count_all",)), _of(table), 3) == Counterexamples(
        ("count_all = 1 in 3 rows",)
    )
    found = find_counterexamples(DeclaredDependency(("long",), ("h", "count_all")), _of(table), 3)
    assert found is not None
    assert str(found) == f"long = '{'x' * 36}... with h = 1 and h = 2"


# --- files


class Watched:
    """A session that records how many rows its checks read."""

    def __init__(self, **options: Any) -> None:
        self.rows: list[int] = []
        self.session = Session(step=lambda _, what, done, total: self.rows.append(done), **options)

    def __enter__(self) -> Session:
        return self.session

    def __exit__(self, *_: object) -> None:
        self.session.close()

    @property
    def read(self) -> bool:
        """Whether checks read rows since the last call."""
        found = bool(self.rows)
        self.rows.clear()
        return found


def _write(path: Path, **columns: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def _orders(folder: Path) -> Path:
    return _write(
        folder / "orders.parquet",
        id=list(range(6)),
        City=["Oslo", "Oslo", "Rom", "Rom", None, None],
        region=["N", "N", "S", "S", None, None],
        n=[0, 0, 1, 2, 1, 1],
    )


def _facts(session: Session, query: str = "select * from orders") -> tuple[set[frozenset[str]], set[str]]:
    script = session.pipeline.bind_source(Source("<query>", query), None, is_script=False)
    (scan,) = [node for node in operators(script.outputs[0].plan) if isinstance(node, Scan)]

    def shown(columns: Any) -> str:
        return ",".join(sorted(column.name for column in columns))

    keys = {frozenset(column.name for column in key) for key in scan.keys}
    return keys, {f"{shown(d.determinant)} -> {shown(d.dependent)}" for d in scan.dependencies}


def test_constraints_on_a_table_apply_to_its_queries(tmp_path: Path) -> None:
    _orders(tmp_path)
    watched = Watched(tables=tmp_path)
    with watched as session:
        assert _facts(session) == (set(), set())
        session.declare_key("Orders", "ID")
        session.declare_dependency("orders", ["city"], ["region"])
        session.declare_dependency(tmp_path / "orders.parquet", "region", "City")
        assert watched.read
        assert _facts(session) == ({frozenset({"id"})}, {"City -> region", "region -> City"})
        assert not watched.read
        session.declare_key("orders", "id")  # declared again, listed once
        assert len(_facts(session)[0]) == 1


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda s: s.declare_key("orders", "n", "City"),
            r"KEY \(n, City\) of 'orders' does not hold in '.*orders.parquet': n = 0, City = 'Oslo' in 2 rows; n = 1, City = NULL in 2 rows",
        ),
        (
            lambda s: s.declare_dependency("orders", "City", "n"),
            r"DEPENDS \(City -> n\) of 'orders' does not hold.*: City = 'Rom' with n = 1 and n = 2\n",
        ),
        (
            lambda s: s.declare_dependency("orders", ["region", "City"], ["id", "n"]),
            r"region = 'N', City = 'Oslo' with id = 0 and id = 1; .*'Rom' with id = 2 and id = 3, n = 1 and n = 2; .*region = NULL, City = NULL with id = 4",
        ),
    ],
)
def test_a_contradicted_constraint_is_an_error(tmp_path: Path, declare: Any, message: str) -> None:
    _orders(tmp_path)
    with Session(tables=tmp_path) as session:
        for _ in range(2):  # a failed check is not stored
            with pytest.raises(DeclarationProblem, match=message) as raised:
                declare(session)
            assert raised.value.exit_code == 2
            assert "fix the data" in str(raised.value)
        assert _facts(session) == (set(), set())


@pytest.mark.parametrize(
    ("declare", "kind", "message"),
    [
        (lambda s: s.declare_key("orders"), DeclarationProblem, "a key of 'orders' names no column"),
        (lambda s: s.declare_dependency("orders", [], ["n"]), DeclarationProblem, "names no column"),
        (lambda s: s.declare_dependency("orders", "n", []), DeclarationProblem, "names no column"),
        (lambda s: s.declare_key("orders", "idd"), NameProblem, "'orders' has no column 'idd'\n.*did you mean 'id'"),
        (lambda s: s.declare_key("orders", 7), NameProblem, "has no column 7"),
        (lambda s: s.declare_key("ordes", "id"), NameProblem, "there is no table and no file 'ordes'\n.*'orders'"),
        (lambda s: s.declare_key("", "id"), NameProblem, "there is no table and no file ''"),
        (lambda s: s.declare_key("orders", "id", check="maybe"), DeclarationProblem, "neither 'data' nor 'trust'"),
    ],
)
def test_mistakes_have_one_clear_message(tmp_path: Path, declare: Any, kind: type[UserError], message: str) -> None:
    _orders(tmp_path)
    with Session(tables=tmp_path) as session, pytest.raises(kind, match=message):
        declare(session)


def test_constraints_on_other_formats_are_declared_in_extract(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n")
    with Session() as session, pytest.raises(FileProblem, match=r"not a Parquet file\n.*EXTRACT \.\.\. KEY"):
        session.declare_key(tmp_path / "a.csv", "a")


def test_a_trusted_constraint_is_not_checked(tmp_path: Path) -> None:
    _orders(tmp_path)
    watched = Watched(tables=tmp_path)
    with watched as session:
        session.declare_key("orders", "n", check="trust")
        session.declare_dependency("orders", "n", "id", check="trust")
        assert _facts(session) == ({frozenset({"n"})}, {"n -> id"})
        assert not watched.read
        with pytest.raises(NameProblem):
            session.declare_key("orders", "m", check="trust")
        with pytest.raises(DeclarationProblem):
            session.declare_key("orders", "n")  # a trusted constraint does not count as checked
    with Session(tables=tmp_path) as other:
        assert _facts(other) == (set(), set())


def test_nothing_follows_from_a_trusted_constraint(tmp_path: Path) -> None:
    _orders(tmp_path)
    with Session() as session:
        session.declare_key(tmp_path / "orders.parquet", "n", check="trust")
        session.declare_dependency(tmp_path / "orders.parquet", "region", ["n", "id"], check="trust")
        for clause in ("KEY (n)", "KEY (n, City)", "DEPENDS (region -> n)", "DEPENDS (City, region -> n)"):
            with pytest.raises(DeclarationProblem, match="does not hold"):
                session.pipeline.bind_source(
                    Source("q.scope", _script(tmp_path, clause, "City, region, n")), None, is_script=True
                )


def test_an_empty_table_has_any_key(tmp_path: Path) -> None:
    _write(tmp_path / "orders.parquet", id=pa.array([], pa.int64()), n=pa.array([], pa.string()))
    with Session(tables=tmp_path) as session:
        session.declare_key("orders", "n")
        session.declare_dependency("orders", "n", "id")
        assert _facts(session) == ({frozenset({"n"})}, {"n -> id"})


def test_a_table_of_several_files_is_one(tmp_path: Path) -> None:
    """Also where a file spells a column in another case, lacks it, or stores it in a narrower type."""
    folder = tmp_path / "t.parquet"
    _write(folder / "day=1" / "a.parquet", id=pa.array([1, 2], pa.int64()), x=[1, 2])
    _write(folder / "day=1" / "b.parquet", ID=pa.array([3, 4], pa.int32()))
    _write(folder / "day=2" / "c.parquet", id=pa.array([1, 5], pa.int64()), x=[None, 4])
    with Session(tables=tmp_path) as session:
        session.declare_key("t", "id", "day")
        with pytest.raises(DeclarationProblem, match=r"id = 1 in 2 rows in|id = 1 in 2 rows"):
            session.declare_key("t", "id")
        with pytest.raises(DeclarationProblem, match="x = NULL with day = 1 and day = 2"):
            session.declare_dependency("t", "x", "day")
        # Constraints of all files also hold for some of them.
        script = f'r = EXTRACT id, x FROM "{folder}/day=1" USING Parquet() KEY (id); OUTPUT r TO "o";'
        plan = session.pipeline.bind_source(Source("t.scope", script), None, is_script=True).outputs[0].plan
        assert [{column.name for column in key} for key in plan.keys] == [{"id"}]


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    """A dot does not access a struct field, and a name may be a prefix of another."""
    table = pa.table(
        {"a": [1, 1, 2], "a.b": [1, 2, 3], "größe `in` m": ["x", "ß", "ẞ"], "s": [{"b": 1}, {"b": 1}, {"b": 2}]}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    with Session(tables=tmp_path) as session:
        session.declare_key("t", "a.b")
        session.declare_key("t", "GRÖSSE `in` m".replace("SS", "ß"))
        session.declare_dependency("t", "a.b", "a")
        with pytest.raises(DeclarationProblem, match="a = 1 in 2 rows"):
            session.declare_key("t", "a")
        with pytest.raises(DeclarationProblem, match=r"a = 1 with a\.b = 1 and a\.b = 2"):
            session.declare_dependency("t", "a", "a.b")
        with pytest.raises(NameProblem):
            session.declare_key("t", "s.b")


def test_analyze_reads_columns_whatever_their_case(tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet"
    _write(folder / "a.parquet", id=[1, 2])
    _write(folder / "b.parquet", ID=[2, 3])
    with Session() as session:
        ((_, _, found),) = [(each.path, each.stored_in, each.statistics) for each in session.analyze(folder)]
    assert found.keys == ()
    assert [column.statistics.distinct for column in found.columns] == [3]


# --- stored checks


def test_checks_are_kept_beside_the_data_until_it_changes(tmp_path: Path) -> None:
    path = _orders(tmp_path)
    for expected in (True, False):
        watched = Watched(tables=tmp_path)
        with watched as session:
            session.declare_key("orders", "id", "n")
            assert watched.read is expected
            session.declare_key("orders", "n", "id")  # the same key in another order
            assert not watched.read
            session.declare_dependency("orders", "City", "region")
            assert watched.read is expected
    kept = json.loads((tmp_path / "_orders.parquet.checks.json").read_text())
    assert [{k: v for k, v in each.items() if k in ("key", "from", "to")} for each in kept["checks"]] == [
        {"from": ["City"], "to": ["region"]},
        {"key": ["id", "n"]},
    ]
    watched = Watched(tables=tmp_path)
    with watched as session:
        session.declare_key("orders", "id", "n")
        assert not watched.read
        _write(path, id=[1, 2, 3], n=[1, 1, 1], extra=[1, 2, 3])
        assert _facts(session) == ({frozenset({"id", "n"})}, set())
        assert watched.read
        assert _facts(session)[0]
        assert not watched.read
        _write(path, id=[1, 1, 2, 3], n=[1, 1, 1, 1])
        for _ in range(2):
            with pytest.raises(DeclarationProblem, match="id = 1, n = 1 in 2 rows"):
                _facts(session)


def test_a_discovered_constraint_is_not_checked_again(tmp_path: Path) -> None:
    path = _orders(tmp_path)
    watched = Watched(tables=tmp_path)
    with watched as session:
        session.analyze(path)
        session.declare_key("orders", "id", "n")
        session.declare_dependency("orders", ["City", "n"], ["region"])
        session.declare_dependency("orders", "n", "n")  # holds for any table
        assert not watched.read


def test_a_catalog_folder_keeps_checks_instead(tmp_path: Path) -> None:
    path = _orders(tmp_path / "data")
    for expected in (True, False):
        watched = Watched(catalog=tmp_path / "catalog")
        with watched as session:
            session.declare_key(path, "id")
            assert watched.read is expected
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["orders.parquet"]
    (kept,) = (tmp_path / "catalog").iterdir()
    kept.write_text(kept.read_text()[:-20])
    with (
        Session(catalog=tmp_path / "catalog") as session,
        pytest.raises(FileProblem, match="cannot be used: it is not"),
    ):
        session.declare_key(path, "id")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_the_session_remembers_checks_of_read_only_data(tmp_path: Path) -> None:
    _orders(tmp_path)
    tmp_path.chmod(0o555)
    try:
        _remembered_by_the_session(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_the_session_remembers_checks_that_cannot_be_stored(tmp_path: Path) -> None:
    _orders(tmp_path)
    (tmp_path / "_orders.parquet.checks.json").mkdir()  # blocks the file, even for root
    _remembered_by_the_session(tmp_path)


def _remembered_by_the_session(folder: Path) -> None:
    for _ in range(2):
        watched = Watched(tables=folder)
        with watched as session:
            session.declare_key("orders", "id")
            assert watched.read
            session.declare_key("orders", "id")
            assert not watched.read


# --- scripts


def _script(folder: Path, clause: str, columns: str = "id, City, region, n") -> str:
    return f'c = EXTRACT {columns} FROM "{folder}/orders.parquet" USING Parquet()\n    {clause};\nOUTPUT c TO "{folder}/out.csv";\n'


def _command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unshuffle", *arguments])
    try:
        cli.main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.parametrize("command", [["explain"], ["explain", "--logical"], ["run"], ["compare", "--runs", "1"]])
def test_a_false_declaration_of_a_script_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """Before any Spark is started or anything is written."""
    path = _orders(tmp_path)
    file = tmp_path / "q.scope"
    file.write_text(_script(tmp_path, "KEY (id) DEPENDS (City -> region, region -> n)"))
    assert _command(monkeypatch, *command, str(file)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        f"error: {file}:2:39: DEPENDS (region -> n) of 'c' does not hold in '{path}': region = 'S' with n = 1 and n = 2",
        "  2 |     KEY (id) DEPENDS (City -> region, region -> n);",
        "    |                                       ^^^^^^^^^^^",
        "  fix the data or remove the declaration: a plan that relies on it would return wrong rows",
    ]
    assert not (tmp_path / "out.csv").exists()


def test_a_true_constraint_is_checked_once(tmp_path: Path) -> None:
    _orders(tmp_path)
    file = tmp_path / "q.scope"
    file.write_text(_script(tmp_path, "KEY (id) DEPENDS (City -> region)"))
    for expected in (True, False):
        watched = Watched()
        with watched as session:
            assert "keys (id)" in session.explain(file, logical=True)
            assert watched.read is expected
            session.explain(file)
            assert not watched.read


def test_explain_says_whether_constraints_were_checked(tmp_path: Path) -> None:
    _orders(tmp_path)
    file = tmp_path / "q.scope"
    file.write_text(_script(tmp_path, "KEY (id) DEPENDS (id -> City, n)"))
    watched = Watched()
    with watched as session:
        session.declare_key(tmp_path / "orders.parquet", "n", "id", check="trust")
        shown = session.explain(file)
        assert "Declared: KEY (id) of c, checked on the data." in shown
        assert f"Declared: KEY (n, id) of {tmp_path}/orders.parquet, trusted, not checked." in shown
        assert [each["believed"] for each in json.loads(session.explain(file, format="json"))["declared"]] == [
            "trusted",
            "checked",
            "checked",
        ]
    kept = json.loads((tmp_path / "_orders.parquet.checks.json").read_text())
    assert [each.get("key") for each in kept["checks"]] == [["id"]]  # the dependency follows


def test_other_mistakes_are_reported_before_any_check(tmp_path: Path) -> None:
    _orders(tmp_path)
    text = _script(tmp_path, "KEY (n)") + 'd = SELECT nothing FROM c; OUTPUT d TO "x";'
    watched = Watched()
    with watched as session, pytest.raises(NameProblem, match="unknown column 'nothing'"):
        session.pipeline.bind_source(Source("q.scope", text), None, is_script=True)
    assert not watched.read


def test_binding_reads_no_rows(tmp_path: Path) -> None:
    """Binding collects the constraints of a script and of the session's tables. Checking them is a step of its own."""
    _orders(tmp_path)
    steps: list[int] = []
    declarations = Declarations(on_progress=lambda _, what, done, total: steps.append(done))
    table = bind_table(tmp_path / "orders.parquet", TableFolders(), NoSpark(), None)
    declarations.declare("orders", table, DeclaredKey(("id",)), "data")
    assert steps
    steps.clear()
    source = Source("q.scope", _script(tmp_path, "KEY (n)"))
    _write(tmp_path / "orders.parquet", id=[1, 1], City=["a", "b"], region=["a", "b"], n=[1, 1])
    bound = bind(source, Parameters({}), TableFolders(), NoSpark(), unchecked, declarations=declarations)
    assert [str(each.constraint) for each in bound.constraints] == ["KEY (id)", "KEY (n)"]
    assert not steps
    with pytest.raises(DeclarationProblem, match=r"KEY \(id\) of 'orders' does not hold"):
        declarations.check(bound)
    assert steps


def test_an_injective_cast_needs_no_spark(tmp_path: Path) -> None:
    _orders(tmp_path)
    with Session() as session:
        for clause, holds in (("KEY (id)", True), ("KEY (id, n)", True), ("KEY (n)", False)):
            text = _script(tmp_path, clause, "id:string, n:long")
            if holds:
                session.pipeline.bind_source(Source("q.scope", text), None, is_script=True)
            else:
                with pytest.raises(DeclarationProblem):
                    session.pipeline.bind_source(Source("q.scope", text), None, is_script=True)


def test_constraints_are_checked_as_declared_before_column_pruning(tmp_path: Path) -> None:
    """a -> b and b -> c become a -> c on a scan of a and c, which nobody declared."""
    _write(tmp_path / "t.parquet", a=[1, 2, 3], b=[1, 2, 2], c=[0, 1, 1])
    query = f"EXTRACT a, b, c FROM '{tmp_path}/t.parquet' USING Parquet() DEPENDS (a -> b, b -> c)"
    text = (
        f'r = {query.replace(chr(39), chr(34))}; s = SELECT a, c, count(*) AS n FROM r GROUP BY a, c; OUTPUT s TO "o";'
    )
    file = tmp_path / "q.scope"
    file.write_text(text)
    with Session() as session:
        session.explain(file, why=True)
    kept = json.loads((tmp_path / "_t.parquet.checks.json").read_text())
    assert sorted((each["from"], each["to"]) for each in kept["checks"]) == [(["a"], ["b"]), (["b"], ["c"])]


def test_checks_of_conditions_on_parts_are_stored_as_text(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t" / "0.parquet")
    listed = data_files([str(tmp_path / "t")])
    parts = (PartCondition(f"{tmp_path}/t", "(a > 0)"), PartCondition(f"{tmp_path}/t/0.parquet", "(a = 'é')"))
    place = check_results_path(str(tmp_path / "t"), None)
    assert place == tmp_path / "t" / "_unshuffle" / "_checks.json"
    results = CheckResults(str(tmp_path / "t"), place)
    results.add(CheckResult(DeclaredPartitions(parts, ("a",)), "Parquet", fingerprints(listed, str(tmp_path / "t"))))
    again = CheckResults(str(tmp_path / "t"), place)
    assert again.holds(DeclaredPartitions(parts, ("a",)), "Parquet", listed)
    assert not again.holds(DeclaredPartitions(parts[:1], ("a",)), "Parquet", listed)
    assert data_files([str(tmp_path / "t"), str(tmp_path / "t" / "_unshuffle")]) == listed  # also as `t/*` lists it
