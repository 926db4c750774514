"""What must hold for a case: ours is as plain Spark's, whatever rules and costs the plan was chosen by.

An error of plain Spark may be lost by ours, because a plan may skip the rows that raise it. An error may not be added. A warning
that a fault of ours left the query to plain Spark is a finding too.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from random import Random
from typing import Any
from unittest.mock import patch

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.types import DataType, StringType

from tests.support.generated_queries import machines
from tests.support.hunt.cases import Case
from unshuffle import Session
from unshuffle.cost import model
from unshuffle.errors import NotOptimizedWarning
from unshuffle.spark.session import temporarily

TOLERANCE = 1e-9
FACTORS = (0.001, 0.1, 1.0, 10.0, 1000.0)
MACHINES = machines(partition_bytes=1e6)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows and schema of a query, or its error."""

    rows: tuple[Any, ...] = ()
    schema: Any = None
    error: str | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A case whose answer is wrong: which oracle says so, and both answers in short."""

    kind: str  # rows, schema, error, fault, tlp, norec, spark
    oracle: str
    case: Case
    plain: str
    ours: str


@dataclass(slots=True)
class Tally:
    """What was compared so far. `understood` counts the queries of each kind of which no part fell back to Spark."""

    queries: int = 0
    plans: int = 0
    errors: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    understood: Counter[str] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, fallbacks: Sequence[str]) -> None:
        reasons = [each for each in fallbacks if _is_fallback(each)]
        self.asked[kind] += 1
        self.understood[kind] += not reasons
        self.fallbacks.update(set(reasons))


def findings(spark: SparkSession, case: Case, tally: Tally) -> Iterator[Finding]:
    """Every oracle on one case, whose tables exist."""
    with temporarily(spark, **case.settings):
        yield from _against_plain(spark, case, tally)
        if case.partition is not None:
            yield from _partitioned(spark, case, tally)


def _against_plain(spark: SparkSession, case: Case, tally: Tally) -> Iterator[Finding]:
    expected = answer(lambda: case.plain(spark))
    tally.queries += 1
    if expected.error is not None:
        tally.errors += 1
    seen: set[str] = set()
    for oracle, without, costs in (("plain", (), 0), ("rules", case.without, 0), ("costs", (), case.costs)):
        if oracle != "plain" and not without and not costs:
            continue
        session = Session(spark, without=without)
        with other_costs(costs):
            found = answer(lambda session=session: case.ours(session), seen)
        if found is None:
            continue
        tally.plans += 1
        made = replaced(case, without=without, costs=costs)
        yield from _differences(oracle, made, expected, found)
        if oracle == "plain" and expected.error is None:
            try:
                tally.add(case.kind, session.fallbacks)
            except Exception as error:
                yield Finding("fault", "fallbacks", made, shown(expected), _short(error))


def _partitioned(spark: SparkSession, case: Case, tally: Tally) -> Iterator[Finding]:
    """The parts of a relation by a condition are all of it (TLP), and counting a condition counts the rows of a filter
    (NoREC). If plain Spark breaks this too, the finding is Spark's."""
    part, session = case.partition, Session(spark)
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
            yield Finding(
                oracle if same(plain, expected, False) else "spark", oracle, made, shown(expected), shown(found)
            )


def _differences(oracle: str, case: Case, expected: Answer, found: Answer) -> Iterator[Finding]:
    if found.faults:
        yield Finding("fault", oracle, case, shown(expected), found.faults[0][:400])
    if expected.error is not None:
        return
    if found.error is not None:
        yield Finding("error", oracle, case, shown(expected), found.error)
    elif expected.schema != found.schema:
        yield Finding(
            "schema", oracle, case, expected.schema.simpleString(), f"{found.schema.simpleString()} or nullability"
        )
    elif not same(expected, found, case.is_ordered):
        yield Finding("rows", oracle, case, *_shown_difference(expected, found))


# --- answers


def answer(of: Callable[[], DataFrame], seen: set[str] | None = None) -> Any:
    """The answer of a query. None if `seen` has its plan already."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            frame = of()
            if seen is not None:
                plan = _plan(frame)
                if plan in seen:
                    return None
                seen.add(plan)
            made = Answer(_rows(frame), frame.schema)
        except Exception as error:  # whatever ours raises and plain Spark does not is a finding
            made = Answer(error=_short(error))
    faults = (str(each.message) for each in caught if issubclass(each.category, NotOptimizedWarning))
    return replaced(made, faults=tuple(faults))


def _plan(frame: DataFrame) -> str:
    text = frame._jdf.queryExecution().executedPlan().toString()
    return re.sub(r"#\d+L?|plan_id=\d+|\[id=\d+\]|_\d+|subquery#\d+", "", text)


def _rows(frame: DataFrame) -> tuple[Any, ...]:
    """Rows as Python values. Intervals of months have none, so they are texts."""
    fields = frame.schema.fields
    frame = frame.toDF(*(f"c{i}" for i in range(len(fields))))
    columns = (
        F.col(f"c{i}").cast("string") if _has_months(f.dataType) else F.col(f"c{i}") for i, f in enumerate(fields)
    )
    if any(_has_months(each.dataType) for each in fields):
        frame = frame.select(*columns)
    folded = [isinstance(f.dataType, StringType) and f.dataType.collation != "UTF8_BINARY" for f in fields]
    return tuple(
        tuple(v.lower() if is_folded and v is not None else v for v, is_folded in zip(row, folded, strict=True))
        for row in frame.collect()
    )


def _has_months(type: DataType) -> bool:
    return "year" in type.simpleString() or "month" in type.simpleString()


def _short(error: Exception) -> str:
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return f"{condition or type(error).__name__}: {str(error).strip()[:200]}"


def same(left: Answer, right: Answer, is_ordered: bool) -> bool:
    if len(left.rows) != len(right.rows):
        return False
    one, two = (rows if is_ordered else sorted(rows, key=_key) for rows in (left.rows, right.rows))
    return all(_is_close(a, b) for a, b in zip(one, two, strict=True))


def _key(value: Any) -> str:
    """Equal for values that are equal, and for floats that differ in the last bits only."""
    if isinstance(value, float):
        return "0" if value == 0 else f"{value:.6g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_key, value))}]"
    return repr(value)


def _is_close(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return (left != left and right != right) or left == right or math.isclose(left, right, rel_tol=TOLERANCE)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_is_close, left, right))
    return left == right


def shown(of: Answer) -> str:
    return of.error or f"{len(of.rows)} rows: {str(sorted(of.rows, key=_key)[:5])[:300]}"


def _shown_difference(expected: Answer, found: Answer) -> tuple[str, str]:
    """The rows that only one side has; all rows if they differ in their order."""
    one, two = ({_key(row) for row in each.rows} for each in (expected, found))
    left = replaced(expected, rows=tuple(row for row in expected.rows if _key(row) not in two) or expected.rows)
    right = replaced(found, rows=tuple(row for row in found.rows if _key(row) not in one) or found.rows)
    return shown(left), shown(right)


def _is_fallback(reason: str) -> bool:
    """A part that fell back to Spark. What Spark added to a plan is understood all the same."""
    return "exchange" not in reason.lower() and not reason.startswith("Spark sorts")


# --- costs


@contextmanager
def other_costs(seed: int) -> Iterator[None]:
    """Each physical operator's cost times a random factor, on a random machine. Formulas and lower bounds change alike, so
    branch-and-bound stays sound, and any plan may win."""
    if not seed:
        yield
        return
    draw = Random(seed)
    machine = draw.choice(MACHINES)
    formulas = {operator: _scaled(formula, draw.choice(FACTORS)) for operator, formula in model.FORMULAS.items()}
    with patch.object(model, "FORMULAS", formulas), patch("unshuffle.connection.this_machine", lambda: machine):
        yield


def _scaled(formula: Callable[..., Any], factor: float) -> Callable[..., Any]:
    def cost(*given: Any) -> Any:
        found = formula(*given)
        return replaced(found, seconds=found.seconds * factor)

    return cost
