"""The registry of function facts: signatures, result types, and how aggregates decompose."""
