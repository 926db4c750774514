"""From text to a bound logical plan: sqlglot parses, the SCOPE statements and the binder are ours. No JVM."""
