"""One session under load: many threads or many queries, every result checked, and what a session may leave behind.

`operations` are the things that threads do, `footprint` is what is measured between them, `bounds` says how much of it may
grow, `driver` runs the threads. `tools/load.py` runs them for minutes, `tests/spark/test_load.py` for seconds."""
