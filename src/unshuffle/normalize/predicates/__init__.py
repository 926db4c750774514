"""Rewrites of predicates: inference, pushdown, constant conditions, pruning of scans."""
