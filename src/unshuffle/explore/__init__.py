"""Exploration rules: alternatives that compete on cost. Disabling one may cost speed, never correctness."""
