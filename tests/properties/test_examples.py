"""The worked examples of the papers, by name.

ICDE 2010 is Zhou, Larson, Chaiken, "Incorporating Partitioning and Parallel Plans into the SCOPE Optimizer". "Notes" are
reading notes on it that reproduce Table II and work out each rule on a few rows.
"""

from __future__ import annotations

import pyarrow as pa

from tests.support.property_rows import Choices, merge_streams
from tests.support.property_semantics import broken_dependency, broken_global, broken_local
from unshuffle.catalog.schema import Column
from unshuffle.properties import (
    NO_FACTS,
    Clustered,
    ConcatMerge,
    CoPartitioned,
    Delivered,
    Dependencies,
    FullMerge,
    InitialPartitioning,
    JoinKey,
    JoinKind,
    MissingOrder,
    Predicate,
    Proof,
    RandomMerge,
    Repartitioning,
    Required,
    Rule,
    SampledBoundaries,
    Serial,
    Side,
    SortConcatMerge,
    SortMerge,
    UnknownPartitioning,
    Unmet,
    asc,
    check,
    depends,
    desc,
    equality,
    exchange,
    formula,
    grouped,
    hashed,
    join,
    match,
    match_global,
    match_joint,
    match_local,
    ordered,
    ranged,
)
from unshuffle.properties.matching import operator_requirements

INT = pa.int64()
C = {i: Column(i, f"C{i}", INT) for i in range(1, 8)}
C1, C2, C3, C4, C5, C6, C7 = C.values()


def rows(*values):
    return [{C[i + 1]: v for i, v in enumerate(row)} for row in values]


def proven(found) -> bool:
    return isinstance(found, Proof)


# ICDE 2010, introduction and section IV


def test_icde_figure_1_one_partitioning_serves_the_join_and_the_group_by() -> None:
    """R and S joined on a and b, grouped by R.c and S.d. With c -> a, partitioning on a alone serves both."""
    ra, rb, rc = (Column(i, n, INT) for i, n in ((1, "a"), (2, "b"), (3, "c")))
    sa, sb, sd = (Column(i, n, INT) for i, n in ((11, "a"), (12, "b"), (13, "d")))
    keys = CoPartitioned((JoinKey((ra, sa), INT), JoinKey((rb, sb), INT)))
    left = Side(frozenset((ra, rb, rc)), Dependencies.of([depends([rc], [ra])]))
    right = Side(frozenset((sa, sb, sd)), NO_FACTS)
    inputs = [(Delivered(hashed([ra], 500)), left.facts), (Delivered(hashed([sa], 500)), right.facts)]
    assert proven(match_joint(inputs, keys))
    facts = join(JoinKind.INNER, left, right, Predicate(equal=((ra, sa), (rb, sb))))
    group = operator_requirements.hash_aggregate((rc, sd))[1].children[0]
    assert proven(match(Delivered(hashed([ra], 500)), group, facts))
    assert proven(match(Delivered(hashed([sa], 500)), group, facts))
    # Plan (a), partitioned on a and b, needs the second repartitioning.
    assert isinstance(match(Delivered(hashed([ra, rb], 500)), group, facts), Unmet)


def test_icde_definition_4_2_descending_is_descending() -> None:
    """The printed definition has the ascending sign in both cases."""
    down = rows((3,), (2,), (2,), (1,))
    assert broken_local(down, (desc(C1),)) is None
    assert broken_local(down, (asc(C1),)) is not None


def test_icde_two_groupings_imply_one_on_both_and_not_the_reverse() -> None:
    assert proven(match_local((grouped(C1), grouped(C2)), (grouped(C1, C2),), NO_FACTS))
    assert not proven(match_local((grouped(C1, C2),), (grouped(C1), grouped(C2)), NO_FACTS))


def test_icde_and_notes_table_2() -> None:
    """{{C1}g; {{C1, C2}g, C3o}}. The notes have the rows right; in the paper's text rows are in the wrong
    partitions."""
    right = [
        rows((1, 4, 2), (1, 4, 5), (7, 1, 2)),
        rows((4, 1, 5), (3, 7, 8), (3, 7, 9)),
        rows((6, 2, 1), (6, 2, 9)),
    ]
    local = (grouped(C1, C2), asc(C3))
    assert broken_global(right, grouped(C1)) is None
    assert all(broken_local(part, local) is None for part in right)
    assert broken_global(right, ordered(asc(C1))) is not None
    garbled = [
        rows((1, 4, 2), (7, 1, 2)),
        rows((1, 4, 5), (3, 7, 9)),
        rows((4, 1, 5), (3, 7, 8), (6, 2, 1), (6, 2, 9)),
    ]
    assert broken_global(garbled, grouped(C1)) is not None


# ICDE 2010, section V


def test_icde_example_1_concat_merge() -> None:
    given = Delivered(hashed([C1, C2], 4), (asc(C2), asc(C1), asc(C3)))
    expected = (grouped(C1, C2), asc(C3))
    repartitioned = exchange(Repartitioning(hashed([C1, C2], 8), ConcatMerge()), given, NO_FACTS)
    assert formula(repartitioned.partitioning, NO_FACTS) == grouped(C1, C2)
    # From 4 into 8 partitions by the same hash, no two inputs are merged. The whole order is preserved, and it implies
    # what the paper derives.
    assert repartitioned.local == given.local
    assert proven(match_local(repartitioned.local, expected, NO_FACTS))
    elsewhere = exchange(Repartitioning(hashed([C1, C2], 3), ConcatMerge()), given, NO_FACTS)
    assert elsewhere.local == expected
    assert exchange(FullMerge(ConcatMerge()), given, NO_FACTS) == Delivered(Serial(), expected)


def test_icde_example_2_sort_concat_merge() -> None:
    order = (asc(C1), asc(C2), asc(C3))
    given = Delivered(ranged(order[:2], SampledBoundaries("stored", 4)), order)
    assert exchange(FullMerge(SortConcatMerge(order[:2])), given, NO_FACTS) == Delivered(Serial(), order)


# ICDE 2010, section VI


def test_icde_example_3_requirements_of_a_merge_join() -> None:
    r1, r2, s1, s2 = (Column(i, n, INT) for i, n in ((1, "C1"), (2, "C2"), (11, "C1"), (12, "C2")))
    first, second = JoinKey((r1, s1), INT), JoinKey((r2, s2), INT)
    for on, order in (((first,), (second, first)), ((second,), (first, second)), ((first, second), (second, first))):
        wish = operator_requirements.merge_join(JoinKind.INNER, [operator_requirements.MergeKey(key) for key in order])[
            1
        ]
        inputs = [
            Delivered(hashed([key.columns[side] for key in on], 8), tuple(asc(key.columns[side]) for key in order))
            for side in (0, 1)
        ]
        for side in (0, 1):
            assert proven(match(inputs[side], wish.children[side], NO_FACTS))
        assert wish.joint is not None
        assert proven(match_joint([(each, NO_FACTS) for each in inputs], wish.joint))


def test_icde_aggregation_on_c1_c2_accepts_three_layouts() -> None:
    """Pmin = {}, Pmax = {C1, C2}: hash or range, on C1, on C2 or on both."""
    wish = operator_requirements.hash_aggregate((C1, C2))[1].children[0]
    for layout in (
        hashed([C1], 4),
        hashed([C2], 4),
        hashed([C1, C2], 4),
        ranged([desc(C2)], SampledBoundaries("s", 4)),
    ):
        assert proven(match(Delivered(layout), wish, NO_FACTS))
    assert isinstance(match(Delivered(hashed([C1, C3], 4)), wish, NO_FACTS), Unmet)
    assert isinstance(match(Delivered(UnknownPartitioning(4)), wish, NO_FACTS), Unmet)


# ICDE 2010, sections VII to IX


def test_icde_example_4_and_notes_matching() -> None:
    facts = Dependencies.of([depends([C6, C2], [C3])], [*equality(C1, C6), *equality(C2, C7)])
    assert facts.representative(C6) == C1
    assert facts.representative(C7) == C2
    clustered = match_global(grouped(C7, C1, C3), grouped(C1, C2, C4), facts)
    sorted_ = match_local((asc(C6), desc(C2), asc(C5)), (grouped(C1, C2),), facts)
    assert isinstance(clustered, Proof)
    assert isinstance(sorted_, Proof)
    found = clustered + sorted_
    assert [step.rule for step in found.steps] == [
        Rule.EQUAL,
        Rule.DROP_GROUPED,
        Rule.EXPAND,
        Rule.TRUNCATE,
        Rule.SORTED_IS_GROUPED,
        Rule.MERGE_GROUPS,
        Rule.EQUAL,
    ]
    assert all(check(step, facts) for step in found.steps)
    assert str(found.steps[1]) == (
        "{C1#1, C2#2, C3#3}g ⇒ {C1#1, C2#2}g  by rule 6: a determined column adds nothing to a grouping  "
        "since C1#1, C2#2 -> C3#3"
    )


def test_icde_example_5_three_ways_to_partition_a_filter() -> None:
    wish = Required(Clustered(frozenset((C1, C2)), parallel=True))
    target = hashed([C1, C2], 8)
    # 1. The child already has this partitioning, and a filter preserves it.
    assert proven(match(Delivered(target), wish, NO_FACTS))
    # 2. A repartitioning, whatever the child's layout.
    for child in (UnknownPartitioning(5), hashed([C3], 5), Serial()):
        moved = exchange(Repartitioning(target, RandomMerge()), Delivered(child), NO_FACTS)
        assert proven(match(moved, wish, NO_FACTS))
    # 3. An initial partitioning of a serial child.
    moved = exchange(InitialPartitioning(target), Delivered(Serial()), NO_FACTS)
    assert proven(match(moved, wish, NO_FACTS))


def test_icde_section_9_the_sample_script_needs_one_exchange_per_input() -> None:
    guid, start, end, group = (Column(i, n, INT) for i, n in ((1, "guid"), (2, "start"), (12, "end"), (13, "group")))
    guid2 = Column(11, "guid", INT)
    starts = exchange(
        Repartitioning(hashed([guid], 150), SortMerge((asc(guid), asc(start)))),
        Delivered(UnknownPartitioning(150), (asc(guid), asc(start))),
        NO_FACTS,
    )
    ends = exchange(
        Repartitioning(hashed([guid2], 150), SortMerge((asc(guid2), asc(end), asc(group)))),
        Delivered(UnknownPartitioning(150), (asc(guid2), asc(end), asc(group))),
        NO_FACTS,
    )
    assert proven(match(starts, operator_requirements.stream_aggregate((start, guid))[1].children[0], NO_FACTS))
    assert proven(match(ends, operator_requirements.stream_aggregate((end, group, guid2))[1].children[0], NO_FACTS))
    wish = operator_requirements.merge_join(
        JoinKind.INNER, [operator_requirements.MergeKey(JoinKey((guid, guid2), INT))]
    )[1]
    assert wish.joint is not None
    assert proven(match(starts, wish.children[0], NO_FACTS))
    assert proven(match(ends, wish.children[1], NO_FACTS))
    assert proven(match_joint([(starts, NO_FACTS), (ends, NO_FACTS)], wish.joint))


# The notes, the definitions on rows


def test_notes_functional_dependency_by_arithmetic() -> None:
    data = rows(*((n, n * 2, n % 2) for n in range(5)))
    assert broken_dependency(data, depends([C1], [C2, C3])) is None
    assert broken_dependency(data, depends([C3], [C1])) is not None


def test_notes_grouping_orders() -> None:
    for data in (
        rows((1, 1), (2, 1), (2, 2)),
        rows((1, 1), (2, 2), (2, 1)),
        rows((2, 1), (2, 2), (1, 1)),
        rows((2, 2), (2, 1), (1, 1)),
    ):
        assert broken_local(data, (grouped(C1),)) is None
    assert broken_local(rows((2, 1), (1, 1), (2, 2)), (grouped(C1),)) is not None


def test_notes_sorting_orders() -> None:
    assert broken_local(rows((1, 1), (2, 1), (2, 2)), (asc(C1),)) is None
    assert broken_local(rows((1, 1), (2, 2), (2, 1)), (asc(C1),)) is None
    assert broken_local(rows((2, 1), (2, 2), (1, 1)), (asc(C1),)) is not None


def test_notes_non_ordered_and_ordered_partitioning() -> None:
    loose = [rows((1, 1), (1, 2), (3, 7)), rows((2, 2), (2, 6), (4, 3))]
    assert broken_global(loose, grouped(C1)) is None
    assert broken_global(loose, ordered(asc(C1))) is not None
    ranges = [rows((2, 2), (2, 6), (1, 1), (1, 2)), rows((4, 3), (3, 7))]
    assert broken_global(ranges, ordered(asc(C1))) is None


def test_notes_grouped_then_sorted_inside() -> None:
    local = (grouped(C1, C2), asc(C3))
    for data in (rows((1, 1, 2), (1, 1, 10), (2, 2, 1)), rows((2, 2, 1), (1, 1, 2), (1, 1, 10))):
        assert broken_local(data, local) is None
    assert broken_local(rows((1, 1, 10), (1, 1, 2), (2, 2, 1)), local) is not None


# The notes, the rules on rows


def rule_of(found) -> list[Rule]:
    assert isinstance(found, Proof)
    return [step.rule for step in found.steps]


def test_notes_rule_1() -> None:
    data = rows((2, 2, 1), (1, 1, 2), (1, 1, 10))
    assert broken_local(data, (grouped(C1, C2), asc(C3))) is None
    assert broken_local(data, (grouped(C1, C2),)) is None
    assert rule_of(match_local((grouped(C1, C2), asc(C3)), (grouped(C1, C2),), NO_FACTS)) == [Rule.TRUNCATE]


def test_notes_rule_2() -> None:
    parts = [rows((1, 1), (1, 2)), rows((2, 2), (3, 3))]
    assert broken_global(parts, grouped(C1)) is None
    assert broken_global(parts, grouped(C1, C2)) is None
    assert rule_of(match_global(grouped(C1), grouped(C1, C2), NO_FACTS)) == [Rule.EXPAND]
    assert match_global(grouped(C1, C2), grouped(C1), NO_FACTS) == {C2}, "global properties are never truncated"


def test_notes_rule_3() -> None:
    parts = [rows((1, 1), (1, 2)), rows((2, 1))]
    assert broken_global(parts, ordered(asc(C1))) is None
    assert broken_global(parts, ordered(asc(C1), asc(C2))) is None
    found = match_global(ordered(asc(C1)), ordered(asc(C1), desc(C2)), NO_FACTS)
    assert rule_of(found) == [Rule.EXPAND_ORDERED]
    assert not proven(match_global(ordered(asc(C1), asc(C2)), ordered(asc(C1)), NO_FACTS))


def test_notes_rules_4_and_5() -> None:
    assert rule_of(match_local((asc(C1),), (grouped(C1),), NO_FACTS)) == [Rule.SORTED_IS_GROUPED]
    found = match_global(ordered(asc(C1), desc(C2)), grouped(C1, C2), NO_FACTS)
    assert rule_of(found) == [Rule.ORDERED_IS_CLUSTERED]
    assert not proven(match_local((grouped(C1),), (asc(C1),), NO_FACTS))


def test_notes_rule_6() -> None:
    facts = Dependencies.of([depends([C1], [C2])])
    assert rule_of(match_local((grouped(C1, C2),), (grouped(C1),), facts)) == [Rule.DROP_GROUPED]
    assert not proven(match_local((grouped(C1, C2),), (grouped(C2),), facts))


def test_notes_rule_7() -> None:
    facts = Dependencies.of([depends([C1], [C2])])
    assert rule_of(match_local((asc(C1), desc(C2), asc(C3)), (asc(C1), asc(C3)), facts)) == [Rule.DROP_SORTED]
    # A column determined by later ones is not enough: the rows are already out of order by then.
    after = Dependencies.of([depends([C3], [C2])])
    assert isinstance(match_local((asc(C1), asc(C2), asc(C3)), (asc(C1), asc(C3)), after), MissingOrder)
    data = rows((1, 1, 9), (1, 2, 3))
    assert broken_dependency(data, depends([C3], [C2])) is None
    assert broken_local(data, (asc(C1), asc(C3))) is not None


def test_icde_rule_8() -> None:
    facts = Dependencies.of([depends([C1, C2], [C3])])
    found = match_local((grouped(C1, C2), asc(C3), asc(C4)), (grouped(C1, C2), asc(C4)), facts)
    assert rule_of(found) == [Rule.DROP_ACTION]


# The notes, merges


def free() -> Choices:
    return Choices(bytes(range(1, 200)))


def test_notes_sort_merge() -> None:
    streams = [rows((1, 1), (3, 3), (1, 5)), rows((2, 2), (2, 10))]
    given = Delivered(hashed([C1], 2), (asc(C2),))
    assert exchange(FullMerge(SortMerge((asc(C2),))), given, NO_FACTS) == Delivered(Serial(), (asc(C2),))
    merged = merge_streams(free(), streams, SortMerge((asc(C2),)))
    assert merged == rows((1, 1), (2, 2), (3, 3), (1, 5), (2, 10))


def test_notes_concat_merge() -> None:
    streams = [rows((1, 1), (1, 2), (3, 1)), rows((2, 3), (2, 5))]
    local = (grouped(C1), asc(C2))
    assert exchange(FullMerge(ConcatMerge()), Delivered(hashed([C1], 2), local), NO_FACTS).local == local
    for order in (streams, streams[::-1]):
        assert broken_local(order[0] + order[1], local) is None


def test_notes_sort_concat_merge() -> None:
    streams = [rows((1,), (2,), (3,)), rows((6,), (7,), (8,)), rows((4,), (5,))]
    given = Delivered(ranged([asc(C1)], [(4,), (6,)]), (asc(C1),))
    assert exchange(FullMerge(SortConcatMerge((asc(C1),))), given, NO_FACTS).local == (asc(C1),)
    assert merge_streams(free(), streams, SortConcatMerge((asc(C1),))) == rows(*((n,) for n in range(1, 9)))
    small = [rows((1,)), rows((7,), (10,)), rows((14,), (51,))]
    assert merge_streams(free(), small, SortConcatMerge((asc(C1),))) == rows((1,), (7,), (10,), (14,), (51,))
