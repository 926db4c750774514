"""Aggregate functions and window functions.

An aggregate is read under its SQL name if that text makes Spark produce the very same function. Any other one (a user's
function, a collated extreme, a sum in another ANSI mode) is opaque: Spark computes it over the rows of a whole group, and no
rewrite relies on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import BIGINT, BOOLEAN, DOUBLE, INT, VOID, is_decimal, is_integer, is_numeric
from unshuffle.plan.expressions import (
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    OpaqueAggregate,
    SortKey,
    WindowCall,
)
from unshuffle.plan.functions import signatures
from unshuffle.spark.reader.catalyst_tree import CatalystNode, Untranslatable
from unshuffle.spark.shims.catalyst import keeps_objects

if TYPE_CHECKING:
    from unshuffle.spark.reader.expressions.expression_reader import ScopedReader

# Aggregates of their children only: our name, and the type, or a function from the first argument's type to it.
_AGGREGATES: dict[str, tuple[str, DataType | Callable[[pa.DataType], DataType]]] = {
    "Count": ("count", BIGINT),
    "CountIf": ("count_if", BIGINT),
    "Sum": ("sum", lambda type: _sum_type(type)),
    "Average": ("avg", lambda type: _average_type(type)),
    "Min": ("min", lambda type: type),
    "Max": ("max", lambda type: type),
    "First": ("first", lambda type: type),
    "Last": ("last", lambda type: type),
    "AnyValue": ("any_value", lambda type: type),
    "MaxBy": ("max_by", lambda type: type),
    "MinBy": ("min_by", lambda type: type),
    "CollectList": ("collect_list", lambda type: pa.list_(type)),
    "CollectSet": ("collect_set", lambda type: pa.list_(type)),
    "BoolAnd": ("bool_and", BOOLEAN),
    "BoolOr": ("bool_or", BOOLEAN),
    "StddevSamp": ("stddev_samp", DOUBLE),
    "StddevPop": ("stddev_pop", DOUBLE),
    "VarianceSamp": ("var_samp", DOUBLE),
    "VariancePop": ("var_pop", DOUBLE),
    "Corr": ("corr", DOUBLE),
    "CovPopulation": ("covar_pop", DOUBLE),
    "CovSample": ("covar_samp", DOUBLE),
    "Skewness": ("skewness", DOUBLE),
    "Kurtosis": ("kurtosis", DOUBLE),
    "BitAndAgg": ("bit_and", lambda type: type),
    "BitOrAgg": ("bit_or", lambda type: type),
    "BitXorAgg": ("bit_xor", lambda type: type),
    "Mode": ("mode", lambda type: type),
    "Median": ("median", None),
    "ApproximatePercentile": ("percentile_approx", None),
    "HyperLogLogPlusPlus": ("approx_count_distinct", BIGINT),
}
# The values that these fields must have, if present.
_AGGREGATE_FIELDS: dict[str, Any] = {
    "mutableAggBufferOffset": 0,
    "inputAggBufferOffset": 0,
    "nullOnDivideByZero": True,
    "relativeSD": 0.05,
}
# The fields that hold the children of these classes, or are checked. Any other field might change the meaning.
_CHILD_FIELDS = {
    *("child", "children", "left", "right", "x", "y", "valueExpr", "orderingExpr", "percentageExpression"),
    *("accuracyExpression", "ignoreNulls", "evalMode", "evalContext"),
}
_MAY_IGNORE_NULLS = {"First", "Last", "AnyValue"}

# Spark cannot make these over columns whose types are not known yet.
_NEEDS_TYPED_CHILDREN = {"PivotFirst"}

_RANKS = {
    "RowNumber": ("row_number", INT),
    "Rank": ("rank", INT),
    "DenseRank": ("dense_rank", INT),
    "PercentRank": ("percent_rank", DOUBLE),
    "CumeDist": ("cume_dist", DOUBLE),
    "NTile": ("ntile", INT),
}


def aggregate(reader: ScopedReader, node: CatalystNode) -> Expression:
    function, *where = node.children
    if node.object("mode") != "Complete" or len(where) > 1:
        raise Untranslatable("an aggregate in parts")
    is_distinct = bool(node.fields["isDistinct"])
    call = _aggregate_function(reader, function)
    if call is None and not is_distinct:
        return _opaque_aggregate(reader, node, function)
    if call is None:  # Spark plans DISTINCT as several aggregates
        raise Untranslatable(f"the aggregate {function.name} with DISTINCT")
    condition = reader.read(where[0]) if where else None
    return replace(call, distinct=is_distinct, where=condition)


def _opaque_aggregate(reader: ScopedReader, node: CatalystNode, function: CatalystNode) -> AggregateCall:
    if function.kind in _NEEDS_TYPED_CHILDREN:
        raise Untranslatable(f"the aggregate {function.name}")
    opaque = reader.opaque(node)
    name = f"spark.{function.name}"  # no function of ours has such a name
    keeps_object = function.facts.get("keeps_objects")
    if keeps_object is None:
        keeps_object = keeps_objects(reader.reader.spark, function.jvm)
    code = OpaqueAggregate(opaque.number, opaque.code, bool(keeps_object), function.kind == "PythonUDAF")
    return AggregateCall(name, opaque.arguments, opaque.type, deterministic=function.is_deterministic, opaque=code)


def _aggregate_function(reader: ScopedReader, node: CatalystNode) -> AggregateCall | None:
    """None for a function that no SQL text names under the session's settings."""
    if node.package != "org.apache.spark.sql.catalyst.expressions.aggregate.":
        return None
    if node.kind in _PERCENTILES:
        return _percentile(reader, node)
    if node.kind not in _AGGREGATES or not node.fields.keys() <= _CHILD_FIELDS | _AGGREGATE_FIELDS.keys():
        return None
    name, type = _AGGREGATES[node.kind]
    ignore_nulls = node.fields.get("ignoreNulls") is True and node.kind in _MAY_IGNORE_NULLS
    for key, value in _AGGREGATE_FIELDS.items():
        if node.fields.get(key, value) != value:
            return None
    if node.fields.get("ignoreNulls") is False and name.startswith("collect"):
        return None
    arguments = reader.children(node)
    if callable(type):
        type = type(arguments[0].type) if arguments[0].type is not None else None
    elif type is None:
        type = node.result_type
    is_floating = arguments and arguments[0].type is not None and pa.types.is_floating(arguments[0].type)
    # Only sums of integers and decimals overflow.
    if node.kind in ("Sum", "Average") and not is_floating and not reader.has_session_mode(node):
        return None
    return AggregateCall(name, arguments, type, ignore_nulls=ignore_nulls, deterministic=_is_deterministic(name))


def _is_deterministic(name: str) -> bool:
    signature = signatures.find(name)
    return signature is not None and signature.deterministic


_PERCENTILES = {"Percentile": "percentile", "PercentileCont": "percentile_cont", "PercentileDisc": "percentile_disc"}


def _percentile(reader: ScopedReader, node: CatalystNode) -> AggregateCall | None:
    """Exact percentiles. Their percentages are constants."""
    name = _PERCENTILES[node.kind]
    is_descending = bool(node.fields["reverse"])
    if node.fields.get("legacyCalculation"):
        return None
    value, percentage, *frequency = node.children
    if frequency and (is_descending or frequency[0].fields.get("value") != "1"):
        return None
    argument, percentages, type = reader.read(value), _percentages(reader, percentage), node.result_type
    if node.kind == "Percentile":
        return AggregateCall(name, (argument, percentages), type, deterministic=_is_deterministic(name))
    order = (SortKey(argument, is_descending, not is_descending),)
    return AggregateCall(name, (percentages,), type, within=order, deterministic=_is_deterministic(name))


def _percentages(reader: ScopedReader, node: CatalystNode) -> Expression:
    """One percentage or an array of them, each a constant of its own."""
    inside = node.children[0] if node.kind == "Cast" else node
    if inside.kind != "CreateArray" or node.type not in (None, pa.list_(DOUBLE)):
        return reader.read(node)
    listed = tuple(map(reader.read, inside.children))
    return Call(
        "array", tuple(each if each.type == DOUBLE else Cast(each, DOUBLE) for each in listed), pa.list_(DOUBLE)
    )


def window(reader: ScopedReader, node: CatalystNode) -> Expression:
    function, specification = node.children
    partition_keys = len(specification.fields.get("partitionSpec") or ())
    keys = specification.children[partition_keys:-1]
    partition = tuple(reader.read(each) for each in specification.children[:partition_keys])
    order = reader.reader.sort_keys(keys, reader.scopes)
    call, has_frame = _window_function(reader, function)
    frame = _frame(reader, specification.children[-1], bool(order)) if has_frame else None
    return WindowCall(call, partition, order, frame)


def _window_function(reader: ScopedReader, node: CatalystNode) -> tuple[AggregateCall | Call, bool]:
    """The function, and whether the user can choose its frame."""
    if node.kind == "AggregateExpression":
        call = aggregate(reader, node)
        assert isinstance(call, AggregateCall)
        return call, True
    if node.kind in _RANKS and node.is_sparks_own:
        name, type = _RANKS[node.kind]
        return Call(name, reader.children(node) if name == "ntile" else (), type), False
    if node.kind in ("Lag", "Lead") and node.fields.get("ignoreNulls") is False and node.is_sparks_own:
        arguments = reader.children(node)
        if isinstance(arguments[1], Literal) and isinstance(arguments[1].value, int):
            last = arguments[2:] if arguments[2] != Literal(None, VOID) else ()
            return Call(node.kind.lower(), (*arguments[:2], *last), arguments[0].type), False
    if node.kind == "NthValue" and node.fields.get("ignoreNulls") is False and node.is_sparks_own:
        arguments = reader.children(node)
        return AggregateCall("nth_value", arguments, arguments[0].type, deterministic=False), True
    raise Untranslatable(f"the window function {node.name}")


def _frame(reader: ScopedReader, node: CatalystNode, is_ordered: bool) -> str | None:
    if node.kind != "SpecifiedWindowFrame":
        raise Untranslatable("a window frame")
    unit = {"RowFrame": "ROWS", "RangeFrame": "RANGE"}[node.object("frameType")]
    low, high = (_bound(reader, each) for each in node.children)
    frame = f"{unit} BETWEEN {low} AND {high}"
    default = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    whole = "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    return None if (frame == default if is_ordered else frame.endswith(whole)) else frame


def _bound(reader: ScopedReader, node: CatalystNode) -> str:
    words = {
        "UnboundedPreceding$": "UNBOUNDED PRECEDING",
        "UnboundedFollowing$": "UNBOUNDED FOLLOWING",
        "CurrentRow$": "CURRENT ROW",
    }
    if node.kind in words:
        return words[node.kind]
    bound = reader.read(node)
    if not isinstance(bound, Literal) or type(bound.value) is not int:
        raise Untranslatable("the bounds of a window frame")
    return f"{abs(bound.value)} {'PRECEDING' if bound.value < 0 else 'FOLLOWING'}"


def _sum_type(type: pa.DataType) -> DataType:
    if is_decimal(type):
        return pa.decimal128(min(38, type.precision + 10), type.scale)
    return BIGINT if is_integer(type) else DOUBLE if pa.types.is_floating(type) else None


def _average_type(type: pa.DataType) -> DataType:
    if is_decimal(type):
        return pa.decimal128(min(38, type.precision + 4), min(38, type.scale + 4))
    return DOUBLE if is_numeric(type) else None
