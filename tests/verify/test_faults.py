"""Faults planted into valid plans. Every valid plan passes, and every fault is reported with its own reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from tests.support.hand_built_plans import (
    INT,
    aggregate,
    both,
    columns,
    compute,
    copy,
    equal,
    gather,
    join,
    more_than,
    move,
    node,
    optimized,
    over,
    recorded,
    scan,
    select,
    send,
    send_by,
    sort,
    total,
    with_operator,
)
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.errors import InternalError
from unshuffle.optimizer import PlannedQuery
from unshuffle.plan import logical, physical
from unshuffle.plan.expressions import AggregateCall, Call, Ref, ScalarSubquery, WindowCall
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import (
    Clustered,
    Delivered,
    Dependencies,
    FullMerge,
    InitialPartitioning,
    JoinKey,
    PartialMerge,
    PrefixPartitioned,
    RandomMerge,
    RangeFunction,
    Repartitioning,
    Replicated,
    SampledBoundaries,
    Serial,
    SortConcatMerge,
    SortMerge,
    TargetedBroadcast,
    UnknownPartitioning,
    asc,
    desc,
    hashed,
    ranged,
)
from unshuffle.properties.layouts.delivered import Partitioned
from unshuffle.properties.layouts.partition_functions import UnknownFunction
from unshuffle.properties.matching.operator_requirements import MergeKey
from unshuffle.search.spools import Spool
from unshuffle.verify import verify

A, B, V = columns(1, "a b v")
X, Y, W = columns(11, "x y w")
SUM, STATE, OTHER = columns(21, "sum partial other")
R, S = scan("r", (A, B, V)), scan("s", (X, Y, W), keys=[(X,)])
INNER, LEFT = JoinKind.INNER, JoinKind.LEFT


# --- good plans


def grouped(below: PhysicalPlan = R) -> PhysicalPlan:
    return aggregate(send(below, A), (A, B), sum=(SUM, total(V)))


def joined(left: PhysicalPlan | None = None, right: PhysicalPlan | None = None) -> PhysicalPlan:
    return join(INNER, left or send(R, A), right or send(S, X), equal(A, X))


def merged(left: PhysicalPlan | None = None, right: PhysicalPlan | None = None) -> PhysicalPlan:
    return join(INNER, left or sort(send(R, A), A), right or sort(send(S, X), X), equal(A, X), merge=True)


def partial_aggregate(below: PhysicalPlan = R, keys: tuple[Column, ...] = (A,)) -> PhysicalPlan:
    return node(physical.HashAggregate(keys, ((STATE, total(V)),), "partial"), below)


def final_aggregate(below: PhysicalPlan, states: tuple[Column, ...] = (STATE,)) -> PhysicalPlan:
    return node(physical.HashAggregate((A,), ((SUM, total(V)),), "final", states), below)


def two_phases(between: Callable[[PhysicalPlan], PhysicalPlan] = lambda plan: plan) -> PhysicalPlan:
    return final_aggregate(send(between(partial_aggregate()), A))


def combined(
    below: PhysicalPlan | None = None, keys: tuple[Column, ...] = (A,), call: AggregateCall | None = None
) -> PhysicalPlan:
    """A level of an aggregation tree: the states of eight partitions, merged in two."""
    gathered = move(PartialMerge((0, 1) * 4, RandomMerge()), below or partial_aggregate())
    return node(physical.HashAggregate(keys, ((STATE, call or total(V)),), "combining"), gathered)


def first_rows(count: int = 10, keys: tuple[object, ...] = (asc(B),), of_each: int = 10) -> PhysicalPlan:
    top = node(physical.PartialTopN(of_each, (asc(B),), R.columns), R)
    one = move(FullMerge(SortMerge((asc(B),))), top)
    return node(
        physical.Limit(count, 0, keys, R.columns),
        node(physical.OrderBy((asc(B),), R.columns), one, alternative="serial"),
    )  # type: ignore[arg-type]


SPOOLED = send(R, A)
SPOOL = Spool("r", 7, SPOOLED, 2)


def read(layout: Delivered | None = None, of: tuple[Column, ...] = (X, Y, W), spool: int = 7) -> PhysicalPlan:
    return node(physical.ReadSpool("r", spool, of, layout or Delivered(hashed([X], 8))))


def from_spool(plan: PhysicalPlan) -> PlannedQuery:
    return optimized(plan, spools=[SPOOL])


def windowed(below: PhysicalPlan) -> PhysicalPlan:
    call = WindowCall(Call("row_number", (), INT), (Ref(A),), (), None)
    return node(physical.Windows(((SUM, call),), (A,), (asc(V),), R.columns), below)


def in_order(below: PhysicalPlan, way: str = "partitioned") -> PlannedQuery:
    return optimized(node(physical.OrderBy((asc(A),), below.columns), below, alternative=way), [asc(A)])


ranges = ranged([asc(A)], SampledBoundaries("1", 8))
STORED = scan("r", (A, B, V), layout=Delivered(hashed([B], 8)), depends={A: B})

IN_RANGES = ranged([asc(A), asc(B)], [(1, 5), (1, 7), (3,)])
CUT_OTHERWISE = ranged([asc(A), asc(B)], [(1, 5), (2, 7), (3,)])
BY_RANGES = scan("r", (A, B, V), layout=Delivered(IN_RANGES))


def targeted_copy(below: PhysicalPlan = S, on: Column = X, layout: Partitioned = IN_RANGES) -> PhysicalPlan:
    assert isinstance(layout.function, RangeFunction)
    return move(Repartitioning(TargetedBroadcast(layout.function, (on,)), RandomMerge()), below)


def targeted(right: PhysicalPlan | None = None, left: PhysicalPlan = BY_RANGES, kind: JoinKind = LEFT) -> PhysicalPlan:
    return join(kind, left, right or targeted_copy(), equal(A, X), "targeted broadcast right")


GOOD: dict[str, Callable[[], PlannedQuery]] = {
    "an aggregate over its exchange": lambda: optimized(grouped()),
    "a join of co-partitioned inputs": lambda: optimized(joined()),
    "a merge join": lambda: optimized(merged()),
    "a sort aggregate": lambda: optimized(aggregate(sort(send(R, A), A), (A,), sum=(SUM, total(V)), streaming=True)),
    "an aggregate by a dependency": lambda: optimized(aggregate(STORED, (A,), sum=(SUM, total(V)))),
    "a partial and a final aggregate": lambda: optimized(two_phases()),
    "a partial and a final aggregate around a join": lambda: optimized(
        final_aggregate(send(join(INNER, partial_aggregate(), copy(S), equal(A, X), "broadcast right"), A))
    ),
    "an aggregation tree": lambda: optimized(final_aggregate(send(combined(), A))),
    "a partial top-n under its limit": lambda: optimized(first_rows(), [asc(B)]),
    "a broadcast join": lambda: optimized(join(LEFT, R, copy(S), equal(A, X), "broadcast right")),
    "a join with a targeted broadcast": lambda: optimized(targeted()),
    "a join with ranges whose last key is dropped": lambda: optimized(targeted(left=compute(BY_RANGES, A, V))),
    "an aggregate over a targeted broadcast join": lambda: optimized(
        aggregate(targeted(), (A, B), sum=(SUM, total(V)))
    ),
    "a spool": lambda: from_spool(join(INNER, send(R, A), read(), equal(A, X))),
    "a window": lambda: optimized(windowed(sort(send(R, A), A, V))),
    "ranges in order": lambda: in_order(sort(send_by(ranges, R), A)),
    "a single partition in order": lambda: in_order(move(FullMerge(SortMerge((asc(A),))), sort(R, A)), "serial"),
    "partitions read in place": lambda: optimized(
        with_operator(send(scan("r", (A, B, V), layout=Delivered(hashed([A], 4))), A), readers=2.0)
    ),
    "ranges one after another": lambda: in_order(
        move(FullMerge(SortConcatMerge((asc(A),))), sort(send_by(ranges, R), A)), "serial"
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_plans_pass(name: str) -> None:
    verify(GOOD[name]())


# --- faults


def union(left: PhysicalPlan, right: PhysicalPlan) -> PhysicalPlan:
    keys = tuple(JoinKey(pair, pair[0].type, null_safe=True) for pair in zip((A, B, V), (X, Y, W), strict=True))
    out = columns(41, "p q t")
    return node(physical.PartitionwiseUnion(out, ((A, B, V), (X, Y, W)), keys), left, right)


def renamed(below: PhysicalPlan) -> PhysicalPlan:
    return node(physical.Rename("r", (X, Y, W), below.columns), below)


def wrong_facts() -> PlannedQuery:
    """Stored on b. A node records that a determines b, which is not so."""
    stored = scan("r", (A, B, V), layout=Delivered(hashed([B], 8)))
    wrong = Dependencies.of((Dependency(frozenset((A,)), frozenset((B,))),))
    return optimized(aggregate(replace(stored, facts=wrong), (A,), sum=(SUM, total(V))))


def null_extended() -> PlannedQuery:
    """Rows of r without a match have a NULL x and stay in the partition of their a, so GROUP BY x would see NULL twice."""
    outer = join(LEFT, send(R, A), send(S, X), equal(A, X))
    recorded = over(outer, delivered=Delivered(hashed([X], 8)))
    return optimized(aggregate(recorded, (X,), sum=(SUM, total(V))))


def with_subquery(plan: logical.Plan) -> PlannedQuery:
    subquery = ScalarSubquery(plan, frozenset())
    return optimized(select(R, Call(">", (Ref(A), subquery), pa.bool_())))


SHUFFLED = grouped()
(GATHERED,) = combined().inputs
JOINED = joined()

FAULTS: dict[str, tuple[Callable[[], PlannedQuery], str]] = {
    # unmet requirements
    "an exchange dropped": (lambda: optimized(over(SHUFFLED, R, delivered=R.delivered)), "in one partition|requires"),
    "an exchange dropped, its layout still recorded": (lambda: optimized(over(SHUFFLED, R)), "requires"),
    "an exchange on other columns": (lambda: optimized(over(SHUFFLED, send(R, V))), "not determined: v#3"),
    "a serial aggregate over partitions": (lambda: optimized(over(SHUFFLED, alternative="serial")), "requires {⊥"),
    "a partitioned aggregate over a single partition": (lambda: optimized(over(SHUFFLED, gather(R))), "requires"),
    "no sort under a merge join": (lambda: optimized(merged(left=send(R, A))), "missing is order [a#1↑]"),
    "the other direction under a merge join": (
        lambda: optimized(merged(left=sort(send(R, A), desc(A)))),
        "order [a#1↑]",
    ),
    "NULLs last under a merge join": (lambda: optimized(merged(left=sort(send(R, A), asc(A, False)))), "order [a#1↑]"),
    "no sort under a sort aggregate": (
        lambda: optimized(aggregate(send(R, A), (A, B), sum=(SUM, total(V)), streaming=True)),
        "missing is order",
    ),
    "a window without its order": (lambda: optimized(windowed(sort(send(R, A), A))), "order [v#3↑]"),
    "an order by ranges over a hash layout": (lambda: in_order(sort(send(R, A), A)), "requires {[a#1↑]o"),
    "an order by ranges of the other direction": (
        lambda: in_order(sort(send_by(ranged([desc(A)], SampledBoundaries("1", 8)), R), A)),
        "requires",
    ),
    # co-partitioning
    "another count on one side of a join": (lambda: optimized(joined(right=send(S, X, into=16))), "two functions"),
    "another type on one side of a join": (lambda: optimized(joined(right=send(S, X, types=[INT]))), "two functions"),
    "one side of a join on a column it does not compare": (lambda: optimized(joined(right=send(S, Y))), "requires"),
    "columns in another order on one side of a join": (
        lambda: optimized(join(INNER, send(R, A, B), send(S, Y, X), both(equal(A, X), equal(B, Y)))),
        "no key equates",
    ),
    "a join by a dependency": (
        lambda: optimized(join(INNER, STORED, send(S, X), equal(A, X))),
        "no key equates",
    ),
    "a join by unknown functions": (
        lambda: optimized(
            joined(
                over(send(R, A), delivered=Delivered(Partitioned(UnknownFunction(1, 8), (A,)))),
                node(
                    physical.Exchange(
                        Repartitioning(Partitioned(UnknownFunction(1, 8), (X,)), RandomMerge()), S.columns
                    ),
                    S,
                ),
            )
        ),
        "two functions",
    ),
    "a join of ranges that were sampled twice": (
        lambda: optimized(join(INNER, send_by(ranges, R), renamed(send_by(ranges, R)), equal(A, X))),
        "two functions",
    ),
    "a union of partitions sent differently": (lambda: optimized(union(send(R, A), send(S, Y))), "no key equates"),
    # facts
    "a dependency that was not declared": (wrong_facts, "not determined: b#2"),
    "a dependency the wrong way round": (
        lambda: optimized(
            aggregate(scan("r", (A, B, V), layout=Delivered(hashed([A], 8)), depends={A: B}), (B,), sum=(SUM, total(V)))
        ),
        "not determined: a#1",
    ),
    "NULLs of an outer join": (null_extended, "is recorded as delivering"),
    # recorded layouts
    "a sort recorded with another order": (
        lambda: optimized(over(sort(send(R, A), A), delivered=Delivered(hashed([A], 8), (asc(B),)))),
        "is recorded as delivering",
    ),
    "an exchange recorded with another count": (
        lambda: optimized(over(send(R, A), delivered=Delivered(hashed([A], 16)))),
        "is recorded as delivering",
    ),
    "a random merge recorded with an order": (
        lambda: optimized(over(gather(sort(R, A)), delivered=Delivered(Serial(), (asc(A),)))),
        "is recorded as delivering",
    ),
    "a single partition recorded for many": (
        lambda: optimized(over(R, delivered=Delivered(Serial()))),
        "is recorded as delivering",
    ),
    "costed for another count": (
        lambda: optimized(over(send(R, A), size=replace(R.size, partitions=64))),
        "costed for 64 partitions",
    ),
    "files read in a layout that they do not have": (
        lambda: optimized(with_operator(R, layout=Delivered(hashed([A], 8)))),
        "no stored layout",
    ),
    "stored files read in another layout": (
        lambda: optimized(
            aggregate(with_operator(STORED, layout=Delivered(hashed([A], 8))), (A,), sum=(SUM, total(V)))
        ),
        "but they are stored as",
    ),
    # exchanges
    "a sort merge of unsorted inputs": (
        lambda: optimized(move(FullMerge(SortMerge((asc(A),))), R)),
        "merges in the order",
    ),
    "an initial partitioning of many partitions": (
        lambda: optimized(
            recorded(
                physical.Exchange(InitialPartitioning(hashed([A], 8)), R.columns),
                (R,),
                Delivered(hashed([A], 8)),
                R.facts,
                "",
            )
        ),
        "initial partitioning needs a single input stream",
    ),
    "partitions read in place that are not there": (
        lambda: optimized(with_operator(send(R, A), readers=2.0)),
        "in place, but",
    ),
    "partitions of another column read in place": (
        lambda: optimized(with_operator(send(scan("r", (A, B, V), layout=Delivered(hashed([B], 4))), A), readers=2.0)),
        "in place, but",
    ),
    "an exchange of copies": (
        lambda: optimized(
            recorded(
                physical.Exchange(FullMerge(RandomMerge()), R.columns), (copy(R),), Delivered(Serial()), R.facts, ""
            )
        ),
        "requires {any distribution",
    ),
    "broadcast copies aggregated": (lambda: optimized(over(SHUFFLED, copy(R), delivered=R.delivered)), "requires"),
    "broadcast copies as the result": (lambda: optimized(copy(R)), "a row once for each partition that has a copy"),
    "a targeted broadcast as the result": (
        lambda: optimized(targeted_copy()),
        "a row once for each partition that has a copy",
    ),
    "a targeted broadcast aggregated": (
        lambda: optimized(over(SHUFFLED, targeted_copy(R, A), delivered=R.delivered)),
        "requires",
    ),
    "a targeted broadcast recorded as a full one": (
        lambda: optimized(
            join(LEFT, R, over(targeted_copy(), delivered=Delivered(Replicated())), equal(A, X), "broadcast right")
        ),
        "is recorded as delivering",
    ),
    "a targeted broadcast recorded as rows": (
        lambda: optimized(over(targeted_copy(), delivered=Delivered(UnknownPartitioning(4)))),
        "is recorded as delivering",
    ),
    # joins
    "a targeted broadcast by other ranges": (
        lambda: optimized(targeted(targeted_copy(layout=CUT_OTHERWISE))),
        "two functions",
    ),
    "a targeted broadcast for ranges whose first key is dropped": (
        lambda: optimized(
            join(LEFT, compute(BY_RANGES, B, V), targeted_copy(), equal(B, X), "targeted broadcast right")
        ),
        "not a function of columns",
    ),
    "ranges recorded by a key that is not their first": (
        lambda: optimized(
            targeted(
                left=over(
                    compute(BY_RANGES, (A, Ref(B)), V), delivered=Delivered(PrefixPartitioned(IN_RANGES.function, (A,)))
                )
            )  # type: ignore[arg-type]
        ),
        "is recorded as delivering",
    ),
    "groups of ranges whose last key is dropped": (
        lambda: optimized(aggregate(compute(BY_RANGES, A, V), (A,), sum=(SUM, total(V)))),
        "requires",
    ),
    "a targeted broadcast by another column": (lambda: optimized(targeted(targeted_copy(on=Y))), "no key equates"),
    "a targeted broadcast for unknown partitioning": (lambda: optimized(targeted(left=R)), "not a function of columns"),
    "no copies where a targeted broadcast is required": (
        lambda: optimized(over(targeted(), BY_RANGES, send_by(ranged([asc(X), asc(Y)], [(1, 5), (1, 7), (3,)]), S))),
        "requires {⊤ to possible matches",
    ),
    "a targeted broadcast of the preserved side": (
        lambda: optimized(
            over(targeted(), targeted_copy(R, A), S, alternative="targeted broadcast left", delivered=S.delivered)
        ),
        "no such alternative",
    ),
    "a full join with a targeted broadcast": (
        lambda: optimized(
            with_operator(
                targeted(kind=INNER),
                join=replace(targeted(kind=INNER).operator.join, kind=JoinKind.FULL),  # type: ignore[attr-defined]
            )
        ),
        "no such alternative",
    ),
    "a broadcast of the preserved side of an outer join": (
        lambda: optimized(
            over(join(LEFT, R, copy(S), equal(A, X), "broadcast right"), copy(R), S, alternative="broadcast left")
        ),
        "no such alternative",
    ),
    "a full join with a broadcast side": (
        lambda: optimized(
            recorded(
                replace(JOINED.operator, join=replace(JOINED.operator.join, kind=JoinKind.FULL)),  # type: ignore[attr-defined,type-var]
                (R, copy(S)),
                Delivered(UnknownPartitioning(8)),
                JOINED.facts,
                "broadcast right",
            )
        ),
        "no such alternative",
    ),
    "a key that the condition does not have": (
        lambda: optimized(with_operator(JOINED, keys=(JoinKey((A, Y), A.type),))),
        "which its condition does not",
    ),
    "a part of the condition left out": (
        lambda: optimized(
            with_operator(join(INNER, send(R, A), send(S, X), both(equal(A, X), more_than(V, 5))), rest=None)
        ),
        "leaves out a part",
    ),
    "a merge join that merges on fewer keys than it compares": (
        lambda: optimized(
            with_operator(
                join(
                    INNER,
                    sort(send(R, A), A, B),
                    sort(send(S, X), X, Y),
                    both(equal(A, X), equal(B, Y)),
                    merge=True,
                ),
                by=(MergeKey(JoinKey((A, X), A.type)),),
            )
        ),
        "merges on other keys",
    ),
    "a null-aware anti join that is not NOT IN": (
        lambda: optimized(
            with_operator(join(JoinKind.ANTI, R, copy(S), equal(A, X), "broadcast right"), null_aware=True)
        ),
        "is not a NOT IN",
    ),
    "a NOT IN by partitions": (
        lambda: optimized(with_operator(join(JoinKind.ANTI, send(R, A), send(S, X), equal(A, X)), null_aware=True)),
        "no such alternative",
    ),
    # partial and final aggregates
    "a partial aggregate without its final aggregate": (
        lambda: optimized(partial_aggregate()),
        "ends with the partial states",
    ),
    "a final aggregate without a partial one": (
        lambda: optimized(final_aggregate(send(compute(R, A, (STATE, Ref(V))), A))),
        "no partial aggregate below",
    ),
    "a final aggregate of other partial states": (
        lambda: optimized(
            node(physical.HashAggregate((A,), ((SUM, total(B)),), "final", (STATE,)), send(partial_aggregate(), A))
        ),
        "does not finish",
    ),
    "a filter on partial states": (
        lambda: optimized(two_phases(lambda plan: select(plan, more_than(STATE, 5)))),
        "must be finished first",
    ),
    "partial states under an outer join": (
        lambda: optimized(
            final_aggregate(send(join(LEFT, partial_aggregate(), copy(S), equal(A, X), "broadcast right"), A))
        ),
        "left outer join over the partial states",
    ),
    "partial states compared by a join": (
        lambda: optimized(
            final_aggregate(
                send(
                    join(INNER, partial_aggregate(), copy(S), both(equal(A, X), equal(STATE, W)), "broadcast right"), A
                )
            )
        ),
        "compares the partial states",
    ),
    "partial states on both sides of a join": (
        lambda: optimized(
            final_aggregate(
                join(
                    INNER,
                    send(partial_aggregate(), A),
                    send(node(physical.HashAggregate((X,), ((OTHER, total(W)),), "partial"), S), X),
                    equal(A, X),
                )
            )
        ),
        "combines the partial states",
    ),
    "states merged without a partial aggregate": (
        lambda: optimized(final_aggregate(send(combined(compute(R, A, (STATE, Ref(V)))), A))),
        "no partial aggregate below",
    ),
    "states merged without a final aggregate": (lambda: optimized(combined()), "ends with the partial states"),
    "states of another aggregate merged": (
        lambda: optimized(final_aggregate(send(combined(call=total(B)), A))),
        "does not merge",
    ),
    "states merged by fewer keys": (
        lambda: optimized(final_aggregate(send(combined(partial_aggregate(keys=(A, B))), A))),
        "by other keys",
    ),
    "fragments of other partitions than there are": (
        lambda: optimized(
            final_aggregate(
                send(over(combined(), over(GATHERED, partial_aggregate(scan("r", R.columns, pieces=4)))), A)
            )
        ),
        "4 partitions do not match 8 groups",
    ),
    "partial states as grouping keys": (
        lambda: optimized(
            node(
                physical.HashAggregate((A, STATE), ((SUM, total(V)),), "final", (STATE,)), send(partial_aggregate(), A)
            )
        ),
        "groups by the partial states",
    ),
    "partial states in a spool": (
        lambda: optimized(
            node(physical.ReadSpool("r", 7, (X, Y), Delivered(hashed([X], 8)))),
            spools=[Spool("r", 7, send(partial_aggregate(), A), 2)],
        ),
        "reads the partial states partial#22 from a spool",
    ),
    "first rows of each partition as the result": (
        lambda: optimized(node(physical.PartialTopN(10, (asc(B),), R.columns), R)),
        "ends with the first 10 rows",
    ),
    "more first rows than each partition kept": (lambda: optimized(first_rows(count=20)), "more rows than"),
    "first rows in another order": (lambda: optimized(first_rows(keys=(asc(B), asc(V)))), "order|requires"),
    "first rows of each partition filtered": (
        lambda: optimized(select(node(physical.PartialTopN(10, (), R.columns), R), more_than(V, 5))),
        "must be finished first",
    ),
    # spools
    "a spool that nothing fills": (lambda: from_spool(read(spool=8)), "which nothing fills"),
    "a spool read in another layout": (
        lambda: from_spool(read(Delivered(hashed([Y], 8)))),
        "is recorded as delivering",
    ),
    "a spool with its columns mixed up": (
        lambda: from_spool(join(INNER, send(R, A), read(of=(Y, X, W)), equal(A, X))),
        "is recorded as delivering",
    ),
    "a spool with a column too few": (lambda: from_spool(read(of=(X, Y))), "reads 2 columns of a spool with 3"),
    "a spool that is filled from itself": (
        lambda: optimized(read(), spools=[Spool("r", 7, read(), 2)]),
        "filled from itself",
    ),
    # columns and results
    "a missing column": (
        lambda: optimized(with_operator(select(R, more_than(V, 5)), predicate=more_than(W, 5))),
        "reads w#13",
    ),
    "a column passed on that no input has": (
        lambda: optimized(with_operator(send(R, A), columns=(A, W))),
        "passes on w#13",
    ),
    "an exchange on a missing column": (
        lambda: optimized(
            recorded(
                physical.Exchange(Repartitioning(hashed([X], 8), RandomMerge()), R.columns),
                (R,),
                Delivered(hashed([X], 8)),
                R.facts,
                "",
            )
        ),
        "reads x#11",
    ),
    "a column twice": (lambda: optimized(with_operator(send(R, A), columns=(A, A))), "delivers a#1 twice"),
    "other columns than required": (lambda: optimized(R, required=(A, B)), "are required"),
    "a result that is not in order": (
        lambda: optimized(sort(send(R, A), A), [asc(A)]),
        "must deliver rows in the order",
    ),
    "a result sorted inside its ranges by the first key only": (
        lambda: optimized(sort(send_by(ranges, R), A), [asc(A), asc(B)]),
        "must deliver rows in the order",
    ),
    "a subquery without a plan": (
        lambda: with_subquery(logical.TableScan(("t",), (X,))),
        "of a subquery that has no plan",
    ),
    "one input too few": (lambda: optimized(over(JOINED, send(R, A))), "inputs|do not have"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_reported(name: str) -> None:
    planted, reason = FAULTS[name]
    with pytest.raises(InternalError) as raised:
        verify(planted())
    text = str(raised.value)
    assert any(part in text for part in reason.split("|")), text


def test_the_error_names_the_node_the_requirement_and_the_delivered_layout() -> None:
    with pytest.raises(InternalError) as raised:
        verify(optimized(over(SHUFFLED, R)))
    text = str(raised.value)
    assert "HashAggregate (partitioned) of a#1, b#2, sum#21" in text
    assert str(Clustered(frozenset((A, B)), parallel=True)) in text
    assert "which delivers {∅; []}" in text
