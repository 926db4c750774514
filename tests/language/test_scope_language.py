"""What SCOPE has and SQL has not: conditional values, members, functions and classes of modules, operators in FROM, views
with parameters, outputs of the last rowset. Each is bound without a JVM, and wrong uses are told with their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle import Session, UserError
from unshuffle.plan.logical import FileTarget, Foreign, Project, Script, walk
from unshuffle.plan.sql import to_sql

MINE = """
from unshuffle import Aggregator, Combiner, Extractor, Processor, Reducer, UserType, function

def twice(x: int) -> int | None:
    return x and 2 * x

@function("decimal(9,2)", deterministic=True)
def price(x, y=1):
    return x

def untyped(x):
    return x

@function("nothing")
def odd(x):
    return x

NUMBER = 7

class Middle(Aggregator):
    returns = "double"
    def aggregate(self, values):
        return 0.0

class Point(UserType):
    stored = "struct<x: double, y: double>"

class Odd(UserType):
    stored = "int"

class Untyped(Aggregator):
    def accumulate(self, state, a, b):
        return a

class Words(Processor):
    def produces(self):
        return {"Word": "string", "n": "int"}
    def process_row(self, row):
        yield {"Word": "x", "n": 1}

class Silent(Processor):
    def process_row(self, row):
        yield {}

class Groups(Reducer):
    def reduce_rows(self, key, rows):
        yield key

class Together(Combiner):
    def combine_rows(self, key, *inputs):
        yield key

class Lines(Extractor):
    def __init__(self, kind="a"):
        self.kind = kind
    def produces(self):
        return {"at": "timestamp", "line": "string"}
    def extract_rows(self, file, path):
        yield {"at": None, "line": "x"}
"""

Bind = Callable[[str], Script]


@pytest.fixture
def bind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bind:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "other.py").write_text(MINE)
    table = {
        "a": pa.array([1, None], pa.int64()),
        "b": pa.array([1, 2], pa.int32()),
        "s": ["x", None],
        "d": pa.array([0, None], pa.date32()),
        "ts": pa.array([0, None], pa.timestamp("us", "UTC")),
        "n": pa.array([0, None], pa.timestamp("us")),
        "p": [{"Length": 1, "city": "x"}, None],
    }
    pq.write_table(pa.table(table), "t.parquet")
    (tmp_path / "lines.txt").write_text("x\n")

    def bound(text: str) -> Script:
        (tmp_path / "script.scope").write_text(text)
        return Session(tables=tmp_path).pipeline.bind_file(tmp_path / "script.scope")

    return bound


def expression(bind: Bind, text: str) -> tuple[str, str]:
    """The SQL text of an expression, and its type."""
    plan = bind(f'r = SELECT {text} AS x FROM t ; OUTPUT r TO "o";').outputs[0].plan
    assert isinstance(plan, Project)
    ((column, bound),) = plan.outputs
    return to_sql(bound, lambda column: column.name), str(column.type)


def problem(bind: Bind, text: str) -> tuple[str, str | None, str | None]:
    """The message of the error, the text that it points to, and its hint."""
    with pytest.raises(UserError) as error:
        bind(text)
    return error.value.message, error.value.span.text if error.value.span else None, error.value.hint


# ---------------------------------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "meaning", "type"),
    [
        ("a > 1 ? 'x' : 'y'", "CASE WHEN (a > 1) THEN 'x' ELSE 'y' END", "string"),
        ("a > 1 ? 1 : a > 0 ? 2 : 3", "CASE WHEN (a > 1) THEN 1 ELSE CASE WHEN (a > 0) THEN 2 ELSE 3 END END", "int32"),
        ("a > 1 || b > 1 ? 1 : 2L", "CASE WHEN ((a > 1) OR (b > 1)) THEN 1 ELSE CAST(2 AS bigint) END", "int64"),
        ("(a > 1 ? 1 : 2) + 1", "(CASE WHEN (a > 1) THEN 1 ELSE 2 END + 1)", "int32"),
        ("a ?? b", "coalesce(a, b)", "int64"),
        ("a ?? b ?? 0", "coalesce(a, coalesce(b, 0))", "int64"),
        ("a ?? b + 1", "coalesce(a, (b + 1))", "int64"),
        ("a == 1 ?? true", "coalesce((a = 1), TRUE)", "bool"),
        ("s ?? 'x' == 'y' ? 1 : 2", "CASE WHEN coalesce(s, ('x' = 'y')) THEN 1 ELSE 2 END", "int32"),
        ("abs(a > 0 ? a : 0)", "abs(CASE WHEN (a > 0) THEN a ELSE 0 END)", "int64"),
        ("array(1, 2)[a > 0 ? 0 : 1]", "array(1, 2)[CASE WHEN (a > 0) THEN 0 ELSE 1 END]", "int32"),
        ("CAST(s AS int?)", "CAST(s AS int)", "int32"),
        ("s.Length", "length(s)", "int32"),
        ("t.s.Length", "length(s)", "int32"),
        ("p.Length", "p.`Length`", "int64"),
        ("p.city.Length", "length(p.`city`)", "int32"),
        ("'abc'.Length", "length('abc')", "int32"),
        ("(s || 'x').ToUpper().Substring(1)", "substring(upper((s || 'x')), 2)", "string"),
        ("(t.s || s).ToUpper()", "upper((s || s))", "string"),
        ("(SELECT max(y.s) FROM t AS y WHERE y.a == t.a).ToUpper()", "upper((SELECT ...))", "string"),
        ("s.Substring(0, 3)", "substring(s, 1, 3)", "string"),
        ("s.Substring(b)", "substring(s, (b + 1))", "string"),
        ("t.s.IndexOf('x')", "(instr(s, 'x') - 1)", "int32"),
        ("s.StartsWith('x') && !s.Contains('y')", "(startswith(s, 'x') AND (NOT contains(s, 'y')))", "bool"),
        ("string.IsNullOrEmpty(s)", "((s IS NULL) OR (s = ''))", "bool"),
        ("t.d.AddDays(3)", "date_add(d, 3)", "date32[day]"),
        ("t.d.AddYears(b).Year", "extract(YEAR FROM add_months(d, (b * 12)))", "int32"),
        ("n.AddHours(b)", "timestampadd(HOUR, b, n)", "timestamp[us]"),
        ("n.Date", "CAST(n AS date)", "date32[day]"),
        ("n.DayOfWeek", "(dayofweek(n) - 1)", "int32"),
        ("n.ToString('yyyy')", "date_format(n, 'yyyy')", "string"),
        ("a.HasValue ? a.Value : 0", "CASE WHEN (a IS NOT NULL) THEN a ELSE 0 END", "int64"),
        ("mine.twice(a)", "mine.twice(a)", "int64"),
        ("mine.price(a, b)", "mine.price(a, b)", "decimal128(9, 2)"),
    ],
)
def test_expressions(bind: Bind, text: str, meaning: str, type: str) -> None:
    assert expression(bind, text) == (meaning, type)


def test_a_filter_of_a_qualified_aggregate(bind: Bind) -> None:
    plan = bind('r = SELECT mine.Middle(a) FILTER (WHERE b > 1) AS x FROM t; OUTPUT r TO "o";').outputs[0].plan
    assert "where=Call(function='>'" in str(plan)
    plan = bind('r = SELECT mine.Middle(a) OVER (PARTITION BY b) AS x FROM t; OUTPUT r TO "o";').outputs[0].plan
    assert any(type(node).__name__ == "Window" for node in walk(plan))


def test_the_length_of_an_interval(bind: Bind) -> None:
    text, type = expression(bind, "(n - n.AddDays(1)).TotalMilliseconds")
    assert type == "double"
    assert text.count("extract(") == 4
    assert text.endswith("/ 1000.0D)")


def test_a_column_hides_a_parameter_of_a_lambda_hides_a_member(bind: Bind) -> None:
    assert expression(bind, "transform(array(s), x -> x.Length)")[0] == "transform(array(s), `x` -> length(`x`))"


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("a ? 1 : 2", "WHEN needs a condition, but this is of type bigint", "a"),
        ("a > 1 ? 2", "':' is missing: write condition ? value : value", "AS"),
        ("a ??", "a value is missing after '??'", "AS"),
        (
            "(a - b).TotalMilliseconds",
            "TotalMilliseconds is a member of a time interval, but this is of type bigint",
            None,
        ),
        ("a.Length", "Length is a member of a string, but this is of type bigint", "a.Length"),
        ("s.Lenght", "a value of type string has no field or member 'Lenght'", "s.Lenght"),
        ("s.ToUpper(1)", "ToUpper takes 0 argument(s), but 1 are given", "s.ToUpper(1"),
        ("n.AddDays(1.5)", "AddDays takes whole numbers, but this is of type decimal(2,1)", "n.AddDays(1.5"),
        ("(n.AddDays(b) - now()).TotalDays.Length", "Length is a member of a string, but this is of type double", None),
        ("q.ToUpper()", "there is no column and no module 'q'", "q.ToUpper"),
        ("mien.twice(a)", "there is no column and no module 'mien'", "mien.twice(a"),
        ("mine.nope(a)", "the module 'mine' has no function 'nope'", "mine.nope(a"),
        ("mine.twice(a, b)", "mine.twice cannot be called so: too many positional arguments", None),
        ("mine.twice()", "mine.twice needs at least one argument", None),
        ("mine.twice(DISTINCT a)", "DISTINCT has no meaning in mine.twice", None),
        ("mine.untyped(a)", "mine.untyped does not say the type of its result", None),
        ("mine.odd(a)", "mine.odd returns an unknown type: not a type name: 'nothing'", None),
        ("mine.Untyped(a, b)", "mine.Untyped does not say the type of its result", None),
        ("mine.Words(a)", "mine.Words is a Processor, which cannot be called in a query", None),
        ("mine.NUMBER(a)", "mine.NUMBER is not a function", None),
        ("mine.Middle(a, b)", "mine.Middle cannot be called so: too many positional arguments", None),
        ("mine.Middle(mine.Middle(a))", "mine.Middle cannot take another aggregate as its argument", None),
        ("twice(a)", "unknown function 'twice'", "twice"),
    ],
)
def test_wrong_expressions(bind: Bind, text: str, message: str, where: str | None) -> None:
    told, place, _ = problem(bind, f'r = SELECT {text} AS x FROM t; OUTPUT r TO "o";')
    assert told.startswith(message)
    assert place is not None
    assert where is None or place.startswith(where)


def test_an_unknown_method_of_a_long_names_the_remedy(bind: Bind) -> None:
    _, _, hint = problem(bind, 'r = SELECT (a - b).TotalMilliseconds AS x FROM t; OUTPUT r TO "o";')
    assert hint == "the difference of two timestamps is one; the difference of two numbers is a number already"


def test_a_query_that_joins_on_a_function_that_may_change(bind: Bind) -> None:
    told, place, _ = problem(bind, 'r = SELECT x.a FROM t AS x JOIN t AS y ON mine.twice(x.a) == y.a; OUTPUT r TO "o";')
    assert told == "a function that is not declared deterministic cannot stand in ON"
    assert place == "mine.twice(x.a) == y.a"


# ----------------------------------------------------------------------------------------------------------- modules


def test_names_without_a_module(bind: Bind, tmp_path: Path) -> None:
    text = 'r = SELECT Middle(a) AS m, SUM(twice(b)) AS s FROM t GROUP BY s; OUTPUT r TO "o";'
    assert bind('#REFERENCE "mine.py"\n' + text).outputs
    (tmp_path / "script.py").write_text(MINE)
    assert bind(text).outputs
    assert bind('w = PROCESS t USING Words(); e = EXTRACT line FROM "lines.txt" USING Lines("b"); OUTPUT w TO "o";')
    told, place, hint = problem(bind, '#REFERENCE "mine.py"\n#REFERENCE "other.py"\n' + text)
    assert (told, place, hint) == ("'Middle' is defined in mine and other", "Middle", "write mine.Middle")


@pytest.mark.parametrize(
    ("directive", "message", "where"),
    [
        ('#REFERENCE "nope.py"', "there is no file", "nope.py"),
        ('#REFERENCE "lines.txt"', "'lines.txt' is not a Python module", "lines.txt"),
        ("#REFERENCE mine", "this #REFERENCE is not valid", "#REFERENCE mine"),
    ],
)
def test_wrong_references(bind: Bind, directive: str, message: str, where: str) -> None:
    told, place, _ = problem(bind, f'{directive}\nOUTPUT t TO "o";')
    assert told.startswith(message)
    assert place == where


def test_an_unknown_class(bind: Bind) -> None:
    told, place, _ = problem(bind, 'w = PROCESS t PRODUCE a USING Nope(); OUTPUT w TO "o";')
    assert (told, place) == ("there is no class 'Nope' in the script's modules", "Nope()")
    told, place, _ = problem(bind, 'w = EXTRACT a FROM "lines.txt" USING Nope(); OUTPUT w TO "o";')
    assert (told, place) == ("there is no built-in extractor 'Nope', and no class of that name", "Nope()")


def test_columns_that_a_class_says_it_makes(bind: Bind) -> None:
    def columns(text: str) -> list[tuple[str, str]]:
        plan = bind(f'r = {text}; OUTPUT r TO "o";').outputs[0].plan
        return [(column.name, str(column.type)) for column in plan.columns]

    assert columns("PROCESS t USING mine.Words()") == [("Word", "string"), ("n", "int32")]
    assert columns("PROCESS t PRODUCE n, word:binary USING mine.Words()") == [("n", "int32"), ("word", "binary")]
    assert columns('EXTRACT line, at FROM "lines.txt" USING mine.Lines()') == [
        ("line", "string"),
        ("at", "timestamp[us, tz=UTC]"),
    ]
    told, place, _ = problem(bind, 'r = PROCESS t USING mine.Silent(); OUTPUT r TO "o";')
    assert (told, place) == ("PRODUCE with the columns that mine.Silent makes is missing", "mine.Silent()")


# ------------------------------------------------------------------------------------------------- EXTRACT and OUTPUT


@pytest.mark.parametrize(
    ("file", "content", "format"),
    [
        ("x.csv", b"1,2\n", "Csv"),
        ("x.csv.gz", b"1,2\n", "Csv"),
        ("x.tsv", b"1\n", "Tsv"),
        ("x.json", b"", "Json"),
        ("x.dat", b' \n{"a": 1}\n', "Json"),
        ("x.dat", b"PAR1", "Parquet"),
        ("x.dat", b"1,2\n", None),
        ("x.dat", b"", None),
    ],
)
def test_the_format_of_an_extract_without_using(tmp_path: Path, file: str, content: bytes, format: str | None) -> None:
    from unshuffle.catalog.files import data_files
    from unshuffle.language.bind.statements.formats import of_files

    (tmp_path / file).write_bytes(content)
    assert of_files(data_files([str(tmp_path / file)])) == format


def test_an_extract_without_using(bind: Bind, tmp_path: Path) -> None:
    assert bind('r = EXTRACT a, s FROM "t.parquet"; OUTPUT r TO "o";').outputs[0].plan.columns[0].type == pa.int64()
    (tmp_path / "odd.dat").write_text("1|2\n")
    told, place, hint = problem(bind, 'r = EXTRACT a FROM "odd.dat"; OUTPUT r TO "o";')
    assert (told, place) == ("the format of 'odd.dat' is not known", '"odd.dat"')
    assert hint == "write USING with one of Csv, Tsv, Text, Json, Parquet, or with a class of yours"


def test_an_output_of_the_last_rowset(bind: Bind) -> None:
    script = bind(
        'SELECT a FROM t; OUTPUT TO "one"; OUTPUT TO SSTREAM "two.ss" CLUSTERED BY a; x = SELECT s FROM t; OUTPUT TO "three";'
        "SELECT b FROM t;"
    )
    assert [[column.name for column in output.plan.columns] for output in script.outputs] == [
        ["a"],
        ["a"],
        ["s"],
        ["b"],
    ]
    assert isinstance(script.outputs[0].target, FileTarget)
    assert script.outputs[-1].target is None
    told, place, _ = problem(bind, 'OUTPUT TO "one";')
    assert (told, place) == ("there is no rowset before this OUTPUT", 'OUTPUT TO "one"')


# ------------------------------------------------------------------------------------- operators in FROM, and views


def test_operators_in_from(bind: Bind) -> None:
    script = bind(
        "r = SELECT w.Word, COUNT(*) AS n FROM (PROCESS (SELECT * FROM t) USING mine.Words()) AS w"
        ' JOIN (EXTRACT line FROM "lines.txt" USING Text()) ON w.Word == line'
        " GROUP BY w.Word;"
        'OUTPUT (REDUCE (PROCESS r USING mine.Words()) ON Word PRODUCE Word USING mine.Groups()) TO "o";'
    )
    names = [type(node).__name__ for node in walk(script.outputs[0].plan)]
    assert names.count("Process") == 2
    assert names.count("Reduce") == names.count("Join") == 1
    assert not any(isinstance(node, Foreign) for node in walk(script.outputs[0].plan))
    told, place, _ = problem(bind, 'r = SELECT * FROM (PROCESS t USING mine.Words() WHERE x); OUTPUT r TO "o";')
    assert (told, place) == ("unexpected 'WHERE' in PROCESS", "WHERE")
    told, place, _ = problem(bind, 'r = SELECT q FROM (PROCESS t USING mine.Words()) AS w; OUTPUT r TO "o";')
    assert (told, place) == ("unknown column 'q'", "q")


def test_a_view_with_parameters(bind: Bind) -> None:
    view = 'VIEW top(least int, city string = "Oslo") AS SELECT s, @city AS city FROM t WHERE a > @least; #X\n'
    view = view.replace("#X\n", "\n")
    text = view + 'r = SELECT * FROM top(3) UNION ALL SELECT * FROM top(city = @city, least = 4) AS x; OUTPUT r TO "o";'
    shown = str(bind('#DECLARE city string = "Rome";\n' + text))
    assert "Literal(value=3," in shown
    assert "'Oslo'" in shown
    assert "'Rome'" in shown
    process = 'VIEW words(n int) AS PROCESS t USING mine.Lines(@n); OUTPUT words(1) TO "o";'
    assert "mine.Lines is not a Processor" in problem(bind, process)[0]


@pytest.mark.parametrize(
    ("use", "message", "where"),
    [
        ("top()", "the parameter 'least' of the view 'top' has no value", "top"),
        ("top", "the parameter 'least' of the view 'top' has no value", "top"),
        ("top('x')", "the parameter 'least' of the view 'top' should be of type int, but is 'x'", "'x'"),
        ("top(1, 2, 3)", "the view 'top' takes 2 argument(s), but 3 are given", "top"),
        ("top(1, town = 'x')", "the view 'top' has no parameter 'town'", None),
        ("top(1, least = 2)", "the argument 'least' is given twice", None),
        ("top(a)", "expected a constant here", "a"),
    ],
)
def test_wrong_uses_of_a_view(bind: Bind, use: str, message: str, where: str | None) -> None:
    view = 'VIEW top(least int, city string = "Oslo") AS SELECT s FROM t WHERE a > @least;'
    told, place, _ = problem(bind, f'{view} r = SELECT * FROM {use}; OUTPUT r TO "o";')
    assert told == message
    assert place is not None
    assert where is None or place.startswith(where)


# ------------------------------------------------------------------------------------------------------------- COMBINE


def test_combine_of_three_rowsets(bind: Bind) -> None:
    script = bind(
        "x = SELECT a, s FROM t; y = SELECT a, b FROM t; z = SELECT a AS k, n FROM t;"
        "r = COMBINE x WITH y WITH z ON x.a == y.a && y.a == z.k PRESORT n DESC, x.s PRODUCE a READONLY a USING mine.Together();"
        'OUTPUT r TO "o";'
    )
    (reduce,) = [node for node in walk(script.outputs[0].plan) if type(node).__name__ == "Reduce"]
    assert reduce.parts == (("a", "s"), ("a", "b"), ("k", "n"))  # type: ignore[union-attr]
    assert [key.expression.column.name for key in reduce.presort] == ["input", "n", "s"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x WITH y WITH z ON x.a == y.a", "the key of 'a' and 'a' has no column of the third rowset"),
        ("x WITH y ON x.a == x.a", "each equality must compare a column of each rowset"),
        ("x WITH y WITH z ON x.a == y.a && y.a == z.b && z.b == x.s", "COMBINE compares bigint and int"),
        ("x WITH y ON x.a == y.a PRESORT q", "unknown column 'q'"),
        ("x WITH y ON x.a == y.a PRESORT a", "several rowsets have a column 'a'"),
        ("x WITH y ON x.a == y.a && x.b == y.a", "'b' and 'a' of one rowset cannot be one key"),
    ],
)
def test_wrong_combines(bind: Bind, text: str, message: str) -> None:
    before = "x = SELECT a, s, CAST(b AS bigint) AS b FROM t; y = SELECT a FROM t; z = SELECT b FROM t;"
    told, place, _ = problem(bind, f'{before} r = COMBINE {text} PRODUCE a USING mine.Together(); OUTPUT r TO "o";')
    assert told == message
    assert place is not None


# -------------------------------------------------------------------------------------------------------------- macros


@pytest.mark.parametrize(
    ("defined", "text", "meaning"),
    [
        ("twice(x) x + x", "twice(a) * 2", "((a + a) * 2)"),
        ("half(x) x / 2;", "half(a + b)", "((a + b) / 2)"),
        ("least(x, y) x < y ? x : y", "least(a, 0)", "CASE WHEN (a < 0) THEN a ELSE 0 END"),
        ("one() 1", "one() + one()", "(1 + 1)"),
        ("half(x) x / 2", "half(half(a))", "((a / 2) / 2)"),
        ("swap(a, b) b - a", "swap(b, a)", "(a - b)"),
        ("all_of(x) sum(x) + count(*)", "all_of(b)", "(sum + count)"),
        ("size(s) s.Length", "size(s || 'x')", "length((s || 'x'))"),
        ("size(x) x.Length", "size(s)", "length(s)"),
        ("upper_of(x) x.ToUpper()", "upper_of(s || 'x')", "upper((s || 'x'))"),
        ("total(r) r.a + r.b", "total(t)", "(a + b)"),
    ],
)
def test_macros(bind: Bind, defined: str, text: str, meaning: str) -> None:
    plan = bind(f'#DEFINE {defined}\nr = SELECT {text} AS x FROM t; OUTPUT r TO "o";').outputs[0].plan
    assert isinstance(plan, Project)
    assert to_sql(plan.outputs[0][1], lambda column: column.name) == meaning


def test_a_macro_that_uses_another(bind: Bind) -> None:
    directives = "#DEFINE one(x) x + 1\n#DEFINE two(x) one(one(x))\n"
    plan = bind(directives + 'r = SELECT two(a) AS x FROM t; OUTPUT r TO "o";').outputs[0].plan
    assert isinstance(plan, Project)
    assert to_sql(plan.outputs[0][1], lambda column: column.name) == "((a + 1) + 1)"


@pytest.mark.parametrize(
    ("directives", "text", "message", "where"),
    [
        ("#DEFINE f(x) x + q", "f(a)", "unknown column 'q'", None),
        ("#DEFINE f(x) x", "f(a, b)", "the macro 'f' takes 1 argument(s), but 2 are given", "f"),
        ("#DEFINE f(x) x", "f(q)", "unknown column 'q'", "q"),
        ("#DEFINE f(x) f(x)", "f(a)", "the macro 'f' uses itself", "f"),
        ("#DEFINE f(x) g(x)\n#DEFINE g(x) f(x)", "f(a)", "the macro 'f' uses itself", "f"),
        ("#DEFINE f(x) x\n#DEFINE F(x) x", "a", "the macro 'F' is defined twice", "F"),
        ("#DEFINE f(x, X) x", "a", "the macro 'f' has two parameters of one name", "f"),
        ("#DEFINE f x", "a", "this #DEFINE is not valid", "#DEFINE f x"),
        ("#DEFINE f(x) x +", "a", "Required argument", None),
    ],
)
def test_wrong_macros(bind: Bind, directives: str, text: str, message: str, where: str | None) -> None:
    told, place, _ = problem(bind, f'{directives}\nr = SELECT {text} AS x FROM t; OUTPUT r TO "o";')
    assert told.startswith(message) or message == "Required argument"
    assert place is not None
    assert where is None or place == where


# ------------------------------------------------------------------------------------------------ types of the users'


def test_types_of_the_users(bind: Bind) -> None:
    from unshuffle.catalog.user_types import mark_of

    text = "w = PROCESS t PRODUCE a, q:mine.Point? USING mine.Silent(); r = SELECT q AS z FROM (SELECT q FROM w UNION ALL SELECT q"
    plan = bind(text + ' FROM w); OUTPUT r TO "o";').outputs[0].plan
    mark = mark_of(plan.columns[0].type)
    assert mark is not None
    assert (mark.module, mark.name) == ("mine", "Point")
    assert plan.columns[0].type == pa.struct({"x": pa.float64(), "y": pa.float64()})
    text = 'r = PROCESS t PRODUCE q:Point USING mine.Silent(); OUTPUT r TO "o";'
    assert mark_of(bind('#REFERENCE "mine.py"\n' + text).outputs[0].plan.columns[0].type) is not None
    assert problem(bind, text)[1] == "Point"


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("mine.Odd", "mine.Odd is not stored as a struct"),
        ("mine.Words", "mine.Words is not a UserType"),
        ("mine.Nope", "not a type name: 'mine.Nope'"),
        ("mien.Point", "not a type name: 'mien.Point'"),
    ],
)
def test_wrong_types_of_the_users(bind: Bind, type: str, message: str) -> None:
    told, place, _ = problem(bind, f'r = PROCESS t PRODUCE q:{type} USING mine.Silent(); OUTPUT r TO "o";')
    assert told.startswith(message)
    assert place == type
