"""Diamond Join (Figure 6b): groupings of one input by the same keys, joined on those keys.

                JOIN on a                                 guarded by which branch has the group
            e3 /     \\ e4                                           |
        GROUP BY a   GROUP BY a           -->             GROUP BY a, guarded aggregates
            e1 \\     / e2                                           |
                input                                             input

Each side has at most one row for a group, and so has the result. A full outer join is the exception: it has two rows if both
sides have the group and a residual condition keeps them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Branch, Edge
from unshuffle.explore.super_operators.grouped_pass import (
    BOOLEAN,
    GroupedPass,
    Reached,
    branches_of,
    grouped_pass,
    groupings,
    has_keys,
    when,
)
from unshuffle.plan.expressions import Call, Expression, Literal, Ref, columns_of, connect
from unshuffle.plan.logical import Expand, Filter, GroupBy, Join, Plan, Project
from unshuffle.plan.movable_conditions import is_movable, substitute
from unshuffle.plan.predicates import conjunction, conjuncts
from unshuffle.search.memo import Group, Memo, input_groups

FALSE = Literal(False, BOOLEAN)


def diamond_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of two groupings of one input on all their keys is one grouping with the aggregates of both: a group of one side
    matches the same group of the other side and no more. Further conditions of the join filter the groups. A semi- or
    anti-join asks only whether a group has certain rows, so these rows need no grouping of their own.

    Unsound if the join compares only some of the keys: a group would match several groups."""
    if not isinstance(plan, Join) or plan.condition is None:
        return
    found = _groupings(plan) if is_movable(plan.condition) else None
    matched = branches_of(found) if found is not None else None
    if matched is None:
        return
    leaf, branches = matched
    compared = keys_compared(plan.condition, keys_above(branches[0]), keys_above(branches[1]), branches[0].keys)
    if compared is not None:
        yield joined(plan, grouped_pass(leaf, branches, memo), *compared, memo)


def _groupings(plan: Join) -> list[Reached] | None:
    """The groupings that a join reads. The right side of a semi- or anti-join may be rows: grouping them by the columns that
    the join compares does not change which groups of the left side have a match."""
    left, right = input_groups(plan)
    found = groupings((left, right), has_keys)
    if found is not None or plan.kind not in (JoinKind.SEMI, JoinKind.ANTI):
        return found
    mine = groupings((left,), has_keys)
    columns = _compared_columns(plan, right) if mine is not None else None
    if mine is None or columns is None:
        return None
    grouping = GroupBy(right, columns, ())
    return [*mine, (Edge({column: Ref(column) for column in columns}, (), right), grouping)]


def _compared_columns(plan: Join, right: Group) -> tuple[Column, ...] | None:
    """The columns of the right side that the join compares with the left side; None if it reads others, or none."""
    compared: dict[Column, None] = {}
    for part in conjuncts(plan.condition):
        match part:
            case Call("=" | "<=>", (Ref(column=one), Ref(column=other))) if one in right.column_set:
                compared[one] = None
            case Call("=" | "<=>", (Ref(column=one), Ref(column=other))) if other in right.column_set:
                compared[other] = None
    read = columns_of(plan.condition) & right.column_set if plan.condition is not None else frozenset()
    return tuple(compared) if compared and read <= compared.keys() else None


def diamond_of_totals(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of two aggregates without keys over one input is one aggregate without keys: both sides have exactly one row.

    Unsound if one side has keys: the input may be empty, and then the join has no row but the pass has one."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER:
        return
    if plan.condition is not None and not is_movable(plan.condition):
        return
    found = groupings(input_groups(plan), lambda grouping: not grouping.keys)
    matched = branches_of(found) if found is not None else None
    if matched is not None:
        leaf, branches = matched
        yield joined(plan, grouped_pass(leaf, branches, memo), (), conjuncts(plan.condition), memo)


Named = Mapping[Column, Expression]  # columns of one side of a join, in terms of the leaf


def keys_compared(
    condition: Expression, left: Named, right: Named, keys: Iterable[Expression]
) -> tuple[list[Column], list[Expression]] | None:
    """The key columns of the left side that must not be NULL, and the residual conditions; None if the condition does not
    compare every key of one side with the same key of the other (Algorithm 2)."""
    wanted = frozenset(keys)
    left, right = ({column: e for column, e in side.items() if e in wanted} for side in (left, right))
    compared: set[Expression] = set()
    not_null: list[Column] = []
    residual: list[Expression] = []
    for part in conjuncts(condition):
        key = _compared_key(part, left, right)
        if key is None:
            residual.append(part)
            continue
        compared.add(left[key])
        if isinstance(part, Call) and part.function == "=":
            not_null.append(key)
    return (not_null, residual) if wanted <= compared else None


def _compared_key(condition: Expression, left: Named, right: Named) -> Column | None:
    """The left column, if the condition is an equality of the same key on both sides."""
    match condition:
        case Call("=" | "<=>", (Ref(column=one), Ref(column=other))):
            if one in right and other in left:
                one, other = other, one
            is_same_key = one in left and other in right and left[one] == right[other]
            return one if is_same_key and one.type == other.type else None
        case _:
            return None


def keys_above(branch: Branch) -> dict[Column, Expression]:
    """The keys of a branch under their names above it (TraverseUp), in terms of the leaf."""
    names = dict(zip(branch.grouping.keys, branch.keys, strict=True))
    return {
        column: names[source.column]
        for column, source in branch.above.outputs.items()
        if isinstance(source, Ref) and source.column in names
    }


def joined(
    plan: Join, once: GroupedPass, not_null: Sequence[Column], residual: Sequence[Expression], memo: Memo
) -> Plan:
    values = {column: value for outputs in once.outputs for column, value in outputs.items()}
    left, right = once.present
    not_null_keys = (Call("isnotnull", (values[column],), BOOLEAN) for column in not_null if column.nullable)
    asked = (*not_null_keys, *(substitute(each, values) for each in residual))
    mine = frozenset(once.outputs[0])
    both = conjunction([*(each for each in (left, right) if each is not None), *asked])
    matched = None if both is None else holds(both)
    rows: Plan = once.plan

    def made(of_left: Expression | None, of_right: Expression | None) -> Plan:
        """The columns of the join; those of a side are NULL where its condition does not hold."""
        outputs = []
        for column in plan.columns:
            condition = of_left if column in mine else of_right
            outputs.append((column, when(condition, values[column])))
        return Project(rows, tuple(outputs))

    match plan.kind:
        case JoinKind.INNER | JoinKind.SEMI:
            rows = filtered(rows, both)
            return made(None, None)
        case JoinKind.ANTI:
            rows = filtered(rows, conjunction([*([left] if left else []), not_(matched)]))
            return made(None, None)
        case JoinKind.LEFT:
            rows = filtered(rows, left)
            return made(None, matched)
        case JoinKind.RIGHT:
            rows = filtered(rows, right)
            return made(matched, None)
        case _:
            # One copy for the left side, with the right side where they match; one for a right side without a match.
            number = memo.numbers.new("side", pa.int32(), nullable=False)
            rows = Expand(rows, (), ((), ()), number)
            of_left = Call("=", (Ref(number), Literal(0, pa.int32())), BOOLEAN)
            of_right = Call("=", (Ref(number), Literal(1, pa.int32())), BOOLEAN)
            first = conjunction([of_left, *([left] if left else [])])
            second = conjunction([of_right, *([right] if right else []), not_(matched)])
            assert first is not None
            assert second is not None
            rows = Filter(rows, connect("or", [first, second]))
            shown = of_right if matched is None else connect("or", [of_right, matched])
            return made(of_left, shown if matched is not None else None)


def filtered(rows: Plan, condition: Expression | None) -> Plan:
    return rows if condition is None else Filter(rows, condition)


def holds(condition: Expression) -> Expression:
    """NULL counts as false."""
    return Call("coalesce", (condition, FALSE), BOOLEAN)


def not_(condition: Expression | None) -> Expression:
    return FALSE if condition is None else Call("not", (condition,), BOOLEAN)
