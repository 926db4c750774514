"""Random tables, queries and settings, and the oracles that hold our answers against plain Spark's. See tools/hunt.py."""
