"""Rewrites of sorts."""
