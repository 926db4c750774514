"""Matching what a plan delivers against what is required: a proof, or exactly what is missing."""
