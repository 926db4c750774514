"""Semi- and anti-joins of an input with itself: does a row's group have another row, one that differs, one that is less?

     SEMI or ANTI JOIN on a, x <> x'                  over the groups of a, of rows that satisfy p':
        e1 /       \\ e2: p'             -->             count, or min and max of x'
           \\       /                                             |
             input                                             input

an x' exists with         if and only if
x' <> x                   min x' <> x or max x' <> x
x' <  x                   min x' < x
x' >  x                   max x' > x
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field

from unshuffle.catalog.join_kinds import JoinKind
from unshuffle.catalog.schema import Column
from unshuffle.explore.super_operators.abstract import Edge, edges, reaches
from unshuffle.explore.super_operators.grouped_pass import BOOLEAN, NONE, ONE, when
from unshuffle.explore.super_operators.leaves import common_leaves
from unshuffle.explore.super_operators.windowed_pass import WindowedPass, rows_with_values
from unshuffle.frozen import dataclass
from unshuffle.plan.expressions import AggregateCall, Call, Expression, Ref, columns_of, connect
from unshuffle.plan.functions.scalars import COMPARISONS, FLIPPED
from unshuffle.plan.logical import Join, Plan, Reference, Scan
from unshuffle.plan.movable_conditions import is_movable
from unshuffle.plan.predicates import conjunction, conjuncts
from unshuffle.search.memo import Memo, input_groups


def exists_in_group(plan: Plan, memo: Memo) -> Iterator[Plan]:
    """A semi- or anti-join of an input with itself asks whether a row's group has another row of a kind. A window that counts
    these rows, or takes the least and the greatest of their values, answers it without a join.

    Unsound for two comparisons with the other row: the least value of each need not be in the same row."""
    if not isinstance(plan, Join) or plan.kind not in (JoinKind.SEMI, JoinKind.ANTI) or plan.condition is None:
        return
    left, right = input_groups(plan)
    if not all(reaches(side, (Scan, Reference)) for side in (left, right)) or not is_movable(plan.condition):
        return
    for leaf, (rows, others) in common_leaves((list(edges(left)), list(edges(right)))):
        matched = _matched(plan, leaf, rows, others, memo)
        if matched is not None:
            yield rows_with_values(plan, matched, memo)


def _matched(plan: Join, leaf: Plan, rows: Edge, others: Edge, memo: Memo) -> WindowedPass | None:
    question = _Question(rows, others, list(others.predicates))
    if not all(map(question.add, conjuncts(plan.condition))) or not question.keys or len(question.compared) > 1:
        return None
    if (rows.predicates or others.predicates) and not all(isinstance(key, Ref) for key in question.keys):
        return None  # a key may be safe to compute only for the rows that satisfy the predicates
    calls, condition = _answer(question.compared, conjunction(question.of_others), memo)
    keys = tuple(dict.fromkeys(question.keys))
    return WindowedPass(leaf, rows, keys, calls, {}, (condition,), question.not_null, question.residual)


@dataclass(slots=True)
class _Question:
    """What a join asks of a row and of the other rows of its group."""

    rows: Edge
    others: Edge
    of_others: list[Expression]  # conditions on the other row alone, over the leaf's columns
    keys: list[Expression] = field(default_factory=list)
    not_null: list[Column] = field(default_factory=list)
    residual: list[Expression] = field(default_factory=list)  # conditions on the row alone
    compared: list[_Comparison] = field(default_factory=list)

    def add(self, condition: Expression) -> bool:
        """Sorts a conjunct of the join into its kind. False if it is of none, so that the rule must not fire."""
        read = columns_of(condition)
        if read <= self.rows.outputs.keys():
            self.residual.append(condition)
            return True
        if read <= self.others.outputs.keys():
            self.of_others.append(self.others.down(condition))
            return True
        comparison = self._comparison(condition)
        return comparison is not None and self._add_comparison(*comparison)

    def _comparison(self, condition: Expression) -> _Comparison | None:
        """A comparison with the row's side first."""
        mine, theirs = self.rows.outputs.keys(), self.others.outputs.keys()
        match condition:
            case Call(name, (one, other)) if columns_of(one) <= mine and columns_of(other) <= theirs:
                return name, one, other
            case Call(name, (other, one)) if columns_of(one) <= mine and columns_of(other) <= theirs:
                return FLIPPED.get(name, name), one, other
            case _:
                return None

    def _add_comparison(self, name: str, one: Expression, other: Expression) -> bool:
        left, right = self.rows.down(one), self.others.down(other)
        if name in ("=", "<=>") and left == right and isinstance(one, Ref):
            self.keys.append(left)
            self.not_null += [one.column] if name == "=" else []
            return True
        if name in COMPARISONS and name != "=" and right.type is not None and left.type == right.type:
            self.compared.append((name, left, right))
            return True
        return False


_Comparison = tuple[str, Expression, Expression]  # the function, the row's value, the other row's value


def _answer(
    compared: Sequence[_Comparison], kind: Expression | None, memo: Memo
) -> tuple[tuple[tuple[Column, AggregateCall], ...], Expression]:
    """The aggregates of the other rows, and the condition on them for a match to exist. A window function has no FILTER, so
    its argument is NULL for rows that do not count."""
    if not compared:
        count = memo.numbers.new("others", NONE.type, nullable=False)
        call = AggregateCall("count", (when(kind, ONE),), NONE.type)
        return ((count, call),), Call(">", (Ref(count), NONE), BOOLEAN)
    ((name, value, other),) = compared
    ends = {"<>": ("min", "max"), "<": ("max",), "<=": ("max",), ">": ("min",), ">=": ("min",)}[name]
    columns = [memo.numbers.new(end, other.type) for end in ends]
    calls = tuple(
        (column, AggregateCall(end, (when(kind, other),), other.type))
        for end, column in zip(ends, columns, strict=True)
    )
    return calls, connect("or", [Call(name, (value, Ref(column)), BOOLEAN) for column in columns])
