"""User-defined operators on Spark: Arrow functions for Spark's Python workers."""
