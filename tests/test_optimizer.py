"""Plans that the papers promise, chosen by cost over tables that are described, not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import UnionType

import pytest

from unshuffle.cost.machine import Machine
from unshuffle.optimizer import Options, PlannedQuery, optimize
from unshuffle.plan import physical
from unshuffle.plan.logical import Scan
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Delivered,
    FullMerge,
    HashFunction,
    Partitioned,
    RandomMerge,
    Repartitioning,
    Replicated,
    Serial,
    SortMerge,
    asc,
    hashed,
)
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads.described import Described, parse, with_scans

Plan = Callable[..., PhysicalPlan]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Optimizes a query or a script over described tables, and verifies the plan."""

    def optimized(
        tables: str,
        text: str,
        layouts: dict[str, tuple[str, int]] | None = None,
        cores: int = 100,
        script: bool = False,
        machine: Machine | None = None,
        on_spark: bool = True,
    ) -> PhysicalPlan:
        described = Described(tmp_path / "tables", parse(tables))
        bound = described.bind(text, "query", is_script=script)
        if layouts:
            bound = with_scans(bound, lambda scan: _stored(scan, layouts))
        options = Options(Target(machine or Machine(cores=cores)))
        if not on_spark:
            options = replace(options, accepts=lambda operator, inputs: True)
        chosen = optimize(bound, options)
        verify(chosen)
        return chosen.outputs[0][1]

    return optimized


def _stored(scan: Scan, layouts: dict[str, tuple[str, int]]) -> Scan:
    if scan.label not in layouts:
        return scan
    names, count = layouts[scan.label]
    columns = [next(c for c in scan.columns if c.name == name) for name in names.split()]
    layout = Delivered(hashed(columns, count), tuple(asc(c) for c in columns))
    return replace(scan, layout=layout, stored=layout)


def nodes(plan: PhysicalPlan, kind: type | UnionType) -> list[PhysicalPlan]:
    return [node for node in plan.walk() if isinstance(node.operator, kind)]


def exchanges(plan: PhysicalPlan) -> list[str]:
    """Every exchange, top-down: its partitioning columns, or its kind."""
    return [_exchange(node.operator) for node in nodes(plan, physical.Exchange)]


def _exchange(operator: physical.Exchange) -> str:
    match operator.how:
        case FullMerge(merge=RandomMerge()):
            return "gather"
        case FullMerge(merge=SortMerge()):
            return "gather in order"
        case Repartitioning(scheme=Replicated()):
            return "copy"
        case Repartitioning(scheme=Partitioned() as layout):
            return " ".join(column.name for column in layout.columns)
        case other:
            return type(other).__name__


# --- ICDE 2010, section I: R join S on a, b, then group by c, d

INTRODUCTION = """
select r.c, s.d, count(*) as n
from r, s
where r.a = s.a and r.b = s.b and r.p like '%x%' and s.q like '%y%'
group by r.c, s.d
"""


def tables(dependency: str, values_of_a: int = 10_000_000) -> str:
    return f"""
r  rows=1000000000 {dependency}
    a bigint distinct={values_of_a}
    b bigint distinct=1000000
    c bigint distinct=500000000
    p string width=40
s  rows=1000000000
    a bigint distinct={values_of_a}
    b bigint distinct=1000000
    d bigint distinct=1000
    q string width=40
"""


def test_with_the_dependency_one_partitioning_of_each_input_serves_join_and_grouping(plan: Plan) -> None:
    chosen = plan(tables("depends(c -> a)"), INTRODUCTION, cores=500)
    assert exchanges(chosen) == ["a", "a"]


def test_without_the_dependency_that_plan_is_not_valid(plan: Plan) -> None:
    chosen = plan(tables(""), INTRODUCTION, cores=500)
    assert exchanges(chosen) == ["c d", "a b", "a b"]


def test_with_few_values_to_partition_by_two_partitionings_are_cheaper(plan: Plan) -> None:
    """20 values of a keep only 20 of 500 cores busy, so the dependency does not help."""
    chosen = plan(tables("depends(c -> a)", values_of_a=20), INTRODUCTION, cores=500)
    assert exchanges(chosen) == ["c d", "a b", "a b"]


# --- SIGMOD 2012, section 3.3.3: unnecessary repartitionings

ONE = """
t  rows=1000000000 {facts}
    a bigint distinct=100000000
    b bigint distinct=100000000
    v double
"""
TWO = (
    ONE
    + """
u  rows=1000000000
    a bigint distinct=100000000
    w double
"""
)
GROUPED = "select a, sum(v) as total from t group by a"
JOINED = "select t.a, t.v, u.w from t join u on t.a = u.a"


def test_a_dependency_saves_the_repartitioning(plan: Plan) -> None:
    """Hashed on b: rows that agree on a also agree on b, so they are in one partition."""
    chosen = plan(ONE.format(facts="depends(a -> b)"), GROUPED, {"t": ("b", 400)})
    assert exchanges(chosen) == []


def test_the_reverse_dependency_does_not_save_it(plan: Plan) -> None:
    """With b -> a, rows that agree on a may have several b (the paper has this the wrong way round)."""
    chosen = plan(ONE.format(facts="depends(b -> a)"), GROUPED, {"t": ("b", 400)})
    assert exchanges(chosen) == ["a"]


def test_a_constant_saves_the_repartitioning(plan: Plan) -> None:
    query = "select a, sum(v) as total from t where b = 5 group by a"
    few = ONE.format(facts="").replace("b bigint distinct=100000000", "b bigint distinct=2")
    assert exchanges(plan(few, query, {"t": ("a b", 400)})) == []
    assert exchanges(plan(few, query.replace("b = 5", "b > 5"), {"t": ("a b", 400)})) == ["a"]


def test_a_dependency_does_not_make_two_inputs_co_partitioned(plan: Plan) -> None:
    """t is clustered on a by a function of b, so u hashed on a is not co-partitioned with t. t must be repartitioned,
    because u has no b to be partitioned by."""
    chosen = plan(TWO.format(facts="depends(a -> b)"), JOINED, {"t": ("b", 400), "u": ("a", 400)})
    assert exchanges(chosen) == ["a"]
    (join,) = [node for node in chosen.walk() if isinstance(node.operator, physical.HashJoin | physical.MergeJoin)]
    assert isinstance(join.inputs[0].delivered.partitioning, Partitioned)
    assert {c.name for each in join.inputs for c in each.delivered.partitioning.columns} == {"a"}


def test_co_partitioned_inputs_are_joined_in_place(plan: Plan) -> None:
    chosen = plan(TWO.format(facts=""), JOINED, {"t": ("a", 400), "u": ("a", 400)})
    assert exchanges(chosen) == []


def test_a_layout_is_pushed_to_the_other_input(plan: Plan) -> None:
    """u is repartitioned by t's function, into t's number of partitions."""
    chosen = plan(TWO.format(facts=""), JOINED, {"t": ("a", 300)})
    assert exchanges(chosen) == ["a"]
    (move,) = nodes(chosen, physical.Exchange)
    assert move.delivered.partitioning.function == HashFunction((move.delivered.partitioning.columns[0].type,), 300)


def test_forty_five_partitions_become_ninety(plan: Plan) -> None:
    """SIGMOD 2012, section 3.3.1: 100 would be ideal, but 90 are read in place."""
    chosen = plan(ONE.format(facts=""), "select a, b, sum(v) as s from t group by a, b", {"t": ("a", 45)})
    (scan,) = nodes(chosen, physical.FileScan)
    assert not exchanges(chosen)
    assert scan.delivered.partitioning.function.partitions == 90
    assert scan.operator.readers == 2


# --- serial, parallel and mixed plans

EVENTS = """
started  rows={rows}
    event_time bigint distinct={times}
    guid string distinct={guids} width=36
ended  rows={rows}
    event_time bigint distinct={times}
    user_group string distinct={groups} width=12
    guid string distinct={guids} width=36
"""
CPU_HOURS = """
start_data = SELECT DISTINCT event_time AS start_time, guid FROM started;
end_data = SELECT DISTINCT event_time AS end_time, user_group, guid FROM ended;
usage = SELECT user_group, SUM(end_time - start_time) / 3600000 AS hours
    FROM start_data JOIN end_data ON start_data.guid == end_data.guid
    GROUP BY user_group ORDER BY user_group;
OUTPUT usage TO "usage.csv" USING Csv();
"""


def events(rows: int, groups: int) -> str:
    return EVENTS.format(rows=rows, times=rows // 2, guids=int(rows * 0.87), groups=groups)


# The cluster of the paper's section IX used 150 partitions for 173 and 264 GB: more than a task can hold. Its engine
# streamed and merged, so hash tables are expensive here and merging is cheap. Spark's hash tables are cheap, and it sorts
# after an exchange.
PAPER = Machine(
    cores=150,
    partition_bytes=4e9,
    task_memory=400e6,
    hash_group_row=10e-6,
    sort_row=0.0,
    compare=9e-9,
    file_piece_bytes=128e6,
)
BILLIONS = 3_000_000_000


def test_cpu_hours_is_planned_as_in_the_paper(plan: Plan) -> None:
    """ICDE 2010, Figure 3(b): each input is sorted once and partitioned on guid once, which serves its DISTINCT and the
    merge join. The few partial sums are merged in order and finished in one partition."""
    chosen = plan(events(BILLIONS, 20), CPU_HOURS, script=True, machine=PAPER, on_spark=False)
    (join,) = nodes(chosen, physical.MergeJoin)
    for side in join.inputs:
        assert list(kinds(side)) == ["SortAggregate", "Exchange", "LocalSort", "FileScan"]
        assert exchanges(side) == ["guid"]
        assert nodes(side, physical.LocalSort)[0].operator.keys[0].column.name == "guid"
    above = [node for node in chosen.walk() if node not in set(join.walk())]
    assert [_exchange(node.operator) for node in above if isinstance(node.operator, physical.Exchange)] == [
        "gather in order"
    ]
    sums = [node for node in above if isinstance(node.operator, physical.HashAggregate | physical.SortAggregate)]
    assert [(node.operator.phase, node.alternative) for node in sums] == [
        ("final", "serial"),
        ("partial", "partitioned"),
    ]


def test_on_spark_sorts_come_after_exchanges(plan: Plan) -> None:
    """Spark's exchanges do not merge sorted inputs, so a plan must not rely on that."""
    chosen = plan(events(BILLIONS, 20), CPU_HOURS, script=True, machine=PAPER)
    (join,) = nodes(chosen, physical.MergeJoin)
    for side in join.inputs:
        assert list(kinds(side)) == ["SortAggregate", "LocalSort", "Exchange", "FileScan"]


def test_on_spark_each_input_of_cpu_hours_is_partitioned_once(plan: Plan) -> None:
    chosen = plan(events(BILLIONS, 20), CPU_HOURS, script=True, machine=Machine(cores=150, partition_bytes=4e9))
    (join,) = [node for node in chosen.walk() if isinstance(node.operator, physical.HashJoin | physical.MergeJoin)]
    assert [exchanges(side) for side in join.inputs] == [["guid"], ["guid"]]


def test_with_many_user_groups_the_final_aggregate_is_parallel(plan: Plan) -> None:
    chosen = plan(events(BILLIONS, 500_000_000), CPU_HOURS, script=True, machine=PAPER)
    assert set(exchanges(chosen)) == {"user_group", "guid"}
    assert exchanges(chosen).count("guid") == 2
    first = next(
        node for node in chosen.walk() if isinstance(node.operator, physical.HashAggregate | physical.SortAggregate)
    )
    assert first.alternative == "partitioned"


def test_sums_are_computed_below_a_join_that_repeats_rows(plan: Plan) -> None:
    """The partial aggregate reduces a thousand rows of each key to one before the exchange. Its states are joined with
    all rows of the other input."""
    many = """
fact  rows=2000000000
    k bigint distinct=2000000
    v bigint
dim  rows=50000000
    id bigint distinct=2000000
    name string distinct=20000 width=30
"""
    query = "select name, sum(v) as s, count(v) as n from fact join dim on fact.k = dim.id group by name"
    chosen = plan(many, query, cores=8)
    (join,) = nodes(chosen, physical.HashJoin | physical.MergeJoin)
    (below,) = nodes(join.inputs[0], physical.HashAggregate)
    assert (exchanges(join.inputs[0]), below.operator.phase, below.operator.keys[0].name) == (["k"], "partial", "k")
    assert next(node for node in chosen.walk() if hasattr(node.operator, "phase")).operator.phase == "final"


def test_small_inputs_are_planned_serially(plan: Plan) -> None:
    chosen = plan(events(10_000, 20), CPU_HOURS, script=True, cores=8)
    assert all(isinstance(node.delivered.partitioning, Serial) for node in chosen.walk())


def test_two_columns_of_an_input_in_one_class_must_agree(plan: Plan) -> None:
    """x.a = y.c and x.b = y.c: joining on one of the two and dropping the other would let rows with a <> b through."""
    three = "\n".join(
        f"{name}  rows=1000\n    a bigint distinct=10\n    b bigint distinct=10\n    c bigint distinct=10"
        for name in "xyz"
    )
    chosen = plan(three, "select x.a from x, y, z where x.a = y.c and x.b = y.c and y.a = z.a", cores=8)
    filters = [str(node.operator.predicate) for node in nodes(chosen, physical.Filter)]
    conditions = [
        key for node in chosen.walk() for key in getattr(node.operator, "keys", ()) if hasattr(key, "columns")
    ]
    names = [{column.name for column in key.columns} for key in conditions]
    assert len(filters) == 1 or sum(pair in ({"a", "c"}, {"b", "c"}) for pair in names) == 2


def test_one_rowset_for_two_uses_is_computed_once_where_that_is_cheaper(tmp_path: Path) -> None:
    script = """
    base = SELECT a, b, SUM(v) AS s FROM t GROUP BY a, b;
    one = SELECT a, SUM(s) AS s FROM base GROUP BY a;
    two = SELECT b, SUM(s) AS s FROM base GROUP BY b;
    OUTPUT one TO "one.csv" USING Csv();
    OUTPUT two TO "two.csv" USING Csv();
    """
    few = ONE.format(facts="").replace("distinct=100000000", "distinct=1000")
    chosen = _script(tmp_path, few, script)
    assert [spool.name for spool in chosen.spools] == ["base"]
    assert sum(len(nodes(root, physical.FileScan)) for root in chosen.roots) == 1
    assert sum(len(nodes(root, physical.ReadSpool)) for root in chosen.roots) == 2
    cheap = """
    base = SELECT a, b, v + 1 AS s FROM t WHERE a = 7;
    one = SELECT b, s FROM base WHERE s > 5;
    two = SELECT b, s FROM base WHERE s < 2;
    OUTPUT one TO "one.csv" USING Csv();
    OUTPUT two TO "two.csv" USING Csv();
    """
    small = "t  rows=1000\n    a bigint distinct=10\n    b bigint distinct=10\n    v double\n"
    assert _script(tmp_path, small, cheap).spools == ()


def test_rows_that_differ_each_time_are_computed_once(tmp_path: Path) -> None:
    script = """
    base = SELECT a, rand() AS r FROM t;
    one = SELECT a, r FROM base WHERE r > 0.5;
    two = SELECT a, r FROM base WHERE r <= 0.5;
    OUTPUT one TO "one.csv" USING Csv();
    OUTPUT two TO "two.csv" USING Csv();
    """
    small = "t  rows=1000\n    a bigint distinct=10\n"
    assert [spool.name for spool in _script(tmp_path, small, script).spools] == ["base"]


def _script(tmp_path: Path, tables: str, text: str) -> PlannedQuery:
    described = Described(tmp_path / "tables", parse(tables))
    chosen = optimize(described.bind(text, "script", is_script=True), Options(Target(Machine(cores=100))))
    verify(chosen)
    return chosen


def kinds(plan: PhysicalPlan) -> Iterator[str]:
    for node in plan.walk():
        yield type(node.operator).__name__


def test_without_the_rule_joins_stay_as_written(tmp_path: Path) -> None:
    script = Described(tmp_path, parse(THREE)).bind("select r.a from r join s on r.a = s.a join q on q.a = s.a")
    chosen = optimize(script, Options(disabled=frozenset(("order_joins",)))).outputs[0][1]
    assert (
        len([node for node in chosen.walk() if isinstance(node.operator, physical.HashJoin | physical.MergeJoin)]) == 2
    )


THREE = """
r  rows=1000
    a bigint distinct=100
s  rows=1000
    a bigint distinct=100
q  rows=10
    a bigint distinct=10
"""


CHAIN = "".join(f"t{i}  rows=1000\n    a{i} bigint distinct=1000\n    b{i} bigint distinct=1000\n" for i in range(5))
JOINS = "select a0, sum(b4) as s from t0, t1, t2, t3, t4 where b0 = a1 and b1 = a2 and b2 = a3 and b3 = a4 group by a0"


@pytest.mark.parametrize("expressions", [1, 2, 5, 10, 20, 40])
def test_there_is_a_plan_under_any_budget(tmp_path: Path, expressions: int) -> None:
    bound = Described(tmp_path / "tables", parse(CHAIN)).bind(JOINS, "query", is_script=False)
    chosen = optimize(bound, Options(Target(Machine(cores=4)), expressions=expressions))
    verify(chosen)
    joins = nodes(chosen.outputs[0][1], physical.HashJoin) + nodes(chosen.outputs[0][1], physical.MergeJoin)
    assert len(joins) == 4


ROLLED_UP = """
fact  rows=20000000
    item bigint distinct=5000
    store bigint distinct=10
    v bigint distinct=1000000
item  rows=5000 key(id)
    id bigint distinct=5000
    category bigint distinct=12
    brand bigint distinct=2000
"""


def test_partial_aggregates_above_broadcasts_have_as_many_partitions_as_the_large_table(plan: Plan) -> None:
    """The rows of the table are where its files are, also after a join with a copy and after grouping sets are expanded. With
    one partial state a group for every partition that an exchange would make, there would be too many of them."""
    chosen = plan(
        ROLLED_UP,
        "select category, brand, store, sum(v) as total from fact, item where item = id"
        " group by rollup (category, brand, store)",
        cores=2,
    )
    (partial,) = (each for each in nodes(chosen, physical.HashAggregate) if each.operator.phase == "partial")  # type: ignore[attr-defined]
    (scan,) = (each for each in nodes(chosen, physical.FileScan) if each.size.rows > 1_000_000)
    groups = nodes(chosen, physical.HashAggregate)[0].size.rows
    assert partial.size.rows <= scan.size.partitions * groups


def test_nobody_watches_a_dataframe_so_it_rests_on_no_guesses(tmp_path: Path) -> None:
    """The conditions on `note` are guesses. A file is planned again if they are wrong, and broadcasts the few rows that it
    expects. A DataFrame would be stuck with all of them."""
    text = """
sales  rows=2000000000
    item bigint distinct=300000000
    price double
items  rows=300000000 key(id)
    id   bigint low=1 high=300000000
    note string width=40
"""
    query = "select price, note from sales join items on item = id where note like '%a%' and pmod(hash(note), 7) = 3"

    def broadcasts(is_managed: bool, conditions: str = query) -> bool:
        bound = Described(tmp_path, parse(text)).bind(conditions, "query", is_script=False)
        chosen = optimize(bound, Options(Target(Machine(cores=4), is_managed=is_managed)))
        verify(chosen)
        return any("Replicated" in repr(node.operator.how) for node in nodes(chosen.roots[0], physical.Exchange))

    assert broadcasts(is_managed=True)
    assert not broadcasts(is_managed=False)
    counted = "select price, note from sales join items on item = id where id < 2000"
    assert broadcasts(is_managed=False, conditions=counted)
