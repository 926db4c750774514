"""Structured streams written and read by Spark: rows, layouts, scripts, and scans that skip data."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sstream.test_faults import Killed, Killing
from tests.support.machines import plan_for
from tests.support.storing import VALUES, by
from unshuffle import Session
from unshuffle.errors import DeclarationProblem, JobProblem, StreamProblem, UserError
from unshuffle.plan.logical import Scan
from unshuffle.properties import RangeFunction
from unshuffle.sstream import LayoutRequest, SortedName, Stream, open_stream, storage_of
from unshuffle.sstream.check import check
from unshuffle.sstream.manifest import ranges_of
from unshuffle.sstream.murmur import partition_numbers
from unshuffle.sstream.storage import LocalStorage
from unshuffle.sstream.vacuum import vacuum

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

COLUMNS = {kind.replace(" ", "_"): pa.array((values * 20)[:40], type) for kind, (type, values) in VALUES.items()}


@pytest.fixture(scope="module")
def values(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Forty rows of every type, with NULL, NaN, -0.0 and repeated values."""
    path = tmp_path_factory.mktemp("values") / "values.parquet"
    pq.write_table(pa.table({**COLUMNS, "p": list(range(40))}), path)
    return spark.read.parquet(str(path))


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def test_hash_numbers_agree_with_spark(spark: SparkSession, values: DataFrame) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.properties import HashFunction
    from unshuffle.spark.io.sstream_writer import partition_number

    names = list(COLUMNS)
    functions = {name: HashFunction((COLUMNS[name].type,), 7) for name in names}
    numbers = [partition_number(spark, [name], functions[name]).alias(name) for name in names]
    whole = HashFunction(tuple(array.type for array in COLUMNS.values()), 11)
    found = (
        values.select("p", *numbers, partition_number(spark, names, whole).alias("all")).orderBy(F.col("p")).toArrow()
    )
    for name in names:
        assert found[name].to_pylist() == partition_numbers([COLUMNS[name]], 7).tolist(), name
    assert found["all"].to_pylist() == partition_numbers(list(COLUMNS.values()), 11).tolist()


@pytest.mark.parametrize(
    "names", [("double", "-string"), ("-long_decimal", "timestamp"), ("binary", "-date"), ("-float", "bigint")]
)
def test_range_numbers_agree_with_the_boundaries(
    spark: SparkSession, values: DataFrame, names: tuple[str, ...]
) -> None:
    from unshuffle.partitions import KeyOrder, Ranges
    from unshuffle.spark.shims.range_number import range_number
    from unshuffle.sstream.layout_request import range_function
    from unshuffle.sstream.manifest import typed_keys

    for nulls_first in (True, False):
        orders = tuple(SortedName(each.name, each.descending, nulls_first) for each in by(*names))
        keys = typed_keys(tuple((name, array.type) for name, array in COLUMNS.items()), orders)
        pairs = list(zip(*(COLUMNS[each.name].to_pylist() for each in orders), strict=True))
        cuts = [pair[: 1 + i % 2] for i, pair in enumerate(pairs[::3])]
        function = range_function(Ranges(keys, tuple(sorted(cuts, key=KeyOrder(keys).row))))
        columns = [values[each.name] for each in orders[: function.arity]]
        found = values.select("p", range_number(spark, columns, function).alias("n")).orderBy("p").toArrow()
        expected = ranges_of(function).numbers([pair[: function.arity] for pair in pairs])
        assert found["n"].to_pylist() == expected


@pytest.mark.parametrize("ranged", [False, True])
def test_a_written_stream_is_read_back_and_its_layout_holds(
    spark: SparkSession, values: DataFrame, tmp_path: Path, ranged: bool
) -> None:
    session = Session(spark, effort="full")
    path = tmp_path / "all [1] *é.ss"
    stream = session.write_stream(
        values,
        path,
        clustered_by=["double", "string desc"],
        sorted_by=["double", "string desc", "p"],
        ranged=ranged,
        partitions=5,
        keys=[["p"]],
    )
    assert check(stream) == ()
    assert len(stream.manifest.partitions) == 5
    assert isinstance(stream.manifest.function, RangeFunction) == ranged
    assert rows(session.read_stream(path)) == rows(values)
    assert session.read_stream(path).columns == values.columns
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"


def test_empty_and_single_partitions(spark: SparkSession, values: DataFrame, tmp_path: Path) -> None:
    session = Session(spark, effort="full")
    for name, options in (("hash", {"partitions": 3}), ("range", {"ranged": True}), ("one", {"boundaries": ()})):
        empty = session.write_stream(values.limit(0), tmp_path / f"{name}.ss", clustered_by="bigint", **options)  # type: ignore[arg-type]
        assert check(empty) == ()
        assert session.read_stream(tmp_path / f"{name}.ss").schema.names == values.columns
        assert session.read_stream(tmp_path / f"{name}.ss").count() == 0
        everything = f'select * from sstream "{tmp_path}/{name}.ss"'
        assert session.sql(everything).count() == 0
        assert "no files" in Session().explain(everything, logical=True)  # no Spark reads it
    sparse = session.write_stream(
        values.where("bigint = 7"), tmp_path / "sparse.ss", clustered_by="bigint", partitions=8
    )
    assert sorted(part.rows > 0 for part in sparse.manifest.partitions) == [False] * 7 + [True]
    assert check(sparse) == ()


def test_a_stream_is_not_read_as_plain_files(spark: SparkSession, values: DataFrame, tmp_path: Path) -> None:
    """Its folder has the files of both versions."""
    session = Session(spark, effort="full")
    for overwrite in (False, True):
        session.write_stream(values, tmp_path / "two.ss", clustered_by="bigint", partitions=2, overwrite=overwrite)
    script = tmp_path / "count.scope"
    for path in ("two.ss", ""):
        script.write_text(f'x = EXTRACT bigint FROM "{tmp_path}/{path}" USING Parquet(); OUTPUT x TO "{tmp_path}/out";')
        with pytest.raises(UserError, match="is a structured stream, not a folder") as raised:
            session.run(script)
        assert f'FROM SSTREAM "{tmp_path}/two.ss"' in str(raised.value)


def test_types_that_lose_information_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    collated = spark.sql("SELECT 1 AS a, array('x' COLLATE UTF8_LCASE) AS c")
    with pytest.raises(UserError, match="cannot store the column 'c'"):
        Session(spark, effort="full").write_stream(collated, tmp_path / "x.ss", clustered_by="a", partitions=2)
    nested = spark.sql("SELECT 1 AS a, named_struct('x y', array(1), 'm', map('k', 2)) AS s")
    session = Session(spark, effort="full")
    session.write_stream(nested, tmp_path / "x.ss", clustered_by="a", partitions=2)
    assert rows(session.read_stream(tmp_path / "x.ss")) == rows(nested)


def test_rows_in_the_right_layout_are_not_shuffled(spark: SparkSession, values: DataFrame, tmp_path: Path) -> None:
    from unshuffle.errors import InternalError
    from unshuffle.spark.execution.metrics import measure
    from unshuffle.spark.io.sstream_writer import write

    request = LayoutRequest(by("bigint"), by("-bigint", "p"), partitions=3)
    hashed = values.repartition(3, "bigint")
    ordered = hashed.sortWithinPartitions(hashed.bigint.desc_nulls_last(), "p")
    for name, frame, how in (("a", hashed, "partitioned"), ("b", ordered, "sorted")):
        with measure(spark) as measured:
            stream = write(frame, str(tmp_path / f"{name}.ss"), request, input_layout=how)  # type: ignore[arg-type]
        assert check(stream) == ()
        assert measured.exchanges == 1  # the frame's own exchange
    with pytest.raises((InternalError, StreamProblem)):
        write(values, str(tmp_path / "c.ss"), request, input_layout="sorted")
    with pytest.raises(UserError, match="not a structured stream"):
        open_stream(str(tmp_path / "c.ss"))


def test_a_reader_keeps_its_version_through_writes_and_vacuum(
    spark: SparkSession, values: DataFrame, tmp_path: Path
) -> None:
    session = Session(spark, effort="full")
    path = tmp_path / "x.ss"
    session.write_stream(values, path, clustered_by="bigint", partitions=2)
    before = session.read_stream(path)
    session.write_stream(values.where("p < 3"), path, clustered_by="string", ranged=True, partitions=2, overwrite=True)
    vacuum(storage_of(str(path)), str(path))
    assert rows(before) == rows(values)
    assert session.read_stream(path).count() == 3


@pytest.mark.parametrize("at", [1, 4, 7, 9, 10])
def test_a_dead_writer_leaves_the_previous_version(
    spark: SparkSession, values: DataFrame, tmp_path: Path, at: int
) -> None:
    from unshuffle.spark.io.sstream_writer import write

    path = str(tmp_path / "x.ss")
    request = LayoutRequest(by("bigint"), partitions=2, overwrite=True)
    write(values, path, request)
    with pytest.raises(Killed):
        write(values.where("p < 7"), path, request, storage=LocalStorage(path, Killing(at)))
    stream = open_stream(path)
    assert check(stream) == ()
    assert Session(spark, effort="full").read_stream(path).count() == (40 if stream.version == 1 else 7)


def test_of_two_writers_one_wins(spark: SparkSession, values: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "x.ss"
    session = Session(spark, effort="full")
    session.write_stream(values, path, clustered_by="bigint", partitions=2)
    lost: list[UserError] = []

    def write(least: int) -> None:
        try:
            session.write_stream(
                values.where(f"p >= {least}"), path, clustered_by="bigint", partitions=2, overwrite=True
            )
        except StreamProblem as problem:
            lost.append(problem)

    writers = [threading.Thread(target=write, args=(least,)) for least in (0, 30)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    newest = open_stream(str(path))
    # If the second writer began only after the first had finished, both succeeded.
    assert newest.version == 3 - len(lost)
    assert check(newest) == ()
    assert newest.manifest.rows in (40, 10)


def test_a_version_through_hadoops_file_systems(spark: SparkSession, values: DataFrame, tmp_path: Path) -> None:
    from unshuffle.spark.io.hadoop_storage import HadoopStorage
    from unshuffle.spark.io.sstream_writer import write

    place = HadoopStorage(spark, str(tmp_path / "x y.ss"))
    assert place.entries() == []
    assert place.create("_stream/a", b"one")
    assert not place.create("_stream/a", b"two")
    assert place.read("_stream/a") == b"one"
    assert [(entry.name, entry.size) for entry in place.entries()] == [("_stream/a", 3)]
    place.move("_stream/a", "p=1/b")
    place.remove("p=1")
    with pytest.raises(FileNotFoundError):
        place.read("p=1/b")
    write(values, str(tmp_path / "x y.ss"), LayoutRequest(by("bigint"), partitions=2), storage=place)
    assert check(open_stream(str(tmp_path / "x y.ss"))) == ()


# --- in scripts


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = pa.table({"user": [1, 2, 2, None], "region": ["n", "s", "s", None], "amount": [1.0, 2.0, 3.0, 4.0]})
    pq.write_table(table, tmp_path / "orders.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(spark: SparkSession, place: Path, text: str) -> Any:
    (place / "script.scope").write_text(text)
    return Session(spark, tables=place, effort="full").run(place / "script.scope")


def test_a_script_writes_streams_and_reads_them(spark: SparkSession, place: Path) -> None:
    done = run(
        spark,
        place,
        f"""
        r = SELECT * FROM orders;
        OUTPUT r TO SSTREAM "by_user.ss" RANGE CLUSTERED BY user DESC SORTED BY user DESC, amount INTO 3 DEPENDS (user -> region);
        OUTPUT r TO "{place}/orders.csv";
        """,
    )
    assert [result.rows for result in done.results] == [4, 4]
    stream = open_stream(str(place / "by_user.ss"))
    assert check(stream) == ()
    run(
        spark,
        place,
        """
        t = SELECT user, SUM(amount) AS total FROM SSTREAM "by_user.ss" GROUP BY user;
        OUTPUT t TO SSTREAM "totals.ss" REFERENCE "by_user.ss" KEY (user);
        """,
    )
    totals = open_stream(str(place / "totals.ss"))
    assert totals.manifest.function == stream.manifest.function
    assert totals.manifest.reference is not None
    session = Session(spark, tables=place, effort="full")
    joined = session.sql("select region, total from by_user b join totals t on b.user = t.user where region = 's'")
    assert rows(joined) == ["Row(region='s', total=5.0)"] * 2
    # The next version may be computed from the previous one.
    run(
        spark,
        place,
        'r = SELECT * FROM by_user; OUTPUT r TO SSTREAM "by_user.ss" HASH CLUSTERED BY user INTO 2 OVERWRITE;',
    )
    assert open_stream(str(place / "by_user.ss")).version == 2
    assert rows(session.sql("select * from by_user")) == rows(spark.read.parquet(str(place / "orders.parquet")))


def test_no_update_is_lost_between_reading_a_version_and_writing_the_next(spark: SparkSession, place: Path) -> None:
    """Another writer publishes a version after a script has read the stream, and before it writes."""
    session = Session(spark, tables=place, effort="full")
    layout: dict[str, Any] = {"clustered_by": "user", "partitions": 2}
    session.write_stream(place / "orders.parquet", place / "x.ss", **layout)
    (place / "more.py").write_text(
        "from unshuffle import Processor\n"
        "class More(Processor):\n"
        "    def process_row(self, row):\n"
        "        yield {'user': row['user'], 'amount': row['amount'] + 1}\n"
    )
    (place / "more.scope").write_text(
        'x = SELECT user, amount FROM SSTREAM "x.ss";'
        "more = PROCESS x PRODUCE user:long, amount:double USING more.More();"
        'OUTPUT more TO SSTREAM "x.ss" CLUSTERED BY user INTO 2 OVERWRITE;'
    )
    bind_file = session.pipeline.bind_file

    def bind_while_another_writes(*of: Any, **options: Any) -> Any:
        bound = bind_file(*of, **options)
        session.write_stream(place / "orders.parquet", place / "x.ss", overwrite=True, **layout)
        return bound

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(session.pipeline, "bind_file", bind_while_another_writes)
        with pytest.raises(StreamProblem, match="now has version 2, and the rows are computed from version 1"):
            session.run(place / "more.scope")
    assert open_stream(str(place / "x.ss")).version == 2
    session.run(place / "more.scope")
    assert sorted(row.amount for row in session.read_stream(place / "x.ss").collect()) == [2, 3, 4, 5]
    frame = session.read_stream(place / "x.ss")
    session.write_stream(frame, place / "x.ss", overwrite=True, follows=3, **layout)
    with pytest.raises(StreamProblem, match="now has version 4"):
        session.write_stream(frame, place / "x.ss", overwrite=True, follows=3, **layout)


@pytest.fixture
def pages(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stream in ranges of (domain, host), and the same rows as files."""
    made = random.Random(3)
    domains, hosts = (
        [f"d{int(made.expovariate(0.1)):03}" for _ in range(2000)],
        [made.randrange(50) for _ in range(2000)],
    )
    table = pa.table(
        {"domain": domains, "host": pa.array(hosts, pa.int64()), "size": pa.array(range(2000), pa.int64())}
    )
    pq.write_table(table, tmp_path / "files.parquet")
    by = ["domain", "host"]
    Session(spark, effort="full").write_stream(
        tmp_path / "files.parquet", tmp_path / "pages.ss", clustered_by=by, ranged=True, partitions=12
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("query", "output", "samples"),
    [
        # By the first layout column, by both, and after a filter: the distribution of the rows is known.
        ("SELECT * FROM pages", "RANGE CLUSTERED BY domain SORTED BY domain, size INTO 4", False),
        ("SELECT * FROM pages", "RANGE CLUSTERED BY domain, host INTO 5", False),
        ("SELECT * FROM pages WHERE domain < 'd008'", "RANGE CLUSTERED BY domain, host INTO 4", False),
        # For groups, another column or another direction the distribution is unknown.
        ("SELECT domain, count(*) AS n FROM pages GROUP BY domain", "RANGE CLUSTERED BY domain INTO 3", True),
        ("SELECT * FROM pages", "RANGE CLUSTERED BY size INTO 4", True),
        ("SELECT * FROM pages", "RANGE CLUSTERED BY domain DESC INTO 4", True),
    ],
)
def test_stored_ranges_need_no_sampling_pass_where_the_distribution_is_known(
    spark: SparkSession, pages: Path, monkeypatch: pytest.MonkeyPatch, query: str, output: str, samples: bool
) -> None:
    from unshuffle.spark.io import sstream_writer

    sampled: list[object] = []
    choose = sstream_writer.choose_function
    monkeypatch.setattr(sstream_writer, "choose_function", lambda *of: sampled.append(of) or choose(*of))  # type: ignore[func-returns-value]
    done = run(spark, pages, f'r = {query}; OUTPUT r TO SSTREAM "made.ss" {output};')
    made = open_stream(str(pages / "made.ss"))
    assert check(made) == ()
    assert bool(sampled) == samples
    said = json.loads(Session(spark, tables=pages, effort="full").explain(pages / "script.scope", format="json"))[
        "plan"
    ]["children"][0]
    assert said.get("boundaries") == ("chosen at run time, by a second run" if samples else None)
    plain = spark.sql(query.replace("pages", "{pages}"), pages=spark.read.parquet(str(pages / "files.parquet")))
    assert rows(spark.read.parquet(*made.paths)) == rows(plain)
    if not samples:
        sizes = [each.rows for each in made.manifest.partitions]
        assert len(sizes) > 2
        assert max(sizes) <= 2 * sum(sizes) / len(sizes)
        assert done.measured.exchanges == 0


def test_a_frame_of_a_stream_is_optimized_with_its_layout(spark: SparkSession, pages: Path) -> None:
    """For every version, but only if the frame reads the whole version unchanged."""
    session = Session(spark, effort="full")
    first = session.read_stream(pages / "pages.ss")
    again = ["size"]
    session.write_stream(pages / "files.parquet", pages / "pages.ss", clustered_by=again, partitions=3, overwrite=True)
    second = session.read_stream(pages / "pages.ss")
    stream = open_stream(str(pages / "pages.ss"))

    def version(frame: DataFrame) -> int | None:
        grouped = frame.groupBy("host").agg({"size": "max", "*": "count"})
        assert rows(session.optimize(grouped)) == rows(grouped)
        (scan,) = {id(n): n for n in session.pipeline.read(grouped).operators() if isinstance(n, Scan)}.values()
        return None if scan.stream is None else scan.stream.version

    assert (version(first), version(second)) == (1, 2)
    assert version(spark.read.parquet(*stream.paths)) == 2
    assert version(spark.read.parquet(*stream.paths[1:])) is None
    assert version(spark.read.schema("size bigint, host bigint").parquet(*stream.paths)) is None
    assert version(spark.read.parquet(str(pages / "pages.ss"))) is None


def test_a_stream_is_bound_with_its_facts_and_statistics(spark: SparkSession, place: Path) -> None:
    session = Session(spark, tables=place, effort="full")
    session.write_stream(
        place / "orders.parquet",
        place / "o.ss",
        clustered_by=["user", "region"],
        boundaries=[(2,)],
        keys=[["amount"]],
        dependencies=[(["user"], ["region"])],
    )
    session = Session(spark, tables=place, effort="full")
    (scan,) = {
        id(node): node for node in session.pipeline.bind("select * from o").operators() if isinstance(node, Scan)
    }.values()
    user, region, amount = scan.columns
    assert str(scan.layout) == f"{{({user}) by range into 2 at (2,); [{user}↑, {region}↑]}}"
    assert (scan.keys, str(scan.dependencies[0])) == ((frozenset((amount,)),), f"{user} -> {region}")
    assert scan.stream is not None
    assert scan.statistics is not None
    assert scan.statistics.rows == 4
    both = session.pipeline.bind("select * from o a join o b on a.user = b.user")
    scans = [node for node in both.operators() if isinstance(node, Scan)]
    assert [each.layout.partitioning.columns == (each.columns[0],) for each in scans] == [True, True]  # type: ignore[union-attr]
    session.declare_key("o", "amount")
    assert session.sql("select user, count(*) n from o group by user").count() == 3


def test_nothing_is_written_if_an_output_fails(spark: SparkSession, place: Path) -> None:
    with pytest.raises(DeclarationProblem, match=r"KEY \(user\) does not hold: user = 2 in 2 rows"):
        run(
            spark,
            place,
            f"""
            r = SELECT * FROM orders;
            OUTPUT r TO SSTREAM "good.ss" CLUSTERED BY user INTO 2;
            OUTPUT r TO "{place}/orders.csv";
            OUTPUT r TO SSTREAM "bad.ss" CLUSTERED BY user INTO 2 KEY (user);
            """,
        )
    assert not (place / "orders.csv").exists()
    for name in ("good.ss", "bad.ss"):
        assert storage_of(str(place / name)).entries() == []


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("CLUSTERED BY usr", "did you mean 'user'"),
        ("CLUSTERED BY user INTO 0", "INTO"),
        ('CLUSTERED BY user REFERENCE "none.ss"', "'none.ss' is not a structured stream"),
        ('CLUSTERED BY region REFERENCE "there.ss"', "'region' is string, and 'user' of the REFERENCE is bigint"),
        ('CLUSTERED BY user INTO 9 REFERENCE "there.ss"', "has 2 partitions, not 9"),
        ("CLUSTERED BY user SORTED BY nothing", "nothing"),
    ],
)
def test_a_bad_stream_is_one_clear_error(spark: SparkSession, place: Path, output: str, said: str) -> None:
    Session(spark, effort="full").write_stream(
        place / "orders.parquet", place / "there.ss", clustered_by="user", partitions=2
    )
    with pytest.raises(UserError, match=said) as caught:
        run(spark, place, f'r = SELECT * FROM orders; OUTPUT r TO SSTREAM "x.ss" {output};')
    assert caught.value.span is not None


def test_another_folder_is_neither_read_nor_replaced_as_a_stream(spark: SparkSession, place: Path) -> None:
    Session(spark, effort="full").write_stream(
        place / "orders.parquet", place / "there.ss", clustered_by="user", partitions=2
    )
    for text, why in (
        ('r = SELECT * FROM SSTREAM "orders.parquet"; OUTPUT r TO "x.csv";', "is not a structured stream"),
        ('r = SELECT * FROM orders; OUTPUT r TO SSTREAM "there.ss" CLUSTERED BY user;', "exists already"),
        (
            'r = SELECT 1 AS a; OUTPUT r TO SSTREAM "orders.parquet" CLUSTERED BY a OVERWRITE;',
            "not a structured stream",
        ),
        ('r = SELECT * FROM orders; OUTPUT r TO SSTREAM "orders.parquet/x" CLUSTERED BY user;', "the script reads"),
    ):
        with pytest.raises(UserError, match=why):
            run(spark, place, text)


def test_a_damaged_page_is_an_error_and_never_a_wrong_row(spark: SparkSession, place: Path) -> None:
    session = Session(spark, effort="full")
    stream = session.write_stream(place / "orders.parquet", place / "x.ss", clustered_by="user", partitions=1)
    chunk = pq.read_metadata(stream.paths[0]).row_group(0).column(2)
    path = Path(stream.paths[0])
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset + chunk.total_compressed_size - 4] ^= 0x20
    path.write_bytes(bytes(data))
    assert [fault.file for fault in check(stream)] == [next(stream.manifest.files()).path]
    (place / "q.sql").write_text('SELECT SUM(amount) AS s FROM SSTREAM "x.ss"')
    with pytest.raises(JobProblem):
        session.run(place / "q.sql")


# --- skipped data


def scanned(frame: DataFrame) -> int:
    """The number of rows that a scan returned."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    while plan.children().size():
        plan = plan.children().apply(0)
    return int(plan.metrics().apply("numOutputRows").value())


def test_a_key_reads_only_its_pages(spark: SparkSession, tmp_path: Path) -> None:
    from unshuffle.spark.io.sstream_writer import ParquetSizes, write
    from unshuffle.spark.session import temporarily

    frame = spark.range(20_000).selectExpr("id DIV 4 AS a", "id AS b", "concat('text ', id % 100) AS c")
    stream = write(
        frame,
        str(tmp_path / "x.ss"),
        LayoutRequest(by("a", "b"), boundaries=((2500,),)),
        sizes=ParquetSizes(page_rows=500),
    )
    assert _groups(stream) == 2
    chunk = pq.read_metadata(stream.paths[0]).row_group(0).column(0)
    assert chunk.has_offset_index
    assert chunk.has_column_index
    stored = Session(spark, effort="full").read_stream(stream.path)
    with temporarily(spark, **{"spark.sql.adaptive.enabled": False}):
        assert stored.where("a = 1234").count() == 4
        assert scanned(stored.where("a = 1234")) <= 1000  # of 20,000: a page of 500, or two
        assert scanned(stored.where("a BETWEEN 100 AND 199")) <= 1000
        assert scanned(stored.where("c = 'text 7'")) == 20_000


@pytest.mark.parametrize("is_frame", [False, True])
def test_a_value_of_a_hash_reads_one_partition(spark: SparkSession, tmp_path: Path, is_frame: bool) -> None:
    frame = spark.range(8_000).selectExpr("id AS a", "id % 7 AS b")
    Session(spark).write_stream(frame, tmp_path / "x.ss", clustered_by=["a"], sorted_by=["a"], partitions=8)
    session = Session(spark, tables=tmp_path, effort="full")
    stored = session.read_stream(tmp_path / "x.ss")
    for condition, most in (("a = 5", 1), ("a IN (5, 4000, 7999)", 3), ("a = 5 OR (a = 6 AND b = 1)", 2)):
        wanted = stored.where(condition)
        found = session.optimize(wanted) if is_frame else session.sql(f"select * from x where {condition}")
        assert rows(found) == rows(wanted)
        assert len(found.inputFiles()) <= most
        groups = f"select b, count(*) as n from x where {condition} group by b"
        assert rows(session.sql(groups)) == rows(wanted.groupBy("b").count().withColumnRenamed("count", "n"))


def _groups(stream: Stream) -> int:
    return sum(1 for _ in stream.manifest.groups())


def test_a_script_writes_rows_in_the_planned_layout(spark: SparkSession, tmp_path: Path) -> None:
    """From 6 and 4 buckets, joined, to 2: the plan produces the layout, and the writer adds no exchange."""

    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    from unshuffle.cost.machine import Machine
    from unshuffle.spark.execution.metrics import measure

    session = Session(spark, effort="full")
    rows = spark.range(400).selectExpr("id % 37 AS a", "id AS b")
    session.write_stream(rows, tmp_path / "six.ss", clustered_by="a", partitions=6)
    session.write_stream(rows, tmp_path / "four.ss", clustered_by="a", partitions=4)
    script = tmp_path / "two.scope"
    script.write_text(f"""
        both = SELECT x.a AS a, percentile(x.b + y.b, 0.5) AS middle FROM SSTREAM "{tmp_path}/six.ss" AS x
            JOIN SSTREAM "{tmp_path}/four.ss" AS y ON x.a == y.a GROUP BY x.a;
        OUTPUT both TO SSTREAM "{tmp_path}/two.ss" HASH CLUSTERED BY a INTO 2;
    """)
    free = Machine(cores=2, stage=1e-3, task=1e-9, broadcast_bytes=0.0)
    plan_for(session, free)
    with measure(spark) as measured:
        session.run(script)
    assert session.fallbacks == ()
    assert measured.shuffle_bytes == 0
    stored = open_stream(str(tmp_path / "two.ss"))
    assert not check(stored)
    joined = rows.alias("x").join(rows.alias("y"), "a").selectExpr("a", "x.b + y.b AS c")
    expected = joined.groupBy("a").agg(F.percentile("c", F.lit(0.5)).alias("middle"))
    assert sorted(session.read_stream(tmp_path / "two.ss").collect()) == sorted(expected.collect())


@pytest.mark.parametrize("way", ["script", "frame", "query"])
@pytest.mark.parametrize("ranged", [False, True])
def test_rows_that_lie_right_are_stored_without_a_shuffle(
    spark: SparkSession, tmp_path: Path, way: str, ranged: bool
) -> None:
    from unshuffle.cost.machine import Machine
    from unshuffle.spark.execution.metrics import measure

    numbers = spark.range(20_000).selectExpr("nullif(id * 7919 % 20000, 5) AS a", "id % 7 AS b")
    Session(spark).write_stream(numbers, tmp_path / "x.ss", clustered_by="a", ranged=ranged, partitions=6)
    session = Session(spark, tables=tmp_path, effort="full")
    plan_for(session, Machine(cores=6, stage=1e-3, task=1e-9))
    query, kind, path = "SELECT a, b FROM x WHERE b > 2", "RANGE" if ranged else "HASH", tmp_path / "made.ss"
    wanted = session.read_stream(tmp_path / "x.ss").where("b > 2")
    with measure(spark) as measured:
        if way == "script":
            (tmp_path / "s.scope").write_text(f'r = {query}; OUTPUT r TO SSTREAM "{path}" {kind} CLUSTERED BY a;')
            session.run(tmp_path / "s.scope")
        elif way == "frame":
            session.write_stream(wanted, path, clustered_by="a", ranged=ranged)
        else:
            (tmp_path / "q.sql").write_text(query)
            session.write_stream(tmp_path / "q.sql", path, clustered_by="a", ranged=ranged)
    assert session.fallbacks == ()
    assert measured.shuffle_bytes == 0
    made = open_stream(str(path))
    assert made.manifest.function == open_stream(str(tmp_path / "x.ss")).manifest.function
    assert check(made) == ()
    assert rows(spark.read.parquet(*made.paths)) == rows(wanted)


def test_a_stream_is_written_in_as_many_partitions_as_its_rows_fill(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that lie elsewhere are sent once, and not counted before, unless their number is a guess."""
    session = Session(spark, effort="full")
    frame = spark.range(5_000).selectExpr("id AS a", "concat('text ', id) AS c")
    frame.write.parquet(str(tmp_path / "files.parquet"))
    stored = spark.read.parquet(str(tmp_path / "files.parquet"))
    for number, what in enumerate((stored, stored.where("c RLIKE '1$'"), stored.limit(0), frame)):
        made = session.write_stream(what, tmp_path / f"{number}.ss", clustered_by="a")
        assert check(made) == ()
        assert made.manifest.function.partitions == 1
        assert rows(session.read_stream(made.path)) == rows(what)


def test_lists_are_collected_from_sorted_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would hash such groups, and sort the rows again when there are more than a few groups."""
    rows = spark.range(4000).selectExpr("id % 611 AS a", "id AS b")
    for name, count in (("one", 3), ("two", 4)):
        Session(spark, effort="full").write_stream(
            rows, tmp_path / f"{name}.ss", clustered_by="a", partitions=count, ranged=True
        )
    rows.createOrReplaceTempView("stored_rows")
    grouped = "SELECT a, percentile(b, 0.5) AS middle, size(collect_list(b)) AS n FROM {} GROUP BY a"
    both = "(SELECT * FROM {} UNION ALL SELECT * FROM {})"
    session = Session(spark, tables=tmp_path, effort="full")
    for table, plain, sorts in (
        ("one", "stored_rows", 0),
        (both.format("one", "two"), both.format(*["stored_rows"] * 2), 1),
    ):
        with session.pipeline.executing(session.pipeline.bind(grouped.format(table))) as execution:
            (frame,) = execution.frames
            plan = frame._jdf.queryExecution().executedPlan().toString()
            assert execution.fallbacks == ()
            assert "SortAggregate" in plan
            assert not any(other in plan for other in ("ObjectHashAggregate", "Exchange"))
            assert plan.count("Sort [") == sorts
            assert sorted(frame.collect()) == sorted(spark.sql(grouped.format(plain)).collect())
