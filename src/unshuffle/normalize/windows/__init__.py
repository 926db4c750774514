"""Rewrites of window functions."""
