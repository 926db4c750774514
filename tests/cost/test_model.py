"""The cost model: every operator has a cost, costs grow with the work, and none is below `lower_bound`."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.constants import COST, MachineConstants
from unshuffle.cost.formulas import FORMULAS
from unshuffle.cost.machine import Machine
from unshuffle.cost.model import CostModel
from unshuffle.errors import Source
from unshuffle.plan import logical, physical
from unshuffle.plan.expressions import AggregateCall, Call, Literal, Ref, WindowCall
from unshuffle.plan.physical import SizeEstimate
from unshuffle.properties import (
    ConcatMerge,
    Delivered,
    FullMerge,
    InitialPartitioning,
    JoinKey,
    PartialMerge,
    PartialPartitioning,
    RandomMerge,
    RangeFunction,
    RangeKey,
    Repartitioning,
    Replicated,
    SampledBoundaries,
    Serial,
    SortConcatMerge,
    SortMerge,
    TargetedBroadcast,
    UnknownPartitioning,
    asc,
    hashed,
    ranged,
)
from unshuffle.properties.matching.operator_requirements import MergeKey

A, B, C, D = (Column(i, name, pa.int64()) for i, name in enumerate("abcd", 1))
SCAN = logical.Scan("t", logical.Files(("t.parquet",), logical.Format("Parquet")), (A, B))
OTHER = logical.Scan("u", logical.Files(("u.parquet",), logical.Format("Parquet")), (C, D))
LESS = Call("<", (Ref(A), Ref(B)), pa.bool_())
BOTH = Call("and", (LESS, Call("<", (Ref(B), Ref(A)), pa.bool_())), pa.bool_())
SUM = (D, AggregateCall("sum", (Ref(B),), pa.int64()))
LIST = (C, AggregateCall("collect_list", (Ref(B),), pa.list_(pa.int64())))
USER = logical.UserClass("mine", "Class", (), (), (), Source("s", "Class").span(0, 5))
JOIN = logical.Join(JoinKind.INNER, SCAN, OTHER, None)
KEY = JoinKey((A, C), pa.int64())
RANGE = ranged([asc(A)], SampledBoundaries("s", 8))
COVERING = TargetedBroadcast(RangeFunction((RangeKey(pa.int64()),) * 2, ((1, 2), (1, 3), (5,))), (A,))
SORTED = (asc(A),)
ALL_OF = logical.SetOperation(logical.SetKind.INTERSECT, True, (SCAN, OTHER), (A, B))

EXCHANGES = (
    InitialPartitioning(UnknownPartitioning(8)),
    InitialPartitioning(hashed([A], 8)),
    Repartitioning(hashed([A], 8), RandomMerge()),
    Repartitioning(hashed([A], 8), SortMerge(SORTED)),
    Repartitioning(RANGE, RandomMerge()),
    Repartitioning(RANGE, SortMerge(SORTED)),
    Repartitioning(Replicated(), RandomMerge()),
    Repartitioning(COVERING, RandomMerge()),
    InitialPartitioning(COVERING),
    FullMerge(RandomMerge()),
    FullMerge(SortMerge(SORTED)),
    FullMerge(ConcatMerge()),
    FullMerge(SortConcatMerge(SORTED)),
    PartialPartitioning(hashed([A], 2)),
    PartialMerge((0, 1, 0, 1), RandomMerge()),
)

# Examples of every operator, with their numbers of inputs.
EXAMPLES: list[tuple[Any, int]] = [
    (physical.FileScan(SCAN, Delivered(Serial())), 0),
    (physical.TableRead(logical.TableScan(("t",), (A, B))), 0),
    (physical.Rows(logical.Values((), (A,))), 0),
    (physical.Filter(LESS, (A, B)), 1),
    (physical.Filter(BOTH, (A, B)), 1),
    (physical.Project(((A, Ref(A)), (C, LESS))), 1),
    (physical.Rename("r", (C, D), (A, B)), 1),
    (physical.Expand(logical.Expand(SCAN, ((C, A),), ((A,), ()), D)), 1),
    (physical.HashAggregate((A,), (SUM,)), 1),
    (physical.HashAggregate((), (SUM,), "partial"), 1),
    (physical.HashAggregate((A,), (SUM,), "combining"), 1),
    (physical.HashAggregate((A,), (SUM,), "final", (B,)), 1),
    (physical.HashAggregate((A,), (SUM, LIST)), 1),
    (physical.SortAggregate((A,), (SUM,)), 1),
    (physical.HashJoin(JOIN, (KEY,), None, build=0), 2),
    (physical.HashJoin(JOIN, (KEY,), None, build=1), 2),
    (physical.MergeJoin(JOIN, (KEY,), None, by=(MergeKey(KEY),)), 2),
    (physical.NestedLoopJoin(JOIN, (), None, inner=0), 2),
    (physical.NestedLoopJoin(JOIN, (), None, inner=1), 2),
    (physical.Concatenate((A, B), ((A, B), (C, D))), 2),
    (physical.PartitionwiseUnion((A, B), ((A, B), (C, D)), (KEY,)), 2),
    (physical.MultisetOperation(ALL_OF, (KEY,)), 2),
    (physical.OrderBy(SORTED, (A, B)), 1),
    (physical.Limit(10, 0, SORTED, (A, B)), 1),
    (physical.PartialTopN(10, SORTED, (A, B)), 1),
    (physical.PartialTopN(10, (), (A, B)), 1),
    (physical.Windows(((D, WindowCall(SUM[1], (Ref(A),), (), None)),), (A,), (), (A, B)), 1),
    (physical.RunProcess(logical.Process(SCAN, USER, (C,))), 1),
    (physical.RunReduce(logical.Reduce(SCAN, (A,), (), USER, (C,)), ()), 1),
    (physical.RunCombine(logical.Combine(SCAN, OTHER, (A,), (C,), USER, (C,)), (KEY,)), 2),
    (physical.SparkFallback(logical.Foreign("", (), (A,), "no reason"), "no reason"), 1),
    (physical.ReadSpool("r", 1, (A,), Delivered(Serial())), 0),
    (physical.LocalSort(SORTED, (A, B)), 1),
    *((physical.Exchange(how, (A, B)), 1) for how in EXCHANGES),
    (physical.Exchange(EXCHANGES[3], (A, B), readers=2.0), 1),
]


def test_every_operator_has_a_formula() -> None:
    assert {each.__name__ for each in physical.OPERATORS} == {each.__name__ for each in FORMULAS}


def test_every_operator_is_among_the_examples() -> None:
    assert {each.__name__ for each in physical.OPERATORS} == {type(each).__name__ for each, _ in EXAMPLES}


# --------------------------------------------------------------------------------------------------------- strategies


def odd_machine(seed: int) -> Machine:
    """Arbitrary constants: the properties of costs must hold for every calibration."""
    rng = Random(seed)
    rates = [each.name for each in fields(Machine) if each.default < 1]
    sizes = {"cores": rng.choice([1, 2, 8, 64]), "task_memory": rng.choice([0.0, 1e6, 1e12])}
    return replace(Machine(), **{name: rng.choice([0.0, 10 ** rng.uniform(-10, -2)]) for name in rates}, **sizes)


MACHINES = [*(Machine(cores=cores) for cores in (1, 2, 8, 64)), *map(odd_machine, range(40))]
machines = st.sampled_from(MACHINES)
sizes = st.floats(0, 1e10) | st.integers(0, 1000).map(float)


@st.composite
def amounts(draw: st.DrawFn) -> SizeEstimate:
    """The size of some rows: broadcast, in one partition, or in partitions of which the largest has at least its
    share."""
    partitions = draw(st.sampled_from([0, 1, 2, 3, 7, 64, 1000]))
    even = 1 / partitions if partitions else 1.0
    largest, guesses = max(even, draw(st.floats(0, 1))), draw(st.integers(0, 7))
    return SizeEstimate(draw(sizes), draw(sizes), partitions, largest, guesses=guesses)


# As many as the operator with the most inputs has, and the result.
flows = st.tuples(amounts(), amounts(), amounts())
Flow = tuple[SizeEstimate, ...]


def cost(model: CostModel, operator: Any, count: int, flow: Flow) -> float:
    return model.cost(operator, flow[:count], flow[-1]).seconds


def least(model: CostModel, operator: Any, count: int, flow: Flow) -> float:
    """As the search calls it: for whole groups, before their layouts are known."""
    whole = [SizeEstimate(a.rows, a.bytes, model.ideal_partitions(a.rows, a.bytes), 0.0) for a in flow]
    return model.lower_bound(operator, whole[:count], whole[-1])


def assert_at_most(one: float, other: float, operator: Any) -> None:
    """Up to rounding, which depends on the order of additions."""
    assert one <= other * (1 + 1e-9) + 1e-15, operator


# ------------------------------------------------------------------------------------------------------------ theorems


@given(flow=flows, machine=machines)
def test_no_layout_of_the_same_rows_costs_less_than_the_lower_bound(flow: Flow, machine: Machine) -> None:
    model = CostModel(machine)
    for operator, count in EXAMPLES:
        assert_at_most(least(model, operator, count, flow), cost(model, operator, count, flow), operator)


@given(flow=flows)
def test_the_lower_bound_is_tight_without_spills(flow: Flow) -> None:
    """A bound of zero would be valid and useless. Only a sort has a better case: many small partitions. A join needs
    jobs of its own only if it reads two streams."""
    unlimited = {name: float("inf") for name in ("task_memory", "cache_bytes", "broadcast_bytes")}
    model = CostModel(Machine(cores=1, block=0.0, **unlimited))
    alone = tuple(SizeEstimate(each.rows, each.bytes, 1, 1.0) for each in flow)
    for operator, count in EXAMPLES:
        if not isinstance(operator, physical.LocalSort) and LIST not in getattr(operator, "aggregates", ()):
            copied = (
                alone[operator.build : operator.build + 1] if isinstance(operator, physical.HashJoin) else alone[:2]
            )
            joins = isinstance(operator, physical.HashJoin | physical.MergeJoin)
            copying = sum(map(model.bring_together, copied)) if joins else 0.0
            one_core = cost(model, operator, count, alone) - copying
            assert least(model, operator, count, alone) == pytest.approx(one_core), operator


@given(flow=flows, machine=machines, more=st.floats(1, 100), place=st.sampled_from([0, 1, -1]), bytes=st.booleans())
def test_more_rows_or_bytes_never_cost_less(flow: Flow, machine: Machine, more: float, place: int, bytes: bool) -> None:
    model = CostModel(machine)
    grown = list(flow)
    given = flow[place]
    grown[place] = replace(given, bytes=given.bytes * more) if bytes else replace(given, rows=given.rows * more)
    for operator, count in EXAMPLES:
        assert_at_most(cost(model, operator, count, flow), cost(model, operator, count, tuple(grown)), operator)


@given(flow=flows, machine=machines, share=st.floats(0, 1), place=st.sampled_from([0, 1, -1]))
def test_skew_never_costs_less(flow: Flow, machine: Machine, share: float, place: int) -> None:
    model = CostModel(machine)
    skewed = list(flow)
    skewed[place] = replace(flow[place], largest=max(flow[place].largest, share))
    for operator, count in EXAMPLES:
        assert_at_most(cost(model, operator, count, flow), cost(model, operator, count, tuple(skewed)), operator)


@given(flow=flows, machine=machines, more=st.integers(0, 100))
def test_more_cores_never_cost_more(flow: Flow, machine: Machine, more: int) -> None:
    few, many = CostModel(machine), CostModel(replace(machine, cores=machine.cores + more))
    for operator, count in EXAMPLES:
        assert_at_most(cost(many, operator, count, flow), cost(few, operator, count, flow), operator)


@given(flow=flows, machine=machines)
def test_seconds_are_the_sum_of_their_parts(flow: Flow, machine: Machine) -> None:
    model = CostModel(machine)
    for operator, count in EXAMPLES:
        found = model.cost(operator, flow[:count], flow[-1])
        parts = found.cpu + found.disk + found.network + found.startup
        assert found.seconds in (pytest.approx(parts), float("inf")), operator


# ----------------------------------------------------------------------------------------------------- comparisons


def grouped_serially(model: CostModel, rows: float, groups: float) -> float:
    read, result = SizeEstimate(rows, rows * 16, 1, 1.0), SizeEstimate(groups, groups * 16, 1, 1.0)
    scan = model.cost(physical.FileScan(SCAN, Delivered(Serial())), [], read)
    return scan.seconds + model.cost(physical.HashAggregate((A,), (SUM,)), [read], result).seconds


def grouped_in_parallel(model: CostModel, rows: float, groups: float) -> float:
    number = 8
    read, result = (SizeEstimate(n, n * 16, number, 1 / number) for n in (rows, groups))
    scan = model.cost(physical.FileScan(SCAN, Delivered(UnknownPartitioning(number))), [], read)
    partial = SizeEstimate(min(rows, groups * number), min(rows, groups * number) * 16, number, 1 / number)
    return sum(
        cost.seconds
        for cost in (
            scan,
            model.cost(physical.HashAggregate((A,), (SUM,), "partial"), [read], partial),
            model.cost(
                physical.Exchange(Repartitioning(hashed([A], number), RandomMerge()), (A, D)), [partial], partial
            ),
            model.cost(physical.HashAggregate((A,), (SUM,), "final", (D,)), [partial], result),
        )
    )


def test_serial_plans_win_on_few_rows_and_lose_on_many() -> None:
    model = CostModel(Machine(cores=8))
    assert grouped_serially(model, 1_000, 10) < grouped_in_parallel(model, 1_000, 10)
    assert grouped_serially(model, 100_000_000, 1_000) > 2 * grouped_in_parallel(model, 100_000_000, 1_000)


def test_a_broadcast_input_is_built_serially_and_a_partitioned_one_in_parallel() -> None:
    model = CostModel(Machine(cores=8))
    join = physical.HashJoin(JOIN, (KEY,), None, build=1)
    probe = SizeEstimate(1e6, 1e7, 8, 1 / 8)
    copied = model.cost(join, [probe, SizeEstimate(1e6, 1e7, 0, 1.0)], probe).seconds
    assert copied > model.cost(join, [probe, SizeEstimate(1e6, 1e7, 8, 1 / 8)], probe).seconds


def test_a_merge_join_is_not_slowed_by_the_skew_of_its_small_input() -> None:
    model = CostModel(Machine(cores=8))
    join = physical.MergeJoin(JOIN, (KEY,), None, by=(MergeKey(KEY),))
    large = SizeEstimate(1e8, 1e9, 8, 1 / 8)
    even = model.cost(join, [large, SizeEstimate(25, 250, 8, 1 / 8)], large).seconds
    assert model.cost(join, [large, SizeEstimate(25, 250, 8, 1.0)], large).seconds == pytest.approx(even, rel=0.01)


def test_sorting_sorted_runs_costs_less_than_sorting_unsorted_rows() -> None:
    model = CostModel(Machine(cores=2))
    rows = SizeEstimate(1e6, 1e7, 64, 1 / 64)
    both = (asc(A), asc(B))
    move = physical.Exchange(Repartitioning(hashed([A], 2), RandomMerge()), (A, B))
    merge = physical.Exchange(Repartitioning(hashed([A], 2), SortMerge(both)), (A, B))
    gathered = SizeEstimate(1e6, 1e7, 2, 1 / 2)
    sorted_after = (
        model.cost(move, [rows], gathered).seconds
        + model.cost(physical.LocalSort(both, (A, B)), [gathered], gathered).seconds
    )
    assert model.cost(move, [rows], gathered).seconds < model.cost(merge, [rows], gathered).seconds < sorted_after


def test_a_single_number_is_radix_sorted() -> None:
    model = CostModel(Machine(cores=2))
    text = Column(9, "s", pa.string())
    rows = SizeEstimate(1e6, 1e7, 2, 1 / 2)
    one, two, string = (
        model.cost(physical.LocalSort(keys, (A, B)), [rows], rows).seconds
        for keys in (SORTED, (asc(A), asc(B)), (asc(text),))
    )
    assert one < two < string


def test_large_hash_tables_are_slower_than_small_ones() -> None:
    model = CostModel(Machine(cores=2))
    rows = SizeEstimate(1e6, 1e7, 2, 1 / 2)
    few, many = (SizeEstimate(groups, groups * 16, 2, 1 / 2) for groups in (10.0, 1e5))
    group = physical.HashAggregate((A,), (SUM,))
    assert model.cost(group, [rows], few).seconds * 2 < model.cost(group, [rows], many).seconds


def joined(key: pa.DataType, partitions: int, reach: float = 1.0) -> float:
    """Seconds of a hash join whose table has 96 MB in all."""
    model = CostModel(Machine(cores=2))
    build, probe = (SizeEstimate(rows, rows * 32, partitions, 1 / partitions) for rows in (1e6, 1e7))
    keys = (JoinKey((A, C), key),)
    return model.cost(physical.HashJoin(JOIN, keys, None, build=0, reach=(reach, reach)), [build, probe], probe).seconds


def test_look_ups_in_a_table_that_fits_the_cache_are_faster() -> None:
    misses = MachineConstants().missed_row * 1e7 / 2
    assert joined(pa.int64(), 2) - joined(pa.int64(), 64) == pytest.approx(misses, rel=0.15)
    assert joined(pa.int64(), 64) == pytest.approx(joined(pa.int64(), 128))


def test_rows_in_the_order_of_the_key_look_up_what_is_in_the_cache() -> None:
    scattered, in_order, fits = joined(pa.int64(), 2), joined(pa.int64(), 2, reach=1 / 64), joined(pa.int64(), 64)
    assert fits < in_order < fits + (scattered - fits) / 10


def test_a_key_that_is_not_an_integer_takes_longer() -> None:
    assert joined(pa.int64(), 64) < joined(pa.string(), 64)


@pytest.mark.parametrize(
    ("types", "is_packed"),
    [
        ([pa.int64()], True),
        ([pa.int32(), pa.int32()], True),
        ([pa.int16(), pa.int8(), pa.int32()], True),
        ([pa.int64(), pa.int32()], False),
        ([pa.date32()], False),
        ([pa.int32(), pa.string()], False),
    ],
)
def test_spark_packs_integers_of_up_to_8_bytes_into_one_key(types: list[pa.DataType], is_packed: bool) -> None:
    keys = tuple(JoinKey((A, C), type) for type in types)
    assert physical.HashJoin(JOIN, keys, None).has_integer_key == is_packed


def test_many_groups_of_lists_are_sorted_and_few_are_hashed() -> None:
    model = CostModel(Machine(cores=2))
    rows = SizeEstimate(1e6, 1e7, 2, 1 / 2)

    def costs(groups: float) -> tuple[float, float]:
        result = SizeEstimate(groups, 1e7, 2, 1 / 2)
        hashed = model.cost(physical.HashAggregate((A, B), (LIST,)), [rows], result)
        streamed = model.cost(physical.SortAggregate((A, B), (LIST,)), [rows], result)
        return hashed.seconds, streamed.seconds + model.cost(
            physical.LocalSort((asc(A), asc(B)), (A, B)), [rows], rows
        ).seconds

    assert costs(100.0)[0] < costs(100.0)[1]
    assert costs(1e5)[0] > costs(1e5)[1]


def test_percentiles_cost_less_in_sorted_lists() -> None:
    model = CostModel(Machine(cores=2))
    rows = SizeEstimate(1e6, 1e7, 2, 1 / 2)
    middle = (D, AggregateCall("percentile", (Ref(B), Literal(0.5, pa.float64())), pa.float64()))
    counted, listed = (
        model.cost(physical.SortAggregate((A,), (middle,), listed=listed), [rows], rows).seconds
        for listed in (frozenset[Column](), frozenset((D,)))
    )
    assert listed < counted


@pytest.mark.parametrize("guard", [None, Ref(Column(10, "flag", pa.bool_()))])
def test_a_state_of_any_width_costs_more_whether_its_filter_holds_or_not(guard: Ref | None) -> None:
    model, rows, groups = (
        CostModel(Machine(cores=2)),
        SizeEstimate(1e6, 1e7, 2, 1 / 2),
        SizeEstimate(1e5, 1e6, 2, 1 / 2),
    )
    struct = Call("named_struct", (Ref(B),), pa.struct([("v0", pa.int64())]))
    number, picked = (
        model.cost(physical.SortAggregate((A,), ((C, call),)), [rows], groups).seconds
        for call in (AggregateCall("max_by", (value, Ref(B)), value.type, where=guard) for value in (Ref(B), struct))
    )
    assert number < picked


def test_wide_decimals_cost_more() -> None:
    model = CostModel(Machine(cores=2))
    rows = SizeEstimate(1e6, 1e7, 2, 1 / 2)
    narrow, wide = (AggregateCall("sum", (Ref(B),), pa.decimal128(precision, 2)) for precision in (18, 19))
    costs = [
        model.cost(physical.SortAggregate((A,), ((D, call),)), [rows], rows).seconds for call in (SUM[1], narrow, wide)
    ]
    assert costs[0] == costs[1] < costs[2]


def test_an_input_that_does_not_fit_is_never_broadcast() -> None:
    model = CostModel(Machine())
    copy = physical.Exchange(Repartitioning(Replicated(), RandomMerge()), (A, B))
    much = SizeEstimate(1e9, model.machine.broadcast_bytes * 2, 8, 1 / 8)
    assert model.cost(copy, [much], replace(much, partitions=0, largest=1.0)).seconds == float("inf")


def test_rows_that_a_task_cannot_hold_are_spilled() -> None:
    model = CostModel(Machine(cores=2))
    sort = physical.LocalSort(SORTED, (A, B))
    narrow, wide = SizeEstimate(1e6, 1e7, 2, 0.5), SizeEstimate(1e6, 1e10, 2, 0.5)
    assert model.cost(sort, [narrow], narrow).disk == 0
    assert model.cost(sort, [wide], wide).disk > 1


def test_guesses_make_serial_work_and_broadcasts_expensive() -> None:
    """What degrades with more rows, and nothing else; a broadcast near the limit is none at all."""
    model = CostModel(Machine(cores=8))
    certain = SizeEstimate(1e6, 1e7, 8, 1 / 8)
    guessed = replace(certain, guesses=3)
    assert model.elapsed(1.0, guessed) == model.elapsed(1.0, certain)
    alone = replace(certain, partitions=1, largest=1.0)
    assert model.elapsed(1.0, replace(alone, guesses=3)) == pytest.approx(1.1**3 * model.elapsed(1.0, alone))
    assert model.broadcast(guessed).seconds > model.broadcast(certain).seconds
    unwatched = CostModel(model.machine, COST.unwatched_guess_risk)
    assert unwatched.elapsed(1.0, replace(alone, guesses=3)) == pytest.approx(8 * model.elapsed(1.0, alone))
    assert unwatched.elapsed(1.0, alone) == model.elapsed(1.0, alone)
    broadcast = physical.Exchange(Repartitioning(Replicated(), RandomMerge()), ())
    near = replace(certain, bytes=500e6)
    assert model.cost(broadcast, [near], near).seconds < float("inf")
    assert model.cost(broadcast, [replace(near, guesses=3)], near).seconds == float("inf")
