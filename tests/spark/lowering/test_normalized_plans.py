"""Normalized plans on Spark return the same rows, with duplicates, as the original plans.

Spark needs a second to plan a query and no time to run it on a handful of rows, so one job runs many plans, with each row
as JSON text.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.support.binding import context_for
from tests.support.random_plans import Draw
from tests.support.rule_differential import quick, union_all
from tests.support.show import show
from tests.support.wellformed import problems
from unshuffle import Session
from unshuffle.catalog.schema import Column, ColumnNumbers, Dependency
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize
from unshuffle.plan.expressions import Ref
from unshuffle.plan.logical import Files, Format, Output, Plan, Project, Scan, Script, TableScan
from unshuffle.plan.sql import literal
from unshuffle.spark.lowering.baseline import baseline
from unshuffle.spark.session import temporarily
from workloads.described import with_scans

pytestmark = pytest.mark.spark

PAIRS = 12  # of plans per job
EXAMPLES = 200 if "UNSHUFFLE_SOAK" in os.environ else 2

COLUMNS = {"t": "abcsx", "u": "defr", "k": ("id", "v", "w", "n"), "z": "ab"}
QUERIES = [
    # filters through one operator
    "select a, p from (select a, b + 1 as p from t) where p > 2 and a < 3",
    "select * from (select a, sum(b) as n from t group by a) where a > 1 or a is null",
    "select * from (select a, sum(b) as n from t group by a) where a > 0 and n > 1",
    "select * from (select count(*) as n from t) where n > 100",
    "select * from (select x, count(*) as n from t group by x) where x >= 0",
    "select * from (select distinct a, s from t) where s = 'a'",
    "select * from (select a, b, sum(c) as n from t group by rollup(a, b)) where a = 1 and n is not null",
    "select * from (select a, b, sum(c) as n from t group by cube(a, b)) where a is null",
    "select * from (select a, b, sum(c) as n, grouping_id() as g from t group by cube(a, b)) where b = 2 and g < 3",
    "select * from (select a, b, count(*) as n from z group by rollup(a, b)) where n > 0",
    "select a, n from (select a, b, row_number() over (partition by a order by b, c, s, x) as n from t) where a = 1 and n < 3",
    "select * from (select a, b, sum(b) over (partition by a) as m from t) where a = 2 and b = 1",
    "select * from (select a, b from t order by b, a limit 3) where a = 1",
    "select * from (select a, b from t union all select d, f from u) where b > 1 or a = 2",
    "select * from (select a, s from t union select d, r from u) where s < 'c'",
    "select * from (select a, b from t except select d, e from u) where a > 0",
    "select * from (select a from t except all select d from u) where a > 0",
    "select * from (select a from t intersect select d from u) where a is not null",
    "select * from (select a from t intersect all select f from u) where a > 0",
    "with w as (select a, b, s from t where b > 0) select p.a, q.s from w p join w q on p.a = q.b where p.b > 1",
    # joins of every kind, with conditions in every place
    "select * from t join u on a = d and b > 0 and e > 0 and a + d > 1 where c > 0 and f > 0 and c <> f",
    "select * from t left join u on a = d and b > 0 and e > 1 where c > 0 or c is null",
    "select * from t left join u on a = d and b > 0 where coalesce(f, 0) = 0",
    "select * from t left join u on a = d where f is null",
    "select b, e, r from t left join u on a = d and e > 1 where d is null and b is not null",
    "select b, coalesce(e, 7) from t left join u on a = d where e is null and d is null",
    "select * from t right join u on a = d and b > 0 and e > 1 where f > 0",
    "select * from t right join u on a = d where b = 1",
    "select * from t full join u on a = d and b > 0",
    "select * from t full join u on a = d where b > 0",
    "select * from t full join u on a = d where e > 0",
    "select * from t full join u on a = d where e > 0 and b > 0",
    "select * from t full join u on a = d where e is null or b is null",
    "select * from t left semi join u on a = d and b > 0 and e > 0 where c > 0",
    "select * from t left anti join u on a = d and b > 0 and e > 0 where c > 0 or c is null",
    "select t.a, u.f, k.n from t, u, k where a = d and e = id and b > 0 and n <> 'x'",
    "select count(*) from t, k, u where a = id and d = v",
    "select count(*) from t, u, k where a + d = id and d = v",
    "select t.a from t, z",
    "select t.a, z.b from t left join z on t.a = z.a where t.b > 0",
    "select k.n from (select a, e from t left join u on a = d) join k on e = id",
    "select k.n, a from k left join (select a, e from t left join u on a = d) on e = id",
    "select * from (select a, e from t left join u on a = d union all select id, v from k) where e = 1",
    "select e, count(*) from t left join u on a = d group by e having e > 0",
    "select * from (t join u on a = d) left semi join k on e = id",
    "select * from (t left join u on a = d) left anti join k on e = id",
    "select * from (t left join u on a = d) left anti join k on b = id and w > 0",
    "select * from t join u on a = d and s = r where a > 0",
    "select * from t join u on s = cast(f as string)",
    "select * from t join u on a <=> d where a is null or a = 1",
    # inferred conditions
    "select t.b, u.e from t join u on a = d where a = 1",
    "select t.b, u.e from t join u on a = f where f in (1, 2)",
    "select t.b, u.e, k.n from t join u on a = d join k on d = id where id between 1 and 2",
    "select t.b, u.e from t left join u on a = d where a < 2",
    "select t.b from t left anti join u on a = d where a < 2",
    "select x, y from t join (select cast(e as double) as y from u) on x = y where x = 0.0D",
    "select * from t, u where (a = d and b = 1) or (a = d and e = 2)",
    "select * from t, u where (b = 1 and e = 2) or (b = 2 and e = 1)",
    "select * from t left join u on a = d where (b = 1 and e = 2) or (b = 2 and e is null)",
    "select a from t where (a = 1 and b = 1) or a = 1",
    # keys and dependencies
    "select id, v, count(*), count(v), sum(v), min(n), max(v) filter (where w > 0), avg(v), sum(distinct w) from k group by id, v",
    "select id, collect_list(v) from k group by id",
    "select distinct id, n from k",
    "select a, b, max(n), count(n) from (select a, b, count(*) as n from t group by a, b) group by a, b",
    "select x, max(n) from (select x, count(*) as n from t group by x) group by x",
    "select id, v, w from k order by v, w, id, n",
    "select t.b from t left join k on a = id",
    "select t.b from k right join t on a = id and t.c > w",
    "select t.b from t left join k on a = v",
    "select distinct t.b from t left join k on a = v",
    "select t.b, max(c), count(distinct c) from t left join k on a = v group by t.b",
    "select t.b, sum(c) from t left join k on a = v group by t.b",
    "select * from t left semi join (select distinct d, e from u) on a = d",
    "select * from t left anti join (select d, count(*) as n from u group by d) on a = d and b = n",
    # empty inputs
    "select a, sum(b) from t where a = 1 and a = 2 group by a",
    "select count(*), sum(b) from t where 1 = 0",
    "select a, f from t left join u on a = d and 1 = 2",
    "select a, f from t full join (select * from u where cast(null as boolean)) on a = d",
    "select a from t where a < a union all select d from u",
    "select a from t where a = null union all select f from u",
    "select a from t where not (a = null)",
    "select count(*) from z limit 2",
    "select a from t limit 0",
    # columns and names
    "select count(*) from t",
    "select 1 as one from t join u on a = d",
    "select z, count(*) as n, max(y) as m from (select a as z, b + 1 as y from t) group by z order by z",
    "select p.q, p.q as r from (select z as q from (select a as z, b from t) where b > 0) p join u on q = d",
    "select y + z as q from (select a as y, a as z from t) join u on y = d and z = e",
    "select n from (select a, b, row_number() over (order by a, b, c, s, x) as n, sum(c) over (partition by b) as m from t)",
    "select a from t order by b, c, a, s limit 2",
    "select a, (select max(e) from u) as m from t where b > (select min(d) from u)",
    "select a from t where exists (select 1 from u where d = a and e > b) and c not in (select id from k)",
]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Path]]:
    folder = tmp_path_factory.mktemp("tables")
    nan = float("nan")
    t = {
        "a": pa.array([1, 1, 2, 3, None, None, 0, 1], pa.int32()),
        "b": pa.array([1, 2, 1, None, 1, None, 2, 1], pa.int32()),
        "c": pa.array([3, 0, None, 2, 1, None, 3, 3], pa.int32()),
        "s": ["a", "b", "1", None, "01", "a", "c", "a"],
        "x": [0.0, -0.0, nan, None, 1.0, nan, 2.5, 0.0],
    }
    u = {
        "d": pa.array([1, 2, 2, None, 5], pa.int32()),
        "e": pa.array([2, 1, 1, 0, 3], pa.int32()),
        "f": pa.array([1, None, 3, 2, 1], pa.int64()),
        "r": ["a", "b", None, "x", "1"],
    }
    k = {
        "id": pa.array([0, 1, 2, 3], pa.int32()),
        "v": pa.array([1, 1, None, 2], pa.int32()),
        "w": pa.array([2, 2, None, 1], pa.int32()),
        "n": ["x", "y", None, "x"],
    }
    z = {"a": pa.array([], pa.int32()), "b": pa.array([], pa.int32())}
    for name, columns in {"t": t, "u": u, "k": k, "z": z}.items():
        # The columns that random plans assume to be NOT NULL have no NULLs. The file does not declare it.
        table = pa.table(columns)
        pq.write_table(table, folder / f"{name}.parquet")
        spark.sql(_as_values(table)).createOrReplaceTempView(f"normalize_{name}")
    (folder / "c.csv").write_text("1,2\n2,\n,0\n1,2\n")
    with quick(spark), temporarily(spark, **{"spark.sql.optimizer.maxIterations": 4}):
        yield Session(spark, tables=folder, effort="full"), folder
    for name in "tukz":
        spark.catalog.dropTempView(f"normalize_{name}")


def _as_values(table: pa.Table) -> str:
    """Rows as SQL text, which Spark reads without a job."""
    types = table.schema.types
    if not table.num_rows:
        nulls = zip(types, table.column_names, strict=True)
        return f"select {', '.join(f'{literal(None, type)} as {name}' for type, name in nulls)} where false"
    rows = (", ".join(map(literal, row.values(), types)) for row in table.to_pylist())
    return f"select * from values {', '.join(f'({row})' for row in rows)} as t({', '.join(table.column_names)})"


def with_keys(scan: Scan) -> Scan:
    if not scan.files.paths[0].endswith("k.parquet"):
        return scan
    id, v, w, _ = scan.columns
    return replace(scan, keys=(frozenset((id,)),), dependencies=(Dependency(frozenset((v,)), frozenset((w,))),))


def differences(session: Session, pairs: Sequence[tuple[str, Plan, Plan]]) -> dict[str, str]:
    """Each pair of plans with different rows."""
    with baseline(session.spark) as plain:
        frames = []
        for place, (_, *plans) in enumerate(pairs):
            frames += [_as_text(plain.result(plan), place, side) for side, plan in enumerate(plans)]
        rows = union_all(frames).collect()
    sides: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for place, side, text in rows:
        sides[place, side][text] += 1
    return {
        name: f"{sorted(sides[place, 0].elements())} became {sorted(sides[place, 1].elements())}\n{show(after, True)}"
        for place, (name, _, after) in enumerate(pairs)
        if sides[place, 0] != sides[place, 1]
    }


def _as_text(frame: DataFrame, place: int, side: int) -> DataFrame:
    named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    # Zero has two signs that are equal, and a group may return either.
    normal = [
        F.when(F.col(n) == 0, F.lit(0.0)).otherwise(F.col(n)).alias(n) if t == "double" else F.col(n)
        for n, t in named.dtypes
    ]
    return named.select(F.lit(place), F.lit(side), F.to_json(F.struct(*normal)))


def in_memory(plan: Plan) -> Plan:
    """The plan over the same tables as in-memory views, which Spark reads in a tenth of the time."""
    numbers = count(1_000_000)

    def view(scan: Scan) -> Plan:
        read = {column.name: column for column in scan.columns}
        names = COLUMNS[Path(scan.files.paths[0]).stem]
        columns = tuple(read.get(name) or Column(next(numbers), name) for name in names)
        table = TableScan((f"normalize_{Path(scan.files.paths[0]).stem}",), columns)
        return Project(table, tuple((column, Ref(column)) for column in scan.columns))

    return with_scans(Script((Output(plan, None),)), view).outputs[0].plan  # type: ignore[arg-type]


def pair(session: Session, query: str) -> tuple[str, Plan, Plan]:
    script = with_scans(session.pipeline.bind(query), with_keys)
    assert not script.foreign
    (output,) = script.outputs
    normal = normalize(output.plan, context_for(output.plan))
    assert normal.columns == output.plan.columns
    assert not problems(normal)
    return query, output.plan, normal


def test_queries(tables: tuple[Session, Path]) -> None:
    session, _ = tables

    def bind_pair(query: str) -> tuple[str, Plan, Plan]:
        return pair(session, query)

    assert len(QUERIES) >= 60
    pairs = [(query, in_memory(before), in_memory(after)) for query, before, after in map(bind_pair, QUERIES)]
    found: dict[str, str] = {}
    for start in range(0, len(pairs), PAIRS):
        found |= differences(session, pairs[start : start + PAIRS])
    assert not found, "\n".join(f"{query}\n{difference}" for query, difference in found.items())


@st.composite
def plans_for_spark(draw: Any) -> tuple[Plan, ColumnNumbers]:
    """Random plans without user-defined operators, because there is no user code to run."""
    drawing = Draw(draw, without=("process", "reduce"))
    return drawing.plan(2), drawing.numbers


def test_random_plans(tables: tuple[Session, Path]) -> None:
    session, folder = tables

    def with_files(scan: Scan) -> Scan:
        name, format = ("c.csv", Format("Csv")) if scan.label == "c" else (f"{scan.label}.parquet", Format("Parquet"))
        return replace(scan, files=Files((str(folder / name),), format))

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="UNSHUFFLE_SOAK" not in os.environ,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.lists(plans_for_spark(), min_size=PAIRS, max_size=PAIRS))
    def check(drawn: list[tuple[Plan, ColumnNumbers]]) -> None:
        pairs = []
        for plan, numbers in drawn:
            script = with_scans(Script((Output(plan, None),)), with_files)
            real = script.outputs[0].plan
            pairs.append((show(real, True), real, normalize(real, Rewriting(numbers))))
        found = differences(session, pairs)
        assert not found, "\n".join(f"{plan}\n{difference}" for plan, difference in found.items())

    check()
