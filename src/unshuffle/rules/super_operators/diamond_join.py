"""Diamond Join (Figure 6b): groupings of one input by the same keys, joined on those keys.

                JOIN on a                                 guarded by which branch has the group
            e3 /     \\ e4                                           |
        GROUP BY a   GROUP BY a           -->             GROUP BY a, guarded aggregates
            e1 \\     / e2                                           |
                input                                             input

Each side has at most one row for a group, and so has the result; only a full outer join has two, where both sides have the
group and the rest of the condition keeps them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import pyarrow as pa

from unshuffle.algebra.expressions import Call, Expression, Literal, Ref, connect
from unshuffle.algebra.logical import Expand, Filter, Join, Plan, Project
from unshuffle.algebra.predicates import conjunction, conjuncts
from unshuffle.catalog.joins import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.rules.conditions import is_movable, substitute
from unshuffle.rules.super_operators.abstract import Branch
from unshuffle.rules.super_operators.grouped_pass import (
    BOOLEAN,
    GroupedPass,
    branches_of,
    grouped_pass,
    groupings,
    has_keys,
    when,
)
from unshuffle.search.memo import Group, Memo

FALSE = Literal(False, BOOLEAN)


def diamond_join(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A join of two groupings of one input on the keys of both is one grouping with the aggregates of both: a group of one
    side meets the same group of the other and no more. Further conditions of the join choose among the groups.

    Not if the join compares fewer columns than the groups have: a group would meet several."""
    if not isinstance(plan, Join) or plan.condition is None:
        return
    sides = cast("tuple[Group, Group]", plan.children)
    found = groupings(sides, has_keys) if is_movable(plan.condition) else None
    matched = branches_of(found) if found is not None else None
    if matched is None:
        return
    leaf, branches = matched
    compared = keys_compared(plan.condition, keys_above(branches[0]), keys_above(branches[1]), branches[0].keys)
    if compared is not None:
        yield joined(plan, grouped_pass(leaf, branches, memo), *compared, memo)


def diamond_of_totals(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """Totals of one input, each of its own part of the rows, side by side: one row, from one pass.

    Not with groups on one side: there may be none, and then the pass would have no row."""
    if not isinstance(plan, Join) or plan.kind is not JoinKind.INNER:
        return
    if plan.condition is not None and not is_movable(plan.condition):
        return
    found = groupings(cast("tuple[Group, Group]", plan.children), lambda grouping: not grouping.keys)
    matched = branches_of(found) if found is not None else None
    if matched is not None:
        leaf, branches = matched
        yield joined(plan, grouped_pass(leaf, branches, memo), (), conjuncts(plan.condition), memo)


Named = Mapping[Column, Expression]  # columns where two sides meet, and what they are in the leaf


def keys_compared(
    condition: Expression, left: Named, right: Named, keys: Iterable[Expression]
) -> tuple[list[Column], list[Expression]] | None:
    """The key columns of the left side that must not be NULL, and what else the join asks; None if it does not compare every
    key of one side with the same of the other (Algorithm 2)."""
    wanted = frozenset(keys)
    left, right = ({column: e for column, e in side.items() if e in wanted} for side in (left, right))
    open_ = set(wanted)
    solid: list[Column] = []
    rest: list[Expression] = []
    for part in conjuncts(condition):
        match part:
            case Call("=" | "<=>" as how, (Ref(column=one), Ref(column=other))):
                if one in right and other in left:
                    one, other = other, one
                if one in left and other in right and left[one] == right[other] and one.type == other.type:
                    open_.discard(left[one])
                    if how == "=":
                        solid.append(one)
                    continue
            case _:
                pass
        rest.append(part)
    return None if open_ else (solid, rest)


def keys_above(branch: Branch) -> dict[Column, Expression]:
    """What a branch calls its keys where it meets the other (TraverseUp), and what each is in the leaf."""
    names = dict(zip(branch.grouping.keys, branch.keys, strict=True))
    return {
        column: names[source.column]
        for column, source in branch.above.outputs.items()
        if isinstance(source, Ref) and source.column in names
    }


def joined(plan: Join, once: GroupedPass, solid: Sequence[Column], rest: Sequence[Expression], memo: Memo) -> Plan:
    values = {column: value for outputs in once.outputs for column, value in outputs.items()}
    left, right = once.present
    solid_keys = (Call("isnotnull", (values[column],), BOOLEAN) for column in solid if column.nullable)
    asked = (*solid_keys, *(substitute(each, values) for each in rest))
    mine = frozenset(once.outputs[0])
    both = conjunction([*(each for each in (left, right) if each is not None), *asked])
    met = None if both is None else holds(both)
    rows: Plan = once.plan

    def made(of_left: Expression | None, of_right: Expression | None) -> Plan:
        """The columns of the join, those of each side where a condition holds."""
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
            rows = filtered(rows, conjunction([*([left] if left else []), not_(met)]))
            return made(None, None)
        case JoinKind.LEFT:
            rows = filtered(rows, left)
            return made(None, met)
        case JoinKind.RIGHT:
            rows = filtered(rows, right)
            return made(met, None)
        case _:
            # Once for the left side, with the right one where they meet, and once for a right side that met nothing.
            number = memo.numbers.new("side", pa.int32(), nullable=False)
            rows = Expand(rows, (), ((), ()), number)
            of_left = Call("=", (Ref(number), Literal(0, pa.int32())), BOOLEAN)
            of_right = Call("=", (Ref(number), Literal(1, pa.int32())), BOOLEAN)
            first = conjunction([of_left, *([left] if left else [])])
            second = conjunction([of_right, *([right] if right else []), not_(met)])
            assert first is not None
            assert second is not None
            rows = Filter(rows, connect("or", [first, second]))
            shown = of_right if met is None else connect("or", [of_right, met])
            return made(of_left, shown if met is not None else None)


def filtered(rows: Plan, condition: Expression | None) -> Plan:
    return rows if condition is None else Filter(rows, condition)


def holds(condition: Expression) -> Expression:
    """True or false: NULL is not true."""
    return Call("coalesce", (condition, FALSE), BOOLEAN)


def not_(condition: Expression | None) -> Expression:
    return FALSE if condition is None else Call("not", (condition,), BOOLEAN)


RULES = (diamond_join, diamond_of_totals)
