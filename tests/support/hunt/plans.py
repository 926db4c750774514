"""One query planned in many ways: by other rules, by other costs, and for a run that unshuffle manages.

A DataFrame is read once. Planning it again takes a fraction of the time of running it, so many plans are made and those that
differ are run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from random import Random
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession

from tests.support.generated_queries import machines
from unshuffle import Session
from unshuffle.connection import Connection
from unshuffle.cost import model
from unshuffle.explore.rules import RULE_NAMES, SUPER_OPERATOR_NAMES
from unshuffle.optimizer import PlannedQuery
from unshuffle.pipeline import Pipeline
from unshuffle.plan.logical import Script
from unshuffle.plan.physical import Exchange, FileScan, PhysicalPlan, RunCombine, RunProcess, RunReduce
from unshuffle.plan.physical.registry import OPERATORS
from unshuffle.target import Target

FACTORS = (0.001, 0.1, 1.0, 10.0, 1000.0)
WITHOUT_EXCHANGES = (
    10**8
)  # from this seed on, exchanges cost so much that stored rows are read in place where they can be
MACHINES = machines(partition_bytes=1e6)
# Only scripts have these, and only scripts have several outputs.
OF_SCRIPTS = {each.__name__ for each in (RunCombine, RunProcess, RunReduce)} | {"several_outputs"}


@dataclass(slots=True)
class Exercised:
    """How often each rule fired, was part of a plan that ran, and each physical operator was."""

    fired: Counter[str] = field(default_factory=Counter)
    super_operators: Counter[str] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)

    def add(self, planned: PlannedQuery) -> None:
        self.fired.update(set(planned.trace.rules))
        self.super_operators.update({each.rule for each in planned.super_operators})
        self.operators.update({_kind(node) for root in planned.roots for node in root.walk()})

    @property
    def never(self) -> list[str]:
        rules = [f"rule {each}" for each in RULE_NAMES if each not in self.fired]
        rules += [f"plan with {each}" for each in SUPER_OPERATOR_NAMES if each not in self.super_operators]
        names = {each.split()[0] for each in self.operators}
        operators = [f"operator {each.__name__}" for each in OPERATORS if each.__name__ not in names]
        return sorted(each for each in rules + operators if each.split()[-1] not in OF_SCRIPTS)


def _kind(node: PhysicalPlan) -> str:
    """An operator's name, and in which of its ways it runs."""
    operator = node.operator
    how = type(operator.how).__name__ if isinstance(operator, Exchange) else node.alternative
    if isinstance(operator, FileScan) and operator.readers is not None:
        how = "by bounds" if operator.bounded_by is not None else "as stored"
    return " ".join(filter(None, (type(operator).__name__, getattr(operator, "phase", ""), how)))


class Replanned(Pipeline):
    """A pipeline that remembers what it read and planned, and can be given both. `planned` are all of its plans."""

    def __init__(self, spark: SparkSession, without: Collection[str]) -> None:
        super().__init__(Connection(spark, None), disabled=without, effort="full")
        self.script: Script | None = None
        self.chosen: PlannedQuery | None = None
        self.planned: list[PlannedQuery] = []

    def read(self, frame: DataFrame) -> Script:
        if self.script is None:
            self.script = super().read(frame)
        return self.script

    def plan(self, script: Script, target: Target | None = None, count: int = 1) -> tuple[PlannedQuery, ...]:
        if self.chosen is not None:
            return (self.chosen,)
        found = super().plan(script, target, count)
        self.planned.append(found[0])
        return found


def session_of(spark: SparkSession, declared: Collection[str] = (), without: Collection[str] = ()) -> Session:
    """A session with the declarations of a case. Its pipeline is a `Replanned`."""
    session = Session(spark, effort="full")
    session.pipeline = Replanned(spark, without)
    for each in declared:
        exec(each, {"session": session})
    return session


def pipeline_of(session: Session) -> Replanned:
    assert isinstance(session.pipeline, Replanned)
    return session.pipeline


def shape(planned: PlannedQuery) -> str:
    """Equal for plans that run alike."""
    return "; ".join(_shape(root) for root in planned.roots)


def _shape(node: PhysicalPlan) -> str:
    operator = node.operator
    details = (_kind(node), getattr(operator, "build", ""), getattr(operator, "inner", ""), node.delivered)
    return f"{details}({', '.join(map(_shape, node.inputs))})"


@contextmanager
def other_costs(seed: int) -> Iterator[None]:
    """Each physical operator's cost times a random factor, on a random machine. Formulas and lower bounds change alike, so
    branch-and-bound stays sound, and any plan may win. 0 stands for the costs as they are."""
    if not seed:
        yield
        return
    draw = Random(seed)
    machine = draw.choice(MACHINES)
    formulas = {operator: _scaled(formula, draw.choice(FACTORS)) for operator, formula in model.FORMULAS.items()}
    if seed >= WITHOUT_EXCHANGES:
        formulas[Exchange] = _scaled(model.FORMULAS[Exchange], FACTORS[-1] ** 2)
    with patch.object(model, "FORMULAS", formulas), patch("unshuffle.connection.this_machine", lambda: machine):
        yield


def _scaled(formula: Callable[..., Any], factor: float) -> Callable[..., Any]:
    def cost(*given: Any) -> Any:
        found = formula(*given)
        return replaced(found, seconds=found.seconds * factor)

    return cost
