"""Rewrites of subqueries into joins."""
