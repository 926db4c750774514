"""Catalyst's expressions as ours."""
