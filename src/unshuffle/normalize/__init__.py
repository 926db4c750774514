"""Normalization: rewrites that always help, applied before the search in the order that `rules` lists."""
