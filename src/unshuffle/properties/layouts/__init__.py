"""Layouts of rows: partition functions, delivered properties, exchanges, and how operators propagate them."""
