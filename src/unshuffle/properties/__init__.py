"""The algebra of structural properties: what is known of rows and of their layout, what follows, and what is missing.

    facts      dependencies, equality, cover, carry, carry_join   what holds of the values
    formulas   structure                                         grouped, sorted, partitioned
    layouts    functions, delivered, layouts, through             what a plan delivers, function named
    wishes     required, requirements, joint                      what operators require, alone and together
    reasoning  match, match_local, match_global, rules, proof, normal   the inference rules: a proof, or what is missing
    exchanges  exchange, derive                                  what moving rows does to all this
    meaning                                                      every claim, checked on rows

`match(delivered, required, facts)` is the front door. Pure Python; nothing here knows an operator or an engine.
"""

from unshuffle.catalog.joins import JoinKind
from unshuffle.properties.carry import Computed, Predicate, distinct, group_by, project, select, union
from unshuffle.properties.carry_join import Side, join
from unshuffle.properties.cover import candidate_keys, minimal_cover, restrict
from unshuffle.properties.delivered import Delivered, Partitioned, Partitioning, formula, hashed, partitions_of, ranged
from unshuffle.properties.dependencies import (
    NOTHING_KNOWN,
    Dependencies,
    constant_column,
    depends,
    equality,
    of_table,
    sql_unique,
)
from unshuffle.properties.derive import ExchangeError, exchange, merged_local
from unshuffle.properties.equality import Constant, EqualColumns, interchangeable
from unshuffle.properties.exchange import (
    ConcatMerge,
    Exchange,
    FullMerge,
    InitialPartitioning,
    Merge,
    PartialMerge,
    PartialPartitioning,
    RandomMerge,
    Repartitioning,
    Scheme,
    SortConcatMerge,
    SortMerge,
)
from unshuffle.properties.functions import (
    HashFunction,
    Named,
    PartitionFunction,
    RangeFunction,
    RangeKey,
    Regrouped,
    Sampled,
    Split,
    Unknown,
)
from unshuffle.properties.joint import match_joint
from unshuffle.properties.match import implies, match, match_partitioning
from unshuffle.properties.match_global import match_global
from unshuffle.properties.match_local import match_local
from unshuffle.properties.normal import normal_facts, normal_global, normal_local
from unshuffle.properties.proof import (
    MissingOrder,
    MissingPartitioning,
    Proof,
    Push,
    Rule,
    Step,
    Unaligned,
    Unmet,
)
from unshuffle.properties.required import (
    Alternative,
    Anyhow,
    Clustered,
    CoPartitioned,
    Covered,
    Covers,
    EveryPartition,
    Exactly,
    JoinKey,
    Joint,
    OnePartition,
    RangeOrdered,
    Required,
    RequiredPartitioning,
)
from unshuffle.properties.rules import check, first_bad_step
from unshuffle.properties.structure import (
    Action,
    Covering,
    Global,
    Grouped,
    Local,
    Ordered,
    Replicated,
    Scattered,
    Serial,
    Sorted,
    asc,
    desc,
    grouped,
    ordered,
)

__all__ = [
    "NOTHING_KNOWN",
    "Action",
    "Alternative",
    "Anyhow",
    "Clustered",
    "CoPartitioned",
    "Computed",
    "ConcatMerge",
    "Constant",
    "Covered",
    "Covering",
    "Covers",
    "Delivered",
    "Dependencies",
    "EqualColumns",
    "EveryPartition",
    "Exactly",
    "Exchange",
    "ExchangeError",
    "FullMerge",
    "Global",
    "Grouped",
    "HashFunction",
    "InitialPartitioning",
    "JoinKey",
    "JoinKind",
    "Joint",
    "Local",
    "Merge",
    "MissingOrder",
    "MissingPartitioning",
    "Named",
    "OnePartition",
    "Ordered",
    "PartialMerge",
    "PartialPartitioning",
    "PartitionFunction",
    "Partitioned",
    "Partitioning",
    "Predicate",
    "Proof",
    "Push",
    "RandomMerge",
    "RangeFunction",
    "RangeKey",
    "RangeOrdered",
    "Regrouped",
    "Repartitioning",
    "Replicated",
    "Required",
    "RequiredPartitioning",
    "Rule",
    "Sampled",
    "Scattered",
    "Scheme",
    "Serial",
    "Side",
    "SortConcatMerge",
    "SortMerge",
    "Sorted",
    "Split",
    "Step",
    "Unaligned",
    "Unknown",
    "Unmet",
    "asc",
    "candidate_keys",
    "check",
    "constant_column",
    "depends",
    "desc",
    "distinct",
    "equality",
    "exchange",
    "first_bad_step",
    "formula",
    "group_by",
    "grouped",
    "hashed",
    "implies",
    "interchangeable",
    "join",
    "match",
    "match_global",
    "match_joint",
    "match_local",
    "match_partitioning",
    "merged_local",
    "minimal_cover",
    "normal_facts",
    "normal_global",
    "normal_local",
    "of_table",
    "ordered",
    "partitions_of",
    "project",
    "ranged",
    "restrict",
    "select",
    "sql_unique",
    "union",
]
