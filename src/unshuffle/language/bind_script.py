"""From statements to a bound script: rowsets get their plans, outputs their targets, user classes their places.

A named rowset is bound once, however often it is used; a view is bound anew at every use. Nothing is read but file names
and Parquet footers, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from sqlglot import exp

from unshuffle.algebra.expressions import Cast, Ref, SortKey, Value
from unshuffle.algebra.logical import (
    Combine,
    Declared,
    Files,
    Format,
    Output,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    Script,
    Shared,
    StreamTarget,
    TableScan,
    Target,
    UserClass,
)
from unshuffle.algebra.sharing import inline_single_uses
from unshuffle.catalog import files
from unshuffle.catalog.declared import DeclaredDependency, DeclaredKey
from unshuffle.catalog.known import known_of
from unshuffle.catalog.schema import Column, ColumnNumbers, Dependency, Key
from unshuffle.catalog.tables import TableFolders
from unshuffle.catalog.types import from_spark_name, spark_name
from unshuffle.declared import Claim, Declarations, Leaf
from unshuffle.errors import (
    FileProblem,
    NameProblem,
    Source,
    Span,
    SyntaxProblem,
    TypeProblem,
    did_you_mean,
    located,
)
from unshuffle.language import formats, statements
from unshuffle.language.bind_query import QueryBinder
from unshuffle.language.bind_stream import layout_of, scan_of, wanted_for
from unshuffle.language.environment import Environment
from unshuffle.language.parameters import Parameters, constant
from unshuffle.language.parser import parse
from unshuffle.language.paths import input_path, substitute
from unshuffle.language.preprocess import preprocess
from unshuffle.language.scope import Scope
from unshuffle.language.statements import ColumnSpec, Depends, Input, Name, Text, Using
from unshuffle.streams.places import is_local, place_of
from unshuffle.streams.store import base_version, open_stream
from unshuffle.streams.wanted import settle

CheckClass = Callable[[UserClass, str], None]  # that a user's class can be loaded and is of the kind named


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
) -> Script:
    """The plan of a script (or, with `is_script` off, of the queries in a .sql text). What it declares was checked."""
    declarations = declarations or Declarations(catalog)
    binder = ScriptBinder(parameters, tables, environment, check_class, declarations, catalog)
    parsed = [(piece, statement) for piece in preprocess(source, parameters) for statement in parse(piece)]
    parameters.check_all_used()
    for piece, statement in parsed:
        try:
            binder.statement(piece, statement)
        except RecursionError:
            raise SyntaxProblem(
                "this statement is nested too deeply", statement.span, "split it into rowsets"
            ) from None
    if not binder.outputs:
        if not is_script:
            raise SyntaxProblem(f"{source.name} holds no query")
        raise SyntaxProblem(f"{source.name} outputs nothing", None, 'end it with, e.g., OUTPUT result TO "result.csv";')
    binder.check_targets(will_write)
    # At the end, because it may take time: every other mistake is found before.
    declarations.check_all(binder.claims)
    declared = (*binder.declared, *(Declared(each.label, str(each.declaration), True) for each in binder.claims))
    return inline_single_uses(Script(tuple(binder.outputs), tuple(dict.fromkeys(declared))))


@dataclass(slots=True)
class _Rowset:
    """A named rowset: the first use takes its columns as they are, every other gets columns of its own."""

    shared: Shared
    span: Span | None
    used: bool = False

    def use(self, numbers: ColumnNumbers) -> Plan:
        if not self.used:
            self.used = True
            return Reference(self.shared, self.shared.columns)
        return Reference(self.shared, tuple(numbers.like(column) for column in self.shared.columns))


@dataclass(slots=True)
class ScriptBinder:
    parameters: Parameters
    tables: TableFolders
    environment: Environment
    check_class: CheckClass
    declarations: Declarations
    catalog: str | Path | None = None  # where statistics are kept, if not beside the data
    numbers: ColumnNumbers = field(default_factory=ColumnNumbers)
    rowsets: dict[str, _Rowset] = field(default_factory=dict)
    views: dict[str, tuple[Source, statements.View]] = field(default_factory=dict)
    expanding: tuple[str, ...] = ()
    scans: dict[str, Scan] = field(default_factory=dict)  # of stored tables, whose footers are read once
    inputs: list[tuple[str, Span | None]] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)  # what EXTRACTs declare
    declared: list[Declared] = field(default_factory=list)  # of tables, before

    def statement(self, source: Source, statement: statements.Statement) -> None:
        match statement:
            case statements.Assign(name, body, span):
                self._define(name)
                plan = self._body(source, body, span, name.text)
                self.rowsets[name.text.lower()] = _Rowset(Shared(name.text, plan), name.span)
            case statements.View(name):
                self._define(name)
                self.views[name.text.lower()] = (source, statement)
            case statements.Query(query, span):
                self.outputs.append(Output(self._query_binder(source, span).query(query), None, span))
            case statements.Output():
                self._output(source, statement)
            case statements.OutputStream():
                self._output_stream(source, statement)

    def _define(self, name: Name) -> None:
        key = name.text.lower()
        first = self.rowsets[key].span if key in self.rowsets else None
        if key in self.views:
            first = self.views[key][1].name.span
        if first is not None:
            raise NameProblem(f"the rowset {name.text!r} is defined twice", name.span, f"first defined at {first}")

    # --- rowsets

    def _query_binder(self, source: Source, span: Span) -> QueryBinder:
        return QueryBinder(
            source, span, self.numbers, self.parameters, self.environment, self._table, self._stream, self._share
        )

    def _share(self, name: str, plan: Plan) -> Callable[[], Plan]:
        rowset = _Rowset(Shared(name, plan), None)
        return lambda: rowset.use(self.numbers)

    def _body(self, source: Source, body: statements.Body, span: Span, name: str) -> Plan:
        match body:
            case statements.Extract():
                return self._extract(body, name)
            case statements.Select(query):
                return self._query_binder(source, span).query(query)
            case statements.Process():
                return self._process(source, body)
            case statements.Reduce():
                return self._reduce(source, body)
            case statements.Combine():
                return self._combine(source, body)

    def _table(self, name: Sequence[str], span: Span) -> Plan:
        """One more use of a rowset, view or table."""
        key = ".".join(name).lower()
        if len(name) == 1:
            if key in self.rowsets:
                return self.rowsets[key].use(self.numbers)
            if key in self.views:
                return self._view(key, span)
            if self.tables.find(key) is not None:
                return self._stored_table(name[0], span)
        found = self.environment.table(name, self.numbers, self.declarations)
        if found is not None:
            self.declared += found.declared
            return found.outputs[0].plan
        known = [r.shared.name for r in self.rowsets.values()] + [v.name.text for _, v in self.views.values()]
        hint = did_you_mean(name[-1], [*known, *self.tables.names()])
        if hint is None:
            names = sorted({*known, *self.tables.names()})
            hint = f"there are: {', '.join(names[:20])}" if names else "define it, or offer tables with --tables DIR"
        raise NameProblem(f"unknown rowset {'.'.join(name)!r}", span, hint)

    def _view(self, key: str, span: Span) -> Plan:
        if key in self.expanding:
            raise NameProblem(f"the view {key!r} uses itself", span)
        source, view = self.views[key]
        self.expanding = (*self.expanding, key)
        try:
            return self._body(source, view.body, view.span, view.name.text)
        finally:
            self.expanding = self.expanding[:-1]

    def _stored_table(self, name: str, span: Span) -> Plan:
        path = self.tables.find(name)
        assert path is not None
        if path.suffix == ".ss":
            return self._stored_stream(str(path), name, span)
        if name.lower() not in self.scans:
            self.scans[name.lower()] = self._parquet(name, (str(path),), None, span)
        # Each use is a scan of its own: there is nothing to share in reading a table twice.
        return self.scans[name.lower()].renamed({c: self.numbers.like(c) for c in self.scans[name.lower()].columns})

    def _stream(self, path: str, span: Span) -> Plan:
        path = substitute(Text(path, span), self.parameters)
        return self._stored_stream(path, Path(path).stem, span)

    def _stored_stream(self, path: str, label: str, span: Span | None) -> Scan:
        """One more use of a stream; all uses read the version that the first one found."""
        key = files.absolute(path)
        if key not in self.scans:
            with located(span):
                scan = scan_of(open_stream(path), label, self.numbers, span)
            self.inputs.append((path, span))
            self.scans[key] = self._with_declared(scan)
        return self.scans[key].renamed({c: self.numbers.like(c) for c in self.scans[key].columns})

    # --- EXTRACT

    def _parquet(self, name: str, paths: tuple[str, ...], base: str | None, span: Span | None) -> Scan:
        """All columns of Parquet files, as they are stored, with what is known of them."""
        found = files.data_files(paths, base)
        if not found:
            raise FileProblem(f"{', '.join(paths)} holds no files", span)
        try:
            contents = files.parquet_contents(found)
        except files.NotParquet as problem:
            raise FileProblem(
                f"{problem} is not a Parquet file", span, "is it another format? use e.g. Csv()"
            ) from None
        except (OSError, pa.ArrowException) as problem:
            raise FileProblem(f"{paths[0]!r} cannot be read: {str(problem).splitlines()[0]}", span) from None
        for path in paths:
            self.inputs.append((path, span))
        if base is None and contents.partition_columns and len(paths) == 1:
            base = paths[0]
        columns = tuple(self.numbers.new(n, t) for n, t in contents.columns)
        known = known_of(columns, paths, base, found, contents, self.catalog)
        where = Files(
            paths,
            Format("Parquet"),
            base,
            contents.rows,
            contents.bytes,
            stored=contents.columns,
            version=hash(tuple(found)),
        )
        scan = Scan(name, where, columns, known.keys, known.dependencies, span, known.statistics)
        return self._with_declared(scan)

    def _with_declared(self, rowset: Leaf) -> Leaf:
        known, declared = self.declarations.applied(rowset)
        self.declared += declared
        return known

    def _extract(self, node: statements.Extract, name: str) -> Plan:
        where = input_path(node.path, self.parameters)
        format = self._format_or_class(node.using, "extractor")
        if isinstance(format, Format) and format.name == "Parquet":
            scan = self._parquet(name, where.paths, where.base, node.path.span)
            return self._declared_columns(node, scan, format)
        if not files.data_files(where.paths, where.base):
            raise FileProblem(f"{where.shown!r} holds no files", node.path.span)
        for path in where.paths:
            self.inputs.append((path, node.path.span))
        columns = tuple(self.numbers.new(c.name.text, self._type(c) or pa.string()) for c in node.columns)
        if isinstance(format, Format) and format.name == "Text" and [c.type for c in columns] != [pa.string()]:
            raise TypeProblem(
                "Text() gives one column of type string", node.columns[0].name.span, "e.g. EXTRACT line:string"
            )
        size = sum(f.size for f in files.data_files(where.paths, where.base))
        scan = Scan(name, Files(where.paths, format, where.base, None, size), columns, span=node.path.span)
        return self._constrained(node, scan)

    def _declared_columns(self, node: statements.Extract, scan: Scan, format: Format) -> Plan:
        """The columns an EXTRACT names, of those the files hold, cast where it names another type."""
        stored = {column.name.lower(): column for column in scan.columns}
        read: list[Column] = []
        casts: dict[Column, pa.DataType] = {}
        for spec in node.columns:
            column = stored.get(spec.name.text.lower())
            if column is None:
                hint = did_you_mean(spec.name.text, [c.name for c in scan.columns])
                hint = hint or f"the files hold: {', '.join(c.name for c in scan.columns)}"
                raise NameProblem(f"the files have no column {spec.name.text!r}", spec.name.span, hint)
            declared = self._type(spec)
            read.append(column)
            if declared is not None and column.type is None:
                read[-1] = Column(column.id, column.name, declared, column.nullable)
            elif declared is not None and declared != column.type:
                casts[column] = declared
        kept = replace(_only(scan, read), files=replace(scan.files, format=format))
        if not casts:
            return self._constrained(node, kept)
        outputs = tuple(
            (self.numbers.new(c.name, casts[c], c.nullable), Cast(Ref(c), casts[c])) if c in casts else (c, Ref(c))
            for c in read
        )
        project = Project(kept, outputs)
        keys, dependencies = self._constraints(node.keys, node.depends, project.columns)
        self._claim(node, project)
        # Declared of the cast values; a cast column is as good a determinant as its own output only, so the scan below
        # gets what speaks of columns that are not cast.
        plain = set(kept.columns) - set(casts)
        below = tuple(k for k in keys if k <= plain)
        held = tuple(d for d in dependencies if (d.determinant | d.dependent) <= plain)
        return Project(_declared(kept, below, held), outputs)

    def _constrained(self, node: statements.Extract, scan: Scan) -> Scan:
        self._claim(node, scan)
        return _declared(scan, *self._constraints(node.keys, node.depends, scan.columns))

    def _claim(self, node: statements.Extract, rowset: Scan | Project) -> None:
        """What the statement declares, to be checked on the values that the rowset has."""
        scan = rowset.child if isinstance(rowset, Project) else rowset
        assert isinstance(scan, Scan)

        def named(names: Sequence[Name]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(self._column(name, rowset.columns).name for name in names))

        for names in node.keys:
            span = _from_to(names[0], names[-1])
            self.claims.append(Claim(scan.label, rowset, DeclaredKey(named(names)), span))
        for each in node.depends:
            span = _from_to(each.left[0], each.right[-1])
            declared = DeclaredDependency(named(each.left), named(each.right))
            self.claims.append(Claim(scan.label, rowset, declared, span))

    def _constraints(
        self, keys: Sequence[Sequence[Name]], depends: Sequence[Depends], columns: Sequence[Column]
    ) -> tuple[tuple[Key, ...], tuple[Dependency, ...]]:
        def chosen(names: Sequence[Name]) -> frozenset[Column]:
            return frozenset(self._column(name, columns) for name in names)

        return (
            tuple(chosen(names) for names in keys),
            tuple(Dependency(chosen(d.left), chosen(d.right)) for d in depends),
        )

    @staticmethod
    def _column(name: Name, columns: Sequence[Column]) -> Column:
        found = [c for c in columns if c.name.lower() == name.text.lower()]
        if len(found) == 1:
            return found[0]
        if found:
            raise NameProblem(
                f"the column name {name.text!r} is ambiguous", name.span, "rename one of them in a SELECT"
            )
        raise Scope.of(columns, None).unknown([name.text], name.span)

    @staticmethod
    def _type(spec: ColumnSpec) -> pa.DataType | None:
        if spec.type is None:
            return None
        try:
            return from_spark_name(spec.type.value)
        except ValueError as error:
            raise TypeProblem(str(error), spec.type.span) from None

    # --- user-defined operators

    def _format_or_class(self, using: Using, role: str) -> Format | UserClass:
        if "." not in using.name:
            name = formats.find(using.name)
            if name is None:
                hint = did_you_mean(using.name, formats.NAMES) or f"built in are {', '.join(formats.NAMES)}"
                message = f"there is no built-in {role} {using.name!r}"
                raise NameProblem(message, using.span, hint + "; a class of yours is module.Class")
            return Format(name, formats.options(name, self._arguments(using), role, using.span))
        return self._user_class(using, role)

    def _user_class(self, using: Using, role: str) -> UserClass:
        module, _, name = using.name.rpartition(".")
        if not module:
            raise NameProblem(f"{using.name!r} is not module.Class", using.span, f"e.g. USING my_module.{using.name}()")
        arguments = self._arguments(using)
        positional = tuple(value for key, value in arguments if key is None)
        keywords = tuple((key, value) for key, value in arguments if key is not None)
        folder = str(Path(using.span.source.name).resolve().parent)
        search = tuple(dict.fromkeys((folder, str(Path.cwd()))))
        user_class = UserClass(module, name, positional, keywords, search, using.span)
        self.check_class(user_class, role)
        return user_class

    def _arguments(self, using: Using) -> list[tuple[str | None, Value]]:
        seen: set[str] = set()
        result: list[tuple[str | None, Value]] = []
        for argument in using.arguments:
            if argument.name is None and seen:
                raise SyntaxProblem("an argument without a name cannot follow one with a name", argument.span)
            if argument.name is not None:
                if argument.name in seen:
                    raise SyntaxProblem(f"the argument {argument.name!r} is given twice", argument.span)
                seen.add(argument.name)
            result.append((argument.name, constant(argument.value, self.parameters, argument.span).value))
        return result

    def _input(self, source: Source, node: Input) -> tuple[Plan, Scope]:
        """The rowset a statement reads, with the names its columns go by."""
        binder = self._query_binder(source, node.span)
        plan, scope = binder.relation(node.table)
        return plan, scope

    def _required(self, plan: Plan, required: Sequence[Name] | None, also: Sequence[Column]) -> Plan:
        """REQUIRED: the operator sees these columns only (and the ones it is keyed and sorted on)."""
        if required is None:
            return plan
        wanted = {self._column(name, plan.columns) for name in required} | set(also)
        kept = tuple(c for c in plan.columns if c in wanted)
        return plan if kept == tuple(plan.columns) else Project(plan, tuple((c, Ref(c)) for c in kept))

    def _produced(self, specs: Sequence[ColumnSpec], inputs: Sequence[Column]) -> tuple[Column, ...]:
        columns = []
        for spec in specs:
            type = self._type(spec)
            if type is None:
                same = [c for c in inputs if c.name.lower() == spec.name.text.lower()]
                if len({c.type for c in same}) != 1 or same[0].type is None:
                    message = f"PRODUCE does not say the type of {spec.name.text!r}"
                    raise TypeProblem(message, spec.name.span, f"write {spec.name.text}:string, or another type")
                type = same[0].type
            columns.append(self.numbers.new(spec.name.text, type))
        return tuple(columns)

    def _readonly(
        self, names: Sequence[Name], produced: Sequence[Column], inputs: Sequence[Column]
    ) -> tuple[tuple[Column, Column], ...]:
        pairs = []
        for name in names:
            output, column = self._column(name, produced), self._column(name, inputs)
            if column.type is not None and output.type != column.type:
                kinds = f"{spark_name(column.type)} in the input, but PRODUCE says {spark_name(output.type)}"
                message = f"READONLY {name.text!r} is {kinds}"
                raise TypeProblem(message, name.span)
            pairs.append((output, column))
        return tuple(pairs)

    def _process(self, source: Source, node: statements.Process) -> Plan:
        plan, _ = self._input(source, node.input)
        user_class = self._user_class(node.produces.using, "processor")
        readonly = [self._column(name, plan.columns) for name in node.produces.readonly]
        plan = self._required(plan, node.produces.required, readonly)
        columns = self._produced(node.produces.columns, plan.columns)
        return Process(plan, user_class, columns, self._readonly(node.produces.readonly, columns, plan.columns))

    def _reduce(self, source: Source, node: statements.Reduce) -> Plan:
        plan, _ = self._input(source, node.input)
        user_class = self._user_class(node.produces.using, "reducer")
        keys = tuple(self._column(name, plan.columns) for name in node.on)
        presort = self._sort_keys(node.presort, plan.columns)
        readonly = [self._column(name, plan.columns) for name in node.produces.readonly]
        sorted_on = [k.expression.column for k in presort if isinstance(k.expression, Ref)]
        plan = self._required(plan, node.produces.required, [*keys, *sorted_on, *readonly])
        columns = self._produced(node.produces.columns, plan.columns)
        pairs = self._readonly(node.produces.readonly, columns, plan.columns)
        return Reduce(plan, keys, presort, user_class, columns, pairs)

    def _sort_keys(self, orders: Sequence[statements.Order], columns: Sequence[Column]) -> tuple[SortKey, ...]:
        return tuple(SortKey(Ref(self._column(o.column, columns)), o.descending, not o.descending) for o in orders)

    def _combine(self, source: Source, node: statements.Combine) -> Plan:
        left, left_scope = self._input(source, node.left)
        right, right_scope = self._input(source, node.right)
        left_keys, right_keys = self._combine_keys(source, node, left_scope, right_scope)
        user_class = self._user_class(node.produces.using, "combiner")
        required = node.produces.required
        if required is not None:
            both = (*left.columns, *right.columns)
            for name in required:
                if not any(c.name.lower() == name.text.lower() for c in both):
                    raise Scope.of(both, None).unknown([name.text], name.span)
            wanted = {name.text.lower() for name in (*required, *node.produces.readonly)}
            left = self._only(left, wanted, left_keys)
            right = self._only(right, wanted, right_keys)
        columns = self._produced(node.produces.columns, (*left.columns, *right.columns))
        # A read-only column that both inputs have is the left one's, which a key on both sides makes the same.
        names = {c.name.lower() for c in left.columns}
        inputs = (*left.columns, *(c for c in right.columns if c.name.lower() not in names))
        pairs = self._readonly(node.produces.readonly, columns, inputs)
        return Combine(left, right, left_keys, right_keys, user_class, columns, pairs)

    @staticmethod
    def _only(plan: Plan, wanted: set[str], keys: Sequence[Column]) -> Plan:
        kept = tuple(c for c in plan.columns if c.name.lower() in wanted or c in keys)
        return plan if kept == tuple(plan.columns) else Project(plan, tuple((c, Ref(c)) for c in kept))

    def _combine_keys(
        self, source: Source, node: statements.Combine, left: Scope, right: Scope
    ) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """The pairs of columns in `a.x == b.x && a.y == b.y`."""
        binder = self._query_binder(source, node.on_span)
        pairs: list[tuple[Column, Column]] = []
        for part in node.on.flatten() if isinstance(node.on, exp.And) else [node.on]:
            part = part.unnest()
            sides = [part.this, part.expression] if isinstance(part, exp.EQ) else []
            if not all(isinstance(side, exp.Column) for side in sides) or not sides:
                hint = "write e.g. ON a.x == b.x && a.y == b.y"
                raise SyntaxProblem("COMBINE is ON equalities of columns", binder.span(part), hint)
            found: dict[str, Column] = {}
            for side in sides:
                names = [p.name for p in side.parts]
                hit = (left + right).find(names, binder.span(side))
                if hit is None:
                    raise (left + right).unknown(names, binder.span(side))
                found["left" if hit.column in left.columns() else "right"] = hit.column
            if len(found) != 2:
                raise SyntaxProblem("each equality must compare a column of each rowset", binder.span(part))
            if found["left"].type is not None and found["left"].type != found["right"].type:
                kinds = f"{spark_name(found['left'].type)} and {spark_name(found['right'].type)}"
                raise TypeProblem(f"COMBINE compares {kinds}", binder.span(part), "cast one of them in a SELECT before")
            pairs.append((found["left"], found["right"]))
        return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)

    # --- outputs

    def _output(self, source: Source, node: statements.Output) -> None:
        plan, _ = self._input(source, node.input)
        path = substitute(node.path, self.parameters)
        if not path.strip("/"):
            raise FileProblem(f"{path!r} is no path to write to", node.path.span)
        if node.using is not None:
            format = self._format_or_class(node.using, "outputter")
        else:
            format = Format(formats.by_extension(path))
        if isinstance(format, Format):
            formats.check_writable(format, plan.columns, node.input.span)
        self.outputs.append(Output(plan, Target(path, format, node.overwrite), node.path.span))

    def _output_stream(self, source: Source, node: statements.OutputStream) -> None:
        plan, _ = self._input(source, node.input)
        keys, dependencies = self._constraints(node.keys, node.depends, plan.columns)
        target = StreamTarget(
            substitute(node.path, self.parameters),
            node.range_partitioned,
            self._sort_keys(node.clustered_by, plan.columns),
            self._sort_keys(node.sorted_by, plan.columns),
            node.partitions,
            substitute(node.reference, self.parameters) if node.reference else None,
            keys,
            dependencies,
            node.overwrite,
        )
        layout = None
        with located(node.path.span):
            reference = open_stream(target.reference) if target.reference is not None else None
            if all(column.type is not None for column in plan.columns):
                columns = [(column.name, column.type) for column in plan.columns]
                layout = layout_of(settle(wanted_for(target), columns, reference), plan.columns)
        self.outputs.append(Output(plan, target, node.path.span, layout))

    def check_targets(self, will_write: bool) -> None:
        """No output may destroy an input or another output, nor, when it is really written, anything that is there
        unless the script says OVERWRITE."""
        written: list[tuple[str, Span | None]] = []
        for output in self.outputs:
            if output.target is None:
                continue
            path, span = output.target.path, output.span
            stream = isinstance(output.target, StreamTarget)
            for read, _ in self.inputs:
                # Who reads a stream keeps its version, so the next one can be made of it.
                renewed = stream and output.target.overwrite and files.absolute(read) == files.absolute(path)
                if files.overlaps(path, read) and not renewed:
                    message = f"the script reads {read!r}, so it cannot write to {path!r}"
                    raise FileProblem(message, span, "write somewhere else; not even OVERWRITE allows this")
            for other, _ in written:
                if files.overlaps(path, other):
                    raise FileProblem(f"two OUTPUTs write to {path!r}", span)
            if will_write and stream and is_local(path):
                with located(span):
                    base_version(place_of(path), path, output.target.overwrite)
            elif will_write and not stream and files.exists(path) and not output.target.overwrite:
                raise FileProblem(f"{path!r} exists already", span, "add OVERWRITE to replace it")
            written.append((path, span))


def bind_table(
    table: str | Path, tables: TableFolders, environment: Environment, catalog: str | Path | None
) -> Scan | TableScan:
    """A table by its name, or Parquet files by their path, as queries read it, without what was declared of it."""
    binder = ScriptBinder(Parameters({}), tables, environment, lambda *_: None, Declarations(), catalog)
    name = str(table)
    path = tables.find(name) if isinstance(table, str) else None
    if path is None and isinstance(table, str) and name.strip():
        found = environment.declarable(name.split("."), binder.numbers)
        if found is not None:
            return found
    paths = (str(path),) if path is not None else tuple(files.expand(name)) if name.strip() else ()
    if not paths:
        hint = did_you_mean(name, tables.names()) or "name a table, or Parquet files by their path"
        raise NameProblem(f"there is no table and no file {name!r}", hint=hint)
    if Path(paths[0]).suffix == ".ss":
        return binder._stored_stream(paths[0], name, None)
    try:
        return binder._parquet(name, paths, None, None)
    except FileProblem as problem:
        hint = "of files in other formats, declare where they are read: EXTRACT ... KEY (...) DEPENDS (...)"
        raise FileProblem(problem.message, hint=hint) from None


def bind_stream(path: str, catalog: str | Path | None, declarations: Declarations, environment: Environment) -> Script:
    """All rows of a structured stream."""
    binder = ScriptBinder(Parameters({}), TableFolders(), environment, lambda *_: None, declarations, catalog)
    scan = binder._stored_stream(path, Path(path).stem, None)
    return Script((Output(scan, None),), tuple(binder.declared))


def _from_to(first: Name, last: Name) -> Span:
    return Span(first.span.source, first.span.start, last.span.end)


def _only(scan: Scan, columns: Sequence[Column]) -> Scan:
    """A scan of some of the columns, with what was found out about these."""
    read = frozenset(columns)
    return replace(
        scan,
        columns=tuple(columns),
        keys=tuple(key for key in scan.keys if key <= read),
        dependencies=tuple(
            Dependency(d.determinant, d.dependent & read)
            for d in scan.dependencies
            if d.determinant <= read and d.dependent & read
        ),
    )


def _declared(scan: Scan, keys: tuple[Key, ...], dependencies: tuple[Dependency, ...]) -> Scan:
    """Declarations stand beside what was found in the data."""
    return replace(
        scan,
        keys=tuple(dict.fromkeys((*keys, *scan.keys))),
        dependencies=tuple(dict.fromkeys((*dependencies, *scan.dependencies))),
    )
