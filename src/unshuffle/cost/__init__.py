"""The cost model: machines, the formulas of operators and exchanges, and what a plan costs."""
