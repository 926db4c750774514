"""User-defined operators on Spark: every form, their inputs, and the messages when they fail."""

from __future__ import annotations

import datetime
import decimal
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.catalog.type_names import from_spark_name
from unshuffle.errors import JobProblem, Source, UserCodeProblem
from unshuffle.operators import Aggregator
from unshuffle.plan.expressions import Ref, SortKey, Value
from unshuffle.plan.logical import Combine, Files, Output, Process, Reduce, Scan, Script, UserClass, Values
from unshuffle.spark.udf.user_code import converts, fits
from unshuffle.spark.udf.worker import ROW_NUMBER, _in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

MINE = '''
import pyarrow as pa
import pyarrow.compute as pc
from helper import GREETING
from unshuffle.operators import Combiner, Extractor, Processor, Reducer

class Twice(Processor):
    def process(self, batch):
        yield pa.table({"n": pc.multiply(batch["n"], 2), "größe": batch["größe"]})

class Greet(Processor):
    def __init__(self, times=1):
        self.times = times
    def process_row(self, row):
        for _ in range(self.times):
            yield {"s": f"{GREETING} {row['größe']}", "n": row["n"]}

class Order(Reducer):
    """One row a group: its values in the order in which they came."""
    def reduce(self, group):
        values = group["v"].to_pylist()
        return pa.table({"k": group["k"][:1], "vs": pa.array([str(values)]), "n": pa.array([len(values)], pa.int32())})

class OrderRows(Reducer):
    def reduce_rows(self, key, rows):
        values = [row["v"] for row in rows]
        yield {"k": key["k"], "vs": str(values), "n": len(values)}

class FirstOnly(Reducer):
    """Leaves the rest of its group unread."""
    def reduce_rows(self, key, rows):
        yield {"k": key["k"], "vs": str(next(rows)["v"]), "n": 1}

class Liar(Reducer):
    def reduce_rows(self, key, rows):
        yield {"k": 99, "vs": "", "n": 0}

class Pair(Combiner):
    def combine(self, left, right):
        side = left if left.num_rows else right
        return pa.table({"k": side[side.schema.names[0]][:1], "l": [left.num_rows], "r": [right.num_rows]})

class PairRows(Combiner):
    def combine_rows(self, key, left_rows, right_rows):
        yield {"k": key["k"], "l": len(left_rows), "r": len(right_rows)}

class Lines(Extractor):
    def extract_rows(self, file, path):
        for number, line in enumerate(file):
            yield {"path": path, "line": line.decode().rstrip(), "number": number}

class LinesArrow(Extractor):
    def extract(self, file, path):
        lines = file.read().decode().splitlines()
        return pa.table({"line": lines, "path": [path] * len(lines), "number": pa.array(range(len(lines)), pa.int64())})

class Wrong(Processor):
    """Returns what its argument says, or fails."""
    def __init__(self, what):
        self.what = what
    def process(self, batch):
        if self.what == "raise":
            raise KeyError("no such thing")
        return eval(self.what, {"pa": pa, "batch": batch})

class WrongRow(Processor):
    def __init__(self, what):
        self.what = what
    def process_row(self, row):
        yield eval(self.what)
'''

SCRIPT = Source("job.scope", "a = PROCESS b PRODUCE n:int USING mine.Wrong();\n")
numbers = ColumnNumbers()


def columns(text: str) -> tuple[Column, ...]:
    pairs = (part.split(":", 1) for part in text.split("; "))
    return tuple(numbers.new(name, from_spark_name(type)) for name, type in pairs)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., UserClass]:
    folder = tmp_path_factory.mktemp("code")
    (folder / "mine.py").write_text(MINE)
    (folder / "helper.py").write_text("GREETING = 'grüß'\n")

    def using(name: str, *arguments: Value) -> UserClass:
        return UserClass("mine", name, arguments, (), (str(folder),), SCRIPT.span(34, 46))

    return using


def frame(spark: SparkSession, made: tuple[Column, ...], rows: list[tuple[Any, ...]]) -> DataFrame:
    from unshuffle.spark.udf.user_operators import ddl

    return spark.createDataFrame(rows, ddl(made))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def failure(job: Callable[[], Any], uses: UserClass) -> Any:
    from unshuffle.spark.execution.failures import explain_failure

    with pytest.raises(Exception) as caught:  # noqa: PT011
        job()
    return explain_failure(caught.value, {str(uses.span): uses.span})  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------- process


def test_process_in_both_forms(spark: SparkSession, mine: Callable[..., UserClass]) -> None:
    from unshuffle.spark.udf.user_operators import process

    given = columns("n:int; größe:string")
    source = frame(spark, given, [(1, "ä"), (None, None)])
    # int32 widens to bigint; the columns are in another order
    twice = Process(Values((), given), mine("Twice"), columns("größe:string; n:bigint"))
    made = process(source, twice)
    assert made.columns == [column.spark_name for column in twice.columns]
    assert [type for _, type in made.dtypes] == ["string", "bigint"]
    assert rows(made) == [("ä", 2), (None, None)]
    greet = Process(Values((), given), mine("Greet", 2), columns("n:int; s:string"))
    assert rows(process(source, greet)) == [(1, "grüß ä")] * 2 + [(None, "grüß None")] * 2
    assert rows(process(source.limit(0), greet)) == []


@pytest.mark.parametrize(
    ("name", "what", "message"),
    [
        ("Wrong", "raise", "mine.Wrong failed: KeyError: 'no such thing' (mine.py, line 63)"),
        ("Wrong", "pa.table({'n': ['x']})", "mine.Wrong returned a column 'n' of type string, but PRODUCE says int"),
        ("Wrong", "pa.table({'n': [1]})", "mine.Wrong returned a column 'n' of type bigint, but PRODUCE says int"),
        ("Wrong", "pa.table({'m': [1]})", "mine.Wrong returned no column 'n', but PRODUCE says n"),
        ("Wrong", "pa.table({'n': [1], 'm': [1]})", "mine.Wrong returned a column 'm', but PRODUCE says n"),
        ("Wrong", "[1]", "mine.Wrong returned a int, not a table or record batch"),
        ("Wrong", "None", "mine.Wrong returned a NoneType, not a table or record batch"),
        ("WrongRow", "{'n': 'x'}", "mine.WrongRow returned 'x' in column 'n', but PRODUCE says int"),
        ("WrongRow", "{'n': 2**31}", "mine.WrongRow returned 2147483648 in column 'n', but PRODUCE says int"),
        ("WrongRow", "{'n': 1.5}", "mine.WrongRow returned 1.5 in column 'n', but PRODUCE says int"),
        ("WrongRow", "{'n': [1.5]}", "mine.WrongRow returned [1.5] in column 'n', but PRODUCE says int"),
        ("WrongRow", "{}", "mine.WrongRow returned no column 'n', but PRODUCE says n"),
        ("WrongRow", "7", "mine.WrongRow returned a int, not a dictionary"),
    ],
)
def test_messages_for_wrong_results(
    spark: SparkSession, mine: Callable[..., UserClass], name: str, what: str, message: str
) -> None:
    from unshuffle.spark.udf.user_operators import process

    given = columns("n:int")
    node = Process(Values((), given), mine(name, what), columns("n:int"))
    problem = failure(lambda: process(frame(spark, given, [(1,)]), node).collect(), node.user_class)
    assert isinstance(problem, UserCodeProblem)
    assert problem.message == message
    assert problem.span == node.user_class.span
    assert "java" not in str(problem)


@pytest.mark.parametrize(
    ("type", "declared", "fitting"),
    [
        (pa.int32(), "bigint", True),
        (pa.int64(), "int", False),
        (pa.uint32(), "bigint", True),
        (pa.uint32(), "int", False),
        (pa.int32(), "double", True),
        (pa.int64(), "double", False),
        (pa.int32(), "float", False),
        (pa.int64(), "decimal(19,0)", True),
        (pa.int64(), "decimal(19,1)", False),
        (pa.float32(), "double", True),
        (pa.float64(), "float", False),
        (pa.large_string(), "string", True),
        (pa.int32(), "string", False),
        (pa.decimal128(5, 2), "decimal(7,3)", True),
        (pa.decimal128(5, 2), "decimal(5,3)", False),
        (pa.timestamp("ns"), "timestamp_ntz", True),
        (pa.timestamp("ms"), "timestamp", False),
        (pa.timestamp("s", "Europe/Berlin"), "timestamp", True),
        (pa.date64(), "date", True),
        (pa.date32(), "timestamp", False),
        (pa.null(), "array<int>", True),
        (pa.list_(pa.int8()), "array<int>", True),
        (pa.struct({"a": pa.int8()}), "struct<a:int>", True),
        (pa.struct({"b": pa.int8()}), "struct<a:int>", False),
        (pa.map_(pa.string(), pa.int8()), "map<string,int>", True),
    ],
)
def test_only_lossless_casts_are_made(type: pa.DataType, declared: str, fitting: bool) -> None:
    target = from_spark_name(declared)
    assert fits(type, target) == fitting
    if fitting:
        pa.array([None], type).cast(target)


@pytest.mark.parametrize(
    ("value", "declared", "fitting"),
    [
        (1, "int", True),
        (1.0, "int", False),
        (decimal.Decimal("1.5"), "bigint", False),
        (1, "date", False),
        (datetime.datetime(2024, 2, 29, 12), "date", False),
        (datetime.date(2024, 2, 29), "date", True),
        (1, "timestamp", False),
        ([1, None], "array<int>", True),
        ([1.5], "array<int>", False),
        ({"a": 1}, "struct<a:int>", True),
        ({"a": 1, "b": 2}, "struct<a:int>", False),
        (1, "struct<a:int>", False),
        ({"k": 1}, "map<string,int>", True),
        ({"k": 1.5}, "map<string,int>", False),
        ("1", "double", False),
        (1, "string", False),
    ],
)
def test_no_value_is_truncated(value: Any, declared: str, fitting: bool) -> None:
    assert converts(value, from_spark_name(declared)) == fitting


def test_every_type_can_be_passed_and_returned(spark: SparkSession, mine: Callable[..., UserClass]) -> None:
    from unshuffle.spark.udf.user_operators import process

    names = "boolean tinyint smallint bigint float double decimal(9,3) string binary date timestamp timestamp_ntz"
    names += " array<int> map<string,int> struct<a:int,b:string> interval.day.to.second"
    given = columns("; ".join(f"c{i}:{name.replace('.', ' ')}" for i, name in enumerate(names.split())))
    made = tuple(numbers.like(column) for column in given)
    literals = (
        "true, 1Y, 2S, 3L, 1.5F, 2.5D, cast(1.25 as decimal(9,3)), 'ü', X'00FF', date'2024-02-29', "
        "timestamp'2024-02-29 12:00:00.000001', timestamp_ntz'1900-01-01 00:00:00', array(1, null), map('k', 1), "
        "named_struct('a', 1, 'b', cast(null as string)), interval '1 2:03:04.5' day to second"
    )
    source = spark.sql(f"select {literals} union all select {', '.join(['null'] * len(given))}")
    source = source.toDF(*(column.spark_name for column in given))
    back = "[pa.table(dict(zip([f'c{i}' for i in range(len(batch.columns))], batch.columns)))]"
    out = process(source, Process(Values((), given), mine("Wrong", back), made))
    assert [t for _, t in out.dtypes] == [t for _, t in source.dtypes]
    assert out.collect() == source.collect()
    assert process(source, Process(Values((), given), mine("WrongRow", "row"), made)).collect() == source.collect()


# -------------------------------------------------------------------------------------------------------------- reduce

DATA = [(k, v) for k in (1, 2, None) for v in (0.0, float("nan"), None, -1.5, float("inf"), float("-inf"), 3.0)]


@pytest.mark.parametrize("name", ["Order", "OrderRows"])
@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [
        (False, True, "[None, -inf, -1.5, 0.0, 3.0, inf, nan]"),
        (True, False, "[nan, inf, 3.0, 0.0, -1.5, -inf, None]"),
        (True, True, "[None, nan, inf, 3.0, 0.0, -1.5, -inf]"),
    ],
)
def test_a_reducer_gets_its_whole_group_in_order(
    spark: SparkSession,
    mine: Callable[..., UserClass],
    name: str,
    descending: bool,
    nulls_first: bool,
    expected: str,
) -> None:
    from unshuffle.spark.udf.user_operators import reduce

    k, v = columns("k:int; v:double")
    made = columns("k:int; vs:string; n:int")
    order = (SortKey(Ref(v), descending, nulls_first),)
    node = Reduce(Values((), (k, v)), (k,), order, mine(name), made, ((made[0], k),))
    source = frame(spark, (k, v), DATA).repartition(3)
    assert rows(reduce(source, node)) == [(1, expected, 7), (2, expected, 7), (None, expected, 7)]
    assert rows(reduce(source.limit(0), node)) == []


def test_presort_needs_one_sort_after_one_exchange(spark: SparkSession, mine: Callable[..., UserClass]) -> None:
    from unshuffle.spark.udf.user_operators import reduce

    k, v = columns("k:int; v:double")
    node = Reduce(Values((), (k, v)), (k,), (SortKey(Ref(v)),), mine("Order"), columns("k:int; vs:string; n:int"))
    source = frame(spark, (k, v), DATA)
    for given in (source, source.repartition(k.spark_name).sortWithinPartitions(k.spark_name, v.spark_name)):
        plan = reduce(given, node)._jdf.queryExecution().executedPlan().toString()
        assert (plan.count("Exchange"), plan.count("Sort ")) == (1, 1), plan


@pytest.mark.parametrize(
    "numbers", [[[1, 2], [3, 4, 5]], [[1, 2], [4, 3], [5]], [[5, 4], [3, 2, 1]], [[2], [1, 3, 4, 5]]]
)
def test_rows_in_another_order_are_sorted(numbers: list[list[int]]) -> None:
    batches = (pa.record_batch({ROW_NUMBER: pa.array(some, pa.int32())}) for some in numbers)
    assert pa.Table.from_batches(_in_order(batches))[ROW_NUMBER].to_pylist() == [1, 2, 3, 4, 5]


def test_presort_survives_a_shuffle_that_spark_adds(spark: SparkSession, mine: Callable[..., UserClass]) -> None:
    from unshuffle.spark.session import temporarily
    from unshuffle.spark.udf.user_operators import reduce

    k, v = columns("k:bigint; v:bigint")
    made = columns("k:bigint; vs:string; n:int")
    node = Reduce(Values((), (k, v)), (k,), (SortKey(Ref(v)),), mine("OrderRows"), made)
    skewed = spark.range(0, 20000, 1, 4).selectExpr("if(id % 10 < 8, 0, id % 50) as k", "(id * 7919) % 20000 as v")
    joined = skewed.join(spark.range(50).withColumnRenamed("id", "k"), "k").toDF(k.spark_name, v.spark_name)
    force = {
        "spark.sql.autoBroadcastJoinThreshold": -1,
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1KB",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.0",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1KB",
        "spark.sql.adaptive.forceOptimizeSkewedJoin": True,
    }
    with temporarily(spark, **force):
        reduced = reduce(joined, node)
        found = reduced.collect()
        assert "skew=true" in reduced._jdf.queryExecution().executedPlan().toString()
    assert sum(row[2] for row in found) == 20000
    for row in found:
        values = json.loads(row[1])
        assert values == sorted(values)


@pytest.mark.parametrize(("name", "first"), [("Order", None), ("OrderRows", None), ("FirstOnly", "0")])
def test_a_group_over_many_batches(
    spark: SparkSession, mine: Callable[..., UserClass], name: str, first: str | None
) -> None:
    from unshuffle.spark.session import temporarily
    from unshuffle.spark.udf.user_operators import reduce

    k, v = columns("k:bigint; v:bigint")
    made = columns("k:bigint; vs:string; n:int")
    node = Reduce(Values((), (k, v)), (k,), (SortKey(Ref(v)),), mine(name), made, ((made[0], k),))
    source = spark.range(2000).selectExpr(f"id % 2 as {k.spark_name}", f"999 - id div 2 as {v.spark_name}")
    with temporarily(spark, **{"spark.sql.execution.arrow.maxRecordsPerBatch": 64}):
        found = rows(reduce(source, node))
    assert found == [(key, first or str(list(range(1000))), 1 if first else 1000) for key in (0, 1)]


def test_a_readonly_key_must_not_change(spark: SparkSession, mine: Callable[..., UserClass]) -> None:
    from unshuffle.spark.udf.user_operators import reduce

    k, v = columns("k:int; v:double")
    made = columns("k:int; vs:string; n:int")
    node = Reduce(Values((), (k, v)), (k,), (), mine("Liar"), made, ((made[0], k),))
    problem = failure(lambda: reduce(frame(spark, (k, v), [(1, 0.0)]), node).collect(), node.user_class)
    assert problem.message == "mine.Liar changed 'k', which is READONLY: its group has 1"


# ------------------------------------------------------------------------------------------------- combine and extract


@pytest.mark.parametrize("name", ["Pair", "PairRows"])
def test_combine_gets_every_key_of_either_side(spark: SparkSession, mine: Callable[..., UserClass], name: str) -> None:
    from unshuffle.spark.udf.user_operators import combine

    left, right = columns("k:int; a:string"), columns("j:int; b:string")
    made = columns("k:int; l:bigint; r:bigint")
    node = Combine(Values((), left), Values((), right), left[:1], right[:1], mine(name), made)
    ours = frame(spark, left, [(1, "x"), (1, "y"), (2, "x"), (None, "n")])
    theirs = frame(spark, right, [(1, "x"), (3, "z"), (None, "n"), (None, "m")])
    assert rows(combine(ours, theirs, node)) == [(1, 2, 1), (2, 1, 0), (3, 0, 1), (None, 1, 2)]
    assert rows(combine(ours.limit(0), theirs.limit(0), node)) == []


@pytest.mark.parametrize("name", ["Lines", "LinesArrow"])
def test_extract_reads_whole_files(
    spark: SparkSession, mine: Callable[..., UserClass], tmp_path: Path, name: str
) -> None:
    from unshuffle.spark.udf.user_operators import extract

    for file, text in (("ä b%20.txt", "x\nü\n"), ("c.txt", "z"), ("empty.txt", "")):
        (tmp_path / file).write_text(text)
    node = Scan("lines", Files((str(tmp_path),), mine(name)), columns("number:bigint; line:string; path:string"))
    assert rows(extract(spark, node)) == [
        (0, "x", str(tmp_path / "ä b%20.txt")),
        (0, "z", str(tmp_path / "c.txt")),
        (1, "ü", str(tmp_path / "ä b%20.txt")),
    ]


def test_extract_reads_files_that_only_spark_can_open(spark: SparkSession, mine: Callable[..., UserClass]) -> None:
    from unshuffle.spark.udf import user_operators, worker

    made = columns("number:bigint; line:string; path:string")
    code = user_operators.code_of(mine("Lines"), worker.Extractor)
    run = worker.extract(code, user_operators._produced(code, made))
    file = pa.record_batch({"path": ["s3a://bucket/a.txt"], "content": pa.array([b"x\ny"])})
    assert [tuple(row.values()) for batch in run(iter([file])) for row in batch.to_pylist()] == [
        (0, "x", "s3a://bucket/a.txt"),
        (1, "y", "s3a://bucket/a.txt"),
    ]


# --------------------------------------------------------------------------------------------------------- aggregators


class Spread(Aggregator):
    def aggregate(self, *columns: pa.Array) -> Any:
        values = [v for v in columns[0].to_pylist() if v is not None]
        return max(values) - min(values) if values else None


class Fold(Aggregator):
    def accumulate(self, state: Any, *values: Any) -> Any:
        return (state or "") + (values[0] or "-")


class Faulty(Aggregator):
    def aggregate(self, *columns: pa.Array) -> Any:
        return "many"


def test_aggregators_in_sql(spark: SparkSession) -> None:
    from unshuffle.spark.execution.failures import explain_failure
    from unshuffle.spark.udf.user_operators import register_aggregator

    register_aggregator(spark, "spread", Spread, "bigint")
    register_aggregator(spark, "fold", Fold, "string")
    register_aggregator(spark, "faulty", Faulty, "int")
    values = "values (1, 5L, 'a'), (1, 2L, null), (2, null, 'ü') as t(k, v, s)"
    found = rows(spark.sql(f"select k, spread(v), length(fold(s)) from {values} group by k"))
    assert found == [(1, 3, 2), (2, None, 1)]
    with pytest.raises(Exception) as caught:  # noqa: PT011
        spark.sql(f"select faulty(v) from {values}").collect()
    assert "Faulty returned 'many', but it is declared to return int" in str(explain_failure(caught.value, {}))  # type: ignore[arg-type]
    with pytest.raises(UserCodeProblem, match="Aggregator defines neither aggregate nor accumulate"):
        register_aggregator(spark, "none", Aggregator, "int")


# ------------------------------------------------------------------------------------------------------------ failures


def test_spark_errors_keep_their_condition_and_lose_their_stack_trace(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.execution.failures import explain_failure

    def problem(job: Callable[[], Any]) -> JobProblem:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            job()
        explained = explain_failure(caught.value, {})  # type: ignore[arg-type]
        assert isinstance(explained, JobProblem)
        assert "\tat " not in str(explained)
        return explained

    divided = problem(lambda: spark.sql("select id / 0 from range(3)").write.parquet(str(tmp_path / "x")))
    assert divided.message == "[DIVIDE_BY_ZERO] Division by zero."
    assert divided.hint is not None
    assert divided.hint.startswith("Use `try_divide`")
    missing = problem(lambda: spark.sql("select nothing from range(3)"))
    assert missing.message.startswith("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter")
    assert problem(lambda: spark.sql("selec 1")).message.startswith("[PARSE_SYNTAX_ERROR] Syntax error")
    (tmp_path / "bad.parquet").write_text("this is not Parquet")
    broken = problem(lambda: spark.read.schema("a int").parquet(str(tmp_path / "bad.parquet")).collect())
    assert "bad.parquet" in str(broken)
    thrown = problem(lambda: spark.sql("select raise_error('ach')").collect())
    assert thrown.message.endswith("ach")
    assert problem(lambda: spark.range(3).rdd.map(lambda x: 1 / 0).collect()).message.endswith("division by zero")


def test_locations_of_user_classes(mine: Callable[..., UserClass]) -> None:
    from unshuffle.spark.udf.user_operators import spans_of

    use = mine("Twice")
    node = Process(Values((), ()), use, columns("n:int"))
    assert spans_of(Script((Output(node, None),))) == {"job.scope:1:35": use.span}


# ------------------------------------------------------------------------------------------------------ other processes

WITHOUT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("unshuffle", "mine", "helper"):
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import pickle, pyarrow as pa
run = pickle.load(open(sys.argv[1], "rb"))
print(next(run(iter([pa.record_batch({"n_1": pa.array([1], pa.int32())})]))).to_pylist())
"""


def test_workers_need_neither_unshuffle_nor_the_users_module(
    spark: SparkSession, mine: Callable[..., UserClass], tmp_path: Path
) -> None:
    from unshuffle.spark.udf import user_operators, worker

    use = mine("WrongRow", "{'n': row['n']}")
    code = user_operators.code_of(use, worker.Processor)
    given = (Column(1, "n", pa.int32()),)
    run = worker.process(code, user_operators.input_of(given), user_operators._produced(code, given))
    (tmp_path / "task").write_bytes(user_operators.pickled(run, use))
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path / "task")], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "[{'n_1': 1}]\n", ran.stderr
