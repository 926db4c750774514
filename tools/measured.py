"""The table of README.md, made of what the benchmarks wrote: `python tools/measured.py` after `make bench`.

Each line is one function of `benchmarks/results/NAME.json`. A benchmark that was not run has no line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a program, this file is in no package
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- made by tools/measured.py -->\n", "<!-- the end of what it made -->\n"

Row = tuple[str, str, str]  # what, how it is run again, the result


def table(results: Path = RESULTS) -> str:
    rows = [
        row for name, told in LINES.items() if (results / f"{name}.json").exists() for row in told(_read(results, name))
    ]
    lines = ["| what | plain Spark, ours | run again with |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {what} | {result} | `{again}` |" for what, again, result in rows)]) + "\n"


def _read(results: Path, name: str) -> dict[str, Any]:
    return json.loads((results / f"{name}.json").read_text())  # type: ignore[no-any-return]


def sides(q: dict[str, Any]) -> str:
    """Both sides of a query: seconds, task seconds, bytes, and whether rows were the same."""
    plain, ours = q["plain"], q["ours"]
    same = "same rows" if q["same_rows"] else "DIFFERENT ROWS"
    return (
        f"{plain['best']:.1f} s, {ours['best']:.1f} s: **{plain['best'] / ours['best']:.2f} times as fast**; task time "
        f"{ours['task_seconds'] / plain['task_seconds']:.2f} of plain Spark's; {_moved(plain, ours)}; {same}"
    )


def _moved(plain: dict[str, Any], ours: dict[str, Any]) -> str:
    return f"{plain['shuffle_bytes'] / 1e6:,.0f} MB shuffled, ours {_megabytes(ours['shuffle_bytes'])}"


def _megabytes(count: float) -> str:
    return f"{count / 1e6:,.0f} MB" if count else "none"


def execute(found: dict[str, Any]) -> Iterator[Row]:
    for q in found["suites"].get("cpu_hours", ()):
        what = f"CPU-hours script, {q['size']:,} processes (best of {len(q['ours']['seconds'])})"
        yield what, "python benchmarks/execute.py --suite cpu_hours", sides(q)
    queries = found["suites"].get("tpch", ())
    if queries:
        yield _tpch(queries)


def _tpch(queries: list[dict[str, Any]]) -> Row:
    plain, ours = (
        {key: sum(q[side][key] for q in queries) for key in ("best", "task_seconds", "shuffle_bytes", "exchanges")}
        for side in ("plain", "ours")
    )
    by_ratio = sorted(queries, key=lambda q: q["ratio"])
    told = sides({"plain": plain, "ours": ours, "same_rows": all(q["same_rows"] for q in queries)})
    low, high = (f"{q['ratio']:.2f} ({q['name']})" for q in (by_ratio[0], by_ratio[-1]))
    ends = f"a query takes from {low} to {high} of plain Spark's time"
    exchanges = f"{plain['exchanges']} exchanges, ours {ours['exchanges']}"
    scale, runs = queries[0]["size"], len(queries[0]["ours"]["seconds"])
    what = f"the {len(queries)} TPC-H queries at scale {scale:g}, keys declared (best of {runs})"
    return what, "python benchmarks/execute.py --suite tpch", f"{told}; {exchanges}; {ends}"


def super_operators(found: dict[str, Any]) -> Iterator[Row]:
    yield _operator_trees(found, "plain Spark with its merging of sub-plans on", "")
    for q in found["queries"]:
        if q["name"] == "watermarks":
            yield (
                "its query of mailboxes' watermarks",
                "python benchmarks/super_operators.py --query watermarks",
                sides(q),
            )


def super_operators_tuned(found: dict[str, Any]) -> Iterator[Row]:
    yield _operator_trees(found, "plain Spark also under the two settings that our plans of them run with", " --tuned")


def _operator_trees(found: dict[str, Any], beside: str, option: str) -> Row:
    from benchmarks.super_operators import together

    queries = [q for q in found["queries"] if q["name"].startswith("q")]
    means = together(queries)
    ends = sorted(q["faster"] for q in queries)
    same = "same rows" if all(q["same_rows"] for q in queries) else "DIFFERENT ROWS"
    rows, runs = queries[0]["size"], len(queries[0]["ours"]["seconds"])
    what = (
        f"the {len(queries)} operator trees of the super-operators' paper on {rows:,} rows, {beside} (best of {runs})"
    )
    result = (
        f"geometric mean **{means['faster']:.2f} times as fast**, from {ends[0]:.2f} to {ends[-1]:.2f}; "
        f"{means['task_time']:.2f} times less task time; {means['moved']:.2f} of the bytes; {same}"
    )
    return what, f"python benchmarks/super_operators.py{option}", result


FIGURES = {
    "grouped": "web pages in 64 ranges of (domain, host, dir), grouped by (domain, host) with exact percentiles",
    "common ranges": "four such streams of a quarter of the pages each, with other boundaries, put together and grouped so",
    "ranges joined": "two streams in ranges with boundaries of their own, made of a quarter of the pages each, joined",
    "buckets joined": "two streams of 100 and of 40 buckets, made of a quarter of the pages each, joined",
    "100 as 200, into 50": "buckets of 100 read as the 200 of another stream, joined, grouped, and brought into 50",
}


def streams(found: dict[str, Any]) -> Iterator[Row]:
    for figure, queries in found["figures"].items():
        for q in queries:
            if q["name"] not in FIGURES:
                continue
            what = f"{FIGURES[q['name']]} (`--rows` {q['size']:,}, best of {len(q['ours']['seconds'])})"
            more = _skew(queries) if "largest_to_average" in q else ""
            yield what, f"python benchmarks/streams.py --figure {figure}", sides(q) + more


def _skew(queries: list[dict[str, Any]]) -> str:
    found = {q["name"]: q["largest_to_average"] for q in queries}
    ours, of_one = (f"{found[name]:.2f}" for name in ("common ranges", "ranges of one"))
    return f"; largest partition {ours} times the average, {of_one} with the ranges of one"


def partition_writing(found: dict[str, Any]) -> Iterator[Row]:
    counts = ("250", "500", "1000", "2000", "4000")
    unit = found["seconds"]["traditional"]["250"]
    traditional, indexed = (
        ", ".join(f"{found['seconds'][way][count] / unit:.2f}" for count in counts)
        for way in ("traditional", "index-based")
    )
    crossing = found["crossing"]
    result = (
        f"a file each: {traditional}; one file with an index: {indexed}; the index is faster from {crossing['measured']:.0f} "
        f"partitions on, predicted {crossing['predicted']:.0f}"
    )
    yield (
        "writing 250, 500, 1,000, 2,000, 4,000 partitions, the first as 1",
        "python benchmarks/partition_writing.py",
        result,
    )


def connection_maps(found: dict[str, Any]) -> Iterator[Row]:
    largest = [max(sizes, key=lambda size: size["partitions"]) for sizes in found["shapes"].values()]
    times = " and ".join(f"{size['map_ms']:.0f} ms" for size in largest)
    what = f"which of {largest[0]['partitions']:,} stored ranges feed which of as many others"
    yield what, "python benchmarks/connection_maps.py", f"{times} ({', '.join(found['shapes'])})"


def optimize(found: dict[str, Any]) -> Iterator[Row]:
    names = {"cpu_hours": "the CPU-hours script", "tpch": "the 22 TPC-H queries", "tpcds": "the 99 TPC-DS queries"}
    for suite, name in names.items():
        summary = found["suites"].get(suite, {}).get("summary")
        if summary:
            result = f"{summary['median_ms']:.0f} ms median, {summary['slowest_ms']:.0f} ms the slowest"
            yield f"optimizing {name}", f"python benchmarks/optimize.py --suite {suite}", result


LINES: dict[str, Callable[[dict[str, Any]], Iterator[Row]]] = {
    "execute": execute,
    "super_operators": super_operators,
    "super_operators_tuned": super_operators_tuned,
    "streams": streams,
    "partition_writing": partition_writing,
    "connection_maps": connection_maps,
    "optimize": optimize,
}


def main() -> None:
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    assert found, f"README.md has no place for it: {BEGIN.strip()} ... {END.strip()}"
    readme.write_text(f"{before}{BEGIN}{table()}{END}{after}")


if __name__ == "__main__":
    main()
