"""Makes a failing case small: decisions are simplified one by one, as long as the case still fails.

Shallow decisions come first, because a simple one makes everything below it simple. The result is greedy, not minimal.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.hunt.cases import Case, case_of, stored
from tests.support.hunt.oracles import Finding, Tally, findings


def shrunk(spark: SparkSession, finding: Finding, folder: Path, seconds: float) -> Finding:
    """The smallest finding of the same kind that was found in this many seconds."""
    until = time.monotonic() + seconds
    simple: frozenset[str] = frozenset()
    tried: set[str] = set()
    while time.monotonic() < until:
        path = _next(case_of(finding.case.seed, simple), simple, tried)
        if path is None:
            break
        tried.add(path)
        smaller = _still(spark, case_of(finding.case.seed, simple | {path}), finding, folder)
        if smaller is not None:
            finding, simple = smaller, simple | {path}
    return replace(finding, case=_without_unused_tables(finding.case))


def _next(case: Case, simple: frozenset[str], tried: set[str]) -> str | None:
    """The shallowest decision that was not tried, and is not below a simple one."""
    open_paths = (path for path in case.paths if path not in tried and not _is_below(path, simple))
    return min(open_paths, key=lambda path: path.count("/"), default=None)


def _is_below(path: str, simple: frozenset[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in simple)


def _still(spark: SparkSession, case: Case, finding: Finding, folder: Path) -> Finding | None:
    try:
        with stored(spark, case.tables, folder):
            every = findings(spark, case, Tally())
            return next((each for each in every if (each.kind, each.oracle) == (finding.kind, finding.oracle)), None)
    except PySparkException:
        return None  # simpler tables that Spark cannot make


def _without_unused_tables(case: Case) -> Case:
    return replace(case, tables=tuple(each for each in case.tables if each.name in case.text))


def as_test(finding: Finding) -> str:
    """A finding as an entry of found.py, below what both sides answered."""
    case = finding.case
    lines = [
        f"# {finding.kind} by the oracle {finding.oracle}, seed {case.seed}",
        f"# plain: {finding.plain}",
        f"# ours:  {finding.ours}",
        "Found(",
        f"    kind={case.kind!r},",
        "    tables=(",
        *(f"        {statement!r}," for table in case.tables for statement in table.statements),
        "    ),",
        f"    text={case.text!r},",
    ]
    more = {
        "settings": case.settings,
        "without": case.without,
        "costs": case.costs,
        "is_ordered": case.is_ordered,
        "declared": case.declared,
    }
    lines += [f"    {name}={value!r}," for name, value in more.items() if value]
    return "\n".join([*lines, "),"])
