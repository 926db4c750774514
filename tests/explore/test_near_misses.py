"""For each super-operator a query that it rewrites, and similar queries that it must not rewrite."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.binding import bind, bind_query, bind_script, context_for
from unshuffle.cardinality.estimate import estimate
from unshuffle.explore.join_reordering import gather_joins
from unshuffle.explore.rules import EXPLORATION, SUPER_OPERATOR_NAMES
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import normalize
from unshuffle.optimizer import Options, optimize
from unshuffle.plan import physical
from unshuffle.plan.expressions import Expression, Ref
from unshuffle.plan.logical import Filter, GroupBy, MultiJoin, Plan, walk
from unshuffle.plan.movable_conditions import substitute
from unshuffle.plan.predicates import conjuncts
from unshuffle.plan.rebuild import with_inputs
from unshuffle.plan.safe_expressions import shared_conjuncts
from unshuffle.search.memo import Group, Memo, as_group
from unshuffle.search.trace import Trace

COUNTS = "(select a, count(*) n from t group by a) x"

REWRITTEN = {
    "diamond_union": """
        select a, count(*) n from t where b > 0 group by a union all select a, max(c) from t where b < 2 group by a""",
    "diamond_join": f"select x.a, n, m from {COUNTS} join (select a, max(b) m from t where c > 1 group by a) y on x.a = y.a",
    "diamond_of_totals": "select * from (select count(*) n from t where b > 0) x cross join (select max(c) m from t) y",
    "min_and_join": "select t.*, m from t join (select a, min(b) m from t group by a) y on t.a = y.a",
    "join_with_own_aggregates": "select t.*, m from t join (select a, sum(b) m from t group by a) y on t.a = y.a",
    "extreme_rows": "select t.* from t join (select a, max(b) m from t group by a) y on t.a = y.a and t.b = y.m",
    "two_granularities": """
        select x.a, x.b, n, s from (select a, b, count(*) n from t group by a, b) x
        join (select a, sum(c) s from t group by a) y on x.a = y.a""",
    "union_then_group": """
        select a, sum(b) from (select a, b from t where c > 1 union all select a, b from t where c < 3) group by a""",
    "exists_in_group": "select * from t where exists (select 1 from t o where o.a = t.a and o.b <> t.b and o.c > 1)",
    "first_row_and_join": """
        select t.*, f.b fb from t
        join (select a, b, row_number() over (partition by a order by c, b, s) n from t) f on t.a = f.a and f.n = 1""",
}

# Rule -> difference -> query.
NOT_REWRITTEN = {
    "diamond_union": {
        "another table": "select a, count(*) from t group by a union all select d, count(*) from u group by d",
        "other keys": "select a, count(*) from t group by a union all select b, count(*) from t group by b",
        "keys by other names": "select a, b, count(*) from t group by a, b union all select a, c, max(b) from t group by a, c",
        "a random filter": """
            select a, count(*) from t where rand() < 0.5 group by a union all select a, max(b) from t group by a""",
        "a list": "select a, collect_list(b)[0] from t group by a union all select a, max(b) from t group by a",
        "distinct values": """
            select a, count(distinct b), count(distinct c) from t group by a
            union all select a, max(b), max(c) from t group by a""",
        "rows": "select a, count(*) from t group by a union all select a, b from t",
    },
    "diamond_join": {
        "another table": f"select x.a from {COUNTS} join (select d, max(e) m from u group by d) y on x.a = y.d",
        "fewer columns compared": """
            select x.a, n, m from (select a, b, count(*) n from t group by a, b) x
            join (select a, b, max(c) m from t group by a, b) y on x.a = y.a""",
        "not the keys": f"select x.a, n, m from {COUNTS} join (select a, max(b) m from t group by a) y on x.a = y.m",
        "keys renamed apart": """
            select x.p, n, m from (select a p, b q, count(*) n from t group by a, b) x
            join (select b p, a q, max(c) m from t group by a, b) y on x.p = y.p and x.q = y.q""",
        "a random aggregate": f"""
            select x.a, n, m from {COUNTS} join (select a, sum(rand()) m from t group by a) y on x.a = y.a""",
        "a range": f"select x.a, n, m from {COUNTS} join (select a, max(b) m from t group by a) y on x.a < y.a",
    },
    "diamond_of_totals": {
        "another table": "select * from (select count(*) n from t) x cross join (select max(e) m from u) y",
        "groups": f"select * from {COUNTS} cross join (select max(c) m from t) y",
        "an outer join": "select * from (select count(*) n from t) x left join (select max(c) m from t) y on n > m",
    },
    "min_and_join": {
        "another table": "select t.*, m from t join (select d, min(e) m from u group by d) y on t.a = y.d",
        "a filter below the minimum": """
            select t.*, m from t join (select a, min(b) m from t where c > 1 group by a) y on t.a = y.a""",
        "not the key": "select t.*, m from t join (select a, min(b) m from t group by a) y on t.b = y.a",
        "a minimum of some rows": """
            select t.*, m from t join (select a, min(b) filter (where c > 1) m from t group by a) y on t.a = y.a""",
        "rows and groups that are both kept": """
            select t.*, m from (select a, min(b) m from t group by a) y full join t on t.a = y.a and t.c > 1""",
    },
    "join_with_own_aggregates": {
        "another table": "select t.*, m from t join (select d, sum(e) m from u group by d) y on t.a = y.d",
        "a filter below the sum": """
            select t.*, m from t join (select a, sum(b) m from t where c > 1 group by a) y on t.a = y.a""",
        "distinct values": """
            select t.*, m, k from t
            join (select a, count(distinct b) m, count(distinct c) k from t group by a) y on t.a = y.a""",
    },
    "extreme_rows": {
        "another value": "select t.* from t join (select a, max(b) m from t group by a) y on t.a = y.a and t.c = y.m",
        "a filter below the maximum": """
            select t.* from t join (select a, max(b) m from t where c > 1 group by a) y on t.a = y.a and t.b = y.m""",
        "an outer join": "select t.*, m from t left join (select a, max(b) m from t group by a) y on t.a = y.a and t.b = y.m",
    },
    "two_granularities": {
        "another table": """
            select x.a from (select a, b, count(*) n from t group by a, b) x
            join (select d, sum(e) s from u group by d) y on x.a = y.d""",
        "an average": """
            select x.a, x.b, n, s from (select a, b, count(*) n from t group by a, b) x
            join (select a, avg(c) s from t group by a) y on x.a = y.a""",
        "other rows": """
            select x.a, x.b, n, s from (select a, b, count(*) n from t group by a, b) x
            join (select a, sum(c) s from t where c > 1 group by a) y on x.a = y.a""",
        "a key that is no part": """
            select x.a, x.b, n, s from (select a, b, count(*) n from t group by a, b) x
            join (select c, sum(b) s from t group by c) y on x.a = y.c""",
    },
    "union_then_group": {
        "another table": "select a, sum(b) from (select a, b from t union all select d, e from u) group by a",
        "columns that change places": """
            select a, sum(b) from (select a, b from t where c > 1 union all select b, a from t where c < 3) group by a""",
        "a constant key": """
            select k, sum(b) from (select 1 k, b from t where c > 1 union all select 2 k, b from t where c < 3) group by k""",
        "an average": "select a, avg(b) from (select a, b from t where c > 1 union all select a, b from t where c < 3) group by a",
    },
    "exists_in_group": {
        "another table": "select * from t where exists (select 1 from u where u.d = t.a and u.e <> t.b)",
        "two comparisons": """
            select * from t where exists (select 1 from t o where o.a = t.a and o.b < t.b and o.c > t.c)""",
        "a key that is only safe in some rows": """
            select * from (select 10 / a k, b from t where a <> 0) l
            left semi join (select 10 / a k, c from t where a <> 0 and c > 1) r on l.k = r.k""",
        "no group": "select * from t where exists (select 1 from t o where o.b < t.c)",
        "another column": "select * from t where exists (select 1 from t o where o.b = t.a)",
    },
    "first_row_and_join": {
        "the first two": """
            select t.*, f.b fb from t
            join (select a, b, row_number() over (partition by a order by c, b) n from t) f on t.a = f.a and f.n <= 2""",
        "the first of some": """
            select t.*, f.b fb from t
            join (select a, b, row_number() over (partition by a order by c, b) n from t where c > 1) f
            on t.a = f.a and f.n = 1""",
        "a rank": """
            select t.*, f.b fb from t
            join (select a, b, rank() over (partition by a order by c, b) n from t) f on t.a = f.a and f.n = 1""",
    },
}
NEAR_MISSES = [
    pytest.param(rule, query, id=f"{rule}-{what}")
    for rule, cases in NOT_REWRITTEN.items()
    for what, query in cases.items()
]


def fired(query: str) -> dict[str, int]:
    rules = optimize(bind_query(query)).trace.rules
    return {rule: count for rule, count in rules.items() if rule in SUPER_OPERATOR_NAMES}


def forced(query: str) -> Plan:
    """The plan that uses a super-operator wherever there is one."""
    plan = bind(query)
    numbers = context_for(plan).numbers
    memo = Memo(estimate, EXPLORATION, numbers, Trace())
    root = memo.insert(gather_joins(normalize(plan, Rewriting(numbers))))

    def written(group: Group) -> Plan:
        ways = [each for each in group.expressions if not isinstance(each, MultiJoin)]
        names = SUPER_OPERATOR_NAMES
        chosen = next((each for each in ways if getattr(memo.made_by(each), "__name__", None) in names), ways[0])
        return with_inputs(chosen, [written(as_group(child)) for child in chosen.children])

    return written(root)


@pytest.mark.parametrize("rule", REWRITTEN)
def test_rule_fires(rule: str) -> None:
    assert rule in fired(REWRITTEN[rule])


@pytest.mark.parametrize(("rule", "query"), NEAR_MISSES)
def test_rule_does_not_fire_on_near_misses(rule: str, query: str) -> None:
    assert rule not in fired(query)


GROUPS = "(select a, count(*) n from t where b > 0 group by a) x"
ROWS = "(select a, c from t where b < 2) y"


@pytest.mark.parametrize(
    ("query", "is_rewritten"),
    [
        (f"select x.a, n from {GROUPS} left semi join {ROWS} on x.a = y.a", True),
        (f"select x.a, n from {GROUPS} left anti join {ROWS} on x.a <=> y.a", True),
        (f"select x.a, n from {GROUPS} where exists (select 1 from {ROWS} where x.a = y.a)", True),
        (f"select x.a, n from {GROUPS} where not exists (select 1 from {ROWS} where x.a = y.a)", True),
        (f"select x.a, n from {GROUPS} where x.a in (select a from {ROWS})", True),
        ("select a from t where b > 0 intersect select a from t where b < 2", True),
        ("select a from t where b > 0 except select a from t where b < 2", True),
        ("select a, count(*) from t group by a except select a, max(c) from t where b > 0 group by a", True),
        # The rows are looked at one by one, or are of other groups, or a NULL among them concerns all groups.
        (f"select x.a, n from {GROUPS} left semi join {ROWS} on x.a = y.a and y.c > n", False),
        (f"select x.a, n from {GROUPS} left semi join {ROWS} on x.a = y.c", False),
        (f"select x.a, n from {GROUPS} where x.a not in (select a from {ROWS})", False),
        (f"select x.a, n from {GROUPS} left semi join (select d from u) y on x.a = y.d", False),
        (f"select y.a, y.c from {ROWS} left anti join u on y.a = u.d", False),
    ],
)
def test_groups_by_whether_they_have_certain_rows(query: str, is_rewritten: bool) -> None:
    assert ("diamond_join" in fired(query)) == is_rewritten


UNRELATED = "select d, e from u"
FIRST = "select a, count(*) n from t where b > 0 group by a"
SECOND = "select a, max(c) from t where b < 2 group by a"
OF_U = ("select d, max(e) from u group by d", "select d, count(*) from u where e > 2 group by d")


@pytest.mark.parametrize(
    ("branches", "groupings"),
    [
        ((FIRST, UNRELATED, SECOND), 1),
        ((UNRELATED, FIRST, SECOND), 1),
        ((FIRST, OF_U[0], SECOND), 2),
        ((FIRST, OF_U[0], SECOND, OF_U[1]), 2),
        ((FIRST, OF_U[0], UNRELATED), 2),
    ],
)
def test_branches_that_belong_together_are_one_pass(branches: tuple[str, ...], groupings: int) -> None:
    """Whatever the other branches of the union are."""
    found = forced(" union all ".join(branches))
    assert sum(isinstance(node, GroupBy) for node in walk(found)) == groupings


FIRST_TWO = """
    select f.a, f.b, m from (select a, b, row_number() over (partition by a order by c) k from t{below}) f
    join (select a, {aggregates} m from t{grouped} group by a) y on f.a = y.a where k <= 2"""


@pytest.mark.parametrize(
    ("aggregates", "below", "grouped", "rule"),
    [
        ("count(*)", "", "", "join_with_own_aggregates"),
        ("max(b)", "", "", "min_and_join"),
        ("sum(b)", " where c > 1", " where c > 1", "join_with_own_aggregates"),
        ("sum(b)", " where c > 1", "", None),
        ("sum(b)", "", " where c > 1", None),
    ],
)
def test_the_first_rows_of_each_group_with_aggregates_of_the_group(
    aggregates: str, below: str, grouped: str, rule: str | None
) -> None:
    found = fired(FIRST_TWO.format(aggregates=aggregates, below=below, grouped=grouped))
    assert set(found) & {"join_with_own_aggregates", "min_and_join"} == ({rule} if rule else set())


WRITTEN_TWICE = "select t.a, count(*) n from t join u on t.b = u.d where t.c > 0 group by t.a union all "


@pytest.mark.parametrize(
    ("second", "is_rewritten"),
    [
        ("select t.a, max(u.e) from t join u on t.b = u.d group by t.a", True),
        ("select t.a, max(u.e) from u join t on u.d = t.b where u.e < 5 group by t.a", True),
        ("select t.a, max(u.e) from t join u on t.b = u.d and t.c < u.e group by t.a", True),
        ("select t.a, max(u.e) from t join u on t.c = u.d group by t.a", False),
        ("select t.a, max(u.e) from t left join u on t.b = u.d group by t.a", False),
        ("select t.a, max(u.e) from t join u on t.b = u.d join k on k.id = u.e group by t.a", False),
        ("select t.a, max(k.v) from t join k on t.b = k.id group by t.a", False),
        ("select t.a, max(u.e) from t join u on t.b = u.d where rand() > 0.5 group by t.a", False),
    ],
)
def test_a_join_that_is_written_twice_is_one_input(second: str, is_rewritten: bool) -> None:
    """Whatever conditions were moved below one of the two."""
    assert ("diamond_union" in fired(WRITTEN_TWICE + second)) == is_rewritten


def test_joins_of_three_tables_that_are_written_twice() -> None:
    rows = "t join u on t.b = u.d join k on k.id = u.e"
    found = fired(f"""
        select x.a, n, m from (select t.a, count(*) n from {rows} where k.v > 1 group by t.a) x
        join (select t.a, max(k.v) m from {rows} group by t.a) y on x.a = y.a""")
    assert "diamond_join" in found


@pytest.mark.parametrize(
    ("key", "is_rewritten"), [("upper(s)", True), ("coalesce(a, 0)", True), ("a + 1", False), ("10 / a", False)]
)
def test_a_computed_key_must_be_safe_for_the_rows_of_all_branches(key: str, is_rewritten: bool) -> None:
    query = f"""
        select {key} k, count(*) n from t where b > 0 and a <> 0 group by {key}
        union all select {key}, max(c) from t where b < 2 and a <> 0 group by {key}"""
    assert ("diamond_union" in fired(query)) == is_rewritten


def test_a_conjunct_that_both_sides_have_is_shared() -> None:
    """The rows may have further conditions. The shared one is applied once, to the rows of the pass."""
    query = """
        select t.a, t.b, m from t join (select a, min(b) m from t where c > 1 group by a) y on t.a = y.a
        where t.c > 1 and t.b < 5"""
    assert "min_and_join" in fired(query)
    other = query.replace("where t.c > 1 and", "where t.c > 2 and")
    assert "min_and_join" not in fired(other)


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ("b > 0 and 10 / b > 1", "b < 0 and 10 / b > 1", []),
        ("b > 0 and 10 / b > 1 and c > 1", "b > 0 and 10 / b > 1 and c < 5", [">", ">"]),
        ("c > 1 and s = 'x'", "c < 5 and s = 'x'", ["="]),
        ("10 / b > 1", "b < 0 and 10 / b > 1", [">"]),
    ],
)
def test_a_conjunct_that_may_fail_is_shared_only_with_its_guard(first: str, second: str, shared: list[str]) -> None:
    """`10 / b` was written for the rows that satisfy the conjuncts before it."""
    one, other = (conjuncts(filter_of(text)) for text in (first, second))
    assert [part.function for part in shared_conjuncts([one, other])] == shared


def filter_of(condition: str) -> Expression:
    (found,) = [node for node in walk(bind(f"select * from t where {condition}")) if isinstance(node, Filter)]
    # Both sides read the same columns.
    named = {column: Ref(replace(column, id=hash(column.name))) for column in found.child.columns}
    return substitute(found.predicate, named)


@pytest.mark.parametrize("rule", REWRITTEN)
def test_rule_can_be_disabled(rule: str) -> None:
    found = optimize(bind_query(REWRITTEN[rule]), Options(disabled=frozenset((rule,))))
    assert rule not in found.trace.rules


def test_every_rule_has_its_cases() -> None:
    assert set(REWRITTEN) == set(NOT_REWRITTEN) == SUPER_OPERATOR_NAMES - {"several_outputs"}


TWO_OUTPUTS = """
a = SELECT a, COUNT(*) AS n FROM t WHERE b > 1 GROUP BY a;
b = SELECT {key}, MAX(c) AS m FROM {table} GROUP BY {key};
OUTPUT a TO "a.parquet" USING Parquet();
OUTPUT b TO "b.parquet" USING Parquet();
"""


@pytest.mark.parametrize(
    ("key", "table", "is_rewritten"), [("a", "t", True), ("b", "t", False), ("id", "(SELECT id, v AS c FROM k)", False)]
)
def test_several_outputs(key: str, table: str, is_rewritten: bool) -> None:
    rules = optimize(bind_script(TWO_OUTPUTS.format(key=key, table=table))).trace.rules
    assert ("several_outputs" in rules) == is_rewritten


ESCAPING = """
counts = SELECT a, COUNT(*) AS n FROM t GROUP BY a;
most = SELECT a, MAX(b) AS m FROM t GROUP BY a;
both = SELECT counts.a, n, m FROM counts JOIN most ON counts.a == most.a;
OUTPUT both TO "a.parquet" USING Parquet();
{more}
"""


@pytest.mark.parametrize(
    ("more", "is_rewritten"), [("", True), ('OUTPUT counts TO "b.parquet" USING Parquet();', False)]
)
def test_rowsets_with_other_readers_do_not_become_part_of_a_pass(more: str, is_rewritten: bool) -> None:
    rules = optimize(bind_script(ESCAPING.format(more=more))).trace.rules
    assert ("diamond_join" in rules) == is_rewritten


FIRST_ROWS = """
some = SELECT a, b, c FROM t {limit};
counts = SELECT a, COUNT(*) AS n FROM some GROUP BY a;
most = SELECT a, MAX(b) AS m FROM {second} GROUP BY a;
both = SELECT counts.a, n, m FROM counts JOIN most ON counts.a == most.a;
OUTPUT both TO "a.parquet" USING Parquet();
"""


@pytest.mark.parametrize(
    ("limit", "second", "is_rewritten"),
    [
        ("ORDER BY b LIMIT 100", "t", False),
        ("ORDER BY b LIMIT 100", "some", True),
        ("LIMIT 100", "some", True),
        ("WHERE rand() < 0.5", "t", False),
        ("WHERE rand() < 0.5", "some", True),
        ("WHERE b > 1", "t", True),
        ("WHERE b > 1", "some", True),
    ],
)
def test_limit_can_be_the_input_of_a_pass_but_not_on_an_edge(limit: str, second: str, is_rewritten: bool) -> None:
    """A row does not determine whether a LIMIT keeps it."""
    rules = optimize(bind_script(FIRST_ROWS.format(limit=limit, second=second))).trace.rules
    assert ("diamond_join" in rules) == is_rewritten


def test_limit_with_another_reader_is_computed_once() -> None:
    """A LIMIT may keep other rows each time: the pass reads the spool, like the other reader."""
    found = optimize(bind_script(FIRST_ROWS.format(limit="LIMIT 100", second="some") + OTHER_READER))
    operators = [node.operator for root in found.roots for node in root.walk()]
    assert [each.rule for each in found.super_operators] == ["diamond_join"]
    assert [spool.name for spool in found.spools] == ["some"]
    assert sum(isinstance(each, physical.Limit) for each in operators) == 1
    assert sum(isinstance(each, physical.ReadSpool) for each in operators) == 2


OTHER_READER = 'OUTPUT some TO "b.parquet" USING Parquet();'


@pytest.mark.parametrize("rule", REWRITTEN)
def test_limit_above_a_pass(rule: str) -> None:
    """A LIMIT above the topmost core operator does not prevent the rewrite."""
    for order in ("", "order by 1"):
        assert rule in fired(f"select * from ({REWRITTEN[rule]}) {order} limit 10")


FIRST_OF_A_BRANCH = """
select a, n from (select a, count(*) n from t group by a order by n limit 3)
union all select a, max(b) from t group by a"""


def test_limit_of_the_groups_of_a_branch_is_not_rewritten() -> None:
    """A group does not determine whether it is among the first groups."""
    assert not fired(FIRST_OF_A_BRANCH)


FIRST_OF_EACH_GROUP = """
select a, sum(b) s from {ranked} where place <= 2 group by a
union all select a, count(*) from {ranked} group by a"""


def test_first_rows_of_each_group_are_a_predicate_on_the_row_number() -> None:
    ranked = "select a, b, row_number() over (partition by a order by c, b) place from t"
    assert "diamond_union" in fired(f"with r as ({ranked}) {FIRST_OF_EACH_GROUP.format(ranked='r')}")


def test_a_branch_filters_before_its_aggregates_do() -> None:
    """1 / b is safe only for rows that satisfy the branch's own filter."""
    found = optimize(
        bind_query("""
        select a, count(*) filter (where 1 / b > 0) n from t where b <> 0 group by a
        union all select a, max(c) from t group by a""")
    )
    flags = [
        expression
        for root in found.roots
        for node in root.walk()
        if isinstance(node.operator, physical.Project)
        for column, expression in node.operator.outputs
        if column.name == "flag" and len(conjuncts(expression)) > 1
    ]
    assert [[part.function for part in conjuncts(each)] for each in flags] == [["<>", ">"]]


def test_super_operators_compose() -> None:
    """A diamond over rows joined with the least value of their group."""
    found = optimize(
        bind_query("""
        with m as (select t.a, t.b, l.m from t join (select a, min(b) m from t group by a) l on t.a = l.a)
        select a, count(*) n from m where b > 1 group by a union all select a, max(m) from m group by a""")
    )
    assert {"min_and_join", "diamond_union"} <= set(found.trace.rules)


def test_a_third_branch_joins_the_pass_of_two() -> None:
    found = optimize(
        bind_query(f"""
        select x.a, n, m, s from {COUNTS} join (select a, max(b) m from t where c > 1 group by a) y on x.a = y.a
        left join (select a, sum(c) s from t where b > 0 group by a) z on x.a = z.a""")
    )
    operators = [node.operator for root in found.roots for node in root.walk()]
    assert [each.rule for each in found.super_operators] == ["diamond_join"]
    assert sum(isinstance(each, physical.HashAggregate | physical.SortAggregate) for each in operators) == 1
