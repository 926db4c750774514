"""How a stream is to be stored, as a user says it, and what that means for rows with certain columns.

Everything that can be wrong with it is found here, before a row is computed: columns that are not there, types that have no
order, another stream that cannot be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from unshuffle.catalog.declared import DeclaredDependency, DeclaredKey, supported
from unshuffle.catalog.types import spark_name
from unshuffle.errors import NameProblem, TypeProblem, UserError, did_you_mean
from unshuffle.partitions import Boundary, Ranges
from unshuffle.properties import HashFunction, RangeFunction
from unshuffle.properties.equality import interchangeable
from unshuffle.properties.functions import RangeKey
from unshuffle.streams.manifest import Reference, Schema, SortedName, typed
from unshuffle.streams.store import Stream

MOST_PARTITIONS = 100_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """`clustered_by` may be left out with a `reference`, whose columns are then meant; `sorted_by` is `clustered_by` unless
    it is given. Without `partitions` their number comes from the size of the data. `boundaries` are those of ranges,
    which are otherwise chosen for partitions of about equal size."""

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
class Settled:
    """The same of known columns. Without a function yet, ranges or a number of partitions are still to be chosen."""

    schema: Schema
    clustered_by: tuple[SortedName, ...]
    sorted_by: tuple[SortedName, ...]
    ranged: bool
    partitions: int | None
    function: HashFunction | RangeFunction | None
    keys: tuple[DeclaredKey, ...]
    dependencies: tuple[DeclaredDependency, ...]
    reference: Reference | None

    def hashed(self, partitions: int) -> HashFunction:
        types = dict(self.schema)
        return HashFunction(tuple(types[each.name] for each in self.clustered_by), partitions)


Names = str | SortedName | Sequence[str | SortedName]


def sorted_names(names: Names) -> tuple[SortedName, ...]:
    """Columns of an order as people write them: `"a"`, `"a DESC"`. NULLs are where Spark has them by default."""
    made = []
    for each in (names,) if isinstance(names, str | SortedName) else names:
        if isinstance(each, str):
            name, _, direction = each.strip().rpartition(" ")
            is_word = bool(name) and direction.lower() in ("asc", "desc")
            descending = is_word and direction.lower() == "desc"
            each = SortedName(name.strip() if is_word else each.strip(), descending, not descending)
        made.append(each)
    return tuple(made)


def settle(wanted: Wanted, columns: Sequence[tuple[str, pa.DataType | None]], reference: Stream | None) -> Settled:
    """What is wanted, of these columns; `reference` is the stream of that name, opened."""
    schema = _schema(columns)
    if reference is not None and not wanted.clustered_by:
        wanted = replace(wanted, clustered_by=reference.manifest.clustered_by)
    if not wanted.clustered_by:
        raise UserError("a structured stream needs columns to be clustered by")
    clustered_by = _ordered(wanted.clustered_by, schema, "clustered by")
    sorted_by = _ordered(wanted.sorted_by or wanted.clustered_by, schema, "sorted by")
    if wanted.partitions is not None and not 0 < wanted.partitions <= MOST_PARTITIONS:
        raise UserError(f"a stream has between 1 and {MOST_PARTITIONS:,} partitions, not {wanted.partitions:,}")
    settled = Settled(
        schema,
        clustered_by,
        sorted_by,
        wanted.ranged or wanted.boundaries is not None,
        wanted.partitions,
        None,
        tuple(DeclaredKey(_comparable(each.columns, schema)) for each in wanted.keys),
        tuple(
            DeclaredDependency(_comparable(each.determinant, schema), _comparable(each.dependent, schema))
            for each in wanted.dependencies
        ),
        None,
    )
    if reference is not None:
        return _like(settled, wanted, reference)
    if wanted.boundaries is not None:
        return replace(settled, function=_given(settled, wanted.boundaries))
    if not wanted.ranged and wanted.partitions is not None:
        return replace(settled, function=settled.hashed(wanted.partitions))
    return settled


def range_function(ranges: Ranges) -> RangeFunction:
    """Ranges as the function that other layouts are compared with."""
    plain = ranges.plain()
    keys = tuple(RangeKey(key.type, key.descending, key.nulls_first) for key in plain.keys)
    return RangeFunction(keys, plain.boundaries)


def _given(settled: Settled, boundaries: Sequence[Boundary]) -> RangeFunction:
    try:
        function = range_function(Ranges(typed(settled.schema, settled.clustered_by), tuple(map(tuple, boundaries))))
    except (TypeError, ValueError) as error:
        raise UserError(f"these boundaries do not fit the columns: {error}") from None
    if settled.partitions not in (None, function.partitions):
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
            raise TypeProblem(f"a stream cannot store the column {name!r}: its type is none that we know")
        seen.add(name.lower())
        schema.append((name, type))
    if not schema:
        raise UserError("a stream has at least one column")
    return tuple(schema)


def _found(name: str, schema: Schema) -> tuple[str, pa.DataType]:
    for known, type in schema:
        if known.lower() == name.lower():
            return known, type
    names = [known for known, _ in schema]
    raise NameProblem(
        f"there is no column {name!r}", hint=did_you_mean(name, names) or f"there are: {', '.join(names)}"
    )


def _ordered(names: Sequence[SortedName], schema: Schema, what: str) -> tuple[SortedName, ...]:
    made: dict[str, SortedName] = {}
    for each in names:
        name, type = _found(each.name, schema)
        if not is_orderable(type):
            raise TypeProblem(f"a stream cannot be {what} {name!r} of type {spark_name(type)}")
        if name in made:
            raise NameProblem(f"the stream is {what} {name!r} twice")
        made[name] = SortedName(name, each.descending, each.nulls_first)
    return tuple(made.values())


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
    found = [_found(name, schema) for name in names]
    for name, type in found:
        if not supported(type):
            raise TypeProblem(f"{name!r} of type {spark_name(type)} can be in no key or dependency of a stream")
    return tuple(dict.fromkeys(name for name, _ in found))


# --- like another stream


def _like(settled: Settled, wanted: Wanted, reference: Stream) -> Settled:
    """Partition i of this stream for partition i of the other: the very same function, or nothing."""
    other = reference.manifest
    if wanted.boundaries is not None:
        raise UserError("a stream has the boundaries of its REFERENCE, or others, not both")
    if wanted.ranged and not isinstance(other.function, RangeFunction):
        raise UserError(f"the REFERENCE {reference.path!r} is partitioned by hash, not by ranges")
    if wanted.partitions not in (None, other.function.partitions):
        raise UserError(
            f"the REFERENCE {reference.path!r} has {other.function.partitions:,} partitions, not {wanted.partitions:,}",
            hint="leave INTO out",
        )
    if len(settled.clustered_by) != len(other.clustered_by):
        raise UserError(
            f"the REFERENCE {reference.path!r} is clustered by {len(other.clustered_by)} columns "
            f"({', '.join(each.name for each in other.clustered_by)}), and this stream by {len(settled.clustered_by)}"
        )
    is_range = isinstance(other.function, RangeFunction)
    for key, theirs, name, model in zip(
        typed(settled.schema, settled.clustered_by),
        other.clustering_keys,
        settled.clustered_by,
        other.clustered_by,
        strict=True,
    ):
        fits = interchangeable(key.type, theirs.type) if is_range else key.type == theirs.type
        if not fits:
            raise TypeProblem(
                f"{name.name!r} is {spark_name(key.type)}, and {model.name!r} of the REFERENCE is {spark_name(theirs.type)}",
                hint="cast it to that type first",
            )
        if is_range and (key.descending, key.nulls_first) != (theirs.descending, theirs.nulls_first):
            raise UserError(f"the REFERENCE {reference.path!r} is in the order of {model}, and this stream of {name}")
    return replace(
        settled,
        ranged=is_range,
        partitions=other.function.partitions,
        function=other.function,
        reference=Reference(reference.path, reference.version),
    )
