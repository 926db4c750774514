"""Takes a correlated subquery apart: a plan that reads nothing of the outer row, and the conditions that tie the two.

    select ... from T where T.k = outer.k and T.x > 3      ->      select ... from T where T.x > 3,   T.k = outer.k

What always holds: for every outer row, the rows of `Uncorrelated.plan` for which all conditions are true are the rows of
the subquery, as often as they are there. Each operator on the way either lets a condition pass or stops the attempt:

| operator          | a condition on columns of its input passes                                                      |
|-------------------|-------------------------------------------------------------------------------------------------|
| Filter, Sort      | always                                                                                          |
| Project           | always; the columns it needs come out too                                                       |
| Join              | from both sides of an inner join; from the side that keeps its rows of any other                |
| GroupBy by K      | on columns of K always; else only an equality with the outer row, whose column joins K: all     |
|                   | rows with that value are one outer row's, so groups stay what they were                         |
| Window            | an equality likewise, whose column joins PARTITION BY                                           |
| Limit of a Sort   | an equality likewise: the first rows of all become the first of each value, by row_number()     |
| GroupBy, no keys  | never: over no rows it yields a row, and the condition above it would take that row away        |
| set operations    | never                                                                                           |

An equality that compares under a cast (a string with a number) adds the cast column to K: '1' and '01' are two strings
and one number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from unshuffle.algebra.expressions import (
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
from unshuffle.algebra.logical import (
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
from unshuffle.algebra.logical import walk as operators
from unshuffle.algebra.predicates import conjunction, conjuncts, is_deterministic
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column, ColumnNumbers
from unshuffle.catalog.types import common_type
from unshuffle.properties import interchangeable
from unshuffle.rules.computed import Computed
from unshuffle.rules.conditions import substitute, taken_by_subqueries

BOOLEAN = pa.bool_()
TRUE = Literal(True, BOOLEAN)
Columns = frozenset[Column]


@dataclass(frozen=True, slots=True)
class Uncorrelated:
    """`late` are columns that only the outer row completes: what they are, over the plan's columns and the outer ones."""

    plan: Plan
    conditions: tuple[Expression, ...]
    late: Mapping[Column, Expression]


def has_subquery(expression: Expression) -> bool:
    return any(isinstance(part, ScalarSubquery | Exists | InSubquery) for part in walk(expression))


def reads(plan: Plan, outer: Columns) -> bool:
    return any(columns_of(e) & outer for node in operators(plan) for e in expressions_of(node))


def substituted(expression: Expression, values: Mapping[Column, Expression]) -> Expression | None:
    """The expression with columns replaced; None where one stands inside a subquery's plan, out of reach."""
    if not values:
        return expression
    return substitute(expression, values) if taken_by_subqueries(expression).isdisjoint(values) else None


# --- pulling conditions up


def pull(plan: Plan, outer: Columns, numbers: ColumnNumbers) -> Uncorrelated | None:
    """The plan without what it reads of `outer`, or None where that cannot be taken out."""
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
    stay, lift = split
    kept = Filter(below.plan, stay) if stay is not None else below.plan
    return Uncorrelated(kept, (*below.conditions, *lift), below.late)


def _split(
    condition: Expression | None, late: Mapping[Column, Expression], outer: Columns
) -> tuple[Expression | None, list[Expression]] | None:
    """What of a condition can stay and what must be lifted; None where what must cannot be."""
    stay: list[Expression] = []
    lift: list[Expression] = []
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
                lift.append(part)
    return conjunction(stay), lift


def factored(condition: Expression) -> Sequence[Expression]:
    """(a and b) or (a and c) as a, b or c. Both laws used, distribution and absorption, hold with NULLs too."""
    if not isinstance(condition, Call) or condition.function != "or":
        return (condition,)
    choices = [conjuncts(part) for part in condition.arguments]
    common = [part for part in choices[0] if all(part in choice for choice in choices[1:])]
    if not common:
        return (condition,)
    rests = [conjunction(part for part in choice if part not in common) for choice in choices]
    given = [rest for rest in rests if rest is not None]
    return (*common, connect("or", given)) if len(given) == len(rests) else common


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
    stay, lift = split
    match plan.kind:
        case JoinKind.INNER:
            passes = True
        case JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI:
            passes = not lift and not right.conditions and not right.late
        case JoinKind.RIGHT:
            passes = not lift and not left.conditions and not left.late
        case JoinKind.FULL:
            passes = False
    if not passes:
        return None
    conditions = (*left.conditions, *right.conditions, *lift)
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
    """Does the operator itself do without the outer row?"""
    return all(columns_of(e).isdisjoint(outer | below.late.keys()) for e in expressions_of(plan))


# --- equalities with the outer row


@dataclass(frozen=True, slots=True)
class Keyed:
    """Conditions that are equalities of `keys`, columns of the plan, with the outer row, or say nothing of the plan."""

    plan: Plan
    keys: tuple[Column, ...]
    conditions: tuple[Expression, ...]
    never_null: tuple[Column, ...]  # keys that are not NULL in a row that matches


def by_keys(below: Uncorrelated, outer: Columns, numbers: ColumnNumbers, free: Columns = frozenset()) -> Keyed | None:
    """The conditions as equalities of columns; those that read only `free` columns of the plan may be anything."""
    computed = Computed(numbers)
    keys: list[Column] = []
    solid: list[Column] = []
    conditions: list[Expression] = []
    for condition in below.conditions:
        if columns_of(condition) - outer <= free:
            conditions.append(condition)
            continue
        found = equality(condition, outer)
        if found is None:
            return None
        word, inner, other = found
        key = computed.column(inner, "key")
        keys.append(key)
        solid += [key] if word == "=" else []
        conditions.append(Call(word, (Ref(key), other), BOOLEAN))
    return Keyed(
        computed.beneath(below.plan), tuple(dict.fromkeys(keys)), tuple(conditions), tuple(dict.fromkeys(solid))
    )


def equality(condition: Expression, outer: Columns) -> tuple[str, Expression, Expression] | None:
    """`=` or `<=>`, the side of the plan, and the side of the outer row. The plan's side has the type in which the two are
    compared, so that what the condition calls equal is one value."""
    match condition:
        case Call("=" | "<=>" as word, (one, other)):
            for inner, outside in ((one, other), (other, one)):
                read = columns_of(inner)
                if not read or read & outer or not columns_of(outside) <= outer:
                    continue
                if interchangeable(inner.type, outside.type):
                    return word, inner, outside
                common = common_type(inner.type, outside.type)
                if common is None:
                    return None
                return word, inner if inner.type == common else Cast(inner, common), outside
    return None
