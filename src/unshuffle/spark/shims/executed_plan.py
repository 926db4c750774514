"""The text of Spark's physical plan of a DataFrame, as a list of operators.

Columns have the names that lowering gave them, and no two columns of a plan share one, so exchanges can be told apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame

from unshuffle.spark.shims.catalyst import query_execution


def executed_plan(frame: DataFrame) -> list[str]:
    """The lines of Spark's physical plan."""
    text: str = query_execution(frame).executedPlan().toString()
    return text.splitlines()


def is_adaptive(frame: DataFrame) -> bool:
    """Will adaptive execution plan it again while it runs?"""
    return bool(query_execution(frame).executedPlan().nodeName() == "AdaptiveSparkPlan")


def operators_in(lines: Iterable[str]) -> list[str]:
    """The operators of a plan, including those of fragments that reach Spark as an RDD."""
    return [operator for line in _without_repeated_subqueries(lines) for operator in _fragment(line)]


def exchanges_and_sorts(frame: DataFrame) -> str:
    """The exchanges and sorts of a fragment that the rest of the plan sees as one RDD, to be put into the RDD's name."""
    operators = operators_in(executed_plan(frame))
    return f"{{{' | '.join(each for each in operators if each.startswith(('Exchange ', 'Sort [')))}}}"


def _fragment(operator: str) -> list[str]:
    """The operators in the name of an RDD (see `exchanges_and_sorts`), or the operator itself."""
    name = re.match(r"Scan ExistingRDD [\w ]+\{(.*)\}", operator)
    return [operator] if name is None else name[1].split(" | ")


def _without_repeated_subqueries(lines: Iterable[str]) -> Iterator[str]:
    """The operators of a plan. The text repeats a subquery for each operator that reads it."""
    seen: set[str] = set()
    repeated_at = None  # the indentation of the repeated subquery that is being skipped
    for line in lines:
        operator = re.sub(r"^[\s:+*()\d-]*", "", line)
        depth = len(line) - len(operator)
        if repeated_at is not None and depth > repeated_at:
            continue
        repeated_at = None
        subquery = re.match(r"Subquery (subquery#\d+)", operator)
        if subquery is not None and subquery[1] in seen:
            repeated_at = depth
        elif subquery is not None:
            seen.add(subquery[1])
        yield operator
