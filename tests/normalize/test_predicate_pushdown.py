"""Predicate pushdown through operators that no query text makes. Queries are in tests/plans/predicate_pushdown.txt."""

from __future__ import annotations

from tests.support.binding import bind, context_for, expected
from tests.support.random_plans import USER
from tests.support.show import show
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import BOOLEAN, INT
from unshuffle.normalize.rules import PUSH_THROUGH_OTHERS
from unshuffle.normalize.traversal import descend
from unshuffle.plan.expressions import Call, Literal, Ref
from unshuffle.plan.logical import Expand, Filter, Plan, Process, Reduce


def pushed(plan: Plan) -> str:
    return show(descend(plan, PUSH_THROUGH_OTHERS, context_for(plan)))


def equals(column: Column, value: int) -> Call:
    return Call("=", (Ref(column), Literal(value, INT)), BOOLEAN)


def test_user_operators() -> None:
    """Predicates are pushed below a processor on the columns that it passes through, and below a reducer only on its keys."""
    scan = bind("select * from t")
    a, b = scan.columns[:2]
    repeated_a, repeated_b, made = Column(101, "a", INT), Column(102, "b", INT), Column(103, "made", INT)
    readonly = ((repeated_a, a), (repeated_b, b))
    condition = Call("and", (equals(repeated_a, 1), equals(repeated_b, 2), equals(made, 3)), BOOLEAN)
    process = Process(scan, USER, (repeated_a, repeated_b, made), readonly)
    assert pushed(Filter(process, condition)) == expected(
        """
        filter made = 3
          process -> a, b, made
            filter (a = 1) AND (b = 2)
              t(a, b, c, s, x)
        """
    )
    reduce = Reduce(scan, (a,), (), USER, (repeated_a, repeated_b, made), readonly)
    assert pushed(Filter(reduce, condition)) == expected(
        """
        filter (b = 2) AND (made = 3)
          reduce -> a, b, made
            filter a = 1
              t(a, b, c, s, x)
        """
    )


def test_expand() -> None:
    """A condition on a key that one set lacks stays above. If it rejects NULL, it is copied below."""
    scan = bind("select * from t")
    a, b, c = scan.columns[:3]
    keys = ((Column(101, "a'", INT), a), (Column(102, "b'", INT), b))
    expand = Expand(scan, keys, ((a, b), (a,)), Column(103, "set", INT))
    is_null = Call("isnull", (Ref(keys[1][0]),), BOOLEAN)
    assert pushed(
        Filter(expand, Call("and", (equals(keys[0][0], 1), equals(keys[1][0], 2), equals(c, 3)), BOOLEAN))
    ) == expected(
        """
        filter b' = 2
          expand (a, b), (a)
            filter (c = 3) AND (a = 1) AND (b = 2)
              t(a, b, c, s, x)
        """
    )
    assert pushed(Filter(expand, is_null)) == expected(
        """
        filter b' IS NULL
          expand (a, b), (a)
            t(a, b, c, s, x)
        """
    )
