"""What each physical operator costs: one function per operator, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2
from typing import TYPE_CHECKING, Any

from unshuffle.constants import COST
from unshuffle.cost.exchange_formulas import exchange
from unshuffle.plan import physical
from unshuffle.plan.expressions import Ref
from unshuffle.plan.physical import Cost, SizeEstimate
from unshuffle.plan.predicates import conjuncts
from unshuffle.properties import Partitioned, PrefixPartitioned, asc

if TYPE_CHECKING:
    from unshuffle.cost.model import CostModel

Sizes = Sequence[SizeEstimate]
Formula = Callable[["CostModel", Any, Sizes, SizeEstimate], Cost]


def _scan(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    m = model.machine
    readers = getattr(op, "readers", None)
    # A stored partition with several readers is read by each, which keeps its own rows. Rows of a stored layout that Spark
    # knows are read one at a time.
    reads, more = (1.0, 0.0) if readers is None else (max(1.0, readers), m.filter_row)
    if isinstance(op, physical.FileScan):
        reads *= op.scan.share
        more += m.stored_row if isinstance(op.layout.partitioning, Partitioned | PrefixPartitioned) else 0.0
    cpu = model.elapsed(output.rows * reads * (m.scan_row + more), output)
    disk = model.elapsed(output.bytes * reads * m.scan_byte, output)
    startup = model.start_tasks(output.partitions)  # the stage is paid for by the exchange that ends it
    return Cost(cpu + disk + startup, cpu=cpu, disk=disk, startup=startup)


def _rows(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    return model.cpu(output.rows * model.machine.filter_row, output)


def _filter(model: CostModel, op: physical.Filter, inputs: Sizes, output: SizeEstimate) -> Cost:
    # Most rows that fail do so at the first condition, and reading a row costs more than comparing.
    further = COST.further_condition * (len(conjuncts(op.predicate)) - 1)
    per_row = model.machine.filter_row * (1.0 + max(0.0, further)) + model.patterns(op.predicate)
    return model.cpu(inputs[0].rows * per_row, inputs[0])


def _project(model: CostModel, op: physical.Project, inputs: Sizes, output: SizeEstimate) -> Cost:
    computed = [expression for _, expression in op.outputs if not isinstance(expression, Ref)]
    per_row = model.machine.compute_row * len(computed) + model.wide_decimals(computed)
    per_row += sum(map(model.patterns, computed))
    return model.cpu(output.rows * per_row, output)


def _free(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    return Cost()


def _expand(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    return model.cpu(output.rows * model.machine.compute_row, output)


def _lookup_factor(model: CostModel, output: SizeEstimate, share: float) -> float:
    """How long a core takes to find a group, if it has this share of the groups: 1 for 2 ** 16 small groups. A table larger
    than the cache takes longer with every doubling. Measured with a million groups: 220 ns per row by an integer key, 460 ns
    by a string of 32 characters."""
    groups = output.rows * share
    overhead = COST.group_overhead
    width = min(4.0 * COST.cache_line, output.bytes / output.rows + overhead) if output.rows > 0.0 else overhead
    doublings = log2(max(1.0, groups * width / model.machine.cache_bytes))
    return log2(1.0 + groups) / 16 + COST.cache_miss * doublings * width / COST.cache_line


def _hash_aggregate(model: CostModel, op: physical.HashAggregate, inputs: Sizes, output: SizeEstimate) -> Cost:
    m = model.machine
    lookup = m.hash_group_row * _lookup_factor(model, output, max(inputs[0].largest, 1.0 / m.cores))
    # The table keeps a wide decimal as bytes, which are written anew for every row.
    decimals = (COST.hashed_decimal - 1.0) * model.wide_decimals([call for _, call in op.aggregates])
    held = output.bytes
    if op.keys and any(call.keeps_object for _, call in op.aggregates):
        held = inputs[0].bytes  # lists and the like hold their input
        if output.rows * inputs[0].largest > COST.object_hash_groups:
            lookup += model.sorting([asc(key) for key in op.keys], inputs[0].rows * inputs[0].largest)
    work = inputs[0].rows * (lookup + model.updating(op.aggregates) + decimals) + output.rows * m.new_group
    cpu = model.elapsed(work, inputs[0])
    disk = model.spilled(held, inputs[0])
    return Cost(cpu + disk, cpu=cpu, disk=disk)


def _sort_aggregate(model: CostModel, op: physical.SortAggregate, inputs: Sizes, output: SizeEstimate) -> Cost:
    per_row = model.machine.stream_group_row + model.updating(op.aggregates, op.listed)
    return model.cpu(inputs[0].rows * per_row, inputs[0])


def _hash_join(model: CostModel, op: physical.HashJoin, inputs: Sizes, output: SizeEstimate) -> Cost:
    m = model.machine
    build, probe = inputs[op.build], inputs[1 - op.build]
    table = build.bytes + build.rows * COST.join_row_overhead
    own = table * (1.0 if build.copies else build.largest)  # of a task
    key = (0.0 if op.has_integer_key else m.row_key_row) + (m.text_key_row if op.has_text_key else 0.0)
    # The bytes of the table are written, and later read at random. A broadcast input is built by one task on every machine, a
    # partitioned one in all partitions at once.
    filling = build.rows * (m.build_row + key) + 2.0 * build.bytes * m.memory_byte
    missed_inserts = build.rows * model.missing(own) * COST.ordered_miss * m.missed_row
    building, missed = filling + missed_inserts, missed_inserts
    if not build.copies:
        building, missed = model.elapsed(building, build), model.elapsed(missed, build)
    lookup = m.probe_row + key + (0.0 if op.keeps_order else m.unmatched_row)
    # Every match is looked up. If the other input comes in the order of a key, look-ups that follow each other are near each
    # other in the table, and only the first one of each row misses; less so if the table was filled in that order too.
    near = model.missing(min(own, table * op.reach[1 - op.build]))
    lookups = max(probe.rows, output.rows)
    first = COST.ordered_miss + (1.0 - COST.ordered_miss) * op.reach[op.build]
    missed_lookups = lookups * near + min(build.rows, lookups) * first * (model.missing(own) - near)
    missed_lookups = model.elapsed(missed_lookups * m.missed_row, probe)
    probing = model.elapsed(probe.rows * lookup + output.rows * m.joined_row, probe) + missed_lookups
    cpu = building + probing
    disk = 0.0 if build.copies else 4 * model.spilled(table, build)
    startup = model.bring_together(build, model.machine.broadcast_bytes)
    return Cost(cpu + disk + startup, cpu=cpu, disk=disk, startup=startup, missed=missed + missed_lookups)


def _merge_join(model: CostModel, op: physical.MergeJoin, inputs: Sizes, output: SizeEstimate) -> Cost:
    m = model.machine
    # Each input has its own skew: a small input in one partition does not slow down a large one.
    per_row = m.merge_row + (m.text_key_row if op.has_text_key else 0.0)
    seconds = sum(model.elapsed(each.rows * per_row, each) for each in inputs)
    seconds += model.elapsed(output.rows * m.joined_row, output)
    # Spark sends on each of two serial inputs that it takes to be large, like any result of a join.
    startup = sum(model.bring_together(each) for each in inputs)
    return Cost(seconds + startup, cpu=seconds, startup=startup)


def _nested_loop_join(model: CostModel, op: physical.NestedLoopJoin, inputs: Sizes, output: SizeEstimate) -> Cost:
    m = model.machine
    outer = inputs[1 - op.inner]
    work = inputs[0].rows * inputs[1].rows * m.pair + output.rows * m.joined_row
    return model.cpu(work, outer)


def _limit(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    return model.cpu(min(inputs[0].rows, output.rows) * model.machine.filter_row, output)


def _partial_top_n(model: CostModel, op: physical.PartialTopN, inputs: Sizes, output: SizeEstimate) -> Cost:
    """A heap: most rows are compared once and dropped."""
    if not op.keys:
        return _limit(model, op, inputs, output)
    rows, m = inputs[0].rows, model.machine
    return model.cpu(rows * m.compare * 2 + output.rows * m.compare * log2(max(2.0, op.count)), inputs[0])


def _windows(model: CostModel, op: physical.Windows, inputs: Sizes, output: SizeEstimate) -> Cost:
    m = model.machine
    return model.cpu(inputs[0].rows * (m.window_row + m.window_call_row * len(op.calls)), inputs[0])


def _user_code(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    seconds = sum(model.elapsed(each.rows * model.machine.python_row, each) for each in (*inputs, output))
    seconds += sum(model.elapsed(each.rows * op.seconds_per_row, each) for each in inputs)
    return Cost(seconds, cpu=seconds)


def _multiset_operation(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    seconds = sum(model.elapsed(each.rows * model.machine.hash_group_row, each) for each in inputs)
    return Cost(seconds, cpu=seconds)


def _spark_fallback(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    """Unknown. It is costed as an exchange and an aggregate of all inputs."""
    m = model.machine
    rows = sum(each.rows for each in inputs) + output.rows
    bytes_ = sum(each.bytes for each in inputs)
    work = rows * (m.send_row + m.receive_row + m.hash_group_row) + bytes_ * (m.disk_byte + m.network_byte)
    seconds = work / m.cores + model.start_stage(output.partitions)
    return Cost(seconds, cpu=seconds)


def _read_spool(model: CostModel, op: Any, inputs: Sizes, output: SizeEstimate) -> Cost:
    m = model.machine
    disk = model.elapsed(output.bytes * m.memory_byte + output.rows * m.filter_row, output)
    startup = model.start_stage(output.partitions)
    return Cost(disk + startup, disk=disk, startup=startup)


def _local_sort(model: CostModel, op: physical.LocalSort, inputs: Sizes, output: SizeEstimate) -> Cost:
    cpu = model.elapsed(output.rows * model.sorting(op.keys, output.rows * output.largest), output)
    disk = model.spilled(output.bytes, output)
    return Cost(cpu + disk, cpu=cpu, disk=disk)


FORMULAS: Mapping[type, Formula] = physical.per_operator(
    "cost",
    {
        physical.FileScan: _scan,
        physical.TableRead: _scan,
        physical.Rows: _rows,
        physical.Filter: _filter,
        physical.Project: _project,
        physical.Rename: _free,
        physical.Expand: _expand,
        physical.HashAggregate: _hash_aggregate,
        physical.SortAggregate: _sort_aggregate,
        physical.HashJoin: _hash_join,
        physical.MergeJoin: _merge_join,
        physical.NestedLoopJoin: _nested_loop_join,
        physical.Concatenate: _free,
        physical.PartitionwiseUnion: _free,
        physical.MultisetOperation: _multiset_operation,
        physical.OrderBy: _free,
        physical.Limit: _limit,
        physical.PartialTopN: _partial_top_n,
        physical.Windows: _windows,
        physical.RunProcess: _user_code,
        physical.RunReduce: _user_code,
        physical.RunCombine: _user_code,
        physical.SparkFallback: _spark_fallback,
        physical.ReadSpool: _read_spool,
        physical.LocalSort: _local_sort,
        physical.Exchange: exchange,
    },
)
