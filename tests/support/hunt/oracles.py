"""What must hold for a case: ours is as plain Spark's, whatever rules and costs the plan was chosen by.

An error of plain Spark may be lost by ours, because a plan may skip the rows that raise it. An error may not be added. A warning
that a fault of ours left the query to plain Spark is a finding too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced

from pyspark.sql import DataFrame, SparkSession

from tests.support.hunt.answers import Answer, answer, answered, of_frame, same, short, shown, shown_difference
from tests.support.hunt.cases import Case
from tests.support.hunt.plans import Exercised, Replanned, other_costs, pipeline_of, session_of, shape
from unshuffle import Session
from unshuffle.spark.session import temporarily

PLANS = 6  # that are made with other costs
RUNS = 2  # of the plans that differ
SPARK_FAULT = "INTERNAL_ERROR"


@dataclass(frozen=True, slots=True)
class Finding:
    """A case whose answer is wrong: which oracle says so, and both answers in short."""

    kind: str  # rows, schema, error, accepted, fault, tlp, norec, spark
    oracle: str
    case: Case
    plain: str
    ours: str


@dataclass(slots=True)
class Tally:
    """What was compared so far. `understood` counts the queries of each kind of which no part fell back to Spark."""

    queries: int = 0
    plans: int = 0
    planned: int = 0
    errors: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    understood: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    exercised: Exercised = field(default_factory=Exercised)

    def add(self, kind: str, fallbacks: Sequence[str]) -> None:
        reasons = [each for each in fallbacks if _is_fallback(each)]
        self.asked[kind] += 1
        self.understood[kind] += not reasons
        self.fallbacks.update(set(reasons))


def findings(spark: SparkSession, case: Case, tally: Tally) -> Iterator[Finding]:
    """Every oracle on one case, whose tables exist."""
    with temporarily(spark, **case.settings):
        frames: list[DataFrame] = []

        def plain() -> DataFrame:
            frames.append(case.plain(spark))
            return frames[0]

        expected = answer(plain)
        tally.queries += 1
        tally.errors += expected.error is not None
        if frames:
            yield from _against_plain(spark, case, frames[0], expected, tally)
        if case.kind == "sql":
            yield from _read_by_us(spark, case, expected, not frames, tally)
        if case.partition is not None:
            yield from _partitioned(spark, case, tally)


def _against_plain(
    spark: SparkSession, case: Case, frame: DataFrame, expected: Answer, tally: Tally
) -> Iterator[Finding]:
    session = session_of(spark, case.declared)
    found = answer(lambda: session.optimize(frame))
    tally.plans += 1
    yield from _differences("plain", replaced(case, without=(), costs=0), expected, found)
    if expected.error is not None:
        return
    try:
        tally.add(case.kind, session.fallbacks)
        reasons = [each for each in session.fallbacks if SPARK_FAULT in each]  # Spark could not make what we asked for
    except Exception as error:
        reasons = [short(error)]
    for reason in reasons:
        yield Finding("fault", "fallbacks", replaced(case, without=(), costs=0), shown(expected), reason)
    pipeline = pipeline_of(session)
    if pipeline.script is not None and pipeline.planned:
        tally.exercised.add(pipeline.planned[0])
        yield from _other_plans(spark, case, frame, expected, pipeline, tally)


def _other_plans(
    spark: SparkSession, case: Case, frame: DataFrame, expected: Answer, first: Replanned, tally: Tally
) -> Iterator[Finding]:
    """Plans by other rules and costs, as far as they differ."""
    seen, runs = {shape(first.planned[0])}, 0
    tries = [("rules", case.without, 0)] * bool(case.without)
    tries += [("costs", (), case.costs + i) for i in range(PLANS)] if case.costs else []
    for oracle, without, costs in tries:
        made = replaced(case, without=without, costs=costs)
        session = session_of(spark, case.declared, without)
        pipeline = pipeline_of(session)
        pipeline.script = first.script
        with other_costs(costs):
            try:
                planned, *_ = pipeline.plan(pipeline.read(frame), pipeline.target(is_managed=False))
            except Exception as error:
                yield Finding("fault", oracle, made, shown(expected), short(error))
                continue
            tally.planned += 1
            if shape(planned) in seen or runs >= RUNS:
                continue
            seen.add(shape(planned))
            runs += 1
            pipeline.chosen = planned
            found = answer(lambda session=session: session.optimize(frame))
        tally.plans += 1
        tally.exercised.add(planned)
        yield from _differences(oracle, made, expected, found)
    if case.costs and case.seed % 3 == 0:
        yield from _managed(spark, case, expected, first, tally)


def _managed(spark: SparkSession, case: Case, expected: Answer, first: Replanned, tally: Tally) -> Iterator[Finding]:
    """As `run` runs a query: under settings chosen for the plan, and with spools. Only rows are compared."""
    session = session_of(spark, case.declared)
    pipeline = pipeline_of(session)

    def run() -> Answer:
        assert first.script is not None
        with pipeline.executing(first.script) as execution:
            return replaced(of_frame(execution.frames[0]), schema=expected.schema)

    with other_costs(case.costs):
        found = answered(run)
    tally.plans += 1
    for planned in pipeline.planned:
        tally.exercised.add(planned)
    yield from _differences("managed", replaced(case, without=()), expected, found)


def _read_by_us(
    spark: SparkSession, case: Case, expected: Answer, is_rejected: bool, tally: Tally
) -> Iterator[Finding]:
    """`Session.sql` has the rows, names, types, nullability and order of plain Spark, and rejects what Spark rejects."""
    session = session_of(spark, case.declared)
    found = answer(lambda: session.sql(case.text))
    tally.plans += 1
    made = replaced(case, without=(), costs=0)
    if found.error is None and is_rejected:
        yield Finding("accepted", "sql", made, shown(expected), shown(found))
    yield from _differences("sql", made, expected, found)


def _partitioned(spark: SparkSession, case: Case, tally: Tally) -> Iterator[Finding]:
    """The parts of a relation by a condition are all of it (TLP), and counting a condition counts the rows of a filter
    (NoREC). If plain Spark breaks this too, the finding is Spark's."""
    part, session = case.partition, Session(spark, effort="full")
    assert part is not None
    for oracle, ours, others in (("tlp", part.in_parts, part.everything), ("norec", part.counted, part.summed)):
        found, expected = (
            answer(lambda text=ours: session.optimize(spark.sql(text))),
            answer(lambda text=others: spark.sql(text)),
        )
        tally.queries += 1
        tally.plans += 1
        made = replaced(case, kind="sql", text=ours, is_ordered=False)
        if found.error is None and expected.error is None and not same(found, expected, False):
            plain = answer(lambda text=ours: spark.sql(text))
            kind = oracle if same(plain, expected, False) else "spark"
            yield Finding(kind, oracle, made, shown(expected), shown(found))


def _differences(oracle: str, case: Case, expected: Answer, found: Answer) -> Iterator[Finding]:
    if found.faults:
        yield Finding("fault", oracle, case, shown(expected), found.faults[0][:400])
    if expected.error is not None:
        return
    if found.error is not None:
        yield Finding("error", oracle, case, shown(expected), found.error)
    elif expected.schema != found.schema:
        ours = f"{found.schema.simpleString()} or nullability"
        yield Finding("schema", oracle, case, expected.schema.simpleString(), ours)
    elif not same(expected, found, case.is_ordered):
        yield Finding("rows", oracle, case, *shown_difference(expected, found))


def _is_fallback(reason: str) -> bool:
    """A part that fell back to Spark. What Spark added to a plan is understood all the same."""
    return "exchange" not in reason.lower() and not reason.startswith("Spark sorts")
