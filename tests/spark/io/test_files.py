"""Files in and out: exact columns, row order, and outputs that appear together or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import FileProblem, Source, TypeProblem, UserCodeProblem
from unshuffle.plan.expressions import Value
from unshuffle.plan.logical import Files, FileTarget, Format, Scan, UserClass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
numbers = ColumnNumbers()
SPAN = Source("job.scope", "OUTPUT a TO 'x';").span(12, 15)


def columns(**types: str) -> tuple[Column, ...]:
    return tuple(numbers.new(name, from_spark_name(type)) for name, type in types.items())


def scanned(spark: SparkSession, path: Path, format: Format, base: Path | None = None, **types: str) -> DataFrame:
    from unshuffle.spark.io.files import read

    files = Files((str(path),), format, str(base) if base else None)
    node = Scan("t", files, columns(**types), span=SPAN)
    return read(spark, node).select(*(f"`{column.name}`" for column in node.columns))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def format(name: str, **options: Value) -> Format:
    return Format(name, tuple(options.items()))


# ------------------------------------------------------------------------------------------------------------- reading


def test_parquet_reads_only_the_scans_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, None], pa.int32()), "größe b": ["x", "ü"], "c": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    frame = scanned(spark, tmp_path / "t.parquet", format("Parquet"), **{"größe b": "string", "a": "int"})
    assert rows(frame) == [("x", 1), ("ü", None)]
    assert "ReadSchema: struct<größe b:string,a:int>" in frame._jdf.queryExecution().toString()


def test_folders_become_columns(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        folder = tmp_path / f"Date={day}"
        folder.mkdir()
        (folder / "x.csv").write_text("1;a\n")
        (folder / "x.txt").write_text("line\n")
    day = tmp_path / "Date=2024-01-02"
    csv = scanned(spark, day / "x.csv", format("Csv", delimiter=";"), tmp_path, n="int", s="string", Date="string")
    assert rows(csv) == [(1, "a", "2024-01-02")]
    text = scanned(spark, day / "x.txt", format("Text"), tmp_path, Date="date", line="string")
    assert [(str(date), line) for date, line in rows(text)] == [("2024-01-02", "line")]


def test_csv_with_a_header_is_read_by_column_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,x,2.5\n,ü,\n")
    frame = scanned(spark, tmp_path / "t.csv", format("Csv", header=True), c="double", A="bigint")
    assert rows(frame) == [(2.5, 1), (None, None)]
    with pytest.raises(FileProblem, match=r"no column 'bb' in the header of .*t.csv\n.*\n.*\n.*did you mean 'b'"):
        scanned(spark, tmp_path / "t.csv", format("Csv", header=True), bb="string")


def test_tsv_json_and_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("1\tä\n2\t\n")
    assert rows(scanned(spark, tmp_path / "t.tsv", format("Tsv"), n="int", s="string")) == [(1, "ä"), (2, None)]
    (tmp_path / "t.json").write_text('{"s": "ä", "n": 1}\n{"l": [1, 2]}\n')
    json_types = {"n": "bigint", "s": "string", "l": "array<int>"}
    assert rows(scanned(spark, tmp_path / "t.json", format("Json"), **json_types)) == [
        (1, "ä", None),
        (None, None, [1, 2]),
    ]
    (tmp_path / "t.txt").write_text("ä\n\nb")
    assert rows(scanned(spark, tmp_path / "t.txt", format("Text"), line="string")) == [("",), ("b",), ("ä",)]
    with pytest.raises(TypeProblem, match="Text\\(\\) reads one column of strings, not n:int"):
        scanned(spark, tmp_path / "t.txt", format("Text"), n="int")


def test_missing_files(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"no such file or folder: .*/none") as caught:
        scanned(spark, tmp_path / "none", format("Parquet"), n="int")
    assert caught.value.span == SPAN
    with pytest.raises(FileProblem, match=r"no format 'Parket'\n.*\n.*\n  did you mean 'Parquet'"):
        scanned(spark, tmp_path, format("Parket"), n="int")


# ------------------------------------------------------------------------------------------------------------- writing


def target(path: Path, name: str = "Csv", overwrite: bool = False, **options: Value) -> FileTarget:
    return FileTarget(str(path), format(name, **options), overwrite)


def parts(folder: Path) -> str:
    """The text of the files of a folder, by name. The folder has no other file."""
    files = sorted(folder.iterdir())
    assert files[0].name == "_SUCCESS"
    assert all(file.name.startswith("part-") for file in files[1:]), files
    return "".join(file.read_text() for file in files[1:])


@pytest.mark.parametrize("name", ["Csv", "Tsv", "Json", "Text", "Parquet"])
def test_rows_keep_their_order_over_many_parts(spark: SparkSession, tmp_path: Path, name: str) -> None:
    from unshuffle.spark.io.pending_outputs import PendingOutputs
    from unshuffle.spark.session import temporarily

    values = spark.range(1000).selectExpr("cast(999 - id as string) as x_1").repartition(5)
    sorted_frame = values.orderBy("x_1")
    with (
        temporarily(spark, **{"spark.sql.adaptive.coalescePartitions.enabled": False}),
        PendingOutputs(spark) as outputs,
    ):
        outputs.write(sorted_frame, ["größe"], target(tmp_path / "new" / "out", name))
        assert not (tmp_path / "new" / "out").exists()
        outputs.commit()
    folder = tmp_path / "new" / "out"
    assert len(list(folder.glob("part-*"))) > 1
    if name == "Parquet":
        tables = [pq.read_table(file) for file in sorted(folder.glob("part-*"))]
        written = pa.concat_tables(tables)["größe"].to_pylist()
    else:
        lines = parts(folder).splitlines()
        written = [json.loads(line)["größe"] for line in lines] if name == "Json" else lines
    assert written == sorted(map(str, range(1000)))
    assert [entry.name for entry in (tmp_path / "new").iterdir()] == ["out"]


def test_what_a_late_attempt_of_a_task_writes_is_no_part_of_the_output(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.pending_outputs import PendingOutputs

    with PendingOutputs(spark) as outputs:
        outputs.write(spark.range(2).coalesce(1).toDF("id_1"), ["id"], target(tmp_path / "out"))
        (staging,) = tmp_path.iterdir()
        (staging / "_temporary" / "0" / "_temporary").mkdir(parents=True)
        outputs.commit()
    assert parts(tmp_path / "out") == "0\n1\n"


def test_all_outputs_or_none(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.pending_outputs import PendingOutputs

    good, bad = spark.range(3).toDF("id_1"), spark.sql("select id / (id - 1) as x_2 from range(3)")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "keep.txt").write_text("old")
    with PendingOutputs(spark) as outputs:
        outputs.write(good, ["id"], target(tmp_path / "deep/er/first"))
        outputs.write(good, ["id"], target(tmp_path / "old", overwrite=True))
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            outputs.write(bad, ["x"], target(tmp_path / "third"))
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["keep.txt"]


def test_overwrite_and_refusal(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.pending_outputs import PendingOutputs

    frame, path = spark.range(2).coalesce(1).toDF("id_1"), tmp_path / "out"

    def write(overwrite: bool, **options: Value) -> None:
        with PendingOutputs(spark) as outputs:
            outputs.write(frame, ["id"], target(path, overwrite=overwrite, **options), SPAN)
            outputs.commit()

    write(overwrite=False)
    assert parts(path) == "0\n1\n"
    with pytest.raises(FileProblem, match=r"out exists already\n.*\n.*\n  write OVERWRITE"):
        write(overwrite=False)
    write(overwrite=True, header=True)
    assert parts(path) == "id\n0\n1\n"
    with PendingOutputs(spark) as outputs:
        # Another program writes the target first. The commit detects it before it moves anything.
        outputs.write(frame, ["id"], target(tmp_path / "a"))
        outputs.write(frame, ["id"], target(tmp_path / "b"))
        (tmp_path / "b").write_text("theirs")
        with pytest.raises(FileProblem, match="two outputs go to"):
            outputs.write(frame, ["id"], target(tmp_path / "a"))
        with pytest.raises(FileProblem, match="b exists already"):
            outputs.commit()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["b", "out"]
    assert (tmp_path / "b").read_text() == "theirs"


def test_a_move_that_fails_undoes_the_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unshuffle.spark.io.hadoop_files import HadoopFiles
    from unshuffle.spark.io.pending_outputs import PendingOutputs

    frame = spark.range(2).coalesce(1).toDF("id_1")
    (tmp_path / "a").write_text("old")
    rename = HadoopFiles.rename

    def failing(self: HadoopFiles, source: Any, goal: Any) -> None:
        if goal.getName() == "b":
            raise FileProblem("no space left")
        rename(self, source, goal)

    monkeypatch.setattr(HadoopFiles, "rename", failing)
    with PendingOutputs(spark) as outputs:
        outputs.write(frame, ["id"], target(tmp_path / "a", overwrite=True))
        outputs.write(frame, ["id"], target(tmp_path / "b"))
        with pytest.raises(FileProblem, match="no space left"):
            outputs.commit()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_text_needs_exactly_one_string_column(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.pending_outputs import PendingOutputs

    with (
        PendingOutputs(spark) as outputs,
        pytest.raises(TypeProblem, match="Text\\(\\) writes one column of strings, not id:bigint"),
    ):
        outputs.write(spark.range(2).toDF("id_1"), ["id"], target(tmp_path / "t", "Text"))
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------------------- outputters

MINE = """
from unshuffle.operators import Outputter

class Bars(Outputter):
    def header(self):
        return "größe|n\\n"
    def format_row(self, row):
        return f"{row['größe']}|{row['n']}\\n"

class Bytes(Outputter):
    '''No line end at the end, and every other byte before.'''
    def write(self, batches, file):
        file.write(bytes(range(256)) * 5000)
        for batch in batches:
            file.write(f"{batch.num_rows} {batch.schema.names}".encode())

class Fails(Outputter):
    def format_row(self, row):
        return 1 / 0
"""


def test_user_outputters(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.execution.failures import explain_failure
    from unshuffle.spark.io.pending_outputs import PendingOutputs

    (tmp_path / "mine.py").write_text(MINE)

    def using(name: str) -> FileTarget:
        user_class = UserClass("mine", name, (), (), (str(tmp_path),), SPAN)
        return FileTarget(str(tmp_path / name), user_class, False)

    frame = spark.range(0, 4, 1, 2).selectExpr("if(id = 1, null, concat('ü', id)) as g_1", "id as n_2")
    with PendingOutputs(spark) as outputs:
        outputs.write(frame, ["größe", "n"], using("Bars"))
        outputs.write(frame.coalesce(1), ["größe", "n"], using("Bytes"))
        outputs.commit()
    assert parts(tmp_path / "Bars") == "größe|n\nü0|0\nNone|1\ngröße|n\nü2|2\nü3|3\n"
    files = sorted((tmp_path / "Bytes").iterdir())
    assert len(files) == 2
    assert files[1].read_bytes() == bytes(range(256)) * 5000 + "4 ['größe', 'n']".encode()
    with PendingOutputs(spark) as outputs:
        outputs.write(
            frame.where("n_2 > 9"), ["größe", "n"], FileTarget(str(tmp_path / "empty"), using("Bars").format, False)
        )
        outputs.commit()
    assert parts(tmp_path / "empty") == "größe|n\n"
    with PendingOutputs(spark) as outputs, pytest.raises(Exception, match="Fails") as caught:
        outputs.write(frame, ["größe", "n"], using("Fails"))
    problem = explain_failure(caught.value, {str(SPAN): SPAN})  # type: ignore[arg-type]
    assert isinstance(problem, UserCodeProblem)
    assert problem.message == "mine.Fails failed: ZeroDivisionError: division by zero (mine.py, line 19)"
    assert not (tmp_path / "Fails").exists()
