"""Reads the plan that Spark executed as operators of the cost model.

A DataFrame is executed once. Its physical plan shows which operators ran, and their metrics how many rows each returned.
`steps` converts that into physical operators with their sizes, so that the rules that cost plans also cost the job. Nothing
about a job is written down twice, and a constant is fitted to the formula that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.cost.machine import Machine
from unshuffle.cost.model import CostModel
from unshuffle.errors import Source
from unshuffle.plan import logical, physical
from unshuffle.plan.expressions import AggregateCall, Literal, Ref, WindowCall
from unshuffle.plan.physical import SizeEstimate
from unshuffle.plan.predicates import conjunction
from unshuffle.properties import (
    Delivered,
    FullMerge,
    JoinKey,
    RandomMerge,
    Repartitioning,
    Replicated,
    SampledBoundaries,
    Sorted,
    SortMerge,
    UnknownPartitioning,
    asc,
    hashed,
    ranged,
)

# Costs of a job beyond our operators. They are fitted with the rest and then dropped.
NUISANCES = ("cached_row", "range_source_row", "sink_row", "task_cpu")
RATES = tuple(each.name for each in fields(Machine) if isinstance(each.default, float) and each.default < 1)


@dataclass(frozen=True, slots=True)
class Step:
    """An operator with its input sizes, or (without an operator) a number of units beyond our operators."""

    operator: Any
    inputs: tuple[SizeEstimate, ...]
    output: SizeEstimate
    beyond: Mapping[str, float] = field(default_factory=dict)


def executed(frame: Any, widths: Mapping[str, float]) -> list[Step]:
    """Runs a frame and returns its steps. `widths` has the average width in bytes of string columns, by name."""
    execution = frame._jdf.queryExecution()
    execution.toRdd().count()
    return steps(execution.executedPlan(), widths)


def steps(plan: Any, widths: Mapping[str, float]) -> list[Step]:
    reader = _Reader(widths)
    last = reader.read(plan)
    reader.beyond(last, sink_row=last.rows)
    return reader.steps


def coefficients(steps: list[Step], cores: int, cache_bytes: float = Machine().cache_bytes) -> dict[str, float]:
    """How often each rate counts in the elapsed seconds of the steps, if a task has so much of the processor's cache. Costs
    are linear in the rates, so it is the cost on a machine where that rate is 1 and all others are 0."""
    found = dict.fromkeys((*RATES, *NUISANCES), 0.0)
    for step in steps:
        if step.operator is None:
            for name, times in step.beyond.items():
                found[name] += _unit(name, cores, cache_bytes).elapsed(times, step.output)
            continue
        for name in RATES:
            found[name] += _unit(name, cores, cache_bytes).cost(step.operator, step.inputs, step.output).seconds
    return found


@cache
def _unit(name: str, cores: int, cache_bytes: float) -> CostModel:
    roomy = Machine(cores=cores, cache_bytes=cache_bytes, task_memory=float("inf"), broadcast_bytes=float("inf"))
    return CostModel(replace(roomy, **{each: float(each == name) for each in RATES}))


# ----------------------------------------------------------------------------------------------------- reading a plan

_ANY = pa.int64()
_A, _B = Column(1, "a", _ANY), Column(2, "b", _ANY)
_NOWHERE = logical.Scan("", logical.Files((), logical.Format("Parquet")), (_A,))
_JOIN = logical.Join(JoinKind.INNER, _NOWHERE, _NOWHERE, None)
_COUNT = AggregateCall("count", (), _ANY)
_USER = logical.UserClass("", "", (), (), (), Source("", "").span(0, 0))
_PASSED_BY = ("WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec", "CommandResultExec", "SubqueryExec")


class _Reader:
    def __init__(self, widths: Mapping[str, float]) -> None:
        self.widths = widths
        self.steps: list[Step] = []

    def read(self, node: Any) -> SizeEstimate:
        """Costs a node and all nodes below it. Returns the size of its output."""
        kind = node.getClass().getSimpleName()
        if kind in _PASSED_BY:
            return self.read(node.children().apply(0))
        rule = _READERS.get(kind)
        if rule is None:
            raise NotImplementedError(f"{kind} is not among the operators that are priced")
        return rule(self, node)

    def inputs(self, node: Any) -> list[SizeEstimate]:
        return [self.read(child) for child in _each(node.children())]

    def step(self, operator: Any, inputs: list[SizeEstimate], output: SizeEstimate) -> SizeEstimate:
        self.steps.append(Step(operator, tuple(inputs), output))
        return output

    def beyond(self, amount: SizeEstimate, **times: float) -> None:
        self.steps.append(Step(None, (), amount, times))

    def amount(self, node: Any, rows: float, partitions: int) -> SizeEstimate:
        width = sum(self.width(each) for each in _each(node.output()))
        return SizeEstimate(rows, rows * width, partitions, 1 / partitions if partitions else 1.0)

    def width(self, attribute: Any) -> float:
        known = self.widths.get(attribute.name())
        return known if known is not None else float(attribute.dataType().defaultSize())


def _rows(node: Any) -> float:
    return float(node.metrics().apply("numOutputRows").value())


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(i) for i in range(sequence.size())]


def _simple(value: Any) -> str:
    return str(value.getClass().getSimpleName())


def _types(expressions: Any) -> list[pa.DataType]:
    """The types of the expressions that are more than a column or a constant."""

    def bare(expression: Any) -> Any:
        return bare(expression.child()) if _simple(expression) in ("Alias", "KnownNotNull") else expression

    found = [bare(each) for each in _each(expressions)]
    return [_type(each.dataType()) for each in found if _simple(each) not in ("AttributeReference", "Literal")]


def _type(given: Any) -> pa.DataType:
    """Only what costs depend on: strings, wide decimals, and the rest."""
    match _simple(given).rstrip("$"):
        case "DecimalType":
            return pa.decimal128(given.precision(), given.scale())
        case "StringType":
            return pa.string()
        case _:
            return _ANY


def _conditions(expression: Any) -> int:
    """The conjuncts, without the NULL tests that Spark adds."""
    if _simple(expression) == "And":
        return sum(_conditions(each) for each in _each(expression.children()))
    return int(_simple(expression) != "IsNotNull")


def _file_scan(reader: _Reader, node: Any) -> SizeEstimate:
    output = reader.size(node, _rows(node), node.inputRDD().getNumPartitions())
    return reader.step(physical.FileScan(_NOWHERE, Delivered(UnknownPartitioning())), [], output)


def _cached(reader: _Reader, node: Any) -> SizeEstimate:
    output = reader.size(node, _rows(node), node.outputPartitioning().numPartitions())
    reader.beyond(output, cached_row=output.rows, memory_byte=output.bytes)
    return output


def _range(reader: _Reader, node: Any) -> SizeEstimate:
    output = reader.size(node, _rows(node), node.numSlices())
    reader.beyond(output, range_source_row=output.rows)
    return output


def _filter(reader: _Reader, node: Any) -> SizeEstimate:
    (given,) = reader.inputs(node)
    output = reader.size(node, _rows(node), given.partitions)
    number = _conditions(node.condition())
    if number:
        reader.step(
            physical.Filter(conjunction(Ref(Column(10 + i, "x", _ANY)) for i in range(number)), (_A,)), [given], output
        )
    return output


def _project(reader: _Reader, node: Any) -> SizeEstimate:
    (given,) = reader.inputs(node)
    output = reader.size(node, given.rows, given.partitions)
    return reader.step(_compute(_types(node.projectList())), [given], output)


def _compute(types: list[pa.DataType]) -> physical.Project:
    return physical.Project(tuple((Column(10 + i, "x", type), Literal(1, type)) for i, type in enumerate(types)))


def _aggregate(reader: _Reader, node: Any) -> SizeEstimate:
    (given,) = reader.inputs(node)
    output = reader.size(node, _rows(node), given.partitions)
    calls = _each(node.aggregateExpressions())
    modes = {_simple(call.mode()).rstrip("$") for call in calls}
    if not modes & {"Final", "PartialMerge"}:
        made = [type for call in calls for type in _types(call.aggregateFunction().children())]
        reader.step(_compute(made), [given], given)
    kind = physical.SortAggregate if node.getClass().getSimpleName() == "SortAggregateExec" else physical.HashAggregate
    types = [_type(call.dataType()) for call in calls]
    aggregates = tuple((Column(10 + i, "x", type), AggregateCall("sum", (), type)) for i, type in enumerate(types))
    keys = (_A,) if node.groupingExpressions().size() else ()
    return reader.step(kind(keys, aggregates), [given], output)


def _sort(reader: _Reader, node: Any) -> SizeEstimate:
    """A sort directly above an exchange of sorted inputs is Spark's merge in order."""
    below = node.child()
    if _simple(below) in _PASSED_BY:
        below = below.children().apply(0)
    if _simple(below) == "ShuffleExchangeExec" and _begins_with(below.child().outputOrdering(), node.sortOrder()):
        return _exchange(reader, below, SortMerge(_keys(node)))
    (given,) = reader.inputs(node)
    keys = _keys(node)
    return reader.step(physical.LocalSort(keys, (_A,)), [given], reader.size(node, given.rows, given.partitions))


def _keys(node: Any) -> tuple[Sorted, ...]:
    types = [_type(each.child().dataType()) for each in _each(node.sortOrder())]
    return tuple(asc(Column(10 + i, "x", type)) for i, type in enumerate(types))


def _begins_with(order: Any, wanted: Any) -> bool:
    have, want = ([str(each.toString()) for each in _each(keys)] for keys in (order, wanted))
    return have[: len(want)] == want


def _exchange(reader: _Reader, node: Any, merge: RandomMerge | SortMerge = RandomMerge()) -> SizeEstimate:
    (given,) = reader.inputs(node)
    # A range exchange runs its input twice, the first time for a sample. The metric counts the rows of both.
    rows = float(node.metrics().apply("shuffleRecordsWritten").value())
    given = SizeEstimate(
        rows, given.bytes * (rows / given.rows if given.rows else 1.0), given.partitions, given.largest
    )
    layout = node.outputPartitioning()
    number = layout.numPartitions()
    output = reader.size(node, given.rows, number)
    match _simple(layout).rstrip("$"):
        case "SinglePartition":
            how: Any = FullMerge(merge)
        case "RangePartitioning":
            how = Repartitioning(ranged([asc(_A)], SampledBoundaries("", number)), merge)
        case "RoundRobinPartitioning":
            how = Repartitioning(UnknownPartitioning(number), merge)
        case _:
            how = Repartitioning(hashed([_A], number), merge)
    return reader.step(physical.Exchange(how, (_A,)), [given], output)


def _broadcast(reader: _Reader, node: Any) -> SizeEstimate:
    (given,) = reader.inputs(node)
    output = reader.size(node, given.rows, 0)
    return reader.step(physical.Exchange(Repartitioning(Replicated(), RandomMerge()), (_A,)), [given], output)


def _hash_join(reader: _Reader, node: Any) -> SizeEstimate:
    inputs = reader.inputs(node)
    build: Any = 0 if _simple(node.buildSide()).startswith("BuildLeft") else 1
    output = reader.size(node, _rows(node), inputs[1 - build].partitions)
    sides = (node.leftKeys(), node.rightKeys())
    keys = tuple(JoinKey((_A, _B), _key_type(each.dataType())) for each in _each(sides[0]))
    ordered = [_is_by(each, key) for each, key in zip((node.left(), node.right()), sides, strict=True)]
    reach = (0.0 if ordered[0] else 1.0, 0.0 if ordered[1] else 1.0)
    operator = physical.HashJoin(_JOIN, keys, None, build=build, reach=reach)
    return reader.step(operator, inputs, output)


def _is_by(node: Any, keys: Any) -> bool:
    """Are the rows of a node in the order of the first key?"""
    order = node.outputOrdering()
    return order.size() > 0 and order.apply(0).child().semanticEquals(keys.apply(0))


def _key_type(given: Any) -> pa.DataType:
    """Of the key of a join: an integer, of 4 or of 8 bytes, or the rest."""
    return {"IntegerType": pa.int32(), "LongType": pa.int64()}.get(_simple(given).rstrip("$"), pa.string())


def _merge_join(reader: _Reader, node: Any) -> SizeEstimate:
    inputs = reader.inputs(node)
    return reader.step(
        physical.MergeJoin(_JOIN, (), None), inputs, reader.size(node, _rows(node), inputs[0].partitions)
    )


def _loop_join(reader: _Reader, node: Any) -> SizeEstimate:
    inputs = reader.inputs(node)
    inner = 0 if _simple(node.buildSide()).startswith("BuildLeft") else 1
    output = reader.size(node, _rows(node), inputs[1 - inner].partitions)
    return reader.step(physical.NestedLoopJoin(_JOIN, (), None, inner=0 if inner == 0 else 1), inputs, output)


def _window(reader: _Reader, node: Any) -> SizeEstimate:
    (given,) = reader.inputs(node)
    call = WindowCall(_COUNT, (), (), None)
    calls = tuple((Column(10 + i, "x", _ANY), call) for i in range(node.windowExpression().size()))
    output = reader.size(node, given.rows, given.partitions)
    return reader.step(physical.Windows(calls, (_A,), (), (_A,)), [given], output)


def _python(reader: _Reader, node: Any) -> SizeEstimate:
    (given,) = reader.inputs(node)
    output = reader.size(node, given.rows, given.partitions)  # the jobs here return as many rows as they read
    return reader.step(physical.RunProcess(logical.Process(_NOWHERE, _USER, (_A,))), [given], output)


def _top(reader: _Reader, node: Any) -> SizeEstimate:
    (given,) = reader.inputs(node)
    count = node.limit()
    kept = reader.size(node, min(given.rows, count * given.partitions), given.partitions)
    reader.step(physical.PartialTopN(count, (asc(_A),), (_A,)), [given], kept)
    output = reader.size(node, min(given.rows, count), 1)
    return reader.step(physical.Exchange(FullMerge(SortMerge((asc(_A),))), (_A,)), [kept], output)


_READERS: dict[str, Callable[[_Reader, Any], SizeEstimate]] = {
    "FileSourceScanExec": _file_scan,
    "InMemoryTableScanExec": _cached,
    "RangeExec": _range,
    "FilterExec": _filter,
    "ProjectExec": _project,
    "HashAggregateExec": _aggregate,
    "ObjectHashAggregateExec": _aggregate,
    "SortAggregateExec": _aggregate,
    "SortExec": _sort,
    "ShuffleExchangeExec": _exchange,
    "BroadcastExchangeExec": _broadcast,
    "BroadcastHashJoinExec": _hash_join,
    "ShuffledHashJoinExec": _hash_join,
    "SortMergeJoinExec": _merge_join,
    "BroadcastNestedLoopJoinExec": _loop_join,
    "WindowExec": _window,
    "MapInArrowExec": _python,
    "TakeOrderedAndProjectExec": _top,
}
