"""OUTPUT: what is written where, and that nothing is destroyed by it."""

from __future__ import annotations

from collections.abc import Sequence

from unshuffle.catalog import files
from unshuffle.catalog.unfinished import is_unfinished
from unshuffle.errors import FileProblem, Span, located
from unshuffle.language.bind.context import BindingContext
from unshuffle.language.bind.statements import formats
from unshuffle.language.bind.statements.columns import constraints, sort_keys
from unshuffle.language.bind.statements.paths import substitute
from unshuffle.language.bind.statements.using import bind_format_or_class
from unshuffle.language.parse import statements
from unshuffle.plan.logical import FileTarget, Format, Output, Plan, StreamTarget


def bind_output(context: BindingContext, plan: Plan, node: statements.OutputStatement) -> Output:
    path = substitute(node.path, context.parameters)
    if not path.strip("/"):
        raise FileProblem(f"{path!r} is not a path to write to", node.path.span)
    if node.using is not None:
        format = bind_format_or_class(context, node.using, "outputter")
    else:
        format = Format(formats.by_extension(path))
    if isinstance(format, Format):
        formats.check_writable(format, plan.columns, node.input.span if node.input else node.span)
    return Output(plan, FileTarget(path, format, node.overwrite), node.path.span)


def bind_output_stream(context: BindingContext, plan: Plan, node: statements.OutputStreamStatement) -> Output:
    from unshuffle.language.bind.statements.sstream import layout_of
    from unshuffle.plan.sstream_output import layout_request_for
    from unshuffle.sstream.layout_request import resolve_layout
    from unshuffle.sstream.store import open_stream

    keys, dependencies = constraints(node.keys, node.depends, plan.columns)
    target = StreamTarget(
        substitute(node.path, context.parameters),
        node.range_partitioned,
        sort_keys(node.clustered_by, plan.columns),
        sort_keys(node.sorted_by, plan.columns),
        node.partitions,
        substitute(node.reference, context.parameters) if node.reference else None,
        keys,
        dependencies,
        node.overwrite,
    )
    layout = None
    with located(node.path.span):
        reference = open_stream(target.reference) if target.reference is not None else None
        if all(column.type is not None for column in plan.columns):
            columns = [(column.name, column.type) for column in plan.columns]
            layout = layout_of(resolve_layout(layout_request_for(target), columns, reference), plan.columns)
    return Output(plan, target, node.path.span, layout)


def check_targets(outputs: Sequence[Output], inputs: Sequence[str], will_write: bool) -> None:
    """No output may overlap an input or another output. With `will_write`, none may replace what exists unless the script
    says OVERWRITE."""
    written: list[str] = []
    for output in outputs:
        if output.target is None:
            continue
        path = output.target.path
        for read in inputs:
            if files.overlaps(path, read) and not _is_next_version(output.target, read):
                message = f"the script reads {read!r}, so it cannot write to {path!r}"
                raise FileProblem(message, output.span, "write somewhere else; not even OVERWRITE allows this")
        if any(files.overlaps(path, other) for other in written):
            raise FileProblem(f"two OUTPUTs write to {path!r}", output.span)
        if will_write:
            _check_replaceable(output.target, output.span)
        written.append(path)


def _is_next_version(target: FileTarget | StreamTarget, read: str) -> bool:
    """A script may read a stream and write its next version: readers keep the version that they opened."""
    is_stream = isinstance(target, StreamTarget)
    return is_stream and target.overwrite and files.absolute(read) == files.absolute(target.path)


def _check_replaceable(target: FileTarget | StreamTarget, span: Span | None) -> None:
    if isinstance(target, StreamTarget):
        from unshuffle.sstream.storage import is_local, storage_of
        from unshuffle.sstream.store import base_version

        if is_local(target.path) and not is_unfinished(target.path):
            with located(span):
                base_version(storage_of(target.path), target.path, target.overwrite)
    elif files.exists(target.path) and not target.overwrite and not is_unfinished(target.path):
        raise FileProblem(f"{target.path!r} exists already", span, "add OVERWRITE to replace it")
