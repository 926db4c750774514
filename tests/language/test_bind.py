"""Bound scripts and queries: columns, types, sharing, keys, user-defined operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import names
from unshuffle.catalog.types import spark_name
from unshuffle.errors import UserError
from unshuffle.plan.logical import (
    Combine,
    Distinct,
    Filter,
    GroupBy,
    GroupingSets,
    Join,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    Script,
    SetOperation,
    StreamTarget,
    Window,
    outer_columns,
)

Bind = Callable[..., Script]


def only(script: Script) -> Plan:
    (output,) = script.outputs
    return output.plan


def described(plan: Plan) -> list[tuple[str, str]]:
    return [(column.name, spark_name(column.type)) for column in plan.columns]


def operators(script: Script, kind: type) -> list[Plan]:
    return [node for node in script.operators() if isinstance(node, kind)]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select * from customers", [("c_id", "int"), ("name", "string"), ("region", "string")]),
        ("select o_id + 1, amount * 2 as double from orders", [("(o_id + 1)", "bigint"), ("double", "decimal(12,2)")]),
        ("select count(*), sum(amount), avg(amount) from orders", [("count(1)", "bigint"), ("sum(amount)", "decimal(20,2)"), ("avg(amount)", "decimal(14,6)")]),
        ("select place.city, tags[0] as tag, size(tags) as n from wide", [("city", "string"), ("tag", "string"), ("n", "int")]),
        ("select case when flag then 1 else 2.5 end as x from wide", [("x", "decimal(11,1)")]),
        ("select flag || id = 1 as either, name || region as both from wide, customers", [("either", "boolean"), ("both", "string")]),
        ("select row_number() over (partition by customer order by o_id) as n from orders", [("n", "int")]),
        ("select transform(tags, t -> upper(t)) as up from wide", [("up", "array<string>")]),
        ("select date '2024-01-01' + interval '1' month as d", [("d", "date")]),
        ("select 1, 10000000000, 1.50, 1e3, 'x', null, true", [("1", "int"), ("10000000000", "bigint"), ("1.50", "decimal(3,2)"), ("1000.0", "double"), ("x", "string"), ("NULL", "void"), ("true", "boolean")]),
        ("select cast(note as date) from orders", [("note", "date")]),
        ("select * except (note, placed) from orders", [("o_id", "bigint"), ("customer", "int"), ("amount", "decimal(10,2)")]),
        ("select a.*, 1 as one from customers a", [("c_id", "int"), ("name", "string"), ("region", "string"), ("one", "int")]),
        ("select (select max(o_id) from orders) as top", [("top", "bigint")]),
        ("select o_id as a, a + 1 as b from orders", [("a", "bigint"), ("b", "bigint")]),
        ("values (1, 'a'), (2, null)", [("col1", "int"), ("col2", "string")]),
        ("select x, y from values (1, 2) as t(x, y)", [("x", "int"), ("y", "int")]),
        ("with t as (select o_id as k from orders) select * from t", [("k", "bigint")]),
        ("select o_id from orders union select customer from orders", [("o_id", "bigint")]),
    ],
)  # fmt: skip
def test_names_and_types(bound: Bind, query: str, columns: list[tuple[str, str]]) -> None:
    assert described(only(bound(query))) == columns


def test_a_column_keeps_its_identity_through_a_projection(bound: Bind) -> None:
    plan = only(bound("select note, o_id from orders where o_id > 1"))
    assert isinstance(plan, Project)
    assert isinstance(plan.child, Filter)
    assert set(plan.columns) <= set(plan.child.child.columns)


def test_a_self_join_has_columns_of_its_own_on_each_side(bound: Bind) -> None:
    script = bound("select a.note, b.note as other from orders a join orders b on a.o_id = b.customer")
    (join,) = operators(script, Join)
    assert isinstance(join, Join)
    assert not set(join.left.columns) & set(join.right.columns)


def test_a_rowset_used_twice_is_one_shared_node(bound: Bind) -> None:
    script = bound(
        'big = SELECT * FROM orders WHERE amount > 1; r = SELECT a.o_id FROM big a JOIN big b ON a.o_id == b.o_id; OUTPUT r TO "x";',
        is_script=True,
    )
    references = operators(script, Reference)
    assert len(references) == 2
    assert references[0].rowset is references[1].rowset  # type: ignore[union-attr]
    assert not set(references[0].columns) & set(references[1].columns)
    assert len(operators(script, Filter)) == 1


def test_a_rowset_used_once_is_not_shared(bound: Bind) -> None:
    script = bound('big = SELECT * FROM orders; r = SELECT o_id FROM big; OUTPUT r TO "x";', is_script=True)
    assert not operators(script, Reference)


def test_a_rowset_whose_first_use_was_in_something_unused(bound: Bind) -> None:
    script = bound(
        'a = SELECT o_id FROM orders; unused = SELECT * FROM a; r = SELECT o_id AS k FROM a; OUTPUT r TO "x";',
        is_script=True,
    )
    assert not operators(script, Reference)
    assert described(only(script)) == [("k", "bigint")]


def test_a_rowset_in_two_outputs_is_shared(bound: Bind) -> None:
    script = bound('a = SELECT o_id FROM orders; OUTPUT a TO "x"; OUTPUT a TO "y";', is_script=True)
    first, second = operators(script, Reference)
    assert first.rowset is second.rowset  # type: ignore[union-attr]


def test_a_view_is_bound_again_at_every_use(bound: Bind) -> None:
    script = bound(
        'VIEW v AS SELECT o_id FROM orders; r = SELECT a.o_id FROM v a JOIN v b ON a.o_id == b.o_id; OUTPUT r TO "x";',
        is_script=True,
    )
    assert not operators(script, Reference)
    assert len(operators(script, Scan)) == 2


def test_keys_and_dependencies_are_recorded(bound: Bind, data: Path) -> None:
    script = bound(
        f'c = EXTRACT c_id, name, region FROM "{data}/customers.parquet" USING Parquet() '
        'KEY (c_id) DEPENDS (name -> region, c_id, region -> name); OUTPUT c TO "x";',
        is_script=True,
    )
    scan = only(script)
    assert isinstance(scan, Scan)
    assert [names(key) for key in scan.keys] == ["c_id#1"]
    assert [str(d) for d in scan.dependencies] == ["name#2 -> region#3", "c_id#1, region#3 -> name#2"]
    assert scan.files.rows == 2


def test_a_declared_type_is_a_cast(bound: Bind, data: Path) -> None:
    script = bound(
        f'c = EXTRACT c_id:long, name FROM "{data}/customers.parquet" USING Parquet() KEY (name); OUTPUT c TO "x";',
        is_script=True,
    )
    assert described(only(script)) == [("c_id", "bigint"), ("name", "string")]
    assert isinstance(only(script), Project)
    (scan,) = operators(script, Scan)
    assert isinstance(scan, Scan)
    assert [names(key) for key in scan.keys] == ["name#2"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("left join", JoinKind.LEFT),
        ("right outer join", JoinKind.RIGHT),
        ("full join", JoinKind.FULL),
        ("left semi join", JoinKind.SEMI),
        ("left anti join", JoinKind.ANTI),
        ("semi join", JoinKind.SEMI),
        ("inner join", JoinKind.INNER),
    ],
)
def test_join_kinds(bound: Bind, text: str, kind: JoinKind) -> None:
    (join,) = operators(bound(f"select 1 from orders {text} customers on customer = c_id"), Join)
    assert isinstance(join, Join)
    assert join.kind is kind


def test_using_gives_the_column_once(bound: Bind) -> None:
    query = "select * from customers a {} join customers b using (c_id)"
    assert [n for n, _ in described(only(bound(query.format("full"))))] == ["c_id", "name", "region", "name", "region"]
    assert [n for n, _ in described(only(bound(query.format(""))))] == ["c_id", "name", "region", "name", "region"]
    assert [
        n
        for n, _ in described(only(bound("select a.c_id, b.c_id as d from customers a join customers b using (c_id)")))
    ] == ["c_id", "d"]


def test_a_comma_binds_looser_than_join(bound: Bind) -> None:
    plan = only(bound("select 1 from orders, customers a right join customers b on a.c_id = b.c_id")).child  # type: ignore[union-attr]
    assert isinstance(plan, Join)
    assert plan.condition is None
    assert isinstance(plan.right, Join)
    assert plan.right.kind is JoinKind.RIGHT


def test_a_correlated_subquery_names_its_outer_columns(bound: Bind) -> None:
    script = bound("select name from customers where exists (select 1 from orders where customer = c_id)")
    (filter_,) = (node for node in operators(script, Filter) if "Exists" in repr(node.predicate))  # type: ignore[union-attr]
    assert isinstance(filter_, Filter)
    assert [c.name for c in filter_.predicate.outer] == ["c_id"]  # type: ignore[union-attr]
    assert not outer_columns(only(script))


def test_grouping_is_by_columns(bound: Bind) -> None:
    script = bound("select upper(note) as u, count(*) from orders group by upper(note) having count(*) > 1 order by u")
    (group,) = operators(script, GroupBy)
    assert isinstance(group, GroupBy)
    assert isinstance(group.child, Project)
    assert set(group.keys) <= set(group.child.columns)


@pytest.mark.parametrize(
    ("clause", "sets"),
    [
        ("rollup (customer, note)", [2, 1, 0]),
        ("cube (customer, note)", [2, 1, 1, 0]),
        ("grouping sets ((customer), (), (customer, note))", [1, 0, 2]),
        ("customer, rollup (note)", [2, 1]),
        ("customer, note with rollup", [2, 1, 0]),
    ],
)
def test_grouping_sets(bound: Bind, clause: str, sets: list[int]) -> None:
    (group,) = operators(bound(f"select customer, note, count(*) from orders group by {clause}"), GroupingSets)
    assert isinstance(group, GroupingSets)
    assert [len(one) for one in group.sets] == sets


def test_equal_windows_are_computed_once(bound: Bind) -> None:
    (window,) = operators(
        bound(
            "select sum(amount) over w as a, sum(amount) over w as b from orders window w as (partition by customer)"
        ),
        Window,
    )
    assert isinstance(window, Window)
    assert len(window.calls) == 1


def test_distinct_and_set_operations(bound: Bind) -> None:
    assert operators(bound("select distinct note from orders"), Distinct)
    unions = operators(bound("select 1 as a union all select 2 union select 3"), SetOperation)
    assert [u.all for u in unions] == [False, True]  # type: ignore[union-attr]


def test_user_defined_operators(bound: Bind) -> None:
    script = bound(
        """
        p = PROCESS orders PRODUCE o_id, word:string READONLY o_id REQUIRED note USING m.P(n = 4, "x", f = -1.5);
        r = REDUCE p ON word PRESORT o_id DESC PRODUCE word, n:int READONLY word USING m.R();
        c = COMBINE r WITH p AS q ON r.word == q.word PRODUCE word, o_id USING m.C;
        OUTPUT c TO "x";
        """.replace('n = 4, "x"', '"x", n = 4'),
        is_script=True,
    )
    (process,), (reduce,), (combine,) = (operators(script, kind) for kind in (Process, Reduce, Combine))
    assert isinstance(process, Process)
    assert [c.name for c in process.child.columns] == ["o_id", "note"]
    assert process.user_class.arguments == ("x",)
    assert process.user_class.keywords == (("n", 4), ("f", -1.5))
    assert isinstance(reduce, Reduce)
    assert reduce.presort[0].descending
    assert not reduce.presort[0].nulls_first
    assert [c.name for c, _ in reduce.readonly] == ["word"]
    assert isinstance(combine, Combine)
    assert [c.name for c in combine.columns] == ["word", "o_id"]


def test_an_output_stream_binds(bound: Bind) -> None:
    script = bound(
        """
        #DECLARE out string = "there";
        OUTPUT orders TO SSTREAM "@out/x.ss" RANGE CLUSTERED BY customer, note DESC SORTED BY customer, o_id INTO 64
            KEY (o_id) DEPENDS (o_id -> customer) OVERWRITE;
        """,
        is_script=True,
    )
    target = script.outputs[0].target
    assert isinstance(target, StreamTarget)
    assert target.path == "there/x.ss"
    assert target.range_partitioned
    assert target.partitions == 64
    assert [k.descending for k in target.clustered_by] == [False, True]
    assert len(target.keys) == len(target.dependencies) == 1


def test_parameters_are_values_not_text(bound: Bind) -> None:
    script = bound(
        "#DECLARE who string = 'x';\nselect @who as w, o_id from orders where note = @who", who="x' or '1' = '1"
    )
    assert described(only(script)) == [("w", "string"), ("o_id", "bigint")]
    with pytest.raises(UserError, match="should be of type int"):
        bound("#DECLARE n int = 1;\nselect @n as n", n="1 or 1 = 1")


def test_binding_is_deterministic(bound: Bind) -> None:
    query = "select a.note, count(*) from orders a join orders b on a.o_id = b.o_id group by a.note order by 2"
    assert repr(bound(query)) == repr(bound(query))


def test_hundreds_of_unions_and_conditions_bind(bound: Bind) -> None:
    assert bound(" union all ".join(["select o_id from orders"] * 500))
    assert bound("select 1 from orders where " + " or ".join(f"o_id = {i}" for i in range(3000)))


def test_binding_reads_no_rows_and_starts_no_spark(bound: Bind, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("binding must not read rows")

    for method in ("read", "read_row_group", "read_row_groups", "iter_batches"):
        monkeypatch.setattr(pq.ParquetFile, method, refuse)
    # The environment of these tests cannot start Spark: it raises if it is asked to describe a query.
    script = bound(
        f"""orders = EXTRACT o_id, customer, amount FROM "{data}/orders.parquet" USING Parquet();
        totals = SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
        OUTPUT totals TO "totals.csv";""",
        is_script=True,
    )
    assert [column.name for column in script.outputs[0].plan.columns] == ["customer", "total"]
