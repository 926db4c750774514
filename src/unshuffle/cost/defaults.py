"""What is assumed where nothing is known, all in one place. docs/statistics.md has the same table for readers.

rows of a table that only Spark knows          1,000,000; of a query that only Spark understands, its largest input's
rows of files other than Parquet               bytes / width of a row
distinct values of a column                    a tenth of its rows; all of them for a key; 2 for a boolean
column = value                                 1 / distinct values
column < value, and other ranges               1/3; with both ends 1/4
LIKE                                           1/10 for its first run of literal text, 1/4 for each more
LIKE 'beginning%', of files without statistics  at least 1/100
IS NULL                                        1/100
a boolean column, EXISTS, IN (query)           1/2
a condition that cannot be read                1/3
rows that an anti join keeps                   at least 1 in 100
rows that INTERSECT and EXCEPT keep            half of what they could
what a PROCESS yields                          one row a row
what a REDUCE or COMBINE yields                one row a group
"""

from __future__ import annotations

UNKNOWN_TABLE_ROWS = 1_000_000.0
UNKNOWN_DISTINCT_SHARE = 0.1
RANGE = 1 / 3
INTERVAL = 1 / 4
LIKE_RUN = 0.1
LIKE_BEGINNING = 0.01
IS_NULL = 0.01
SUBQUERY = 0.5
UNKNOWN_CONDITION = 1 / 3
BOOLEAN = 0.5
LEAST_UNMATCHED = 0.01
INTERSECTION = 0.5
