"""Decorrelation: splits a correlated subquery into a plan that does not read the outer row, and conditions that do.

    select ... from T where T.k = outer.k and T.x > 3      ->      select ... from T where T.x > 3,   T.k = outer.k

Invariant: for every outer row, the rows of `Uncorrelated.plan` that satisfy all conditions are the rows of the subquery, with
their duplicates. A condition is pulled up through the operators above it. Each operator either lets it pass, or the subquery
stays correlated:

| operator          | a condition on columns of its input passes                                                      |
|-------------------|-------------------------------------------------------------------------------------------------|
| Filter, Sort      | always                                                                                          |
| Project           | always; the columns that the condition reads are added to its outputs                           |
| Join              | from both inputs of an inner join; from the preserved input of any other join                   |
| GroupBy by K      | on columns of K always; otherwise only an equality with the outer row, whose column is added to |
|                   | K: the rows of one outer row have one value of it, so groups stay the same                      |
| Window            | only such an equality; its column is added to PARTITION BY                                      |
| Limit of a Sort   | only such an equality: the first rows become the first rows of each value, by row_number()      |
| GroupBy, no keys  | never: it has a row even for an empty input, and a condition above it would drop that row       |
| set operations    | never                                                                                           |

An equality that compares under a cast (a string with a number) adds the cast value to K: '1' and '01' are two strings but one
number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.catalog.type_coercion import common_type
from unshuffle.frozen import dataclass
from unshuffle.normalize.projections.computed_columns import ComputedColumns
from unshuffle.plan.expressions import (
    Call,
    Cast,
    Exists,
    Expression,
    InSubquery,
    Literal,
    Ref,
    ScalarSubquery,
    WindowCall,
    columns_of,
    connect,
    walk,
)
from unshuffle.plan.logical import (
    Distinct,
    Filter,
    GroupBy,
    Join,
    Limit,
    Plan,
    Project,
    Sort,
    Window,
    expressions_of,
)
from unshuffle.plan.logical import walk as operators
from unshuffle.plan.movable_conditions import correlation_columns, substitute
from unshuffle.plan.predicates import conjunction, conjuncts, is_deterministic
from unshuffle.properties import interchangeable

BOOLEAN = pa.bool_()
TRUE = Literal(True, BOOLEAN)
Columns = frozenset[Column]


@dataclass(frozen=True, slots=True)
class Uncorrelated:
    """`late` are columns that depend on the outer row, as expressions over the plan's columns and the outer columns."""

    plan: Plan
    conditions: tuple[Expression, ...]
    late: Mapping[Column, Expression]


def has_subquery(expression: Expression) -> bool:
    return any(isinstance(part, ScalarSubquery | Exists | InSubquery) for part in walk(expression))


def reads(plan: Plan, outer: Columns) -> bool:
    return any(columns_of(e) & outer for node in operators(plan) for e in expressions_of(node))


def substituted(expression: Expression, values: Mapping[Column, Expression]) -> Expression | None:
    """The expression with columns replaced; None if a subquery's plan reads one of them."""
    if not values:
        return expression
    return substitute(expression, values) if correlation_columns(expression).isdisjoint(values) else None


# --- pulling conditions up


def pull(plan: Plan, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    """The plan without its references to `outer` columns, or None if they cannot be removed."""
    if not reads(plan, outer):
        return Uncorrelated(plan, (), {})
    match plan:
        case Filter():
            return _filter(plan, outer, numbers)
        case Project():
            return _project(plan, outer, numbers)
        case Join():
            return _join(plan, outer, numbers)
        case GroupBy():
            return _group_by(plan, outer, numbers)
        case Distinct(child):
            return _group_by(GroupBy(child, child.columns, ()), outer, numbers)
        case Window():
            return _window(plan, outer, numbers)
        case Sort(child):
            return pull(child, outer, numbers)
        case Limit(Project(below, outputs), count, offset):
            return _project(Project(Limit(below, count, offset), outputs), outer, numbers)
        case Limit(Sort()):
            return _limit(plan, outer, numbers)
        case _:
            return None


def _filter(plan: Filter, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    below = pull(plan.child, outer, numbers)
    if below is None:
        return None
    split = _split(plan.predicate, below.late, outer)
    if split is None:
        return None
    stay, pulled = split
    kept = Filter(below.plan, stay) if stay is not None else below.plan
    return Uncorrelated(kept, (*below.conditions, *pulled), below.late)


def _split(
    condition: Expression | None, late: Mapping[Column, Expression], outer: Columns
) -> tuple[Expression | None, list[Expression]] | None:
    """The conjuncts that stay and those that must be pulled up; None if one that must be pulled up cannot."""
    stay: list[Expression] = []
    pulled: list[Expression] = []
    for each in conjuncts(condition):
        whole = substituted(each, late)
        if whole is None:
            return None
        for part in factored(whole) if columns_of(whole) & outer else (whole,):
            if not columns_of(part) & outer:
                stay.append(part)
            elif has_subquery(part) or not is_deterministic(part):
                return None
            else:
                pulled.append(part)
    return conjunction(stay), pulled


def factored(condition: Expression) -> Sequence[Expression]:
    """(a and b) or (a and c) as a, b or c. Distribution and absorption hold in three-valued logic too."""
    if not isinstance(condition, Call) or condition.function != "or":
        return (condition,)
    choices = [conjuncts(part) for part in condition.arguments]
    common = [part for part in choices[0] if all(part in choice for choice in choices[1:])]
    if not common:
        return (condition,)
    rests = [conjunction(part for part in choice if part not in common) for choice in choices]
    present = [rest for rest in rests if rest is not None]
    return (*common, connect("or", present)) if len(present) == len(rests) else common


def _project(plan: Project, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    below = pull(plan.child, outer, numbers)
    if below is None:
        return None
    outputs: list[tuple[Column, Expression]] = []
    late: dict[Column, Expression] = {}
    for column, expression in plan.outputs:
        whole = substituted(expression, below.late)
        if whole is None:
            return None
        if not columns_of(whole) & outer:
            outputs.append((column, whole))
        elif has_subquery(whole) or not is_deterministic(whole):
            return None
        else:
            late[column] = whole
    made = {column for column, _ in outputs}
    needed = _needed((*below.conditions, *late.values()), outer) - made
    outputs += [(column, Ref(column)) for column in in_order(needed)]
    return Uncorrelated(Project(below.plan, tuple(outputs)), below.conditions, late)


def _needed(expressions: Iterable[Expression], outer: Columns) -> Columns:
    return frozenset(column for each in expressions for column in columns_of(each)) - outer


def in_order(columns: Iterable[Column]) -> list[Column]:
    return sorted(columns, key=lambda column: column.id)


def _join(plan: Join, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    left, right = pull(plan.left, outer, numbers), pull(plan.right, outer, numbers)
    if left is None or right is None:
        return None
    late = {**left.late, **right.late}
    split = _split(plan.condition, late, outer)
    if split is None:
        return None
    stay, pulled = split
    match plan.kind:
        case JoinKind.INNER:
            passes = True
        case JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI:
            passes = not pulled and not right.conditions and not right.late
        case JoinKind.RIGHT:
            passes = not pulled and not left.conditions and not left.late
        case JoinKind.FULL:
            passes = False
    if not passes:
        return None
    conditions = (*left.conditions, *right.conditions, *pulled)
    kept = plan.kept
    if kept is not None:
        needed = _needed((*conditions, *late.values()), outer) - frozenset(kept)
        kept = (*(column for column in kept if column not in late), *in_order(needed))
    return Uncorrelated(replace(plan, left=left.plan, right=right.plan, condition=stay, kept=kept), conditions, late)


def _group_by(plan: GroupBy, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    below = pull(plan.child, outer, numbers)
    if below is None or not plan.keys or not _computable(plan, below, outer):
        return None
    keyed = by_keys(below, outer, numbers, frozenset(plan.keys))
    if keyed is None:
        return None
    keys = tuple(dict.fromkeys((*plan.keys, *keyed.keys)))
    return Uncorrelated(GroupBy(keyed.plan, keys, plan.aggregates), keyed.conditions, {})


def _window(plan: Window, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    below = pull(plan.child, outer, numbers)
    if below is None or not _computable(plan, below, outer):
        return None
    keyed = by_keys(below, outer, numbers)
    if keyed is None:
        return None
    more = tuple(Ref(column) for column in keyed.keys)
    calls = tuple((c, replace(w, partition=tuple(dict.fromkeys((*w.partition, *more))))) for c, w in plan.calls)
    return Uncorrelated(Window(keyed.plan, calls), keyed.conditions, below.late)


def _limit(plan: Limit, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    assert isinstance(plan.child, Sort)
    order = plan.child.order
    below = pull(plan.child.child, outer, numbers)
    if below is None or not _computable(plan.child, below, outer):
        return None
    keyed = by_keys(below, outer, numbers)
    if keyed is None:
        return None
    place = numbers.new("place", pa.int32(), nullable=False)
    call = WindowCall(Call("row_number", (), place.type), tuple(map(Ref, keyed.keys)), order, None)
    first: list[Expression] = []
    if plan.offset:
        first.append(Call(">", (Ref(place), Literal(plan.offset, pa.int32())), BOOLEAN))
    if plan.count is not None:
        first.append(Call("<=", (Ref(place), Literal(plan.offset + plan.count, pa.int32())), BOOLEAN))
    numbered = Window(keyed.plan, ((place, call),))
    return Uncorrelated(Filter(numbered, connect("and", first or [TRUE])), keyed.conditions, below.late)


def _computable(plan: Plan, below: Uncorrelated, outer: Columns) -> bool:
    """Can the operator itself be computed without the outer row?"""
    return all(columns_of(e).isdisjoint(outer | below.late.keys()) for e in expressions_of(plan))


# --- equalities with the outer row


@dataclass(frozen=True, slots=True)
class Keyed:
    """A plan whose conditions are equalities of its columns `keys` with the outer row, or do not read the plan."""

    plan: Plan
    keys: tuple[Column, ...]
    conditions: tuple[Expression, ...]
    never_null: tuple[Column, ...]  # keys that are not NULL in a matching row


def by_keys(below: Uncorrelated, outer: Columns, numbers: ColumnNumbers, free: Columns = frozenset()) -> Keyed | None:
    """The conditions as equalities of columns. Conditions that read only `free` columns of the plan may have any form."""
    computed = ComputedColumns(numbers)
    keys: list[Column] = []
    never_null: list[Column] = []
    conditions: list[Expression] = []
    for condition in below.conditions:
        if columns_of(condition) - outer <= free:
            conditions.append(condition)
            continue
        found = equality(condition, outer)
        if found is None:
            return None
        function, inner, other = found
        key = computed.column(inner, "key")
        keys.append(key)
        never_null += [key] if function == "=" else []
        conditions.append(Call(function, (Ref(key), other), BOOLEAN))
    return Keyed(
        computed.below(below.plan), tuple(dict.fromkeys(keys)), tuple(conditions), tuple(dict.fromkeys(never_null))
    )


def equality(condition: Expression, outer: Columns) -> tuple[str, Expression, Expression] | None:
    """`=` or `<=>`, the plan's side, and the outer row's side. The plan's side is cast to the type of the comparison, so that
    values which the condition treats as equal are one value."""
    match condition:
        case Call("=" | "<=>" as function, (one, other)):
            for inner, outside in ((one, other), (other, one)):
                read = columns_of(inner)
                if not read or read & outer or not columns_of(outside) <= outer:
                    continue
                if interchangeable(inner.type, outside.type):
                    return function, inner, outside
                common = common_type(inner.type, outside.type)
                if common is None:
                    return None
                return function, inner if inner.type == common else Cast(inner, common), outside
    return None
