"""The parts of `benchmarks/calibrate.py`: the measured jobs, the plans that Spark ran, their times, and the fit."""
