"""The walk of a query: bind, plan, verify, execute. Nothing of a query stays behind in the pipeline.

    bound   = pipeline.bind(text, file or DataFrame)     what it means; then declared constraints are checked on the data
    planned = pipeline.plan(bound, target)               the cheapest plan found
    verify(planned)                                      every property of the plan, derived again
    execution = lowered(spark, planned)                  its outputs as DataFrames

`running`, `executing` and `optimized` are the fault barrier: whatever breaks on our side while a query is read, planned,
verified or lowered, the user gets plain Spark's DataFrames and a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from unshuffle.catalog.constraints.constraint import DeclaredPartitions
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.catalog.tables import TableFolders
from unshuffle.connection import Connection, warn_user
from unshuffle.constants import THRESHOLDS
from unshuffle.cost.machine import this_machine
from unshuffle.declarations import BoundScript, CheckProgress, Declarations
from unshuffle.effort import EFFORTS, Effort, Stakes, too_little
from unshuffle.errors import (
    FileProblem,
    InternalError,
    Source,
    SqlProblem,
    SyntaxProblem,
    UserError,
    did_you_mean,
)
from unshuffle.garbage import fewer_collections
from unshuffle.language.bind.context import ClassFacts
from unshuffle.language.bind.script import bind, bind_partitions, bind_stream, bind_table
from unshuffle.language.parse.parameters import Parameters
from unshuffle.language.parse.preprocess import read_source
from unshuffle.operators import Combiner, Extractor, Outputter, Processor, Reducer
from unshuffle.plan.logical import Output, Script, UserClass, UserFunction
from unshuffle.sql_queries import SqlQueries
from unshuffle.user_classes import load, make, seconds_per_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from unshuffle.optimizer import PlannedQuery, Planning
    from unshuffle.spark.execution.run import Execution
    from unshuffle.target import Target

Params = Mapping[str, object]
Result = TypeVar("Result")

SUFFIXES = (".scope", ".sql")
QUERY = "<query>"  # the name of a text that is in no file

_ROLES = {
    "extractor": Extractor,
    "processor": Processor,
    "reducer": Reducer,
    "combiner": Combiner,
    "outputter": Outputter,
}


class Pipeline:
    """The stages of a query over some tables, in some Spark. `disabled` are the names of rules that must not fire."""

    def __init__(
        self,
        connection: Connection,
        tables: Sequence[str] = (),
        catalog: str | Path | None = None,
        step: CheckProgress | None = None,
        disabled: Collection[str] = (),
        effort: Effort = "proportionate",
    ) -> None:
        self.connection = connection
        self.catalog = catalog
        self.declarations = Declarations(catalog, self.constraint_counter, step)
        self.aggregators: dict[str, UserFunction] = {}
        self._tables = TableFolders(tuple(tables))
        self._disabled = _known_rules(disabled)
        self._effort = _known_effort(effort)

    # --- bind

    def bind(self, what: str | Path | DataFrame, params: Params | None = None) -> Script:
        """What a script file, a .sql file, the text of a query, or a DataFrame means."""
        if not isinstance(what, str | Path):
            return self.read(what)
        if is_file(what):
            return self.bind_file(what, params)
        return self.bind_source(Source(QUERY, str(what)), params, is_script=False)

    def bind_file(
        self, file: str | Path, params: Params | None = None, *, will_write: bool = False, will_run: bool = False
    ) -> Script:
        path = Path(file)
        if path.suffix not in SUFFIXES:
            raise FileProblem(f"{str(path)!r} is neither a .scope script nor a .sql file")
        is_script = path.suffix == ".scope"
        if will_run and not is_script:
            _ = self.connection.spark  # so that Spark reads the text
        return self.bind_source(read_source(path), params, is_script, will_write)

    @fewer_collections()
    def bind_source(self, source: Source, params: Params | None, is_script: bool, will_write: bool = False) -> Script:
        """A script as our binder reads it; the queries of a SQL text as Spark reads them, if it is running."""
        bound = None if is_script else self._read_by_spark(source, params)
        if bound is None:
            bound = self._bind_without_spark(source, params, is_script, will_write)
        return self.declarations.check(bound)

    def _read_by_spark(self, source: Source, params: Params | None) -> BoundScript | None:
        """None where Spark is not running, or has no part in a text: one with statements of a script, or with commands."""
        if not self.connection.can_read_sql:
            return None
        from unshuffle.spark.reader.dataframe import left_to_spark, logical_plans

        with self._refused_in_our_words(source, params):
            frames = self._sql_queries().queries(self.connection.spark, source, _parameters(source, params))
        if frames is None:
            return None
        try:
            return logical_plans(frames, self.catalog, self.declarations)
        except UserError:
            raise
        except Exception as error:
            return left_to_spark(frames, _fallback_reason(error))

    def left_to_spark(self, what: str | Path | DataFrame, params: Params | None, error: Exception) -> Script:
        """What runs after a fault of ours: the whole query by Spark. Where Spark did not read it, the fault is raised."""
        from unshuffle.spark.reader.dataframe import left_to_spark

        frames: Sequence[DataFrame] | None = None
        if not isinstance(what, str | Path):
            frames = [what]
        elif self.connection.can_read_sql and not str(what).endswith(".scope"):
            source = read_source(Path(what)) if is_file(what) else Source(QUERY, str(what))
            frames = self._sql_queries().queries(self.connection.spark, source, _parameters(source, params))
        if frames is None or isinstance(error, UserError):
            raise error
        return self.declarations.check(left_to_spark(frames, _fallback_reason(error)))

    @contextmanager
    def _refused_in_our_words(self, source: Source, params: Params | None) -> Iterator[None]:
        """Where Spark rejects a text: the error of our binder, if it has one, with its place and similar names."""
        try:
            yield
        except SqlProblem:
            self._bind_without_spark(source, params)
            raise

    def _bind_without_spark(
        self, source: Source, params: Params | None, is_script: bool = False, will_write: bool = False
    ) -> BoundScript:
        return bind(
            source,
            _parameters(source, params),
            self._tables,
            self._environment(),
            _check_class,
            is_script,
            will_write,
            catalog=self.catalog,
            declarations=self.declarations,
        )

    def bind_query(self, text: str, params: Params | None = None) -> Script:
        """The text of exactly one query."""
        script = self.bind_source(Source(QUERY, text), params, is_script=False)
        if len(script.outputs) != 1:
            raise SyntaxProblem(f"expected one query, but the text holds {len(script.outputs)}")
        return script

    def bind_rows(self, what: str | Path, params: Params | None = None) -> Script:
        """A table, Parquet files, or a file of one query, as a script of one query."""
        if not str(what).endswith(SUFFIXES):
            return Script((Output(self.bind_table(what), None),))
        script = self.bind_file(what, params)
        if len(script.outputs) != 1:
            raise SyntaxProblem(f"expected one query, but {str(what)!r} has {len(script.outputs)} outputs")
        return without_targets(script)

    def bind_table(self, table: str | Path) -> Any:
        """A table that queries know by name, or Parquet files by their path."""
        return bind_table(table, self._tables, self._environment(), self.catalog)

    def bind_partitions(self, conditions: Mapping[str | Path, str], rowset: Any, table: str) -> DeclaredPartitions:
        """Conditions on parts of a table that was bound by `bind_table`."""
        return bind_partitions(conditions, rowset, table, self._environment())

    def _stream_scan(self, path: str) -> Any:
        return self.bind_sstream(path).outputs[0].plan

    def bind_sstream(self, path: str | Path) -> Script:
        bound = bind_stream(str(path), self.catalog, self.declarations, self._environment())
        return self.declarations.check(bound)

    @fewer_collections()
    def read(self, frame: DataFrame) -> Script:
        """A DataFrame as a script of one query."""
        from unshuffle.spark.reader.dataframe import logical_plan

        bound = logical_plan(frame, self.catalog, self.declarations)
        if self.connection.current is None:
            self.connection.use(frame.sparkSession)
        return self.declarations.check(bound)

    def read_or_leave(self, frame: DataFrame) -> Script:
        """The same; after a fault of ours, a script that leaves the whole query to Spark."""
        try:
            return self.read(frame)
        except UserError:
            raise
        except Exception as error:
            return self.left_to_spark(frame, None, error)

    # --- plan and verify

    def target(self, is_managed: bool = True) -> Target:
        return self.connection.target(is_managed)

    @fewer_collections()
    def plan(self, script: Script, target: Target | None = None, count: int = 1) -> tuple[PlannedQuery, ...]:
        """The `count` cheapest plans, the best first."""
        from unshuffle.optimizer import Options, optimize, optimize_ranked

        options = Options(target or self.target(), self._disabled)
        return optimize_ranked(script, count, options) if count > 1 else (optimize(script, options),)

    @fewer_collections()
    def plan_as_written(self, script: Script, target: Target) -> PlannedQuery:
        """The cheapest plan that keeps the shape of the query: its joins in their order, its aggregates where they are."""
        from unshuffle.explore.rules import RULE_NAMES, SPARK_RULE_NAMES
        from unshuffle.optimizer import Options, optimize

        return optimize(script, Options(target, self._disabled | (RULE_NAMES - SPARK_RULE_NAMES)))

    def plan_without_super_operators(self, script: Script, target: Target) -> PlannedQuery:
        from unshuffle.explore.rules import SUPER_OPERATOR_NAMES
        from unshuffle.optimizer import Options, optimize

        return optimize(script, Options(target, self._disabled | SUPER_OPERATOR_NAMES))

    # --- execute

    @contextmanager
    def executing(self, script: Script, is_managed: bool = True) -> Iterator[Execution]:
        """A bound query on Spark: as planned or, after a fault of ours, as plain Spark runs it."""
        with ExitStack() as running:
            try:
                planned, *_ = self.plan(script, self.target(is_managed))
                execution = running.enter_context(self._lowered(planned, script))
            except Exception as error:
                execution = self.baseline(script, (_fallback_reason(error),))
            yield execution

    def running(self, script: Script, action: Callable[[Execution], Result]) -> Result:
        """What an action makes of a bound query that it runs. The action leaves nothing behind if it is interrupted: where
        an estimate turns out to be far off, it is, and begins again with a better plan (see `Execution.watching`)."""
        from unshuffle.plan.user_code import runs_user_code
        from unshuffle.spark.execution.replanning import PlanReplaced, Watch
        from unshuffle.spark.execution.run import Replacement
        from unshuffle.spark.execution.session_settings import divides_partitions

        planning: Planning | None = None
        replaced: list[Replacement] = []
        is_for_spark = False
        while True:
            with ExitStack() as running:
                watch = None
                try:
                    if is_for_spark:
                        execution = self.baseline(script)
                    else:
                        planning = planning or self._planning(script)
                        execution = running.enter_context(self._lowered(planning.planned, script))
                        is_left_alone = bool(planning.planned.fallbacks) or runs_user_code(script)
                        if len(replaced) < THRESHOLDS.replans and not is_left_alone:
                            watch = Watch(execution.spark, planning, divides_partitions(self.connection.spark))
                            execution = replace(execution, watching=watch.watching)
                except Exception as error:
                    execution = self.baseline(script, (_fallback_reason(error),))
                begun = perf_counter()
                try:
                    result = action(replace(execution, replaced=tuple(replaced)))
                except PlanReplaced as found:
                    is_for_spark = found.is_for_spark
                    replaced.append(Replacement(found.reason, perf_counter() - begun, is_for_spark))
                    continue
                if watch is not None and watch.fault is not None:
                    _fallback_reason(watch.fault)
                return result

    @fewer_collections()
    def _planning(self, script: Script) -> Planning:
        from unshuffle.optimizer import Options, Planning

        return Planning(script, Options(self.target(), self._disabled))

    def query(self, text: str, params: Params | None = None) -> Execution:
        """The text of one query as Spark reads it, then as planned. A command is run."""
        from unshuffle.spark.execution.run import Execution
        from unshuffle.spark.reader.sql_text import is_command

        spark, source = self.connection.spark, Source(QUERY, text)
        with self._refused_in_our_words(source, params):
            frame = self._sql_queries().statement(spark, source, _parameters(source, params))
        if frame is None:
            with self.executing(self.bind_query(text, params), is_managed=False) as execution:
                return execution.handed_over(spark)
        if frame.isStreaming or (self.connection.can_read_sql and is_command(frame)):
            return Execution(spark, [frame], (None,))
        return self.optimized(frame)

    def as_written(self, file: str | Path, params: Params | None, script: Script) -> Execution:
        """Every output of a file as plain Spark runs it: a SQL text as Spark itself reads it, a script as translated."""
        from unshuffle.spark.execution.run import Execution

        frames = None
        if Path(file).suffix == ".sql" and self.connection.can_read_sql:
            source = read_source(Path(file))
            frames = self._sql_queries().queries(self.connection.spark, source, _parameters(source, params))
        if frames is None:
            return self.baseline(script)
        return Execution(self.connection.spark, frames, (None,) * len(frames))

    def _sql_queries(self) -> SqlQueries:
        return SqlQueries(self._tables, self.bind_table, self._stream_scan, self.connection.plain_reason is None)

    @fewer_collections()
    def optimized(self, frame: DataFrame) -> Execution:
        """A DataFrame as planned or, after a fault of ours, as it is."""
        from unshuffle.spark.execution.run import Execution
        from unshuffle.spark.reader.relations import with_schema_of

        if self.connection.current is None and hasattr(frame, "sparkSession"):
            self.connection.use(frame.sparkSession)
        if self.connection.plain_reason is not None:
            return Execution(frame.sparkSession, [frame], (None,), (self.connection.plain_reason,))
        try:
            if (found := self.too_little(frame)) is not None:
                return Execution(frame.sparkSession, [frame], (None,), left_as_is=found)
            script = self.read(frame)
        except UserError:
            raise
        except Exception as error:
            return Execution(frame.sparkSession, [frame], (None,), (_fallback_reason(error),))
        try:
            planned, *_ = self.plan(script, self.target(is_managed=False))
            with self._lowered(planned, script) as execution:
                faster = replace(execution, frames=[with_schema_of(execution.frames[0], frame)])
                return faster.handed_over(frame.sparkSession)
        except Exception as error:
            return Execution(frame.sparkSession, [frame], (None,), (_fallback_reason(error),))

    def too_little(self, frame: DataFrame) -> Stakes | None:
        """The stakes of a DataFrame that is left as it is, because planning it would not pay."""
        if self._effort == "full":
            return None
        from unshuffle.spark.reader.dataframe import size_of

        size = size_of(frame)
        return None if size is None else too_little(size, this_machine())

    def too_little_of(self, what: str | Path | DataFrame, params: Params | None) -> Stakes | None:
        """The same for what is explained: None for a script or a file, which are always planned."""
        if not isinstance(what, str | Path):
            return None if self.connection.plain_reason is not None else self.too_little(what)
        if is_file(what) or not self.connection.can_read_sql:
            return None
        source = Source(QUERY, str(what))
        frames = self._sql_queries().queries(self.connection.spark, source, _parameters(source, params))
        return self.too_little(frames[0]) if frames is not None and len(frames) == 1 else None

    def baseline(self, script: Script, reasons: Sequence[str] = ()) -> Execution:
        """Every output as plain Spark would run it."""
        from unshuffle.spark.execution.run import baseline

        return baseline(self.connection.spark, script, reasons)

    def _lowered(self, planned: PlannedQuery, script: Script) -> AbstractContextManager[Execution]:
        from unshuffle.spark.execution.run import lowered
        from unshuffle.verify import verify

        verify(planned)
        self.connection.require_optimizable()
        return lowered(self.connection.spark, planned, script)

    # --- what binding asks of Spark

    def _environment(self) -> Any:
        return _LazyEnvironment(self)

    def constraint_counter(self) -> Any:
        """Counts rows that contradict a declared constraint, where only Spark can read them."""
        from unshuffle.spark.execution.constraint_counts import SparkConstraintCounter

        return SparkConstraintCounter(self.connection.spark)


class _LazyEnvironment:
    """Asks Spark only where binding cannot do without: an embedded session is started only to describe what Spark alone
    understands."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def _answering(self) -> Any:
        from unshuffle.spark.reader.environment import SparkEnvironment

        return SparkEnvironment(self._pipeline.connection.spark, self._pipeline.catalog)

    def table(self, name: Sequence[str], numbers: ColumnNumbers, declarations: Declarations) -> Any:
        return None if self._is_embedded else self._answering().table(name, numbers, declarations)

    def declarable(self, name: Sequence[str], numbers: ColumnNumbers) -> Any:
        return None if self._is_embedded else self._answering().declarable(name, numbers)

    def function(self, name: str) -> UserFunction | None:
        return self._pipeline.aggregators.get(name.lower())

    def has_function(self, name: str) -> bool:
        return not self._is_embedded and self._answering().has_function(name)

    def describe(self, sql: str, inputs: Any) -> Any:
        return self._answering().describe(sql, inputs)

    @property
    def _is_embedded(self) -> bool:
        return self._pipeline.connection.is_embedded


def _parameters(source: Source, params: Params | None) -> Parameters:
    parameters = Parameters(params or {})
    if source.name == QUERY:
        parameters.declare_python_values()
    return parameters


def is_file(what: str | Path) -> bool:
    return isinstance(what, Path) or what.endswith(SUFFIXES)


def without_targets(script: Script) -> Script:
    """The same queries, written nowhere, so that their rows need no layout."""
    return replace(script, outputs=tuple(replace(output, target=None, layout=None) for output in script.outputs))


def _fallback_reason(error: Exception) -> str:
    """Why a query fell back to Spark. A fault of ours is warned of; a `UserError` is a reason that we know."""
    if isinstance(error, UserError):
        return str(error)
    fault = error if isinstance(error, InternalError) else InternalError(f"{type(error).__name__}: {error}")
    warn_user(str(fault))
    return str(fault)


def _known_rules(names: Collection[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    from unshuffle.explore.rules import RULE_NAMES

    for name in names:
        if name not in RULE_NAMES:
            known = did_you_mean(name, RULE_NAMES) or f"the rules are {', '.join(sorted(RULE_NAMES))}"
            raise UserError(f"there is no rule {name!r} to do without", hint=known)
    return frozenset(names)


def _known_effort(effort: Effort) -> Effort:
    if effort not in EFFORTS:
        raise UserError(f"{effort!r} is no effort", hint=f"it is one of {', '.join(EFFORTS)}")
    return effort


def _check_class(user_class: UserClass, role: str) -> ClassFacts:
    loaded = load(user_class, _ROLES[role])
    return ClassFacts(make(user_class, loaded).produces(), seconds_per_row(user_class, loaded))
