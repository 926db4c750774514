"""Constraints that a user declares on rowsets: keys, functional dependencies, and conditions on parts.

A false constraint would make a wrong answer, not only a slow plan, so constraints are checked on the data before any plan
relies on them. Binding a query collects its constraints without reading rows (`declared_constraint.BoundScript`).
`Declarations.check` checks them and hands out the script, whose scans then carry true facts. It takes the cheapest way
that works:

1. The constraint follows from facts that `analyze` discovered in the same files.
2. It was checked before, and the files are unchanged (`catalog/constraints/check_results.py`).
3. pyarrow reads the columns of Parquet files (`catalog/constraints/counterexamples.py`).
4. Spark runs a GROUP BY for everything else: other formats, a user's extractor, tables and views of the session.
   Conditions are always evaluated by Spark.
"""

from unshuffle.declarations.checking import CheckProgress, ConstraintCounter
from unshuffle.declarations.declarations import CheckMode, Declarations, has_parts
from unshuffle.declarations.declared_constraint import BoundScript, DeclaredConstraint, Leaf

__all__ = [
    "BoundScript",
    "CheckMode",
    "CheckProgress",
    "ConstraintCounter",
    "Declarations",
    "DeclaredConstraint",
    "Leaf",
    "has_parts",
]
