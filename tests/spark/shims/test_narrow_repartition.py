"""Partitions merged and split without an exchange: the rows of plain Spark, each in its numbered partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from unshuffle.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]


def hashed(spark: SparkSession, partitions: int) -> DataFrame:
    keys = "CASE id % 8 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN 'é' ELSE concat('\\U00010000', id % 40) END AS a"
    return spark.range(400).selectExpr(keys, "id AS v").repartition(partitions, "a")


def ranged(spark: SparkSession) -> DataFrame:
    """Ranges 0 to 9, 10 to 19, and so on, each sorted."""
    return (
        spark.range(60)
        .selectExpr("id", "CAST(id DIV 10 AS INT) AS at")
        .repartitionById(6, "at")
        .sortWithinPartitions("id")
    )


def placed(frame: DataFrame, number: str = "p") -> list[list[Any]]:
    """The first column in each partition, after a check of each row's partition number."""
    found: list[list[Any]] = [[] for _ in range(frame.rdd.getNumPartitions())]
    for row in frame.selectExpr(frame.columns[0], number, "spark_partition_id() AS here").collect():
        assert row[number] == row.here
        found[row.here].append(row[0])
    return found


def operators(frame: DataFrame) -> str:
    """The final plan that Spark ran."""
    frame.collect()
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan.partition("== Initial Plan ==")[0]


def exchanges(frame: DataFrame) -> list[tuple[str, int]]:
    from unshuffle.spark.execution import executed_plan_diff

    return sorted((each.how, each.partitions) for each in executed_plan_diff.of_frame(frame).exchanges.elements())


@pytest.mark.parametrize(("inputs", "outputs"), [(12, 4), (4, 12), (6, 4), (3, 3), (5, 1), (1, 3)])
def test_hashes_are_merged_and_split(spark: SparkSession, inputs: int, outputs: int) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.partitions import HashConnections
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    given, connections = hashed(spark, inputs), HashConnections(inputs, outputs)
    reads = [[each.input for each in connections.reads(i)] for i in range(outputs)]
    found = narrow_repartition(given, reads, "p", F.expr(f"pmod(hash(a), {outputs})"))
    placed(found)
    assert found.where(f"p <> pmod(hash(a), {outputs})").isEmpty()
    counts = found.groupBy("p", "a").count()
    plain = given.groupBy("a").count().collect()
    assert sorted(map(str, counts.drop("p").collect())) == sorted(map(str, plain))
    assert exchanges(counts) == [("hash" if inputs > 1 else "gather", inputs)]
    assert "Exchange" not in operators(counts).replace("{Exchange", "")


def test_partitions_are_read_in_the_order_given(spark: SparkSession) -> None:
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    found = narrow_repartition(ranged(spark), [[4], [1, 0], [], [5, 2, 3], [1]], "p")
    tens = [list(range(start, start + 10)) for start in range(0, 60, 10)]
    assert placed(found) == [tens[4], tens[1] + tens[0], [], tens[5] + tens[2] + tens[3], tens[1]]


def test_the_order_is_kept_and_known_to_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    from unshuffle.spark.session import temporarily
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    # New boundaries at 15 and 40.
    belongs = F.expr("CASE WHEN id < 15 THEN 0 WHEN id < 40 THEN 1 ELSE 2 END")
    found = narrow_repartition(ranged(spark), [[0, 1], [1, 2, 3], [4, 5]], "p", belongs, [("id", False, True)])
    assert placed(found) == [list(range(15)), list(range(15, 40)), list(range(40, 60))]
    other = narrow_repartition(ranged(spark), [[0, 1], [1, 2, 3], [4, 5]], "p", belongs, [("id", False, True)]).where(
        "id > 5"
    )
    with temporarily(spark, **{"spark.sql.autoBroadcastJoinThreshold": -1}):
        for right in (other, found):
            joined = found.alias("l").join(right.alias("r"), ["p", "id"])
            plan = operators(joined)
            assert "SortMergeJoin" in plan
            assert "Sort [" not in plan.replace("| Sort [", "").replace("{Sort [", "")
            assert exchanges(joined) == [("number", 6)] * 2
            assert joined.count() == (54 if right is other else 60)


def test_a_union_partition_by_partition(spark: SparkSession) -> None:
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    both = ranged(spark).union(ranged(spark))
    found = narrow_repartition(both, [[i, i + 6] for i in range(6)], "p")
    assert placed(found) == [2 * list(range(start, start + 10)) for start in range(0, 60, 10)]
    assert exchanges(found.groupBy("p", "id").count()) == [("number", 6)]  # reused for both


def test_an_empty_input_of_a_union_has_its_partitions(spark: SparkSession) -> None:
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    nothing = spark.range(60).where("1 = 0").selectExpr("id", "CAST(id AS INT) AS at").repartitionById(6, "at")
    found = narrow_repartition(ranged(spark).union(nothing), [[i, i + 6] for i in range(6)], "p")
    assert placed(found) == [list(range(start, start + 10)) for start in range(0, 60, 10)]


def test_a_narrow_repartition_of_a_narrow_repartition(spark: SparkSession) -> None:
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    once = narrow_repartition(ranged(spark), [[0, 1], [2, 3], [4, 5]], "p").drop("p")
    twice = narrow_repartition(once, [[2], [0, 1]], "p")
    assert placed(twice) == [list(range(40, 60)), list(range(40))]
    assert exchanges(twice) == [("number", 6)]


def test_an_unexpected_number_of_partitions_is_rejected(spark: SparkSession) -> None:
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    with pytest.raises(InternalError, match="has 6 partitions, 5 were expected"):
        narrow_repartition(ranged(spark), [[0, 1], [2, 4]], "p")
    assert placed(narrow_repartition(ranged(spark), [[0]], "p", partitions=6)) == [list(range(10))]


def test_a_small_input_is_still_known_to_be_small(spark: SparkSession) -> None:
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    small = narrow_repartition(ranged(spark), [[i] for i in range(6)], "p")
    assert "BroadcastHashJoin" in operators(spark.range(1000).join(small, "id"))


def test_hidden_exchanges_are_measured(spark: SparkSession) -> None:
    from unshuffle.spark.execution.metrics import measure
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    found = narrow_repartition(hashed(spark, 4), [[0, 2], [1, 3]], "p").groupBy("p", "a").count()
    with measure(spark) as measured:
        found.collect()
    assert measured.exchanges == 1
    assert measured.shuffle_bytes > 0


def test_settings_do_not_change(spark: SparkSession) -> None:
    from unshuffle.spark.shims.narrow_repartition import narrow_repartition

    before = spark.conf.getAll
    narrow_repartition(ranged(spark), [[0, 1, 2, 3, 4, 5]], "p").collect()
    with pytest.raises(InternalError):
        narrow_repartition(ranged(spark), [[0]], "p")
    assert spark.conf.getAll == before
