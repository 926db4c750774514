"""What users get wrong: one message with the place underlined, exit code 2, nothing on standard output, nothing written.

The expected place is marked in each script with « and ».
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle import cli

CASES = {
    "unknown column": (
        'r = SELECT «custmer» FROM orders; OUTPUT r TO "@out";',
        "unknown column 'custmer'",
        "did you mean 'customer'?",
    ),
    "unknown column of an alias": (
        'r = SELECT «o.nme» FROM orders AS o; OUTPUT r TO "@out";',
        "unknown column 'o.nme'",
        "did you mean 'o.note'",
    ),
    "ambiguous column": (
        'r = SELECT «note» FROM orders AS a JOIN orders AS b ON a.o_id == b.o_id; OUTPUT r TO "@out";',
        "the column name 'note' is ambiguous",
        "say which: a.note or b.note",
    ),
    "unknown rowset": (
        'r = SELECT * FROM «ordrs»; OUTPUT r TO "@out";',
        "unknown rowset 'ordrs'",
        "did you mean 'orders'?",
    ),
    "rowset defined twice": (
        'r = SELECT * FROM orders;\n«r» = SELECT 1 AS a; OUTPUT r TO "@out";',
        "the rowset 'r' is defined twice",
        "first defined at ",
    ),
    "union of different widths": (
        'r = SELECT o_id, note FROM orders UNION ALL SELECT «o_id» FROM «orders»; OUTPUT r TO "@out";',
        "UNION needs rowsets with the same number of columns, but these have 2 and 1",
        "one has: o_id, note; the other: o_id",
    ),
    "union of types that do not match": (
        'r = SELECT o_id FROM orders UNION ALL SELECT «tags» FROM «wide»; OUTPUT r TO "@out";',
        "UNION: the columns 'o_id' (bigint) and 'tags' (array<string>) do not match",
        "cast one of them",
    ),
    "unknown function": (
        'r = SELECT «substrng»(note, 1, 2) AS s FROM orders; OUTPUT r TO "@out";',
        "unknown function 'substrng'",
        "did you mean substring",
    ),
    "wrong number of arguments": (
        'r = SELECT «substring»(note) AS s FROM orders; OUTPUT r TO "@out";',
        "substring takes",
        "but 1 are given",
    ),
    "bad type name": (
        'r = EXTRACT line:«strng» FROM "@lines" USING Text(); OUTPUT r TO "@out";',
        "strng",
        "string",
    ),
    "bad type in a cast": (
        'r = SELECT CAST(note AS «intt») AS n FROM orders; OUTPUT r TO "@out";',
        "intt",
        "int",
    ),
    "missing input path": (
        'r = EXTRACT a:int FROM «"/nowhere/at/all"» USING Csv(); OUTPUT r TO "@out";',
        "there is no file or folder '/nowhere/at/all'",
        "",
    ),
    "date range without data": (
        'r = EXTRACT a:int FROM «"/nowhere?Date=(Today-3)..Today"» USING Parquet(); OUTPUT r TO "@out";',
        "has data under '/nowhere'",
        "expected folders such as /nowhere/Date=",
    ),
    "not Parquet": (
        'r = EXTRACT a:int FROM «"@lines"» USING Parquet(); OUTPUT r TO "@out";',
        "is not a Parquet file",
        "use e.g. Csv()",
    ),
    "column that the files do not have": (
        'r = EXTRACT «o_idd»:long FROM "@orders" USING Parquet(); OUTPUT r TO "@out";',
        "the files have no column 'o_idd'",
        "did you mean 'o_id'?",
    ),
    "parameter without a value": (
        '#DECLARE «days» int;\nr = SELECT @days AS d; OUTPUT r TO "@out";',
        "the parameter 'days' has no value",
        "--param days=VALUE",
    ),
    "undeclared parameter": (
        'r = SELECT @«dayz» AS d; OUTPUT r TO "@out";',
        "unknown parameter @dayz",
        "declare it",
    ),
    "parameter of another type": (
        '#DECLARE «days» int = "many";\nr = SELECT @days AS d; OUTPUT r TO "@out";',
        "should be of type int",
        "",
    ),
    "class of an unknown module": (
        'r = PROCESS orders PRODUCE a:int USING «no_such_module.Thing()»; OUTPUT r TO "@out";',
        "no_such_module",
        "",
    ),
    "unknown built-in extractor": (
        'r = EXTRACT a:int FROM "@lines" USING «Cvs()»; OUTPUT r TO "@out";',
        "there is no built-in extractor 'Cvs'",
        "did you mean 'Csv'?",
    ),
    "unknown option": (
        'r = EXTRACT a:int FROM "@lines" USING «Csv(delimeter = ",")»; OUTPUT r TO "@out";',
        "no option 'delimeter'",
        "did you mean 'delimiter'?",
    ),
    "output onto an existing path": (
        'r = SELECT * FROM orders; OUTPUT r TO «"@existing"»;',
        "exists already",
        "add OVERWRITE to replace it",
    ),
    "output onto an input": (
        'r = EXTRACT o_id FROM "@orders" USING Parquet(); OUTPUT r TO «"@orders"» OVERWRITE;',
        "the script reads",
        "not even OVERWRITE allows this",
    ),
    "output into a folder that is read": (
        'r = SELECT * FROM orders; OUTPUT r TO «"@orders/inside"» OVERWRITE;',
        "the script reads",
        "",
    ),
    "two outputs onto one path": (
        'r = SELECT * FROM orders; OUTPUT r TO "@out"; OUTPUT r TO «"@out"»;',
        "two OUTPUTs write to",
        "",
    ),
    "column neither grouped nor aggregated": (
        'r = SELECT «note», count(*) AS n FROM orders GROUP BY customer; OUTPUT r TO "@out";',
        "the column 'note' is neither grouped by nor aggregated",
        "any_value",
    ),
    "aggregate in WHERE": (
        'r = SELECT note FROM orders WHERE «sum(amount) > 1»; OUTPUT r TO "@out";',
        "an aggregate is not allowed in WHERE",
        "use HAVING",
    ),
    "WHERE without a condition": (
        'r = SELECT note FROM orders WHERE «amount»; OUTPUT r TO "@out";',
        "WHERE needs a condition, but this is of type decimal(10,2)",
        "",
    ),
    "unknown field of a struct": (
        'r = SELECT «place.town» AS t FROM wide; OUTPUT r TO "@out";',
        "unknown field 'town'",
        "its fields are: city, zip",
    ),
    "syntax": ('r = SELECT note FROM orders WHRE «note»; OUTPUT r TO "@out";', "unexpected 'note' here", ""),
    "statement that is none": ('«EXTRAC» a FROM "x";', "a statement cannot begin with 'EXTRAC'", "statements are"),
    "a word of sqlglot's scripts": ('r = SELECT 1 AS a; «ELSE» r; OUTPUT r TO "@out";', "not a statement", ""),
    "unclosed string": ('r = SELECT "abc FROM orders; OUTPUT r TO 1«;»', "is not closed", ""),
    "unclosed #IF": ('«#IF» true\nr = SELECT 1 AS a; OUTPUT r TO "@out";', "this #IF has no #ENDIF", ""),
    "unknown directive": ('«#DECALRE» x int = 1;\n', "unknown directive #DECALRE", "did you mean 'DECLARE'?"),
    "position out of range": (
        'r = SELECT note FROM orders ORDER BY 2; OUTPUT r TO "@out";',
        "position 2 is not in the SELECT list",
        "",
    ),
    "read-only column of another type": (
        'r = PROCESS orders PRODUCE o_id:string READONLY «o_id» USING ops.Same(); OUTPUT r TO "@out";',
        "READONLY 'o_id' is bigint in the input, but PRODUCE says string",
        "",
    ),
    "no stream": ('r = SELECT * FROM SSTREAM «"x.ss"»; OUTPUT r TO "@out";', "'x.ss' is not a structured stream", "no manifest"),
    "a stream clustered by nothing": (
        'r = SELECT 1 AS a; OUTPUT r TO SSTREAM "@out";',
        "needs CLUSTERED BY or REFERENCE",
        "e.g. HASH CLUSTERED BY",
    ),
    "a stream clustered by a map": (
        'r = SELECT map(1, 2) AS m; OUTPUT r TO SSTREAM «"@out"» CLUSTERED BY m;',
        "a stream cannot be clustered by 'm' of type map<int,int>",
        "",
    ),
    "a stream into nothing": ('r = SELECT 1 AS a; OUTPUT r TO SSTREAM "@out" CLUSTERED BY a INTO «0»;', "INTO", ""),
    "no stream to refer to": (
        'r = SELECT 1 AS a; OUTPUT r TO SSTREAM «"@out"» CLUSTERED BY a REFERENCE "x.ss";',
        "'x.ss' is not a structured stream",
        "",
    ),
    "two columns of one name": (
        'r = SELECT note, note FROM orders; OUTPUT «r» TO "@out";',
        "two columns to write are called 'note'",
        "",
    ),
}  # fmt: skip

OPERATORS = """
from unshuffle.operators import Processor
class Same(Processor):
    def process_row(self, row):
        yield row
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with tables, a text file, an existing output, and a module of user code."""
    tables = tmp_path / "tables"
    tables.mkdir()
    orders = {"o_id": [1], "customer": [1], "amount": pa.array([1], pa.decimal128(10, 2)), "note": ["a"]}
    pq.write_table(pa.table(orders), tables / "orders.parquet")
    pq.write_table(pa.table({"tags": [["x"]], "place": [{"city": "Oslo", "zip": 1}]}), tables / "wide.parquet")
    (tmp_path / "lines.txt").write_text("not,parquet\n")
    (tmp_path / "existing").mkdir()
    (tmp_path / "ops.py").write_text(OPERATORS)
    return tmp_path


def run_cli(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["unshuffle", *arguments])
    with pytest.raises(SystemExit) as exit:
        cli.main()
    return int(exit.value.code or 0)


# An existing output matters only to the command that writes.
ONLY_RUN = "output onto an existing path"


@pytest.mark.parametrize(
    ("case", "command"),
    [
        (case, command)
        for case in CASES
        for command in ("run", "explain", "compare")
        if case != ONLY_RUN or command == "run"
    ],
)
def test_bad_input(
    case: str,
    command: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text, message, hint = CASES[case]
    for name in ("out", "existing", "lines", "orders"):
        path = {"lines": "lines.txt", "orders": "tables/orders.parquet"}.get(name, name)
        text = text.replace(f"@{name}", str(place / path))
    script = place / "script.scope"
    script.write_text(text.replace("«", "").replace("»", ""))
    before = sorted(str(p) for p in place.rglob("*"))
    code = run_cli(monkeypatch, command, str(script), "--tables", str(place / "tables"))
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert message in printed.err
    assert hint in printed.err
    assert "Traceback" not in printed.err
    assert "java" not in printed.err.lower()
    if "«" in text:
        start, end = text.index("«"), text.rindex("»")
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1) + 1
        width = end - start - 1 - text[start + 1 : end].count("«") - text[start + 1 : end].count("»")
        assert f"{script}:{line}:{column}:" in printed.err
        shown = printed.err.splitlines()
        marks = next(one for one in shown if one.strip().startswith("|") and "^" in one)
        assert marks.split("|", 1)[1] == " " * column + "^" * width
    assert sorted(str(p) for p in place.rglob("*")) == before


def test_a_script_that_outputs_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = place / "script.scope"
    script.write_text("r = SELECT 1 AS a;")
    assert run_cli(monkeypatch, "run", str(script)) == 2
    assert "outputs nothing" in capsys.readouterr().err


def test_an_include_cycle_names_the_files(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a.scope").write_text('#INCLUDE "b.scope"\nOUTPUT r TO "x";')
    (place / "b.scope").write_text('\n#INCLUDE "a.scope"\n')
    assert run_cli(monkeypatch, "run", str(place / "a.scope")) == 2
    printed = capsys.readouterr().err
    assert f"{place / 'b.scope'}:2:11:" in printed
    assert "a.scope -> b.scope -> a.scope" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.scope"], "there is no file"),
        (["run", "script.scope", "--report", "/nowhere/x.html"], "the report cannot be written"),
        (["run", "script.scope", "--master", "bogus"], "'bogus' is no Spark master"),
        (["run", "script.py"], "neither a .scope script nor a .sql file"),
        (["explain", "script.scope", "--param", "days"], "not NAME=VALUE"),
        (["explain", "script.scope", "--param", "dys=3"], "declares no parameter 'dys'"),
        (["explain", "script.scope", "--param", "days=x"], "should be of type int"),
        (["explain", "script.scope", "--tables", "/nowhere"], "there is no folder '/nowhere'"),
        (["explain", "empty.sql"], "holds no query"),
        (["explain", "binary.sql"], "not a text file"),
        (["explain", "tables"], "neither a .scope script"),
    ],
)
def test_bad_arguments(
    arguments: list[str],
    message: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (place / "script.scope").write_text("#DECLARE days int = 1;\nr = SELECT 1 AS a; OUTPUT r TO 'x';")
    (place / "empty.sql").write_text("-- nothing\n")
    (place / "binary.sql").write_bytes(b"\xff\xfe\x00")
    monkeypatch.chdir(place)
    assert run_cli(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
