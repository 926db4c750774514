"""The one layer that imports pyspark: lowering, running, files, user-defined operators and measurement."""
