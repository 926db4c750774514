"""One case of the hunt: tables, settings and a query, all made from a seed.

Sixteen seeds in a row share their tables, because making tables takes longer than a query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from tests.support.hunt.draw import Draw
from tests.support.hunt.frames import Frames
from tests.support.hunt.plans import WITHOUT_EXCHANGES
from tests.support.hunt.queries import Partition, Queries
from tests.support.hunt.schemas import Table, tables
from unshuffle import Session
from unshuffle.explore.rules import RULE_NAMES

SEEDS_PER_TABLES = 16
EXCLUDED = ("PushDownPredicates", "ColumnPruning", "ConstantFolding", "CollapseProject", "InferFiltersFromConstraints",
            "PushPredicateThroughJoin", "CombineUnions", "RemoveRedundantAliases", "NullPropagation")  # fmt: skip
SETTINGS = {
    "spark.sql.ansi.enabled": ["true", "false"],
    "spark.sql.caseSensitive": ["false", "true"],
    "spark.sql.groupByOrdinal": ["true", "false"],
    "spark.sql.orderByOrdinal": ["true", "false"],
    "spark.sql.groupByAliases": ["true", "false"],
    "spark.sql.ansi.doubleQuotedIdentifiers": ["false", "true"],
    "spark.sql.parser.escapedStringLiterals": ["false", "true"],
    "spark.sql.legacy.setopsPrecedence.enabled": ["false", "true"],
    "spark.sql.legacy.ctePrecedencePolicy": ["CORRECTED", "LEGACY"],
    "spark.sql.timestampType": ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"],
    "spark.sql.session.timeZone": ["UTC", "America/Los_Angeles", "Asia/Kathmandu"],
    "spark.sql.adaptive.enabled": ["true", "false"],
    "spark.sql.shuffle.partitions": ["2", "1", "3", "5"],
}
# What these change is how Spark plans and reads, never what a query means.
PLANNING = {
    "spark.sql.autoBroadcastJoinThreshold": ["10485760", "-1", "200"],
    "spark.sql.join.preferSortMergeJoin": ["true", "false"],
    "spark.sql.exchange.reuse": ["true", "false"],
    "spark.sql.sources.bucketing.enabled": ["true", "false"],
    "spark.sql.bucketing.coalesceBucketsInJoin.enabled": ["false", "true"],
    "spark.sql.parquet.enableVectorizedReader": ["true", "false"],
    "spark.sql.parquet.filterPushdown": ["true", "false"],
    "spark.sql.files.maxPartitionBytes": ["134217728", "300"],
    "spark.sql.requireAllClusterKeysForCoPartition": ["true", "false"],
    "spark.sql.requireAllClusterKeysForDistribution": ["false", "true"],
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": ["true", "false"],
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": ["true", "false"],
    "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": ["10GB", "0"],
    "spark.sql.adaptive.coalescePartitions.enabled": ["true", "false"],
    "spark.sql.adaptive.forceOptimizeSkewedJoin": ["false", "true"],
    "spark.sql.cbo.enabled": ["false", "true"],
    "spark.sql.constraintPropagation.enabled": ["true", "false"],
    "spark.sql.inMemoryColumnarStorage.batchSize": ["10000", "3"],
    "spark.sql.optimizer.excludedRules": [
        "",
        *(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in EXCLUDED),
    ],
}
# Most cases run interpreted: generated code takes half of the time of a query over few rows. Not those of strings with a
# collation: interpreted, Spark's own MAX of such strings keeps bytes of a row that is overwritten.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@dataclass(frozen=True, slots=True)
class Case:
    """A query and what it runs under. `text` is SQL, or for a frame a Python expression over `spark` and `F`. `without`
    names rules, and `costs` is a seed for factors of costs; 0 stands for the costs as they are."""

    seed: int
    kind: str
    text: str
    is_ordered: bool
    tables: tuple[Table, ...]
    settings: dict[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    costs: int = 0
    partition: Partition | None = None
    paths: tuple[str, ...] = ()

    @property
    def declared(self) -> tuple[str, ...]:
        """The declarations on the tables that the query names."""
        return tuple(each for table in self.tables if table.name in self.text for each in table.declared)

    def plain(self, spark: SparkSession) -> DataFrame:
        return spark.sql(self.text) if self.kind == "sql" else frame_of(spark, self.text)


def frame_of(spark: SparkSession, text: str) -> DataFrame:
    found = eval(text, {"spark": spark, "F": F})
    assert isinstance(found, DataFrame)
    return found


def tables_of(seed: int, simple: frozenset[str] = frozenset()) -> tuple[tuple[Table, ...], list[str]]:
    """The tables of a case, and the paths of its decisions about them."""
    draw = Draw(seed // SEEDS_PER_TABLES, simple, "tables")
    return tuple(tables(draw)), draw.seen


def case_of(seed: int, simple: frozenset[str] = frozenset()) -> Case:
    known, of_tables = tables_of(seed, simple)
    draw = Draw(seed, simple, "case")
    settings = _settings(draw.at("settings"))
    kind = "sql" if seed % 3 else "frame"
    if kind == "sql":
        made = Queries(known, settings).query(draw.at("query"))
        text, is_ordered = made.text, made.is_ordered
    else:
        text, is_ordered = Frames(known).program(draw.at("query"))
    if "collate" in f"{text} {known}":
        settings = {name: value for name, value in settings.items() if name not in INTERPRETED}
    partition = Queries(known, settings).partition(draw.at("partition")) if kind == "sql" and seed % 4 == 1 else None
    without = tuple(sorted(draw.at("without").some(sorted(RULE_NAMES), 0, 6)))
    costs = 10 * draw.at("costs").number(0, 1_000_000)
    if any(each.following for each in known) and draw.at("in place").chance(0.6):
        costs += WITHOUT_EXCHANGES
    paths = tuple(each for each in (*of_tables, *draw.seen) if "/" in each)
    return Case(seed, kind, text, is_ordered, known, settings, without, costs, partition, paths)


def _settings(draw: Draw) -> dict[str, str]:
    """Spark's defaults, most of them; a setting that is drawn as it is anyway is left out."""
    changed = _changed(draw, SETTINGS, 0.4)
    if draw.at("planning").chance(0.5):
        changed |= _changed(draw.at("planning"), PLANNING, 0.25)
    return changed | (INTERPRETED if draw.at("interpreted").chance(0.75) else {})


def _changed(draw: Draw, settings: dict[str, list[str]], share: float) -> dict[str, str]:
    drawn = {name: draw.at("setting").pick(values) for name, values in settings.items()}
    return {
        name: value for name, value in drawn.items() if value != settings[name][0] and draw.at("changed").chance(share)
    }


@contextmanager
def stored(spark: SparkSession, tables: tuple[Table, ...], folder: Path) -> Iterator[None]:
    """The tables exist while the body runs."""
    drop(spark, tables)
    try:
        for table in tables:
            for statement in table.statements:
                execute(spark, statement.replace("{folder}", str(folder)))
        yield
    finally:
        drop(spark, tables)


def execute(spark: SparkSession, statement: str) -> None:
    if statement.startswith(("session.", "spark.")):
        exec(statement, {"spark": spark, "session": Session(spark, effort="full")})
    else:
        spark.sql(statement)


def drop(spark: SparkSession, tables: tuple[Table, ...]) -> None:
    for table in tables:
        for statement in table.drop:
            spark.sql(statement)
