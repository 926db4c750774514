"""Rewrites of projections and columns."""
