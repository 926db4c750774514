"""The tables of README.md and docs/benchmarks.md: run `python tools/measured.py` after `make bench`.

Each row is made from `benchmarks/results/NAME.json`. A benchmark that was not run has no row. docs/benchmarks.md has all the
rows, README.md the most telling ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this file is run as a program and is in no package
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- made by tools/measured.py -->\n", "<!-- end of the table -->\n"

Row = tuple[str, str, str]  # what was measured, the command that measures it again, the result


def full_table(results: Path = RESULTS) -> str:
    """All rows, for docs/benchmarks.md."""
    return _table(row for name in ROWS for row in _rows(results, name))


def short_table(results: Path = RESULTS) -> str:
    """The rows of README.md."""
    trees = [row for name in ("super_operators", "super_operators_tuned") for row in _rows(results, name)]
    picked = [
        *(row for row in _rows(results, "execute") if SIDES["sql"] not in row[0]),  # it is like `Session.optimize`
        *(row for row in trees if " operator trees " in row[0]),
        *(row for row in _rows(results, "streams") if row[0].startswith(FIGURES["grouped"])),
    ]
    return _table(picked)


def _rows(results: Path, name: str) -> Iterator[Row]:
    if (results / f"{name}.json").exists():
        yield from ROWS[name](_read(results, name))


def _table(rows: Iterable[Row]) -> str:
    lines = ["| what | plain Spark, unshuffle | measure it again |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {result} | `{command}` |" for what, command, result in rows)]) + "\n"


def _read(results: Path, name: str) -> dict[str, Any]:
    return json.loads((results / f"{name}.json").read_text())  # type: ignore[no-any-return]


def sides(q: dict[str, Any], side: str = "ours") -> str:
    """Plain Spark and a side of ours: seconds, task seconds, bytes, and whether rows were the same."""
    plain, ours = q["plain"], q[side]
    same = "same rows" if ours.get("same_rows", q["same_rows"]) else "DIFFERENT ROWS"
    return (
        f"{plain['best']:.1f} s, then {ours['best']:.1f} s: **{plain['best'] / ours['best']:.2f} times as fast**; task time "
        f"{ours['task_seconds'] / plain['task_seconds']:.2f} of plain Spark's; {_moved(plain, ours)}; {same}"
    )


def _moved(plain: dict[str, Any], ours: dict[str, Any]) -> str:
    return f"{plain['shuffle_bytes'] / 1e6:,.0f} MB shuffled, then {_megabytes(ours['shuffle_bytes'])}"


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.0f} MB" if count else "none"


def execute(results: dict[str, Any]) -> Iterator[Row]:
    for q in results["suites"].get("cpu_hours", ()):
        what = f"CPU-hours script, {q['size']:,} processes (best of {len(q['run']['seconds'])})"
        yield what, "python benchmarks/execute.py --suite cpu_hours", sides(q, "run")
    for suite, name, declared in (("tpch", "TPC-H", "keys declared"), ("tpcds", "TPC-DS", "nothing declared")):
        queries = results["suites"].get(suite, ())
        for side, called in SIDES.items():
            if queries and all(side in q for q in queries):
                what = f"the {len(queries)} {name} queries at scale {queries[0]['size']:g}, {declared}{called}"
                runs = f" (best of {len(queries[0][side]['seconds'])})"
                yield what + runs, f"python benchmarks/execute.py --suite {suite}", _together(queries, side)


SIDES = {"run": "", "sql": ", by `Session.sql`", "frame": ", by `Session.optimize`"}


def _together(queries: list[dict[str, Any]], side: str) -> str:
    plain, ours = (
        {key: sum(q[each][key] for q in queries) for key in ("best", "task_seconds", "shuffle_bytes", "exchanges")}
        for each in ("plain", side)
    )
    by_ratio = sorted((q[side]["best"] / q["plain"]["best"], q["name"]) for q in queries)
    same = all(q[side].get("same_rows", q["same_rows"]) for q in queries)
    result = sides({"plain": plain, side: ours, "same_rows": same}, side)
    low, high = (f"{ratio:.2f} ({name})" for ratio, name in (by_ratio[0], by_ratio[-1]))
    ends = f"a query takes from {low} to {high} of plain Spark's time"
    exchanges = f"{plain['exchanges']} exchanges, then {ours['exchanges']}"
    return f"{result}; {exchanges}; {ends}"


def scales(results: dict[str, Any]) -> Iterator[Row]:
    for scale, queries in results["scales"].items():
        runs = len(queries[0]["run"]["seconds"])
        what = f"the {len(queries)} TPC-H queries at scale {scale}, keys declared (best of {runs})"
        yield what, f"python benchmarks/scales.py --scale {scale}", _together(queries, "run")


def super_operators(results: dict[str, Any]) -> Iterator[Row]:
    yield _operator_trees(results, "plain Spark with its own merging of subplans on", "")
    for q in results["queries"]:
        if q["name"] == "watermarks":
            yield (
                "the query of that paper about the watermarks of mailboxes",
                "python benchmarks/super_operators.py --query watermarks",
                sides(q),
            )


def super_operators_tuned(results: dict[str, Any]) -> Iterator[Row]:
    yield _operator_trees(
        results, "plain Spark also under the two settings that unshuffle runs these plans with", " --tuned"
    )


def _operator_trees(results: dict[str, Any], beside: str, option: str) -> Row:
    from benchmarks.super_operators import together

    queries = [q for q in results["queries"] if q["name"].startswith("q")]
    means = together(queries)
    ends = sorted(q["faster"] for q in queries)
    same = "same rows" if all(q["same_rows"] for q in queries) else "DIFFERENT ROWS"
    rows, runs = queries[0]["size"], len(queries[0]["ours"]["seconds"])
    what = f"the {len(queries)} operator trees of the super-operator paper on {rows:,} rows, {beside} (best of {runs})"
    result = (
        f"geometric mean **{means['faster']:.2f} times as fast**, from {ends[0]:.2f} to {ends[-1]:.2f}; "
        f"{means['task_time']:.2f} times less task time; {means['moved']:.2f} of the bytes; {same}"
    )
    return what, f"python benchmarks/super_operators.py{option}", result


FIGURES = {
    "grouped": "web pages stored in 64 ranges of (domain, host, dir), grouped by (domain, host), with exact percentiles",
    "common ranges": "the union of four such streams with different boundaries, grouped the same way",
    "ranges joined": "two streams stored in ranges with different boundaries, a quarter of the pages each, joined",
    "buckets joined": "two streams stored in 100 and in 40 hash buckets, a quarter of the pages each, joined",
    "100 as 200, into 50": "100 stored buckets joined with 200, grouped, and written as 50",
}


def streams(results: dict[str, Any]) -> Iterator[Row]:
    for figure, queries in results["figures"].items():
        for q in queries:
            if q["name"] not in FIGURES:
                continue
            what = f"{FIGURES[q['name']]} (`--rows` {q['size']:,}, best of {len(q['ours']['seconds'])})"
            more = _skew(queries) if "largest_to_average" in q else ""
            yield what, f"python benchmarks/streams.py --figure {figure}", sides(q) + more


def _skew(queries: list[dict[str, Any]]) -> str:
    skew = {q["name"]: q["largest_to_average"] for q in queries}
    ours, of_one = (f"{skew[name]:.2f}" for name in ("common ranges", "ranges of one"))
    return f"; largest partition {ours} times the average, {of_one} with the ranges of one input"


def partition_writing(results: dict[str, Any]) -> Iterator[Row]:
    counts = ("250", "500", "1000", "2000", "4000")
    unit = results["seconds"]["traditional"]["250"]
    traditional, indexed = (
        ", ".join(f"{results['seconds'][way][count] / unit:.2f}" for count in counts)
        for way in ("traditional", "index-based")
    )
    crossing = results["crossing"]
    result = (
        f"a file each: {traditional}; one file with an index: {indexed}; the index wins above {crossing['measured']:.0f} "
        f"partitions, predicted {crossing['predicted']:.0f}"
    )
    yield (
        "writing 250, 500, 1,000, 2,000 and 4,000 partitions, relative to 250 partitions with a file each",
        "python benchmarks/partition_writing.py",
        result,
    )


def connection_maps(results: dict[str, Any]) -> Iterator[Row]:
    largest = [max(sizes, key=lambda size: size["partitions"]) for sizes in results["shapes"].values()]
    times = " and ".join(f"{size['map_ms']:.0f} ms" for size in largest)
    what = f"finding which of {largest[0]['partitions']:,} stored ranges overlap which of as many others"
    yield what, "python benchmarks/connection_maps.py", f"{times} ({', '.join(results['shapes'])})"


PARTITIONED = {
    "daily": "two tables in daily folders, joined on (day, user)",
    "three": "three tables in daily folders, joined on (day, user)",
    "week": "two tables in daily folders, one week of ninety days",
    "buckets": "tables of 8 and 12 buckets, joined on the bucket column",
    "quarter": "orders by month with shipments by ship month, one quarter",
    "months": "orders by month with shipments by ship month, all months",
    "opposite": "monthly folders of two tables, one with most of its rows in one half of the year, one in the other",
    "skewed": "monthly LEFT JOIN daily folders, one month with 60 % of the rows",
}


def partitioned_tables(results: dict[str, Any]) -> Iterator[Row]:
    for query in results["suites"]["partitioned tables"]:
        name = query["name"]
        yield PARTITIONED[name], f"python benchmarks/partitioned_tables.py --query {name}", sides(query)


SCHEMES = {
    "months": "orders and lineitem in folders by month of their dates",
    "quarters": "orders in folders by quarter, lineitem by month",
    "keys": "orders in 24 and lineitem in 40 ranges of the order key",
    "both": "both in folders by year and ranges of the order key",
}


def partitioned_tpch(results: dict[str, Any]) -> Iterator[Row]:
    for scheme, queries in results["suites"].items():
        result = _together(queries, "ours")
        names = ", ".join(q["name"].split()[0] for q in queries)
        what = f"TPC-H {names} at scale {queries[0]['size']:g}, {SCHEMES[scheme]}"
        yield what, f"python benchmarks/partitioned_tpch.py --scheme {scheme}", result


def cluster(results: dict[str, Any]) -> Iterator[Row]:
    for rate, queries in results["suites"].items():
        names, runs = ", ".join(q["name"].split()[0] for q in queries), len(queries[0]["run"]["seconds"])
        what = f"{names} on a cluster of two workers with links of {RATES[rate]} (best of {runs})"
        yield what, f"python benchmarks/cluster.py --rate {rate}", _together(queries, "run")


RATES = {"1gbit": "1 Gbit/s", "200mbit": "200 Mbit/s"}


SKEWED = {
    "inner": "a join on a key of which one value has 60 % of the rows",
    "left": "a LEFT JOIN on a key that is NULL in 60 % of the rows",
    "two": "a join on a key of which two values have 35 % of the rows each",
    "computed": "a join on a computed key of which one value has 60 % of the rows",
}


def skew(results: dict[str, Any]) -> Iterator[Row]:
    for q in results["suites"]["heavy values"]:
        longest = ", ".join(f"{q[side]['longest_task']:.1f}" for side in ("plain", "undivided", "run"))
        what = f"{SKEWED[q['name']]}, {q['size']:,} rows, planned for 8 cores"
        result = f"longest task {longest} times the average (plain Spark, without dividing, divided); {sides(q, 'run')}"
        yield what, f"python benchmarks/skew.py --query {q['name']}", result


def wrong_estimates(results: dict[str, Any]) -> Iterator[Row]:
    queries = results["suites"]["tpch"]
    told = []
    for side, wrong in (("low", "too low"), ("high", "too high")):
        ratios = sorted((q[side]["best"] / q["run"]["best"], q["name"]) for q in queries)
        (worst, name), middle = ratios[-1], median(ratio for ratio, _ in ratios)
        told.append(
            f"{wrong}: {middle:.2f} times the time of the right plan in the median, {worst:.2f} at worst ({name})"
        )
    same = "same rows" if all(q["same_rows"] for q in queries) else "DIFFERENT ROWS"
    what = f"one estimate of each of the {len(queries)} TPC-H queries is wrong by a factor of 100"
    yield what, "python benchmarks/wrong_estimates.py", f"{'; '.join(told)}; {same}"


def planning_parts(results: dict[str, Any]) -> Iterator[Row]:
    for shape, points in results["shapes"].items():
        counts, times = ", ".join(f"{p['parts']:,}" for p in points), ", ".join(f"{p['again_ms']:.0f}" for p in points)
        what = f"planning a join of two tables in {counts} {shape} each, without Spark's own listing of files"
        yield what, "python benchmarks/planning_parts.py", f"{times} ms"


def part_matching(results: dict[str, Any]) -> Iterator[Row]:
    largest = [max(sizes, key=lambda size: size["parts"]) for sizes in results["shapes"].values()]
    times = ", ".join(f"{size['match_ms']:.0f} ms" for size in largest)
    what = f"finding which of {largest[0]['parts']:,} parts of a table can meet which of as many others"
    yield what, "python benchmarks/part_matching.py", f"{times} ({', '.join(results['shapes'])})"


def optimize(results: dict[str, Any]) -> Iterator[Row]:
    names = {"cpu_hours": "the CPU-hours script", "tpch": "the 22 TPC-H queries", "tpcds": "the 99 TPC-DS queries"}
    for suite, name in names.items():
        summary = results["suites"].get(suite, {}).get("summary")
        if summary:
            result = f"{summary['median_ms']:.0f} ms median, {summary['slowest_ms']:.0f} ms the slowest"
            yield f"optimizing {name}", f"python benchmarks/optimize.py --suite {suite}", result


ROWS: dict[str, Callable[[dict[str, Any]], Iterator[Row]]] = {
    "execute": execute,
    "scales": scales,
    "super_operators": super_operators,
    "super_operators_tuned": super_operators_tuned,
    "streams": streams,
    "partition_writing": partition_writing,
    "connection_maps": connection_maps,
    "partitioned_tables": partitioned_tables,
    "partitioned_tpch": partitioned_tpch,
    "part_matching": part_matching,
    "cluster": cluster,
    "skew": skew,
    "wrong_estimates": wrong_estimates,
    "planning_parts": planning_parts,
    "optimize": optimize,
}


def main() -> None:
    for name, table in (("README.md", short_table()), ("docs/benchmarks.md", full_table())):
        page = ROOT / name
        before, _, rest = page.read_text().partition(BEGIN)
        _, end, after = rest.partition(END)
        assert end, f"{name} has no place for the table: {BEGIN.strip()} ... {END.strip()}"
        page.write_text(f"{before}{BEGIN}{table}{END}{after}")


if __name__ == "__main__":
    main()
