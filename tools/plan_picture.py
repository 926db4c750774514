"""Draws the picture of README.md: one query's plan in plain Spark and in unshuffle, from the plans that Spark prints. It also
prints the explanation of the query that README.md shows.

`python tools/plan_picture.py` plans the query twice, without running it, and writes docs/images/plans.svg. Adaptive
execution is off, so that the printed plan shows which exchanges Spark reuses; adaptive execution decides that only at run
time.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (what Spark's users call it)

import unshuffle

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "plans.svg"
ROWS = 20_000_000

WIDTH, HEIGHT, GAP = 196, 24, 10  # of a box, and the space below it
MARGIN, TITLE, BETWEEN = 8, 46, 28
_LINE = re.compile(r"(?P<indent>(?:[ :]*[+:]- )?)(?:\*\(\d+\) )?(?P<text>\S.*)")
_ALIAS = re.compile(r"([^\[\],]+(?:\([^()]*(?:\([^()]*\))?[^()]*\))?) AS (\w+)")
# Row-wise operators show nothing about shuffles.
_ROWWISE = ("Project", "Filter", "ColumnarToRow", "AdaptiveSparkPlan")


def write_visits(spark: SparkSession, path: Path) -> None:
    columns = ("id % 2000003 as user", "cast(id * 7919 % 365 as int) as day", "id % 977 as bytes")
    spark.range(ROWS).selectExpr(*columns).write.parquet(str(path))


def busiest_days(visits: DataFrame) -> DataFrame:
    """How many users had their peak on each day: the example of README.md."""
    daily = visits.groupBy("user", "day").agg(F.sum("bytes").alias("bytes"))
    peaks = daily.groupBy("user").agg(F.max("bytes").alias("peak"))
    return daily.join(peaks, "user").where("bytes = peak").groupBy("day").count()


@dataclass
class Node:
    """An operator of a printed plan."""

    text: str
    inputs: list[Node] = field(default_factory=list)

    @property
    def is_exchange(self) -> bool:
        return self.text.startswith(("Exchange", "ReusedExchange"))

    @property
    def is_reused(self) -> bool:
        return self.text.startswith("ReusedExchange")

    def all(self) -> Iterator[Node]:
        yield self
        for child in self.inputs:
            yield from child.all()


def parse(printed: str) -> Node:
    """The tree of `executedPlan().toString()`, without row-wise operators."""
    stack: list[tuple[int, Node]] = []
    root = Node("")
    for line in re.sub(r"#\d+L?", "", printed).splitlines():
        found = _LINE.fullmatch(line)
        if not found:
            continue
        depth = len(found["indent"])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        node = Node(found["text"])
        (stack[-1][1] if stack else root).inputs.append(node)
        stack.append((depth, node))
    return _without_rowwise(root)[0].inputs[0]


def _without_rowwise(node: Node) -> list[Node]:
    inputs = [kept for child in node.inputs for kept in _without_rowwise(child)]
    return inputs if node.text.startswith(_ROWWISE) else [Node(node.text, inputs)]


def label(node: Node, aliases: dict[str, str]) -> str:
    """The text of a box: the operator and its columns."""
    operator = re.split(r"[ (]", node.text, maxsplit=1)[0]
    if operator in ("Exchange", "ReusedExchange"):
        passed = re.search(r"direct_shuffle_partition_id\((\w+)\)", node.text)
        keys = re.search(r"hashpartitioning\((.*), \d+\)", node.text)
        if passed:
            hashed = re.search(r"hash\((.*), 42\)", aliases[passed[1]])
            by = hashed[1] if hashed else passed[1]
        else:
            by = keys[1] if keys else ""
        return f"{operator} by {_names(by)}"
    if operator == "HashAggregate":
        keys = re.search(r"keys=\[(.*?)\]", node.text)
        calls = re.search(r"functions=\[(\w+)\(", node.text)
        kind = "partial aggregate" if calls and calls[1].startswith("partial_") else "aggregate"
        return f"{kind} by {_names(keys[1] if keys else '')}"
    if operator.endswith("Join"):
        keys = re.search(r"\[(.*?)\]", node.text)
        return f"{operator} on {_names(keys[1] if keys else '')}"
    if operator == "Sort":
        return f"Sort by {_names(re.sub(' ASC NULLS FIRST', '', node.text[6 : node.text.index(']')]))}"
    return "scan visits" if operator == "FileScan" else operator


def _names(keys: str) -> str:
    """Column names as the user wrote them. Columns for partition numbers are not the user's."""
    return ", ".join(re.sub(r"_\d+$", "", key) for key in keys.split(", ") if not key.startswith("_p_"))


def columns(node: Node) -> int:
    return max(1, sum(map(columns, node.inputs)))


def depth(node: Node) -> int:
    return 1 + max(map(depth, node.inputs), default=0)


def draw(node: Node, aliases: dict[str, str], left: float, top: float) -> Iterator[str]:
    """Boxes and lines: the inputs of an operator below it, side by side."""
    middle = left + columns(node) * (WIDTH + GAP) / 2
    kind = "reused" if node.is_reused else "exchange" if node.is_exchange else "operator"
    at = left
    for child in node.inputs:
        below = at + columns(child) * (WIDTH + GAP) / 2
        start, end = top + HEIGHT, top + HEIGHT + GAP
        yield f'<path d="M{middle:g} {start:g} V{start + GAP / 2:g} H{below:g} V{end:g}"/>'
        yield from draw(child, aliases, at, end)
        at += columns(child) * (WIDTH + GAP)
    box = f'x="{middle - WIDTH / 2:g}" y="{top:g}" width="{WIDTH}" height="{HEIGHT}" rx="4"'
    yield f'<rect class="{kind}" {box}/>'
    yield f'<text class="{kind}" x="{middle:g}" y="{top + 16:g}">{escape(label(node, aliases))}</text>'


def title(name: str, plan: Node) -> tuple[str, str]:
    exchanges = [node for node in plan.all() if node.is_exchange]
    reused = sum(node.is_reused for node in exchanges)
    return name, f"{len(exchanges)} exchanges, {reused} of them reused: {len(exchanges) - reused} shuffles run"


# Every box has its own background and the rest is grey, so that the picture is readable on light and dark pages.
STYLE = """
text { font: 12px -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; text-anchor: middle; fill: #1f2328 }
text.name { font-size: 15px; font-weight: 600; fill: #7d8590 } text.count { font-size: 13px; fill: #7d8590 }
path { fill: none; stroke: #7d8590; stroke-width: 1.3 }
rect.operator { fill: #e7ebf0; stroke: #afb8c1 } rect.exchange { fill: #d1401f; stroke: #a12d13 }
rect.reused { fill: #fbe3dc; stroke: #d1401f; stroke-dasharray: 4 3 }
text.exchange { fill: #ffffff; font-weight: 600 } text.reused { fill: #8f2710 }
"""


def svg(plans: dict[str, str]) -> str:
    parts, left, height = [], float(MARGIN), 0
    for name, printed in plans.items():
        plan = parse(printed)
        aliases = {new: old.strip() for old, new in _ALIAS.findall(re.sub(r"#\d+L?", "", printed))}
        width = columns(plan) * (WIDTH + GAP)
        for y, kind, text in zip((18, 36), ("name", "count"), title(name, plan), strict=True):
            parts.append(f'<text class="{kind}" x="{left + width / 2:g}" y="{y}">{text}</text>')
        parts.extend(draw(plan, aliases, left, TITLE))
        left += width + BETWEEN
        height = max(height, depth(plan))
    size = f"{left - BETWEEN + MARGIN:g} {TITLE + height * (HEIGHT + GAP):g}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{size.split()[0]}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>\n"])


def printed_plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / ".cache" / "visits.parquet", help="made if it is not there")
    data = parser.parse_args().data
    off = {"spark.ui.enabled": "false", "spark.sql.adaptive.enabled": "false"}
    spark = SparkSession.builder.master("local[2]").config(map=off).getOrCreate()
    if not data.exists():
        write_visits(spark, data)
    query = busiest_days(spark.read.parquet(str(data)))
    ours = unshuffle.Session(spark, effort="full").optimize(query)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(svg({"plain Spark": printed_plan(query), "unshuffle": printed_plan(ours)}))
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    print(unshuffle.Session(spark).explain(query, why=True))


if __name__ == "__main__":
    main()
