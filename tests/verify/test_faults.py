"""Faults planted into good plans. Each good plan passes, and every fault is seen, by its own reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from unshuffle.algebra import logical
from unshuffle.algebra import operators as ops
from unshuffle.algebra.expressions import AggregateCall, Call, Ref, ScalarSubquery, WindowCall
from unshuffle.algebra.physical import Physical
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.errors import InternalError
from unshuffle.optimizer import Optimized, Spool
from unshuffle.properties import (
    Clustered,
    Covering,
    Delivered,
    Dependencies,
    FullMerge,
    InitialPartitioning,
    JoinKey,
    PartialMerge,
    RandomMerge,
    RangeFunction,
    Repartitioning,
    Replicated,
    Sampled,
    Scattered,
    Serial,
    SortConcatMerge,
    SortMerge,
    Within,
    asc,
    desc,
    hashed,
    ranged,
)
from unshuffle.properties.delivered import Partitioned
from unshuffle.properties.functions import Unknown
from unshuffle.properties.requirements import MergeKey
from unshuffle.verify import verify

from .building import (
    INT,
    aggregate,
    both,
    claiming,
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
    scan,
    select,
    send,
    send_by,
    sort,
    total,
    with_operator,
)

A, B, V = columns(1, "a b v")
X, Y, W = columns(11, "x y w")
SUM, STATE, OTHER = columns(21, "sum partial other")
R, S = scan("r", (A, B, V)), scan("s", (X, Y, W), keys=[(X,)])
INNER, LEFT = JoinKind.INNER, JoinKind.LEFT


# --- good plans


def grouped(below: Physical = R) -> Physical:
    return aggregate(send(below, A), (A, B), sum=(SUM, total(V)))


def joined(left: Physical | None = None, right: Physical | None = None) -> Physical:
    return join(INNER, left or send(R, A), right or send(S, X), equal(A, X))


def merged(left: Physical | None = None, right: Physical | None = None) -> Physical:
    return join(INNER, left or sort(send(R, A), A), right or sort(send(S, X), X), equal(A, X), merge=True)


def begun(below: Physical = R, keys: tuple[Column, ...] = (A,)) -> Physical:
    return node(ops.HashAggregate(keys, ((STATE, total(V)),), "partial"), below)


def finished(below: Physical, states: tuple[Column, ...] = (STATE,)) -> Physical:
    return node(ops.HashAggregate((A,), ((SUM, total(V)),), "final", states), below)


def halves(between: Callable[[Physical], Physical] = lambda plan: plan) -> Physical:
    return finished(send(between(begun()), A))


def combined(
    below: Physical | None = None, keys: tuple[Column, ...] = (A,), call: AggregateCall | None = None
) -> Physical:
    """A level of an aggregation tree: eight partitions in two, and what was found there as one."""
    gathered = move(PartialMerge((0, 1) * 4, RandomMerge()), below or begun())
    return node(ops.HashAggregate(keys, ((STATE, call or total(V)),), "combining"), gathered)


def first_rows(count: int = 10, keys: tuple[object, ...] = (asc(B),), of_each: int = 10) -> Physical:
    top = node(ops.PartialFirstRows(of_each, (asc(B),), R.columns), R)
    one = move(FullMerge(SortMerge((asc(B),))), top)
    return node(
        ops.FirstRows(count, 0, keys, R.columns), node(ops.InOrder((asc(B),), R.columns), one, alternative="serial")
    )  # type: ignore[arg-type]


SPOOLED = send(R, A)
SPOOL = Spool("r", 7, SPOOLED, 2)


def read(layout: Delivered | None = None, of: tuple[Column, ...] = (X, Y, W), spool: int = 7) -> Physical:
    return node(ops.ReadSpool("r", spool, of, layout or Delivered(hashed([X], 8))))


def from_spool(plan: Physical) -> Optimized:
    return optimized(plan, spools=[SPOOL])


def windowed(below: Physical) -> Physical:
    call = WindowCall(Call("row_number", (), INT), (Ref(A),), (), None)
    return node(ops.Windows(((SUM, call),), (A,), (asc(V),), R.columns), below)


def in_order(below: Physical, way: str = "partitioned") -> Optimized:
    return optimized(node(ops.InOrder((asc(A),), below.columns), below, alternative=way), [asc(A)])


ranges = ranged([asc(A)], Sampled("1", 8))
STORED = scan("r", (A, B, V), layout=Delivered(hashed([B], 8)), depends={A: B})

IN_RANGES = ranged([asc(A), asc(B)], [(1, 5), (1, 7), (3,)])
CUT_OTHERWISE = ranged([asc(A), asc(B)], [(1, 5), (2, 7), (3,)])
BY_RANGES = scan("r", (A, B, V), layout=Delivered(IN_RANGES))


def cover(below: Physical = S, on: Column = X, layout: Partitioned = IN_RANGES) -> Physical:
    assert isinstance(layout.function, RangeFunction)
    return move(Repartitioning(Covering(layout.function, (on,)), RandomMerge()), below)


def pruned(right: Physical | None = None, left: Physical = BY_RANGES, kind: JoinKind = LEFT) -> Physical:
    return join(kind, left, right or cover(), equal(A, X), "pruned broadcast right")


GOOD: dict[str, Callable[[], Optimized]] = {
    "an aggregate over its exchange": lambda: optimized(grouped()),
    "a join of inputs sent alike": lambda: optimized(joined()),
    "a merge join": lambda: optimized(merged()),
    "a stream aggregate": lambda: optimized(aggregate(sort(send(R, A), A), (A,), sum=(SUM, total(V)), streaming=True)),
    "an aggregate by a dependency": lambda: optimized(aggregate(STORED, (A,), sum=(SUM, total(V)))),
    "halves of an aggregate": lambda: optimized(halves()),
    "halves of an aggregate around a join": lambda: optimized(
        finished(send(join(INNER, begun(), copy(S), equal(A, X), "broadcast right"), A))
    ),
    "an aggregation tree": lambda: optimized(finished(send(combined(), A))),
    "halves of a limit": lambda: optimized(first_rows(), [asc(B)]),
    "a broadcast join": lambda: optimized(join(LEFT, R, copy(S), equal(A, X), "broadcast right")),
    "a join whose one input covers the other": lambda: optimized(pruned()),
    "a join with ranges whose last key is not known": lambda: optimized(pruned(left=compute(BY_RANGES, A, V))),
    "an aggregate over what was covered": lambda: optimized(aggregate(pruned(), (A, B), sum=(SUM, total(V)))),
    "a spool": lambda: from_spool(join(INNER, send(R, A), read(), equal(A, X))),
    "a window": lambda: optimized(windowed(sort(send(R, A), A, V))),
    "ranges in order": lambda: in_order(sort(send_by(ranges, R), A)),
    "one stream in order": lambda: in_order(move(FullMerge(SortMerge((asc(A),))), sort(R, A)), "serial"),
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


def union(left: Physical, right: Physical) -> Physical:
    keys = tuple(JoinKey(pair, pair[0].type, null_safe=True) for pair in zip((A, B, V), (X, Y, W), strict=True))
    out = columns(41, "p q t")
    return node(ops.ConcatenatePartitions(out, ((A, B, V), (X, Y, W)), keys), left, right)


def renamed(below: Physical) -> Physical:
    return node(ops.Rename("r", (X, Y, W), below.columns), below)


def lying_about_facts() -> Optimized:
    """Stored on b, which a does not determine, though a node says that it does."""
    stored = scan("r", (A, B, V), layout=Delivered(hashed([B], 8)))
    lie = Dependencies.of((Dependency(frozenset((A,)), frozenset((B,))),))
    return optimized(aggregate(replace(stored, facts=lie), (A,), sum=(SUM, total(V))))


def null_extended() -> Optimized:
    """Rows of r without a match have NULL in x and are wherever a is: GROUP BY x would find NULL twice."""
    outer = join(LEFT, send(R, A), send(S, X), equal(A, X))
    claim = over(outer, delivered=Delivered(hashed([X], 8)))
    return optimized(aggregate(claim, (X,), sum=(SUM, total(V))))


def asking(plan: logical.Plan) -> Optimized:
    subquery = ScalarSubquery(plan, frozenset())
    return optimized(select(R, Call(">", (Ref(A), subquery), pa.bool_())))


SHUFFLED = grouped()
(GATHERED,) = combined().inputs
JOINED = joined()

FAULTS: dict[str, tuple[Callable[[], Optimized], str]] = {
    # what is missing below
    "an exchange dropped": (lambda: optimized(over(SHUFFLED, R, delivered=R.delivered)), "in one partition|requires"),
    "an exchange dropped, its layout still claimed": (lambda: optimized(over(SHUFFLED, R)), "requires"),
    "an exchange on other columns": (lambda: optimized(over(SHUFFLED, send(R, V))), "not determined: v#3"),
    "a serial aggregate over partitions": (lambda: optimized(over(SHUFFLED, alternative="serial")), "requires {⊥"),
    "a partitioned aggregate over one stream": (lambda: optimized(over(SHUFFLED, gather(R))), "requires"),
    "no sort under a merge join": (lambda: optimized(merged(left=send(R, A))), "missing is order [a#1↑]"),
    "the other direction under a merge join": (
        lambda: optimized(merged(left=sort(send(R, A), desc(A)))),
        "order [a#1↑]",
    ),
    "NULLs last under a merge join": (lambda: optimized(merged(left=sort(send(R, A), asc(A, False)))), "order [a#1↑]"),
    "no sort under a stream aggregate": (
        lambda: optimized(aggregate(send(R, A), (A, B), sum=(SUM, total(V)), streaming=True)),
        "missing is order",
    ),
    "a window without its order": (lambda: optimized(windowed(sort(send(R, A), A))), "order [v#3↑]"),
    "an order by ranges that are hashes": (lambda: in_order(sort(send(R, A), A)), "requires {[a#1↑]o"),
    "an order by ranges of the other direction": (
        lambda: in_order(sort(send_by(ranged([desc(A)], Sampled("1", 8)), R), A)),
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
    "a join by functions nobody knows": (
        lambda: optimized(
            joined(
                over(send(R, A), delivered=Delivered(Partitioned(Unknown(1, 8), (A,)))),
                node(ops.Move(Repartitioning(Partitioned(Unknown(1, 8), (X,)), RandomMerge()), S.columns), S),
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
    "a dependency that nobody declared": (lying_about_facts, "not determined: b#2"),
    "a dependency the wrong way round": (
        lambda: optimized(
            aggregate(scan("r", (A, B, V), layout=Delivered(hashed([A], 8)), depends={A: B}), (B,), sum=(SUM, total(V)))
        ),
        "not determined: a#1",
    ),
    "NULLs that an outer join invented": (null_extended, "claims to deliver"),
    # claims
    "a sort that claims another order": (
        lambda: optimized(over(sort(send(R, A), A), delivered=Delivered(hashed([A], 8), (asc(B),)))),
        "claims to deliver",
    ),
    "an exchange that claims another count": (
        lambda: optimized(over(send(R, A), delivered=Delivered(hashed([A], 16)))),
        "claims to deliver",
    ),
    "a random merge that claims an order": (
        lambda: optimized(over(gather(sort(R, A)), delivered=Delivered(Serial(), (asc(A),)))),
        "claims to deliver",
    ),
    "one partition claimed of many": (lambda: optimized(over(R, delivered=Delivered(Serial()))), "claims to deliver"),
    "costed for another count": (
        lambda: optimized(over(send(R, A), amount=replace(R.amount, partitions=64))),
        "costed for 64 partitions",
    ),
    "files that claim a layout": (
        lambda: optimized(with_operator(R, layout=Delivered(hashed([A], 8)))),
        "nothing is known of that",
    ),
    "stored files that claim another layout": (
        lambda: optimized(
            aggregate(with_operator(STORED, layout=Delivered(hashed([A], 8))), (A,), sum=(SUM, total(V)))
        ),
        "but they are",
    ),
    # exchanges
    "a merge in order of what is in none": (
        lambda: optimized(move(FullMerge(SortMerge((asc(A),))), R)),
        "merges in the order",
    ),
    "one stream split that are many": (
        lambda: optimized(
            claiming(
                ops.Move(InitialPartitioning(hashed([A], 8)), R.columns), (R,), Delivered(hashed([A], 8)), R.facts, ""
            )
        ),
        "initial partitioning takes one stream",
    ),
    "partitions read in place that are elsewhere": (
        lambda: optimized(with_operator(send(R, A), readers=2.0)),
        "reads in place",
    ),
    "partitions of another column read in place": (
        lambda: optimized(with_operator(send(scan("r", (A, B, V), layout=Delivered(hashed([B], 4))), A), readers=2.0)),
        "reads in place",
    ),
    "an exchange of copies": (
        lambda: optimized(
            claiming(ops.Move(FullMerge(RandomMerge()), R.columns), (copy(R),), Delivered(Serial()), R.facts, "")
        ),
        "requires {anyhow",
    ),
    "copies counted by an aggregate": (lambda: optimized(over(SHUFFLED, copy(R), delivered=R.delivered)), "requires"),
    "copies as the result": (lambda: optimized(copy(R)), "rows once for each partition that has a copy"),
    "copies to some partitions as the result": (
        lambda: optimized(cover()),
        "rows once for each partition that has a copy",
    ),
    "copies to some partitions counted": (
        lambda: optimized(over(SHUFFLED, cover(R, A), delivered=R.delivered)),
        "requires",
    ),
    "copies to some partitions claimed to be everywhere": (
        lambda: optimized(
            join(LEFT, R, over(cover(), delivered=Delivered(Replicated())), equal(A, X), "broadcast right")
        ),
        "claims to deliver",
    ),
    "copies to some partitions claimed to be rows": (
        lambda: optimized(over(cover(), delivered=Delivered(Scattered(4)))),
        "claims to deliver",
    ),
    # joins
    "copies in other partitions than rows lie in": (
        lambda: optimized(pruned(cover(layout=CUT_OTHERWISE))),
        "two functions",
    ),
    "copies for ranges whose first key is not known": (
        lambda: optimized(join(LEFT, compute(BY_RANGES, B, V), cover(), equal(B, X), "pruned broadcast right")),
        "no function of columns",
    ),
    "ranges claimed by a key that they do not begin with": (
        lambda: optimized(
            pruned(left=over(compute(BY_RANGES, (A, Ref(B)), V), delivered=Delivered(Within(IN_RANGES.function, (A,)))))  # type: ignore[arg-type]
        ),
        "claims to deliver",
    ),
    "groups of ranges whose last key is not known": (
        lambda: optimized(aggregate(compute(BY_RANGES, A, V), (A,), sum=(SUM, total(V)))),
        "requires",
    ),
    "copies where another column says": (lambda: optimized(pruned(cover(on=Y))), "no key equates"),
    "copies for rows that lie anyhow": (lambda: optimized(pruned(left=R)), "no function of columns"),
    "no copies where some are needed": (
        lambda: optimized(over(pruned(), BY_RANGES, send_by(ranged([asc(X), asc(Y)], [(1, 5), (1, 7), (3,)]), S))),
        "requires {⊤ where there can be matches",
    ),
    "copies of the preserved side to some partitions": (
        lambda: optimized(over(pruned(), cover(R, A), S, alternative="pruned broadcast left", delivered=S.delivered)),
        "cannot run so",
    ),
    "a full join with copies in some partitions": (
        lambda: optimized(
            with_operator(
                pruned(kind=INNER),
                join=replace(pruned(kind=INNER).operator.join, kind=JoinKind.FULL),  # type: ignore[attr-defined]
            )
        ),
        "cannot run so",
    ),
    "the preserved side of an outer join copied": (
        lambda: optimized(
            over(join(LEFT, R, copy(S), equal(A, X), "broadcast right"), copy(R), S, alternative="broadcast left")
        ),
        "cannot run so",
    ),
    "a full join with a copied side": (
        lambda: optimized(
            claiming(
                replace(JOINED.operator, join=replace(JOINED.operator.join, kind=JoinKind.FULL)),  # type: ignore[attr-defined,type-var]
                (R, copy(S)),
                Delivered(Scattered(8)),
                JOINED.facts,
                "broadcast right",
            )
        ),
        "cannot run so",
    ),
    "a key that the condition does not have": (
        lambda: optimized(with_operator(JOINED, keys=(JoinKey((A, Y), A.type),))),
        "not what its condition says",
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
    "an anti join that pretends to be NOT IN": (
        lambda: optimized(
            with_operator(join(JoinKind.ANTI, R, copy(S), equal(A, X), "broadcast right"), null_aware=True)
        ),
        "not the NOT IN",
    ),
    "a NOT IN by partitions": (
        lambda: optimized(with_operator(join(JoinKind.ANTI, send(R, A), send(S, X), equal(A, X)), null_aware=True)),
        "cannot run so",
    ),
    # halves
    "a partial aggregate that nobody finishes": (lambda: optimized(begun()), "ends with the findings"),
    "a final aggregate that nobody began": (
        lambda: optimized(finished(send(compute(R, A, (STATE, Ref(V))), A))),
        "nothing has begun",
    ),
    "a final aggregate of another's findings": (
        lambda: optimized(node(ops.HashAggregate((A,), ((SUM, total(B)),), "final", (STATE,)), send(begun(), A))),
        "does not finish",
    ),
    "a filter on findings": (
        lambda: optimized(halves(lambda plan: select(plan, more_than(STATE, 5)))),
        "must be finished first",
    ),
    "findings under an outer join": (
        lambda: optimized(finished(send(join(LEFT, begun(), copy(S), equal(A, X), "broadcast right"), A))),
        "left outer join over the findings",
    ),
    "findings compared by a join": (
        lambda: optimized(
            finished(send(join(INNER, begun(), copy(S), both(equal(A, X), equal(STATE, W)), "broadcast right"), A))
        ),
        "compares the findings",
    ),
    "findings of both sides joined": (
        lambda: optimized(
            finished(
                join(
                    INNER,
                    send(begun(), A),
                    send(node(ops.HashAggregate((X,), ((OTHER, total(W)),), "partial"), S), X),
                    equal(A, X),
                )
            )
        ),
        "brings together",
    ),
    "findings combined that nobody began": (
        lambda: optimized(finished(send(combined(compute(R, A, (STATE, Ref(V)))), A))),
        "nothing has begun",
    ),
    "findings combined and not finished": (lambda: optimized(combined()), "ends with the findings"),
    "findings of another aggregate combined": (
        lambda: optimized(finished(send(combined(call=total(B)), A))),
        "does not combine",
    ),
    "findings combined whatever their keys": (
        lambda: optimized(finished(send(combined(begun(keys=(A, B))), A))),
        "of other keys",
    ),
    "fragments of other partitions than there are": (
        lambda: optimized(finished(send(over(combined(), over(GATHERED, begun(scan("r", R.columns, pieces=4)))), A))),
        "4 partitions cannot be gathered in 8 places",
    ),
    "findings grouped on": (
        lambda: optimized(node(ops.HashAggregate((A, STATE), ((SUM, total(V)),), "final", (STATE,)), send(begun(), A))),
        "groups on the findings",
    ),
    "findings put in a spool": (
        lambda: optimized(
            node(ops.ReadSpool("r", 7, (X, Y), Delivered(hashed([X], 8)))), spools=[Spool("r", 7, send(begun(), A), 2)]
        ),
        "findings",
    ),
    "first rows of each partition as the result": (
        lambda: optimized(node(ops.PartialFirstRows(10, (asc(B),), R.columns), R)),
        "ends with the first 10 rows",
    ),
    "more first rows than each partition kept": (lambda: optimized(first_rows(count=20)), "more rows than"),
    "first rows in another order": (lambda: optimized(first_rows(keys=(asc(B), asc(V)))), "order|requires"),
    "first rows of each partition filtered": (
        lambda: optimized(select(node(ops.PartialFirstRows(10, (), R.columns), R), more_than(V, 5))),
        "must be finished first",
    ),
    # spools
    "a spool that nothing fills": (lambda: from_spool(read(spool=8)), "which nothing fills"),
    "a spool that claims another layout": (lambda: from_spool(read(Delivered(hashed([Y], 8)))), "claims to deliver"),
    "a spool with its columns mixed up": (
        lambda: from_spool(join(INNER, send(R, A), read(of=(Y, X, W)), equal(A, X))),
        "claims to deliver",
    ),
    "a spool with a column too few": (lambda: from_spool(read(of=(X, Y))), "reads 2 columns of a spool with 3"),
    "a spool that is filled from itself": (
        lambda: optimized(read(), spools=[Spool("r", 7, read(), 2)]),
        "filled from itself",
    ),
    # columns and results
    "a column that is not there": (
        lambda: optimized(with_operator(select(R, more_than(V, 5)), predicate=more_than(W, 5))),
        "reads w#13",
    ),
    "a column that is passed on from nowhere": (
        lambda: optimized(with_operator(send(R, A), columns=(A, W))),
        "passes on w#13",
    ),
    "an exchange on a column that is not there": (
        lambda: optimized(
            claiming(
                ops.Move(Repartitioning(hashed([X], 8), RandomMerge()), R.columns),
                (R,),
                Delivered(hashed([X], 8)),
                R.facts,
                "",
            )
        ),
        "reads x#11",
    ),
    "a column twice": (lambda: optimized(with_operator(send(R, A), columns=(A, A))), "yields a#1 twice"),
    "other columns than asked for": (lambda: optimized(R, asked=(A, B)), "are asked for"),
    "a result that is not in order": (lambda: optimized(sort(send(R, A), A), [asc(A)]), "must yield rows in the order"),
    "a result in order inside its ranges only by half": (
        lambda: optimized(sort(send_by(ranges, R), A), [asc(A), asc(B)]),
        "must yield rows in the order",
    ),
    "a subquery without a plan": (lambda: asking(logical.TableScan(("t",), (X,))), "that has no plan"),
    "one input too few": (lambda: optimized(over(JOINED, send(R, A))), "inputs|do not have"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_seen(name: str) -> None:
    planted, reason = FAULTS[name]
    with pytest.raises(InternalError) as refusal:
        verify(planted())
    text = str(refusal.value)
    assert any(part in text for part in reason.split("|")), text


def test_a_refusal_names_the_node_the_requirement_and_what_was_delivered() -> None:
    with pytest.raises(InternalError) as refusal:
        verify(optimized(over(SHUFFLED, R)))
    text = str(refusal.value)
    assert "HashAggregate (partitioned) of a#1, b#2, sum#21" in text
    assert str(Clustered(frozenset((A, B)), parallel=True)) in text
    assert "which delivers {∅; []}" in text
