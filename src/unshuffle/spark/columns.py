"""PySpark columns for the columns of a frame."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from unshuffle.plan.sql import quote


def sort_column(name: str, descending: bool, nulls_first: bool) -> Column:
    """A column of a frame as a sort key."""
    column = col(quote(name))
    if descending:
        return column.desc_nulls_first() if nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if nulls_first else column.asc_nulls_last()
