"""The facts about an operator's result, derived from the facts about its inputs: functional dependencies, equal columns,
constants, keys, and columns that are never NULL (ICDE 2010, section IV-A).

The inference is in `properties.facts.propagate` and `properties.facts.propagate_join`; this file expresses the operators in
its terms. Facts belong to the relation, not to one plan for it, so a memo group derives them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, Dependency
from unshuffle.plan.expressions import AggregateCall, Case, Expression, Literal, Ref, columns_of
from unshuffle.plan.logical import (
    Combine,
    Distinct,
    Expand,
    Filter,
    FinalGroupBy,
    Foreign,
    GroupBy,
    GroupingSets,
    Join,
    Limit,
    MultiOutput,
    PartialGroupBy,
    PartialTopN,
    Plan,
    Process,
    Project,
    Reduce,
    Reference,
    Scan,
    SetKind,
    SetOperation,
    Shared,
    Sort,
    TableScan,
    Values,
    Window,
)
from unshuffle.plan.predicates import (
    depends_on_inputs_only,
    fixed_columns,
    is_deterministic,
    join_condition,
    predicate_of,
    true_if_true,
)
from unshuffle.properties import (
    NO_FACTS,
    ComputedColumn,
    Dependencies,
    EqualColumns,
    Predicate,
    Side,
    distinct,
    extended,
    group_by,
    interchangeable,
    join,
    of_table,
    project,
    restrict,
    select,
    union,
)

Facts = Dependencies


def facts_of(plan: Plan, inputs: Sequence[Facts]) -> Facts:
    """The facts of an operator's result. `inputs` are the facts of its children."""
    return _RULES[type(plan)](plan, inputs)


def has_facts(plan: object) -> bool:
    """Can facts be derived from this operator? Not from one that only stands for others, such as a GroupRef."""
    return type(plan) in _RULES


def facts_of_tree(plan: Plan) -> Facts:
    """The facts of a whole plan, bottom up."""
    return facts_of(plan, [facts_of_tree(child) for child in plan.children])


def _leaf(plan: Any, inputs: Sequence[Facts]) -> Facts:
    return of_table(plan.columns)


def _scan(plan: Scan | TableScan, inputs: Sequence[Facts]) -> Facts:
    return of_table(plan.columns, plan.keys, plan.dependencies)


def _values(plan: Values, inputs: Sequence[Facts]) -> Facts:
    if len(plan.rows) > 1:
        return of_table(plan.columns)
    return _one_row(of_table(plan.columns))


def _one_row(facts: Facts) -> Facts:
    """The facts of at most one row: the empty set is a key."""
    return Dependencies.of(facts.functional, facts.classes, (frozenset(),), facts.never_null, facts.lax)


def _project(plan: Project, inputs: Sequence[Facts]) -> Facts:
    return projected(inputs[0], plan.outputs)


def projected(facts: Facts, outputs: Sequence[tuple[Column, Expression]]) -> Facts:
    kept: list[Column] = []
    renamed: dict[Column, Column] = {}
    computed: list[ComputedColumn] = []
    literals: list[tuple[Column, object]] = []
    plain: list[Column] = []
    for column, expression in outputs:
        match expression:
            case Ref(column=source) if source == column:
                kept.append(column)
            case Ref(column=source):
                renamed[column] = source
            case Literal(value=value):
                literals.append((column, value))
            case _ if depends_on_inputs_only(expression):
                computed.append(ComputedColumn(column, columns_of(expression), never_null=not column.nullable))
            case _:
                plain.append(column)
    # A column without facts is kept as well, so that it can be known never to be NULL.
    not_null = [column for column in plain if not column.nullable]
    facts = (
        Dependencies.of(facts.functional, facts.classes, facts.keys, facts.never_null | frozenset(not_null), facts.lax)
        if not_null
        else facts
    )
    return _with_extended(project(facts, (*kept, *plain), renamed, computed, literals), facts, outputs)


def _with_extended(result: Facts, facts: Facts, outputs: Sequence[tuple[Column, Expression]]) -> Facts:
    """The facts of columns that are NULL unless a condition holds, as a rewritten outer join has them: those of the side that
    a join NULL-extends, with the rows for which the condition holds as its matches."""
    guarded: dict[Expression, list[tuple[Column, Expression]]] = {}
    for column, expression in outputs:
        match expression:
            case Case(branches=((condition, value),), otherwise=None) if is_deterministic(condition):
                guarded.setdefault(true_if_true(condition), []).append((column, value))
            case _:
                pass
    for condition, values in guarded.items():
        if len(values) > 1:
            inner = projected(filtered(facts, condition), values)
            more = extended(Side(frozenset(column for column, _ in values), inner), inner.never_null)
            result = Dependencies.of(
                (*result.functional, *more.functional),
                (*result.classes, *more.classes),
                result.keys,
                result.never_null,
                (*result.lax, *more.lax),
            )
    return result


def _filter(plan: Filter, inputs: Sequence[Facts]) -> Facts:
    return filtered(inputs[0], plan.predicate)


def filtered(facts: Facts, condition: Expression | None) -> Facts:
    return _with_fixed(select(facts, predicate_of(condition)), fixed_columns(condition))


def _with_fixed(facts: Facts, columns: Any) -> Facts:
    fixed = frozenset(column for column in columns if facts.constant(column) is None)
    if not fixed:
        return facts
    known = (*facts.functional, Dependency(frozenset(), fixed))
    return Dependencies.of(known, facts.classes, facts.keys, facts.never_null, facts.lax)


def _group_by(plan: GroupBy, inputs: Sequence[Facts]) -> Facts:
    return _never_null(group_by(inputs[0], plan.keys, [c for c, _ in plan.aggregates]), [c for c, _ in plan.aggregates])


def _never_null(facts: Facts, columns: Sequence[Column]) -> Facts:
    not_null = frozenset(column for column in columns if not column.nullable)
    if not not_null:
        return facts
    return Dependencies.of(facts.functional, facts.classes, facts.keys, facts.never_null | not_null, facts.lax)


def _partial_group_by(plan: PartialGroupBy, inputs: Sequence[Facts]) -> Facts:
    """A group has a row in each partition, so the keys are not unique yet."""
    facts = restrict(inputs[0], plan.keys)
    return Dependencies.of(facts.functional, facts.classes, (), facts.never_null, facts.lax)


def _final_group_by(plan: FinalGroupBy, inputs: Sequence[Facts]) -> Facts:
    made = [column for column, _ in plan.aggregates]
    return _never_null(group_by(inputs[0], plan.keys, made), made)


def _grouping_sets(plan: GroupingSets, inputs: Sequence[Facts]) -> Facts:
    """Two sets may yield the same keys, such as all NULL. Without the number of the set nothing is unique."""
    return _never_null(NO_FACTS, plan.columns)


def _expand(plan: Expand, inputs: Sequence[Facts]) -> Facts:
    """The copies of a row differ in the number of the set. A key that every set has equals its input column."""
    facts = inputs[0]
    always = {out: source for out, source in plan.keys if all(source in one for one in plan.sets)}
    chosen = [
        Dependency(frozenset((source, plan.number)), frozenset((out,)))
        for out, source in plan.keys
        if out not in always
    ]
    return Dependencies.of(
        (*facts.functional, *(Dependency(key, frozenset(plan.child.columns) - key) for key in facts.keys), *chosen),
        (*facts.classes, *(EqualColumns(frozenset(pair)) for pair in always.items())),
        (key | {plan.number} for key in facts.keys),
        facts.never_null | {plan.number},
        facts.lax,
    )


def _distinct(plan: Distinct, inputs: Sequence[Facts]) -> Facts:
    return distinct(inputs[0], plan.columns)


def _window(plan: Window, inputs: Sequence[Facts]) -> Facts:
    """An aggregate over whole partitions is determined by the PARTITION BY columns."""
    facts = inputs[0]
    known = []
    for column, call in plan.calls:
        by = [part.column for part in call.partition if isinstance(part, Ref)]
        whole = not call.order and call.frame is None and isinstance(call.call, AggregateCall)
        if whole and len(by) == len(call.partition):
            known.append(Dependency(frozenset(by), frozenset((column,))))
    made = [column for column, _ in plan.calls]
    wide = Dependencies.of((*facts.functional, *known), facts.classes, facts.keys, facts.never_null, facts.lax)
    return _never_null(wide, made)


def _same(plan: Sort | PartialTopN | Shared, inputs: Sequence[Facts]) -> Facts:
    return inputs[0]


def _limit(plan: Limit, inputs: Sequence[Facts]) -> Facts:
    return _one_row(inputs[0]) if plan.count is not None and plan.count <= 1 else inputs[0]


def _join(plan: Join, inputs: Sequence[Facts]) -> Facts:
    facts = joined(plan, inputs)
    return facts if plan.kept is None else restrict(facts, plan.kept)


def joined(plan: Join, inputs: Sequence[Facts]) -> Facts:
    """The facts of a join before it drops columns. Its own condition may rely on them."""
    left, right = (Side(frozenset(c.columns), f) for c, f in zip(plan.children, inputs, strict=True))
    condition = join_condition(plan.condition, left.columns, right.columns)
    on = predicate_of(plan.condition)
    pairs = [key.columns for key in condition.keys if not key.null_safe]
    safe = [key.columns for key in condition.keys if key.null_safe]
    on = Predicate(
        tuple((a, b) for a, b in pairs),
        tuple((a, b) for a, b in safe),
        on.constants,
        on.nulls,
        on.not_null,
    )
    extended = (
        right.columns if plan.kind is JoinKind.LEFT else left.columns if plan.kind is JoinKind.RIGHT else frozenset()
    )
    exact = condition.rest is None or columns_of(condition.rest) <= extended
    facts = join(plan.kind, left, right, on, exact=exact and _comparable(plan, condition.keys))
    return _with_fixed(facts, fixed_columns(plan.condition)) if plan.kind is JoinKind.INNER else facts


def _comparable(plan: Join, keys: Sequence[Any]) -> bool:
    return all(interchangeable(*(column.type for column in key.columns)) for key in keys)


def _set_operation(plan: SetOperation, inputs: Sequence[Facts]) -> Facts:
    if plan.whole is not None:
        return facts_of_tree(plan.whole)

    def named(place: int) -> Facts:
        return project(inputs[place], renamed=dict(zip(plan.columns, plan.inputs[place].columns, strict=True)))

    match plan.kind:
        case SetKind.UNION:
            facts = named(0)
            for other, each in zip(inputs[1:], plan.inputs[1:], strict=True):
                facts = union(plan.columns, facts, plan.columns, other, each.columns)
        case SetKind.INTERSECT | SetKind.EXCEPT:
            facts = named(0)
    return facts if plan.all else distinct(facts, plan.columns)


def _process(plan: Process, inputs: Sequence[Facts]) -> Facts:
    """A row may become several, so no key survives. Facts within a row do."""
    facts = inputs[0]
    keys = [Dependency(key, frozenset(plan.child.columns) - key) for key in facts.keys]
    many = Dependencies.of((*facts.functional, *keys), facts.classes, (), facts.never_null, facts.lax)
    return project(many, renamed=dict(plan.readonly))


def _reduce(plan: Reduce, inputs: Sequence[Facts]) -> Facts:
    """Only READONLY columns that are keys keep their facts: others may come from two rows of the group."""
    by = frozenset(plan.keys)
    facts = restrict(inputs[0], by)
    many = Dependencies.of(facts.functional, facts.classes, (), facts.never_null, facts.lax)
    return project(many, renamed={out: source for out, source in plan.readonly if source in by})


def _nothing(plan: Any, inputs: Sequence[Facts]) -> Facts:
    return NO_FACTS


def _reference(plan: Reference, inputs: Sequence[Facts]) -> Facts:
    return project(inputs[0], renamed=dict(zip(plan.columns, plan.rowset.columns, strict=True)))


_RULES: dict[type, Callable[[Any, Sequence[Facts]], Facts]] = {
    Scan: _scan,
    TableScan: _scan,
    Values: _values,
    Project: _project,
    Filter: _filter,
    GroupBy: _group_by,
    PartialGroupBy: _partial_group_by,
    FinalGroupBy: _final_group_by,
    GroupingSets: _grouping_sets,
    Expand: _expand,
    Distinct: _distinct,
    Window: _window,
    Sort: _same,
    Limit: _limit,
    PartialTopN: _same,
    Join: _join,
    SetOperation: _set_operation,
    Process: _process,
    Reduce: _reduce,
    Combine: _nothing,
    Foreign: _leaf,
    MultiOutput: _nothing,
    Shared: _same,
    Reference: _reference,
}
