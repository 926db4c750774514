"""Immutable expressions and logical operators: what a query means, once every name is resolved."""
