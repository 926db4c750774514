"""The page of a join that Spark reads in place: its drawing has the row groups that the tasks of the scan read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.explain.test_part_drawing import Bars
from tests.explain.test_parts import FIRST, day, write
from tests.support.hunt.plans import pipeline_of, session_of
from unshuffle.explain.why import TableReads, reasons
from unshuffle.spark.lowering.operators import sstream_scan

pytestmark = pytest.mark.spark


def read_by_lowering(side: TableReads) -> list[set[tuple[str, int]]]:
    """The file and the place of what each task of the scan reads."""
    reads = sstream_scan._bounded_reads(side.scan, ()) or sstream_scan._stored_reads(side.scan, ())
    return [{(piece.path.rsplit("/", 2)[1], piece.start) for piece in pieces} for pieces in reads[1]]


def test_the_page_of_days_joined_with_months(spark: SparkSession, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for month, (first, last) in enumerate(((0, 31), (31, 59), (59, 90))):
        dates = np.datetime64(FIRST) + np.sort(random.integers(first, last, 90_000 if month == 1 else 30_000))
        write(tmp_path / f"sales/month={month}", sold=dates, user=random.integers(0, 999, len(dates)))
    for number in range(90):
        write(tmp_path / f"visits/day={day(number)}", user=random.integers(0, 999, 3000))
    sales, visits = (spark.read.parquet(str(tmp_path / name)) for name in ("sales", "visits"))
    joined = (
        sales.join(visits, (sales.sold == visits.day) & (sales.user == visits.user), "left").groupBy("sold").count()
    )
    session = session_of(spark)
    page = session.explain(joined, format="html")
    (svg,) = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    bars = Bars(svg)
    assert {f"month={month}" for month in range(3)} <= {name.split("/")[0] for name in bars.found}
    assert sum(name.startswith("day=2026-") for name in bars.found) == 90
    session.optimize(joined)
    (planned,) = pipeline_of(session).planned[-1:]
    (matched,) = reasons(planned).matched
    for side in matched.sides:
        drawn = [{(part.folder, 0) for part in side.parts if task in part.tasks} for task in range(matched.tasks)]
        assert drawn == read_by_lowering(side)
    for line in page[page.index("<figcaption>") : page.index("</figcaption>")].splitlines()[1:]:
        assert line.split(";")[0].removesuffix("</pre>") in session.explain(joined, why=True)
