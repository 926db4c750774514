"""Queries: WITH, set operations, FROM, joins, SELECT, GROUP BY."""
