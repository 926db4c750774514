"""Parts of tables in plans: which tasks read which parts, counted again from the files, and what is said of it."""

from __future__ import annotations

import datetime
import itertools
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unshuffle.cost.machine import Machine
from unshuffle.explain.phrases import numbers
from unshuffle.explain.render.physical import PlanDrawing
from unshuffle.explain.render.reasons import ReasonText
from unshuffle.explain.why import MatchedParts, TableReads, reasons
from unshuffle.session import Session

FIRST = datetime.date(2026, 1, 1)


def write(folder: Path, groups: int = 1, **columns: np.ndarray) -> None:
    folder.mkdir(parents=True)
    table = pa.table(columns)
    pq.write_table(table, folder / "0.parquet", row_group_size=max(1, -(-len(table) // groups)))


def day(number: int) -> datetime.date:
    return FIRST + datetime.timedelta(days=number)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders by month, shipments up to two months later; sales by month with visits by day; sales by region and day."""
    folder, random = tmp_path_factory.mktemp("tables"), np.random.default_rng(3)
    for month in range(12):
        keys = np.arange(8000 * month, 8000 * month + 8000)
        write(folder / f"orders.parquet/o_month={month}", o_key=keys, o_price=keys % 100)
        late = random.integers(max(0, 8000 * (month - 2)), 8000 * (month + 1), 24_000)
        write(folder / f"shipments.parquet/s_month={month}", 2, s_key=np.sort(late) if month % 2 else late, s_n=late)
    for month, (first, last) in enumerate(((0, 31), (31, 59), (59, 90))):
        dates = np.datetime64(FIRST) + np.sort(random.integers(first, last, 90_000 if month == 1 else 30_000))
        write(folder / f"sales.parquet/month={month}", sold=dates, user=random.integers(0, 999, len(dates)))
    for number in range(90):
        if number % 5 != 2:
            write(folder / f"visits.parquet/day={day(number)}", user=random.integers(0, 999, 3000))
        for region in ("asia", "europe")[number % 2 :]:
            place = folder / f"regions.parquet/region={region}/day={day(number)}"
            write(place, user=random.integers(0, 999, 2000))
    return folder


def explained(tables: Path, query: str, cores: int = 4) -> ReasonText:
    with Session(tables=tables, master=f"local[{cores}]") as session:
        # Another test may have started Spark with fewer cores.
        target = replace(session.pipeline.target(is_managed=False), machine=Machine(cores=cores))
        (plan, *_) = session.pipeline.plan(session.pipeline.bind(query), target)
    return ReasonText(PlanDrawing(plan), reasons(plan))


MONTHS = "select o_price, count(*) as n from orders join shipments on o_key = s_key {where} group by o_price"
DAYS = "select s.sold, count(*) as n from sales s left join visits v on sold = day and s.user = v.user group by s.sold"
REGIONS = "select r.day, count(*) as n from regions r join visits v on r.day = v.day and r.user = v.user group by r.day"
QUERIES = {
    "all months": MONTHS.format(where=""),
    "some months": MONTHS.format(where="where o_month between 4 and 6"),
    "days": DAYS,
    "regions": REGIONS,
}


def matched(text: ReasonText) -> MatchedParts:
    (found,) = text.reasons.matched
    return found


def ends_in_files(tables: Path, side: TableReads) -> dict[str, list[tuple[int, Any, Any]]]:
    """The bytes, the least and the greatest value of each row group, from the rows of the files and the folders' names."""
    root = tables / f"{side.label}.parquet"
    found: dict[str, list[tuple[int, Any, Any]]] = {}
    for path in root.rglob("*.parquet"):
        file = pq.ParquetFile(path)
        name = str(path.relative_to(root))
        folders = dict(each.split("=") for each in name.split("/")[:-1])
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            if side.column.name in folders:
                values: list[Any] = [datetime.date.fromisoformat(folders[side.column.name])]
            else:
                values = file.read_row_group(number, [side.column.name]).column(0).to_pylist()
            size = sum(group.column(i).total_compressed_size for i in range(group.num_columns))
            found.setdefault(name, []).append((size, min(values), max(values)))
    return found


def ranges(found: MatchedParts) -> list[tuple[Any, Any]]:
    cuts = [None, *(boundary[0] for boundary in found.ranges.boundaries), None]
    return list(itertools.pairwise(cuts))


@pytest.mark.parametrize("name", QUERIES)
def test_tasks_read_what_can_have_rows_of_theirs(tables: Path, name: str) -> None:
    """Every number is counted again: for each task and each row group, whether values of the file are in the range."""
    text = explained(tables, QUERIES[name])
    found = matched(text)
    assert found.tasks > 1
    task_bytes, shared, once, read_parts = Counter[int](), 0, 0, 0
    for side in found.sides:
        expected: list[tuple[str, int, tuple[int, ...]]] = []
        for file, groups in ends_in_files(tables, side).items():
            for size, least, greatest in groups:
                tasks = tuple(
                    task
                    for task, (low, high) in enumerate(ranges(found))
                    if (low is None or greatest >= low) and (high is None or least < high)
                )
                expected.append((file, size, tasks))
        listed = [(part.name.split(" ")[0], part.bytes, part.tasks) for part in side.parts]
        if name == "some months":
            listed = [each for each in listed if each[2]]
            pruned = [each for each in expected if each not in listed]
            assert len(pruned) == len(side.parts) - len(side.read) > 0
            expected = [each for each in expected if each in listed]
        assert sorted(listed) == sorted(expected)
        for _, size, tasks in expected:
            shared, once, read_parts = shared + (len(tasks) > 1), once + size, read_parts + 1
            for task in tasks:
                task_bytes[task] += size
    assert found.task_bytes == [task_bytes[task] for task in range(found.tasks)]
    assert found.extra_share == pytest.approx(sum(task_bytes.values()) / once - 1)
    said = "\n".join(text.parts.matched(found))
    average, largest = sum(task_bytes.values()) / found.tasks, max(task_bytes.values())
    assert f"a task reads {numbers.size(average)} on average, the largest, task " in said
    assert f", {numbers.size(largest)}\n" in said
    if shared:
        assert f"{shared} of {read_parts} row groups " in said
        assert f"{100 * found.extra_share:.2g} % more bytes" in said or found.extra_share >= 0.1
    else:
        assert "no row group is read by two tasks" in said


def test_parts_that_are_pruned_meet_no_part_of_the_other_table(tables: Path) -> None:
    found = matched(explained(tables, QUERIES["some months"]))
    orders, shipments = found.sides
    assert [part.folder for part in orders.read] == ["o_month=4", "o_month=5", "o_month=6"]
    least, greatest = 32_000, 55_999
    for part in shipments.parts:
        (bounds,) = part.bounds
        meets = bounds.low.values[0] <= greatest and bounds.high.values[0] >= least
        assert part.is_read == meets, part


def test_why_says_which_tasks_read_what(tables: Path) -> None:
    text = explained(tables, QUERIES["regions"])
    found = matched(text)
    lines = text.text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Parts of tables"))
    join, first, second, third, amounts, again = (line.strip() for line in lines[start + 1 : start + 7])
    assert len(lines) == start + 7
    assert (
        f"108 of 9,720 pairs of row groups can meet, in {found.tasks} tasks (135 of regions by the bounds of " in join
    )
    for task, line in enumerate((first, second, third)):
        regions, visits = ([part for part in side.parts if task in part.tasks] for side in found.sides)
        assert line == (
            f"task {task} reads {len(regions)} row groups of regions ({regions[0].folder} to {regions[-1].folder})"
            f" and {len(visits)} row groups of visits ({visits[0].folder} to {visits[-1].folder})"
        )
        assert regions[0].folder.startswith("day=2026-")
    assert found.tasks > 4
    assert amounts.startswith(f"{found.tasks - 3} more tasks; a task reads ")
    build = found.sides[found.join.operator.build].label  # type: ignore[attr-defined]
    assert again == f"no row group is read by two tasks; each task hashes the side of {build}"


def test_a_table_of_many_folders_has_files_as_parts(tmp_path: Path) -> None:
    """The footers of so many small files are not read, and their folders say enough."""
    write(tmp_path / "one", user=np.arange(100))
    for label, step in (("a", 1), ("b", 2)):
        for number in range(5100):
            folder = tmp_path / f"{label}.parquet/day={day(step * number)}"
            folder.mkdir(parents=True)
            shutil.copyfile(tmp_path / "one/0.parquet", folder / "0.parquet")
    query = "select a.day, count(*) as n from a join b on a.day = b.day and a.user = b.user group by a.day"
    text = explained(tmp_path, query)
    found = matched(text)
    assert [side.unit for side in found.sides] == ["file", "file"]
    # A filter of a's days is added to b: half of its folders are not read.
    assert [len(side.parts) for side in found.sides] == [5100, 5100]
    assert found.pairs == 2550
    for side in found.sides:
        assert all(len(part.tasks) == part.is_read for part in side.parts)
    assert sum(found.task_bytes) == sum(part.bytes for side in found.sides for part in side.read)
    assert "pairs of files can meet" in text.text()


def test_json_has_the_bounds_of_parts_and_tasks(tables: Path) -> None:
    with Session(tables=tables, master="local[4]") as session:
        parts = json.loads(session.explain(QUERIES["some months"], format="json"))["parts"]
    (join,) = parts["matched"]
    orders, shipments = join["sides"]
    assert [side["table"] for side in join["sides"]] == join["tables"] == ["orders", "shipments"]
    assert [side["read"] for side in join["sides"]] == join["parts"]
    assert (orders["all"], orders["part"], orders["column"], orders["left_off"]) == (12, "row group", "o_key", 0)
    assert orders["listed"][4] == {
        "name": "o_month=4/0.parquet",
        "rows": 8000,
        "bytes": orders["listed"][4]["bytes"],
        "least": 32_000,
        "greatest": 39_999,
        "has_nulls": False,
        "read": True,
        "tasks": orders["listed"][4]["tasks"],
    }
    assert len(join["ranges"]) == join["tasks"]
    assert join["ranges"][0]["from"] is None is join["ranges"][-1]["to"]
    assert sum(each["bytes"] for each in join["ranges"]) == orders["bytes_read"] + shipments["bytes_read"]
    assert join["task_bytes"]["largest"] == max(each["bytes"] for each in join["ranges"])
    assert {each["table"]: each["side"]["column"] for each in parts["pruned"]} == {
        "orders": "o_month",
        "shipments": "s_key",
    }


def test_json_lists_are_cut(tmp_path: Path) -> None:
    for number in range(300):
        write(tmp_path / f"a.parquet/day={day(number)}", user=np.arange(3))
    with Session(tables=tmp_path) as session:
        query = "select count(*) as n from a where day > '2026-02-01'"
        (pruned,) = json.loads(session.explain(query, format="json"))["parts"]["pruned"]
    side = pruned["side"]
    assert (pruned["read"], pruned["all"], len(side["listed"]), side["left_off"]) == (268, 300, 200, 100)
    assert side["listed"][31]["least"] == "2026-02-01"
    assert [each["read"] for each in side["listed"][30:34]] == [False, False, True, True]
