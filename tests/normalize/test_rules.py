"""All rewrites together: the TPC-H queries, scripts with several outputs, disabled rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.binding import bind, bind_script, context_for, expected
from tests.support.show import show
from tests.support.wellformed import problems, rowsets
from unshuffle import Session
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.normalize.rules import RULES, normalize, normalize_script
from unshuffle.plan.expressions import Call, Ref, ScalarSubquery, columns_of
from unshuffle.plan.expressions import walk as parts
from unshuffle.plan.logical import (
    Filter,
    GroupBy,
    Join,
    Plan,
    Project,
    Reference,
    Scan,
    Script,
    Shared,
    expressions_of,
    walk,
)
from unshuffle.plan.predicates import conjunction, conjuncts
from workloads import tpch

QUERIES = tpch.queries()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("tpch") / "scale-0.001"
    tpch.generate(folder, 0.001)
    return Session(tables=folder)


@pytest.mark.parametrize("rule", sorted(RULES, key=lambda rule: rule.__name__), ids=lambda rule: rule.__name__)
def test_every_rule_has_a_docstring(rule: Callable[..., Any]) -> None:
    assert rule.__doc__


def context(script: Script, *disabled: str) -> Rewriting:
    last = max((column.id for node in script.operators() for column in node.columns), default=0)
    return Rewriting(ColumnNumbers(last + 1), frozenset(disabled))


@pytest.fixture(scope="module")
def normal(session: Session) -> dict[int, Plan]:
    found = {}
    for number, query in QUERIES.items():
        script = session.pipeline.bind(query)
        (before,) = script.outputs
        (after,) = normalize_script(script, context(script)).outputs
        assert after.plan.columns == before.plan.columns
        found[number] = after.plan
    return found


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_tpch(normal: dict[int, Plan], number: int) -> None:
    plan = normal[number]
    assert not problems(plan)
    assert all(count == 1 for count in rowsets(plan).values())
    again = context_for(plan)
    assert normalize(plan, again) is plan, again.fired


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_every_join_has_an_equality(normal: dict[int, Plan], number: int) -> None:
    """No TPC-H query needs a cross join, and all but uncorrelated scalar subqueries become joins."""
    for node in walk(normal[number]):
        if isinstance(node, Join):
            assert any(_joins(each, node) for each in conjuncts(node.condition)), show(node)
        for expression in expressions_of(node):
            for part in parts(expression):
                assert not hasattr(part, "plan") or (isinstance(part, ScalarSubquery) and not part.outer)


def _joins(condition: object, join: Join) -> bool:
    match condition:
        case Call("=", (Ref(column=one), Ref(column=other))):
            sides = [set(join.left.columns), set(join.right.columns)]
            return any(one in side for side in sides) and any(other in side for side in sides) and one != other
        case Call("or", (equality, Call("isnull", (same,)))):  # NOT IN
            return join.kind is JoinKind.ANTI and equality == same and _joins(equality, join)
        case _:
            return False


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_filters_are_at_the_scans(normal: dict[int, Plan], number: int) -> None:
    """Or above an operator that they cannot be pushed through: an aggregate that they read, a rowset with other
    readers."""
    for node in walk(normal[number]):
        if not isinstance(node, Filter):
            continue
        match node.child:
            case Scan() | Reference():
                pass
            case GroupBy(aggregates=aggregates):
                made = {column for column, _ in aggregates}
                assert all(columns_of(each) & made for each in conjuncts(node.predicate)), show(node)
            case Project(outputs=outputs):
                computed = {column for column, e in outputs if e != Ref(column)}
                assert all(columns_of(each) & computed for each in conjuncts(node.predicate)), show(node)
            case Join(kind=kind):
                assert kind is JoinKind.LEFT, show(node)
            case _:
                pytest.fail(show(node))


# How many columns of each table a query reads, tables in the order of their names.
READ = {
    1: "lineitem 7",
    3: "customer 2, lineitem 4, orders 4",
    5: "customer 2, lineitem 4, nation 3, orders 3, region 2, supplier 2",
    6: "lineitem 4",
    9: "lineitem 6, nation 2, orders 2, part 2, partsupp 3, supplier 2",
    13: "customer 1, orders 3",
    14: "lineitem 4, part 2",
    18: "customer 2, lineitem 2, lineitem 2, orders 4",
    19: "lineitem 6, part 4",
    22: "customer 2, customer 3, orders 1",
}


@pytest.mark.parametrize("number", READ, ids=lambda n: f"Q{n}")
def test_scans_read_what_is_needed(normal: dict[int, Plan], number: int) -> None:
    scans = [node for node in walk(normal[number]) if isinstance(node, Scan)]
    assert ", ".join(sorted(f"{scan.label} {len(scan.columns)}" for scan in scans)) == READ[number]


@pytest.mark.parametrize("number", QUERIES, ids=lambda n: f"Q{n}")
def test_every_column_of_a_scan_is_read(normal: dict[int, Plan], number: int) -> None:
    """By an operator, or it is in the result."""
    plan = normal[number]
    read = set(plan.columns)
    for node in walk(plan):
        for expression in expressions_of(node):
            read |= columns_of(expression)
        if isinstance(node, Reference):
            read |= set(node.rowset.columns)
    for node in walk(plan):
        if isinstance(node, Scan) and len(node.columns) > 1:
            assert set(node.columns) <= read, show(node)


def test_known_shapes(normal: dict[int, Plan]) -> None:
    """TPC-H 19: the join's condition is in every alternative of an OR. TPC-H 7: the OR implies a condition on each nation."""
    (join,) = (node for node in walk(normal[19]) if isinstance(node, Join))
    assert show(join).startswith("inner on (p_partkey = l_partkey) AND ")
    assert all(isinstance(_below(side), Filter) for side in join.children)
    nations = [
        show(node)
        for node in walk(normal[7])
        if isinstance(node, Filter) and "nation" in show(node.child).split("(")[0]
    ]
    assert len(nations) == 2
    assert all("FRANCE" in each and "GERMANY" in each for each in nations)


def _below(plan: Plan) -> Plan:
    return plan.child if isinstance(plan, Project) else plan


def test_outputs_of_a_script_share() -> None:
    """Two outputs of one rowset still read one node, which keeps the columns that either needs."""
    script = bind_script(
        """
        both = SELECT a, b, c, s FROM t WHERE x > 0;
        one = SELECT a, count(*) AS n FROM both GROUP BY a;
        two = SELECT b FROM both WHERE a > 1;
        OUTPUT one TO "one.csv";
        OUTPUT two TO "two.csv";
        """
    )
    outputs = normalize_script(script, context(script)).outputs
    shared = {id(node): node for output in outputs for node in walk(output.plan) if isinstance(node, Shared)}
    (rowset,) = shared.values()
    assert [column.name for column in rowset.columns] == ["a", "b"]
    assert show(outputs[1].plan) == expected(
        """
        project b
          filter a > 1
            use of both(a, b)
              shared both
                project a, b
                  filter x > 0
                    t(a, b, x)
        """
    )


def test_rules_can_be_disabled() -> None:
    plan = bind("select t.b from t left join k on a = id where c = 1")
    rules = context_for(plan, ["drop_outer_join", "push_through_join", "prune_columns"])
    assert show(normalize(plan, rules)) == expected(
        """
        project b
          filter c = 1
            left outer on a = id
              t(a, b, c, s, x)
              k(id, v, w, n)
        """
    )
    assert rules.fired == Counter()


def test_a_normalized_plan_is_returned_unchanged() -> None:
    plan = bind("select * from t")
    rules = context_for(plan)
    assert normalize(plan, rules) is plan
    assert not +rules.fired


def test_random_conditions_are_never_equal() -> None:
    plan = bind("select a from t where rand() < 0.5 and b > 1")
    (found,) = [node for node in walk(plan) if isinstance(node, Filter)]
    assert len(conjuncts(conjunction(2 * conjuncts(found.predicate)))) == 3
