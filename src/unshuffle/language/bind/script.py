"""From statements to a bound script: rowsets get plans, outputs get targets, user classes are found.

A named rowset is bound once, however often it is used. A view is bound again at every use. Binding reads file names,
Parquet footers and manifests, and writes nothing. It reads no rows, except the small sample of large tables that
`catalog.statistics.sampled_distinct` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from unshuffle.catalog import files
from unshuffle.catalog.constraints.constraint import DeclaredPartitions
from unshuffle.catalog.schema import ColumnNumbers
from unshuffle.catalog.tables import TableFolders
from unshuffle.declarations import BoundScript, Declarations
from unshuffle.errors import FileProblem, NameProblem, Source, Span, SyntaxProblem, did_you_mean
from unshuffle.frozen import dataclass
from unshuffle.language.bind.context import BindingContext, CheckClass, unchecked
from unshuffle.language.bind.environment import Environment
from unshuffle.language.bind.queries.query import QueryBinder
from unshuffle.language.bind.statements.combine import bind_combine
from unshuffle.language.bind.statements.extract import bind_extract
from unshuffle.language.bind.statements.output import bind_output, bind_output_stream, check_targets
from unshuffle.language.bind.statements.part_conditions import bind_parts, parts_from_python
from unshuffle.language.bind.statements.paths import substitute
from unshuffle.language.bind.statements.stored_data import StoredData
from unshuffle.language.bind.statements.user_operators import bind_input, bind_process, bind_reduce
from unshuffle.language.bind.statements.views import view_values
from unshuffle.language.bind.user_modules import UserModules
from unshuffle.language.parse import statements
from unshuffle.language.parse.parameters import Parameters
from unshuffle.language.parse.parser import parse
from unshuffle.language.parse.preprocess import Definitions, preprocess
from unshuffle.language.parse.statements import Argument, Name, Text
from unshuffle.plan.logical import Output, Plan, Reference, Scan, Script, Shared, TableScan
from unshuffle.plan.sharing import inline_single_uses


def bind(
    source: Source,
    parameters: Parameters,
    tables: TableFolders,
    environment: Environment,
    check_class: CheckClass,
    is_script: bool = True,
    will_write: bool = False,
    catalog: str | Path | None = None,
    declarations: Declarations | None = None,
) -> BoundScript:
    """The plan of a script (or, with `is_script` off, of the queries in a .sql text), with the constraints to check."""
    declarations = declarations or Declarations(catalog)
    context = BindingContext(parameters, tables, environment, check_class, declarations, catalog=catalog)
    binder = ScriptBinder(context)
    definitions = Definitions()
    pieces = preprocess(source, parameters, definitions)
    context.modules = UserModules(source.name if is_script else None, definitions.modules)
    context.macros = definitions.macros
    parsed = [(piece, statement) for piece in pieces for statement in parse(piece)]
    parameters.check_all_used()
    for piece, statement in parsed:
        try:
            binder.bind(piece, statement)
        except RecursionError:
            message = "this statement is nested too deeply"
            raise SyntaxProblem(message, statement.span, "split it into rowsets") from None
    if not binder.outputs:
        if not is_script:
            raise SyntaxProblem(f"{source.name} holds no query")
        raise SyntaxProblem(f"{source.name} outputs nothing", None, 'end it with, e.g., OUTPUT result TO "result.csv";')
    check_targets(binder.outputs, context.inputs, will_write)
    constraints = (*context.table_constraints, *context.extract_constraints)
    return BoundScript(inline_single_uses(Script(tuple(binder.outputs))), constraints)


@dataclass(slots=True)
class _Rowset:
    """A named rowset. Its first use has its columns; every other use has columns of its own."""

    shared: Shared
    span: Span | None
    is_used: bool = False

    def use(self, numbers: ColumnNumbers) -> Plan:
        if not self.is_used:
            self.is_used = True
            return Reference(self.shared, self.shared.columns)
        return Reference(self.shared, tuple(numbers.like(column) for column in self.shared.columns))


@dataclass(slots=True)
class ScriptBinder:
    """Binds statements in order, and knows the rowsets and views that they define."""

    context: BindingContext
    stored: StoredData = field(init=False)
    rowsets: dict[str, _Rowset] = field(default_factory=dict)
    views: dict[str, tuple[Source, statements.View]] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)
    expanding: tuple[str, ...] = ()  # the views whose bodies are being bound, outermost first
    last: _Rowset | None = None  # what an OUTPUT without a name writes
    last_query: Output | None = None  # the query without a name that is the last rowset

    def __post_init__(self) -> None:
        self.stored = StoredData(self.context)

    def bind(self, source: Source, statement: statements.Statement) -> None:
        match statement:
            case statements.Assign(name, body, span):
                self._check_new(name)
                plan = self._body(self.context, source, body, span, name.text)
                self.last = self.rowsets[name.text.lower()] = _Rowset(Shared(name.text, plan), name.span)
                self.last_query = None
            case statements.View(name):
                self._check_new(name)
                self.views[name.text.lower()] = (source, statement)
            case statements.QueryStatement(query, span):
                self.last = _Rowset(Shared("result", self._query_binder(self.context, source, span).query(query)), span)
                self.last_query = Output(self.last.use(self.context.numbers), None, span)
                self.outputs.append(self.last_query)
            case statements.OutputStatement(span=span):
                plan = self._written(source, statement)
                self.outputs.append(bind_output(self.context, plan, statement))
            case statements.OutputStreamStatement():
                plan = self._written(source, statement)
                self.outputs.append(bind_output_stream(self.context, plan, statement))

    def _written(self, source: Source, node: statements.OutputStatement | statements.OutputStreamStatement) -> Plan:
        """The rowset that an OUTPUT writes: by its name, or else the last one. A query that is written is not shown."""
        if node.input is not None:
            return bind_input(partial(self._query_binder, self.context, source), node.input)[0]
        if self.last is None:
            hint = "define a rowset before it, or name one: OUTPUT rowset TO ..."
            raise NameProblem("there is no rowset before this OUTPUT", node.span, hint)
        self.outputs = [output for output in self.outputs if output is not self.last_query]
        return self.last.use(self.context.numbers)

    def _check_new(self, name: Name) -> None:
        key = name.text.lower()
        first = self.rowsets[key].span if key in self.rowsets else None
        if key in self.views:
            first = self.views[key][1].name.span
        if first is not None:
            raise NameProblem(f"the rowset {name.text!r} is defined twice", name.span, f"first defined at {first}")

    def _query_binder(self, context: BindingContext, source: Source, span: Span) -> QueryBinder:
        return QueryBinder(
            source,
            span,
            context.numbers,
            context.parameters,
            context.environment,
            self._table,
            partial(self._stream, context.parameters),
            self._share,
            context.modules,
            partial(self._view_call, context.parameters),
            lambda body, place: self._body(context, source, body, place, "rows"),
            context.macros,
        )

    def _share(self, name: str, plan: Plan) -> Callable[[], Plan]:
        rowset = _Rowset(Shared(name, plan), None)
        return lambda: rowset.use(self.context.numbers)

    def _body(self, context: BindingContext, source: Source, body: statements.Body, span: Span, name: str) -> Plan:
        binder_at = partial(self._query_binder, context, source)
        match body:
            case statements.ExtractBody():
                return bind_extract(context, self.stored, body, name)
            case statements.SelectBody(query):
                return binder_at(span).query(query)
            case statements.ProcessBody():
                return bind_process(context, binder_at, body)
            case statements.ReduceBody():
                return bind_reduce(context, binder_at, body)
            case statements.CombineBody():
                return bind_combine(context, binder_at, body)

    def _table(self, name: Sequence[str], span: Span) -> Plan:
        """One more use of a rowset, view or table. A rowset hides a view, which hides a table of `--tables`, which hides
        one of the Spark session."""
        key = ".".join(name).lower()
        if len(name) == 1:
            if key in self.rowsets:
                return self.rowsets[key].use(self.context.numbers)
            if key in self.views:
                return self._view(key, (), self.context.parameters, span)
            if (scan := self.stored.table(name[0], span)) is not None:
                return scan
        bound = self.context.environment.table(name, self.context.numbers, self.context.declarations)
        if bound is None:
            raise self._unknown_rowset(name, span)
        self.context.table_constraints += bound.constraints
        return bound.script.outputs[0].plan

    def _unknown_rowset(self, name: Sequence[str], span: Span) -> NameProblem:
        defined = [r.shared.name for r in self.rowsets.values()] + [v.name.text for _, v in self.views.values()]
        names = sorted({*defined, *self.context.tables.names()})
        hint = did_you_mean(name[-1], names)
        if hint is None:
            hint = f"there are: {', '.join(names[:20])}" if names else "define it, or offer tables with --tables DIR"
        return NameProblem(f"unknown rowset {'.'.join(name)!r}", span, hint)

    def _view_call(self, parameters: Parameters, name: str, arguments: Sequence[Argument], span: Span) -> Plan | None:
        """`view(1, region = "north")`. None if no view has that name."""
        return self._view(name.lower(), arguments, parameters, span) if name.lower() in self.views else None

    def _view(self, key: str, arguments: Sequence[Argument], parameters: Parameters, span: Span) -> Plan:
        if key in self.expanding:
            raise NameProblem(f"the view {key!r} uses itself", span)
        source, view = self.views[key]
        values = view_values(view, arguments, parameters, self.context.parameters, span)
        context = replace(self.context, parameters=self.context.parameters.and_also(values)) if values else self.context
        self.expanding = (*self.expanding, key)
        try:
            return self._body(context, source, view.body, view.span, view.name.text)
        finally:
            self.expanding = self.expanding[:-1]

    def _stream(self, parameters: Parameters, path: str, span: Span) -> Plan:
        path = substitute(Text(path, span), parameters)
        return self.stored.stream(path, Path(path).stem, span)


def bind_table(
    table: str | Path, tables: TableFolders, environment: Environment, catalog: str | Path | None
) -> Scan | TableScan:
    """A table by its name, or Parquet files by their path, without the constraints declared on it."""
    context = BindingContext(Parameters({}), tables, environment, unchecked, Declarations(), catalog=catalog)
    name = str(table)
    path = tables.find(name) if isinstance(table, str) else None
    if path is None and isinstance(table, str) and name.strip():
        rowset = environment.declarable(name.split("."), context.numbers)
        if rowset is not None:
            return rowset
    paths = (str(path),) if path is not None else tuple(files.expand(name)) if name.strip() else ()
    if not paths:
        hint = did_you_mean(name, tables.names()) or "name a table, or Parquet files by their path"
        raise NameProblem(f"there is no table and no file {name!r}", hint=hint)
    stored = StoredData(context)
    if Path(paths[0]).suffix == ".ss":
        return stored.stream(paths[0], name, None)
    try:
        return stored.parquet(name, paths, None, None, is_read=False)
    except FileProblem as problem:
        hint = (
            "for files in other formats, declare constraints where they are read: EXTRACT ... KEY (...) DEPENDS (...)"
        )
        raise FileProblem(problem.message, hint=hint) from None


def bind_partitions(
    conditions: Mapping[str | Path, str], rowset: Scan | TableScan, table: str, environment: Environment
) -> DeclaredPartitions:
    """Conditions on parts of a table that was bound by `bind_table`."""
    context = BindingContext(Parameters({}), TableFolders(), environment, unchecked, Declarations())
    return bind_parts(context, parts_from_python(conditions), rowset, table)


def bind_stream(
    path: str, catalog: str | Path | None, declarations: Declarations, environment: Environment
) -> BoundScript:
    """All rows of a structured stream."""
    context = BindingContext(Parameters({}), TableFolders(), environment, unchecked, declarations, catalog=catalog)
    scan = StoredData(context).stream(path, Path(path).stem, None)
    return BoundScript(Script((Output(scan, None),)), tuple(context.table_constraints))
