"""Plans are handed over as Spark itself writes them as JSON, and facts are found where nodes are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.effort import cases
from unshuffle.spark.reader.catalyst_tree import read_plan
from unshuffle.spark.shims.plan_tree import PlanTree
from workloads import tpcds

pytestmark = pytest.mark.spark

OTHERS = (
    "select sum(id) over (partition by id % 3 order by id desc rows between 1 preceding and current row) from range(9)",
    "select id, count(distinct id) filter (where id > 2) from range(9) group by rollup (id, id + 1)",
    "with recursive r(n) as (values (1) union all select n + 1 from r where n < 4) select * from r",
    "select *, upper(col2) from values (1, 'é \"\\'\\n', date'2020-02-29', timestamp'2020-02-29 01:02:03', 1.50bd, x'00ff', null)",
    "select named_struct('a', 1, 'b', array(map(1, 1.5f))) as s, interval '1 2:03:04' day to second as i",
    "select explode(array(1, 2)), double('NaN'), float(0.1), 1e300, try_cast('x' as int) from range(3)",
    "select /*+ broadcast(b), repartition(3) */ a.id from range(9) a left semi join range(3) b on a.id = b.id",
    "select transform(array(1, 2), (x, i) -> x + i), uuid() is null, rand(7) < 2, current_date() is null",
    "select * from (select id % 2 as k, id from range(9)) pivot (sum(id) for k in (0, 1))",
    "select id from range(9) where id in (select max(id) from range(3)) and exists (select 1 from range(2) r where r.id = 1)",
)


def same(frame: DataFrame) -> None:
    tree = PlanTree.of_frame(frame)
    assert json.loads(tree.text) == json.loads(tree.at("").toJSON())


@pytest.mark.parametrize("text", OTHERS)
def test_the_json_is_that_of_spark(spark: SparkSession, text: str) -> None:
    same(spark.sql(text))


def test_the_json_of_tpcds_is_that_of_spark(spark: SparkSession, tpcds_data: Path) -> None:
    for table in tpcds.TABLES:
        spark.read.parquet(str(tpcds_data / f"{table}.parquet")).createOrReplaceTempView(table)
    try:
        for text in cases(list(tpcds.queries().values()), quick=10):
            same(spark.sql(text))
    finally:
        for table in tpcds.TABLES:
            spark.catalog.dropTempView(table)


@pytest.mark.parametrize("text", OTHERS)
def test_facts_are_those_of_the_node_at_their_path(spark: SparkSession, text: str) -> None:
    tree = PlanTree.of_frame(spark.sql(text))
    found = 0
    for path, facts in tree.facts.items():
        node = tree.at(path)
        if "nullable" in facts:
            found += 1
            assert facts["nullable"] == node.nullable()
            assert facts["deterministic"] == node.deterministic()
            assert tree.types[facts["type"]] == node.dataType().json()
        for name in ("evalMode", "evalContext", "escapeChar"):
            if name in facts:
                assert facts[name] == str(getattr(node, name)())
    assert found > 0


def test_nodes_of_the_tree_are_those_of_the_jvm(spark: SparkSession) -> None:
    frame = spark.sql(
        "select a.id + 1 as n, cast(count(*) as string) c from range(9) a join range(3) b on a.id = b.id group by 1"
    )
    for operator in read_plan(PlanTree.of_frame(frame)).walk():
        assert operator.jvm.nodeName() == operator.kind
        for name in ("projectList", "aggregateExpressions", "condition"):
            for expression in operator.expressions(name) if name != "condition" else [operator.expression(name)]:
                for each in expression.walk() if expression is not None else ():
                    assert each.jvm.getClass().getSimpleName() == each.kind
