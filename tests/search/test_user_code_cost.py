"""User code that declares what it takes for a row gets more and smaller partitions, and all cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle import Session
from unshuffle.cost.machine import Machine
from unshuffle.errors import Source, UserCodeProblem
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import text
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan.physical import Exchange, PhysicalPlan, RunCombine, RunProcess, RunReduce
from unshuffle.target import Target
from unshuffle.verify import verify

ROWS = 200_000
CLASSES = """
from unshuffle import Combiner, Processor, Reducer

class Rows(Processor):
    {declared}
    def process_row(self, row):
        yield row

class Groups(Reducer):
    {declared}
    def reduce_rows(self, key, rows):
        yield {{**key, "n": sum(1 for _ in rows)}}

class Both(Combiner):
    {declared}
    def combine_rows(self, key, left_rows, right_rows):
        yield {{**key, "n": len(left_rows)}}
"""
QUERIES = {
    "process": "r = PROCESS t PRODUCE a:long, b:long USING mine.Rows();",
    "reduce": "r = REDUCE t ON a PRODUCE a:long, n:long READONLY a USING mine.Groups();",
    "filter": "s = SELECT * FROM t WHERE b > 5; r = REDUCE s ON a PRODUCE a:long, n:long READONLY a USING mine.Groups();",
    "combine": "r = COMBINE t WITH u ON t.a == u.a PRODUCE a:long, n:long USING mine.Both();",
}
Planned = Callable[..., PlannedQuery]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    rows = pa.table({"a": [i * 7919 % ROWS for i in range(ROWS)], "b": list(range(ROWS))})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=ROWS // 2)

    def plan(query: str, declared: str = "pass", cores: int = 16) -> PlannedQuery:
        (tmp_path / "mine.py").write_text(CLASSES.format(declared=declared))
        path = tmp_path / "rows.parquet"
        tables = "\n".join(f'{name} = EXTRACT a:long, b:long FROM "{path}" USING Parquet();' for name in "tu")
        script_text = f'{tables}\n{query}\nOUTPUT r TO "{tmp_path}/r.csv";'
        with Session() as session:
            source = Source(str(tmp_path / "s.scope"), script_text)
            script = session.pipeline.bind_source(source, None, is_script=True)
        optimized = optimize(script, Options(Target(Machine(cores=cores))))
        verify(optimized)
        return optimized

    return plan


def user_code(optimized: PlannedQuery) -> PhysicalPlan:
    nodes = [node for root in optimized.roots for node in root.walk()]
    (found,) = [node for node in nodes if isinstance(node.operator, RunProcess | RunReduce | RunCombine)]
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_expensive_code_gets_more_and_smaller_partitions(planned: Planned, name: str) -> None:
    cheap = user_code(planned(QUERIES[name]))
    dear = user_code(planned(QUERIES[name], "seconds_per_row = 0.008"))
    # 1,600 seconds of work for each input: 160 tasks of 10 seconds, from 16 cores in doublings.
    assert all(plan.size.partitions == 256 for plan in dear.inputs)
    assert all(plan.size.partitions <= 16 for plan in cheap.inputs)
    assert dear.own.seconds > 0.008 * ROWS / 16
    assert cheap.own.seconds < 1.0


def test_code_that_takes_little_is_no_reason_to_divide(planned: Planned) -> None:
    found = user_code(planned(QUERIES["reduce"], "seconds_per_row = 1e-6"))
    assert found.inputs[0].size.partitions <= 16


def test_the_cost_counts_where_user_code_works(planned: Planned) -> None:
    """An exchange above it serves other operators."""
    query = QUERIES["process"].replace("r =", "p =") + " r = SELECT a, COUNT(*) AS n FROM p GROUP BY a;"
    optimized = planned(query, "seconds_per_row = 0.008")
    above = [n for root in optimized.roots for n in root.walk() if isinstance(n.operator, Exchange)]
    assert above[0].size.partitions <= 32
    assert user_code(optimized).size.partitions == 256


@pytest.mark.parametrize("value", ["-1", "'long'", "True", "float('nan')", "float('inf')", "None"])
def test_a_cost_that_is_no_time_is_refused(planned: Planned, value: str) -> None:
    with pytest.raises(UserCodeProblem, match=r"seconds_per_row of mine\.Rows is") as problem:
        planned(QUERIES["process"], f"seconds_per_row = {value}")
    assert "in seconds" in str(problem.value.hint)


def test_explain_shows_what_is_declared(planned: Planned) -> None:
    assert "declares 8 ms a row" in text(physical_tree(planned(QUERIES["process"], "seconds_per_row = 0.008")))
