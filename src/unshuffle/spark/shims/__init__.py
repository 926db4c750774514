"""Every use of Spark's internals. `gateway` calls into the JVM, `catalyst` handles logical plans; the rest build on them."""
