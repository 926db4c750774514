"""The parts of `benchmarks/calibrate.py`: jobs to measure, what Spark ran for them, what it took, and the fit."""
