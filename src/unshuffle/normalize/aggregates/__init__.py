"""Rewrites of aggregates."""
