"""What is assumed where nothing is known, all in one place. docs/statistics.md has the same table for readers.

rows of a table that only Spark knows          1,000,000
rows of files other than Parquet               bytes / (width of the columns x 1.0)
distinct values of a column                    a tenth of its rows; all of them for a key; 2 for a boolean
column = value                                 1 / distinct values
column < value, and other ranges               1/3; both ends given 1/4
LIKE with a leading wildcard                   1/10 a run of literal text
IS NULL                                        1/100
EXISTS, IN (query), a call that we cannot read 1/2, 1/2, 1/3
a row with no match in an anti join            at least 1 row in 100
what a PROCESS yields                          one row a row
what a REDUCE or COMBINE yields                one row a group
"""

from __future__ import annotations

UNKNOWN_TABLE_ROWS = 1_000_000.0
UNKNOWN_DISTINCT_SHARE = 0.1
RANGE = 1 / 3
INTERVAL = 1 / 4
LIKE_RUN = 0.1
IS_NULL = 0.01
SUBQUERY = 0.5
UNKNOWN_CONDITION = 1 / 3
BOOLEAN = 0.5
LEAST_UNMATCHED = 0.01
INTERSECTION = 0.5
