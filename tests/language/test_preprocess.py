"""Directives, parameters and paths."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from unshuffle.errors import FileProblem, NameProblem, Source, SyntaxProblem, TypeProblem, UserError
from unshuffle.language.bind.statements.paths import input_path, substitute
from unshuffle.language.parse.parameters import Parameters, convert
from unshuffle.language.parse.preprocess import preprocess
from unshuffle.language.parse.statements import Text
from unshuffle.plan.expressions import Literal, walk
from unshuffle.plan.logical import Scan, Script, expressions_of

Bind = Callable[..., Script]
TODAY = datetime.date(2024, 3, 1)


def processed(text: str, **given: object) -> list[str]:
    return [" ".join(s.text.split()) for s in preprocess(Source("x.scope", text), Parameters(given, TODAY))]


def literals(script: Script) -> list[object]:
    parts = (part for node in script.operators() for e in expressions_of(node) for part in walk(e))
    return [part.value for part in parts if isinstance(part, Literal)]


def text(value: str) -> Text:
    return Text(value, Source("x", value).span(0, len(value)))


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("@n > 2", "yes"),
        ("@n > 3", "no"),
        ('@mode == "full" && !(@n == 3)', "no"),
        ('@mode == "full" || @n == 7', "yes"),
        ("true", "yes"),
    ],
)
def test_if(condition: str, kept: str) -> None:
    directives = '#DECLARE n int = 3\n#DECLARE mode string = "full"\n'
    assert processed(f"{directives}#IF {condition}\nyes\n#ELSE\nno\n#ENDIF") == [kept]


def test_nested_if_and_directives_in_a_branch_not_taken() -> None:
    source = '#IF false\n#IF true\na\n#ENDIF\n#INCLUDE "missing"\n#DECLARE x nonsense\n#ELSE\nb\n#ENDIF'
    assert processed(source) == ["b"]


def test_directives_in_comments_and_strings_are_text() -> None:
    kept = processed("/*\n#IF nonsense\n*/ '\n#NOPE\n' -- it's\n")
    assert kept == ["/* #IF nonsense */ ' #NOPE ' -- it's"]


def test_positions_survive() -> None:
    source = Source("x.scope", "#DECLARE a int = 1;\n#IF true\n  here\n#ENDIF\n")
    (kept,) = preprocess(source, Parameters({}, TODAY))
    assert len(kept.text) == len(source.text)
    assert kept.text.index("here") == source.text.index("here")


def test_include_is_relative_and_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.scope").write_text('#INCLUDE "c.scope"\nb')
    (tmp_path / "sub/c.scope").write_text("c")
    main = Source(str(tmp_path / "a.scope"), 'a\n#INCLUDE "sub/b.scope"\nd')
    pieces = preprocess(main, Parameters({}, TODAY))
    assert [" ".join(p.text.split()) for p in pieces if p.text.strip()] == ["a", "c", "b", "d"]


def test_a_missing_include_is_reported_with_its_position(tmp_path: Path) -> None:
    main = Source(str(tmp_path / "a.scope"), '\n#INCLUDE "no.scope"')
    with pytest.raises(FileProblem, match="there is no file") as caught:
        preprocess(main, Parameters({}, TODAY))
    assert caught.value.span is not None
    assert caught.value.span.line == 2


def test_a_parameter_may_use_an_earlier_one(bound: Bind) -> None:
    script = bound("#DECLARE a int = 2\n#DECLARE b int = @a * 3 + 1\nselect @b as b, @a as a")
    assert literals(script) == [7, 2]


@pytest.mark.parametrize(
    ("value", "type", "converted"),
    [
        ("7", pa.int32(), 7),
        (7, pa.int64(), 7),
        ("-1.5", pa.float64(), -1.5),
        ("1.50", pa.decimal128(10, 2), Decimal("1.50")),
        ("TRUE", pa.bool_(), True),
        ("2024-02-29", pa.date32(), datetime.date(2024, 2, 29)),
        ("2024-02-29 10:00:00", pa.timestamp("us"), datetime.datetime(2024, 2, 29, 10)),
        ("it's; DROP", pa.string(), "it's; DROP"),
        (None, pa.int32(), None),
    ],
)
def test_values_are_typed(value: object, type: pa.DataType, converted: object) -> None:
    assert convert(value, type, "x") == converted


@pytest.mark.parametrize(
    ("value", "type"),
    [("x", pa.int32()), (2**31, pa.int32()), (True, pa.int32()), (1, pa.string()), ("2023-02-29", pa.date32()), ("1", pa.list_(pa.int32())), ("no", pa.bool_()), (datetime.datetime(2024, 1, 1), pa.date32())],
)  # fmt: skip
def test_values_of_another_type_are_rejected(value: object, type: pa.DataType) -> None:
    with pytest.raises(TypeProblem):
        convert(value, type, "x")


def test_unknown_and_unused_parameters(bound: Bind) -> None:
    with pytest.raises(NameProblem, match="declares no parameter 'dayz'") as caught:
        bound("#DECLARE days int = 1\nselect @days as d", dayz=2)
    assert "did you mean 'days'" in str(caught.value)
    with pytest.raises(NameProblem, match="declared twice"):
        bound("#DECLARE a int = 1\n#DECLARE A int = 1\nselect 1 as x")


def test_paths_take_parameters() -> None:
    parameters = Parameters({"today": "2024-05-06"})
    assert substitute(text("logs/@Today/x@@y"), parameters) == "logs/2024-05-06/x@y"
    with pytest.raises(NameProblem, match="unknown parameter @nope"):
        substitute(text("@nope/x"), parameters)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for day in ("2024-02-27", "2024-02-28", "2024-03-01"):
        folder = tmp_path / f"log/Date={day}"
        folder.mkdir(parents=True)
        (folder / "part.csv").write_text("1\n")
    (tmp_path / "a1.csv").write_text("1\n")
    (tmp_path / "a2.csv").write_text("1\n")
    (tmp_path / "b1.csv").write_text("1\n")
    return tmp_path


@pytest.mark.parametrize(
    ("days", "found"),
    [
        ("(Today-2)..Today", ["2024-02-28", "2024-03-01"]),
        ("(Today - 3)..(Today-1)", ["2024-02-27", "2024-02-28"]),
        ("2024-02-28..2024-02-28", ["2024-02-28"]),
        ("2024-02-28..(2024-02-28+5)", ["2024-02-28", "2024-03-01"]),
    ],
)
def test_date_ranges(log: Path, days: str, found: list[str]) -> None:
    where = input_path(text(f"{log}/log?Date={days}"), Parameters({}, TODAY))
    assert [path.rsplit("=", 1)[1] for path in where.paths] == found
    assert where.base == f"{log}/log"


@pytest.mark.parametrize(
    "days", ["Today..(Today-1)", "yesterday..Today", "2024-02-30..Today", "2020-01-01..2020-01-02"]
)
def test_bad_date_ranges(log: Path, days: str) -> None:
    with pytest.raises(UserError) as caught:
        input_path(text(f"{log}/log?Date={days}"), Parameters({}, TODAY))
    assert isinstance(caught.value, FileProblem | SyntaxProblem | NameProblem)


def test_wildcards(log: Path) -> None:
    def found(pattern: str) -> list[str]:
        return [Path(p).name for p in input_path(text(f"{log}/{pattern}"), Parameters({}, TODAY)).paths]

    assert found("a*.csv") == ["a1.csv", "a2.csv"]
    assert found("{a,b}1.csv") == ["a1.csv", "b1.csv"]
    assert found("a[2].csv") == ["a2.csv"]
    assert found("log/Date=2024-02-*") == ["Date=2024-02-27", "Date=2024-02-28"]


def test_csv_columns_are_strings_unless_declared(bound: Bind, log: Path) -> None:
    script = bound(
        f'x = EXTRACT a, b:int FROM "{log}/a*.csv" USING Csv(header = false); OUTPUT x TO "y";', is_script=True
    )
    scan = script.outputs[0].plan
    assert isinstance(scan, Scan)
    assert [str(c.type) for c in scan.columns] == ["string", "int32"]
