"""Facts about values: functional dependencies, equivalences and constants, and how operators propagate them."""
