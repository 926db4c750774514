"""The pipeline, one line a stage: preprocess -> parse -> bind -> optimize -> verify -> lower -> run.

`Session()` starts an embedded Spark when it first needs one; `Session(spark)` uses the caller's and leaves its settings as
they were. In one that our plans cannot run in (a version that is not tested, Spark Connect) queries run plain, and the user
is told. Binding and explaining need no Spark at all unless a query holds something that only Spark understands.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from unshuffle.algebra.logical import Output, Script, StreamTarget, Target, UserClass
from unshuffle.catalog.declared import Declaration, DeclaredDependency, DeclaredKey
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.catalog.tables import TableFolders
from unshuffle.declared import Declarations, How, Step
from unshuffle.errors import (
    FileProblem,
    InternalError,
    NotOptimizedWarning,
    Source,
    SyntaxProblem,
    UnshuffleError,
    UserError,
    did_you_mean,
    located,
)
from unshuffle.language.bind_script import bind, bind_stream, bind_table
from unshuffle.language.bind_stream import wanted_for
from unshuffle.language.functions import Arity, Function, Kind
from unshuffle.language.parameters import Parameters
from unshuffle.language.preprocess import read_source
from unshuffle.loading import load
from unshuffle.operators import Aggregator, Combiner, Extractor, Outputter, Processor, Reducer
from unshuffle.render.html import page
from unshuffle.render.tree import tree
from unshuffle.streams import Stream, Wanted, open_stream, settle
from unshuffle.streams.wanted import Names, sorted_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from unshuffle.catalog.stored_statistics import StoredStatistics
    from unshuffle.properties import Delivered

ExplainFormat = Literal["text", "json", "dot", "html"]
Params = Mapping[str, object]

_ROLES = {
    "extractor": Extractor,
    "processor": Processor,
    "reducer": Reducer,
    "combiner": Combiner,
    "outputter": Outputter,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What runs of a script took: seconds of every run, and the rest of the last one, as Spark counted it."""

    seconds: tuple[float, ...]
    exchanges: int
    shuffle_bytes: int
    spill_bytes: int
    task_seconds: float
    rows: int
    peak_memory_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "seconds": [round(s, 3) for s in self.seconds],
            "exchanges": self.exchanges,
            "shuffle_bytes": self.shuffle_bytes,
            "spill_bytes": self.spill_bytes,
            "task_seconds": round(self.task_seconds, 3),
            "rows": self.rows,
            "peak_memory_bytes": self.peak_memory_bytes,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """One output of a run: where it went (None: a query's rows), its rows, and the first of them."""

    path: str | None
    columns: tuple[str, ...]
    rows: int
    first: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Run:
    measured: Measured
    results: tuple[Result, ...]
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    baseline: Measured
    optimized: Measured
    optimize_ms: float
    same_rows: bool
    fallbacks: tuple[str, ...] = ()

    @property
    def speedup(self) -> float:
        return min(self.baseline.seconds) / min(self.optimized.seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            "baseline": self.baseline.as_json(),
            "optimized": {**self.optimized.as_json(), "optimize_ms": round(self.optimize_ms, 3)},
            "speedup": round(self.speedup, 3),
            "same_rows": self.same_rows,
        }


@dataclass(frozen=True, slots=True)
class Analyzed:
    """Data that was analyzed, what was found, and the file it was stored in."""

    path: str
    stored_in: Path
    statistics: StoredStatistics


class Session:
    """The front door from Python. Tables in `tables` folders are known by name to every query. Statistics, and checks of
    declarations, are kept in the folder `catalog`, or else beside the data they are of. `step` is told how far a check is:
    the rowset, the declaration, the rows read, and of how many. `without` are names of rules that plans are made without, as
    the super-operators' in `explain`."""

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        tables: str | Path | Sequence[str | Path] = (),
        master: str | None = None,
        catalog: str | Path | None = None,
        step: Step | None = None,
        without: Collection[str] = (),
    ) -> None:
        self._without = _known_rules(without)
        folders = [tables] if isinstance(tables, str | Path) else tables
        self._tables = TableFolders(tuple(str(folder) for folder in folders))
        self._catalog = catalog
        self._embedded = spark is None
        self._started = False
        self._master = master
        self._spark: SparkSession | None = None
        self._aggregators: dict[str, Function] = {}
        self._declarations = Declarations(catalog, self._counting, step)
        self._optimize_ms = 0.0
        self._left: tuple[str, ...] = ()  # of what ran last: what was left to Spark as it stands, and why
        self._laid: tuple[
            Delivered | None, ...
        ] = ()  # how the rows of each output lie, if it was run as it was planned
        self._added: Callable[[], tuple[str, ...]] = tuple  # the exchanges that Spark adds to it
        self._plain: str | None = None  # why nothing is optimized
        if spark is not None:
            self._use(spark)

    @property
    def spark(self) -> SparkSession:
        """The Spark session; an embedded one is started now if it was not."""
        if self._spark is None:
            from unshuffle.spark.session import is_running, start

            self._started = not is_running()
            self._use(start(self._master))
        assert self._spark is not None
        return self._spark

    def _use(self, spark: SparkSession) -> None:
        """From now on in this Spark. The user is told, once, if it is one that our plans cannot run in."""
        from unshuffle.spark.session import why_plain

        self._spark, self._plain = spark, why_plain(spark)
        if self._plain is not None:
            self._left, self._added = (self._plain,), tuple
            warnings.warn(self._plain, NotOptimizedWarning, stacklevel=3)

    def close(self) -> None:
        """Stops the Spark that this session started. One that was there before is left alone."""
        if self._started and self._spark is not None:
            self._spark.stop()
            self._spark = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what users ask for

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Of what ran last: what was left to Spark as it stands, and why, and the exchanges that Spark adds to the plan."""
        return (*self._left, *self._added())

    def sql(self, query: str, params: Params | None = None) -> DataFrame:
        """The result of one query as an ordinary DataFrame."""
        script = self._bind(Source("<query>", query), params, is_script=False)
        if len(script.outputs) != 1:
            raise SyntaxProblem(f"expected one query, but the text holds {len(script.outputs)}")
        with self._planned(script, keeps=False) as frames:
            return frames[0]

    def optimize(self, frame: DataFrame) -> DataFrame:
        """The same rows, columns and types as a DataFrame has, by a plan that moves less data where there is one."""
        from unshuffle.spark.relations import dressed

        if self._is_left_plain(frame):
            return frame
        with self._planned(self._read(frame), keeps=False) as frames:
            return dressed(frames[0], frame)

    def run(self, file: str | Path, params: Params | None = None) -> Run:
        """Runs a script and writes its outputs: all of them, or, if anything fails, none."""
        self._refuse_connect("running a script")
        script = self._bind_file(file, params, will_write=True)
        from unshuffle.spark import files, results, streams

        with self._failures_explained(script), self._planned(script) as frames:
            counted = [results.counted(frame) for frame in frames]
            with (
                self._measured() as measurement,
                files.PendingOutputs(self.spark) as pending,
                streams.PendingStreams(self.spark) as stored,
            ):
                layouts = self._laid or (None,) * len(frames)
                for output, plain, (frame, _), layout in zip(script.outputs, frames, counted, layouts, strict=True):
                    match output.target:
                        case Target() as target:
                            pending.write(frame, [c.name for c in output.plan.columns], target)
                        case StreamTarget() as target:
                            with located(output.span):
                                laid: streams.Laid = "partitioned" if layout is not None else "anyhow"
                                wanted = wanted_for(target, layout)
                                stored.write(frame, target.path, wanted, sample=plain, laid=laid)
                        case None:
                            results.consume(frame)
                stored.commit()
                try:
                    pending.commit()
                except BaseException:
                    stored.withdraw()
                    raise
            rows = [count() for _, count in counted]
            shown = tuple(
                self._result(output, frame, count)
                for output, frame, count in zip(script.outputs, frames, rows, strict=True)
            )
        return Run(self._as_measured((measurement.seconds,), measurement, sum(rows)), shown, self.fallbacks)

    def explain(
        self,
        what: str | Path | DataFrame,
        params: Params | None = None,
        *,
        format: ExplainFormat = "text",
        why: bool = False,
        all_plans: int = 1,
        logical: bool = False,
    ) -> str:
        """The optimized plan of a script file, a .sql file, a query or a DataFrame, for reading (text, html) or for programs
        (json, dot).

        `why` adds what forced each exchange and sort, what would make it go, and the proof of each one avoided.
        `all_plans` compares so many of the cheapest plans with the best.
        `logical` shows the query as it was bound instead, before any choice was made."""
        from unshuffle.optimizer import optimize, optimize_ranked
        from unshuffle.render import explain
        from unshuffle.verify import derive
        from unshuffle.why import reasons

        script = self._bind_what(what, params) if isinstance(what, str | Path) else self._read(what)
        if logical:
            return explain.logical(str(what), script, format)
        options = self._options()
        plans = optimize_ranked(script, all_plans, options) if all_plans > 1 else (optimize(script, options),)
        best, *_ = [derive(plan) for plan in plans]
        return explain.physical(str(what), plans, reasons(plans[0], best), format, why, script.declared)

    def compare(self, file: str | Path, params: Params | None = None, runs: int = 3) -> Comparison:
        """Plain Spark beside unshuffle: both sides run in turn, nothing is written, and their rows are compared."""
        self._refuse_connect("comparing")
        script = self._bind_file(file, params)
        # Nothing is written, so rows need not lie in any way.
        unwritten = tuple(replace(output, target=None, layout=None) for output in script.outputs)
        script = replace(script, outputs=unwritten)
        from unshuffle.spark import compare, results

        sides: dict[str, list[Any]] = {"baseline": [], "optimized": []}
        plans = {"baseline": self._straight, "optimized": self._planned}
        with self._failures_explained(script):
            for _ in range(max(1, runs)):
                for side, measurements in sides.items():
                    with self._measured() as measurement, plans[side](script) as frames:
                        counted = [results.counted(frame) for frame in frames]
                        for frame, _ in counted:
                            results.consume(frame)
                    measurements.append((measurement, sum(count() for _, count in counted)))
            with self._straight(script) as plain, self._planned(script) as planned:
                same = all(compare.same_rows(a, b) for a, b in zip(plain, planned, strict=True))

        def measured(side: str) -> Measured:
            last, rows = sides[side][-1]
            return self._as_measured(tuple(m.seconds for m, _ in sides[side]), last, rows)

        return Comparison(measured("baseline"), measured("optimized"), self._optimize_ms, same, self.fallbacks)

    def analyze(self, *paths: str | Path, step: Callable[[str, str, int, int], None] | None = None) -> list[Analyzed]:
        """Finds out statistics, keys and dependencies of Parquet data, and stores them for later queries to use. A
        folder of tables counts as all of them. `step` is told the table, what is being read, and how far it is."""
        from unshuffle.catalog.analyze import analyze, tables_at
        from unshuffle.catalog.stored_statistics import place_for, save

        done = []
        for table in [table for path in paths for table in tables_at(str(path))]:
            place = place_for(table, self._catalog)
            if place is None:
                raise FileProblem(
                    f"statistics cannot be kept beside {table!r}", hint="name a folder with --catalog DIR"
                )
            done.append(Analyzed(table, place, analyze(table, partial(step, table) if step is not None else None)))
        for each in done:
            save(each.statistics, each.stored_in)
        return done

    def write_stream(
        self,
        what: DataFrame | str | Path,
        path: str | Path,
        *,
        clustered_by: Names = (),
        sorted_by: Names = (),
        ranged: bool = False,
        partitions: int | None = None,
        boundaries: Sequence[Sequence[object]] | None = None,
        reference: str | Path | None = None,
        keys: Sequence[Sequence[str]] = (),
        dependencies: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
        overwrite: bool = False,
        params: Params | None = None,
    ) -> Stream:
        """Stores rows as a structured stream, clustered by a hash of some columns, or by ranges of them. `what` is a
        DataFrame, a table or Parquet files, or a .sql or .scope file of one query. A column may be followed by DESC.

        Without `partitions`, their number comes from the size of the rows. Ranges are chosen for partitions of about equal
        size, unless `boundaries` says where they begin. `reference` is another stream, whose partitioning is repeated.
        Keys and dependencies are checked on the rows. A stream that exists gets a new version if `overwrite` says so."""
        self._refuse_connect("writing a structured stream")
        wanted = Wanted(
            sorted_names(clustered_by),
            sorted_names(sorted_by),
            ranged,
            partitions,
            None if boundaries is None else tuple(map(tuple, boundaries)),
            None if reference is None else str(reference),
            tuple(DeclaredKey(tuple(key)) for key in keys),
            tuple(DeclaredDependency(tuple(left), tuple(right)) for left, right in dependencies),
            overwrite,
        )
        if not isinstance(what, str | Path):
            if self._spark is None:
                self._use(what.sparkSession)
            with self._failures_explained(Script(())):
                from unshuffle.spark import streams

                return streams.write(what, str(path), wanted)
        script = self._bind_rows(what, params)
        columns = [(column.name, column.type) for column in script.outputs[0].plan.columns]
        if all(type is not None for _, type in columns):  # then a mistake is found before anything runs
            settle(wanted, columns, open_stream(wanted.reference) if wanted.reference is not None else None)
        with self._failures_explained(script), self._planned(script) as frames:
            from unshuffle.spark import streams

            return streams.write(frames[0], str(path), wanted)

    def read_stream(self, path: str | Path) -> DataFrame:
        """The rows of the newest version of a structured stream. They stay those of that version."""
        script = bind_stream(str(path), self._catalog, self._declarations, self._environment())
        # As files: what is done with them later, Spark pushes into its own scan.
        with self._straight(script) as frames:
            return frames[0]

    def declare_key(self, table: str | Path, *columns: str, check: How = "data") -> None:
        """No two rows of a table agree on these columns, NULL agreeing with NULL. The table is one that queries know by
        name, or Parquet files by their path. It is checked on the data, now and whenever the files have changed, and
        wrong declarations are refused; `check="trust"` believes it unseen, at your own risk of wrong rows."""
        self._declare(table, DeclaredKey(columns), check)

    def declare_dependency(
        self,
        table: str | Path,
        determinant: str | Sequence[str],
        dependent: str | Sequence[str],
        *,
        check: How = "data",
    ) -> None:
        """Rows of a table that agree on the columns `determinant` agree on the columns `dependent`. See `declare_key`."""
        left, right = ((each,) if isinstance(each, str) else tuple(each) for each in (determinant, dependent))
        self._declare(table, DeclaredDependency(left, right), check)

    def _declare(self, table: str | Path, declaration: Declaration, check: How) -> None:
        rowset = bind_table(table, self._tables, self._environment(), self._catalog)
        self._declarations.declare(str(table), rowset, declaration, check)

    def report(self, file: str | Path, params: Params | None, run: Run) -> str:
        """An HTML page of what ran and what it took."""
        measured = run.measured
        shown = {
            "seconds": f"{measured.seconds[-1]:.2f}",
            "exchanges": measured.exchanges,
            "shuffled": f"{measured.shuffle_bytes:,} bytes",
            "spilled": f"{measured.spill_bytes:,} bytes",
            "task seconds": f"{measured.task_seconds:.2f}",
            "memory of a task": f"{measured.peak_memory_bytes:,} bytes",
            "rows": f"{measured.rows:,}",
        }
        return page(str(file), tree(self._bind_file(file, params)), shown)

    def register_aggregator(self, name: str, aggregator: type[Aggregator], returns: str) -> None:
        """Makes a user-defined aggregate known to queries by a name. `returns` is a Spark type such as "double"."""
        from unshuffle.spark.user_operators import register_aggregator

        register_aggregator(self.spark, name, aggregator, returns)
        self._aggregators[name.lower()] = Function(name, Kind.AGGREGATE, Arity((1,), 1), (), True, returns)

    # --- stages

    def _read(self, frame: DataFrame) -> Script:
        """A DataFrame as a script of one query."""
        from unshuffle.spark.catalyst import logical_plan

        script = logical_plan(frame, self._catalog, self._declarations)
        if self._spark is None:
            self._use(frame.sparkSession)
        return script

    def _is_left_plain(self, frame: DataFrame) -> bool:
        """Whether a DataFrame stays as it is, because nothing can be optimized in its session."""
        if self._spark is None and hasattr(frame, "sparkSession"):
            self._use(frame.sparkSession)
        if self._plain is not None:
            self._left, self._added = (self._plain,), tuple
        return self._plain is not None

    def _refuse_connect(self, what: str) -> None:
        if self._spark is not None:
            from unshuffle.spark.session import refuse_connect

            refuse_connect(self._spark, what)

    def _bind_what(self, what: str | Path, params: Params | None) -> Script:
        is_file = isinstance(what, Path) or str(what).endswith((".scope", ".sql"))
        if is_file:
            return self._bind_file(what, params)
        return self._bind(Source("<query>", str(what)), params, is_script=False)

    def _bind_file(self, file: str | Path, params: Params | None, will_write: bool = False) -> Script:
        path = Path(file)
        if path.suffix not in (".scope", ".sql"):
            raise FileProblem(f"{str(path)!r} is neither a .scope script nor a .sql file")
        source = read_source(path)
        return self._bind(source, params, is_script=path.suffix == ".scope", will_write=will_write)

    def _bind_rows(self, what: str | Path, params: Params | None) -> Script:
        """A table, Parquet files, or a file of one query, as a script of one query."""
        if not str(what).endswith((".scope", ".sql")):
            rowset = bind_table(what, self._tables, self._environment(), self._catalog)
            return Script((Output(rowset, None),))
        script = self._bind_file(what, params)
        if len(script.outputs) != 1:
            raise SyntaxProblem(f"expected one query, but {str(what)!r} has {len(script.outputs)} outputs")
        return replace(script, outputs=tuple(replace(output, target=None) for output in script.outputs))

    def _bind(self, source: Source, params: Params | None, is_script: bool, will_write: bool = False) -> Script:
        parameters = Parameters(params or {})
        if source.name == "<query>":
            parameters.declare_python_values()
        return bind(
            source,
            parameters,
            self._tables,
            self._environment(),
            _check_class,
            is_script,
            will_write,
            catalog=self._catalog,
            declarations=self._declarations,
        )

    def _environment(self) -> Any:
        return _LazyEnvironment(self)

    def _counting(self) -> Any:
        from unshuffle.spark.declared import Counting

        return Counting(self.spark)

    @contextmanager
    def _straight(self, script: Script) -> Iterator[list[DataFrame]]:
        """Every output as plain Spark would run it."""
        from unshuffle.spark.straight import translation

        with self._failures_explained(script), translation(self.spark) as straight:
            frames = [straight.result(output.plan) for output in script.outputs]
        yield frames

    @contextmanager
    def _planned(self, script: Script, keeps: bool = True) -> Iterator[list[DataFrame]]:
        """Every output as the optimizer plans it. What is kept for several uses is released in the end."""
        from unshuffle.optimizer import optimize
        from unshuffle.spark.as_made import as_made
        from unshuffle.spark.faithful import added
        from unshuffle.spark.lowering import lowering
        from unshuffle.verify import verify

        begun = perf_counter()
        with ExitStack() as running:
            try:
                optimized = optimize(script, self._options(keeps))
                verify(optimized)
                self._optimize_ms = (perf_counter() - begun) * 1000
                self._left, self._added = tuple(operator.reason for operator in optimized.foreign), tuple
                spark = self.spark  # an embedded one starts now
                if self._plain is not None:
                    raise UserError(self._plain)
                is_ours = keeps and not optimized.foreign
                settled = partial(as_made, spark, optimized) if is_ours else nullcontext
                running.enter_context(settled())
                with self._failures_explained(script), lowering(spark, optimized) as lowered:
                    running.callback(lowered.release)
                    frames = [lowered.output(plan, [c.name for c in o.plan.columns]) for o, plan in optimized.outputs]
                self._laid = tuple(output.layout for output, _ in optimized.outputs)

                @cache
                def added_by_spark() -> tuple[str, ...]:
                    with settled():
                        return added(optimized, lowered.sendings, frames)

                self._added = added_by_spark
            except Exception as error:
                # Whatever went wrong on our side, plain Spark may do it; and if not, its error is the user's.
                running.close()
                told = error if isinstance(error, UserError) else _fault(error)
                self._left, self._added = (str(told),), tuple
                self._laid = ()
                with self._straight(script) as frames:
                    yield frames
                return
            yield frames

    def _options(self, keeps: bool = True) -> Any:
        """What plans are made for: the machine that will run them, and what can be run."""
        from unshuffle.cost.machine import this_machine
        from unshuffle.optimizer import Options

        machine = this_machine()
        if self._spark is not None and self._plain is None:
            from unshuffle.spark.as_made import most_of_files

            context = self._spark.sparkContext
            # Not `getConf`, which copies every setting there is, one call of the JVM each.
            files = int(context._conf.get("spark.shuffle.sort.bypassMergeThreshold", str(machine.most_files)))
            piece = most_of_files(self._spark, machine.file_piece_bytes, is_made=keeps)
            machine = replace(machine, cores=context.defaultParallelism, most_files=files, file_piece_bytes=piece)
        return Options(machine=machine, disabled=self._without, keeps=keeps)

    @contextmanager
    def _failures_explained(self, script: Script) -> Iterator[None]:
        """Spark's errors as ours: one sentence, the place in the script, no Java."""
        from unshuffle.spark.failures import explain_failure
        from unshuffle.spark.user_operators import spans_of

        try:
            yield
        except UnshuffleError:
            raise
        except Exception as error:
            raise explain_failure(error, spans_of(script)) from error

    @contextmanager
    def _measured(self) -> Iterator[Any]:
        from unshuffle.spark.metrics import measure
        from unshuffle.spark.progress import progress

        with progress(self.spark), measure(self.spark) as measurement:
            yield measurement

    @staticmethod
    def _as_measured(seconds: tuple[float, ...], measurement: Any, rows: int) -> Measured:
        return Measured(
            seconds,
            measurement.exchanges,
            measurement.shuffle_bytes,
            measurement.spill_bytes,
            measurement.task_seconds,
            rows,
            measurement.peak_memory_bytes,
        )

    def _result(self, output: Output, frame: DataFrame, rows: int) -> Result:
        from unshuffle.spark import results

        path = output.target.path if output.target is not None else None
        first = results.first_rows(self.spark, frame, output)
        return Result(path, tuple(frame.columns), rows, tuple(tuple(row) for row in first))


class _LazyEnvironment:
    """Asks Spark only when it must, for until then not even pyspark is imported. An embedded session has no tables or
    functions of its own, so it is started only to describe."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _answering(self) -> Any:
        from unshuffle.spark.environment import SparkEnvironment

        return SparkEnvironment(self._session.spark, self._session._catalog)

    def table(self, name: Sequence[str], numbers: ColumnNumbers, declarations: Declarations) -> Any:
        return None if self._session._embedded else self._answering().table(name, numbers, declarations)

    def declarable(self, name: Sequence[str], numbers: ColumnNumbers) -> Any:
        return None if self._session._embedded else self._answering().declarable(name, numbers)

    def function(self, name: str) -> Function | None:
        return self._session._aggregators.get(name.lower())

    def has_function(self, name: str) -> bool:
        return not self._session._embedded and self._answering().has_function(name)

    def describe(self, sql: str, inputs: Any) -> Any:
        return self._answering().describe(sql, inputs)


def _fault(error: Exception) -> InternalError:
    """A fault of ours while a plan was made: the user gets the rows from plain Spark, and is told."""
    fault = error if isinstance(error, InternalError) else InternalError(f"{type(error).__name__}: {error}")
    warnings.warn(str(fault), NotOptimizedWarning, stacklevel=5)
    return fault


def _known_rules(names: Collection[str]) -> frozenset[str]:
    if not names:
        return frozenset()
    from unshuffle.optimizer import RULE_NAMES

    for name in names:
        if name not in RULE_NAMES:
            known = did_you_mean(name, RULE_NAMES) or f"the rules are {', '.join(sorted(RULE_NAMES))}"
            raise UserError(f"there is no rule {name!r} to do without", hint=known)
    return frozenset(names)


def _check_class(user_class: UserClass, role: str) -> None:
    load(user_class, _ROLES[role])
