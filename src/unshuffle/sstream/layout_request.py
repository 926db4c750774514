"""The layout that a user requests for a stream, and its resolution against the columns of the rows.

All mistakes in a request are found here, before any row is computed: missing columns, types without an order, a reference
stream that does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.constraints.constraint import DeclaredDependency, DeclaredKey
from unshuffle.catalog.constraints.counterexamples import is_comparable
from unshuffle.catalog.types import spark_name
from unshuffle.errors import NameProblem, TypeProblem, UserError, did_you_mean
from unshuffle.frozen import dataclass
from unshuffle.partitions import Boundary, Ranges
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.facts.equality import interchangeable
from unshuffle.properties.layouts.partition_functions import RangeKey
from unshuffle.sstream.manifest import Schema, SortedName, StreamReference, typed_keys
from unshuffle.sstream.store import Stream

MAX_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """A requested layout. The default of `clustered_by` is that of the `reference` stream, and the default of `sorted_by` is
    `clustered_by`. The default number of `partitions` depends on the size of the data, and default range `boundaries` give
    partitions of about equal size."""

    clustered_by: tuple[SortedName, ...] = ()
    sorted_by: tuple[SortedName, ...] = ()
    ranged: bool = False
    partitions: int | None = None
    boundaries: tuple[Boundary, ...] | None = None
    reference: str | None = None
    keys: tuple[DeclaredKey, ...] = ()
    dependencies: tuple[DeclaredDependency, ...] = ()
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedLayout:
    """A request resolved against a schema. If `function` is None, ranges or the number of partitions are yet to be chosen."""

    schema: Schema
    clustered_by: tuple[SortedName, ...]
    sorted_by: tuple[SortedName, ...]
    ranged: bool
    partitions: int | None
    function: HashFunction | RangeFunction | None
    keys: tuple[DeclaredKey, ...]
    dependencies: tuple[DeclaredDependency, ...]
    reference: StreamReference | None

    def hashed(self, partitions: int) -> HashFunction:
        types = dict(self.schema)
        return HashFunction(tuple(types[each.name] for each in self.clustered_by), partitions)


Names = str | SortedName | Sequence[str | SortedName]


def sorted_names(names: Names) -> tuple[SortedName, ...]:
    """Sort columns from text: `"a"`, `"a DESC"`. NULLs come first if ascending and last if descending, as in Spark."""
    columns = []
    for each in (names,) if isinstance(names, str | SortedName) else names:
        if isinstance(each, str):
            name, _, direction = each.strip().rpartition(" ")
            has_direction = bool(name) and direction.lower() in ("asc", "desc")
            descending = has_direction and direction.lower() == "desc"
            each = SortedName(name.strip() if has_direction else each.strip(), descending, not descending)
        columns.append(each)
    return tuple(columns)


def resolve_layout(
    request: LayoutRequest, columns: Sequence[tuple[str, pa.DataType | None]], reference: Stream | None
) -> ResolvedLayout:
    """Resolves a request against columns. `reference` is the opened stream that the request names."""
    schema = _schema(columns)
    if reference is not None and not request.clustered_by:
        request = replace(request, clustered_by=reference.manifest.clustered_by)
    if not request.clustered_by:
        raise UserError("a structured stream needs columns to be clustered by")
    clustered_by = _sort_columns(request.clustered_by, schema, "clustered by")
    sorted_by = _sort_columns(request.sorted_by or request.clustered_by, schema, "sorted by")
    if request.partitions is not None and not 0 < request.partitions <= MAX_PARTITIONS:
        raise UserError(f"a stream has between 1 and {MAX_PARTITIONS:,} partitions, not {request.partitions:,}")
    layout = ResolvedLayout(
        schema,
        clustered_by,
        sorted_by,
        request.ranged or request.boundaries is not None,
        request.partitions,
        None,
        tuple(DeclaredKey(_comparable(each.columns, schema)) for each in request.keys),
        tuple(
            DeclaredDependency(_comparable(each.determinant, schema), _comparable(each.dependent, schema))
            for each in request.dependencies
        ),
        None,
    )
    if reference is not None:
        return _like_reference(layout, request, reference)
    if request.boundaries is not None:
        return replace(layout, function=_with_boundaries(layout, request.boundaries))
    if not request.ranged and request.partitions is not None:
        return replace(layout, function=layout.hashed(request.partitions))
    return layout


def range_function(ranges: Ranges) -> RangeFunction:
    """The partition function of some ranges."""
    plain = ranges.plain()
    keys = tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in plain.keys)
    return RangeFunction(keys, plain.boundaries)


def _with_boundaries(layout: ResolvedLayout, boundaries: Sequence[Boundary]) -> RangeFunction:
    try:
        function = range_function(Ranges(typed_keys(layout.schema, layout.clustered_by), tuple(map(tuple, boundaries))))
    except (TypeError, ValueError) as error:
        raise UserError(f"these boundaries do not fit the columns: {error}") from None
    if layout.partitions not in (None, function.partitions):
        raise UserError(f"{function.partitions - 1} boundaries make {function.partitions} partitions")
    return function


def _schema(columns: Sequence[tuple[str, pa.DataType | None]]) -> Schema:
    seen: set[str] = set()
    schema = []
    for name, type in columns:
        if name.lower() in seen:
            raise NameProblem(f"two columns to write are called {name!r}", hint="give one of them another name with AS")
        if not name:
            raise NameProblem("a column to write has no name", hint="give it one with AS")
        if type is None or pa.types.is_null(type) or "?" in spark_name(type):
            raise TypeProblem(f"a stream cannot store the column {name!r}: its type is not supported")
        seen.add(name.lower())
        schema.append((name, type))
    if not schema:
        raise UserError("a stream has at least one column")
    return tuple(schema)


def _find_column(name: str, schema: Schema) -> tuple[str, pa.DataType]:
    for existing, type in schema:
        if existing.lower() == name.lower():
            return existing, type
    names = [existing for existing, _ in schema]
    raise NameProblem(
        f"there is no column {name!r}", hint=did_you_mean(name, names) or f"there are: {', '.join(names)}"
    )


def _sort_columns(names: Sequence[SortedName], schema: Schema, role: str) -> tuple[SortedName, ...]:
    columns: dict[str, SortedName] = {}
    for each in names:
        name, type = _find_column(each.name, schema)
        if not is_orderable(type):
            raise TypeProblem(f"a stream cannot be {role} {name!r} of type {spark_name(type)}")
        if name in columns:
            raise NameProblem(f"the stream is {role} {name!r} twice")
        columns[name] = SortedName(name, each.descending, each.nulls_first)
    return tuple(columns.values())


def is_orderable(type: pa.DataType) -> bool:
    t = pa.types
    tests = (
        t.is_integer,
        t.is_floating,
        t.is_decimal,
        t.is_string,
        t.is_binary,
        t.is_boolean,
        t.is_date,
        t.is_timestamp,
    )
    return any(test(type) for test in tests)


def _comparable(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    columns = [_find_column(name, schema) for name in names]
    for name, type in columns:
        if not is_comparable(type):
            raise TypeProblem(f"{name!r} of type {spark_name(type)} cannot be in a key or dependency of a stream")
    return tuple(dict.fromkeys(name for name, _ in columns))


# --- the layout of a reference stream


def _like_reference(layout: ResolvedLayout, request: LayoutRequest, reference: Stream) -> ResolvedLayout:
    """Partition i of this stream must match partition i of the other, so both have exactly the same function."""
    other = reference.manifest
    if request.boundaries is not None:
        raise UserError("a stream has either the boundaries of its REFERENCE or its own, not both")
    if request.ranged and not isinstance(other.function, RangeFunction):
        raise UserError(f"the REFERENCE {reference.path!r} is partitioned by hash, not by ranges")
    if request.partitions not in (None, other.function.partitions):
        raise UserError(
            f"the REFERENCE {reference.path!r} has {other.function.partitions:,} partitions, not {request.partitions:,}",
            hint="leave INTO out",
        )
    if len(layout.clustered_by) != len(other.clustered_by):
        raise UserError(
            f"the REFERENCE {reference.path!r} is clustered by {len(other.clustered_by)} columns "
            f"({', '.join(each.name for each in other.clustered_by)}), and this stream by {len(layout.clustered_by)}"
        )
    is_range = isinstance(other.function, RangeFunction)
    for key, other_key, name, other_name in zip(
        typed_keys(layout.schema, layout.clustered_by),
        other.clustering_keys,
        layout.clustered_by,
        other.clustered_by,
        strict=True,
    ):
        fits = interchangeable(key.type, other_key.type) if is_range else key.type == other_key.type
        if not fits:
            type, other_type = spark_name(key.type), spark_name(other_key.type)
            raise TypeProblem(
                f"{name.name!r} is {type}, and {other_name.name!r} of the REFERENCE is {other_type}",
                hint="cast it to that type first",
            )
        if is_range and (key.descending, key.nulls_first) != (other_key.descending, other_key.nulls_first):
            raise UserError(
                f"the REFERENCE {reference.path!r} is in the order of {other_name}, and this stream of {name}"
            )
    return replace(
        layout,
        ranged=is_range,
        partitions=other.function.partitions,
        function=other.function,
        reference=StreamReference(reference.path, reference.version),
    )
