"""Aggregate functions and window functions.

There is no opaque aggregate: to split one into partial and final aggregates, or to know whether it depends on the order of
rows, its function must be known. An operator with any other aggregate is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from unshuffle.catalog.schema import DataType
from unshuffle.catalog.types import BIGINT, BOOLEAN, DOUBLE, INT, VOID, is_decimal, is_integer, is_numeric
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Literal, WindowCall
from unshuffle.plan.functions import signatures
from unshuffle.spark.reader.catalyst_tree import CatalystNode, Untranslatable

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
_MAY_IGNORE_NULLS = {"First", "Last", "AnyValue"}

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
    call = _aggregate_function(reader, function)
    condition = reader.read(where[0]) if where else None
    return replace(call, distinct=bool(node.fields["isDistinct"]), where=condition)


def _aggregate_function(reader: ScopedReader, node: CatalystNode) -> AggregateCall:
    if node.kind not in _AGGREGATES or node.package != "org.apache.spark.sql.catalyst.expressions.aggregate.":
        raise Untranslatable(f"the aggregate {node.name}")
    name, type = _AGGREGATES[node.kind]
    ignore_nulls = node.fields.get("ignoreNulls") is True and node.kind in _MAY_IGNORE_NULLS
    for key, value in _AGGREGATE_FIELDS.items():
        if node.fields.get(key, value) != value:
            raise Untranslatable(f"the options of {name}")
    if node.fields.get("ignoreNulls") is False and name.startswith("collect"):
        raise Untranslatable(f"{name} with NULLs")
    arguments = reader.children(node)
    if callable(type):
        type = type(arguments[0].type) if arguments[0].type is not None else None
    elif type is None:
        type = reader.type_of(node)
    is_floating = arguments and arguments[0].type is not None and pa.types.is_floating(arguments[0].type)
    # Only sums of integers and decimals overflow.
    if node.kind in ("Sum", "Average") and not is_floating and not reader.has_session_mode(node):
        raise Untranslatable(f"{name} in another ANSI mode than the session's")
    signature = signatures.find(name)
    deterministic = signature is not None and signature.deterministic
    return AggregateCall(name, arguments, type, ignore_nulls=ignore_nulls, deterministic=deterministic)


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
