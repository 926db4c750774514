"""Every constant of the cost model and every threshold of a rule: one table.

Each constant is a field with a value, a unit, its meaning, and how the value was found: by a program that fits it to the
machine at hand, by hand from a measurement, from Spark, or by choice. `MachineConstants` may be overridden by a
calibration file (`cost.machine`); the other groups are the same everywhere. `TABLE` lists them all, for docs and tests.

A new constant is a new field here. No other module holds a number that decides between plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, fields
from typing import Any

from unshuffle.frozen import dataclass

CALIBRATED = "benchmarks/calibrate.py"
BY_HAND = "by hand"  # a program measured it once, on two cores of a small virtual machine
PARTITION_WRITING = "benchmarks/partition_writing.py"
SPARK = "a setting or constant of Spark"
CHOSEN = "chosen"  # a limit on the optimizer's own effort, or a customary guess


@dataclass(frozen=True, slots=True)
class Constant:
    """A row of the table."""

    group: str
    name: str
    value: float
    unit: str
    meaning: str
    found_by: str


def constant(value: float, unit: str, meaning: str, found_by: str) -> Any:
    return field(default=value, metadata={"unit": unit, "meaning": meaning, "found_by": found_by})


_PER_ROW = "seconds per row on one core"
_PER_BYTE = "seconds per byte on one core"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineConstants:
    """Fixed costs, rates and sizes of a machine."""

    stage: float = constant(0.02, "seconds", "start a stage: adaptive planning, scheduling, the first task", CALIBRATED)
    task: float = constant(0.002, "seconds", "start a task and collect its result", CALIBRATED)
    block: float = constant(
        0.000_06, "seconds", "write and open one of the n x m blocks of a shuffle, if each is a file", CALIBRATED
    )
    index_block: float = constant(
        0.000_015, "seconds", "write and open a block, if a task's blocks are in one indexed file", PARTITION_WRITING
    )
    connection: float = constant(0.000_01, "seconds", "a task opens one of the blocks that it reads", BY_HAND)
    failure: float = constant(1e-5, "probability", "a task fails at one of its connections and starts again", BY_HAND)
    fan_in: int = constant(250, "connections", "above this, partial states are merged on the way", CHOSEN)
    most_files: int = constant(
        200, "partitions", "up to this, Spark writes a file per block (spark.shuffle.sort.bypassMergeThreshold)", SPARK
    )

    scan_row: float = constant(35e-9, _PER_ROW, "read a row of Parquet", CALIBRATED)
    stored_row: float = constant(30e-9, _PER_ROW, "more, if Spark knows the stored layout", CALIBRATED)
    filter_row: float = constant(30e-9, _PER_ROW, "the first condition of a filter", CALIBRATED)
    compute_row: float = constant(20e-9, _PER_ROW, "an expression that is not a column", CALIBRATED)
    pattern_row: float = constant(1200e-9, _PER_ROW, "a LIKE with a wildcard between two literals", CALIBRATED)
    decimal_row: float = constant(75e-9, _PER_ROW, "more, for a decimal of over 18 digits", CALIBRATED)
    hash_group_row: float = constant(110e-9, _PER_ROW, "find one of 65,536 groups in a hash table", CALIBRATED)
    stream_group_row: float = constant(30e-9, _PER_ROW, "find the group in sorted input", CALIBRATED)
    call_row: float = constant(7e-9, _PER_ROW, "update an aggregate function", CALIBRATED)
    object_row: float = constant(
        250e-9, _PER_ROW, "more, for a state that is a growing object: a list, a percentile's values", CALIBRATED
    )
    counted_row: float = constant(
        190e-9, _PER_ROW, "more, for a state that counts each value: a percentile not over a sorted list", CALIBRATED
    )
    unfixed_row: float = constant(200e-9, _PER_ROW, "more, for a state that is a string or a struct", CALIBRATED)
    new_group: float = constant(150e-9, "seconds per group on one core", "emit a group from a hash table", CALIBRATED)
    build_row: float = constant(80e-9, _PER_ROW, "insert into the hash table of a join", BY_HAND)
    probe_row: float = constant(65e-9, _PER_ROW, "look up in the hash table of a join", CALIBRATED)
    row_key_row: float = constant(
        15e-9, _PER_ROW, "more for a look-up or an insert, if the keys of a join are not one integer", BY_HAND
    )
    text_key_row: float = constant(60e-9, _PER_ROW, "more in a hash or merge join, if a key is a string", BY_HAND)
    missed_row: float = constant(
        330e-9, _PER_ROW, "more for a look-up in a hash table of a join, if it misses the cache", BY_HAND
    )
    unmatched_row: float = constant(250e-9, _PER_ROW, "more, if the table records which rows matched", CALIBRATED)
    merge_row: float = constant(50e-9, _PER_ROW, "a merge join, for each row of both inputs", CALIBRATED)
    joined_row: float = constant(35e-9, _PER_ROW, "emit a row from a join", CALIBRATED)
    pair: float = constant(3.5e-9, "seconds per pair on one core", "a nested-loop join", CALIBRATED)
    compare: float = constant(
        25e-9, "seconds per row and level on one core", "a sort has log2(rows) levels", CALIBRATED
    )
    sort_row: float = constant(150e-9, _PER_ROW, "a sort, beyond its comparisons", CALIBRATED)
    send_row: float = constant(150e-9, _PER_ROW, "an exchange: hash, serialize, write", CALIBRATED)
    index_row: float = constant(
        13e-9, _PER_ROW, "more, to sort rows by partition: if a task's blocks are in one file", PARTITION_WRITING
    )
    receive_row: float = constant(75e-9, _PER_ROW, "an exchange: read and deserialize", CALIBRATED)
    range_row: float = constant(80e-9, _PER_ROW, "more than send_row: sampling and binary search", CALIBRATED)
    window_row: float = constant(85e-9, _PER_ROW, "collect the rows of a window partition", CALIBRATED)
    window_call_row: float = constant(25e-9, _PER_ROW, "a window function", CALIBRATED)
    python_row: float = constant(800e-9, _PER_ROW, "into a Python worker and back", CALIBRATED)

    scan_byte: float = constant(1 / 700e6, _PER_BYTE, "read a file", CALIBRATED)
    disk_byte: float = constant(1 / 500e6, _PER_BYTE, "write or read shuffle files and spills", CALIBRATED)
    network_byte: float = constant(
        1 / 80e6, _PER_BYTE, "one core's share of the network, 16 cores sharing 10 Gbit/s", CHOSEN
    )
    memory_byte: float = constant(1 / 2e9, _PER_BYTE, "copy in memory", CALIBRATED)

    partition_bytes: float = constant(64e6, "bytes", "the ideal size of a partition", CHOSEN)
    task_seconds: float = constant(
        10.0, "seconds", "user code that declares its cost: rows are divided until a task takes about so long", CHOSEN
    )
    cache_bytes: float = constant(
        6e6, "bytes", "of the processor's cache for each task: a hash table up to this size stays in it", BY_HAND
    )
    task_memory: float = constant(400e6, "bytes", "a task holds this before it spills", CHOSEN)
    broadcast_bytes: float = constant(512e6, "bytes", "more is never broadcast", CHOSEN)
    file_piece_bytes: float = constant(256e6, "bytes", "a task reads at most this of files", CHOSEN)


@dataclass(frozen=True, slots=True)
class CostConstants:
    """Ratios in the cost formulas, the same on all machines."""

    further_condition: float = constant(
        0.1, "of the first condition", "another condition of a filter: most rows fail the first", BY_HAND
    )
    hashed_decimal: float = constant(
        3.0, "of decimal_row", "update a wide decimal in a hash table, which keeps it as bytes", BY_HAND
    )
    object_hash_groups: float = constant(
        128,
        "groups per task",
        "above this, Spark sorts instead of hashing if states are objects "
        "(spark.sql.objectHashAggregate.sortBased.fallbackThreshold)",
        SPARK,
    )
    guess_risk: float = constant(
        1.1, "times", "work in one task and broadcasts cost more, for each guess that their rows rest on", CHOSEN
    )
    unwatched_guess_risk: float = constant(
        2.0, "times", "the same in a DataFrame: it is not planned again while it runs", CHOSEN
    )
    most_guesses: int = constant(5, "guesses", "more are not more uncertain", CHOSEN)
    concurrent_job_start: float = constant(
        0.3, "of a stage's start", "a broadcast job that waits for no other", BY_HAND
    )
    broadcast_wait: float = constant(
        2.5, "of a stage's start", "a broadcast job of several tasks that waits for an exchange", BY_HAND
    )
    radix_sort_levels: float = constant(5.0, "levels", "a radix sort takes as long as this many levels", BY_HAND)
    text_comparison: float = constant(
        1.6,
        "of compare",
        "compare strings: beyond a common prefix of 8 bytes, Spark looks into both rows",
        BY_HAND,
    )
    cache_miss: float = constant(
        0.27, "of hash_group_row", "per doubling above cache_bytes and per cache line of a group", BY_HAND
    )
    cache_line: float = constant(64.0, "bytes", "a cache line", CHOSEN)
    ordered_miss: float = constant(
        0.4,
        "of missed_row",
        "an insert outside the cache, and the first look-up of a row if look-ups come in the order of the key",
        BY_HAND,
    )
    join_row_overhead: float = constant(
        64.0,
        "bytes",
        "a row in the hash table of a join, beside its columns: slots of the table, and the row's header",
        SPARK,
    )
    group_overhead: float = constant(32.0, "bytes", "a group in a hash table, beside keys and states", BY_HAND)
    more_bytes_share: float = constant(
        1.1, "times", "explain says why a plan moves more than this and `more_bytes`", CHOSEN
    )
    more_bytes: float = constant(1e6, "bytes", "more than the query as written that need no reason", CHOSEN)
    min_file_piece: float = constant(
        4e6, "bytes", "Spark cuts no smaller pieces of files unless told to (spark.sql.files.openCostInBytes)", SPARK
    )
    max_partitions: int = constant(65_536, "partitions", "an exchange never makes more than twice this", CHOSEN)
    piece_rounding: float = constant(1e-6, "pieces", "tolerance when pieces of files are counted", CHOSEN)
    fast_hash_map_groups: int = constant(
        65_536,
        "groups",
        "capacity of the fast map that a partial aggregate looks into first (aggregate.fastHashMap.capacityBit)",
        SPARK,
    )
    fast_hash_map_hit: float = constant(50e-9, _PER_ROW, "saved if the group is in the fast hash map", BY_HAND)
    fast_hash_map_miss: float = constant(20e-9, _PER_ROW, "lost if the group is not in the fast hash map", BY_HAND)
    fast_hash_map_text_miss: float = constant(250e-9, _PER_ROW, "the same if keys are strings", BY_HAND)


@dataclass(frozen=True, slots=True)
class RuleThresholds:
    """When a rule offers an alternative."""

    join_splits_min: int = constant(8, "splits", "join orders: always tried in all physical ways", CHOSEN)
    join_splits_max: int = constant(60, "splits", "join orders: never more are tried in all physical ways", CHOSEN)
    join_split_bytes: float = constant(
        8e6, "bytes", "join orders: input that justifies one more split, which takes milliseconds to try", BY_HAND
    )
    join_broadcast_bytes: float = constant(
        30e6, "bytes", "join orders: a smaller input is cheaper to broadcast than to partition", BY_HAND
    )
    join_wait_bytes: float = constant(
        5e6, "bytes", "join orders: processed while a join of two joins waits for both", BY_HAND
    )
    join_dynamic_inputs: int = constant(10, "inputs", "join orders: above this they are chosen greedily", CHOSEN)
    semi_join_pullup_share: float = constant(
        0.5, "of the rows", "a semi-join moves above a join that keeps at most this", CHOSEN
    )
    semi_join_pullup_rows: int = constant(100_000, "rows", "fewer rows are not worth another plan", CHOSEN)
    partial_top_n_rows: int = constant(100_000, "rows", "above this, a heap is no faster than a sort", BY_HAND)
    small_input_ratio: int = constant(
        4, "times the rows", "an input this many times smaller than the other is small", CHOSEN
    )
    merge_key_permutations: int = constant(3, "keys", "a merge join tries all orders of up to this many keys", CHOSEN)
    percentile_list_values: int = constant(
        4_000_000, "values", "more in one group do not fit into a task's memory, at about 70 bytes each", BY_HAND
    )
    scan_pruning_values: int = constant(256, "values", "a longer IN list does not prune a scan", CHOSEN)
    bounds_overlap: float = constant(
        0.5, "fraction", "bounds of a column tell little if a part overlaps more of the others", CHOSEN
    )
    footer_local: float = constant(0.1e-3, "seconds per file", "read a footer and the bounds in it", BY_HAND)
    footer_remote: float = constant(
        5e-3, "seconds per file", "the same over a network, in threads that wait together", CHOSEN
    )
    footers_seconds: float = constant(0.5, "seconds", "all footers may take this long for their bounds", CHOSEN)
    footers_share: float = constant(
        0.1, "of the time to read the files", "and this long more: they may spare most of the reading", CHOSEN
    )
    pruning_intervals: int = constant(8, "intervals", "more of them in a condition take longer than they spare", CHOSEN)
    child_join_share: float = constant(
        0.01, "of the bytes", "ranges with less than this are not joined by a method of their own", CHOSEN
    )
    heavy_value_bytes: float = constant(
        64e6, "bytes", "rows of one value of a join key that are worth dividing: they fill a partition", CHOSEN
    )
    heavy_values: int = constant(64, "values", "of a join key are divided at most", CHOSEN)
    heavy_parts: int = constant(
        32, "parts", "of a heavy value for each partition that it fills, so that a hash spreads them evenly", CHOSEN
    )
    heavy_part_values: int = constant(
        4, "values for each part", "or more have the columns whose hash divides the rows of a heavy value", CHOSEN
    )
    heavy_parts_max: int = constant(4096, "parts", "of a heavy value at most", CHOSEN)
    bounds_cuts: int = constant(256, "cuts", "at which the rows of overlapping parts are added up", CHOSEN)
    replan_error: float = constant(
        4.0, "times", "rows of an exchange that are so many times more or fewer than estimated are looked at", CHOSEN
    )
    replan_rows: int = constant(100_000, "rows", "an exchange of fewer rows, estimated and true, is not", CHOSEN)
    replan_skew: float = constant(
        2.0,
        "times",
        "a partition that is so many times larger than the largest was expected to be is looked at",
        CHOSEN,
    )
    replan_skew_bytes: float = constant(
        256e6,
        "bytes",
        "a smaller partition is not (spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes)",
        SPARK,
    )
    replan_gain: float = constant(
        1.3, "times", "a running plan is replaced if what is left of it takes so many times the new one", CHOSEN
    )
    replan_seconds: float = constant(1.0, "seconds", "and if that is more", CHOSEN)
    replans: int = constant(2, "plans", "a script is planned again at most so often", CHOSEN)
    normalize_rounds: int = constant(5, "rounds", "most plans settle after two", CHOSEN)
    rule_firings: int = constant(100, "firings", "a rule that fires more often on one operator undoes another", CHOSEN)


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How much the search tries."""

    expressions: int = constant(2000, "expressions", "the budget of the memo", CHOSEN)
    steps: int = constant(200_000, "steps", "then the search takes the first plan it finds", CHOSEN)
    interesting_sets: int = constant(8, "column sets", "kept by a group from above, and from below", CHOSEN)
    candidate_sets: int = constant(8, "column sets", "tried by an exchange", CHOSEN)
    aligned_key_sets: int = constant(8, "key sets", "tried for co-partitioned inputs", CHOSEN)
    aligned_partition_counts: int = constant(6, "numbers of partitions", "tried for co-partitioned inputs", CHOSEN)
    spool_plans: int = constant(3, "plans", "tried for a shared rowset, the cheapest first", CHOSEN)
    output_partition_growth: float = constant(
        4.0, "times the default", "rows are stored as they lie, if their partitions are at most so much larger", CHOSEN
    )
    known_range_share: float = constant(
        0.5, "of the rows", "stored ranges describe the rows of an output only if at least this share is left", CHOSEN
    )
    bound_slack: float = constant(
        0.98,
        "of a plan's cost",
        "what a solved goal says about stricter ones: partition counts are rules of thumb",
        CHOSEN,
    )
    raised_limit: float = constant(
        4.0, "of the last limit", "the limit at which a failed goal is searched again", CHOSEN
    )
    even_share: float = constant(
        1.05, "of a core's share of the rows", "partitions of at most this are not searched for smaller ones", CHOSEN
    )
    smaller_partition: float = constant(1 - 1e-9, "of the largest partition", "strictly smaller", CHOSEN)


@dataclass(frozen=True, slots=True)
class EffortConstants:
    """Whether planning a DataFrame pays."""

    straight_byte: float = constant(
        11e-9, _PER_BYTE, "plain Spark reads, filters, joins and groups a byte of a Parquet column", BY_HAND
    )
    straight_exchange: float = constant(
        0.06, "seconds", "plain Spark plans and starts a join, a grouping, a window or a sort, data aside", BY_HAND
    )
    saved_share: float = constant(0.25, "of plain Spark's time", "what a plan of ours saves on average", BY_HAND)
    planning_start: float = constant(0.03, "seconds", "plan a DataFrame, operators aside", BY_HAND)
    planning_operator: float = constant(
        0.0025, "seconds per operator", "read, plan and lower an operator of a DataFrame", BY_HAND
    )


@dataclass(frozen=True, slots=True)
class AssumedStatistics:
    """What is assumed where nothing is known. docs/statistics.md explains them."""

    table_rows: float = constant(1_000_000.0, "rows", "a table that only Spark knows", CHOSEN)
    distinct_share: float = constant(0.1, "of the rows", "distinct values of a column, neither key nor boolean", CHOSEN)
    range_condition: float = constant(1 / 3, "of the rows", "column < value, and other ranges", CHOSEN)
    interval_condition: float = constant(
        1 / 4, "of the rows", "a range with both ends; each further literal of LIKE", CHOSEN
    )
    like_literal: float = constant(0.1, "of the rows", "the first literal of a LIKE pattern", CHOSEN)
    like_prefix: float = constant(0.01, "of the rows", "LIKE 'prefix%' keeps at least this without statistics", CHOSEN)
    is_null: float = constant(0.01, "of the rows", "IS NULL", CHOSEN)
    subquery: float = constant(0.5, "of the rows", "EXISTS and IN (query)", CHOSEN)
    unknown_condition: float = constant(1 / 3, "of the rows", "a condition that is not understood", CHOSEN)
    boolean_column: float = constant(0.5, "of the rows", "a boolean column", CHOSEN)
    unmatched_share: float = constant(0.01, "of the rows", "an anti-join keeps at least this", CHOSEN)
    intersection: float = constant(0.5, "of what it could keep", "INTERSECT and EXCEPT", CHOSEN)


@dataclass(frozen=True, slots=True)
class LookLimits:
    """How much of the data is looked at when a query is planned."""

    complete_rows: int = constant(300_000, "rows", "all rows of a table with at most this many are looked at", BY_HAND)
    sampled_rows: int = constant(20_000, "rows", "of a larger table", BY_HAND)
    row_groups: int = constant(16, "row groups", "of a larger table are read at most", BY_HAND)
    decoded_rows: int = constant(12_000_000, "rows", "of a column are decoded at most to sample it", BY_HAND)
    worth_rows: int = constant(
        20_000,
        "rows",
        "of all tables of a query together: with fewer, every plan is fast and none is looked at",
        CHOSEN,
    )
    files: int = constant(64, "files", "a table of more files is not looked at", CHOSEN)
    tables: int = constant(128, "tables", "whose values are kept", CHOSEN)
    kept_bytes: float = constant(64e6, "bytes", "of values are kept for the next query", CHOSEN)
    min_rows: int = constant(8, "rows", "fewer rows of a sample tell too little", CHOSEN)
    min_repeated: int = constant(5, "values", "that occur twice in a sample tell how many there are in all", CHOSEN)
    rare_share: float = constant(
        0.1, "of the values in a sample", "may occur only once if none repeats: the others are nearly all", CHOSEN
    )
    covered_share: float = constant(
        0.7,
        "of the rows of a sample",
        "have values that occur more than once: then it tells how many there are",
        CHOSEN,
    )
    repeated_groups: int = constant(
        10, "rows of a sample for each group", "if there are so many, hardly any group is missing", CHOSEN
    )
    narrowed_share: float = constant(
        0.9, "of the rows of a side of a join", "or fewer are within the keys of the other: they are counted", CHOSEN
    )
    profiled_rows: int = constant(20_000, "rows", "the columns of more joined rows are not counted again", BY_HAND)
    joined_rows: int = constant(200_000, "rows", "a join that makes more rows of two samples is not tried", CHOSEN)


COST = CostConstants()
THRESHOLDS = RuleThresholds()
SEARCH = SearchLimits()
EFFORT = EffortConstants()
ASSUMED = AssumedStatistics()
LOOKS = LookLimits()


def _rows() -> Iterator[Constant]:
    for group in (MachineConstants(), COST, THRESHOLDS, SEARCH, EFFORT, ASSUMED, LOOKS):
        for each in fields(group):
            yield Constant(type(group).__name__, each.name, getattr(group, each.name), **each.metadata)


TABLE = tuple(_rows())
