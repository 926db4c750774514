"""`Session`, the front door from Python. The stages are in `pipeline`; a session only puts them together.

`Session()` starts an embedded Spark when it first needs one; `Session(spark)` uses the caller's and never changes its
settings. Where our plans cannot run (an untested Spark version, Spark Connect), plain Spark runs the queries, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import local
from typing import TYPE_CHECKING, Literal

from unshuffle.catalog.constraints.constraint import Constraint, DeclaredDependency, DeclaredKey
from unshuffle.connection import Connection
from unshuffle.declarations import CheckMode, CheckProgress
from unshuffle.effort import Effort
from unshuffle.errors import FileProblem
from unshuffle.operators import Aggregator
from unshuffle.pipeline import Params, Pipeline, without_targets
from unshuffle.plan.logical import Script
from unshuffle.results import Analyzed, Comparison, Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from unshuffle.spark.execution.run import Execution
    from unshuffle.sstream import LayoutRequest, Stream
    from unshuffle.sstream.layout_request import Names

ExplainFormat = Literal["text", "json", "dot", "html"]


class Session:
    """Optimizes and runs queries in one Spark session. Many threads may use one `Session`.

    Every query knows the tables in the folders `tables` by name. Statistics and checks of declarations are kept in the
    folder `catalog`, or else beside the data. `step` reports the progress of a check: the rowset, the declaration, the rows
    read, and how many there are. `without` disables rules by name.

    `sql` and `optimize` return the user's own DataFrame where planning would take longer than it can be expected to save.
    With `effort="full"` they always plan."""

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        tables: str | Path | Sequence[str | Path] = (),
        master: str | None = None,
        catalog: str | Path | None = None,
        step: CheckProgress | None = None,
        without: Collection[str] = (),
        effort: Effort = "proportionate",
    ) -> None:
        folders = [tables] if isinstance(tables, str | Path) else tables
        self.pipeline = Pipeline(Connection(spark, master), list(map(str, folders)), catalog, step, without, effort)
        self._last = local()  # each thread's last query

    @property
    def spark(self) -> SparkSession:
        """The Spark session; an embedded one is started if it is not running yet."""
        return self.pipeline.connection.spark

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Why parts of this thread's last query fell back to Spark, and which exchanges Spark added to its plan."""
        last: Execution | None = getattr(self._last, "execution", None)
        if last is not None:
            return last.fallbacks
        reason = self.pipeline.connection.plain_reason
        return () if reason is None else (reason,)

    def close(self) -> None:
        """Stops the Spark that this session started. One that was running before is left alone."""
        self.pipeline.connection.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- queries

    def sql(self, query: str, params: Params | None = None) -> DataFrame:
        """The result of one query as an ordinary DataFrame."""
        return self._remember(self.pipeline.query(query, params)).frames[0]

    def optimize(self, frame: DataFrame) -> DataFrame:
        """The same rows, columns and types as a DataFrame has, by a plan that moves less data where there is one."""
        return self._remember(self.pipeline.optimized(frame)).frames[0]

    def run(self, file: str | Path, params: Params | None = None) -> Run:
        """Runs a script and writes its outputs: all of them, or, if anything fails, none."""
        self.pipeline.connection.refuse_connect("running a script")
        script = self.pipeline.bind_file(file, params, will_write=True, will_run=True)
        from unshuffle.spark.execution.run import failures_explained, write_outputs

        def run(execution: Execution) -> Run:
            self._remember(execution)
            measured, results = write_outputs(execution, script)
            return Run(measured, results, execution.fallbacks, tuple(map(str, execution.replaced)))

        with failures_explained(script):
            return self.pipeline.running(script, run)

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
        """The plan of a script file, a .sql file, a query or a DataFrame, for people (text, html) or programs (json, dot). It
        is the plan that `run` runs for a file, `sql` for a query and `optimize` for a DataFrame.

        `why` adds what forced each exchange and sort, what would remove it, and the proof of each one avoided.
        `all_plans` compares that many of the cheapest plans.
        `logical` shows the query as it was bound instead, before any choice was made."""
        from unshuffle.explain import explain
        from unshuffle.explain.why import reasons
        from unshuffle.pipeline import is_file
        from unshuffle.verify import derive

        is_managed = isinstance(what, str | Path) and is_file(what)
        left_as_is = as_written = without = None
        try:
            script = self.pipeline.bind(what, params)
            if logical:
                return explain.logical(str(what), script, format)
            target = self.pipeline.target(is_managed)
            plans = self.pipeline.plan(script, target, all_plans)
            derivation = derive(plans[0])
            left_as_is = self.pipeline.too_little_of(what, params)
            as_written = self.pipeline.plan_as_written(script, target)
            without = self.pipeline.plan_without_super_operators(script, target) if plans[0].super_operators else None
        except Exception as error:
            script = self.pipeline.left_to_spark(what, params, error)
            plans = self.pipeline.plan(script, self.pipeline.target(is_managed))
            derivation = derive(plans[0])
        found = reasons(plans[0], derivation)
        return explain.physical(str(what), plans, found, format, why, script.declared, left_as_is, as_written, without)

    def compare(self, file: str | Path, params: Params | None = None, runs: int = 3) -> Comparison:
        """Plain Spark beside unshuffle: both sides run in turn, nothing is written, and their rows are compared."""
        self.pipeline.connection.refuse_connect("comparing")
        script = without_targets(self.pipeline.bind_file(file, params, will_run=True))
        from unshuffle.spark.execution.compare import compared
        from unshuffle.spark.execution.run import failures_explained

        with failures_explained(script):
            comparison, execution = compared(
                self.spark,
                lambda: self.pipeline.as_written(file, params, script),
                lambda action: self.pipeline.running(script, action),
                max(1, runs),
            )
        self._remember(execution)
        return comparison

    def report(self, file: str | Path, params: Params | None, run: Run) -> str:
        """An HTML page of what ran and what it took."""
        from unshuffle.explain.render.html import run_page
        from unshuffle.explain.render.logical import tree

        return run_page(str(file), tree(self.pipeline.bind_file(file, params)), run.measured)

    # --- structured streams

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
        follows: int | None = None,
        params: Params | None = None,
    ) -> Stream:
        """Stores rows as a structured stream, clustered by a hash of some columns, or by ranges of them. `what` is a
        DataFrame, a table or Parquet files, or a .sql or .scope file of one query. A column may be followed by DESC.

        Without `partitions`, rows that lie right are stored as they lie; for others, the number of partitions follows from
        their size. Ranges are chosen for partitions of about equal size, unless `boundaries` gives them. `reference` is
        another stream, whose partitioning is repeated. Keys and dependencies are checked on the rows. An existing stream gets
        a new version if `overwrite` is set.

        `follows` is the version of this stream that the rows were computed from: if it is no longer the newest, nothing is
        written. For a file with a query it is the version that the query reads."""
        self.pipeline.connection.refuse_connect("writing a structured stream")
        from unshuffle.spark.execution.run import version_read
        from unshuffle.sstream import LayoutRequest
        from unshuffle.sstream.layout_request import sorted_names

        request = LayoutRequest(
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
            return self._write_frame(what, str(path), request, follows)
        script = self.pipeline.bind_rows(what, params)
        follows = version_read(script, str(path)) if follows is None else follows
        return self._write_script(script, str(path), request, follows)

    def _write_frame(self, frame: DataFrame, path: str, request: LayoutRequest, follows: int | None) -> Stream:
        pipeline = self.pipeline
        if pipeline.connection.current is None:
            pipeline.connection.use(frame.sparkSession)
        from unshuffle.spark.execution.run import failures_explained
        from unshuffle.spark.execution.session_settings import in_own_session, is_observed
        from unshuffle.spark.io import sstream_writer

        with failures_explained(Script(())):
            sstream_writer.resolved_layout(frame, request)  # a mistake is found before anything is planned
            if pipeline.connection.plain_reason is not None or is_observed(frame):
                return sstream_writer.write(in_own_session(frame), path, request, follows=follows)
            return self._write_script(pipeline.read_or_leave(frame), path, request, follows)

    def _write_script(self, script: Script, path: str, request: LayoutRequest, follows: int | None) -> Stream:
        """Stores the rows of the only output of a script."""
        from unshuffle.plan.sstream_output import as_planned
        from unshuffle.spark.execution.run import failures_explained
        from unshuffle.spark.io import sstream_writer

        script = _stored(script, path, request)

        def write(execution: Execution) -> Stream:
            (frame,), (layout,) = self._remember(execution).frames, execution.layouts
            return sstream_writer.write(
                frame,
                path,
                as_planned(request, layout),
                follows=follows,
                input_layout="partitioned" if layout is not None else "none",
                running=execution.watching,
            )

        with failures_explained(script):
            return self.pipeline.running(script, write)

    def read_stream(self, path: str | Path) -> DataFrame:
        """The rows of the newest version of a structured stream. The DataFrame keeps reading that version."""
        # As files, so that Spark can push filters into its own scan.
        return self.pipeline.baseline(self.pipeline.bind_sstream(path)).frames[0]

    # --- what is known of the data

    def analyze(self, *paths: str | Path, step: Callable[[str, str, int, int], None] | None = None) -> list[Analyzed]:
        """Computes statistics, keys and dependencies of Parquet data, and stores them for later queries. A folder of tables
        counts as all of them; of a structured stream, the newest version is analyzed. `step` reports the table, what is being
        read, and how far it is."""
        from unshuffle.catalog.statistics.analyze import analyze, files_at, tables_at
        from unshuffle.catalog.statistics.persistence import save, statistics_path
        from unshuffle.sstream.store import is_stream, newest_files

        done = []
        for table in [table for path in paths for table in tables_at(str(path))]:
            on_progress = partial(step, table) if step is not None else None
            place = statistics_path(table, self.pipeline.catalog)
            if place is None:
                raise FileProblem(
                    f"statistics cannot be kept beside {table!r}", hint="name a folder with --catalog DIR"
                )
            list_files = newest_files if is_stream(table) else files_at
            done.append(Analyzed(table, place, analyze(table, on_progress, list_files=list_files)))
        for each in done:
            save(each.statistics, each.stored_in)
        return done

    def declare_key(self, table: str | Path, *columns: str, check: CheckMode = "data") -> None:
        """Declares that no two rows of a table agree on these columns, NULL agreeing with NULL. The table is one that queries
        know by name, or Parquet files by their path. The declaration is checked on the data, now and whenever the files have
        changed, and refused if it is wrong; `check="trust"` believes it unseen, at your own risk of wrong rows."""
        self._declare(table, DeclaredKey(columns), check)

    def declare_dependency(
        self,
        table: str | Path,
        determinant: str | Sequence[str],
        dependent: str | Sequence[str],
        *,
        check: CheckMode = "data",
    ) -> None:
        """Declares that rows of a table that agree on the columns `determinant` agree on the columns `dependent`. See
        `declare_key`."""
        left, right = ((each,) if isinstance(each, str) else tuple(each) for each in (determinant, dependent))
        self._declare(table, DeclaredDependency(left, right), check)

    def declare_partitions(
        self, table: str | Path, conditions: Mapping[str | Path, str], *, check: CheckMode = "data"
    ) -> None:
        """Declares conditions on parts of a table: `{"orders/2024": "day >= '2024-01-01' AND day < '2025-01-01'"}`. A part is
        a file or folder of the table, and its condition is true for all its rows. Parts that are not named may have any
        rows. The conditions replace those that were declared on the table before. See `declare_key`."""
        rowset = self.pipeline.bind_table(table)
        constraint = self.pipeline.bind_partitions(conditions, rowset, str(table))
        self.pipeline.declarations.declare(str(table), rowset, constraint, check)

    def _declare(self, table: str | Path, constraint: Constraint, check: CheckMode) -> None:
        self.pipeline.declarations.declare(str(table), self.pipeline.bind_table(table), constraint, check)

    def register_aggregator(self, name: str, aggregator: type[Aggregator], returns: str) -> None:
        """Makes a user-defined aggregate known to queries by a name. `returns` is a Spark type such as "double"."""
        from unshuffle.spark.udf.user_operators import register_aggregator

        self.pipeline.aggregators[name.lower()] = register_aggregator(self.spark, name, aggregator, returns)

    def _remember(self, execution: Execution) -> Execution:
        self._last.execution = execution
        return execution


def _stored(script: Script, path: str, request: LayoutRequest) -> Script:
    """A script of one query whose rows are to be stored in a requested layout, which its plan then delivers. Columns of types
    that only Spark knows are looked at when the stream is written."""
    from unshuffle.language.bind.statements.sstream import layout_of
    from unshuffle.plan.sstream_output import output_of
    from unshuffle.sstream import open_stream, resolve_layout

    plan = script.outputs[0].plan
    columns = [(column.name, column.type) for column in plan.columns]
    if not all(type is not None for _, type in columns):
        return script
    reference = open_stream(request.reference) if request.reference is not None else None
    resolved = resolve_layout(request, columns, reference)
    return replace(script, outputs=(output_of(plan, path, resolved, layout_of(resolved, plan.columns)),))
