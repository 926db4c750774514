"""Normalization: every rewrite that always helps, in the order in which it is applied before the search.

| phase                   | direction        | repeated                                                            |
|-------------------------|------------------|---------------------------------------------------------------------|
| `UNNEST`                | leaves to root   | once: subqueries become joins                                       |
| `prune_columns`         | whole plan       | once                                                                |
| `PUSH_PREDICATES`       | root to leaves   | until `SIMPLIFY` changes nothing                                    |
| `PUSH_SEMI_JOINS`       | leaves to root   | |
| `drop_renames`          | whole plan       | |
| `ELIMINATE_CROSS_JOINS` | root to leaves   | |
| `SIMPLIFY`              | leaves to root   | |
| `prune_columns`         | whole plan       | with all phases since `PUSH_PREDICATES`, until `REMOVE_REDUNDANT`   |
| `REMOVE_REDUNDANT`      | leaves to root   | changes nothing                                                     |

A round repeats because pruning enables more: a join whose columns nobody reads can be eliminated, and predicates then move
past the place where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from unshuffle.constants import THRESHOLDS
from unshuffle.errors import InternalError
from unshuffle.normalize.aggregates.distinct_aggregates import distinct_aggregates_as_group_by, drop_redundant_distinct
from unshuffle.normalize.aggregates.grouping_sets import grouping_sets_as_expand
from unshuffle.normalize.aggregates.percentiles import merge_percentiles
from unshuffle.normalize.aggregates.pick_aggregates import aggregate_of_constant, merge_pick_aggregates
from unshuffle.normalize.aggregates.sorted_lists import sort_collected_numbers
from unshuffle.normalize.joins.eliminate_cross_joins import eliminate_cross_joins
from unshuffle.normalize.joins.eliminate_joins import (
    drop_distinct_below_semi_join,
    drop_outer_join,
    drop_outer_join_below_distinct,
    drop_repeated_equalities,
)
from unshuffle.normalize.joins.join_keys import compute_join_keys, compute_sort_keys
from unshuffle.normalize.joins.semi_join_pushdown import push_semi_join_into_join, push_semi_join_through_project
from unshuffle.normalize.predicates.empty_inputs import drop_empty_input, drop_empty_unions, drop_join_with_empty
from unshuffle.normalize.predicates.infer_predicates import (
    factor_disjunctions,
    infer_across_join,
    infer_from_disjunctions,
)
from unshuffle.normalize.predicates.join_predicate_pushdown import (
    has_outer_joins,
    null_test_as_anti_join,
    push_join_condition,
    push_through_join,
    simplify_outer_joins,
)
from unshuffle.normalize.predicates.part_pruning import prune_parts, prune_parts_across_join
from unshuffle.normalize.predicates.predicate_pushdown import (
    drop_rejected_grouping_sets,
    drop_true_conjuncts,
    merge_filters,
    push_through_expand,
    push_through_group_by,
    push_through_grouping_sets,
    push_through_process,
    push_through_project,
    push_through_reduce,
    push_through_set_operation,
    push_through_sort,
    push_through_window,
)
from unshuffle.normalize.predicates.scan_pruning import prune_scan
from unshuffle.normalize.predicates.shared_filters import filter_shared_rowsets
from unshuffle.normalize.projections.column_pruning import DROP_WINDOW, Pruned, prune_columns
from unshuffle.normalize.projections.merge_projections import drop_identity_project, limit_below_project, merge_projects
from unshuffle.normalize.projections.remove_renames import drop_renames
from unshuffle.normalize.redundant_operators import (
    decide_filter,
    distinct_of_unique,
    drop_limit,
    group_by_of_unique,
    shorten_sort,
    simplify_reflexive,
)
from unshuffle.normalize.rewriting import Rewrite, Rewriting
from unshuffle.normalize.set_operations import (
    distinct_as_group_by,
    except_as_anti_join,
    flatten_unions,
    intersect_as_semi_join,
    union_as_group_by,
)
from unshuffle.normalize.sorts.remove_redundant_sorts import remove_redundant_sort
from unshuffle.normalize.subqueries.unnest import (
    unnest_aggregates,
    unnest_filter,
    unnest_join,
    unnest_project,
    unnest_window,
)
from unshuffle.normalize.traversal import Done, ascend, descend
from unshuffle.normalize.windows.split_windows import compute_window_expressions, split_windows
from unshuffle.plan.logical import MultiOutput, Plan, Script, has_subqueries
from unshuffle.plan.rebuild import Change

# --- the rules, in the order in which they are tried on an operator

UNNEST = (unnest_filter, unnest_project, unnest_aggregates, unnest_window, unnest_join)

OUTER_JOINS = (simplify_outer_joins, null_test_as_anti_join)
PUSH_THROUGH_JOINS = (*OUTER_JOINS, push_through_join, push_join_condition)
PUSH_THROUGH_OTHERS = (
    drop_true_conjuncts,
    merge_filters,
    push_through_project,
    push_through_group_by,
    drop_rejected_grouping_sets,
    push_through_grouping_sets,
    push_through_expand,
    push_through_window,
    push_through_sort,
    push_through_set_operation,
    push_through_process,
    push_through_reduce,
)
PUSH_PREDICATES = (*PUSH_THROUGH_JOINS, *PUSH_THROUGH_OTHERS)

PUSH_SEMI_JOINS = (push_semi_join_into_join, push_semi_join_through_project)

ELIMINATE_CROSS_JOINS = (eliminate_cross_joins,)

# SQL's conveniences in terms of the few operators that the search knows, over columns rather than expressions.
DESUGAR = (
    remove_redundant_sort,
    distinct_as_group_by,
    flatten_unions,
    union_as_group_by,
    intersect_as_semi_join,
    except_as_anti_join,
    grouping_sets_as_expand,
    compute_window_expressions,
    split_windows,
    drop_redundant_distinct,
    distinct_aggregates_as_group_by,
    merge_percentiles,
    sort_collected_numbers,
    compute_join_keys,
    compute_sort_keys,
)
MERGE_PROJECTIONS = (drop_identity_project, merge_projects, limit_below_project)
EMPTY_INPUTS = (drop_empty_input, drop_join_with_empty, drop_empty_unions)
SIMPLIFY = (
    *DESUGAR,
    aggregate_of_constant,
    merge_pick_aggregates,
    *MERGE_PROJECTIONS,
    *EMPTY_INPUTS,
    factor_disjunctions,
    infer_across_join,
    infer_from_disjunctions,
    simplify_reflexive,
    decide_filter,
)

REMOVE_REDUNDANT = (
    *MERGE_PROJECTIONS,
    group_by_of_unique,
    distinct_of_unique,
    shorten_sort,
    drop_limit,
    simplify_reflexive,
    decide_filter,
    drop_repeated_equalities,
    drop_distinct_below_semi_join,
    drop_outer_join,
    drop_outer_join_below_distinct,
    prune_scan,
    prune_parts,
    prune_parts_across_join,
)

WHOLE_PLAN = (drop_renames, prune_columns, filter_shared_rowsets)

ALL_PHASES = (UNNEST, PUSH_PREDICATES, PUSH_SEMI_JOINS, ELIMINATE_CROSS_JOINS, SIMPLIFY, REMOVE_REDUNDANT, WHOLE_PLAN)
RULES: frozenset[Callable[..., Any]] = frozenset(rule for phase in ALL_PHASES for rule in phase)
if len({rule.__name__ for rule in RULES}) < len(RULES):
    raise InternalError("two normalization rules have the same name, so neither can be disabled")

# A rowset may be used by another one, whose filter is known after the first round.
_ROUNDS_OF_SHARED = 2

Traversal = Callable[[Plan, Sequence[Rewrite], Rewriting, bool, Done], Plan]


class _Normalization:
    """The phases of one plan's normalization. Each phase remembers the operators that its rules need not see again."""

    def __init__(self, plan: Plan, context: Rewriting) -> None:
        nested = has_subqueries(plan)
        self._context, self._nested = context, nested

        def phase(traverse: Traversal, rules: Sequence[Rewrite]) -> Change:
            done = Done()
            return lambda plan: traverse(plan, rules, context, nested, done)

        # No rule creates an outer join, and these rules search for one below every predicate.
        unneeded = () if has_outer_joins(plan) else OUTER_JOINS
        self._push_predicates = phase(descend, [rule for rule in PUSH_PREDICATES if rule not in unneeded])
        self._push_semi_joins = phase(ascend, PUSH_SEMI_JOINS)
        self._eliminate_cross_joins = phase(descend, ELIMINATE_CROSS_JOINS)
        self._simplify = phase(ascend, SIMPLIFY)
        self._remove_redundant = phase(ascend, REMOVE_REDUNDANT)
        self._pruned: Pruned = {}

    def result(self, plan: Plan) -> Plan:
        # First of all: an aggregate of distinct values that nobody reads would become grouping columns, which stay.
        plan = prune_columns(plan, self._context, self._nested, self._pruned)
        for round_ in range(THRESHOLDS.normalize_rounds):
            windows = self._context.fired[DROP_WINDOW]
            settled = self._settled(plan)
            if round_ < _ROUNDS_OF_SHARED:
                filtered = filter_shared_rowsets(settled, self._context, self._nested)
                settled = settled if filtered is settled else self._settled(filtered)
            pruned = prune_columns(settled, self._context, self._nested, self._pruned)
            plan = self._remove_redundant(pruned)
            if plan is pruned and self._context.fired[DROP_WINDOW] == windows:
                break
        return plan

    def _settled(self, plan: Plan) -> Plan:
        """Predicates pushed down as far as they go, with everything that follows from them."""
        for _ in range(THRESHOLDS.normalize_rounds):
            plan = self._push_predicates(plan)
            plan = self._push_semi_joins(plan)
            plan = drop_renames(plan, self._context, self._nested)
            plan = self._eliminate_cross_joins(plan)
            simplified = self._simplify(plan)
            if simplified is plan:
                break
            plan = simplified
        return plan


def normalize(plan: Plan, context: Rewriting) -> Plan:
    """The same rows and columns, with filters at the scans and without columns that nobody reads."""
    if has_subqueries(plan):
        plan = ascend(plan, UNNEST, context)
    return _Normalization(plan, context).result(plan)


def normalize_script(script: Script, context: Rewriting) -> Script:
    """Normalizes all outputs of a script as inputs of one operator, so that shared rowsets stay shared."""
    together = normalize(MultiOutput(tuple(output.plan for output in script.outputs)), context)
    plans = zip(script.outputs, together.children, strict=True)
    return replace(script, outputs=tuple(replace(output, plan=plan) for output, plan in plans))
