"""Plans a case: the text that `test_plans` compares, and the rules that fired."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tests.plans.cases import Case
from tests.plans.rewriter import rewrite
from unshuffle.cost.machine import Machine
from unshuffle.explain.render.physical import physical_tree
from unshuffle.explain.render.text import compact
from unshuffle.optimizer import Options, optimize
from unshuffle.target import Target
from unshuffle.verify import verify
from workloads import tpcds, tpch
from workloads.described import Described, parse

# Plans must not depend on the machine that runs the tests.
EIGHT_CORES = Options(Target(Machine(cores=8)))
WORKLOADS = {"tpch": tpch.queries, "tpcds": tpcds.queries}


@dataclass(frozen=True, slots=True)
class Planned:
    text: str
    rules: frozenset[str]


class Planner:
    """Plans cases over the tables that they describe. The files of the tables are below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._described: dict[str, Described] = {}

    def plan(self, case: Case) -> Planned:
        described = self._tables(case.tables)
        script = described.bind(
            case.query or _workload(case), case.name, is_script="script" in case.option("as"), rows=case.rows
        )
        if case.rules:
            text, fired = rewrite(script, case.rules, case.option("disable"))
            return Planned(text, fired)
        optimized = optimize(script, replace(EIGHT_CORES, disabled=frozenset(case.option("disable"))))
        verify(optimized)
        shown = compact(physical_tree(optimized, renumbered=True)).replace(f"{described.folder}/", "")
        return Planned("\n".join(line.rstrip() for line in shown.splitlines()), frozenset(optimized.trace.rules))

    def _tables(self, description: str) -> Described:
        if description not in self._described:
            folder = self._folder / str(len(self._described))
            self._described[description] = Described(folder, parse(description))
        return self._described[description]


def _workload(case: Case) -> str:
    """The query of a case such as `tpch 1`, which is not in the file."""
    name, _, number = case.name.partition(" ")
    if name not in WORKLOADS or not number.isdigit():
        raise ValueError(f"the case {case.name!r} has no query")
    return WORKLOADS[name]()[int(number)]
