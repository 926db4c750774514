"""Super-operators: whole sub-queries over one input as a single grouped pass (PVLDB 13(3), 2019).

    SELECT a, count(*) ... WHERE p GROUP BY a      \\                    SELECT a, count(*) FILTER (WHERE p),
    UNION ALL                                       |   one pass   -->         sum(x) FILTER (WHERE q)
    SELECT a, sum(x)   ... WHERE q GROUP BY a      /                    GROUP BY a, then a row for each that has one

A rule is an abstract operator tree (`abstract`): core operators, and between them edges on which any number of filters and
projections may stand. Where the tree is found in the memo, its edges are summed up in a predicate and a projection each,
and what it stands for is offered as one more expression of the group, made of ordinary operators: so it competes on cost, is
split into halves, finds its exchange and its order like any other, and composes with other super-operators.

docs/super-operators.md has a picture of each.
"""

from __future__ import annotations

from unshuffle.rules.super_operators import (
    diamond_join,
    diamond_union,
    exists_in_group,
    first_row,
    join_back,
    several_outputs,
    two_granularities,
    union_then_group,
)

RULES = (
    *diamond_union.RULES,
    *diamond_join.RULES,
    *join_back.RULES,
    *two_granularities.RULES,
    *union_then_group.RULES,
    *exists_in_group.RULES,
    *first_row.RULES,
)
OF_OUTPUTS = several_outputs.several_outputs  # looks at all outputs of a script, and not at one operator
NAMES = frozenset((*(rule.__name__ for rule in RULES), OF_OUTPUTS.__name__))
