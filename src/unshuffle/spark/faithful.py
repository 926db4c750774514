"""Whether Spark runs a plan as it was planned: its exchanges and sorts beside ours.

Spark's are read from the text of its plan, where columns have the names that lowering gave them: no two columns of a plan
share one. Rows are right either way. An exchange that Spark adds is one that it did not see to be unnecessary, and that is
ours to mend.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from unshuffle.algebra import operators as ops
from unshuffle.algebra.physical import Physical, PhysicalOperator
from unshuffle.optimizer import Optimized
from unshuffle.properties import FullMerge, Replicated
from unshuffle.rules.sorted_inputs import is_hashed
from unshuffle.spark.bridge import SendByHash, SendByRange, Sending, SendToOne


@dataclass(frozen=True, slots=True)
class Sent:
    """One exchange. By the number of the partition, columns are not told: several exchanges have such a number each."""

    how: str  # hash, range, gather, number or anyhow
    columns: frozenset[str]
    partitions: int

    def __str__(self) -> str:
        of = f" of ({', '.join(sorted(self.columns))})" if self.columns else ""
        return f"{self.how}{of} into {self.partitions}"


@dataclass(frozen=True, slots=True)
class Executed:
    exchanges: Counter[Sent]
    sorts: int


def differences(planned: Executed, executed: Executed) -> list[str]:
    """What Spark does besides what was planned, and does not of it."""
    added, missing = executed.exchanges - planned.exchanges, planned.exchanges - executed.exchanges
    found = [f"Spark added an exchange: {each}" for each in added.elements()]
    found += [f"Spark left out an exchange: {each}" for each in missing.elements()]
    if executed.sorts > planned.sorts:
        found.append(f"Spark sorts {executed.sorts} times, {planned.sorts} were planned")
    return found


def added(optimized: Optimized, sendings: Mapping[int, Sending], frames: Iterable[DataFrame]) -> tuple[str, ...]:
    """The exchanges and sorts that Spark adds to a plan, for the user. Spark is asked for its plans now."""
    planned, executed = as_planned(optimized, sendings), [of_frame(frame) for frame in frames]
    exchanges = sum((each.exchanges for each in executed), Counter[Sent]())
    sorts = sum(each.sorts for each in executed) - planned.sorts
    if optimized.spools:  # what is kept stands in the plan of each that reads it
        exchanges, sorts = Counter(set(exchanges)), 0
    more = sorted(str(each) for each in (exchanges - planned.exchanges).elements())
    found = [f"Spark adds an exchange that was not planned: {each}" for each in more]
    if sorts > 0:
        found.append(f"Spark sorts {sorts} more time{'s' if sorts > 1 else ''} than was planned")
    return tuple(found)


def as_planned(optimized: Optimized, sendings: Mapping[int, Sending]) -> Executed:
    """The exchanges and sorts of a plan, each as often as it is run. `sendings` is how lowering sends each."""
    exchanges: Counter[Sent] = Counter()
    sorts = 0
    for root in optimized.roots:
        for node in _each_use(root):
            if isinstance(node.operator, ops.Move) and node.operator.readers is None:  # in place, nothing is sent
                sent = _sent(node, sendings.get(id(node)))
                exchanges.update([sent] if sent is not None else [])
            sorts += _sorts(node.operator)
    return Executed(exchanges, sorts)


def _sorts(operator: PhysicalOperator) -> int:
    match operator:
        case ops.LocalSort() | ops.RunReduce():
            return 1
        case ops.RunCombine():
            return 2
        case ops.HashAggregate(keys=keys, aggregates=aggregates, phase=phase) if phase != "partial":
            # In both halves, for the numbers among the keys have another form after the first.
            return 0 if is_hashed(keys, aggregates) else 2
    return 0


def of_frame(frame: DataFrame) -> Executed:
    """What Spark would run, before any of it has run."""
    # The text of a plan that has run tells it twice, as it was and as it became: this one has not.
    anew = frame.select("*")
    return of_text(anew._jdf.queryExecution().executedPlan().toString().splitlines())


def of_text(lines: Iterable[str]) -> Executed:
    found = [operator for line in _told_once(lines) for operator in _inside(line)]
    exchanges = Counter(sent for line in found if (sent := _read(line)) is not None)
    return Executed(exchanges, sum(line.startswith("Sort [") for line in found))


def told_inside(frame: DataFrame) -> str:
    """The exchanges and sorts of a fragment that its surroundings see as one operator, for the name of that."""
    lines = frame._jdf.queryExecution().executedPlan().toString().splitlines()
    operators = [operator for line in _told_once(lines) for operator in _inside(line)]
    return f"{{{' | '.join(each for each in operators if each.startswith(('Exchange ', 'Sort [')))}}}"


def _inside(operator: str) -> list[str]:
    told = re.match(r"Scan ExistingRDD [\w ]+\{(.*)\}", operator)
    return [operator] if told is None else told[1].split(" | ")


def _told_once(lines: Iterable[str]) -> Iterator[str]:
    """The operators of a plan. A subquery that two of them read is told twice."""
    seen: set[str] = set()
    skipped = None  # how far to the right the subquery begins that was told before
    for line in lines:
        operator = re.sub(r"^[\s:+*()\d-]*", "", line)
        depth = len(line) - len(operator)
        if skipped is not None and depth > skipped:
            continue
        skipped = None
        subquery = re.match(r"Subquery (subquery#\d+)", operator)
        if subquery is not None and subquery[1] in seen:
            skipped = depth
        elif subquery is not None:
            seen.add(subquery[1])
        yield operator


def _each_use(root: Physical) -> Iterator[Physical]:
    """Every node as often as it is used, without what Spark's own operator for the first rows stands for."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node.operator, ops.FirstRows):
            waiting.extend(node.inputs)
            continue
        below = below_first_rows(node)
        while isinstance(below.operator, ops.Select | ops.Compute | ops.Rename):
            yield below
            (below,) = below.inputs
        waiting.extend(below.inputs if isinstance(below.operator, ops.LocalSort) else [below])


def below_first_rows(node: Physical) -> Physical:
    """What Spark's own operator for the first rows is over: it sorts, looks into each partition and gathers by itself."""
    below = node.inputs[0]
    while isinstance(below.operator, ops.PartialFirstRows | ops.LocalSort | ops.InOrder) or (
        isinstance(below.operator, ops.Move) and isinstance(below.operator.how, FullMerge)
    ):
        below = below.inputs[0]
    return below


def _sent(node: Physical, sending: Sending | None) -> Sent | None:
    match sending:
        case SendToOne():
            return Sent("gather", frozenset(), 1)
        case SendByHash(columns, partitions, numbered):
            return Sent("number", frozenset(), partitions) if numbered else Sent("hash", frozenset(columns), partitions)
        case SendByRange(keys, partitions):
            return Sent("range", frozenset(name for name, _, _ in keys), partitions)
    # Lowering knows no more of the others: copies, and rows that are spread anyhow or gathered without keys.
    match getattr(node.operator.how, "scheme", None):  # type: ignore[attr-defined]
        case Replicated():
            return None
        case None:
            return Sent("gather", frozenset(), 1)
        case _:
            return Sent("anyhow", frozenset(), node.amount.partitions)


_EXCHANGE = re.compile(r"Exchange (\w+)(?:\((.*?)\))?, [A-Z_]+")


def _read(line: str) -> Sent | None:
    found = _EXCHANGE.match(line)
    if found is None:
        return None
    kind, inside = found[1], found[2] or ""
    *columns, last = [part.strip() for part in inside.split(",")]
    names = frozenset(re.sub(r"#\d+L?.*$", "", column) for column in columns)
    match kind:
        case "SinglePartition":
            return Sent("gather", frozenset(), 1)
        case "hashpartitioning":
            return Sent("hash", names, int(last))
        case "rangepartitioning":
            return Sent("range", names, int(last))
        case "RoundRobinPartitioning":
            return Sent("anyhow", frozenset(), int(last))
        case _:
            return Sent("number", frozenset(), int(last) if last.isdecimal() else 0)
