"""Watches a managed plan while it runs, and replaces it where an estimate turns out to be far off.

Managed plans run without adaptive execution (docs/decisions/013), so this is what corrects a wrong estimate
(docs/decisions/026). A listener in the driver compares the rows of exchanges and broadcasts with their estimates. Where they
differ by a factor, a thread plans again with the true rows, while the plan goes on. If what is left of it takes longer than
the new plan from its beginning, the jobs of the plan are cancelled, by a tag that only they have, and `PlanReplaced` is
raised where they ran. Whoever runs the plan undoes what it wrote and runs the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from threading import Event, Thread

from pyspark.sql import SparkSession

from unshuffle.catalog.schema import Column
from unshuffle.constants import THRESHOLDS
from unshuffle.frozen import dataclass
from unshuffle.optimizer import Divided, PlannedQuery, Planning
from unshuffle.plan import physical
from unshuffle.plan.physical import PhysicalPlan
from unshuffle.properties import PartialMerge, Replicated, TargetedBroadcast
from unshuffle.spark.shims.exchange_watcher import ExchangeWatcher, ExpectedExchange, ObservedExchange

_CANCEL_AGAIN = 0.05  # seconds; a job that is submitted while others are cancelled goes on


class PlanReplaced(Exception):
    """Raised where a plan ran that was cancelled for a better one. Nothing has failed."""

    def __init__(self, reason: str, is_for_spark: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_for_spark = is_for_spark  # adaptive execution divides the partition that is too large


@dataclass(frozen=True, slots=True)
class WatchedExchange:
    """An exchange of a plan, or an input that a join broadcasts by itself."""

    node: PhysicalPlan  # whose rows are counted
    expected: ExpectedExchange

    def told(self, observed: ObservedExchange) -> str:
        rows = f"{'' if observed.is_complete else 'about '}{observed.rows:,.0f} rows"
        kind = "broadcast" if self.expected.is_broadcast else "exchange"
        names = ", ".join(column.name for column in self.node.columns)
        if observed.largest is not None:
            return f"the {kind} of ({names}) had a partition with {observed.largest:.0%} of its bytes"
        return f"the {kind} of ({names}) had {rows}, {self.expected.rows:,.0f} were estimated"


class Watch:
    """Watches the actions of one query, and plans it again."""

    def __init__(self, spark: SparkSession, planning: Planning, divides_partitions: bool = False) -> None:
        """`divides_partitions`: whether the user's session divides partitions that are too large (adaptive execution)."""
        self._spark = spark
        self._planning = planning
        self._divides_partitions = divides_partitions
        self._is_for_spark = False
        self._exchanges = tuple(watched_exchanges(planning.planned))
        self._replaced: str | None = None
        self.fault: Exception | None = None  # of ours, in planning again

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises `PlanReplaced` if the plan whose jobs run inside the block has been replaced."""
        tag, ended = f"unshuffle-watched-{token_hex(4)}", Event()
        watcher = self._watcher(tag) if self._exchanges else None
        if watcher is None:
            yield
            return
        context = self._spark.sparkContext
        thread = Thread(target=self._follow, args=(watcher, ended), daemon=True, name="unshuffle-replanning")
        context.addJobTag(tag)
        thread.start()
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        finally:
            ended.set()
            watcher.close()
            context.removeJobTag(tag)
            thread.join()
        if failure is not None:
            if self._replaced is None and _is_too_large_to_broadcast(failure):
                self._avoid_broadcasts()
            if self._replaced is not None:
                raise PlanReplaced(self._replaced, self._is_for_spark) from failure
            raise failure

    def _watcher(self, tag: str) -> ExchangeWatcher | None:
        expected = [each.expected for each in self._exchanges]
        try:
            return ExchangeWatcher(self._spark, tag, expected, THRESHOLDS)
        except Exception as error:
            self.fault = error
            return None

    def _follow(self, watcher: ExchangeWatcher, ended: Event) -> None:
        """In a thread of its own: plans again whenever there is something to tell, and cancels the jobs for a better plan."""
        try:
            while (observed := watcher.next()) is not None:
                replanned = self._plan_again(observed)
                if replanned is not None and not ended.is_set():
                    if isinstance(replanned, PlannedQuery):
                        self._planning.adopt(replanned)
                    else:
                        self._is_for_spark = True
                    self._replaced = "; ".join(self._reasons(observed))
                    while not ended.wait(_CANCEL_AGAIN):
                        watcher.cancel("unshuffle has a better plan, and runs that")
                    return
        except Exception as error:
            self.fault = error

    def _avoid_broadcasts(self) -> None:
        """Plans again for exchanges that have no such limit."""
        try:
            self._planning.adopt(self._planning.without_broadcasts())
        except Exception as error:
            self.fault = error
        else:
            self._replaced = "a table was too large for a broadcast"

    def _plan_again(self, observed: Sequence[ObservedExchange]) -> PlannedQuery | Divided | None:
        rows = {self._exchanges[each.place].node.group: each.rows for each in observed}
        done = [self._exchanges[each.place].node for each in observed if each.is_complete]
        skewed = [(self._exchanges[each.place].node, each.largest) for each in observed if each.largest is not None]
        can_divide = self._divides_partitions and all(self._is_joined(node) for node, _ in skewed)
        return self._planning.again(rows, done, skewed, can_divide)

    def _is_joined(self, exchange: PhysicalPlan) -> bool:
        """Whether its partitions are those of a join. Spark divides no others."""
        nodes = [node for root in self._planning.planned.roots for node in root.walk()]
        joins = (node for node in nodes if isinstance(node.operator, physical.HashJoin | physical.MergeJoin))
        inputs = (each for join in joins for each in join.inputs)
        return any(exchange is (each.inputs[0] if _is_sort(each) else each) for each in inputs)

    def _reasons(self, observed: Sequence[ObservedExchange]) -> Iterator[str]:
        for each in observed:
            exchange = self._exchanges[each.place]
            if each.largest is not None or is_off(each.rows, exchange.expected.rows):
                yield exchange.told(each)


def _is_sort(node: PhysicalPlan) -> bool:
    return isinstance(node.operator, physical.LocalSort)


_TOO_LARGE = (
    "Cannot broadcast the table",
    "Not enough memory to build and broadcast the table",
    "is bigger than spark.driver.maxResultSize",
)


def _is_too_large_to_broadcast(error: Exception) -> bool:
    text = str(error)
    return any(each in text for each in _TOO_LARGE)


def is_off(rows: float, expected: float) -> bool:
    more, fewer = max(rows, expected), min(rows, expected)
    return more >= THRESHOLDS.replan_rows and more > fewer * THRESHOLDS.replan_error


def watched_exchanges(planned: PlannedQuery) -> Iterator[WatchedExchange]:
    """The exchanges whose rows can be told apart in Spark's plan, by their columns."""
    seen: set[int] = set()
    for root in planned.roots:
        for node in root.walk():
            if id(node) not in seen:
                seen.add(id(node))
                yield from _watched(node)


def _watched(node: PhysicalPlan) -> Iterator[WatchedExchange]:
    match node.operator:
        case physical.Exchange(how=how, readers=None) if not isinstance(how, PartialMerge):
            scheme = getattr(how, "scheme", None)
            if not isinstance(scheme, TargetedBroadcast):
                yield _expected(node, node.inputs[0], isinstance(scheme, Replicated))
        case physical.HashJoin(build=build) if node.inputs[build].size.partitions == 1:
            yield _expected(
                node.inputs[build], node.inputs[build], True
            )  # Spark broadcasts it to the other serial input


def _expected(node: PhysicalPlan, rows: PhysicalPlan, is_broadcast: bool) -> WatchedExchange:
    names = frozenset(column.spark_name for column in _named_columns(rows))
    return WatchedExchange(node, ExpectedExchange(is_broadcast, names, rows.size.rows, node.size.largest))


def _named_columns(rows: PhysicalPlan) -> Sequence[Column]:
    """The columns that have our names in Spark. The states of a partial aggregate have names of Spark's."""
    match rows.operator:
        case physical.HashAggregate(phase="partial" | "combining", keys=keys):
            return keys
        case physical.SortAggregate(phase="partial" | "combining", keys=keys):
            return keys
        case physical.LocalSort():
            return _named_columns(rows.inputs[0])
    return rows.columns
