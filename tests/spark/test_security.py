"""On Spark: parameters are values whatever they contain, and the methods of user-defined operators run in workers only."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.errors import FileProblem
from unshuffle.session import Session
from unshuffle.spark.session import _settings, temporarily

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

VALUES = (
    "'",
    "\\'",
    "\\",
    "' or '1' = '1",
    "x'; drop table t; --",
    "*/ 1 /*",
    "@p1",
    ":p1",
    "${env:PATH}",
    "${spark.app.name}",
    "${",
    "a\nb\r\n#INCLUDE 'x'",
    "é😀\u202e",
    "\0\x1a",
    "\\u0027 \\047 \\n \\%",
    '" ` { } ?',
    "",
    'SSTREAM "x"',
)
PARAMS = {f"p{i}": value for i, value in enumerate(VALUES)}
COLUMNS = ", ".join(f"@{name} as {name}" for name in PARAMS)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"a": [1, 2, 2]}), tmp_path / "t.parquet")
    return tmp_path


def test_parameters_of_queries_are_values(spark: SparkSession, tables: Path) -> None:
    session = Session(spark, tables=tables, effort="full")
    query = f"select {COLUMNS}, count(*) as n from t where @p0 = '\\'' group by a"
    left_to_spark = f"select {COLUMNS} from t lateral view explode(array(1)) as e"
    for text in (query, left_to_spark):
        rows = session.sql(text, PARAMS).collect()
        assert len(rows) >= 2
        for row in rows:
            assert {name: row[name] for name in PARAMS} == PARAMS
    for format in ("text", "json", "dot", "html"):
        assert os.environ["PATH"] not in session.explain(query, PARAMS, format=format)


def test_no_value_leaves_its_string_under_other_rules_for_strings(spark: SparkSession, tables: Path) -> None:
    """Under this setting, a string may keep the escapes that we write. It is one string all the same."""
    with temporarily(spark, **{"spark.sql.parser.escapedStringLiterals": "true"}):
        (row,) = (
            Session(spark, tables=tables, effort="full")
            .sql(f"select {COLUMNS}, count(*) as n from t", PARAMS)
            .collect()
        )
    assert row.asDict().keys() == {*PARAMS, "n"}
    assert row.n == 3
    assert row.p4.replace("\\", "") == PARAMS["p4"]
    assert os.environ["PATH"] not in row.p8


def test_a_variable_in_a_text_is_what_it_is_to_spark(spark: SparkSession, tables: Path) -> None:
    text = "select '${spark.app.id}' as v, count(*) as n from t group by 1"
    assert Session(spark, tables=tables, effort="full").sql(text).collect()[0].v == spark.conf.get("spark.app.id")


def test_parameters_of_scripts_are_values(spark: SparkSession, tables: Path) -> None:
    """In expressions, in paths, and as arguments of formats and of user-defined operators."""
    (tables / "mine.py").write_text(
        "from unshuffle.operators import Processor\n"
        "class Tag(Processor):\n"
        "    def __init__(self, tag): self.tag = tag\n"
        "    def process_row(self, row): yield {**row, 'tag': self.tag}\n"
    )
    script = tables / "s.scope"
    declared = "".join(f'#DECLARE {name} string = "";\n' for name in PARAMS)
    script.write_text(
        f'{declared}#DECLARE folder string = "";\n#DECLARE tag string = "";\n'
        f'rows = EXTRACT a:long FROM "@folder/in.parquet" USING Parquet();\n'
        f"named = SELECT a, {COLUMNS.replace(' as ', ' AS ')} FROM rows;\n"
        "tagged = PROCESS rows PRODUCE a:long, tag:string USING mine.Tag(@tag);\n"
        'OUTPUT named TO "@folder/named.parquet" USING Parquet();\n'
        'OUTPUT tagged TO "@folder/tagged.parquet" USING Parquet();\n'
    )
    folder = tables / "x'; drop table t; -- @p1 $x é"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), folder / "in.parquet")
    tag = "".join(VALUES)
    session = Session(spark, effort="full")
    session.run(script, {**PARAMS, "folder": str(folder), "tag": tag})
    for row in pq.read_table(folder / "named.parquet").to_pylist():
        assert {name: row[name] for name in PARAMS} == PARAMS
    assert set(pq.read_table(folder / "tagged.parquet")["tag"].to_pylist()) == {tag}
    with pytest.raises(FileProblem):
        session.run(script, {"folder": 'nowhere" USING Csv(); OUTPUT named TO "elsewhere', "tag": ""})


def test_methods_of_user_classes_run_in_workers_only(spark: SparkSession, tables: Path) -> None:
    """What SECURITY.md says: the driver imports the module and makes an instance to check its arguments."""
    log = tables / "log"
    (tables / "spy.py").write_text(
        "import os\n"
        "from unshuffle.operators import Processor\n"
        f"def note(what):\n"
        f"    with open({str(log)!r}, 'a') as file: file.write(f'{{what}} {{os.getpid()}}\\n')\n"
        "note('import')\n"
        "class Spy(Processor):\n"
        "    def __init__(self): note('init')\n"
        "    def process_row(self, row):\n"
        "        note('process')\n"
        "        yield row\n"
    )
    script = tables / "s.scope"
    script.write_text(
        f'r = EXTRACT a:long FROM "{tables}/t.parquet" USING Parquet();\n'
        "s = PROCESS r PRODUCE a:long USING spy.Spy();\n"
        f'OUTPUT s TO "{tables}/out.parquet" USING Parquet();\n'
    )

    def pids(what: str) -> set[int]:
        lines = [line.split() for line in log.read_text().splitlines()]
        return {int(pid) for kind, pid in lines if kind == what}

    session = Session(spark, effort="full")
    session.explain(script)
    assert pids("import") == pids("init") == {os.getpid()}
    assert pids("process") == set()
    session.run(script)
    assert pids("import") == {os.getpid()}
    assert pids("process")
    assert os.getpid() not in pids("process")


def test_the_folder_of_an_embedded_spark_is_private() -> None:
    (warehouse,) = (value for key, value in _settings("local[1]").items() if key == "spark.sql.warehouse.dir")
    folder = Path(warehouse.removeprefix("file://")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
