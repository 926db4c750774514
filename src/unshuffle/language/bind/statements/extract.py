"""EXTRACT: a rowset from files, with the columns, types and constraints that the statement declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey, PartCondition
from unshuffle.catalog.schema import Column, Dependency, Key
from unshuffle.declarations import DeclaredConstraint, has_parts
from unshuffle.errors import FileProblem, NameProblem, Span, TypeProblem, did_you_mean
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.statements import formats
from unshuffle.language.bind.statements.columns import constraints, declared_type, find_column, produced_type
from unshuffle.language.bind.statements.part_conditions import bind_parts
from unshuffle.language.bind.statements.paths import InputPath, input_path
from unshuffle.language.bind.statements.stored_data import StoredData
from unshuffle.language.bind.statements.using import bind_format_or_operator
from unshuffle.language.parse.statements import ExtractBody, Name
from unshuffle.plan.expressions import Cast, Ref
from unshuffle.plan.facts import facts_of
from unshuffle.plan.logical import Files, Format, Plan, Project, Scan, UserClass
from unshuffle.properties.layouts.propagate import through_project


def bind_extract(context: BindingContext, stored: StoredData, node: ExtractBody, label: str) -> Plan:
    where = input_path(node.path, context.parameters)
    if node.using is None:
        name = formats.of_files(files.scanned_files(where.paths, where.base))
        if name is None:
            hint = f"write USING with one of {', '.join(formats.NAMES)}, or with a class of yours"
            raise FileProblem(f"the format of {where.shown!r} is not known", node.path.span, hint)
        return _extracted(context, stored, node, where, Format(name), {}, label)
    format, produces = bind_format_or_operator(context, node.using, "extractor")
    return _extracted(context, stored, node, where, format, produces, label)


def _extracted(
    context: BindingContext,
    stored: StoredData,
    node: ExtractBody,
    where: InputPath,
    format: Format | UserClass,
    produces: Mapping[str, str],
    label: str,
) -> Plan:
    if isinstance(format, Format) and format.name == "Parquet":
        scan = stored.parquet(label, where.paths, where.base, node.path.span)
        return _parquet_columns(context, node, scan, format)
    return _constrained(context, node, _text_scan(context, node, where, format, produces, label))


def _text_scan(
    context: BindingContext,
    node: ExtractBody,
    where: InputPath,
    format: Format | UserClass,
    produces: Mapping[str, str],
    label: str,
) -> Scan:
    """A scan of files that do not tell their columns: the statement does, or the extractor. A column without a type is a
    string."""
    data_files = files.scanned_files(where.paths, where.base)
    if not data_files:
        raise FileProblem(f"{where.shown!r} holds no files", node.path.span)
    context.inputs.extend(where.paths)
    types = [
        declared_type(c, context.modules) or produced_type(produces, c.name, node.using) or pa.string()
        for c in node.columns
    ]
    columns = tuple(context.numbers.new(c.name.text, type) for c, type in zip(node.columns, types, strict=True))
    if isinstance(format, Format) and format.name == "Text" and [c.type for c in columns] != [pa.string()]:
        span, hint = node.columns[0].name.span, "e.g. EXTRACT line:string"
        raise TypeProblem("Text() reads one column of type string", span, hint)
    size = sum(file.size for file in data_files)
    return Scan(label, Files(where.paths, format, where.base, None, size), columns, span=node.path.span)


def _parquet_columns(context: BindingContext, node: ExtractBody, scan: Scan, format: Format) -> Plan:
    """The columns that an EXTRACT names, out of those in the files, cast where it declares another type."""
    stored = {column.name.lower(): column for column in scan.columns}
    read: list[Column] = []
    casts: dict[Column, pa.DataType] = {}
    for spec in node.columns:
        column = stored.get(spec.name.text.lower())
        if column is None:
            hint = did_you_mean(spec.name.text, [c.name for c in scan.columns])
            hint = hint or f"the files hold: {', '.join(c.name for c in scan.columns)}"
            raise NameProblem(f"the files have no column {spec.name.text!r}", spec.name.span, hint)
        declared = declared_type(spec, context.modules)
        if declared is not None and column.type is None:
            column = Column(column.id, column.name, declared, column.nullable)
        elif declared is not None and declared != column.type:
            casts[column] = declared
        elif declared is not None:
            column = Column(column.id, column.name, declared, column.nullable)  # it may be a type of the user's
        read.append(column)
    scan = replace(_restricted(scan, read), files=replace(scan.files, format=format))
    return _with_casts(context, node, scan, casts) if casts else _constrained(context, node, scan)


def _with_casts(context: BindingContext, node: ExtractBody, scan: Scan, casts: dict[Column, pa.DataType]) -> Plan:
    outputs = tuple(
        (context.numbers.new(c.name, casts[c], c.nullable), Cast(Ref(c), casts[c])) if c in casts else (c, Ref(c))
        for c in scan.columns
    )
    project = Project(scan, outputs)
    keys, dependencies = constraints(node.keys, node.depends, project.columns)
    _declare(context, node, project)
    # The statement declares constraints of the cast values. A cast may map two stored values to one, so the scan below it
    # has only those constraints in which no column is cast.
    uncast = set(scan.columns) - set(casts)
    scan_keys = tuple(key for key in keys if key <= uncast)
    scan_dependencies = tuple(d for d in dependencies if (d.determinant | d.dependent) <= uncast)
    return Project(
        _with_constraints(scan, scan_keys, scan_dependencies, _declare_parts(context, node, project)), outputs
    )


def _constrained(context: BindingContext, node: ExtractBody, scan: Scan) -> Scan:
    _declare(context, node, scan)
    keys, dependencies = constraints(node.keys, node.depends, scan.columns)
    return _with_constraints(scan, keys, dependencies, _declare_parts(context, node, scan))


def _declare(context: BindingContext, node: ExtractBody, rowset: Scan | Project) -> None:
    """Collects the constraints of an EXTRACT. They are checked on the rowset's values, that is, after its casts."""
    scan = rowset.child if isinstance(rowset, Project) else rowset
    assert isinstance(scan, Scan)

    def column_names(names: Sequence[Name]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(find_column(name, rowset.columns).name for name in names))

    for names in node.keys:
        key = DeclaredKey(column_names(names))
        span = _span_between(names[0], names[-1])
        context.extract_constraints.append(DeclaredConstraint(scan.label, rowset, key, span))
    for depends in node.depends:
        dependency = DeclaredDependency(column_names(depends.left), column_names(depends.right))
        span = _span_between(depends.left[0], depends.right[-1])
        context.extract_constraints.append(DeclaredConstraint(scan.label, rowset, dependency, span))


def _declare_parts(context: BindingContext, node: ExtractBody, rowset: Scan | Project) -> tuple[PartCondition, ...]:
    """Collects the conditions on parts. Like other constraints, they are about the values after casts."""
    if not node.parts:
        return ()
    scan = rowset.child if isinstance(rowset, Project) else rowset
    assert isinstance(scan, Scan)
    declared = bind_parts(context, node.parts, rowset, scan.label)
    span = Span(node.path.span.source, node.parts[0].path.span.start, node.parts[-1].span.end)
    context.extract_constraints.append(DeclaredConstraint(scan.label, rowset, declared, span))
    return declared.parts if has_parts(scan) else ()


def _span_between(first: Name, last: Name) -> Span:
    return Span(first.span.source, first.span.start, last.span.end)


def _restricted(scan: Scan, columns: Sequence[Column]) -> Scan:
    """A scan of some of the columns, with the constraints that hold among them, and the layout as far as it is by them."""
    read = frozenset(columns)
    layout = through_project(scan.layout, facts_of(scan, ()), columns) if scan.layout is not None else None
    return replace(
        scan,
        columns=tuple(columns),
        layout=layout,
        keys=tuple(key for key in scan.keys if key <= read),
        dependencies=tuple(
            Dependency(d.determinant, d.dependent & read)
            for d in scan.dependencies
            if d.determinant <= read and d.dependent & read
        ),
    )


def _with_constraints(
    scan: Scan, keys: tuple[Key, ...], dependencies: tuple[Dependency, ...], parts: tuple[PartCondition, ...]
) -> Scan:
    """A scan with declared constraints beside those discovered in the data."""
    return replace(
        scan,
        keys=tuple(dict.fromkeys((*keys, *scan.keys))),
        dependencies=tuple(dict.fromkeys((*dependencies, *scan.dependencies))),
        bounds=scan.bounds.narrowed(parts) if scan.bounds is not None and parts else scan.bounds,
    )
