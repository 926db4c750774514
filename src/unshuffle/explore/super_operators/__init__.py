"""Super-operators: whole sub-queries over one input as a single grouped pass (PVLDB 13(3), 2019).

    SELECT a, count(*) ... WHERE p GROUP BY a      \\                    SELECT a, count(*) FILTER (WHERE p),
    UNION ALL                                       |   one pass   -->         sum(x) FILTER (WHERE q)
    SELECT a, sum(x)   ... WHERE q GROUP BY a      /                    GROUP BY a, then a row for each that has one

A rule matches an abstract operator tree (`abstract`): core operators, connected by edges that may hold any number of
filters and projections. When the tree is found in the memo, each of its edges is folded into one predicate and one
projection. The replacement is offered as another expression of the group, built from ordinary operators. It therefore
competes on cost, can be split into a partial and a final aggregate, is given exchanges and sorts like any other plan, and
composes with other super-operators.

docs/super-operators.md shows a picture of each.
"""
