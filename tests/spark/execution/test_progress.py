"""The progress bar: on a terminal it counts tasks, elsewhere it is silent."""

from __future__ import annotations

import io
import re
import time
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_counts_tasks_on_a_terminal(spark: SparkSession) -> None:
    from unshuffle.spark.execution.progress import progress

    shown = io.StringIO()

    def slow(batches):  # type: ignore[no-untyped-def]
        time.sleep(0.5)
        yield from batches

    with progress(spark, "usage.scope", Console(file=shown, force_terminal=True, width=100)):
        assert spark.range(0, 6, 1, 6).mapInArrow(slow, "id long").count() == 6
    assert "usage.scope" in shown.getvalue()
    assert re.search(r"[1-7]/[67]", shown.getvalue())


def test_is_silent_elsewhere(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    from unshuffle.spark.execution.progress import progress

    with progress(spark):
        spark.range(3).count()
    assert capfd.readouterr() == ("", "")
