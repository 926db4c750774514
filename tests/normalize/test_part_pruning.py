"""Row groups that a query does not need: real files with footers, filtered and joined."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.catalog.files import data_files
from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.normalize.predicates.part_pruning import holds_by_bounds, prune_parts, prune_parts_across_join
from unshuffle.normalize.rewriting import Rewriting
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, connect
from unshuffle.plan.logical import Files, Filter, Format, Join, Plan, Scan
from unshuffle.plan.part_bounds import with_bounds

INT, BOOL, DAY = pa.int64(), pa.bool_(), pa.date32()
CONTEXT: Rewriting = None  # type: ignore[assignment]  # these rules do not use it


def table(folder: Path, first: int, parts: list[list[int | None]], month: bool = False) -> Scan:
    """Columns k and d, whose day is k days after the first of 2026, in one file for each part."""
    for number, keys in enumerate(parts):
        place = folder / f"month={number}" if month else folder
        place.mkdir(parents=True, exist_ok=True)
        days = [None if k is None else datetime.date(2026, 1, 1) + datetime.timedelta(days=k) for k in keys]
        pq.write_table(pa.table({"k": pa.array(keys, INT), "d": pa.array(days, DAY)}), place / f"{number}.parquet")
    columns = [Column(first, "k", INT), Column(first + 1, "d", DAY)]
    columns += [Column(first + 2, "month", pa.int32())] if month else []
    scan = Scan(folder.name, Files((str(folder),), Format("Parquet"), rows=sum(map(len, parts))), tuple(columns))
    return with_bounds(scan, data_files((str(folder),), str(folder)), ["month"] if month else [])


def call(name: str, *arguments: Any) -> Expression:
    return Call(
        name,
        tuple(Ref(a) if isinstance(a, Column) else a if isinstance(a, Call) else Literal(a, INT) for a in arguments),
        BOOL,
    )


def needed(plan: Plan | None) -> tuple[int, ...] | None:
    if plan is None:
        return None
    assert isinstance(plan, Filter)
    assert isinstance(plan.child, Scan)
    return plan.child.needed


@pytest.fixture
def orders(tmp_path: Path) -> Scan:
    return table(tmp_path / "orders", 1, [[0, 9], [10, 19, None], [20, 29], [], [None], [5, 25]], month=True)


def test_a_filter_needs_the_parts_that_may_satisfy_it(orders: Scan) -> None:
    k, _, month = orders.columns
    assert needed(prune_parts(Filter(orders, call("<", k, 10)), CONTEXT)) == (0, 5)
    assert needed(prune_parts(Filter(orders, call("=", k, 12)), CONTEXT)) == (1, 5)
    assert needed(prune_parts(Filter(orders, call("<=>", k, None)), CONTEXT)) == (1, 4)
    both = connect("and", [call(">", k, 8), call("in", month, 0, 2)])
    assert needed(prune_parts(Filter(orders, both), CONTEXT)) == (0, 2)
    either = connect("or", [call("=", k, 2), call("=", k, 29)])
    assert needed(prune_parts(Filter(orders, either), CONTEXT)) == (0, 2)
    assert needed(prune_parts(Filter(orders, call("isnull", k)), CONTEXT)) == (1, 4)
    assert needed(prune_parts(Filter(orders, call("or", call("=", k, 2), call("abs", k))), CONTEXT)) == (0, 1, 2, 5)
    assert prune_parts(Filter(orders, call("or", call("=", k, 2), call("coalesce", k, 1))), CONTEXT) is None


def joined(left: Plan, right: Plan, condition: Expression, kind: JoinKind = JoinKind.INNER) -> tuple[Plan, Plan]:
    found = prune_parts_across_join(Join(kind, left, right, condition), CONTEXT)
    if found is None:
        return left, right
    assert isinstance(found, Join)
    return found.left, found.right


def shown(plan: Plan) -> str:
    if not isinstance(plan, Filter):
        return ""

    def text(part: Expression) -> str:
        match part:
            case Call(name, arguments) if name in ("and", "or"):
                return f" {name} ".join(f"({text(each)})" if name == "or" else text(each) for each in arguments)
            case Call(name, (one, other)):
                return f"{text(one)} {name} {text(other)}"
            case Ref(column):
                return column.name
            case Literal(value):
                return str(value)
        raise AssertionError(part)

    return text(plan.predicate)


@pytest.fixture
def shipments(tmp_path: Path) -> Scan:
    return table(tmp_path / "shipments", 11, [[0, 14], [10, 24], [20, 34], [30, 40]])


def test_one_side_of_a_join_prunes_the_other(tmp_path: Path, shipments: Scan) -> None:
    few = table(tmp_path / "few", 21, [[2, 6], [7, 9]])
    condition = call("=", few.columns[0], shipments.columns[0])
    assert tuple(map(shown, joined(few, shipments, condition))) == ("", "k >= 2 and k <= 9")
    assert tuple(map(shown, joined(few, shipments, condition, JoinKind.LEFT))) == ("", "k >= 2 and k <= 9")
    assert tuple(map(shown, joined(few, shipments, condition, JoinKind.ANTI))) == ("", "k >= 2 and k <= 9")
    for kind in (JoinKind.RIGHT, JoinKind.FULL):
        assert tuple(map(shown, joined(few, shipments, condition, kind))) == ("", "")
    pruned = joined(few, shipments, condition)[1]
    assert needed(prune_parts(pruned, CONTEXT)) == (0,)


def test_gaps_between_parts_prune(tmp_path: Path, shipments: Scan) -> None:
    apart = table(tmp_path / "apart", 21, [[0, 3], [36, 39]])
    found = joined(apart, shipments, call("=", apart.columns[0], shipments.columns[0]))[1]
    assert shown(found) == "(k >= 0 and k <= 3) or (k >= 36 and k <= 39)"
    assert needed(prune_parts(found, CONTEXT)) == (0, 3)


def test_other_comparisons_and_alternatives_prune(tmp_path: Path, shipments: Scan) -> None:
    few = table(tmp_path / "few", 21, [[12, 16]])
    k, d = few.columns
    key, day = shipments.columns
    late = table(tmp_path / "late", 31, [[26, 30]])
    assert shown(joined(late, shipments, call("<", late.columns[0], key))[1]) == "k > 26"
    assert shown(joined(few, shipments, call("<", k, key))[1]) == ""  # every part has some
    assert shown(joined(few, shipments, call(">=", k, key))[1]) == "k <= 16"
    assert shown(joined(few, shipments, call("=", d, day))[1]) == "d >= 2026-01-13 and d <= 2026-01-17"
    either = connect("or", [call("=", k, key), call("=", d, day)])
    assert shown(joined(few, shipments, either)[1]) == "(k >= 12 and k <= 16) or (d >= 2026-01-13 and d <= 2026-01-17)"
    assert shown(joined(few, shipments, call("<=>", k, key))[1]) == ""


def test_a_condition_that_spares_nothing_is_not_added(tmp_path: Path, shipments: Scan) -> None:
    wide = table(tmp_path / "wide", 21, [[0, 40]])
    assert shown(joined(wide, shipments, call("=", wide.columns[0], shipments.columns[0]))[1]) == ""


def test_conditions_that_all_values_satisfy(orders: Scan, shipments: Scan) -> None:
    key = shipments.columns[0]
    assert holds_by_bounds(shipments, key, call(">=", key, 0))
    assert holds_by_bounds(shipments, key, call("<", key, 41))
    assert not holds_by_bounds(shipments, key, call("<", key, 40))
    assert not holds_by_bounds(orders, orders.columns[0], call(">=", orders.columns[0], 0))  # some are NULL
