"""Expressions: names, literals, operators, function calls."""
